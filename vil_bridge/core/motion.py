"""Motion of bodies: inertial samples over an interval, and a body's pose with its twist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray


class ImuWindow(NamedTuple):
    """Inertial samples over an interval, in bridge time.

    Attributes:
        t_ns: shape (n,), int64, strictly increasing.
        w_radps: shape (n, 3), angular rate in the IMU's axes.
        f_mps2: shape (n, 3), specific force in the IMU's axes.
    """

    t_ns: npt.NDArray[np.int64]
    w_radps: FloatArray
    f_mps2: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class BodyMotion:
    """A rigid body at one instant.

    Attributes:
        v_world_mps: shape (3,), velocity of the body's origin, world axes.
        w_body_radps: shape (3,), angular rate, body axes.
        method: how it was found: ``interpolated``, ``inertial`` or ``constant-twist``.
        imu_age_ns: the instant minus the newest inertial sample; None without an IMU.
        gyro_bias_radps: shape (3,), estimate to subtract from the gyroscope, IMU axes; None without
            an IMU.
        gyro_scale: shape (3,), estimate of true rate over measured rate without bias, less 1; None
            without an IMU.
        accel_bias_mps2: shape (3,), estimate to subtract from the accelerometer, IMU axes; None
            without an IMU.
        imu_late_ns: how much later the IMU's stamps are than mocap's of the same instant; None
            without an IMU.
        covariance: shape (9, 9), of attitude (rad, a turn in the body's axes), velocity (m/s) and
            position (m), both in world axes; None = not known.
    """

    t_ns: int
    T_world_body: Transform
    v_world_mps: FloatArray
    w_body_radps: FloatArray
    method: str
    imu_age_ns: int | None = None
    gyro_bias_radps: FloatArray | None = None
    gyro_scale: FloatArray | None = None
    accel_bias_mps2: FloatArray | None = None
    imu_late_ns: int | None = None
    covariance: FloatArray | None = None


def pose_covariance(covariance: FloatArray) -> FloatArray:
    """Return the part of :attr:`BodyMotion.covariance` that is the pose's.

    Position, then attitude, shape (6, 6).
    """
    pose: FloatArray = covariance[np.ix_(_POSE, _POSE)]
    return pose


def pose_covariance_upper(covariance: FloatArray) -> list[float]:
    """Return the upper triangle of :func:`pose_covariance`, row by row, 21 plain numbers."""
    upper: list[float] = covariance.take(_POSE_UPPER).tolist()
    return upper


def velocity_covariance(covariance: FloatArray) -> FloatArray:
    """Return the part of :attr:`BodyMotion.covariance` that is the velocity's, world axes, shape
    (3, 3).
    """
    return covariance[3:6, 3:6]


_POSE: Final = (6, 7, 8, 0, 1, 2)
_POSE_UPPER: Final = np.array(
    [9 * row + column for i, row in enumerate(_POSE) for column in _POSE[i:]]
)
