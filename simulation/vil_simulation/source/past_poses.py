"""Poses of the vehicles of a source in the last seconds."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from vil_bridge.core.geometry import Transform, q_slerp
from vil_bridge.core.types import FloatArray

_MOST: Final = 512
"""Batches that are retained: 3.2 s of AirSim's vehicles, which have 160 poses a second."""


class _Past(NamedTuple):
    """All vehicles at an instant of simulation time.

    Attributes:
        states: (vehicles, 13), the place first, the attitude in columns 6 to 9. placed: vehicles
            that were put elsewhere since the instant before.
    """

    t_ns: int
    states: FloatArray
    placed: frozenset[int]

    def pose_of(self, number: int) -> Transform:
        row = self.states[number]
        return Transform(row[0:3], row[6:10])


class PastPoses:
    """Poses of the vehicles of a source at instants of simulation time.

    The owner guards it with a lock.
    """

    def __init__(self) -> None:
        self._past: deque[_Past] = deque(maxlen=_MOST)

    def clear(self) -> None:
        """Drop everything: time starts over."""
        self._past.clear()

    def add(self, t_ns: int, states: FloatArray, placed: Sequence[int]) -> None:
        """Store the newest states, (vehicles, 13), and which vehicles were put elsewhere for
        them.
        """
        self._past.append(_Past(t_ns, states, frozenset(placed)))

    def at(self, number: int, t_ns: int, slack_ns: int = 0) -> Transform | None:
        """Return a vehicle's pose at an instant, None = it is not known yet.

        Between two states it is interpolated. A vehicle that was put elsewhere is in its old place
        until then, at that instant, and for ``slack_ns`` after it. Before the oldest state it is
        where that has it, after the newest where that has it.
        """
        known = [past for past in self._past if number < len(past.states)]
        if not known:
            return None
        for old, new in pairwise(known):
            if number in new.placed and old.t_ns < t_ns <= new.t_ns + slack_ns:
                return old.pose_of(number)
        i = bisect_left(known, t_ns, key=attrgetter("t_ns"))
        if i in (0, len(known)):
            return known[min(i, len(known) - 1)].pose_of(number)
        before, after = known[i - 1 : i + 1]
        old_T = before.pose_of(number)
        new_T = after.pose_of(number)
        share = (t_ns - before.t_ns) / (after.t_ns - before.t_ns)
        p_m = old_T.p_m + share * (new_T.p_m - old_T.p_m)
        return Transform(p_m, q_slerp(old_T.q_xyzw, new_T.q_xyzw, share))
