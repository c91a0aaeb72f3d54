"""Bodies and answers of the vehicle routes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from vil_bridge.core.sensor_readings import (
    BarometerReading,
    BeaconsReading,
    ControlsReading,
    DistanceReading,
    GpsReading,
    ImuReading,
    LidarReading,
    MagnetometerReading,
    RotorsReading,
    SensorReading,
    Vector,
)
from vil_bridge.interfaces.vehicle_commands import Action
from vil_bridge.web.schemas.body import Body

__all__ = []

_MOST_VALUES: Final = 64

_Numbers = Annotated[list[float], Field(max_length=_MOST_VALUES)]


class CommandBody(Body):
    """Command of a pilot."""

    action: Action = Field(
        default="fly", description="fly = the values; arm, disarm; reset = back to the start."
    )
    mode: str = Field(
        default="", max_length=64, description="Of the values; empty = the one in use."
    )
    values: _Numbers | dict[str, float | _Numbers] = Field(
        default=[], description="In the mode's order, or by its fields' names."
    )
    t_ns: int | None = Field(
        default=None, description="Bridge time from which it holds, nanoseconds; null = now."
    )


class DisturbanceBody(Body):
    """Wind, force and broken rotors of a vehicle from now on, a reset included.

    Null = unchanged.
    """

    wind_world_mps: Vector | None = Field(
        default=None,
        description="Mean velocity of the air, room frame, instead of the configured one; gusts "
        "go on.",
    )
    force_world_n: Vector | None = Field(
        default=None, description="On the centre of gravity, room frame."
    )
    lost_shares: _Numbers | None = Field(
        default=None,
        description="Of thrust and torque that each rotor loses at once, 0 to 1, in the model's "
        "order.",
    )


@dataclass(frozen=True, slots=True)
class LidarOut:
    """One turn of a lidar.

    Attributes:
        p_body_m, q_body_sensor: pose of the sensor's axes (FLU) on the body, x y z w.
        points: how many. points_m: float32 x, y, z of each, sensor's axes, little endian, Base64.
        instances: uint32 ids of what was hit, as in INSTANCE pictures, 0 = unknown, likewise.
    """

    t_ns: int
    p_body_m: Vector
    q_body_sensor: tuple[float, float, float, float]
    points: int
    points_m: str
    instances: str

    @classmethod
    def of(cls, reading: LidarReading) -> LidarOut:
        """Encode a reading."""
        points_m = b64encode(reading.points_m.astype("<f4").tobytes()).decode()
        instances = b64encode(reading.instances.astype("<u4").tobytes()).decode()
        place = reading.p_body_m, reading.q_body_sensor
        return cls(reading.t_ns, *place, len(reading.points_m), points_m, instances)


@dataclass(frozen=True, slots=True)
class VehicleSensorsOut:
    """Newest reading of each sensor of a vehicle, by kind and name.

    A sensor without one yet is absent.
    """

    imu: dict[str, ImuReading]
    barometer: dict[str, BarometerReading]
    magnetometer: dict[str, MagnetometerReading]
    gps: dict[str, GpsReading]
    rotors: dict[str, RotorsReading]
    controls: dict[str, ControlsReading]
    distance: dict[str, DistanceReading]
    lidar: dict[str, LidarOut]
    beacons: dict[str, BeaconsReading]

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
            {name: r for name, r in readings.items() if isinstance(r, DistanceReading)},
            {name: LidarOut.of(r) for name, r in readings.items() if isinstance(r, LidarReading)},
            {name: r for name, r in readings.items() if isinstance(r, BeaconsReading)},
        )
