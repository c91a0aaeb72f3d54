"""Damping of forecasts: how much of a body's motion came true lately."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray

_Times = npt.NDArray[np.int64]
_Index = npt.NDArray[np.int64]

_LAG_NS: Final = 96_000_000
_LONGEST_LAG_NS: Final = 200_000_000
_MEMORY_S: Final = 3.5
_FADING: Final = math.exp(-1e-9 * _LAG_NS / _MEMORY_S)
_PRIOR: Final = 1e-4
_PRIOR_COUNT: Final = 0.03
_PRIOR_ERROR: Final = np.array([[0.03], [0.15]])
"""Error of a forecast over the lag before any was compared, m and rad."""
_LEAST_DAMPING: Final = 0.02


class Damping:
    """Part of velocity and acceleration that comes true, learnt for each row from its own past.

    A regression of the way since about 100 ms ago on what velocity and acceleration said of it
    then, in which every way has a weight of one over its length. The parts fall exponentially with
    the lead.

    Attributes:
        held_ns, held: times (n,), -1 = none, and states (3, 2, 3, n) that the next ones are
            compared with.
        sums: shape (7, 2, n), of the regression (five), of squared errors and of their count.
        lag_s: shape (n,), mean of what was compared.
        log: shape (2, 2, n), logarithms of the parts of velocity and acceleration over the lag.
    """

    def __init__(self, rows: int) -> None:
        self.held_ns = np.full(rows, -1, dtype=np.int64)
        self.held = np.zeros((3, 2, 3, rows))
        self.sums = np.zeros((7, 2, rows))
        self.sums[5] = _PRIOR_COUNT * _PRIOR_ERROR**2
        self.sums[6] = _PRIOR_COUNT
        self.lag_s = np.full(rows, 1e-9 * _LAG_NS)
        self.log: FloatArray = np.log(self._parts())

    def forget(self, rows: _Index | BoolArray) -> None:
        """Drop the past of some rows, not what is learnt of it."""
        self.held_ns[rows] = -1

    def shift(self, rows: _Index, by_ns: int) -> None:
        """Move the times of some rows."""
        self.held_ns[rows] += np.where(self.held_ns[rows] < 0, 0, by_ns)

    def factors(self, lead_s: FloatArray) -> FloatArray:
        """Return the parts of velocity and acceleration that count after a time (n,), shape (2,
        2, n).
        """
        factors: FloatArray = np.exp(self.log * (np.maximum(lead_s, 0.0) / self.lag_s))
        return factors

    def parts(self, row: int, lead_s: float) -> FloatArray:
        """Return the parts of one row whose velocity and acceleration an IMU measures, shape (2,
        2).

        What is lost of them begins later than that of estimates: with the square of the lead.
        """
        parts: FloatArray = np.exp(self.log[..., row] * (max(lead_s, 0.0) / self.lag_s[row]) ** 2)
        return parts

    def slowed(self, row: int, lead_s: float) -> FloatArray:
        """Return the parts of velocity and acceleration in the velocity of one row after a time,
        shape (2, 2).
        """
        log = self.log[..., row] * (max(lead_s, 0.0) / self.lag_s[row])
        slowed: FloatArray = np.exp(log) * (1.0 + log * np.array([[1.0], [0.5]]))
        return slowed

    def covariance(self, row: int, lead_s: float) -> FloatArray:
        """Return the covariance (2, 2, 2) of value and rate by which forecasts of a row were wrong
        lately, each axis.

        The variance of the value grows with the power 2.5 of the lead.
        """
        squared = self.sums[5, :, row] / np.maximum(self.sums[6, :, row], 1e-9)
        lag_s = self.lag_s.item(row)
        part = max(lead_s, 0.0) / lag_s
        value = part**1.25
        rate = 1.25 * part**0.25 / lag_s
        growth = np.array(((value * value, value * rate), (value * rate, rate * rate)))
        covariance: FloatArray = squared[:, None, None] * growth
        return covariance

    def due(self, now_ns: _Times, settled: BoolArray) -> BoolArray:
        """Return which rows (n,) to learn from.

        Those held for long enough, and new ones that are ``settled``.
        """
        due: BoolArray = np.where(self.held_ns < 0, settled, now_ns - self.held_ns >= _LAG_NS)
        return due

    def learn(self, rows: BoolArray, now_ns: _Times, now: FloatArray) -> None:
        """Compare the states (3, 2, 3, n) of some rows with those that are held, and hold them.

        Args:
            rows: which, (n,).
            now_ns: times of the states, (n,).
            now: states.
        """
        lag_ns = now_ns - self.held_ns
        known = rows & (self.held_ns >= 0) & (lag_ns >= _LAG_NS) & (lag_ns < _LONGEST_LAG_NS)
        lag_s = 1e-9 * lag_ns
        said = self.held[1:] * np.stack((lag_s, 0.5 * lag_s**2))[:, None, None]
        way = now[0] - self.held[0]
        left = way - np.add.reduce(np.exp(self.log)[:, :, None] * said, axis=0)
        new = np.empty_like(self.sums)
        np.add.reduce(said[0] * said, axis=2, out=new[:2])
        np.add.reduce(said[1] * said[1], axis=1, out=new[2])
        np.add.reduce(way * said, axis=2, out=new[3:5])
        new[:5] /= np.sqrt(new[0] + new[2] + 1e-8)
        np.add.reduce(left * left, axis=1, out=new[5])
        new[6] = 3.0
        np.copyto(self.sums, self.sums * _FADING + new, where=known)
        self.lag_s += np.where(known, 0.1 * (lag_s - self.lag_s), 0.0)
        self.log[...] = np.log(self._parts())
        np.copyto(self.held_ns, now_ns, where=rows)
        np.copyto(self.held, now, where=rows)

    def _parts(self) -> FloatArray:
        """Return the parts of velocity and acceleration over the lag, shape (2, 2, n)."""
        vv, va, aa, dv, da = self.sums[:5]
        vv = vv + _PRIOR
        aa = aa + _PRIOR
        dv = dv + _PRIOR
        da = da + 0.5 * _PRIOR
        parts: FloatArray = np.stack((aa * dv - va * da, vv * da - va * dv)) / (vv * aa - va**2)
        return np.minimum(np.maximum(parts, _LEAST_DAMPING, out=parts), 1.0, out=parts)
