"""Race in the status, the metrics and ``vil-bridge top``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from vil_bridge.core.measure import Measure, Sample, marked

__all__ = ["RaceView", "RacerView", "View", "metrics", "rows"]

_LABELS: Final = ("racer",)
_FINISHED: Final = Measure("race_finished", "1 once the racer has finished.")


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
    place: Annotated[int, Measure("race_place", "1 for the leader.")]
    race_s: Annotated[float, Measure("race_seconds", "Clock of the racer, without penalties.")]
    penalty_s: Annotated[float, Measure("race_penalty_seconds", "Penalties so far.")]
    next_gate: str
    passed: Annotated[int, Measure("race_gates_passed", "Gates passed in this race.")]
    missed: Annotated[int, Measure("race_gates_missed", "Gates missed in this race.")]
    collisions: Annotated[int, Measure("race_collisions", "Collisions in this race.")]
    laps_s: tuple[float, ...] = ()
    splits_s: dict[int, float] = field(default_factory=dict)
    gap_s: Annotated[
        float | None, Measure("race_gap_seconds", "Behind the leader at the last gate.")
    ] = None
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


View = RaceView | None
"""None = the bridge has no race."""


def metrics(race: View) -> Iterator[tuple[Measure, tuple[str, ...], list[Sample]]]:
    """Yield each metric with the names of its labels and its samples."""
    racers: dict[str, RacerView] = {}
    if race is not None:
        racers = race.racers
    for measure, samples in marked(RacerView, racers):
        yield measure, _LABELS, samples
    yield _FINISHED, _LABELS, [((name,), one.state == "finished") for name, one in racers.items()]


def rows(race: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row of a terminal for each racer of a status as JSON: kind, name, state, note."""
    for name, racer in race.get("racers", {}).items():
        note = (
            f"{racer['race_s']:.1f} s, {racer['passed']} gates, next {racer['next_gate'] or 'none'}"
        )
        yield "racer", name, racer["state"], note
