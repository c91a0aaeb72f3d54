"""Plain data of what an autopilot's program flies with.

Motors, battery, airspeed, range finder, optical flow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from vil_bridge.config.base import StrictModel, custom

CURVES: Final[Mapping[str, Mapping[str, float]]] = {
    "linear": {},
    "gazebo_iris": {"idle": 100.0 / 1100.0},
    "airsim": {"exponent": 0.5},
}
"""Published motor curves, from output to rotor speed, as shares of the highest.

linear: rotor speed follows the output, as FlightGoggles and Flightmare take commands.
gazebo_iris: 100 rad/s + 1000 rad/s * output; ``zero_position_armed`` and ``input_scaling`` in
models/iris of PX4's Gazebo Classic (PX4-SITL_gazebo-classic). airsim: thrust follows the output, so
the rotor speed its root; ``RotorActuator::setOutput`` of AirSim.
"""


class AutopilotMotors(StrictModel):
    """Curve from a motor's output, 0 to 1, to the model's command.

    Rotor speed, for model airsim thrust.
    """

    preset: Literal["linear", "gazebo_iris", "airsim"] = Field(
        default="linear",
        description="A published curve of rotor speeds; the other keys change single values of it.",
    )
    dead_band: float = Field(
        default=0.0, ge=0, lt=1, description="Up to this output the motor stands."
    )
    idle: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the highest command just above the dead band.",
    )
    exponent: float = Field(
        default=1.0,
        ge=0.2,
        le=5,
        description="From there to the highest command: idle + (1 - idle) * rest^exponent.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {**CURVES.get(str(value.get("preset", "linear")), {}), **value}

    def share(self, output: float) -> float:
        """Return the share of the highest command."""
        if output <= self.dead_band:
            return 0.0
        rest = (output - self.dead_band) / (1.0 - self.dead_band)
        return self.idle + (1.0 - self.idle) * math.pow(rest, self.exponent)


class AutopilotBattery(StrictModel):
    """Battery with an inner resistance; the highest rotor speed follows its voltage."""

    cells: int = Field(default=4, ge=1, le=32, description="In series.")
    capacity_ah: float = Field(
        default=1.5, gt=0, le=1000, description="From full to empty, ampere hours."
    )
    charge: float = Field(default=1.0, gt=0, le=1, description="Share of it at the start.")
    resistance_ohm: float = Field(default=0.02, ge=0, le=10, description="Of all cells and wires.")
    cell_full_v: float = Field(
        default=4.2,
        gt=0,
        le=10,
        description="Open voltage of a full cell: motors reach their top.",
    )
    cell_empty_v: float = Field(
        default=3.3, gt=0, le=10, description="Open voltage of an empty cell; motors stop."
    )
    efficiency: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Of rotors, motors and controllers, over an ideal rotor of rotor_radius_m.",
    )
    load_w: float = Field(
        default=5.0, ge=0, le=10_000, description="Power of everything else, watts."
    )

    @model_validator(mode="after")
    def _falling(self) -> Self:
        if self.cell_empty_v >= self.cell_full_v:
            raise custom("cell_empty_v must be less than cell_full_v")
        return self


class AutopilotAirspeed(StrictModel):
    """Pitot tube that looks ahead."""

    rate_hz: float = Field(
        default=50.0, gt=0, le=1000, description="Readings per second, at most one per sample."
    )
    noise_pa: float = Field(
        default=0.5, ge=0, le=1000, description="Standard deviation of its pressure, pascal."
    )
    offset_pa: float = Field(
        default=0.0, ge=-1000, le=1000, description="Constant error of its pressure, pascal."
    )


class AutopilotRange(StrictModel):
    """Range finder that looks down, over the floor and the source's `contact: {scene}`."""

    rate_hz: float = Field(
        default=20.0, gt=0, le=1000, description="Readings per second, at most one per sample."
    )
    min_m: float = Field(default=0.1, ge=0, le=100, description="Shortest range, metres.")
    max_m: float = Field(default=12.0, gt=0, le=1000, description="Longest range, metres.")
    noise_m: float = Field(default=0.01, ge=0, le=10, description="Standard deviation, metres.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.min_m >= self.max_m:
            raise custom("min_m must be less than max_m")
        return self


class AutopilotFlow(StrictModel):
    """Optical flow of a camera that looks down, over the same surfaces as the range finder's."""

    rate_hz: float = Field(
        default=20.0, gt=0, le=1000, description="Readings per second, at most one per sample."
    )
    max_m: float = Field(
        default=30.0, gt=0, le=1000, description="Farthest surface with a texture, metres."
    )
    noise_radps: float = Field(
        default=0.02, ge=0, le=10, description="Standard deviation of the mean flow, rad/s."
    )
