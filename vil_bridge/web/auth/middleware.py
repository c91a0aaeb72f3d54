"""Security of the HTTP server: checks of requests, and headers that restrict its pages.

A browser carries its owner's rights to wherever a web page sends it, so a page elsewhere must get
nothing done: a name that an attacker rebinds to this address is refused by the Host check, a
foreign page by the Origin check, for WebSockets as for requests. Then comes the role
(:mod:`.access`).
"""

from __future__ import annotations

import ipaddress
import logging
import math
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vil_bridge.runtime.access_tokens import Role
from vil_bridge.runtime.rates import RateLimiter, peer_of
from vil_bridge.web.auth.access import READS, Access, cookie_name, missing_role, needed_role

logger = logging.getLogger(__name__)

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; connect-src 'self';"
    " style-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_MAX_WEBSOCKETS: Final = 32
_MAX_HEADER_BYTES: Final = 16 * 1024
_FOREIGN_SITES: Final = frozenset({"cross-site", "same-site"})


@dataclass(frozen=True, slots=True)
class _Refusal:
    """An answer in place of the application's; ``reason`` names the counter."""

    status: int
    reason: str
    text: str
    headers: dict[str, str] = field(default_factory=dict)


class SecurityMiddleware:
    """ASGI middleware: checks Host, Origin, role and rates of requests and WebSockets alike.

    The application finds the role in ``scope["state"]["role"]``.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._websockets = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer with the reason of a refusal."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            self._count(refusal, scope)
            answer = JSONResponse(
                {"detail": refusal.text}, refusal.status, {**_HEADERS, **refusal.headers}
            )
            await answer(scope, receive, send)
        elif scope["type"] == "websocket":
            self._websockets += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._websockets -= 1
        else:
            await self._app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> _Refusal | None:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _MAX_HEADER_BYTES:
            return _Refusal(
                431, "malformed", f"the headers are longer than {_MAX_HEADER_BYTES} bytes"
            )
        headers = Headers(scope=scope)
        needed = needed_role(scope["type"], scope.get("method", ""), scope["path"])
        refusal = _foreign(headers, scope.get("method", ""), self._access.hosts)
        if refusal is None:
            refusal = self._unknown(scope, headers, needed)
        if refusal is None and scope["type"] == "websocket" and self._websockets >= _MAX_WEBSOCKETS:
            refusal = _Refusal(
                503, "too_many", f"{_MAX_WEBSOCKETS} WebSockets are open already; close some"
            )
        if refusal is None and needed is Role.CONTROL:
            refusal = _rate_limited(self._access.writes, _peer(scope), "changes")
            if refusal is None:
                self._access.writes.take(_peer(scope))
        return refusal

    def _unknown(self, scope: Scope, headers: Headers, needed: Role) -> _Refusal | None:
        """Determine the caller's role; None = it suffices."""
        peer = _peer(scope)
        if "authorization" in headers:
            refusal = _rate_limited(self._access.failures, peer, "wrong tokens")
            if refusal is not None:
                return refusal
        role = self._access.role_of(headers, peer, cookie_name(scope))
        scope.setdefault("state", {})["role"] = role
        text = missing_role(role, needed)
        if text is None:
            return None
        if role is Role.NONE:
            return _Refusal(401, "unauthorized", text, {"WWW-Authenticate": "Bearer"})
        return _Refusal(403, "forbidden", text)

    def _count(self, refusal: _Refusal, scope: Scope) -> None:
        """Count a refusal, and name the sender unless only a role is missing.

        The first of a kind is logged.
        """
        self._access.counters[refusal.reason] += 1
        if refusal.status not in (401, 403):
            self._access.peer_faults.add(refusal.reason, _peer(scope))
        if self._access.counters[refusal.reason] == 1:
            logger.warning(
                "http: refused a request (%s, further ones are counted): from %s",
                refusal.text,
                _peer(scope),
            )


def _foreign(headers: Headers, method: str, hosts: frozenset[str]) -> _Refusal | None:
    """Return the refusal of a request that a foreign page made a browser send.

    None = it is not one.
    """
    host = headers.get("host", "")
    origin = headers.get("origin")
    if not _is_served_host(host, hosts):
        text = (
            f"host {host[:80]!r} is not served here; use the numeric address or localhost, or "
            "add it to `http.hosts`"
        )
        return _Refusal(403, "foreign_host", text)
    embedded = headers.get("sec-fetch-site") in _FOREIGN_SITES and not _is_visit(headers, method)
    if embedded or (origin is not None and origin not in (f"http://{host}", f"https://{host}")):
        return _Refusal(403, "foreign_origin", "requests from other web sites are refused")
    return None


def _is_visit(headers: Headers, method: str) -> bool:
    """Return True if a person followed a link.

    No form, no frame, no speculative request of the browser.
    """
    if method not in READS or "sec-purpose" in headers:
        return False
    return (
        headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest", "document") == "document"
    )


def _is_served_host(host: str, hosts: frozenset[str]) -> bool:
    """Return True for ``localhost`` and numbers, which cannot be rebound, and for configured
    names.
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").lower()
        return name == "localhost" or name in hosts or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _rate_limited(rate: RateLimiter, peer: str, what: str) -> _Refusal | None:
    wait_s = math.ceil(rate.wait_s(peer))
    if not wait_s:
        return None
    return _Refusal(
        429,
        "too_often",
        f"too many {what} from here; wait {wait_s} s",
        {"Retry-After": str(wait_s)},
    )


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return peer_of(client[0]) if client else ""


def _with_headers(send: Send) -> Send:
    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)  # a report has a narrower policy of its own
        await send(message)

    return send_guarded
