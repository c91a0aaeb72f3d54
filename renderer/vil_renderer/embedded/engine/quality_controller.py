"""Choice of the quality that a machine can hold.

Steps down if pictures take too long, tries again later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

_WINDOW: Final = 8
_RETRY_S: Final = 5.0
_RETRY_LIMIT_S: Final = 320.0
_SLOW_SHARE: Final = 0.75


class QualityController:
    """Controller that chooses among profiles, the plainest first.

    It steps down when most of the last eight requests missed the budget, and up after some time
    within it; a step up that fails doubles the wait before the next.

    Attributes:
        wanted: the requested profile. reason: why another one is used, empty if none is.
    """

    def __init__(self, names: Sequence[str], wanted: str, budget_s: float | None) -> None:
        self._names = tuple(names)
        self.wanted = wanted
        self.reason = ""
        self._level = self._names.index(wanted)
        self._budget_s = budget_s
        self._recent: deque[float] = deque(maxlen=_WINDOW)
        self._wait_s = _RETRY_S
        self._changed_s = 0.0
        self._climbed = False

    @property
    def profile(self) -> str:
        """Name of the profile to draw with."""
        return self._names[self._level]

    def record(self, cost_s: float, now_s: float) -> None:
        """Record one request: how long its pictures took, and a clock to wait by."""
        if self._budget_s is None:
            return
        self._recent.append(cost_s)
        if len(self._recent) < _WINDOW:
            return
        missed = sum(cost > self._budget_s for cost in self._recent)
        if missed > _WINDOW // 2 and self._level > 0:
            self._step_down(now_s)
        elif (
            self.profile != self.wanted and now_s - self._changed_s > self._wait_s and self._easy()
        ):
            self._step_up(now_s)

    def _easy(self) -> bool:
        return max(self._recent) < _SLOW_SHARE * (self._budget_s or 0.0)

    def _step_down(self, now_s: float) -> None:
        slow_ms = 1e3 * sorted(self._recent)[_WINDOW // 2]
        budget_ms = 1e3 * (self._budget_s or 0.0)
        if self._climbed:
            soon = now_s - self._changed_s < 2 * self._wait_s
            self._wait_s = min(2 * self._wait_s, _RETRY_LIMIT_S) if soon else _RETRY_S
        self.reason = f"{self.profile} took {slow_ms:.0f} ms where {budget_ms:.0f} ms are allowed"
        self._set(self._level - 1, now_s)

    def _step_up(self, now_s: float) -> None:
        self._set(self._level + 1, now_s)
        if self.profile == self.wanted:
            self.reason = ""

    def _set(self, level: int, now_s: float) -> None:
        self._climbed = level > self._level
        self._level = level
        self._changed_s = now_s
        self._recent.clear()
