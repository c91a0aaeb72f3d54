"""Kalman filters of bodies without an IMU: position and attitude with their velocities and accelerations.

One filter for the translation and one for the rotation of each body. The jerk is white noise, errors are
the same in all directions, and the gains are those of the steady state, so that they depend on one number:
the jerk's density over the measurement's variance, in units of the step between two poses. A rotation is
filtered as the sum of the turns from pose to pose, body axes.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.world.damping import LEARN_EVERY_NS, Damping

_Times = npt.NDArray[np.int64]
_Index = npt.NDArray[np.int64]

_LONGEST_GAP_S: Final = 0.3
_SHORTEST_STEP_S: Final = 1e-5
_FIRST_LOG_VARIANCE: Final = np.log([[1e-7], [1e-6]])  # m^2, rad^2
_LOG_VARIANCE_BOUNDS: Final = np.log([[[1e-11], [1e-10]], [[1e-3], [1e-3]]])
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
_YOUNG: Final = 60  # poses until the gains are those of the steady state
_FIRST_RATE: Final = 5.0  # m/s and rad/s

_LOG_INDEX: Final = (-16.0, 8.0)
_PER_LOG: Final = 10.0


@cache
def _steady() -> FloatArray:
    """Return gains of value, velocity and acceleration, innovation variance and velocity variance, shape (5, m).

    By the logarithm of the index in steps of a tenth; the step is 1 s, the measurement's variance 1.
    """
    low, high = _LOG_INDEX
    index = np.exp(np.linspace(low, high, round((high - low) * _PER_LOG) + 1))[:, None, None]
    F = np.array([[1.0, 1.0, 0.5], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    Q = np.array([[1 / 20, 1 / 8, 1 / 6], [1 / 8, 1 / 3, 1 / 2], [1 / 6, 1 / 2, 1.0]])
    P, gain, s = np.tile(np.eye(3), (len(index), 1, 1)), np.zeros((len(index), 3)), np.ones(len(index))
    for _ in range(4 * _YOUNG):
        P = F @ P @ F.T + index * Q
        s = P[:, 0, 0] + 1.0
        gain = P[:, 0] / s[:, None]
        P = P - gain[:, :, None] * P[:, None, 0]
    return np.stack((*gain.T, s, P[:, 1, 1]))


@cache
def _first() -> FloatArray:
    """Return the gains that fit a parabola to all poses, shape (3, m), by the number of poses before."""
    m = np.arange(_YOUNG + 1.0)
    gains = np.stack((3.0 * (3.0 * m**2 + 3.0 * m + 2.0), 18.0 * (2.0 * m + 1.0), np.full_like(m, 60.0)))
    gains /= (m + 1.0) * (m + 2.0) * (m + 3.0)
    gains[:, 0], gains[:, 1] = (1.0, 0.0, 0.0), (1.0, 1.0, 0.0)
    return gains


class TwistFilter:
    """Filters of n bodies. Arrays hold translation (m) and rotation (rad), their three axes and the bodies, (2, 3, n).

    Attributes:
        t_ns: shape (n,), newest pose; -1 = none.
        state: shape (3, 2, 3, n), values, velocities and accelerations at the newest pose.
    """

    def __init__(self, rows: int) -> None:
        self.t_ns = np.full(rows, -1, dtype=np.int64)
        self.state = np.zeros((3, 2, 3, rows))
        self._step_s = np.full(rows, 0.01)
        self._log_variance: FloatArray = np.tile(_FIRST_LOG_VARIANCE, rows)
        self._log_jerk: FloatArray = np.tile(_FIRST_LOG_JERK, rows)
        self._age = np.zeros((2, rows), dtype=np.int64)
        self._surprises = np.zeros((2, rows), dtype=np.int64)
        self._surprised = False
        self._whitened = np.zeros((2, 3, rows))
        self._learnt_ns = self.t_ns
        self._learnt = np.zeros((2, rows))
        self._unlearnt: list[tuple[FloatArray, BoolArray]] = []
        self._newest = np.zeros((2, 3, rows))
        self._held: tuple[FloatArray, FloatArray] | None = None
        self._tolerance_s: FloatArray = np.zeros(rows)
        self._damping = Damping(rows)
        _steady()  # now, not within the first picture

    def forget(self, rows: _Index) -> None:
        """Drop the poses of some rows, not what is learnt of their noise."""
        self.t_ns = self.t_ns.copy()
        self.t_ns[rows] = -1
        self.state[1:, :, :, rows] = 0.0
        self._damping.forget(rows)

    def shift(self, rows: _Index, by_ns: int) -> None:
        """Move the times of some rows."""
        self.t_ns = self.t_ns.copy()
        self.t_ns[rows] += np.where(self.t_ns[rows] < 0, 0, by_ns)
        self._damping.shift(rows, by_ns)

    def add(self, t_ns: _Times, values: FloatArray, present: BoolArray) -> None:
        """Account k frames: times (k, n), values (k, 2, 3, n) and whether a row has a pose in a frame (k, n).

        A row without a pose repeats the time before it.
        """
        newest_ns = np.maximum.reduce(t_ns, axis=1).tolist()
        begin = 0
        for k in range(1, len(newest_ns) + 1):
            if k == len(newest_ns) or newest_ns[k] - newest_ns[begin] >= LEARN_EVERY_NS:
                self._add(t_ns[begin:k], values[begin:k], present[begin:k])
                begin = k

    def _add(self, t_ns: _Times, values: FloatArray, present: BoolArray) -> None:
        """Account frames of at most :data:`LEARN_EVERY_NS`, and learn from them."""
        before_ns = np.concatenate((self.t_ns[None], t_ns[:-1]))
        step_s: FloatArray = np.multiply(t_ns - before_ns, 1e-9)
        begins = present & ((before_ns < 0) | (step_s > _LONGEST_GAP_S))
        if np.logical_or.reduce(begins, axis=None):
            step_s[begins] = 0.0
            for k in range(len(t_ns)):
                self._account(step_s[k : k + 1], values[k : k + 1], (present & ~begins)[k : k + 1])
                self._begin(begins[k], values[k])
        else:
            self._account(step_s, values, present)
        self.t_ns = t_ns[-1].copy()
        if np.maximum.reduce(np.abs(self.t_ns - self._learnt_ns)) >= LEARN_EVERY_NS:
            self._learnt_ns = self.t_ns
            self._learn(*map(np.concatenate, zip(*self._unlearnt, strict=True)))
            self._unlearnt.clear()
            self._damping.learn(self.t_ns, self.state)
            self._gains(step_s[-1:], present[-1:])

    def _begin(self, rows: BoolArray, values: FloatArray) -> None:
        self.state[0] = np.where(rows, values, self.state[0])
        self.state[1:, :, :, rows] = self._whitened[..., rows] = 0.0
        self._age[:, rows] = self._surprises[:, rows] = 0
        self._held = None

    def _account(self, step_s: FloatArray, values: FloatArray, present: BoolArray) -> None:
        gains, variance = self._gains(step_s, present)
        limit = _SURPRISE * variance
        left = np.empty_like(values)
        x, v, a = self.state
        for k, step in enumerate(step_s):
            dv = step * a
            x += step * (v + 0.5 * dv)
            v += dv
            nu = np.subtract(values[k], x, out=left[k])
            squared = np.add.reduce(nu * nu, axis=1) * present[k]
            if np.logical_or.reduce(squared > limit[k], axis=None):
                gains, limit = gains.copy(), limit.copy()
                factors, lasting = self._trust(squared, gains[:, k:], limit[k:], step_s[k:], present[k])
                nu *= factors[:, None]
                if lasting.any():
                    self._restart(lasting, values[k - 1] if k else self._newest, values[k], step)
                    nu[np.broadcast_to(lasting[:, None], nu.shape)] = 0.0
            elif self._surprised:
                self._surprises = np.where(present[k], np.minimum(self._surprises + 1, 0), self._surprises)
                self._surprised = bool(self._surprises.any())
            self.state += gains[:, k, :, None] * nu
        self._newest = values[-1]
        known = present[:, None] & np.isfinite(variance)
        self._unlearnt.append((left / np.sqrt(3.0 * variance)[:, :, None], known))
        self._age += len(step_s) if self._held is not None else present.sum(axis=0)

    def _gains(self, step_s: FloatArray, present: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return gains (3, k, 2, n) and innovation variances (k, 2, n) of frames; held while steps stay the same."""
        if self._held is not None and np.logical_and.reduce(present, axis=None):
            uneven = np.abs(step_s - self._step_s) > self._tolerance_s
            if not np.logical_or.reduce(uneven, axis=None):
                gains, variance = self._held
                return gains.repeat(len(step_s), axis=1), variance.repeat(len(step_s), axis=0)
        floor_s = np.maximum(step_s, _SHORTEST_STEP_S)
        self._step_s = np.where(present[-1] & (step_s[-1] > 0.0), step_s[-1], self._step_s)
        found: FloatArray = _steady()[:4, self._index(floor_s)]
        gains, variance = found[:3], found[3] * np.exp(self._log_variance)
        age = self._age + np.arange(1, len(step_s) + 1)[:, None, None]
        young = age < _YOUNG
        if young.any():
            first = _first()[:, np.minimum(age, _YOUNG)]
            gains = np.where(first[0] > gains[0], first, gains)
            variance = np.where(age < _SETTLING, np.inf, variance)
        rate = (present / floor_s)[:, None]
        gains = gains * np.stack((np.broadcast_to(present[:, None], rate.shape), rate, rate**2))
        same = not young.any() and bool(present.all())
        self._held, self._tolerance_s = ((gains[:, -1:], variance[-1:]) if same else None), 0.02 * self._step_s
        return gains, variance

    def _index(self, step_s: FloatArray) -> _Index:
        log_index = self._log_jerk + 5.0 * np.log(step_s)[..., None, :]
        low, high = _LOG_INDEX
        clipped = np.minimum(np.maximum(log_index, low), high)
        index: _Index = ((clipped - low) * _PER_LOG).astype(np.int64)
        return index

    def _restart(self, rows: BoolArray, before: FloatArray, now: FloatArray, step_s: FloatArray) -> None:
        """Begin again from the two newest poses (2, 3, n): what the filter knew of these rows (2, n) is wrong."""
        moved = np.stack((now, (now - before) / np.maximum(step_s, _SHORTEST_STEP_S), np.zeros_like(now)))
        np.copyto(self.state, moved, where=rows[:, None])

    def _trust(
        self, squared: FloatArray, gains: FloatArray, limit: FloatArray, step_s: FloatArray, present: BoolArray
    ) -> tuple[FloatArray, BoolArray]:
        """Return the factors (2, n) of innovations of which some are beyond the limit, and where that lasts.

        Rows that are not present (n) have none.

        The first of them pull no more than one at a multiple of it. After some in a row the jerk is larger than it was:
        gains (3, k, 2, n) and limits (k, 2, n) from this frame on change, and all innovations count for a while.
        """
        beyond = squared > limit[0]
        counted = np.where(beyond, self._surprises + 1, np.minimum(self._surprises + 1, 0))
        self._surprises = np.where(present, counted, self._surprises)
        self._surprised = True
        lasting = self._surprises >= _SURPRISES_LIMIT
        factors = np.ones_like(squared)
        largest = _GLITCH * limit[0]
        clipped = (squared > largest) & (self._surprises > 0) & ~lasting
        np.divide(largest, squared, out=factors, where=clipped)
        np.sqrt(factors, out=factors)
        if lasting.any():
            self._surprises[lasting] = -_FOLLOWING
            self._log_jerk[lasting] += _SURPRISES_LOG
            self._held = None
            raised, variance = self._gains(step_s, np.ones(step_s.shape, dtype=np.bool_))
            gains[:] = np.where(lasting, raised, gains)
            limit[:] = np.where(lasting, _SURPRISE * variance, limit)
        return factors, lasting

    def _learn(self, whitened: FloatArray, known: BoolArray) -> None:
        """Learn from innovations (k, 2, 3, n): repeated ones ask for more jerk, large ones for more noise.

        Those that are not ``known`` (k, 2, n) count for nothing.
        """
        repeated: FloatArray = np.zeros(self._log_jerk.shape)
        for newest, seen in zip(whitened, known, strict=True):
            repeated += np.add.reduce(newest * self._whitened, axis=1) * seen
            self._whitened = np.where(seen[:, None], newest, self._whitened)
        squared = np.minimum(np.add.reduce(whitened * whitened, axis=2), 3.0) - 1.0
        self._log_jerk += _JERK_GAIN * np.minimum(np.maximum(repeated, -9.0), 9.0)
        gain = np.maximum(_VARIANCE_GAIN, 1.0 / (self._learnt + len(known) + 2.0))
        self._log_variance += gain * np.add.reduce(squared * known, axis=0)
        self._learnt += np.add.reduce(known, axis=0)
        np.clip(self._log_variance, *_LOG_VARIANCE_BOUNDS, out=self._log_variance)
        low, high = _LOG_INDEX
        log_step = 5.0 * np.log(self._step_s)
        self._held = None
        np.clip(self._log_jerk, low - log_step, high - log_step, out=self._log_jerk)

    def ahead(self, lead_s: FloatArray) -> FloatArray:
        """Return the values that each row will have after a time (n,), shape (2, 3, n): damped as its past was."""
        of_v, of_a = self._damping.factors(lead_s)
        x, v, a = self.state
        ahead: FloatArray = x + lead_s * (of_v[:, None] * v + (0.5 * lead_s) * of_a[:, None] * a)
        return ahead

    def parts(self, row: int, lead_s: float) -> FloatArray:
        """Return the parts of velocity and acceleration (rows) of one row that come true after a time, shape (2, 2)."""
        return self._damping.parts(row, lead_s)

    def rates(self, row: int, lead_s: float) -> FloatArray:
        """Return the derivatives of :meth:`ahead` of one row, shape (2, 3)."""
        of_v, of_a = self._damping.slowed(row, lead_s)
        rates: FloatArray = of_v[:, None] * self.state[1, :, :, row]
        rates += lead_s * of_a[:, None] * self.state[2, :, :, row]
        return rates

    def noise(self, row: int) -> tuple[float, float]:
        """Return the learnt variances of one row's positions and attitudes, each axis."""
        moved, turned = np.exp(self._log_variance[:, row]).tolist()
        return moved, turned

    def covariance(self, row: int, lead_s: float) -> FloatArray:
        """Return the covariances of value and rate of one row after a time, shape (2, 2, 2), of each axis.

        Those of the filter, and beyond the newest pose the errors that forecasts of this row had lately.
        """
        covariances = [self._newest_covariance(kind, row, max(lead_s, 0.0)) for kind in range(2)]
        covariance: FloatArray = np.array(covariances) + self._damping.covariance(row, lead_s)
        return covariance

    def _newest_covariance(self, kind: int, row: int, lead_s: float) -> tuple[tuple[float, float], ...]:
        """Return the filter's covariance of value and rate, carried on; scalar arithmetic, for one row costs less."""
        step_s, age = self._step_s.item(row), self._age.item(kind, row)
        low, high = _LOG_INDEX
        log_index = min(max(self._log_jerk.item(kind, row) + 5.0 * math.log(step_s), low), high)
        value, slope, _, _, rate = _steady()[:, int((log_index - low) * _PER_LOG)].tolist()
        first_value, first_slope, _ = _first()[:, min(age, _YOUNG)].tolist()
        variance = math.exp(self._log_variance.item(kind, row))
        value = variance * max(value, first_value)
        # The end slope of a parabola fitted to all poses.
        rate = _FIRST_RATE**2 if age < 2 else variance * max(rate, 192.0 / age**3) / step_s**2
        slope = 0.0 if age < 2 else variance * max(slope, first_slope) / step_s
        slope = min(slope, 0.9 * math.sqrt(value * rate))
        ahead = slope + lead_s * rate
        return (value + lead_s * (slope + ahead), ahead), (ahead, rate)
