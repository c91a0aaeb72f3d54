"""Race clock of one racer: poses in, events out.

It reads no clock, so that the same poses give the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.matrices import dot, length, product
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_bridge.world.race.crossings import CrossingDetector, Interval, PlaneCrossing
from vil_bridge.world.race.curve import RacerPose
from vil_bridge.world.race.events import RaceEvent
from vil_bridge.world.race.progress import RaceProgress

_MOVED_M: Final = 0.1
_NOISE_M: Final = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class _Happening:
    """Change of a race at a time."""

    t_ns: int
    act: Callable[[], list[RaceEvent]]


class RaceClock:
    """Judge and timekeeper of one racer on a course.

    A gate is passed when the curve through the poses crosses its plane in its direction, inside the
    opening by its margin. Events come 50 ms after they happened, when the poses around them are
    known, and once the racer is 5 cm behind the gate. Poses more than 0.5 s apart say nothing about
    the time between them.

    Args:
        course: gates, laps, rules. radius_m: of the racer, for collisions with frames and
            obstacles.

    Attributes:
        progress: of the race.
    """

    def __init__(self, course: Course, *, radius_m: float = 0.0) -> None:
        self._course: Final = course
        self._radius_m: Final = radius_m
        self._detector: Final = CrossingDetector(course)
        self.progress: Final = RaceProgress(course)
        self._signal_ns: int | None = None
        self._rest_m: FloatArray | None = None
        self._waiting: list[_Happening] = []
        self._margins_m: Final = course.margins_m.tolist()
        self._bars_m: Final = course.bars_m.tolist()
        self._poles: Final = np.array(
            [(*one.top_m, one.radius_m) for one in course.obstacles]
        ).reshape(-1, 4)

    def signal(self, t_ns: int) -> None:
        """Give the starting signal; what happens before it does not count."""
        self._signal_ns = t_ns
        if self._course.rules.clock == "signal":
            self._waiting.append(_Happening(t_ns, lambda: self.progress.start(t_ns)))

    def collide(self, t_ns: int, what: str) -> None:
        """Report a collision that another part of the system has seen."""
        self._waiting.append(_Happening(t_ns, lambda: self.progress.collide(t_ns, what)))

    def feed(
        self, t_ns: int, p_world_m: FloatArray, v_world_mps: FloatArray | None = None
    ) -> list[RaceEvent]:
        """Take a pose and return the events that are certain now, in time order.

        Args:
            t_ns: time of measurement.
            p_world_m: (3,).
            v_world_mps: (3,); None = unknown, estimated from the poses around a crossing.

        Raises:
            ValueError: the pose is not later than the one before.
        """
        return self._judge(self._detector.feed(RacerPose(t_ns, p_world_m, v_world_mps)))

    def flush(self) -> list[RaceEvent]:
        """Return the events that are left when no pose follows."""
        return self._judge(self._detector.flush())

    def expire(self, t_ns: int) -> list[RaceEvent]:
        """Return what is left of a race that ran out of time before ``t_ns``.

        For racers whose poses stay away.
        """
        started_ns = self.progress.started_ns
        timeout_s = self._course.rules.timeout_s
        if started_ns is None and self._course.rules.clock == "signal":
            started_ns = self._signal_ns
        if (
            self.progress.ended
            or started_ns is None
            or timeout_s is None
            or t_ns <= started_ns + round(1e9 * timeout_s)
        ):
            return []
        events = self.flush()
        return events if self.progress.ended else events + self._settle(t_ns)

    def _judge(self, intervals: list[Interval]) -> list[RaceEvent]:
        events: list[RaceEvent] = []
        for interval in intervals:
            end_ns = interval.second.t_ns
            if (
                self._signal_ns is not None
                and end_ns >= self._signal_ns
                and not self.progress.ended
            ):
                self._waiting += self._happenings(interval)
                events += self._settle(self._detector.certain_until_ns(end_ns))
        return events

    def _settle(self, until_ns: int) -> list[RaceEvent]:
        """Apply what has happened until a time, in time order."""
        events: list[RaceEvent] = []
        self._waiting.sort(key=lambda one: one.t_ns)
        while self._waiting and self._waiting[0].t_ns <= until_ns and not self.progress.ended:
            one = self._waiting.pop(0)
            if self._signal_ns is None or one.t_ns < self._signal_ns:
                continue
            events += self._late(one.t_ns) or one.act()
        if not self.progress.ended:
            events += self._late(until_ns)
        return events

    def _late(self, t_ns: int) -> list[RaceEvent]:
        """Return the end of a race that has run out of time before ``t_ns``."""
        timeout_ns = self.progress.timeout_ns
        if timeout_ns is None or t_ns <= timeout_ns:
            return []
        return [self.progress.end(timeout_ns, "timed_out")]

    def _happenings(self, interval: Interval) -> Iterator[_Happening]:
        """Yield what an interval between two poses brings."""
        for crossing in interval.crossings:
            yield from self._of_crossing(crossing)
        if self._course.rules.clock == "motion" and self.progress.started_ns is None:
            yield from self._motion(interval)
        if not interval.unseen:
            yield from self._obstacles(interval)
        yield from self._bounds(interval)

    def _of_crossing(self, crossing: PlaneCrossing) -> Iterator[_Happening]:
        outside = crossing.outside_m
        bar_m = self._bars_m[crossing.gate]
        if outside <= -self._margins_m[crossing.gate]:
            if crossing.forward:
                yield _Happening(crossing.t_ns, lambda: self.progress.cross(crossing))
        elif -self._radius_m < outside < bar_m + self._radius_m:
            name = self._course.gates[crossing.gate].name
            yield _Happening(crossing.t_ns, lambda: self.progress.collide(crossing.t_ns, name))

    def _motion(self, interval: Interval) -> Iterator[_Happening]:
        """Yield the start, when the racer leaves the place that it had at the signal."""
        first = interval.first
        second = interval.second
        if self._rest_m is None:
            self._rest_m = (
                second.p_m if self._signal_ns is None or first.t_ns < self._signal_ns else first.p_m
            )
        before, after = (length(p_m - self._rest_m) for p_m in (first.p_m, second.p_m))
        if before < _MOVED_M <= after:
            t_ns = first.t_ns + round(
                (_MOVED_M - before) / (after - before) * (second.t_ns - first.t_ns)
            )
            yield _Happening(t_ns, lambda: self.progress.start(t_ns))

    def _obstacles(self, interval: Interval) -> Iterator[_Happening]:
        if not len(self._poles):
            return
        first = interval.first
        second = interval.second
        way = second.p_m - first.p_m
        away = self._poles[:, :2] - first.p_m[:2]
        share = np.clip(product(away, way[:2]) / max(dot(way[:2], way[:2]), 1e-12), 0.0, 1.0)
        near_m = np.linalg.norm(away - share[:, None] * way[:2], axis=1)
        below = first.p_m[2] + share * way[2] < self._poles[:, 2] + self._radius_m
        for index in np.flatnonzero(below & (near_m < self._poles[:, 3] + self._radius_m)).tolist():
            t_ns = first.t_ns + round(float(share[index]) * (second.t_ns - first.t_ns))
            name = self._course.obstacles[index].name
            yield _Happening(t_ns, lambda t_ns=t_ns, name=name: self.progress.collide(t_ns, name))  # type: ignore[misc]

    def _bounds(self, interval: Interval) -> Iterator[_Happening]:
        bounds = self._course.bounds_m
        if bounds is None:
            return
        beyond = np.maximum(bounds[0] - interval.second.p_m, interval.second.p_m - bounds[1]).max()
        if beyond > _NOISE_M:
            t_ns = interval.second.t_ns
            yield _Happening(t_ns, lambda: [self.progress.end(t_ns, "out_of_bounds")])
