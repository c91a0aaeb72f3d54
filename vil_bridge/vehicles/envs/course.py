"""Courses of gates, and the test whether a step passes one: its straight line goes through the opening."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.geometry import yaw_matrix
from vil_bridge.core.types import BoolArray, FloatArray

_BORDER_M: Final = 8.0
_ABOVE_M: Final = 6.0


class Crossings(NamedTuple):
    """Gates passed and hit by n vehicles on their way; all of shape (n, g).

    Attributes:
        passed: went through the opening in the gate's direction.
        hit: met the frame around it, from either side.
        fraction: of the way at which the gate's plane was crossed, 0..1; 1 where it was not.
    """

    passed: BoolArray
    hit: BoolArray
    fraction: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """Upright gates in their order; world ENU.

    Attributes:
        centres_m: of the openings, (g, 3). yaws_rad: of the flight directions through them, (g,).
        openings_m: width and height, (g, 2). frame_m: width of the solid frame around each opening.
        start_m: where vehicles start, (3,), looking along ``start_yaw_rad``.

    Raises:
        ValueError: no gates, or arrays that do not fit together.
    """

    centres_m: FloatArray
    yaws_rad: FloatArray
    openings_m: FloatArray
    start_m: FloatArray
    start_yaw_rad: float = 0.0
    frame_m: float = 0.3

    def __post_init__(self) -> None:
        g = len(self.centres_m)
        if not g or [self.centres_m.shape, self.yaws_rad.shape, self.openings_m.shape] != [(g, 3), (g,), (g, 2)]:
            raise ValueError("a course has centres (g, 3), yaws (g,) and openings (g, 2) of at least one gate")

    @property
    def axes(self) -> FloatArray:
        """Rotation matrices of the gates, (g, 3, 3): x through the opening, y to its left, z up."""
        return np.stack([yaw_matrix(float(yaw)) for yaw in self.yaws_rad])

    @property
    def room_m(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper corner of the space around gates and start that vehicles may use, (3,) each."""
        places = np.vstack((self.centres_m, self.start_m))
        low, high = places.min(axis=0) - _BORDER_M, places.max(axis=0) + _BORDER_M
        low[2], high[2] = 0.02, places[:, 2].max() + _ABOVE_M
        return low, high

    def crossings(self, before_m: FloatArray, after_m: FloatArray) -> Crossings:
        """Return which gates are passed or hit between positions (n, 3), on straight lines.

        The plane belongs to its far side: a way that ends on it has crossed it, one that begins on it has not.
        """
        (x0, y0, z0), (x1, y1, z1) = self._from_gates(before_m), self._from_gates(after_m)
        forward, backward = (x0 < 0.0) & (x1 >= 0.0), (x0 >= 0.0) & (x1 < 0.0)
        crossed = forward | backward
        fraction = np.divide(x0, x0 - x1, out=np.ones_like(x0), where=crossed)
        off_y = np.abs(y0 + fraction * (y1 - y0)) - 0.5 * self.openings_m[:, 0]
        off_z = np.abs(z0 + fraction * (z1 - z0)) - 0.5 * self.openings_m[:, 1]
        off = np.maximum(off_y, off_z)
        within, at_frame = off <= 0.0, off <= self.frame_m
        return Crossings(forward & within, crossed & at_frame & ~within, fraction)

    def _from_gates(self, p_world_m: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return positions (n, 3) in the axes of each gate, x y z of shape (n, g) each."""
        x, y, z = np.moveaxis(p_world_m[:, None] - self.centres_m, 2, 0)
        c, s = np.cos(self.yaws_rad), np.sin(self.yaws_rad)
        return c * x + s * y, c * y - s * x, z


def _slalom() -> Course:
    """Return five gates of 1.2 m that lie left and right, high and low, along x."""
    centres = [(4.0, 1.0, 2.0), (8.0, -1.0, 2.5), (12.0, 1.2, 1.8), (16.0, -0.8, 2.2), (20.0, 0.0, 2.0)]
    return Course(
        np.array(centres), np.array([0.0, -0.3, 0.3, -0.2, 0.0]), np.full((5, 2), 1.2), np.array([0.0, 0.0, 2.0])
    )


def _oval() -> Course:
    """Return eight gates of 1.5 m on an ellipse of 24 x 12 m, flown counter-clockwise; the last is the start line."""
    angles = -0.5 * math.pi + 2.0 * math.pi * np.arange(1, 9) / 8.0
    centres = np.stack((12.0 * np.cos(angles), 6.0 * np.sin(angles), 2.0 + 0.5 * np.sin(2.0 * angles)), axis=1)
    yaws = np.arctan2(6.0 * np.cos(angles), -12.0 * np.sin(angles))
    return Course(centres, yaws, np.full((8, 2), 1.5), np.array([-2.0, -6.0, 2.0]))


COURSES: Final = {"slalom": _slalom, "oval": _oval}
"""Our own courses by name; FlightGoggles' are in :mod:`vil_bridge.vehicles.envs.alphapilot_race`."""
