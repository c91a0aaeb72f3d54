"""Says when pictures are left out because the machine, or a renderer, cannot follow."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from vil_bridge.core.clock import NS_PER_S

__all__ = ["OverloadWatch"]

WINDOW_NS: Final = 3 * NS_PER_S
_SHED: Final = ("renderer_busy", "tick_missed", "superseded", "delay_line_full")
"""Reasons for which newer pictures take the place of older ones."""
_SHARE: Final = 0.2
_LEAST: Final = 3


class OverloadWatch:
    """Looks at what the cameras leave out, a few times a second.

    Attributes:
        words: a sentence for each camera that leaves out a fifth of its pictures or more, for people.
    """

    def __init__(self) -> None:
        self.words: tuple[str, ...] = ()
        self._looks: deque[tuple[int, dict[str, Counter[str]]]] = deque()

    def look(self, t_ns: int, dropped: Mapping[str, Counter[str]], rates_hz: Mapping[str, float]) -> None:
        """Take note.

        Args:
            t_ns: now, bridge clock.
            dropped: of each camera that a working renderer draws, the pictures left out since the start, by reason.
            rates_hz: of the cameras.
        """
        shed = {name: Counter({r: counts[r] for r in _SHED}) for name, counts in dropped.items()}
        if self._looks and self._looks[-1][0] == t_ns:  # simulated time stands
            self._looks.pop()
        self._looks.append((t_ns, shed))
        while len(self._looks) > 1 and t_ns - self._looks[1][0] >= WINDOW_NS:
            self._looks.popleft()
        t_first_ns, first = self._looks[0]
        seconds = (t_ns - t_first_ns) / NS_PER_S
        sentences = (
            _sentence(name, counts - first[name], rates_hz[name] * seconds, seconds)
            for name, counts in shed.items()
            if name in first
        )
        self.words = tuple(filter(None, sentences))


def _sentence(camera: str, shed: Counter[str], wanted: float, seconds: float) -> str:
    count = shed.total()
    if count < _LEAST or count < _SHARE * wanted:
        return ""
    reasons = ", ".join(f"{reason} {n}" for reason, n in shed.most_common())
    return (
        f"overloaded: camera {camera} left out {count} of {max(count, round(wanted))} pictures within {seconds:.0f} s"
        f" in favour of newer ones ({reasons}): lower its rate_hz or its size, or give it a faster renderer"
    )
