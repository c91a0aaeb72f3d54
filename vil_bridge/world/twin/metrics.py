"""Distances between two paths: symmetric Hausdorff, absolute trajectory error, delay.

The Hausdorff distance ignores time, so it says "elsewhere" and never "late". The error at equal
instants says both. The delay separates them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_exp, q_mul, yaw_matrix
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.world.twin.pose_series import PoseSeries

_Indices = npt.NDArray[np.int64]

_ROWS: Final = 32
_GRID_S: Final = 0.01
_HALF_SPAN_S: Final = 0.03
"""Of the differences that velocities are: shorter ones show the noise of the tracking."""
_FINE_S: Final = 0.001
_LEAST_PAIRS: Final = 50
_LEAST_MPS: Final = 0.02
"""Below this spread of the velocities there is no motion whose delay could be seen."""


def hausdorff_m(a_m: FloatArray, b_m: FloatArray) -> float:
    """Return the symmetric Hausdorff distance of two sets of points (n, d), (m, d).

    Time is ignored.

    Raises:
        ValueError: a set is empty.
    """
    return max(directed_hausdorff_m(a_m, b_m), directed_hausdorff_m(b_m, a_m))


def directed_hausdorff_m(a_m: FloatArray, b_m: FloatArray) -> float:
    """Return the largest distance from a point of ``a`` (n, d) to its nearest of ``b`` (m, d).

    Exact. Each point gets an upper bound from candidates for its nearest: samples of ``b``, their
    neighbours, and the neighbours of what the points before and after it have found, since paths
    run along each other. The points are examined in falling order of their bounds, until no bound
    is above the largest distance found.

    Raises:
        ValueError: a set is empty.
    """
    if not len(a_m) or not len(b_m):
        raise ValueError("the Hausdorff distance needs a point on either side")
    bounds = _bounds_m(a_m, b_m)
    order = np.argsort(-bounds)
    found = 0.0
    for start in range(0, len(order), _ROWS):
        rows = order[start : start + _ROWS]
        if bounds[rows[0]] <= found:
            break
        found = max(found, float(_distances_m(a_m[rows][:, None], b_m).min(axis=1).max()))
    return found


def _bounds_m(a_m: FloatArray, b_m: FloatArray) -> FloatArray:
    """Return upper bounds (n,) of the distances to the nearest point of ``b``."""
    n = len(a_m)
    m = len(b_m)
    stride = max(1, math.isqrt(m))
    samples = np.arange(0, m, stride)
    nearest = np.concatenate(
        [
            samples[_distances_m(p[:, None], b_m[samples]).argmin(axis=1)]
            for p in np.array_split(a_m, n // 4096 + 1)
        ]
    )
    bounds = _distances_m(a_m, b_m[nearest])

    def propose(candidates: _Indices) -> None:
        clipped = np.clip(candidates, 0, m - 1)
        distances = _distances_m(a_m, b_m[clipped])
        better = distances < bounds
        bounds[better], nearest[better] = distances[better], clipped[better]

    around = nearest.copy()
    for step in range(-stride, stride + 1):
        propose(around + step)
    propose(np.arange(n) * m // n)
    rows = np.arange(n)
    for apart in [2**k for k in range(max(1, n.bit_length() // 2 + 2))][::-1] * 2:
        for shift in (-apart, apart):
            neighbour = np.clip(rows + shift, 0, n - 1)
            found = nearest[neighbour] + (rows - neighbour)
            for step in (-2, -1, 0, 1, 2):
                propose(found + step)
    return bounds


def _distances_m(a_m: FloatArray, b_m: FloatArray) -> FloatArray:
    """Return distances along the last axis.

    One formula everywhere, so that bounds and distances agree to the bit.
    """
    difference = a_m - b_m
    return np.asarray(np.sqrt((difference * difference).sum(axis=-1)))


def rms(values: FloatArray) -> float:
    """Return the root of the mean square of values (n,) or of the lengths of vectors (n, d)."""
    squares = values * values
    return math.sqrt(float((squares if squares.ndim == 1 else squares.sum(axis=1)).mean()))


class HeadingAlignment(NamedTuple):
    """Rotation about z and translation that bring ``b`` to ``a`` (alignment ``posyaw``).

    Attributes:
        offset_m: shape (3,), after the rotation.
    """

    yaw_rad: float
    offset_m: FloatArray

    def apply(self, p_m: FloatArray) -> FloatArray:
        """Return points (n, 3) in the frame of ``a``."""
        return np.asarray(p_m @ yaw_matrix(self.yaw_rad).T + self.offset_m)

    def poses(self, series: PoseSeries) -> PoseSeries:
        """Return poses in the frame of ``a``."""
        turn = q_exp(np.array([0.0, 0.0, self.yaw_rad]))
        return PoseSeries(series.t_s, self.apply(series.p_m), q_mul(turn, series.q_xyzw))


def heading_alignment(a_m: FloatArray, b_m: FloatArray) -> HeadingAlignment:
    """Return the alignment with the least sum of squared distances of points at equal instants, (n,
    3) each.

    With both sets about their means, the best yaw has the tangent sum(a_y b_x - a_x b_y) / sum(a_x
    b_x + a_y b_y).
    """
    mean_a = a_m.mean(axis=0)
    mean_b = b_m.mean(axis=0)
    a = a_m - mean_a
    b = b_m - mean_b
    yaw_rad = math.atan2(np.sum(a[:, 1] * b[:, 0] - a[:, 0] * b[:, 1]), np.sum(a[:, :2] * b[:, :2]))
    return HeadingAlignment(yaw_rad, mean_a - yaw_matrix(yaw_rad) @ mean_b)


class Delay(NamedTuple):
    """Delay of ``b`` behind ``a``; positive = ``b`` does the same later.

    Attributes:
        correlation: of the velocities at that delay, 1 = the same up to a factor.
    """

    delay_s: float
    correlation: float


def delay_of(
    a: PoseSeries, b: PoseSeries, longest_s: float = 0.5, *, same_frame: bool = True
) -> Delay | None:
    """Return the delay with the highest correlation of velocities.

    To parts of a millisecond by a parabola.

    Args:
        a: the one that leads where the delay is positive.
        b: the other.
        longest_s: of the search, to either side.
        same_frame: True compares velocities, False their lengths, which no rotation between two
            frames changes.

    Returns:
        None where nothing moves, the two hardly overlap, or no peak lies within the search.
    """
    correlation = _correlation(a, b, same_frame=same_frame)
    coarse = _GRID_S * np.arange(-round(longest_s / _GRID_S), round(longest_s / _GRID_S) + 1)
    values = np.array([correlation(lag) for lag in coarse.tolist()])
    if not np.isfinite(values).any():
        return None
    middle = float(coarse[int(np.nanargmax(values))])
    # Interpolated noise ripples with the period of the samples: the parabola averages over it.
    fine = _FINE_S * np.arange(-20, 21)
    values = np.array([correlation(middle + lag) for lag in fine.tolist()])
    if not np.isfinite(values).all():
        return None
    bend, slope, _ = np.polynomial.Polynomial.fit(fine, values, 2).convert().coef[::-1].tolist()
    shift = -0.5 * slope / bend if bend < 0.0 else math.inf
    if abs(shift) > fine[-1] or abs(middle + shift) > longest_s:
        return None
    return Delay(middle + shift, correlation(middle + shift))


def _correlation(a: PoseSeries, b: PoseSeries, *, same_frame: bool) -> Callable[[float], float]:
    """Return the normalised correlation of the velocities as a function of the delay of ``b``.

    NaN = unknown.
    """
    if min(len(a.t_s), len(b.t_s)) < 2:
        return lambda _lag_s: math.nan
    t_s = np.arange(a.t_s[0] + _HALF_SPAN_S, a.t_s[-1] - _HALF_SPAN_S, _GRID_S)
    t_s = t_s[_moving_at(a, t_s)]
    v_a = _velocities(a, t_s, same_frame=same_frame)

    def at(lag_s: float) -> float:
        known = _moving_at(b, t_s + lag_s)
        if np.count_nonzero(known) < _LEAST_PAIRS:
            return math.nan
        x = v_a[known] - v_a[known].mean(axis=0)
        y = _velocities(b, t_s[known] + lag_s, same_frame=same_frame)
        y = y - y.mean(axis=0)
        if min(rms(x), rms(y)) < _LEAST_MPS:
            return math.nan
        return float((x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum()))

    return at


def _moving_at(series: PoseSeries, t_s: FloatArray) -> BoolArray:
    """Return True where the velocity is known, (n,)."""
    before = series.known_at(t_s - _HALF_SPAN_S)
    after = series.known_at(t_s + _HALF_SPAN_S)
    return np.asarray(before & series.known_at(t_s) & after)


def _velocities(series: PoseSeries, t_s: FloatArray, *, same_frame: bool) -> FloatArray:
    """Return central differences (n, 3), or their lengths (n, 1)."""
    step_m = series.positions_at(t_s + _HALF_SPAN_S) - series.positions_at(t_s - _HALF_SPAN_S)
    v = step_m / (2.0 * _HALF_SPAN_S)
    return v if same_frame else np.linalg.norm(v, axis=1, keepdims=True)
