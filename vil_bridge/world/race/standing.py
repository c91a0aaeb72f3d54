"""Standing of one racer: what its race clock has said so far."""

from __future__ import annotations

from typing import Final, Literal

from vil_bridge.core.course import Course
from vil_bridge.world.race.clock import RaceClock
from vil_bridge.world.race.events import (
    GateMissed,
    GatePassed,
    LapDone,
    Outcome,
    RaceCollision,
    RaceEnded,
    RaceEvent,
)

RacerPhase = Literal["waiting", "ready", "racing"] | Outcome


class RacerStanding:
    """One racer, its clock, and the sums of its events; one thread changes it, any thread reads.

    Attributes:
        seen: a pose came since the race was set up. signalled: the starting signal was given.
        splits_s: race time at each gate, by its number in the race.
        laps_s: times of complete laps. missed, collisions: how many.
        ended: the last event; None = the race goes on.
    """

    def __init__(self, name: str, course: Course, radius_m: float) -> None:
        self.name: Final = name
        self.clock: Final = RaceClock(course, radius_m=radius_m)
        self.seen = False
        self.signalled = False
        self.splits_s: dict[int, float] = {}
        self.laps_s: Final[list[float]] = []
        self.missed = 0
        self.collisions = 0
        self.ended: RaceEnded | None = None
        self._course: Final = course

    def take(self, event: RaceEvent) -> None:
        """Add an event."""
        match event:
            case GatePassed():
                self.splits_s = {**self.splits_s, event.number: event.race_s}  # other threads read it
            case GateMissed():
                self.missed += 1
            case LapDone():
                self.laps_s.append(event.lap_s)
            case RaceCollision():
                self.collisions += 1
            case RaceEnded():
                self.ended = event

    @property
    def phase(self) -> RacerPhase:
        """Return waiting (for poses or the signal), ready (its time has not started), racing, or the outcome."""
        if self.ended is not None:
            return self.ended.outcome
        if not self.signalled:
            return "waiting"
        return "ready" if self.clock.progress.started_ns is None else "racing"

    def race_s(self, t_ns: int) -> float:
        """Return the time of the race at ``t_ns``, without penalties; 0 before it starts."""
        if self.ended is not None:
            return self.ended.race_s
        started_ns = self.clock.progress.started_ns
        return 0.0 if started_ns is None else max(0.0, 1e-9 * (t_ns - started_ns))

    @property
    def next_gate(self) -> str:
        """Return the gate that is due; empty once the race has ended."""
        progress = self.clock.progress
        return "" if progress.ended else self._course.gates[progress.targets[progress.due]].name

    @property
    def place(self) -> tuple[int, float]:
        """Return a key that is smaller for who is further, or was there earlier, penalties included."""
        if not self.splits_s:
            return 0, 0.0
        last = max(self.splits_s)
        return -last - 1, self.splits_s[last] + self.clock.progress.penalty_s

    def gap_s(self, leader: RacerStanding) -> float | None:
        """Return the time behind the leader at the last gate, penalties included; None = there is none to compare."""
        last = max(self.splits_s, default=-1)
        if last not in leader.splits_s:
            return None
        penalties_s = self.clock.progress.penalty_s - leader.clock.progress.penalty_s
        return self.splits_s[last] - leader.splits_s[last] + penalties_s
