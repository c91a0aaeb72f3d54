"""Pictures that the cameras left out lately, and words for those that the machine or a renderer was too slow for."""

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


class DropWindow:
    """Counts of each camera over the last 3 s, from counts since the start; one thread adds, any thread reads."""

    def __init__(self) -> None:
        self._counts: deque[tuple[int, Mapping[str, Counter[str]]]] = deque()

    def add(self, t_ns: int, counts: Mapping[str, Counter[str]]) -> None:
        """Take the counts since the start, as of ``t_ns`` (bridge clock)."""
        if self._counts and self._counts[-1][0] == t_ns:  # simulated time stands
            self._counts.pop()
        self._counts.append((t_ns, counts))
        while len(self._counts) > 1 and t_ns - self._counts[1][0] >= WINDOW_NS:
            self._counts.popleft()

    def recent(self, camera: str) -> tuple[Counter[str], float]:
        """Return a camera's counts within the window, and the window's length in seconds; 0 s without any."""
        counts_at = [(t_ns, counts[camera]) for t_ns, counts in tuple(self._counts) if camera in counts]
        if not counts_at:
            return Counter(), 0.0
        (t_first_ns, first), (t_last_ns, last) = counts_at[0], counts_at[-1]
        return last - first, (t_last_ns - t_first_ns) / NS_PER_S


class OverloadDetector:
    """Looks at what the cameras leave out, a few times a second.

    Attributes:
        words: a sentence for each camera that leaves out a fifth of its pictures or more, for people.
    """

    def __init__(self) -> None:
        self.words: tuple[str, ...] = ()
        self._window = DropWindow()

    def check(self, t_ns: int, dropped: Mapping[str, Counter[str]], rates_hz: Mapping[str, float]) -> None:
        """Record the counts and find the cameras that leave out too much.

        Args:
            t_ns: now, bridge clock.
            dropped: of each camera that a working renderer draws, the pictures left out since the start, by reason.
            rates_hz: of the cameras.
        """
        self._window.add(t_ns, {name: Counter({r: counts[r] for r in _SHED}) for name, counts in dropped.items()})
        sentences = (_sentence(name, *self._window.recent(name), rates_hz[name]) for name in dropped)
        self.words = tuple(filter(None, sentences))


def _sentence(camera: str, shed: Counter[str], seconds: float, rate_hz: float) -> str:
    count, wanted = shed.total(), rate_hz * seconds
    if count < _LEAST or count < _SHARE * wanted:
        return ""
    reasons = ", ".join(f"{reason} {n}" for reason, n in shed.most_common())
    cure = "lower its rate_hz or its size, or give it a faster renderer"
    if shed["too_old"]:
        cure += ", or raise its max_age_ms"
    return (
        f"overloaded: camera {camera} left out {count} of {max(count, round(wanted))} pictures within {seconds:.0f} s"
        f" ({reasons}): {cure}"
    )
