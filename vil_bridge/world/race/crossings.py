"""Crossings of gates' planes, found after the fact from the poses around them.

A crossing counts once the racer is 5 cm behind the plane, and again only after it was 5 cm before
it. Noise and hovering in a gate then count once, at the last crossing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.matrices import length, product
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.courses.course import Course
from vil_bridge.world.race.curve import Curve, RacerPose, between

_CLEAR_M: Final = 0.05
_AROUND_NS: Final = 50_000_000
_LONGEST_GAP_NS: Final = 500_000_000
_LONGEST_PENDING_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PlaneCrossing:
    """Crossing of a gate's plane.

    Attributes:
        gate: index into the course's gates. forward: in the direction of flight.
        y_m, z_m: from the centre of the opening, left and up. outside_m: beyond the opening's
            nearest edge.
    """

    t_ns: int
    gate: int
    forward: bool
    y_m: float
    z_m: float
    outside_m: float
    speed_mps: float


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Time between two successive poses, with the crossings that are certain at its end.

    Attributes:
        unseen: the poses are too far apart to say what happened between them.
    """

    first: RacerPose
    second: RacerPose
    crossings: tuple[PlaneCrossing, ...]
    unseen: bool


class CrossingDetector:
    """Detector of the crossings of one racer, fed in time order.

    An interval is judged 50 ms after its end, when the poses around it are known.
    """

    def __init__(self, course: Course) -> None:
        self._course: Final = course
        self._poses: deque[tuple[RacerPose, FloatArray]] = deque()
        self._judged = 0
        self._before: BoolArray = np.zeros(len(course.gates), np.bool_)
        self._pending: dict[int, PlaneCrossing] = {}

    def feed(self, pose: RacerPose) -> list[Interval]:
        """Take a pose and return the intervals that can be judged now.

        Raises:
            ValueError: the pose is not later than the one before.
        """
        seen = self._course.from_gates(pose.p_m)
        if not self._poses:
            self._before = seen[:, 0] < 0.0
        elif pose.t_ns <= self._poses[-1][0].t_ns:
            last = self._poses[-1][0].t_ns
            raise ValueError(
                f"poses come in time order: {pose.t_ns} ns follows {last} ns. Leave late ones out"
            )
        self._poses.append((pose, seen))
        return self._judge(pose.t_ns - _AROUND_NS)

    def flush(self) -> list[Interval]:
        """Return the intervals that are left at the end of the poses."""
        return self._judge(self._poses[-1][0].t_ns) if self._poses else []

    def certain_until_ns(self, t_ns: int) -> int:
        """Return the time up to which no crossing can come any more, when the intervals until
        ``t_ns`` are judged.
        """
        oldest = min((crossing.t_ns for crossing in self._pending.values()), default=t_ns)
        return t_ns if t_ns - oldest > _LONGEST_PENDING_NS else min(oldest, t_ns)

    def _judge(self, until_ns: int) -> list[Interval]:
        intervals: list[Interval] = []
        while (
            self._judged + 1 < len(self._poses)
            and self._poses[self._judged + 1][0].t_ns <= until_ns
        ):
            intervals.append(self._interval(self._judged))
            self._judged += 1
            needed_from = self._poses[self._judged][0].t_ns - _AROUND_NS
            while self._judged > 1 and self._poses[1][0].t_ns < needed_from:
                self._poses.popleft()
                self._judged -= 1
        return intervals

    def _interval(self, index: int) -> Interval:
        (first, seen0), (second, seen1) = self._poses[index], self._poses[index + 1]
        x0 = seen0[:, 0]
        x1 = seen1[:, 0]
        if second.t_ns - first.t_ns > _LONGEST_GAP_NS:
            self._before = x1 < 0.0
            self._pending.clear()
            return Interval(first, second, (), unseen=True)
        crossed = np.flatnonzero((x0 < 0.0) != (x1 < 0.0))
        if len(crossed):
            curve = between(first, second, self._around(index))
            for gate in crossed.tolist():
                self._pending[gate] = self._crossing(curve, gate, seen0[gate], seen1[gate])
        return Interval(first, second, self._confirmed(x1), unseen=False)

    def _confirmed(self, x_m: FloatArray) -> tuple[PlaneCrossing, ...]:
        """Return crossings that the racer has completed at distances (g,) from the planes."""
        done: list[PlaneCrossing] = []
        for gate, crossing in list(self._pending.items()):
            x = float(x_m[gate])
            before = bool(self._before[gate])
            if abs(x) < _CLEAR_M:
                continue
            del self._pending[gate]
            if before == (x > 0.0):
                self._before[gate] = not before
                done.append(crossing)
        return tuple(done)

    def _around(self, index: int) -> list[RacerPose]:
        """Return poses within 50 ms of an interval, at least one before and one after it where
        there are any.
        """
        poses = [pose for pose, _ in self._poses]
        start = poses[index].t_ns - _AROUND_NS
        end = poses[index + 1].t_ns + _AROUND_NS
        low = max(index - 1, 0)
        high = min(index + 2, len(poses) - 1)
        while low > 0 and poses[low - 1].t_ns >= start:
            low -= 1
        while high < len(poses) - 1 and poses[high + 1].t_ns <= end:
            high += 1
        return poses[low : high + 1]

    def _crossing(
        self, curve: Curve, gate: int, seen0: FloatArray, seen1: FloatArray
    ) -> PlaneCrossing:
        x0 = float(seen0[0])
        x1 = float(seen1[0])
        axes = self._course.axes[gate]
        centre = self._course.centres_m[gate]
        s = curve.crosses(axes[:, 0], centre, x0 / (x0 - x1))
        _, y, z = product(curve.at(s) - centre, axes)
        width, height = self._course.openings_m[gate]
        outside = max(abs(y) - 0.5 * width, abs(z) - 0.5 * height)
        speed = length(curve.velocity(s))
        t_ns = curve.start_ns + round(1e9 * s)
        return PlaneCrossing(t_ns, gate, x1 >= 0.0, float(y), float(z), float(outside), speed)
