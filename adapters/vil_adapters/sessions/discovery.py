"""Search of the network.

Targets that are asked at the same time, and rates of the subjects that servers stream.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import SourceEvent, SourceFrame
from vil_bridge.interfaces.ports import FoundSource
from vil_bridge.runtime.network import host_and_port

LOOPBACK: Final = "127.0.0.1"


async def ask_each(
    targets: Sequence[str], port: int, ask: Callable[[str, int], Awaitable[FoundSource | None]]
) -> list[FoundSource]:
    """Ask each target (``host`` or ``host:port``; none = this computer) and return those that
    answered.

    Raises:
        ConfigError: a target is neither.
    """
    places = [host_and_port(target, port) for target in targets or (LOOPBACK,)]
    found = await asyncio.gather(*(ask(host, port) for host, port in places))
    return [source for source in found if source is not None]


class SubjectRates:
    """Counter of how often each subject was tracked, at the rate of frame numbers and stamps."""

    def __init__(self) -> None:
        self.frames = 0
        self._tracked: Counter[str] = Counter()
        self._first: tuple[int, int] | None = None
        self._last = (0, 0)

    def count(self, event: SourceEvent) -> None:
        """Count a frame; other events are ignored."""
        if not isinstance(event, SourceFrame):
            return
        t_ns = event.t_arrival_ns if event.t_foreign_ns is None else event.t_foreign_ns
        self._last = event.frame_number, t_ns
        self._first = self._first or self._last
        self.frames += 1
        self._tracked.update(
            name for name, seen in zip(event.subjects, event.tracked.tolist(), strict=True) if seen
        )
        self._tracked.update(s.model.name for s in event.skeletons if s.tracked.any())

    @property
    def rate_hz(self) -> float | None:
        """Return the server's frame rate; None where too few frames came."""
        if self._first is None or self._last[1] <= self._first[1]:
            return None
        return (self._last[0] - self._first[0]) * NS_PER_S / (self._last[1] - self._first[1])

    def rates(self, names: Iterable[str]) -> tuple[tuple[str, float | None], ...]:
        """Return the rate of each subject, hertz, 0 where it was never tracked.

        None where too few frames came.
        """
        rate_hz = self.rate_hz
        if rate_hz is None:
            return tuple((name, None) for name in names)
        return tuple(
            (name, round(rate_hz * self._tracked[name] / self.frames, 1)) for name in names
        )
