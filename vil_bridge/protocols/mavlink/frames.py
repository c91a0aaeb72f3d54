"""MAVLink's local frames and bodies (NED or FRD) and the bridge's (ENU, FLU)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, q_conj, q_mul, q_to_matrix
from vil_bridge.core.sensor_readings import Vector
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.mavlink import messages as mavlink

_S: Final = 0.5**0.5
Q_FRD_FLU: Final[FloatArray] = np.array([1.0, 0.0, 0.0, 0.0])
Q_ROOM_NED: Final[FloatArray] = np.array([_S, _S, 0.0, 0.0])
_LEAST_LEVEL: Final = math.sin(math.radians(3.0))
_Q_IDENTITY: Final[FloatArray] = np.array([0.0, 0.0, 0.0, 1.0])

FRAMES: Final[Mapping[int, FloatArray]] = {
    mavlink.FRAME_LOCAL_NED: Q_ROOM_NED,
    mavlink.FRAME_LOCAL_FRD: Q_FRD_FLU,
    mavlink.FRAME_LOCAL_ENU: _Q_IDENTITY,
    mavlink.FRAME_LOCAL_FLU: _Q_IDENTITY,
}
"""Attitude of each local frame in the room: a lab's FRD is its FLU turned about x, NED is ENU's sibling."""


def to_frd(v: Vector) -> Vector:
    """Return a vector of the body forward, left, up as forward, right, down."""
    return v[0], -v[1], -v[2]


def parallel_axes(q_frame_xyzw: FloatArray) -> FloatArray:
    """Return the rotation matrix between frames whose axes are parallel, free of rounding."""
    matrix: FloatArray = np.rint(q_to_matrix(q_frame_xyzw))
    return matrix


def in_frame(
    frame_id: int, T_room_body: Transform
) -> tuple[tuple[float, float, float], tuple[float, float, float, float]]:
    """Return the position (metres) and attitude (w, x, y, z) of a body, forward-right-down, in a local frame.

    Raises:
        KeyError: the frame is not local.
    """
    q_frame_room = q_conj(FRAMES[frame_id])
    px, py, pz = (parallel_axes(q_frame_room) @ T_room_body.p_m).tolist()
    qx, qy, qz, qw = q_mul(q_mul(q_frame_room, T_room_body.q_xyzw), q_conj(Q_FRD_FLU)).tolist()
    return (px, py, pz), (qw, qx, qy, qz)


def euler_slopes(q_wxyz: tuple[float, float, float, float]) -> FloatArray:
    """Return the changes of roll, pitch and yaw by small turns about the body's axes, shape (3, 3).

    Nose up or down, roll and yaw are the same turn: the slopes are those of a pitch 3 degrees away.
    """
    roll, pitch, _ = euler_rad(q_wxyz)
    level = max(math.cos(pitch), _LEAST_LEVEL)
    sine, cosine, rise = math.sin(roll), math.cos(roll), math.sin(pitch)
    return np.array(
        [
            [1.0, sine * rise / level, cosine * rise / level],
            [0.0, cosine, -sine],
            [0.0, sine / level, cosine / level],
        ]
    )


def euler_rad(q_wxyz: tuple[float, float, float, float]) -> tuple[float, float, float]:
    """Return roll, pitch and yaw (intrinsic Z-Y-X) of an attitude."""
    w, x, y, z = q_wxyz
    roll = math.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = math.asin(min(1.0, max(-1.0, 2.0 * (w * y - z * x))))
    return roll, pitch, math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
