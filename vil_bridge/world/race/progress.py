"""Progress of one racer: the gate that is due, laps, splits, penalties, and the end."""

from __future__ import annotations

from typing import Final

from vil_bridge.courses.course import Consequence, Course
from vil_bridge.world.race.crossings import PlaneCrossing
from vil_bridge.world.race.events import (
    GateMissed,
    GatePassed,
    LapDone,
    Outcome,
    RaceCollision,
    RaceEnded,
    RaceEvent,
    RaceStarted,
)

_ONE_COLLISION_NS: Final = 1_000_000_000


class RaceProgress:
    """State of a race, changed by what happens in time order.

    Attributes:
        started_ns: start of its time; None = not yet. ended: nothing changes it any more.
        targets: gates of the whole race in their order, indices into the course's.
        due: number of the next gate in the race, from 0. penalty_s: so far.
    """

    def __init__(self, course: Course) -> None:
        self._course: Final = course
        self._rules: Final = course.rules
        self._flying: Final = course.rules.clock == "first_gate"
        self._lap_gates: Final = len(course.order)
        self.targets: Final = course.order * course.laps + (
            course.order[:1] if self._flying else ()
        )
        self.started_ns: int | None = None
        self.ended = False
        self.due = 0
        self.penalty_s = 0.0
        self._passed = 0
        self._split_ns = 0
        self._lap_ns: int | None = None
        self._collision_ns: int | None = None

    @property
    def timeout_ns(self) -> int | None:
        """Return the latest time of the race; None = unlimited or not started."""
        if self.started_ns is None or self._rules.timeout_s is None:
            return None
        return self.started_ns + round(1e9 * self._rules.timeout_s)

    @property
    def lap(self) -> int:
        """Return the lap that is flown, from 1; at the end the last one."""
        number = max(self.due - 1, 0) if self._flying else self.due
        return min(number // self._lap_gates + 1, self._course.laps)

    def start(self, t_ns: int) -> list[RaceEvent]:
        """Start the time of the race, once."""
        if self.started_ns is not None:
            return []
        self.started_ns = self._split_ns = self._lap_ns = t_ns
        return [RaceStarted(t_ns)]

    def cross(self, crossing: PlaneCrossing) -> list[RaceEvent]:
        """Judge a pass through an opening, in the direction of flight."""
        number = self._number(crossing.gate)
        if number is None:
            return []
        events: list[RaceEvent] = []
        if self.started_ns is None:
            events += self.start(crossing.t_ns)
        for missed in range(self.due, number):
            events.append(self._missed(missed, crossing.t_ns))
        if number > self.due and self._rules.missed == "stop":
            return [*events, self.end(crossing.t_ns, "missed")]
        return events + self._pass(number, crossing)

    def _number(self, gate: int) -> int | None:
        """Return the number in the race of a gate that was passed.

        The one that is due, or a later one of this lap.

        The first gate of the next lap leaves out the last one of this lap, and no more.
        """
        if self.targets[self.due] == gate:
            return self.due
        if self._rules.missed == "ignore" or self.started_ns is None:
            return None
        lap_end = self.due - self.due % self._lap_gates + self._lap_gates
        last = min(max(lap_end - 1, self.due + 1), len(self.targets) - 1)
        later = range(self.due + 1, last + 1)
        return next((number for number in later if self.targets[number] == gate), None)

    def _missed(self, number: int, t_ns: int) -> GateMissed:
        penalty_s = self._penalty(self._rules.missed)
        if self._is_lap_end(number):
            self._lap_ns = None
        return GateMissed(t_ns, self._course.gates[self.targets[number]].name, number, penalty_s)

    def _pass(self, number: int, crossing: PlaneCrossing) -> list[RaceEvent]:
        t_ns = crossing.t_ns
        gate = self._course.gates[crossing.gate].name
        lap = min(number // self._lap_gates + 1, self._course.laps)
        split_s = 1e-9 * (t_ns - self._split_ns)
        self._split_ns = t_ns
        position = crossing.y_m, crossing.z_m
        passed = GatePassed(
            t_ns, gate, number, lap, self._race_s(t_ns), split_s, crossing.speed_mps, *position
        )
        events: list[RaceEvent] = [passed]
        self._passed += 1
        self.due = number + 1
        if self._is_lap_end(number):
            if self._lap_ns is not None:
                done = (number if self._flying else number + 1) // self._lap_gates
                events.append(LapDone(t_ns, done, 1e-9 * (t_ns - self._lap_ns)))
            self._lap_ns = t_ns
        if self.due == len(self.targets):
            events.append(self.end(t_ns, "finished"))
        return events

    def _is_lap_end(self, number: int) -> bool:
        if self._flying:
            return number > 0 and number % self._lap_gates == 0
        return number % self._lap_gates == self._lap_gates - 1

    def collide(self, t_ns: int, what: str) -> list[RaceEvent]:
        """Judge a collision; those within a second of one count as one."""
        if self.started_ns is None:
            return []
        if self._collision_ns is not None and t_ns - self._collision_ns < _ONE_COLLISION_NS:
            return []
        self._collision_ns = t_ns
        events: list[RaceEvent] = [RaceCollision(t_ns, what, self._penalty(self._rules.collision))]
        return [*events, self.end(t_ns, "collision")] if self._rules.collision == "stop" else events

    def end(self, t_ns: int, outcome: Outcome) -> RaceEnded:
        """End the race."""
        self.ended = True
        return RaceEnded(t_ns, outcome, self._race_s(t_ns), self.penalty_s, self._passed)

    def _penalty(self, consequence: Consequence) -> float:
        added = self._rules.penalty_s if consequence == "penalise" else 0.0
        self.penalty_s += added
        return added

    def _race_s(self, t_ns: int) -> float:
        return 0.0 if self.started_ns is None else 1e-9 * (t_ns - self.started_ns)
