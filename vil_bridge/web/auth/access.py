"""Access rules: the role that each request needs, and the state of tokens, sessions and rates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from vil_bridge.runtime.access_tokens import Role, Tokens, digest
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.rates import RateLimiter, RecentSet
from vil_bridge.web.auth.sessions import Sessions

if TYPE_CHECKING:
    from starlette.types import Scope

READS: Final = frozenset({"GET", "HEAD"})
_PUBLIC: Final = re.compile(
    # These show nothing of the lab but that it works.
    r"/|/vr|/arcade|/docs|/login|/healthz|/readyz|/api/v1/whoami"
    # The page itself, which is the same everywhere.
    r"|/(page/|static/)?[a-z_-]+\.(html|js|css|svg|txt)"
)
_READING_COMMANDS: Final = frozenset({"vehicles", "vehicle_state"})
_WRITES_PER_S: Final = 100.0
_WRITES_AT_ONCE: Final = 200
_FAILURES_PER_S: Final = 0.2
_FAILURES_AT_ONCE: Final = 10


def needed_role(kind: str, method: str, path: str) -> Role:
    """Return the role that a request needs.

    ``view`` to read, ``control`` to change, none for the page.

    Args:
        kind: ``http`` or ``websocket``.
        method: of HTTP; empty for a WebSocket.
        path: decoded, as routes are looked up by it.
    """
    if kind == "websocket":
        return Role.VIEW
    if method not in READS:
        return Role.CONTROL
    if path == "/metrics":
        return Role.METRICS
    return Role.NONE if _PUBLIC.fullmatch(path) else Role.VIEW


def role_for_command(name: str) -> Role:
    """Return the role that a command on the stream's control channel needs.

    As over HTTP, reading needs ``view``.
    """
    return Role.VIEW if name in _READING_COMMANDS else Role.CONTROL


def missing_role(role: Role, needed: Role) -> str | None:
    """Return the reason why a role does not suffice; None = it does.

    The one rule, for HTTP and the stream alike.
    """
    if role.covers(needed):
        return None
    if role is Role.NONE:
        return (
            "a token is needed, or a link that lets a browser in; `vil-bridge keys link` makes one"
        )
    return f"this needs the role {needed}, yours is {role}"


def cookie_name(scope: Scope) -> str:
    """Return the name of the session cookie.

    One for each port, since a host's ports share all cookies.
    """
    return f"vil_session_{(scope.get('server') or ('', 0))[1]}"


@dataclass(frozen=True, slots=True)
class Access:
    """State that decides about a request.

    Attributes:
        tokens: None = every caller may do everything.
        hosts: names, in lower case, by which browsers may call this server, in addition to
            localhost and addresses.
        insecure: others can reach this server without any authentication.
        sessions: of browsers.
        failures: different wrong tokens and links of a peer. writes: its changes.
        refused: peers and digests of the wrong tokens that were counted.
        counters: requests refused, by reason. peer_faults: senders of requests that no person sends
            by mistake.
    """

    tokens: Tokens | None = None
    hosts: frozenset[str] = frozenset()
    insecure: bool = False
    sessions: Sessions = field(default_factory=Sessions)
    failures: RateLimiter = field(
        default_factory=lambda: RateLimiter(_FAILURES_PER_S, _FAILURES_AT_ONCE)
    )
    refused: RecentSet = field(default_factory=RecentSet)
    writes: RateLimiter = field(default_factory=lambda: RateLimiter(_WRITES_PER_S, _WRITES_AT_ONCE))
    counters: Counter[str] = field(default_factory=Counter)
    peer_faults: PeerFaults = field(default_factory=lambda: PeerFaults("http"))

    def guessed(self, peer: str, secret: str) -> None:
        """Count a wrong token or link of a peer, the same one once."""
        if self.refused.is_new((peer, digest(secret))):
            self.failures.take(peer)

    def refuses_command(self, name: str, token: str) -> str | None:
        """Return the reason why a command on the stream's control channel is refused.

        None = it may run.

        Wrong tokens do not count as failures here: the channel has rates of its own, and a program
        that guesses there must not lock out its whole address over HTTP.

        Args:
            name: of the command.
            token: of a role; empty = none was given.
        """
        if self.tokens is None:
            return None
        role = self.tokens.role_of(token)
        needed = role_for_command(name)
        if role is Role.NONE:
            return (
                f"this needs a token of the role {needed}; give the client an access token of "
                "`http.token_file`"
            )
        return missing_role(role, needed)

    def role_of(self, headers: Mapping[str, str], peer: str, cookie: str) -> Role:
        """Return the caller's role, by ``Authorization: Bearer`` or else by a session's cookie.

        Count a wrong token.

        The same wrong token counts once: a program with yesterday's token guesses nothing, and must
        not lock out others at its address. An unknown cookie does not count: browsers send it on
        their own after a restart.

        Args:
            headers: of the request.
            peer: to count by.
            cookie: the name under which browsers carry their session.
        """
        if self.tokens is None:
            return Role.CONTROL
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            token = token.strip()
            role = self.tokens.role_of(token)
            if role is Role.NONE:
                self.guessed(peer, token)
            return role
        # Slow to import; the bridge makes its rules before the server.
        from starlette.requests import cookie_parser

        session = cookie_parser(headers.get("cookie", "")).get(cookie)
        return self.sessions.role_of(session) if session else Role.NONE


def login_path(access: Access, role: Role) -> str:
    """Return a new link for one browser, relative to the status page's address."""
    return f"login?key={access.sessions.invite(role)}"
