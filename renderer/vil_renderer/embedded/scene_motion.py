"""Paths of objects that move by themselves: functions of the snapshot's time, without state.

Each is a rigid motion of the world by time, the identity at time 0, that is applied to an object's
place at rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, q_slerp
from vil_bridge.core.types import FloatArray

_NS: Final = 1_000_000_000


def seconds_into(period_s: float, t_ns: int) -> float:
    """Return the time since the current round began, 0 to |period|.

    With a negative period time runs backwards.

    Counted in whole nanoseconds, so that it is as exact after a month as in the first second.
    """
    period_ns = max(1, round(abs(period_s) * _NS))
    return (t_ns if period_s > 0.0 else -t_ns) % period_ns / _NS


@dataclass(frozen=True, slots=True, eq=False)
class Circle:
    """Rounds about a vertical; the front keeps its angle to the path.

    Attributes:
        centre_m: a point of the vertical, (3,). period_s: of one round, negative = clockwise seen
            from above.
    """

    centre_m: FloatArray
    period_s: float

    def motion(self, t_ns: int) -> Transform:
        """Return the object's motion since time 0."""
        half = math.pi * seconds_into(self.period_s, t_ns) / abs(self.period_s)
        turn = Transform.of((0.0, 0.0, 0.0), (0.0, 0.0, math.sin(half), math.cos(half)))
        return Transform.of(self.centre_m - turn.apply(self.centre_m), turn.q_xyzw)

    def moved(self, T_new_old: Transform) -> Circle:
        """Return the path moved to another place."""
        return replace(self, centre_m=T_new_old.apply(self.centre_m))


@dataclass(frozen=True, slots=True, eq=False)
class LineMotion:
    """There and back on a straight line, gently at both ends (a cosine in time).

    Attributes:
        reach_m: from where it rests to the far end, (3,). period_s: of there and back.
    """

    reach_m: FloatArray
    period_s: float

    def motion(self, t_ns: int) -> Transform:
        """Return the object's motion since time 0."""
        turn = 2.0 * math.pi * seconds_into(self.period_s, t_ns) / abs(self.period_s)
        return Transform.of(0.5 * (1.0 - math.cos(turn)) * self.reach_m)

    def moved(self, T_new_old: Transform) -> LineMotion:
        """Return the path moved to another place."""
        return replace(self, reach_m=T_new_old.rotation() @ self.reach_m)


@dataclass(frozen=True, slots=True, eq=False)
class Tour:
    """Through poses in the world at their times, straight and evenly between them, then again from
    the first.

    Attributes:
        times_s: (k,), k >= 2, from 0 upwards; the last one is the period. stops: poses, k of them.
    """

    times_s: FloatArray
    stops: tuple[Transform, ...]

    def motion(self, t_ns: int) -> Transform:
        """Return the object's motion since time 0, when it was at the first stop."""
        t_s = seconds_into(float(self.times_s[-1]), t_ns)
        leg = int(np.searchsorted(self.times_s, t_s, side="right")) - 1
        a = self.stops[leg]
        b = self.stops[leg + 1]
        share = (t_s - float(self.times_s[leg])) / float(self.times_s[leg + 1] - self.times_s[leg])
        here = Transform(a.p_m + share * (b.p_m - a.p_m), q_slerp(a.q_xyzw, b.q_xyzw, share))
        return here @ self.stops[0].inverse()

    def moved(self, T_new_old: Transform) -> Tour:
        """Return the path moved to another place."""
        return replace(self, stops=tuple(T_new_old @ stop for stop in self.stops))


MotionPath = Circle | LineMotion | Tour
