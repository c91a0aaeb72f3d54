"""Minimum-snap and minimum-jerk polynomials through waypoints.

Mellinger and Kumar (ICRA 2011) in the unconstrained form of Richter, Bry and Roy (ISRR 2013): what is sought are
the derivatives at the waypoints, so that continuity holds by construction and the system is small and well
conditioned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_bridge.vehicles.trajectories.trajectory import Polynomials, hermite, hermite_matrix

Yaw = Literal["along"]
"""Headings taken from the way: half-way between the directions of arrival and departure."""

_UNSOLVED: Final = 1e3  # above every logarithm of an integral
_RANGE: Final = 4.0  # a piece becomes at most e^4 times longer or shorter than its chord says


def minimum_snap(
    waypoints_m: npt.ArrayLike,
    *,
    speed_mps: float = 1.0,
    times_s: npt.ArrayLike | None = None,
    yaw_rad: npt.ArrayLike | Yaw = 0.0,
    velocities_mps: Mapping[int, npt.ArrayLike] | None = None,
    accelerations_mps2: Mapping[int, npt.ArrayLike] | None = None,
) -> Polynomials:
    """Return the curve through waypoints with the least integral of the squared snap: pieces of degree 7.

    Begins and ends at rest by default; the snap jumps only at waypoints whose derivatives are given.

    Args:
        waypoints_m: (m, 3), at least two, no two the same in a row.
        speed_mps: mean speed along the chords, from which the whole time follows; it is divided among the pieces so
            that the integral becomes least. Scale with :func:`~vil_bridge.vehicles.control.limits.fastest`
            to the limits of a vehicle.
        times_s: (m,), increasing from 0: when to be where, instead.
        yaw_rad: one heading, one per waypoint (turned by less than half a turn from one to the next), or ``along``.
        velocities_mps: by waypoint (negative = from the end), (3,).
        accelerations_mps2: likewise.

    Raises:
        ValueError: waypoints or times that cannot be flown.
    """
    return _through(waypoints_m, 4, speed_mps, times_s, yaw_rad, velocities_mps, accelerations_mps2)


def minimum_jerk(
    waypoints_m: npt.ArrayLike,
    *,
    speed_mps: float = 1.0,
    times_s: npt.ArrayLike | None = None,
    yaw_rad: npt.ArrayLike | Yaw = 0.0,
    velocities_mps: Mapping[int, npt.ArrayLike] | None = None,
    accelerations_mps2: Mapping[int, npt.ArrayLike] | None = None,
) -> Polynomials:
    """Return as :func:`minimum_snap` with the squared jerk: pieces of degree 5, the snap may jump at every waypoint."""
    return _through(waypoints_m, 3, speed_mps, times_s, yaw_rad, velocities_mps, accelerations_mps2)


def chord_times(waypoints_m: npt.ArrayLike, speed_mps: float) -> FloatArray:
    """Return times (m,) of waypoints flown along their chords at one speed."""
    lengths = np.linalg.norm(np.diff(np.asarray(waypoints_m, dtype=np.float64), axis=0), axis=1)
    times: FloatArray = np.concatenate(([0.0], np.cumsum(lengths))) / speed_mps
    return times


def _through(
    waypoints_m: npt.ArrayLike,
    order: int,
    speed_mps: float,
    times_s: npt.ArrayLike | None,
    yaw_rad: npt.ArrayLike | Yaw,
    velocities_mps: Mapping[int, npt.ArrayLike] | None,
    accelerations_mps2: Mapping[int, npt.ArrayLike] | None,
) -> Polynomials:
    points = np.asarray(waypoints_m, dtype=np.float64)
    if points.ndim != 2 or points.shape[0] < 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise ValueError(f"waypoints are finite and of shape (m, 3) with m >= 2, got {points.shape}")
    if not speed_mps > 0.0:
        raise ValueError(f"speed_mps must be positive, got {speed_mps}")
    if times_s is None and (np.diff(points, axis=0) == 0.0).all(axis=1).any():
        raise ValueError("two waypoints in a row are the same: leave one out, or give times_s")
    values = np.column_stack((points, _yaws(points, yaw_rad)))
    given = _given(values, order, velocities_mps or {}, accelerations_mps2 or {})
    if times_s is None:
        lengths = _even_out(given, np.diff(chord_times(points, speed_mps)))
    else:
        times = np.asarray(times_s, dtype=np.float64)
        if times.shape != (len(points),) or times[0] != 0.0 or not (np.diff(times) > 0.0).all():
            raise ValueError(f"times_s must be {len(points)} times that increase from 0")
        lengths = np.diff(times)
    derivatives = _solve(given, lengths)
    knots = np.concatenate(([0.0], np.cumsum(lengths)))
    return Polynomials(knots, hermite(derivatives[:-1], derivatives[1:], lengths))


def _yaws(points: FloatArray, yaw_rad: npt.ArrayLike | Yaw) -> FloatArray:
    """Return a continuous heading at every waypoint."""
    if isinstance(yaw_rad, str):
        chords = np.diff(points[:, 0] + 1j * points[:, 1])
        directions = np.unwrap(np.angle(chords))
        return np.concatenate((directions[:1], 0.5 * (directions[1:] + directions[:-1]), directions[-1:]))
    yaws = np.asarray(yaw_rad, dtype=np.float64)
    if yaws.shape not in ((), (len(points),)):
        raise ValueError(f"yaw_rad is one heading, one per waypoint ({len(points)}), or 'along'; got {yaws.shape}")
    return np.unwrap(np.broadcast_to(yaws, (len(points),)))


def _given(
    values: FloatArray, order: int, velocities: Mapping[int, npt.ArrayLike], accelerations: Mapping[int, npt.ArrayLike]
) -> FloatArray:
    """Return derivatives (m, order, 4) at the waypoints, NaN where they are free."""
    given = np.full((len(values), order, 4), np.nan)
    given[:, 0] = values
    given[[0, -1], 1:] = 0.0
    for rank, wanted in ((1, velocities), (2, accelerations)):
        for waypoint, vector in wanted.items():
            if not -len(values) <= waypoint < len(values):
                raise ValueError(f"there is no waypoint {waypoint}: there are {len(values)}")
            given[waypoint, rank, :3] = vector
    return given


def _solve(given: FloatArray, lengths: FloatArray) -> FloatArray:
    """Return the derivatives at all waypoints that make the integral least."""
    found = given.copy()
    cost, scale = _cost_matrix(lengths, given.shape[1])
    for channels in (slice(0, 3), slice(3, None)):  # given derivatives are those of the path
        flat = given[..., channels].reshape(len(scale), -1) * scale[:, None]
        if not flat.size:
            continue
        free = np.isnan(flat[:, 0])
        flat[free] = np.linalg.solve(cost[np.ix_(free, free)], -cost[np.ix_(free, ~free)] @ flat[~free])
        found[..., channels] = (flat / scale[:, None]).reshape(found[..., channels].shape)
    return found


def _cost_matrix(lengths: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
    """Return the integral as a quadratic form in the waypoints' derivatives, dimensionless by the mean time of a piece.

    Returns:
        (m order, m order), and the factors (m order,) with which derivatives enter.
    """
    unit = float(lengths.mean())
    size = (len(lengths) + 1) * order
    cost = np.zeros((size, size))
    for piece, length in enumerate(lengths / unit):
        scale = np.tile(length ** np.arange(order), 2)
        block = slice(piece * order, (piece + 2) * order)
        cost[block, block] += _unit_cost(order) * np.outer(scale, scale) * length ** (1 - 2 * order)
    return cost, np.tile(np.power(unit, np.arange(order, dtype=np.float64)), len(lengths) + 1)


@cache
def _unit_cost(order: int) -> FloatArray:
    """Return the integral over a piece of length 1 as a quadratic form in the derivatives at both its ends."""
    size = 2 * order
    powers = np.zeros((size, size))
    for j in range(order, size):
        for k in range(order, size):
            powers[j, k] = math.perm(j, order) * math.perm(k, order) / (j + k - 2 * order + 1)
    basis = hermite_matrix(order)
    return basis.T @ powers @ basis


def _even_out(given: FloatArray, lengths: FloatArray) -> FloatArray:
    """Return times of the pieces, of the same sum, that make the integral least: L-BFGS over their logarithms.

    The gradient needs no derivative of the solution, since that is optimal itself.
    """
    if len(lengths) == 1:
        return lengths
    from scipy.optimize import minimize

    order, total = given.shape[1], float(lengths.sum())
    powers = np.add.outer(np.tile(np.arange(order), 2), np.tile(np.arange(order), 2)) + 1 - 2 * order
    path = given[..., :3]

    def cost(logs: FloatArray) -> tuple[float, FloatArray]:
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        found = _solve(path, shares)
        ends = np.concatenate((found[:-1], found[1:]), axis=1)
        lengths_of = shares[:, None, None] ** powers
        terms = _unit_cost(order) * lengths_of * (ends @ ends.transpose(0, 2, 1))
        value = float(terms.sum())
        if value <= 0.0:  # pieces so different that rounding exceeds the integral
            return _UNSOLVED, np.zeros_like(logs)
        slopes = (terms * powers).sum(axis=(1, 2))  # by the logarithm of each share
        return math.log(value), (slopes - shares * slopes.sum()) / value

    start = np.log(lengths / total)
    best = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=[(s - _RANGE, s + _RANGE) for s in start])
    shares = np.exp(best.x - best.x.max())
    best_lengths: FloatArray = total * shares / shares.sum()
    return best_lengths
