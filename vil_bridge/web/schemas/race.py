"""Bodies and answers of the race routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from vil_bridge.web.schemas.body import Body

_PilotName = Annotated[str, Field(max_length=40, pattern=r"^[^\x00-\x1f\x7f]*$")]


class RaceSetupBody(Body):
    """A new race of an arcade; null = as the race before."""

    course: str | None = Field(
        default=None, max_length=4096, description="One of `api/v1/race/courses`."
    )
    laps: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="Laps, with `course`; null = the course's."
    )
    pilots: dict[str, _PilotName] = Field(
        default={}, max_length=64, description="Names of who flies, by racer."
    )


@dataclass(frozen=True, slots=True)
class CourseOut:
    """A course to choose.

    Attributes:
        gates: of one lap. length_m: of one lap, from gate to gate, with the way from the start.
    """

    name: str
    gates: int
    laps: int
    length_m: float


@dataclass(frozen=True, slots=True)
class RaceResultOut:
    """A race of one racer that has ended.

    Attributes:
        result: its number, from 1. ended_utc: ISO 8601.
        outcome: finished, missed, collision, out_of_bounds, timed_out.
        total_s: with penalties. laps_s: of complete laps. splits_s: race time at gates, by number
            from 0.
        laps: those that ``results/RESULT/laps/LAP`` has as CSV; the last one may be a part.
    """

    result: int
    ended_utc: str
    course: str
    race_laps: int
    racer: str
    pilot: str
    outcome: str
    race_s: float
    penalty_s: float
    total_s: float
    passed: int
    laps_s: tuple[float, ...]
    splits_s: dict[int, float]
    laps: tuple[int, ...]
