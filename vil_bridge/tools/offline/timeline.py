"""Bridge time bound to recorded events: between them it stands, and what was planned happens at its own instant."""

from __future__ import annotations

import contextlib
import heapq
import math
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from vil_bridge.core.bridge_time import BridgeTime

__all__ = ["Timeline"]

_Act = Callable[[], None]


class Timeline:
    """Plan of calls by bridge time, without the machine's clock."""

    def __init__(self) -> None:
        self._planned: list[tuple[int, int, _Act]] = []
        self._order: Final = count()
        self._clock = BridgeTime()
        self._ended = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Bind bridge time to this timeline, in this context."""
        with self._clock.in_force():
            yield

    def at(self, t_ns: int, act: _Act) -> None:
        """Plan something; at one instant, what was planned first comes first."""
        heapq.heappush(self._planned, (t_ns, next(self._order), act))

    def every(self, period_ns: int, first_ns: int, act: Callable[[int], None]) -> None:
        """Call ``act(t_ns)`` again and again, until :meth:`end`."""

        def again(t_ns: int) -> None:
            if not self._ended:
                act(t_ns)
                self.at(t_ns + period_ns, lambda: again(t_ns + period_ns))

        self.at(first_ns, lambda: again(first_ns))

    def until(self, t_ns: float) -> None:
        """Let everything happen that is planned for before an instant."""
        while self._planned and self._planned[0][0] < t_ns:
            now_ns, _, act = heapq.heappop(self._planned)
            self._clock.stand_at(now_ns)
            act()

    def reach(self, t_ns: int) -> None:
        """Go to an instant; what is planned for itself happens behind what the caller does there."""
        self.until(t_ns)
        self._clock.stand_at(t_ns)

    def end(self) -> None:
        """Let happen what is still under way; nothing repeats any more."""
        self._ended = True
        self.until(math.inf)
