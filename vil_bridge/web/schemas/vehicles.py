"""Bodies and answers of the vehicle routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from vil_bridge.core.sensor_readings import (
    BarometerReading,
    ControlsReading,
    GpsReading,
    ImuReading,
    MagnetometerReading,
    RotorsReading,
    SensorReading,
)
from vil_bridge.core.vehicle_commands import Action
from vil_bridge.web.schemas.body import Body

__all__ = []

_MOST_VALUES: Final = 64

_Numbers = Annotated[list[float], Field(max_length=_MOST_VALUES)]


class CommandBody(Body):
    """Command of a pilot."""

    action: Action = Field(default="fly", description="fly = the values; arm, disarm; reset = back to the start.")
    mode: str = Field(default="", max_length=64, description="Of the values; empty = the one in use.")
    values: _Numbers | dict[str, float | _Numbers] = Field(
        default=[], description="In the mode's order, or by its fields' names."
    )
    t_ns: int | None = Field(default=None, description="Bridge time from which it holds, nanoseconds; null = now.")


@dataclass(frozen=True, slots=True)
class VehicleSensorsOut:
    """Newest reading of each sensor of a vehicle, by kind and name; a sensor without one yet is absent."""

    imu: dict[str, ImuReading]
    barometer: dict[str, BarometerReading]
    magnetometer: dict[str, MagnetometerReading]
    gps: dict[str, GpsReading]
    rotors: dict[str, RotorsReading]
    controls: dict[str, ControlsReading]

    @classmethod
    def of(cls, readings: Mapping[str, SensorReading]) -> VehicleSensorsOut:
        """Sort readings by their kinds."""
        return cls(
            {name: r for name, r in readings.items() if isinstance(r, ImuReading)},
            {name: r for name, r in readings.items() if isinstance(r, BarometerReading)},
            {name: r for name, r in readings.items() if isinstance(r, MagnetometerReading)},
            {name: r for name, r in readings.items() if isinstance(r, GpsReading)},
            {name: r for name, r in readings.items() if isinstance(r, RotorsReading)},
            {name: r for name, r in readings.items() if isinstance(r, ControlsReading)},
        )
