"""Login of browsers: links that work once, and the caller's role."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from vil_bridge.runtime.access_tokens import Role
from vil_bridge.runtime.rates import peer_of
from vil_bridge.web.auth.access import Access, cookie_name, login_path
from vil_bridge.web.auth.sessions import LINK_LIFE_S
from vil_bridge.web.request_body import read_body, takes
from vil_bridge.web.schemas.login import LinkBody, LinkOut, WhoOut
from vil_bridge.web.schemas.status import ErrorOut

_REFUSED: Final[dict[int | str, dict[str, Any]]] = {
    409: {"model": ErrorOut, "description": "No token is configured."}
}


def login_router(access: Access) -> APIRouter:
    """Return the routes ``/login`` for links, ``/api/v1/login-links`` that creates them,
    ``/api/v1/whoami``.
    """
    router = APIRouter(tags=["access"])

    @router.get("/login", include_in_schema=False)
    async def login(request: Request, key: Annotated[str, Query(max_length=256)] = "") -> Response:
        """Turn a link into a session; a browser's speculative request does not use it up."""
        if "sec-purpose" in request.headers:
            raise HTTPException(503, "this link is for one visit: open it")
        peer = peer_of(request.client.host) if request.client else ""
        if access.failures.wait_s(peer):
            raise HTTPException(429, "too many wrong links from here; wait a minute")
        session = access.sessions.enter(key)
        if session is None:
            access.guessed(peer, key)
            raise HTTPException(
                403, "this link was used or has expired; `vil-bridge keys link` makes a new one"
            )
        answer = RedirectResponse("./", 303)
        # No path is given: behind a proxy's prefix the cookie belongs to that prefix.
        name = cookie_name(request.scope)
        secure = request.url.scheme == "https"
        answer.set_cookie(name, session, path=None, secure=secure, httponly=True, samesite="strict")
        return answer

    @router.post(
        "/api/v1/login-links",
        operation_id="make_login_link",
        responses=_REFUSED,
        openapi_extra=takes(LinkBody),
    )
    async def make_login_link(request: Request) -> LinkOut:
        """Create a link that logs one browser in, once."""
        body = await read_body(request, LinkBody)
        if access.tokens is None:
            raise HTTPException(409, "no link is needed: this bridge asks for no token")
        return LinkOut(path=login_path(access, Role(body.role)), expires_s=LINK_LIFE_S)

    @router.get("/api/v1/whoami", operation_id="get_whoami")
    async def get_whoami(request: Request) -> WhoOut:
        """Return the role of the caller."""
        return WhoOut(
            role=request.state.role,
            token_required=access.tokens is not None,
            insecure=access.insecure,
        )

    return router
