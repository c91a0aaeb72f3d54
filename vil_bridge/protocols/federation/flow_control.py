"""The publisher's view of one subscriber: frames on their way, and how many may be."""

from __future__ import annotations

from collections import deque
from typing import Final

from vil_bridge.core.clock import NS_PER_S

_CREDIT: Final = (2.0, 16.0, 64.0)  # least, at first, most
_LATE_NS: Final = 30_000_000


class SubscriberLine:
    """One subscriber: frames that it has not acknowledged, and a credit that shrinks when a queue
    builds up.

    Attributes:
        owner: its key's name, or without keys its address.
    """

    def __init__(self, t_ns: int, owner: str) -> None:
        self.t_heard_ns = t_ns
        self.owner = owner
        self._credit = _CREDIT[1]
        self._sent: deque[int] = deque()
        self._acknowledged = 0
        self._best_ns = NS_PER_S
        self._cut_ns = t_ns

    def may_send(self) -> bool:
        """Return True while fewer frames are on their way than the line carries without a queue."""
        return len(self._sent) < self._credit

    def sent(self, t_ns: int) -> None:
        """Account a frame that left."""
        self._sent.append(t_ns)

    def acknowledge(self, received: int, t_ns: int) -> None:
        """Account how many frames arrived in all.

        A late acknowledgement means a queue on the way.
        """
        t_sent_ns = t_ns
        while self._acknowledged < received and self._sent:
            t_sent_ns = self._sent.popleft()
            self._acknowledged += 1
        trip_ns = t_ns - t_sent_ns
        if not trip_ns:
            return
        self._best_ns = min(trip_ns, self._best_ns + self._best_ns // 1000)
        if trip_ns <= 2 * self._best_ns + _LATE_NS:
            self._credit = min(_CREDIT[2], self._credit + 0.25)
        elif t_ns - self._cut_ns > trip_ns:  # once per round trip
            self._credit = max(_CREDIT[0], 0.5 * self._credit)
            self._cut_ns = t_ns
