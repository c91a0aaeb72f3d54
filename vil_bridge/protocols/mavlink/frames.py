"""MAVLink's local frames and bodies (NED or FRD) and the bridge's (ENU, FLU)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, q_conj, q_to_matrix
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
"""Attitude of each local frame in the room.

A lab's FRD is its FLU turned about x, NED is ENU's sibling.
"""


def to_frd(v: Vector) -> Vector:
    """Return a vector of the body forward, left, up as forward, right, down."""
    return v[0], -v[1], -v[2]


def parallel_axes(q_frame_xyzw: FloatArray) -> FloatArray:
    """Return the rotation matrix between frames whose axes are parallel, free of rounding."""
    matrix: FloatArray = np.rint(q_to_matrix(q_frame_xyzw))
    return matrix


def in_frame(
    frame_id: int, T_room_body: Transform
) -> tuple[Vector, tuple[float, float, float, float]]:
    """Return the position (metres) and attitude (w, x, y, z) of a body, forward-right-down, in a
    local frame.

    Raises:
        KeyError: the frame is not local.
    """
    return coordinates(frame_id, T_room_body.p_m.tolist(), T_room_body.q_xyzw.tolist())


def coordinates(
    frame_id: int, p_room_m: Sequence[float], q_room_body: Sequence[float]
) -> tuple[Vector, tuple[float, float, float, float]]:
    """Return the same as :func:`in_frame` in plain numbers, which takes a tenth of the time of
    array functions.
    """
    axes, (a, b, c, d) = _AXES[frame_id]
    p = [0.0 + sign * p_room_m[i] for i, sign in axes]  # no negative zeros
    x, y, z, w = q_room_body
    qx = d * x + a * w + b * z - c * y
    qy = d * y - a * z + b * w + c * x
    qz = d * z + a * y - b * x + c * w
    qw = d * w - a * x - b * y - c * z
    # Behind it the half turn about x from the body's axes to forward, right, down.
    return (p[0], p[1], p[2]), (0.0 + qx, 0.0 - qw, 0.0 - qz, 0.0 + qy)


def _axes(
    q_room_frame: FloatArray,
) -> tuple[list[tuple[int, int]], tuple[float, float, float, float]]:
    """Return which axis of the room each of a frame's is, with its sign, and the attitude of the
    room in the frame.
    """
    q_frame_room = q_conj(q_room_frame)
    matrix = parallel_axes(q_frame_room)
    a, b, c, d = q_frame_room.tolist()
    return [(int(abs(row).argmax()), int(row.sum())) for row in matrix], (a, b, c, d)


_AXES: Final = {frame: _axes(q_room_frame) for frame, q_room_frame in FRAMES.items()}


def euler_slopes(q_wxyz: tuple[float, float, float, float]) -> FloatArray:
    """Return the changes of roll, pitch and yaw by small turns about the body's axes, shape (3, 3).

    Nose up or down, roll and yaw are the same turn: the slopes are those of a pitch 3 degrees away.
    """
    roll, pitch, _ = euler_rad(q_wxyz)
    level = max(math.cos(pitch), _LEAST_LEVEL)
    sine = math.sin(roll)
    cosine = math.cos(roll)
    rise = math.sin(pitch)
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
