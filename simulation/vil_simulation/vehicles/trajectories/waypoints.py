"""Minimum-snap and minimum-jerk polynomials through waypoints.

Mellinger and Kumar (ICRA 2011) in the unconstrained form of Richter, Bry and Roy (ISRR 2013): what
is sought are the derivatives at the waypoints, so that continuity holds by construction and the
system is small and well conditioned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from vil_bridge.core.elementary import arctan2, exp
from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Polynomials, hermite, hermite_matrix

Yaw = Literal["along"]
"""Headings taken from the way: half-way between the directions of arrival and departure."""

_RANGE: Final = 4.0  # a piece becomes at most e^4 times longer or shorter than its chord says
_FLAT: Final = 1e-7  # gradient at which the search ends
_GAIN: Final = 1e-4  # share of the gain that the gradient promises
_LONGEST: Final = 1.0
_MOST_STEPS: Final = 200
_MOST_HALVINGS: Final = 10


def minimum_snap(
    waypoints_m: npt.ArrayLike,
    *,
    speed_mps: float = 1.0,
    times_s: npt.ArrayLike | None = None,
    yaw_rad: npt.ArrayLike | Yaw = 0.0,
    velocities_mps: Mapping[int, npt.ArrayLike] | None = None,
    accelerations_mps2: Mapping[int, npt.ArrayLike] | None = None,
) -> Polynomials:
    """Return the curve through waypoints with the least integral of the squared snap.

    Pieces of degree 7.

    Begins and ends at rest by default; the snap jumps only at waypoints whose derivatives are
    given.

    Args:
        waypoints_m: (m, 3), at least two, no two the same in a row.
        speed_mps: mean speed along the chords, from which the whole time follows; it is divided
            among the pieces so that the integral becomes least. Scale with
            :func:`~vil_simulation.vehicles.control.limits.fastest` to the limits of a vehicle.
        times_s: (m,), increasing from 0: when to be where, instead.
        yaw_rad: one heading, one per waypoint (turned by less than half a turn from one to the
            next), or ``along``.
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
    """Return as :func:`minimum_snap` with the squared jerk.

    Pieces of degree 5, the snap may jump at every waypoint.
    """
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
    if (
        points.ndim != 2
        or points.shape[0] < 2
        or points.shape[1] != 3
        or not np.isfinite(points).all()
    ):
        raise ValueError(
            f"waypoints are finite and of shape (m, 3) with m >= 2, got {points.shape}"
        )
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
        chords = np.diff(points, axis=0)
        directions = np.unwrap(arctan2(chords[:, 1], chords[:, 0]))
        return np.concatenate(
            (directions[:1], 0.5 * (directions[1:] + directions[:-1]), directions[-1:])
        )
    yaws = np.asarray(yaw_rad, dtype=np.float64)
    if yaws.shape not in ((), (len(points),)):
        raise ValueError(
            f"yaw_rad is one heading, one per waypoint ({len(points)}), or 'along'; got "
            f"{yaws.shape}"
        )
    return np.unwrap(np.broadcast_to(yaws, (len(points),)))


def _given(
    values: FloatArray,
    order: int,
    velocities: Mapping[int, npt.ArrayLike],
    accelerations: Mapping[int, npt.ArrayLike],
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
    found = np.empty_like(given)
    for channels in (slice(0, 3), slice(3, None)):  # given derivatives are those of the path
        found[..., channels] = _least_integral(given[..., channels], lengths)[0]
    return found


def _least_integral(given: FloatArray, lengths: FloatArray) -> tuple[FloatArray, float, FloatArray]:
    """Return the derivatives at all waypoints, the integral, and its slopes by the logarithms of
    the pieces' times.
    """
    from vil_simulation.vehicles.trajectories.waypoint_kernel import least_integral

    found = np.empty_like(given)
    slopes = np.empty_like(lengths)
    integral = least_integral(
        np.ascontiguousarray(given), lengths, _unit_cost(given.shape[1]), found, slopes
    )
    return found, integral, slopes


@cache
def _unit_cost(order: int) -> FloatArray:
    """Return the integral over a piece of length 1 as a quadratic form in the derivatives at
    both its ends.
    """
    size = 2 * order
    powers = np.zeros((size, size))
    for j in range(order, size):
        for k in range(order, size):
            powers[j, k] = math.perm(j, order) * math.perm(k, order) / (j + k - 2 * order + 1)
    basis = hermite_matrix(order)
    cost: FloatArray = product(product(basis.T, powers), basis)
    return cost


def _even_out(given: FloatArray, lengths: FloatArray) -> FloatArray:
    """Return times of the pieces, of the same sum, that make the integral least.

    The gradient needs no derivative of the solution, since that is optimal itself. The search goes
    on until the gradient has vanished: one that stops at small gains ends at times that hang on the
    last digits of the waypoints.
    """
    if len(lengths) == 1:
        return lengths
    total = float(lengths.sum())
    path = given[..., :3]

    def shares(logs: FloatArray) -> FloatArray:
        sizes = lengths * exp(logs - logs.max())
        share: FloatArray = sizes / sizes.sum()
        return share

    def cost(logs: FloatArray) -> tuple[float, FloatArray]:
        share = shares(logs)
        _, value, slopes = _least_integral(path, share)
        if value <= 0.0:  # pieces so different that rounding exceeds the integral
            return math.inf, np.zeros_like(logs)
        return value, (slopes - share * slopes.sum()) / value

    best_lengths: FloatArray = total * shares(_least(cost, len(lengths)))
    return best_lengths


def _least(cost: Callable[[FloatArray], tuple[float, FloatArray]], count: int) -> FloatArray:
    """Return the numbers within +-``_RANGE`` that make a function least.

    BFGS from 0, sums in a fixed order.

    Args:
        cost: returns a value, and the gradient of its logarithm.
        count: of the numbers.
    """
    x = np.zeros(count)
    value, slope = cost(x)
    curvature: FloatArray | None = None
    for _ in range(_MOST_STEPS):
        if np.abs(slope).max() < _FLAT:
            break
        way = -slope if curvature is None else -product(curvature, slope)
        if float((way * slope).sum()) >= 0.0:
            curvature = None
            way = -slope
        way *= min(1.0, _LONGEST / float(np.abs(way).max()))
        for _ in range(_MOST_HALVINGS):
            there = np.clip(x + way, -_RANGE, _RANGE)
            new_value, new_slope = cost(there)
            if new_value <= value * (1.0 + _GAIN * float(((there - x) * slope).sum())):
                break
            way *= 0.5
        else:
            break
        curvature = _updated(curvature, there - x, new_slope - slope)
        x = there
        value = new_value
        slope = new_slope
    return x


def _updated(
    curvature: FloatArray | None, step: FloatArray, change: FloatArray
) -> FloatArray | None:
    """Return the inverse of the second derivatives after a step that changed the gradient.

    BFGS.
    """
    along = float((step * change).sum())
    if not along > 1e-10 * math.sqrt(float((step * step).sum()) * float((change * change).sum())):
        return curvature
    if curvature is None:
        curvature = np.eye(len(step)) * (along / float((change * change).sum()))
    bent: FloatArray = product(curvature, change)
    share = (along + float((change * bent).sum())) / (along * along)
    crossed = bent[:, None] * step
    return curvature + share * (step[:, None] * step) - (crossed + crossed.T) / along
