"""Login links: their length."""

from __future__ import annotations

import httpx
from fastapi import FastAPI

from vil_bridge.runtime.access_tokens import Role, Tokens
from vil_bridge.web.auth.access import Access
from vil_bridge.web.auth.login import login_router


async def test_a_link_longer_than_any_is_not_looked_up() -> None:
    access, app = Access(Tokens({Role.VIEW: "a" * 32})), FastAPI()
    app.include_router(login_router(access))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://bridge"
    ) as web:
        codes = [
            (await web.get("/login", params={"key": "k" * size})).status_code for size in (256, 257)
        ]
    assert codes == [403, 422]
