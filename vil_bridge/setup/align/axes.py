"""Streamed axes that are forward, left and up, mirrored data, and the attitude of the body.

Somebody moved a body forward, left and up, and turned it to the left. The directions of the moves
are the world's axes in the coordinates of the stream; their triple product is the handedness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.geometry import cross, q_from_matrix, q_mul
from vil_bridge.core.types import FloatArray
from vil_bridge.setup.align.segmentation import CalibrationError, MotionSegment

LEAST_M: Final = 0.25
LEAST_TURN_RAD: Final = np.radians(40.0)
_LEVEL_RAD: Final = np.radians(30.0)
_SQUARE_RAD: Final = np.radians(30.0)
_SNAP_RAD: Final = np.radians(15.0)


@dataclass(frozen=True, slots=True)
class Axes:
    """The world's axes as the stream shows them.

    Attributes:
        R_world_streamed: shape (3, 3); rows are forward, left and up in streamed coordinates. Its
            determinant is -1 where the data are mirrored.
        walked_forward: shape (3,), the horizontal direction really walked, streamed coordinates;
            the first row is the streamed axis next to it, where that is within 15 degrees.
        off_deg: angle between the two before the axis was taken.
    """

    R_world_streamed: FloatArray
    walked_forward: FloatArray
    off_deg: float

    @property
    def mirrored(self) -> bool:
        """The streamed coordinates are left-handed."""
        return bool(np.linalg.det(self.R_world_streamed) < 0.0)

    @property
    def names(self) -> tuple[str, str, str]:
        """The streamed axes next to forward, left and up, as ``+x`` or ``-z``."""
        forward, left, up = (axis_name(row) for row in self.R_world_streamed)
        return forward, left, up


def axis_name(direction: FloatArray) -> str:
    """Return the signed coordinate axis next to a direction (3,)."""
    index = int(np.argmax(np.abs(direction)))
    return f"{'-' if direction[index] < 0.0 else '+'}{'xyz'[index]}"


def find_axes(forward_m: FloatArray, left_m: FloatArray, up_m: FloatArray) -> Axes:
    """Find the axes from three displacements (3,) in streamed coordinates.

    Raises:
        CalibrationError: a move was too small, or the directions contradict what was asked for.
    """
    for name, move in (("forward", forward_m), ("left", left_m), ("up", up_m)):
        length_m = float(np.linalg.norm(move))
        if length_m < LEAST_M:
            raise CalibrationError(
                f"the move {name} was {100 * length_m:.0f} cm; at least "
                f"{100 * LEAST_M:.0f} cm are needed, 50 are good"
            )
    up = _nearest_axis(up_m)
    if _angle(up, up_m) > _LEVEL_RAD:
        raise CalibrationError(
            f"the move up lies {np.degrees(_angle(up, up_m)):.0f} degrees from the "
            "nearest axis of the stream "
            f"({axis_name(up)}): move straight up; if you did, set the ground plane of "
            "the mocap system again"
        )
    forward, left = (
        _level(name, move, up) for name, move in (("forward", forward_m), ("left", left_m))
    )
    apart_rad = _angle(forward, left)
    if abs(apart_rad - np.pi / 2) > _SQUARE_RAD:
        raise CalibrationError(
            f"forward and left are {np.degrees(apart_rad):.0f} degrees apart instead of "
            "90: the directions are "
            "ambiguous; move along two edges of a tile or a table"
        )
    hand = 1.0 if float(cross(forward, left) @ up) > 0.0 else -1.0
    walked = _unit(forward + hand * cross(left, up))
    nearest = _nearest_axis(walked)
    off_rad = _angle(walked, nearest)
    chosen = nearest if off_rad < _SNAP_RAD else walked
    rows = np.stack((chosen, hand * cross(up, chosen), up))
    return Axes(rows, walked, float(np.degrees(off_rad)))


def body_attitude(axes: Axes, q_streamed_markers: FloatArray) -> FloatArray:
    """Return q_body_markers (4,) of a body held level, nose in the direction walked.

    Not for mirrored data.
    """
    rows = np.stack(
        (
            axes.walked_forward,
            cross(axes.R_world_streamed[2], axes.walked_forward),
            axes.R_world_streamed[2],
        )
    )
    return q_mul(q_from_matrix(rows), q_streamed_markers)


def attitude_problem(axes: Axes, turn: MotionSegment) -> str:
    """Describe a contradiction of attitudes and positions, shown by a turn to the left.

    Empty when they agree.

    Raises:
        CalibrationError: the turn was too small.
    """
    turn_rad = turn.turn_rad
    angle_rad = float(np.linalg.norm(turn_rad))
    if angle_rad < LEAST_TURN_RAD:
        raise CalibrationError(
            f"the turn to the left was {np.degrees(angle_rad):.0f} degrees; a quarter "
            "turn is wanted"
        )
    up = axes.R_world_streamed[2]
    off_rad = _angle(turn_rad, up)
    if off_rad < np.pi / 4:
        return ""
    if off_rad > 0.75 * np.pi:
        return (
            "a turn to the left arrives as a turn to the right, while the positions are "
            "right-handed: the attitudes "
            "are inverted (conjugate quaternion, or w where x should be)"
        )
    return (
        f"positions have {axis_name(up)} up, but a turn to the left arrives as one about "
        f"{axis_name(turn_rad)}: "
        "attitudes and positions are in different axes (old mocap versions turn only the "
        "positions when "
        "their up axis is changed): set the up axis in the mocap system so that both agree, "
        "and define the rigid body again"
    )


def _nearest_axis(direction: FloatArray) -> FloatArray:
    index = int(np.argmax(np.abs(direction)))
    axis = np.zeros(3)
    axis[index] = np.copysign(1.0, direction[index])
    return axis


def _level(name: str, move_m: FloatArray, up: FloatArray) -> FloatArray:
    """Return the horizontal unit direction of a move."""
    climb_rad = abs(_angle(move_m, up) - np.pi / 2)
    if climb_rad > _LEVEL_RAD:
        raise CalibrationError(
            f"the move {name} goes {np.degrees(climb_rad):.0f} degrees up or down, seen "
            "from the move up: "
            "keep the height while moving, or the moves came in another order than asked for"
        )
    return _unit(move_m - (move_m @ up) * up)


def _unit(v: FloatArray) -> FloatArray:
    unit: FloatArray = v / np.linalg.norm(v)
    return unit


def _angle(a: FloatArray, b: FloatArray) -> float:
    return float(np.arctan2(np.linalg.norm(cross(a, b)), a @ b))
