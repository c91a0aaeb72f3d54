"""Readings of the vision pilot, all that reaches it in a race, and its equipment.

All that it knows of its sensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray
from vil_simulation.vehicles.sensors.imu import ImuParameters
from vil_simulation.vehicles.sensors.presets import IMU_PRESETS, RANGE_PRESETS
from vil_simulation.vehicles.sensors.rangefinder import DOWNWARDS, RangeParameters

COMMANDS_HZ: Final = 240.0
_GYRO_TURN_ON_RADPS: Final = 3e-3
_ACCEL_TURN_ON_MPS2: Final = 0.05


class PilotReadings(NamedTuple):
    """Sensor messages of one instant, to one pilot.

    Attributes:
        t_ns: time of the race.
        w_radps, f_mps2: of the IMU, (3,) each, body FLU.
        range_m: along body -z; None = no reading now, or nothing within reach.
        picture: (height, width, 3) RGB; None = no picture now.
    """

    t_ns: int
    w_radps: FloatArray
    f_mps2: FloatArray
    range_m: float | None
    picture: npt.NDArray[np.uint8] | None


def _camera() -> CameraModel:
    return CameraModel("pilot", 640, 480, 2.0 * math.atan(0.75))


def _imu() -> ImuParameters:
    preset = IMU_PRESETS["mti1"]
    return replace(
        preset,
        gyro=replace(preset.gyro, turn_on=_GYRO_TURN_ON_RADPS),
        accel=replace(preset.accel, turn_on=_ACCEL_TURN_ON_MPS2),
        rate_hz=COMMANDS_HZ,
    )


def _rangefinder() -> RangeParameters:
    return replace(RANGE_PRESETS["flightgoggles"], mounting=DOWNWARDS)


@dataclass(frozen=True, slots=True)
class PilotEquipment:
    """Sensors on the vehicle.

    FlightGoggles' IMU, with biases when it is switched on, and range finder; one camera.

    Attributes:
        camera: 90 degrees wide. T_body_camera: its optical axes (x right, y down, z ahead) in the
            body.
        picture_hz: of its pictures, which show the instant at which they come.
        imu: at the centre of gravity; its rate is that of the commands.
        rangefinder: looks down from the centre of gravity.
    """

    camera: CameraModel = field(default_factory=_camera)
    T_body_camera: Transform = field(
        default_factory=lambda: Transform.of((0.1, 0.0, 0.0), (-0.5, 0.5, -0.5, 0.5))
    )
    picture_hz: float = 30.0
    imu: ImuParameters = field(default_factory=_imu)
    rangefinder: RangeParameters = field(default_factory=_rangefinder)
