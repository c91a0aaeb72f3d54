"""Events of a race, in time order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["finished", "missed", "collision", "out_of_bounds", "timed_out"]


@dataclass(frozen=True, slots=True)
class RaceStarted:
    """Start of the race's time."""

    t_ns: int


@dataclass(frozen=True, slots=True)
class GatePassed:
    """Pass of the gate that was due.

    Attributes:
        number: of the gate in the race, from 0. lap: from 1.
        race_s: since the start. split_s: since the gate before it, or the start.
        y_m, z_m: in the gate's plane from the centre of the opening, left and up.
    """

    t_ns: int
    gate: str
    number: int
    lap: int
    race_s: float
    split_s: float
    speed_mps: float
    y_m: float
    z_m: float


@dataclass(frozen=True, slots=True)
class GateMissed:
    """Gate that was left out: a later one was passed.

    Attributes:
        penalty_s: added to the time of the race.
    """

    t_ns: int
    gate: str
    number: int
    penalty_s: float


@dataclass(frozen=True, slots=True)
class LapDone:
    """End of a lap, from 1."""

    t_ns: int
    lap: int
    lap_s: float


@dataclass(frozen=True, slots=True)
class RaceCollision:
    """Collision with a gate's frame, an obstacle, or what the simulation names."""

    t_ns: int
    what: str
    penalty_s: float


@dataclass(frozen=True, slots=True)
class RaceEnded:
    """End of the race.

    Attributes:
        race_s: since the start, without penalties; 0 if it never started.
    """

    t_ns: int
    outcome: Outcome
    race_s: float
    penalty_s: float
    passed: int


RaceEvent = RaceStarted | GatePassed | GateMissed | LapDone | RaceCollision | RaceEnded
