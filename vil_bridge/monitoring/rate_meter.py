"""Count and recent rate of events."""

from __future__ import annotations

from collections import deque
from typing import Final

_WINDOW_NS: Final = 3_000_000_000


class Meter:
    """Counts events and remembers when the last ones were; one thread marks, any thread reads.

    Attributes:
        count: events since the start.
        newest_ns: when the last one was, None = never.
    """

    def __init__(self) -> None:
        self.count = 0
        self.newest_ns: int | None = None
        self._recent: deque[int] = deque(maxlen=512)

    def mark(self, t_ns: int) -> None:
        """Count an event at ``t_ns``."""
        self.count += 1
        self.newest_ns = t_ns
        self._recent.append(t_ns)

    def rate_hz(self, t_ns: int) -> float:
        """Events per second over the last 3 s; 0 when there were fewer than two."""
        recent = [t for t in list(self._recent) if t_ns - t < _WINDOW_NS]
        if len(recent) < 2:
            return 0.0
        return (
            1e9
            * (len(recent) - 1)
            / max(1, recent[-1] - recent[0], t_ns - recent[0] - _WINDOW_NS // 6)
        )

    def age_s(self, t_ns: int) -> float | None:
        """Time since the last event."""
        return None if self.newest_ns is None else 1e-9 * (t_ns - self.newest_ns)
