"""Kalman filters of bodies without an IMU.

Position and attitude with their velocities and accelerations.

One filter for the translation and one for the rotation of each body. The jerk is white noise,
errors are the same in all directions, and the gains are those of the steady state, so that they
depend on one number: the jerk's density over the measurement's variance, in units of the step
between two poses. A rotation is filtered as the sum of the turns from pose to pose, body axes. The
compiled kernel does the same (``kernel/twist_filter.c``).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.world.damping import Damping

_Times = npt.NDArray[np.int64]
_Index = npt.NDArray[np.int64]

_LEARN_EVERY_NS: Final = 80_000_000
_LONGEST_GAP_S: Final = 0.3
_SHORTEST_STEP_S: Final = 1e-5
_FIRST_VARIANCE: Final = np.array([[1e-7], [1e-6]])  # m^2, rad^2
_LEAST_VARIANCE: Final = np.array([[1e-11], [1e-10]])
_MOST_VARIANCE: Final = 1e-3
_FIRST_LOG_JERK: Final = np.log([[1e11], [1e11]])
"""Spectral density of the jerk over the variance of a measurement, 1/s^5."""
_JERK_GAIN: Final = 0.1
_VARIANCE_GAIN: Final = 0.02
_SURPRISE: Final = 27.0
"""Squared innovation over the variance of one of its three axes that is a surprise."""
_GLITCH: Final = 8.0  # times that: no pose pulls more, unless it lasts
_SURPRISES_LIMIT: Final = 3  # so many in a row, and the jerk is larger than it was
_SURPRISES_LOG: Final = 4.0  # of the factor
_FOLLOWING: Final = 20  # poses after that which all count in full
_SETTLING: Final = 6  # poses from the first, of which none is a surprise
YOUNG: Final = 60  # poses until the gains are those of the steady state
_FIRST_RATE: Final = 5.0  # m/s and rad/s

_LOG_INDEX: Final = (-16.0, 8.0)
_PER_LOG: Final = 10.0


@cache
def steady_gains() -> FloatArray:
    """Return gains of value, velocity and acceleration, innovation variance and velocity variance,
    shape (5, m).

    By the logarithm of the index in steps of a tenth; the step is 1 s, the measurement's variance
    1.
    """
    low, high = _LOG_INDEX
    q = np.exp(np.linspace(low, high, round((high - low) * _PER_LOG) + 1))
    (xx, vv, aa), (xv, xa, va) = np.ones((3, len(q))), np.zeros((3, len(q)))
    s = np.ones_like(q)
    for _ in range(4 * YOUNG):
        # One step of constant acceleration, its jerk's noise, then the measurement.
        x = xx + xv + 0.5 * xa
        v = xv + vv + 0.5 * va
        a = xa + va + 0.5 * aa
        xx = x + v + 0.5 * a + q / 20.0
        xv = v + a + q / 8.0
        xa = a + q / 6.0
        vv = vv + 2.0 * va + aa + q / 3.0
        va = va + aa + 0.5 * q
        aa = aa + q
        s = xx + 1.0
        vv = vv - xv * xv / s
        va = va - xv * xa / s
        aa = aa - xa * xa / s
        xx = xx / s
        xv = xv / s
        xa = xa / s
    return np.stack((xx, xv, xa, s, vv))


@cache
def first_gains() -> FloatArray:
    """Return the gains that fit a parabola to all poses, shape (3, m), by the number of poses
    before.
    """
    m = np.arange(YOUNG + 1.0)
    gains = np.stack(
        (3.0 * (3.0 * m**2 + 3.0 * m + 2.0), 18.0 * (2.0 * m + 1.0), np.full_like(m, 60.0))
    )
    gains /= (m + 1.0) * (m + 2.0) * (m + 3.0)
    gains[:, 0] = (1.0, 0.0, 0.0)
    gains[:, 1] = (1.0, 1.0, 0.0)
    return gains


class TwistFilter:
    """Filters of n bodies.

    Arrays hold translation (m) and rotation (rad), their three axes and the bodies, (2, 3, n).

    Attributes:
        t_ns: shape (n,), newest pose; -1 = none.
        state: shape (3, 2, 3, n), values, velocities and accelerations at the newest pose.
        newest: shape (2, 3, n), newest values as measured.
        step_s, age: shape (n,), the newest step, and the poses since the first.
        variance, log_jerk: shape (2, n), what is learnt of the measurements and of the motion.
        surprises: shape (2, n), how many in a row; negative: poses that are still followed.
        whitened: shape (2, 3, n), newest innovation over its standard deviation.
        learnt_ns, learnt: shape (n,), when something was learnt, and from how many poses.
        unlearnt: shape (5, n), sums of products of consecutive innovations (two) and of their
            squares less one (two), and their count, since then.
        damping: of forecasts.
    """

    def __init__(self, rows: int) -> None:
        self.t_ns = np.full(rows, -1, dtype=np.int64)
        self.state = np.zeros((3, 2, 3, rows))
        self.newest = np.zeros((2, 3, rows))
        self.step_s = np.full(rows, 0.01)
        self.age = np.zeros(rows, dtype=np.int64)
        self.variance: FloatArray = np.tile(_FIRST_VARIANCE, rows)
        self.log_jerk: FloatArray = np.tile(_FIRST_LOG_JERK, rows)
        self.surprises = np.zeros((2, rows), dtype=np.int64)
        self.whitened = np.zeros((2, 3, rows))
        self.learnt_ns = np.full(rows, -1, dtype=np.int64)
        self.learnt = np.zeros(rows)
        self.unlearnt = np.zeros((5, rows))
        self.damping = Damping(rows)
        steady_gains()  # now, not within the first picture

    def forget(self, rows: _Index) -> None:
        """Drop the poses of some rows, not what is learnt of their noise."""
        self.t_ns[rows] = -1
        self.state[1:, :, :, rows] = 0.0

    def shift(self, rows: _Index, by_ns: int) -> None:
        """Move the times of some rows."""
        moved_ns = np.where(self.t_ns[rows] < 0, 0, by_ns)
        self.t_ns[rows] += moved_ns
        self.learnt_ns[rows] += moved_ns
        self.damping.shift(rows, by_ns)

    def add(self, t_ns: _Times, values: FloatArray, present: BoolArray) -> None:
        """Account k frames.

        Times (k, n), values (k, 2, 3, n) and whether a row has a pose in a frame (k, n).
        """
        for frame in zip(t_ns, values, present, strict=True):
            self._account(*frame)

    def _account(self, t_ns: _Times, values: FloatArray, present: BoolArray) -> None:
        step_s: FloatArray = np.multiply(t_ns - self.t_ns, 1e-9)
        begins = present & ((self.t_ns < 0) | (step_s > _LONGEST_GAP_S))
        if np.logical_or.reduce(begins):
            self._begin(begins, t_ns, values)
            present = present & ~begins
        step_s *= present
        np.copyto(self.step_s, step_s, where=step_s > 0.0)
        floor_s = np.maximum(step_s, _SHORTEST_STEP_S)
        gains, variance = self._gains(floor_s)
        self._advance(step_s)
        nu = (values - self.state[0]) * present
        self._trust(nu, variance, values, floor_s, present)
        self.state += gains[:, :, None] * nu
        self._remember(nu, variance, present)
        self.age += present
        np.copyto(self.newest, values, where=present)
        np.copyto(self.t_ns, t_ns, where=present)
        due = present & (t_ns - self.learnt_ns >= _LEARN_EVERY_NS)
        if np.logical_or.reduce(due):
            self._learn(due)
        compared = present & self.damping.due(t_ns, due)
        if np.logical_or.reduce(compared):
            self.damping.learn(compared, self.t_ns, self.state)

    def _begin(self, rows: BoolArray, t_ns: _Times, values: FloatArray) -> None:
        self.state[0] = np.where(rows, values, self.state[0])
        self.state[1:, :, :, rows] = self.whitened[..., rows] = 0.0
        self.age[rows] = 0
        self.surprises[:, rows] = 0
        self.unlearnt[:, rows] = 0.0
        for times_ns in (self.t_ns, self.learnt_ns):
            np.copyto(times_ns, t_ns, where=rows)
        np.copyto(self.newest, values, where=rows)
        self.damping.forget(rows)

    def _advance(self, step_s: FloatArray) -> None:
        x, v, a = self.state
        dv = step_s * a
        x += step_s * (v + 0.5 * dv)
        v += dv

    def _gains(self, step_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gains (3, 2, n) and innovation variances (2, n), infinite while a filter
        settles.
        """
        low, high = _LOG_INDEX
        log_index = np.minimum(np.maximum(self.log_jerk + 5.0 * np.log(step_s), low), high)
        found: FloatArray = steady_gains()[
            :4, ((log_index - low) * _PER_LOG + 0.5).astype(np.int64)
        ]
        gains = found[:3]
        variance = found[3] * self.variance
        age = self.age + 1
        young = age < YOUNG
        if np.logical_or.reduce(young):
            first = first_gains()[:, None, np.minimum(age, YOUNG)]
            gains = np.where(young & (first[0] > gains[0]), first, gains)
            variance = np.where(age < _SETTLING, np.inf, variance)
        gains[1] /= step_s
        gains[2] /= step_s**2
        return gains, variance

    def _trust(
        self,
        nu: FloatArray,
        variance: FloatArray,
        values: FloatArray,
        step_s: FloatArray,
        present: BoolArray,
    ) -> None:
        """Make innovations (2, 3, n) smaller that no forecast explains, and begin again where they
        last.

        The first of them pull no more than one at a multiple of the limit. After some in a row the
        jerk is larger than it was, and all innovations count for a while.
        """
        squared = np.add.reduce(nu * nu, axis=1)
        limit = _SURPRISE * variance
        beyond = squared > limit
        if not (np.logical_or.reduce(beyond, axis=None) or self.surprises.any()):
            return
        counted = np.where(beyond, self.surprises + 1, np.minimum(self.surprises + 1, 0))
        np.copyto(self.surprises, counted, where=present)
        lasting = self.surprises >= _SURPRISES_LIMIT
        clipped = (squared > _GLITCH * limit) & (self.surprises > 0) & ~lasting
        factors = np.ones_like(squared)
        np.divide(_GLITCH * limit, squared, out=factors, where=clipped)
        nu *= np.sqrt(factors)[:, None]
        if np.logical_or.reduce(lasting, axis=None):
            self.surprises[lasting] = -_FOLLOWING
            self.log_jerk[lasting] += _SURPRISES_LOG
            begun = np.stack((values, (values - self.newest) / step_s, np.zeros_like(values)))
            np.copyto(self.state, begun, where=lasting[:, None])
            nu *= ~lasting[:, None]

    def _remember(self, nu: FloatArray, variance: FloatArray, present: BoolArray) -> None:
        """Sum up what is learnt from innovations, those of settled filters."""
        known = present & (self.age + 1 >= _SETTLING)
        whitened = nu / np.sqrt(3.0 * variance)[:, None]
        self.unlearnt[:2] += np.add.reduce(whitened * self.whitened, axis=1) * known
        self.unlearnt[2:4] += (
            np.minimum(np.add.reduce(whitened * whitened, axis=1), 3.0) - 1.0
        ) * known
        self.unlearnt[4] += known
        np.copyto(self.whitened, whitened, where=known)

    def _learn(self, rows: BoolArray) -> None:
        """Learn from innovations: repeated ones ask for more jerk, large ones for more noise."""
        repeated = self.unlearnt[:2]
        squared = self.unlearnt[2:4]
        count = self.unlearnt[4]
        low, high = _LOG_INDEX
        log_step = 5.0 * np.log(self.step_s)
        log_jerk = self.log_jerk + _JERK_GAIN * np.minimum(np.maximum(repeated, -9.0), 9.0)
        log_jerk = np.minimum(np.maximum(log_jerk, low - log_step), high - log_step)
        gain = np.maximum(_VARIANCE_GAIN, 1.0 / (self.learnt + count + 2.0))
        variance = np.minimum(
            np.maximum(self.variance * np.exp(gain * squared), _LEAST_VARIANCE), _MOST_VARIANCE
        )
        np.copyto(self.log_jerk, log_jerk, where=rows)
        np.copyto(self.variance, variance, where=rows)
        self.learnt += np.where(rows, count, 0.0)
        self.unlearnt[:, rows] = 0.0
        np.copyto(self.learnt_ns, self.t_ns, where=rows)

    def ahead(self, lead_s: FloatArray) -> FloatArray:
        """Return the values that each row will have after a time (n,), shape (2, 3, n).

        Damped as its past was.
        """
        of_v, of_a = self.damping.factors(lead_s)
        x, v, a = self.state
        ahead: FloatArray = x + lead_s * (of_v[:, None] * v + (0.5 * lead_s) * of_a[:, None] * a)
        return ahead

    def parts(self, row: int, lead_s: float) -> FloatArray:
        """Return the parts of velocity and acceleration (rows) of one row that come true after a
        time, shape (2, 2).
        """
        return self.damping.parts(row, lead_s)

    def rates(self, row: int, lead_s: float) -> FloatArray:
        """Return the derivatives of :meth:`ahead` of one row, shape (2, 3)."""
        of_v, of_a = self.damping.slowed(row, lead_s)
        rates: FloatArray = of_v[:, None] * self.state[1, :, :, row]
        rates += lead_s * of_a[:, None] * self.state[2, :, :, row]
        return rates

    def noise(self, row: int) -> tuple[float, float]:
        """Return the learnt variances of one row's positions and attitudes, each axis."""
        moved, turned = self.variance[:, row].tolist()
        return moved, turned

    def covariance(self, row: int, lead_s: float) -> FloatArray:
        """Return the covariances of value and rate of one row after a time, shape (2, 2, 2), of
        each axis.

        Those of the filter, and beyond the newest pose the errors that forecasts of this row had
        lately.
        """
        covariances = [self._newest_covariance(kind, row, max(lead_s, 0.0)) for kind in range(2)]
        covariance: FloatArray = np.array(covariances) + self.damping.covariance(row, lead_s)
        return covariance

    def _newest_covariance(
        self, kind: int, row: int, lead_s: float
    ) -> tuple[tuple[float, float], ...]:
        """Return the filter's covariance of value and rate, carried on.

        Scalar arithmetic, for one row costs less.
        """
        step_s = self.step_s.item(row)
        age = self.age.item(row)
        low, high = _LOG_INDEX
        log_index = min(max(self.log_jerk.item(kind, row) + 5.0 * math.log(step_s), low), high)
        value, slope, _, _, rate = steady_gains()[
            :, int((log_index - low) * _PER_LOG + 0.5)
        ].tolist()
        first_value, first_slope, _ = first_gains()[:, min(age, YOUNG)].tolist()
        variance = self.variance.item(kind, row)
        value = variance * max(value, first_value)
        # The end slope of a parabola fitted to all poses.
        rate = _FIRST_RATE**2 if age < 2 else variance * max(rate, 192.0 / age**3) / step_s**2
        slope = 0.0 if age < 2 else variance * max(slope, first_slope) / step_s
        slope = min(slope, 0.9 * math.sqrt(value * rate))
        ahead = slope + lead_s * rate
        return (value + lead_s * (slope + ahead), ahead), (ahead, rate)
