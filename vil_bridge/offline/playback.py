"""Recordings played without a clock.

Their events and configuration, and bridge time bound to them.
"""

from __future__ import annotations

import contextlib
import heapq
import math
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from vil_bridge.config.load import load_text
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import RecordingError
from vil_bridge.core.types import ClockExchange, SourceEvent, SourceReset
from vil_bridge.recording.reader import Recording
from vil_bridge.registry import resolve

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
        """Go to an instant.

        What is planned for itself happens behind what the caller does there.
        """
        self.until(t_ns)
        self._clock.stand_at(t_ns)

    def end(self) -> None:
        """Let happen what is still under way; nothing repeats any more."""
        self._ended = True
        self.until(math.inf)


_LONGEST_LEAP_NS: Final = 3600 * NS_PER_S
"""Of arrivals, beyond the time that passed for the recorder: a pause moves both."""


def arrivals(recording: Recording) -> Iterator[tuple[int, SourceEvent]]:
    """Yield each event and the bridge time at which it came, which never falls.

    Raises:
        RecordingError: the file is damaged.
    """
    now_ns: int | None = None
    before_ns = 0
    for event, recorded_ns, _ in recording.stamped_events():
        t_ns = _arrival_ns(event)
        if t_ns is not None:
            if (
                now_ns is not None
                and (t_ns - now_ns) - (recorded_ns - before_ns) > _LONGEST_LEAP_NS
            ):
                raise RecordingError(
                    f"{recording.path}: an event came hours later than the file was "
                    "written: it is damaged"
                )
            before_ns = recorded_ns
            now_ns = t_ns if now_ns is None else max(now_ns, t_ns)
        if now_ns is not None:  # a reset without a time that comes first resets what is still empty
            yield now_ns, event


def config_of(recording: Recording) -> BridgeConfig:
    """Return the recorded configuration.

    Raises:
        ConfigError: this version, or what is installed here, cannot use it.
    """
    return load_text(
        recording.config_text, f"{recording.path} (its configuration)", resolve=resolve
    )


def _arrival_ns(event: SourceEvent) -> int | None:
    """Return the arrival time of an event, bridge time; None = unknown."""
    match event:
        case ClockExchange():
            return event.t_received_ns
        case SourceReset():
            return None
    return event.t_arrival_ns
