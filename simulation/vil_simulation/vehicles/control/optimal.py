"""Time-optimal flight along a given curve.

Pham and Pham, "A new approach to time-optimal path parameterization based on reachability analysis"
(TOPP-RA, T-RO 2018): over a grid of the arc length s, with x = (ds/dt)^2 and u = d2s/dt2 constant
between grid points, one pass backwards finds from which x the end can be reached, one forwards
takes the largest u. With the arc length for the parameter a = T u + k x, T the tangent and k the
vector of curvature, which stand at right angles.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Polynomials, Trajectory, hermite
from vil_simulation.vehicles.control.limits import Limits
from vil_simulation.vehicles.trajectories.composed import Concatenated

_FINE: Final = 4
_HALVINGS: Final = 40
_AT_REST: Final = 1e-6
_NODES: Final = np.array(
    (-0.906179845938664, -0.5384693101056831, 0.0, 0.5384693101056831, 0.906179845938664)
)
_WEIGHTS: Final = np.array(
    (
        0.23692688505618908,
        0.47862867049936647,
        0.5688888888888889,
        0.47862867049936647,
        0.23692688505618908,
    )
)


def time_optimal(trajectory: Trajectory, limits: Limits, intervals: int = 500) -> Trajectory:
    """Return the fastest flight from rest to rest along the curve of a trajectory.

    Speed, acceleration, and collective thrust with quadratic drag are regarded. Where the
    trajectory comes to rest, so does this. The acceleration jumps, so no vehicle follows it
    exactly: leave some of the limits for control. The least thrust is that of its vertical part,
    which is on the safe side: nothing is flown upside down.

    Args:
        trajectory: the curve, and its heading at every point.
        limits: ``speed_mps``, ``acceleration_mps2``, ``thrust_mps2`` with ``drag_1pm``;
            acceleration or thrust is needed.
        intervals: of the grid, between two rests.

    Raises:
        ValueError: no limit of acceleration or thrust, or a limit that is not regarded here; a
            pause.
    """
    if limits.airframe is not None:
        raise ValueError(
            "limits of rotors and rates cannot be regarded along a path: give thrust_mps2 instead"
        )
    if math.isinf(limits.acceleration_mps2) and math.isinf(limits.thrust_mps2[1]):
        raise ValueError(
            "without a limit of acceleration or thrust any time is possible: set acceleration_mps2"
        )
    sections = (_Path.of(trajectory, a, b, intervals) for a, b in pairwise(_rests(trajectory)))
    return Concatenated(*(_fly(path, *_pace(path, limits)) for path in sections))


class _Path(NamedTuple):
    """A curve over its arc length, at a grid of equal steps.

    Attributes:
        step_m: between grid points. p_m: (n, 4), position and heading.
        slope, bend: (n, 4), its first and second derivative by the arc length.
    """

    step_m: float
    p_m: FloatArray
    slope: FloatArray
    bend: FloatArray

    @classmethod
    def of(cls, trajectory: Trajectory, begin_s: float, end_s: float, intervals: int) -> _Path:
        """Return the path of a piece of a trajectory that does not rest within."""
        knots = trajectory.knots_s
        inner = knots[(knots > begin_s) & (knots < end_s)]
        cuts = np.union1d(np.linspace(begin_s, end_s, _FINE * intervals + 1), inner)
        lengths = np.concatenate(([0.0], np.cumsum(_lengths(trajectory, cuts[:-1], cuts[1:]))))
        total = float(lengths[-1])
        if not total > 0.0:
            raise ValueError(
                f"nothing is flown between {begin_s:g} s and {end_s:g} s: leave such pauses out"
            )
        # At the very ends the trajectory may rest: direction and curvature come from next to them.
        grid = np.linspace(0.0, total, intervals + 1)
        inside = np.clip(grid, _AT_REST * total, (1.0 - _AT_REST) * total)
        rows = trajectory.derivatives(_times_at(trajectory, cuts, lengths, inside))
        speed = np.linalg.norm(rows[:, 1, :3], axis=1)[:, None]
        slope = rows[:, 1] / speed
        braking = (slope[:, :3] * rows[:, 2, :3]).sum(axis=1)[:, None]
        bend = (rows[:, 2] - slope * braking) / speed**2
        points = rows[:, 0]
        points[[0, -1]] = trajectory.derivatives(np.array([begin_s, np.nextafter(end_s, begin_s)]))[
            :, 0
        ]
        return cls(total / intervals, points, slope, bend)


def _rests(trajectory: Trajectory) -> FloatArray:
    """Return times of the ends, and of the knots between at which the trajectory rests."""
    knots = trajectory.knots_s
    times = np.concatenate((knots, 0.5 * (knots[1:] + knots[:-1])))
    speeds = np.linalg.norm(trajectory.derivatives(times)[:, 1, :3], axis=1)
    resting = speeds[: len(knots)] <= _AT_REST * speeds.max()
    resting[[0, -1]] = True
    return np.array(knots[resting])


def _lengths(trajectory: Trajectory, begins_s: FloatArray, ends_s: FloatArray) -> FloatArray:
    """Return arc lengths (n,) between times, by Gauss and Legendre."""
    half = 0.5 * (ends_s - begins_s)
    times = 0.5 * (begins_s + ends_s) + np.multiply.outer(_NODES, half)
    rows = trajectory.derivatives(times.ravel())
    speeds = np.linalg.norm(rows[:, 1, :3], axis=1).reshape(times.shape)
    lengths: FloatArray = half * product(_WEIGHTS, speeds)
    return lengths


def _times_at(
    trajectory: Trajectory, cuts: FloatArray, lengths: FloatArray, wanted: FloatArray
) -> FloatArray:
    """Return the times at which the curve has certain arc lengths.

    By bisection within the piece.
    """
    piece = np.clip(np.searchsorted(lengths, wanted, "right") - 1, 0, len(cuts) - 2)
    low = cuts[piece].copy()
    high = cuts[piece + 1].copy()
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        beyond = lengths[piece] + _lengths(trajectory, cuts[piece], middle) > wanted
        low = np.where(beyond, low, middle)
        high = np.where(beyond, middle, high)
    return 0.5 * (low + high)


class _Bounds(NamedTuple):
    """Limits at one grid point.

    Attributes:
        square: of the curvature. rise, lift: vertical parts of tangent and curvature.
    """

    square: float
    rise: float
    lift: float
    limits: Limits

    def window(self, x: float, growth: float) -> tuple[float, float]:
        """Return least and most u allowed where the squared speed is ``x + growth u``.

        Least > most = none.
        """
        low = -math.inf
        high = math.inf
        limits = self.limits
        g = self.limits.gravity_mps2
        a = 1.0 + self.square * growth * growth
        b = self.square * growth * x
        c = self.square * x * x
        if math.isfinite(limits.acceleration_mps2):
            low, high = _between(a, b, c - limits.acceleration_mps2**2)
        least, most = limits.thrust_mps2
        # Along the tangent, thrust is u with drag: push u + drag.
        push = 1.0 + limits.drag_1pm * growth
        drag = limits.drag_1pm * x
        slope = self.rise * push + self.lift * growth
        lift = self.rise * drag + self.lift * x
        if math.isfinite(most):
            square = push * push + self.square * growth * growth
            below, above = _between(
                square,
                push * drag + b + g * slope,
                c + drag * drag + 2.0 * g * lift + g * g - most * most,
            )
            low = max(low, below)
            high = min(high, above)
        if math.isfinite(most) or least > 0.0:
            left = least - g - lift
            if slope > 0.0:
                low = max(low, left / slope)
            elif slope < 0.0:
                high = min(high, left / slope)
            elif left > 0.0:
                high = -math.inf
        return low, high


def _between(a: float, b: float, c: float) -> tuple[float, float]:
    """Return the interval in which a u^2 + 2 b u + c <= 0."""
    root = b * b - a * c
    if root < 0.0:
        return math.inf, -math.inf
    return (-b - math.sqrt(root)) / a, (-b + math.sqrt(root)) / a


def _pace(path: _Path, limits: Limits) -> tuple[FloatArray, FloatArray]:
    """Return squared speeds (n,) at the grid, accelerations (n - 1,) between."""
    squares = (path.bend[:, :3] ** 2).sum(axis=1)
    bounds = [
        _Bounds(square, rise, lift, limits)
        for square, rise, lift in zip(
            squares.tolist(), path.slope[:, 2].tolist(), path.bend[:, 2].tolist(), strict=True
        )
    ]
    double = 2.0 * path.step_m
    top = limits.speed_mps**2
    strongest = min(limits.acceleration_mps2, limits.thrust_mps2[1] + limits.gravity_mps2)
    slowing = max(1.0 - double * limits.drag_1pm, _AT_REST)  # drag brakes, too

    def window(i: int, x: float, reach: float) -> tuple[float, float]:
        """Return accelerations from grid point i with x that keep the limits at both its ends
        and end within reach.
        """
        low, high = bounds[i].window(x, 0.0)
        below, above = bounds[i + 1].window(x, double)
        return max(low, below, -x / double), min(high, above, (reach - x) / double)

    count = len(bounds)
    reachable = [0.0] * count
    for i in range(count - 2, -1, -1):
        low = 0.0
        high = min(top, (reachable[i + 1] + double * strongest) / slowing)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            first, last = window(i, middle, reachable[i + 1])
            low, high = (middle, high) if first <= last else (low, middle)
        reachable[i] = low
    x = np.zeros(count)
    u = np.zeros(count - 1)
    for i in range(count - 1):
        u[i] = window(i, x[i], reachable[i + 1])[1]
        x[i + 1] = min(max(x[i] + double * u[i], 0.0), reachable[i + 1])
    return x, (x[1:] - x[:-1]) / double


def _fly(path: _Path, x: FloatArray, u: FloatArray) -> Polynomials:
    """Return the curve at a pace.

    Polynomials of degree 5 through position, velocity and acceleration.
    """
    speed = np.sqrt(x)
    lengths = 2.0 * path.step_m / (speed[1:] + speed[:-1])
    velocity = path.slope * speed[:, None]
    curving = path.bend * x[:, None]
    begins = np.stack(
        (path.p_m[:-1], velocity[:-1], path.slope[:-1] * u[:, None] + curving[:-1]), axis=1
    )
    ends = np.stack((path.p_m[1:], velocity[1:], path.slope[1:] * u[:, None] + curving[1:]), axis=1)
    return Polynomials(np.concatenate(([0.0], np.cumsum(lengths))), hermite(begins, ends, lengths))
