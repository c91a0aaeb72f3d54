"""Limits on the control channel: so many messages of one sender, and of all strangers together."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Final

from vil_bridge.runtime.rates import RateLimiter, RecentSet

_COST_BYTES: Final = 1024
_SHARE_S: Final = 0.4  # a share of so many seconds may be used at once
_PINGS_PER_S: Final = 20.0  # of one registration, which sends 17
_PATIENCE_PER_S: Final = 12.0  # a client that waits for its registration sends 8 messages a second
_PATIENCE_AT_ONCE: Final = 12


class Sender(Enum):
    """Kinds of senders; each value is (cost per second of one, its burst, the same of all).

    A reader sends a credit a picture, and inertial samples up to 250 times a second; others up to
    1000 times. A pilot commands vehicles without reading a camera. A stranger pings and registers.
    """

    READER = (1500.0, 1200, 6000.0, 1000)
    PILOT = (1000.0, 500, 4000.0, 1000)
    STRANGER = (150.0, 500, 1500.0, 1500)


def cost_of(payload: bytes | None) -> float:
    """Return the cost of receiving and decoding a message; a small one is 1."""
    return 1.0 + (0 if payload is None else len(payload)) / _COST_BYTES


class MessageLimits:
    """Token buckets by connection and kind of sender.

    When all readers use more than they may, each still has its equal share; likewise pilots. The
    number of strangers is not known, since each may come by any number of connections: they have no
    share.

    Args:
        clock: seconds that never run backwards.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._each = {kind: RateLimiter(kind.value[0], kind.value[1], clock) for kind in Sender}
        self._all = {kind: RateLimiter(kind.value[2], kind.value[3], clock) for kind in Sender}
        self._patience = RateLimiter(_PATIENCE_PER_S, _PATIENCE_AT_ONCE, clock)
        self._pings = RateLimiter(_PINGS_PER_S, round(_PINGS_PER_S), clock)
        self._over = RecentSet()
        self._share = {
            kind: RateLimiter(kind.value[2], round(_SHARE_S * kind.value[2]), clock)
            for kind in Sender
        }

    def admits(self, kind: Sender, identity: bytes) -> bool:
        """Return False when a connection has used up its rate, or its share of what all of its
        kind may use.
        """
        if self._each[kind].wait_s(identity):
            return False
        if not self._all[kind].wait_s(""):
            return True
        return kind is not Sender.STRANGER and not self._share[kind].wait_s(identity)

    def charge(self, kind: Sender, identity: bytes, cost: float, senders: int) -> None:
        """Account what a message costs; ``senders`` of this kind share what all may use."""
        self._each[kind].take(identity, cost)
        self._all[kind].take("", cost)
        self._share[kind].take(identity, cost * max(1, senders))

    def admits_ping(self, token: str) -> bool:
        """Account a reader's ping, which costs an answer; False when it has sent too many."""
        if self._pings.wait_s(token):
            return False
        self._pings.take(token)
        return True

    def exceeds_its_own(self, kind: Sender, identity: bytes) -> bool:
        """Return True when a connection has used up its rate, whatever others use."""
        return self._each[kind].wait_s(identity) > 0.0

    def is_over(self, identity: bytes) -> bool:
        """Account a refused message of a connection.

        True, once, when it goes on and is to be ended.
        """
        if not self._patience.wait_s(identity):
            self._patience.take(identity)
            return False
        return self._over.is_new(identity)
