"""Flights along free paths: minimum snap within free space, or straight legs with stops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Polynomials, Trajectory
from vil_simulation.planning.free_space import FreeSpace
from vil_simulation.vehicles.control.limits import Limits, fastest
from vil_simulation.vehicles.trajectories import minimum_snap
from vil_simulation.vehicles.trajectories.lines import polyline

_ROUNDS: Final = 8
_PACES: Final = 8
_LEG_M: Final = 6.0
_SAMPLES: Final = 12
_JERK_MPS3: Final = 20.0
_CORNER: Final = 0.2
"""Least share of the speed at a corner, that of turning back."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFlight:
    """A flight that was checked against its free space.

    Attributes:
        path_m: corners of the free path, (m, 3).
        waypoints_m: through which the trajectory goes, (k, 3).
        trajectory: from rest to rest within the limits.
        smooth: minimum snap; False = straight legs with stops.
    """

    path_m: FloatArray
    waypoints_m: FloatArray
    trajectory: Trajectory
    smooth: bool


def smooth_flight(path_m: FloatArray, space: FreeSpace, limits: Limits) -> PlannedFlight | None:
    """Return a flight along a path that stays in free space; None = not even its straight legs do.

    Where the curve leaves free space, the middles of those legs become waypoints and it is solved
    again.

    Args:
        path_m: (m, 3), at least two corners, no two the same in a row.
        space: where the vehicle has room.
        limits: with finite speed and acceleration.
    """
    points = _divided(path_m)
    for _ in range(_ROUNDS):
        times = _times(points, limits)
        curve = minimum_snap(points, times_s=times)
        blocked = _blocked_legs(curve, space)
        if not blocked.any():
            return PlannedFlight(path_m, points, _paced(points, times, space, limits), smooth=True)
        middles = 0.5 * (points[:-1] + points[1:])[blocked]
        points = np.insert(points, np.flatnonzero(blocked) + 1, middles, axis=0)
    straight = polyline(path_m, limits.speed_mps, limits.acceleration_mps2, _JERK_MPS3)
    if _blocked_legs(straight, space).any():
        return None
    return PlannedFlight(path_m, path_m, straight, smooth=False)


def _divided(path_m: FloatArray) -> FloatArray:
    """Return a path with waypoints on its long legs, so that a speed can be held there."""
    counts = np.ceil(np.linalg.norm(np.diff(path_m, axis=0), axis=1) / _LEG_M).astype(np.int64)
    legs = [
        np.linspace(a, b, n, endpoint=False)
        for (a, b), n in zip(pairwise(path_m), counts.tolist(), strict=True)
    ]
    return np.concatenate((*legs, path_m[-1:]))


def _paced(points: FloatArray, times_s: FloatArray, space: FreeSpace, limits: Limits) -> Trajectory:
    """Return the fastest of some curves through waypoints.

    Legs that leave room within the limits get less time.

    The curve of the first times is free; a later one that leaves free space is passed over.
    """
    lengths = np.diff(times_s)
    best = None
    best_s = math.inf
    for _ in range(_PACES):
        times = np.concatenate((np.zeros(1), np.cumsum(lengths)))
        curve = minimum_snap(points, times_s=times)
        shares = _shares(curve, limits)
        if times[-1] * shares.max() < best_s and not _blocked_legs(curve, space).any():
            best = curve
            best_s = times[-1] * shares.max()
        lengths = lengths * np.clip(shares, 0.7, 1.4)
    assert best is not None
    return fastest(best, limits)


def _shares(curve: Polynomials, limits: Limits) -> FloatArray:
    """Return by how much each piece (n,) of a curve should last longer to reach a limit.

    Below 1 = it has room.
    """
    inside = np.linspace(0.0, 1.0 - 1e-9, _SAMPLES)
    times = (curve.knots_s[:-1, None] + curve.lengths_s[:, None] * inside).ravel()
    rows = np.linalg.norm(curve.derivatives(times)[:, 1:3, :3], axis=2)
    speed, acceleration = rows.reshape(-1, _SAMPLES, 2).max(axis=1).T
    return np.asarray(
        np.maximum(speed / limits.speed_mps, np.sqrt(acceleration / limits.acceleration_mps2))
    )


def _times(points: FloatArray, limits: Limits) -> FloatArray:
    """Return when to be at each waypoint.

    Half the acceleration along the path, slower at sharper corners.
    """
    way = np.diff(points, axis=0)
    lengths = np.linalg.norm(way, axis=1)
    turns = (way[:-1] * way[1:]).sum(axis=1) / (lengths[:-1] * lengths[1:])
    speeds = np.zeros(len(points))
    speeds[1:-1] = limits.speed_mps * np.maximum(_CORNER, 0.5 * (1.0 + np.clip(turns, -1.0, 1.0)))
    gain = limits.acceleration_mps2  # twice the half
    for k in range(len(lengths)):
        speeds[k + 1] = min(speeds[k + 1], math.sqrt(speeds[k] ** 2 + gain * lengths[k]))
    for k in reversed(range(len(lengths))):
        speeds[k] = min(speeds[k], math.sqrt(speeds[k + 1] ** 2 + gain * lengths[k]))
    top = np.minimum(
        limits.speed_mps, np.sqrt(0.5 * (speeds[:-1] ** 2 + speeds[1:] ** 2) + 0.5 * gain * lengths)
    )
    ramps = (2.0 * top - speeds[:-1] - speeds[1:]) / (0.5 * gain)
    ramped = (2.0 * top**2 - speeds[:-1] ** 2 - speeds[1:] ** 2) / gain
    return np.concatenate((np.zeros(1), np.cumsum(ramps + np.maximum(lengths - ramped, 0.0) / top)))


def _blocked_legs(
    curve: Trajectory, space: FreeSpace
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which pieces (n,) of a curve leave free space, looked at every half voxel."""
    coarse = np.linspace(0.0, curve.duration_s, 500)
    speed_mps = 1.2 * np.linalg.norm(curve.derivatives(coarse)[:, 1, :3], axis=1).max()
    count = int(2.0 * speed_mps * curve.duration_s / space.resolution_m) + 2
    times = np.linspace(0.0, curve.duration_s, count)
    blocked = ~space.free(_positions(curve, times))
    piece = np.clip(
        np.searchsorted(curve.knots_s, times[blocked], "right") - 1, 0, len(curve.knots_s) - 2
    )
    found = np.zeros(len(curve.knots_s) - 1, bool)
    found[piece] = True
    return found


def _positions(curve: Trajectory, times: FloatArray) -> FloatArray:
    """Return positions (n, 3) of a curve, without the derivatives that most of the time would go
    into.
    """
    if not isinstance(curve, Polynomials):
        return curve.derivatives(times)[:, 0, :3]
    piece = np.clip(np.searchsorted(curve.knots_s, times, "right") - 1, 0, len(curve.lengths_s) - 1)
    tau = (times - curve.knots_s[piece]) / curve.lengths_s[piece]
    coefficients = curve.coefficients[piece, :, :3]
    found = coefficients[:, -1].copy()
    for power in range(coefficients.shape[1] - 2, -1, -1):
        found = found * tau[:, None] + coefficients[:, power]
    return np.asarray(found)
