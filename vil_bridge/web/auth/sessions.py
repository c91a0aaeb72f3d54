"""Sessions of browsers, which cannot send a token with every request.

A link that works once, then a cookie.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from vil_bridge.runtime.access_tokens import Role, digest

LINK_LIFE_S: Final = 600.0
_SESSION_LIFE_S: Final = 12 * 3600.0
_MAX_LINKS: Final = 16
_MAX_SESSIONS: Final = 64


class _Grant(NamedTuple):
    role: Role
    until_s: float


class Sessions:
    """Open links and logged-in browsers; both bounded, oldest dropped first. Any thread.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._links: OrderedDict[bytes, _Grant] = OrderedDict()
        self._sessions: OrderedDict[bytes, _Grant] = OrderedDict()

    def invite(self, role: Role) -> str:
        """Return the key of a new link, which works once within ten minutes."""
        with self._lock:
            return self._add(self._links, _MAX_LINKS, role, LINK_LIFE_S)

    def enter(self, key: str) -> str | None:
        """Use up a link.

        Return the new session's id, None if the link is unknown, used or expired.
        """
        with self._lock:
            grant = self._links.pop(digest(key), None)
            if grant is None or grant.until_s < self._clock():
                return None
            return self._add(self._sessions, _MAX_SESSIONS, grant.role, _SESSION_LIFE_S)

    def role_of(self, session: str) -> Role:
        """Return the role of a session.

        :attr:`Role.NONE` if it is unknown or was silent for twelve hours.
        """
        key = digest(session)
        with self._lock:
            grant = self._sessions.get(key)
            if grant is None or grant.until_s < self._clock():
                return Role.NONE
            self._sessions[key] = _Grant(grant.role, self._clock() + _SESSION_LIFE_S)
            self._sessions.move_to_end(key)
            return grant.role

    def _add(
        self, grants: OrderedDict[bytes, _Grant], limit: int, role: Role, life_s: float
    ) -> str:
        secret = secrets.token_urlsafe(32)
        grants[digest(secret)] = _Grant(role, self._clock() + life_s)
        if len(grants) > limit:
            grants.popitem(last=False)
        return secret
