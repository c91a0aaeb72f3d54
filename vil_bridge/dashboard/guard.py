"""Who may talk to the HTTP server, and what browsers may do with its pages.

The server trusts whoever reaches it, so a web page elsewhere must not: a name that an attacker
rebinds to this address is refused by the Host check, a foreign page by the Origin check.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard"]

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware: ``localhost`` and numeric addresses, which nobody can rebind, are good hosts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403, or hand the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not _is_good(host):
            refusal = f"host {host[:80]!r} is not served here; use the numeric address or localhost\n"
        elif origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            refusal = "requests from other web sites are refused\n"
        else:
            await self._app(scope, receive, _with_headers(send))
            return
        await PlainTextResponse(refusal, 403, _HEADERS)(scope, receive, send)


def _is_good(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _with_headers(send: Send) -> Send:
    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return send_guarded
