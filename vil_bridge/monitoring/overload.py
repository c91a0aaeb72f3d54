"""Counts of the last seconds, and words for pictures that the machine or a renderer was too slow
for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from vil_bridge.core.clock import NS_PER_S

WINDOW_NS: Final = 3 * NS_PER_S
_SHED: Final = ("renderer_busy", "tick_missed", "superseded", "delay_line_full", "too_old")
"""Reasons that a faster machine, renderer or link would not have."""
_SHARE: Final = 0.2
_LEAST: Final = 3


class CountWindow:
    """Counts of named things over the last seconds, from counts since the start.

    One thread adds, any thread reads.

    Args:
        window_ns: length of the window, ns.
    """

    def __init__(self, window_ns: int) -> None:
        self._window_ns = window_ns
        self._counts: deque[tuple[int, Mapping[str, Counter[str]]]] = deque()

    def add(self, t_ns: int, counts: Mapping[str, Counter[str]]) -> None:
        """Take the counts since the start, as of ``t_ns`` (bridge clock).

        A thing that is left out begins again.
        """
        if self._counts and self._counts[-1][0] == t_ns:  # simulated time stands
            self._counts.pop()
        self._counts.append((t_ns, counts))
        while len(self._counts) > 1 and t_ns - self._counts[1][0] >= self._window_ns:
            self._counts.popleft()

    def recent(self, name: str) -> tuple[Counter[str], float]:
        """Return a thing's counts within the window, and their time in seconds; 0 s without any."""
        last: tuple[int, Counter[str]] | None = None
        first: tuple[int, Counter[str]] | None = None
        for t_ns, counts in reversed(tuple(self._counts)):
            if name not in counts:
                break
            first = t_ns, counts[name]
            last = last or first
        if first is None or last is None:
            return Counter(), 0.0
        return last[1] - first[1], (last[0] - first[0]) / NS_PER_S


class OverloadDetector:
    """Looks at what the cameras leave out, a few times a second.

    Attributes:
        words: a sentence for each camera that leaves out a fifth of its pictures or more, for
            people.
    """

    def __init__(self) -> None:
        self.words: tuple[str, ...] = ()
        self._window = CountWindow(WINDOW_NS)

    def check(
        self, t_ns: int, dropped: Mapping[str, Counter[str]], rates_hz: Mapping[str, float]
    ) -> None:
        """Record the counts and find the cameras that leave out too much.

        Args:
            t_ns: now, bridge clock.
            dropped: of each camera that a working renderer draws, the pictures left out since the
                start, by reason.
            rates_hz: of the cameras.
        """
        self._window.add(t_ns, {name: _shed(counts) for name, counts in dropped.items()})
        sentences = (
            _sentence(name, *self._window.recent(name), rates_hz[name]) for name in dropped
        )
        self.words = tuple(filter(None, sentences))


def _shed(counts: Counter[str]) -> Counter[str]:
    """Return the counts of the reasons for which there is a cure."""
    return Counter({reason: counts[reason] for reason in _SHED})


def _sentence(camera: str, shed: Counter[str], seconds: float, rate_hz: float) -> str:
    count = shed.total()
    wanted = rate_hz * seconds
    if count < _LEAST or count < _SHARE * wanted:
        return ""
    reasons = ", ".join(f"{reason} {n}" for reason, n in shed.most_common())
    cure = "lower its rate_hz or its size, or give it a faster renderer"
    if shed["too_old"]:
        cure += ", or raise its max_age_ms"
    return (
        f"overloaded: camera {camera} left out {count} of {max(count, round(wanted))} "
        f"pictures within {seconds:.0f} s"
        f" ({reasons}): {cure}"
    )
