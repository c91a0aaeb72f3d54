"""Standing of one racer: what its race clock has said so far."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from vil_bridge.core.geometry import Transform
from vil_bridge.courses.course import Course
from vil_bridge.world.race.clock import RaceClock
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
from vil_bridge.world.race.flown import FlightTrack, FlownLap, FlownRace

_DESCENT_NS: Final = 400_000_000
_STEADY_NS: Final = 50_000_000
_HEIGHTS: Final = 256
"""Newest ones of a racer."""

RacerPhase = Literal["waiting", "ready", "racing"] | Outcome


@dataclass(frozen=True, slots=True)
class RacerInstant:
    """Standing of a racer between two checks.

    Its numbers belong together, whichever thread reads them.

    Attributes:
        phase: waiting (for poses or the signal), ready (its time has not started), racing, or the
            outcome.
        next_gate: name of the gate that is due; empty once the race has ended. due: its number in
            the race, from 0.
        passed: gates so far. lap: from 1. laps: of the race. penalty_s: so far.
        started_ns: start of its time; None = not yet. ended_s: time of the race at its end; None =
            it goes on.
    """

    phase: RacerPhase
    next_gate: str
    due: int
    passed: int
    lap: int
    laps: int
    penalty_s: float
    started_ns: int | None
    ended_s: float | None

    def race_s(self, t_ns: int) -> float:
        """Return the time of the race at ``t_ns``, without penalties; 0 before it starts."""
        if self.ended_s is not None:
            return self.ended_s
        return 0.0 if self.started_ns is None else max(0.0, 1e-9 * (t_ns - self.started_ns))


class RacerStanding:
    """One racer, its clock, and the sums of its events; one thread changes it, any thread reads.

    Attributes:
        seen: a pose came since the race was set up. signalled: the starting signal was given.
        splits_s: race time at each gate, by its number in the race.
        laps_s: times of complete laps. missed, collisions: how many.
        ended: the last event; None = the race goes on.
        instant: what :meth:`publish` found.
        pilot: who flies it, for the results.
    """

    def __init__(self, name: str, course: Course, radius_m: float, pilot: str = "") -> None:
        self.name: Final = name
        self.pilot: Final = pilot
        self.clock: Final = RaceClock(course, radius_m=radius_m)
        self.seen = False
        self.signalled = False
        self.splits_s: dict[int, float] = {}
        self.laps_s: Final[list[float]] = []
        self.missed = 0
        self.collisions = 0
        self.ended: RaceEnded | None = None
        self._course: Final = course
        self._track: Final = FlightTrack()
        self._laps: Final[list[FlownLap]] = []
        self._lap_ns = 0
        self._heights: Final[deque[tuple[int, float]]] = deque(maxlen=_HEIGHTS)
        self.publish()

    def publish(self) -> None:
        """Make what is known now the racer's instant, after the events of a check were all
        added.
        """
        progress = self.clock.progress
        self.instant = RacerInstant(
            phase=self.phase,
            next_gate=""
            if progress.ended
            else self._course.gates[progress.targets[progress.due]].name,
            due=progress.due,
            passed=len(self.splits_s),
            lap=progress.lap,
            laps=self._course.laps,
            penalty_s=progress.penalty_s,
            started_ns=progress.started_ns,
            ended_s=None if self.ended is None else self.ended.race_s,
        )

    def descent_mps(self, t_ns: int, newer: Sequence[tuple[int, Transform]]) -> float:
        """Return the highest speed downwards before a time; infinite where no two poses show it.

        A contact that lasts is reported again each 100 ms: the fall may lie before the newest one.

        Args:
            t_ns: the time.
            newer: poses that were not fed yet.
        """
        heights = [*self._heights, *((one_ns, float(pose.p_m[2])) for one_ns, pose in newer)]
        before = [(one_ns, z_m) for one_ns, z_m in heights if t_ns - _DESCENT_NS <= one_ns <= t_ns]
        falls = (
            1e9 * (high_m - low_m) / (last_ns - first_ns)
            for first_ns, high_m in before
            for last_ns, low_m in before
            if last_ns - first_ns >= _STEADY_NS
        )
        return max(falls, default=math.inf)

    def feed(self, t_ns: int, pose: Transform) -> list[RaceEvent]:
        """Take a measured pose, later than those before, and return the events that are certain
        now.
        """
        self._heights.append((t_ns, float(pose.p_m[2])))
        if self.ended is None:
            self._track.add(t_ns, pose, flying=self.clock.progress.started_ns is not None)
        return self.clock.feed(t_ns, pose.p_m)

    def take(self, event: RaceEvent) -> None:
        """Add an event."""
        match event:
            case RaceStarted():
                self._lap_ns = event.t_ns
            case GatePassed():
                # Other threads read it.
                self.splits_s = {**self.splits_s, event.number: event.race_s}
            case GateMissed():
                self.missed += 1
            case LapDone():
                self.laps_s.append(event.lap_s)
                self._laps.append(
                    FlownLap(event.lap, event.t_ns - round(1e9 * event.lap_s), event.t_ns)
                )
                self._lap_ns = event.t_ns
            case RaceCollision():
                self.collisions += 1
            case RaceEnded():
                if self.clock.progress.started_ns is not None and event.t_ns > self._lap_ns:
                    number = 1 + (self._laps[-1].number if self._laps else 0)
                    self._laps.append(FlownLap(number, self._lap_ns, event.t_ns, complete=False))
                self.ended = event

    def flown(self, number: int) -> FlownRace | None:
        """Return the race for the results, under a number.

        None = it has not ended, or its time never started.
        """
        started_ns = self.clock.progress.started_ns
        if self.ended is None or started_ns is None:
            return None
        return FlownRace(
            number=number,
            course=self._course,
            racer=self.name,
            pilot=self.pilot,
            end=self.ended,
            splits_s=self.splits_s,
            laps=tuple(self._laps),
            track=self._track.rows(started_ns, self.ended.t_ns),
        )

    @property
    def phase(self) -> RacerPhase:
        """Return the phase at this moment: see :class:`RacerInstant`."""
        if self.ended is not None:
            return self.ended.outcome
        if not self.signalled:
            return "waiting"
        return "ready" if self.clock.progress.started_ns is None else "racing"

    @property
    def place(self) -> tuple[int, float]:
        """Return a key that is smaller for who is further, or was there earlier, penalties
        included.
        """
        if not self.splits_s:
            return 0, 0.0
        last = max(self.splits_s)
        return -last - 1, self.splits_s[last] + self.clock.progress.penalty_s

    def gap_s(self, leader: RacerStanding) -> float | None:
        """Return the time behind the leader at the last gate, penalties included.

        None = there is none to compare.
        """
        last = max(self.splits_s, default=-1)
        if last not in leader.splits_s:
            return None
        penalties_s = self.clock.progress.penalty_s - leader.clock.progress.penalty_s
        return self.splits_s[last] - leader.splits_s[last] + penalties_s
