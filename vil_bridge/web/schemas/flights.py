"""Bodies and answers of the flight routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from vil_bridge.web.schemas.body import Body

MOST_ROWS: Final = 1000
COLUMNS: Final = (
    *("t_s", "x_m", "y_m", "z_m", "vx_mps", "vy_mps", "vz_mps", "ax_mps2", "ay_mps2", "az_mps2"),
    *("jx_mps3", "jy_mps3", "jz_mps3", "yaw_rad"),
)

_Row = Annotated[list[float], Field(min_length=len(COLUMNS), max_length=len(COLUMNS))]


class FlightBody(Body):
    """A trajectory in the world; between its rows it is smooth."""

    rows: list[_Row] = Field(
        min_length=2,
        max_length=MOST_ROWS,
        description="Time from 0 (s), position (m), velocity (m/s), acceleration (m/s^2), jerk "
        "(m/s^3), heading (rad).",
    )
    t_ns: int | None = Field(
        default=None, description="Bridge time at which it begins, nanoseconds; null = soon."
    )


@dataclass(frozen=True, slots=True)
class FlightOut:
    """A flight that was given to an actor.

    Attributes:
        state: ``flying`` (a simulated vehicle follows it), ``done``, ``cancelled``, ``failed``, or
            ``offered``: the vehicle is a real one, and its pilot decides.
        reason: why it failed. begins_t_ns: bridge time. flown_s: time in it now.
        rows: as they came; columns: their names.
    """

    state: Literal["flying", "done", "cancelled", "failed", "offered"]
    reason: str
    begins_t_ns: int
    duration_s: float
    flown_s: float
    rows: list[list[float]]
    columns: tuple[str, ...] = COLUMNS
