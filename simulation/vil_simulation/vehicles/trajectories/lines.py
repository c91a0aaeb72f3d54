"""Straight flights from rest to rest.

Trapezoids of speed, and S-curves that limit the jerk as well.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from vil_bridge.core import matrices
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Polynomials, Trajectory
from vil_simulation.vehicles.trajectories.composed import Concatenated


def line(
    start_m: npt.ArrayLike,
    end_m: npt.ArrayLike,
    speed_mps: float,
    acceleration_mps2: float,
    jerk_mps3: float | None = None,
    *,
    yaw_rad: float = 0.0,
) -> Polynomials:
    """Return the fastest straight flight from rest to rest within limits.

    Args:
        start_m: (3,).
        end_m: (3,).
        speed_mps: limit.
        acceleration_mps2: limit.
        jerk_mps3: None = the acceleration may jump (trapezoid of speed), else an S-curve of up to
            seven pieces.
        yaw_rad: heading.

    Raises:
        ValueError: the two points are one, or a limit is not positive.
    """
    start = np.asarray(start_m, dtype=np.float64)
    end = np.asarray(end_m, dtype=np.float64)
    length = matrices.length(end - start)
    if not (
        length > 0.0
        and speed_mps > 0.0
        and acceleration_mps2 > 0.0
        and (jerk_mps3 is None or jerk_mps3 > 0.0)
    ):
        raise ValueError(
            "a line needs two different points, and limits of speed, acceleration and jerk above 0"
        )
    if jerk_mps3 is None:
        durations, jerks, jumps = _trapezoid(length, speed_mps, acceleration_mps2)
    else:
        durations, jerks, jumps = _s_curve(length, speed_mps, acceleration_mps2, jerk_mps3)
    used = durations > 1e-12
    along = _pieces(durations, jerks, jumps)[used]
    direction = np.append((end - start) / length, 0.0)
    coefficients = along[:, :, None] * direction
    coefficients[:, 0] += np.append(start, yaw_rad)
    return Polynomials(np.concatenate(([0.0], np.cumsum(durations[used]))), coefficients)


def polyline(
    waypoints_m: npt.ArrayLike,
    speed_mps: float,
    acceleration_mps2: float,
    jerk_mps3: float | None = None,
    *,
    yaw_rad: float = 0.0,
) -> Trajectory:
    """Return lines from waypoint to waypoint (m, 3), resting at each.

    Arguments and errors as of :func:`line`.
    """
    points = np.asarray(waypoints_m, dtype=np.float64)
    return Concatenated(
        *(
            line(a, b, speed_mps, acceleration_mps2, jerk_mps3, yaw_rad=yaw_rad)
            for a, b in pairwise(points)
        )
    )


def _trapezoid(
    length: float, speed: float, acceleration: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return durations, jerks, and the accelerations with which the pieces begin."""
    top = min(speed, math.sqrt(length * acceleration))
    ramp = top / acceleration
    durations = np.array([ramp, length / top - ramp, ramp])
    return durations, np.zeros(3), np.array([acceleration, 0.0, -acceleration])


def _s_curve(
    length: float, speed: float, acceleration: float, jerk: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return as :func:`_trapezoid`.

    Each ramp of speed is jerk, constant acceleration, jerk back.
    """
    top = speed
    if top * _ramp_s(top, acceleration, jerk) > length:
        # Without cruise: length = top * ramp, where the ramp is top/a + a/j, or 2 sqrt(top/j) if a
        # is not reached.
        reached = acceleration**2 / jerk
        top = 0.5 * (math.sqrt(reached**2 + 4.0 * acceleration * length) - reached)
        if top < reached:
            top = _cube_root(0.25 * jerk * length**2)
    ramp = _ramp_s(top, acceleration, jerk)
    rise = min(acceleration / jerk, math.sqrt(top / jerk))
    hold = ramp - 2.0 * rise
    durations = np.array([rise, hold, rise, length / top - ramp, rise, hold, rise])
    peak = jerk * rise
    jerks = jerk * np.array([1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0])
    return durations, jerks, np.array([0.0, peak, peak, 0.0, 0.0, -peak, -peak])


def _cube_root(x: float) -> float:
    """Return the cube root of a positive number, by Newton's method from above.

    The same bits on every machine.
    """
    root = math.ldexp(1.0, math.frexp(x)[1] // 3 + 1)
    while (lower := (2.0 * root + x / (root * root)) / 3.0) < root:
        root = lower
    return root


def _ramp_s(top: float, acceleration: float, jerk: float) -> float:
    """Return how long a ramp of speed from 0 takes."""
    if top * jerk < acceleration**2:
        return 2.0 * math.sqrt(top / jerk)
    return top / acceleration + acceleration / jerk


def _pieces(durations: FloatArray, jerks: FloatArray, accelerations: FloatArray) -> FloatArray:
    """Return distances as cubics over tau, (pieces, 4)."""
    rows = np.zeros((len(durations), 4))
    distance = speed = 0.0
    for row, t, jerk, acceleration in zip(rows, durations, jerks, accelerations, strict=True):
        row[:] = distance, speed * t, 0.5 * acceleration * t**2, jerk * (t * t * t) / 6.0
        distance = row.sum()
        speed += acceleration * t + 0.5 * jerk * t**2
    return rows
