"""A race as people read it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RacerView:
    """A racer now.

    Attributes:
        state: waiting (for poses or the signal), ready (its time has not started), racing, or the
            outcome: finished, missed, collision, out_of_bounds, timed_out.
        place: 1 = the leader. race_s: its clock, without penalties. penalty_s: so far.
        next_gate: that is due; empty once the race has ended.
        laps_s, splits_s: the newest 64: times of laps, and race time at gates by their number in
            the race, from 0.
        gap_s: behind the leader at the last gate, penalties included; None = there is none to
            compare.
        due: number of the next gate in the race, from 0. pilot: who flies; empty = unknown.
    """

    state: str
    place: int
    race_s: float
    penalty_s: float
    next_gate: str
    passed: int
    missed: int
    collisions: int
    laps_s: tuple[float, ...] = ()
    splits_s: dict[int, float] = field(default_factory=dict)
    gap_s: float | None = None
    due: int = 0
    pilot: str = ""


@dataclass(frozen=True, slots=True)
class RaceView:
    """The race of a bridge.

    Attributes:
        gates: of one lap. timeout_s: longest time; None = unlimited. racers: by actor, the leader
            first.
        arcade: pages may choose the course.
    """

    course: str
    laps: int
    gates: int
    timeout_s: float | None
    racers: dict[str, RacerView]
    arcade: bool = False
