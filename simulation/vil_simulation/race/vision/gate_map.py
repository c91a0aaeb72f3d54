"""Gates as the pilot knows them before the race, and the edges of their openings as a camera
sees them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.geometry import yaw_matrix
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.courses.course import Course, PoseSpread

SHIFTS: Final = 4
"""Numbers by which a gate may be moved.

X, y, z (m, world axes) and a turn about the vertical (rad).
"""
_FRAME_M: Final = (0.065, 0.215)
"""Front and back of the frame behind the gate's plane."""
_CORNERS: Final = np.array([(0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5), (0.5, -0.5)])
"""Top left, top right, bottom right, bottom left, in widths to the left and heights upwards."""
_LEAST_STD: Final = np.array((0.02, 0.02, 0.02, 0.004))
_DOUBTED: Final = np.array((0.6, 0.6, 0.3, 0.12))
"""Beyond the bounds of a gate's shifts, an estimate is that of something else."""


@dataclass(frozen=True, eq=False)
class GateMap:
    """Nominal gates of a course.

    Attributes:
        centres_m: of the openings, (g, 3). axes: rotation matrices, (g, 3, 3), x in the direction
            of flight.
        openings_m: width and height, (g, 2). bars_m: widths of the frames, (g,).
        blue: frames that are blue, the others are orange, (g,).
        stds: deviations of the gates' shifts, (g, 4). most: largest shifts that are believed, (g,
            4).
    """

    centres_m: FloatArray
    axes: FloatArray
    openings_m: FloatArray
    bars_m: FloatArray
    blue: BoolArray
    stds: FloatArray
    most: FloatArray

    @classmethod
    def of(cls, course: Course) -> GateMap:
        """Return the map of a nominal course."""
        widths = np.array([_widths(gate.spread) for gate in course.gates])
        blue = np.arange(len(course.gates)) % 2 == 1
        stds = np.maximum(widths / math.sqrt(12.0), _LEAST_STD)
        return cls(
            course.centres_m,
            course.axes,
            course.openings_m,
            course.bars_m,
            blue,
            stds,
            0.5 * widths + _DOUBTED,
        )

    def centre_m(self, gate: int, shift: FloatArray) -> FloatArray:
        """Return the centre of a gate that is moved, (3,)."""
        return np.asarray(self.centres_m[gate] + shift[:3])

    def rotation(self, gate: int, shift: FloatArray) -> FloatArray:
        """Return the axes of a gate that is moved, (3, 3)."""
        return np.asarray(yaw_matrix(float(shift[3])) @ self.axes[gate])

    def in_gate(self, gate: int, shift: FloatArray, p_world_m: FloatArray) -> FloatArray:
        """Return a point in the axes of a gate that is moved, (3,)."""
        return np.asarray((p_world_m - self.centre_m(gate, shift)) @ self.rotation(gate, shift))

    def edges_m(self, gate: int, shift: FloatArray, p_eye_m: FloatArray) -> FloatArray:
        """Return the edges that bound the opening as seen from a point.

        Top, right, bottom, left, (4, 2, 3), world.

        An edge lies at the back of the frame where the eye is within the opening's extent on that
        side, else at its front.
        """
        eye = self.in_gate(gate, shift, p_eye_m)
        width, height = self.openings_m[gate]
        within = (
            eye[2] < 0.5 * height,
            eye[1] > -0.5 * width,
            eye[2] > -0.5 * height,
            eye[1] < 0.5 * width,
        )
        corners = _CORNERS * (width, height)
        points = np.empty((4, 2, 3))
        for side in range(4):
            points[side, :, 0] = _FRAME_M[1] if within[side] else _FRAME_M[0]
            points[side, 0, 1:], points[side, 1, 1:] = corners[side], corners[(side + 1) % 4]
        seen: FloatArray = self.centre_m(gate, shift) + points @ self.rotation(gate, shift).T
        return seen


def _widths(spread: PoseSpread) -> FloatArray:
    """Return the widths of the ranges of a gate's shifts, (4,)."""
    low = np.array(spread.low_m)
    high = np.array(spread.high_m)
    return np.append(high - low, spread.high_rpy_rad[2] - spread.low_rpy_rad[2])
