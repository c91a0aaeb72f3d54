"""How much one reader gets: no more pictures than it asked for, and no better ones than its link bears."""

from __future__ import annotations

from typing import Final

from vil_bridge.core.clock import NS_PER_S

__all__ = ["AdaptiveQuality", "FrameRateLimiter"]

_EARLY: Final = 0.25
"""Share of the interval by which a picture may come too early: pictures are not perfectly even."""
_STEP: Final = 10
_FLOOR: Final = 30
_JUDGED: Final = 20
_LOSERS: Final = 5
_CLEAN: Final = 60


class FrameRateLimiter:
    """Lets pictures through at a rate, evenly; ``rate_hz`` None lets all through."""

    def __init__(self, rate_hz: float | None) -> None:
        self._period_ns = 0 if rate_hz is None else round(NS_PER_S / rate_hz)
        self._due_ns: int | None = None

    def passes(self, t_ns: int) -> bool:
        """Whether the picture of an instant is one of those."""
        if not self._period_ns:
            return True
        if self._due_ns is None or abs(t_ns - self._due_ns) > 2 * self._period_ns:
            self._due_ns = t_ns  # the first, or time went somewhere else
        if t_ns < self._due_ns - _EARLY * self._period_ns:
            return False
        self._due_ns += self._period_ns
        return True


class AdaptiveQuality:
    """JPEG quality that falls while pictures find no credit, and rises again when none has for a while.

    Attributes:
        value: the quality now, in steps, so that readers on similar links share encodings.
    """

    def __init__(self, wanted: int) -> None:
        self.value = wanted
        self._wanted = wanted
        self._seen = self._lost = self._clean = 0

    def saw(self, *, superseded: bool) -> None:
        """Account one picture: whether it took the place of one that was still waiting."""
        self._seen += 1
        self._lost += superseded
        self._clean = 0 if superseded else self._clean + 1
        if self._lost >= _LOSERS:
            self.value = max(min(_FLOOR, self._wanted), self.value - _STEP)
        elif self._clean >= _CLEAN:
            self.value = min(self._wanted, self.value + _STEP)
            self._clean = 0
        if self._lost >= _LOSERS or self._seen >= _JUDGED:
            self._seen = self._lost = 0
