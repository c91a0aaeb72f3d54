"""The two patterns that AirSim's paper flies, and its measure of how well they were flown."""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import KDTree

from vil_bridge.core.types import FloatArray

__all__ = ["circle_m", "hausdorff_m", "square_m"]


def hausdorff_m(one: FloatArray, other: FloatArray) -> float:
    """Symmetric Hausdorff distance of two tracks.

    The greatest distance from a point of either to the nearest of the other; so tracks are to be
    sampled densely.

    Args:
        one: points (n, k), k = 2 for tracks seen from above.
        other: points (m, k).
    """
    there, back = KDTree(other).query(one)[0], KDTree(one).query(other)[0]
    return float(max(there.max(), back.max()))


def circle_m(t_s: FloatArray, radius_m: float = 10.0, turn_s: float = 40.0) -> FloatArray:
    """Places (n, 2) at times (n,) on a circle about the origin, from straight ahead to the left."""
    angle = math.tau / turn_s * t_s
    return radius_m * np.stack((np.cos(angle), np.sin(angle)), axis=-1)


def square_m(t_s: FloatArray, side_m: float = 5.0, speed_mps: float = 1.2) -> FloatArray:
    """Places (n, 2) at times (n,) on a square from the origin.

    Ahead, left, back, right, and again.
    """
    corners = side_m * np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    sides = np.mod(speed_mps / side_m * t_s, 4.0)
    return np.stack(
        [np.interp(sides, np.arange(5), corners[:, axis]) for axis in range(2)], axis=-1
    )
