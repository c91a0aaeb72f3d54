"""Trajectories: position and yaw with their derivatives, as functions of time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cache
from itertools import pairwise
from math import factorial, perm
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray

ORDERS: Final = 5
"""Rows of derivatives: position, velocity, acceleration, jerk, snap."""

_STEP_S: Final = 0.1


class Reference(NamedTuple):
    """Wanted positions and their derivatives; world ENU, one row per instant or per vehicle.

    Attributes:
        p_world_m, v_world_mps, a_world_mps2, j_world_mps3, s_world_mps4: (n, 3), down to the snap.
        yaw_rad, yaw_radps, yaw_radps2: (n,), the heading about z, from x towards y.
    """

    p_world_m: FloatArray
    v_world_mps: FloatArray
    a_world_mps2: FloatArray
    j_world_mps3: FloatArray
    s_world_mps4: FloatArray
    yaw_rad: FloatArray
    yaw_radps: FloatArray
    yaw_radps2: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> Reference:
        """Return views of derivatives (n, 5, 4)."""
        return cls(*(rows[:, k, :3] for k in range(ORDERS)), *(rows[:, k, 3] for k in range(3)))


class Trajectory(ABC):
    """A curve over the times 0 to ``duration_s``.

    Attributes:
        duration_s: seconds. repeat_s: how many of the last seconds are flown again and again after
            the end; 0 = the vehicle stays at the end.
        knots_s: increasing times from 0 to the end; derivatives up to the snap may jump there and
            only there.
    """

    duration_s: float
    repeat_s: float = 0.0
    knots_s: FloatArray

    @abstractmethod
    def derivatives(self, t_s: FloatArray) -> FloatArray:
        """Return rows (n, 5, 4) at times (n,) within the curve.

        Derivatives of order 0 to 4 of x, y, z (m), yaw (rad).

        At a knot, those of the piece that begins there. Yaw is known to its second derivative; the
        rest is 0.
        """

    def polynomials(self) -> Polynomials:
        """Return the same curve as polynomials, pieces of at most 0.1 s unless it consists of
        polynomials already.

        They are of degree 9, through all derivatives to the snap at both ends; yaw is of degree 5,
        through its second.
        """
        cuts = [
            np.linspace(a, b, max(math.ceil((b - a) / _STEP_S - 1e-9), 1), endpoint=False)
            for a, b in pairwise(self.knots_s)
        ]
        times = np.concatenate([*cuts, self.knots_s[-1:]])
        lengths = np.diff(times)
        begins = self.derivatives(times[:-1])
        ends = self.derivatives(np.nextafter(times[1:], -np.inf))  # of the piece that ends there
        path = hermite(begins[..., :3], ends[..., :3], lengths)
        yaw = hermite(begins[:, :3, 3:], ends[:, :3, 3:], lengths)
        return Polynomials(
            times, np.concatenate((path, padded(yaw, path.shape[1])), axis=2), self.repeat_s
        )

    def at(self, t_s: npt.ArrayLike) -> Reference:
        """Return the reference at any times, shape (n,) or a number.

        At rest before the beginning and after the end.
        """
        t = np.atleast_1d(np.asarray(t_s, dtype=np.float64))
        inside = folded(t, self.duration_s, self.repeat_s)
        rows = self.derivatives(inside)
        rows[inside != t if self.repeat_s == 0.0 else t < 0.0, 1:] = 0.0
        return Reference.of(rows)


def folded(
    t_s: FloatArray, duration_s: float | FloatArray, repeat_s: float | FloatArray
) -> FloatArray:
    """Return times brought into a curve: clipped, or taken back by whole repetitions."""
    over = np.maximum(t_s - duration_s, 0.0)
    again = np.where(over > 0.0, repeat_s, 0.0)
    inside: FloatArray = np.clip(t_s, 0.0, duration_s - again)
    inside += np.fmod(over, np.where(again > 0.0, again, np.inf)) * (again > 0.0)
    return inside


class Polynomials(Trajectory):
    """Polynomials one after another.

    In piece i, ``sum_k c[i, k] tau^k`` with tau = 0 to 1 from knot to knot.

    Args:
        knots_s: (pieces + 1,), increasing from 0.
        coefficients: (pieces, degree + 1, 4): x, y, z (m) and yaw (rad); or another number of
            channels, for :meth:`derivatives` only.

    Raises:
        ValueError: shapes that do not fit, knots that do not increase from 0, a value that is not
            finite.
    """

    def __init__(
        self, knots_s: npt.ArrayLike, coefficients: npt.ArrayLike, repeat_s: float = 0.0
    ) -> None:
        self.knots_s = np.array(knots_s, dtype=np.float64)
        self.coefficients: Final = np.array(coefficients, dtype=np.float64)
        if self.coefficients.ndim != 3 or self.knots_s.shape != (len(self.coefficients) + 1,):
            raise ValueError(
                f"coefficients {self.coefficients.shape} and knots {self.knots_s.shape} "
                "do not fit: "
                "wanted (pieces, degree + 1, channels) and (pieces + 1,)"
            )
        if not (np.isfinite(self.knots_s).all() and np.isfinite(self.coefficients).all()):
            raise ValueError("knots and coefficients must be finite")
        self.lengths_s: Final = np.diff(self.knots_s)
        if self.knots_s[0] != 0.0 or not (self.lengths_s > 0.0).all():
            raise ValueError("knots must increase from 0")
        self.duration_s = float(self.knots_s[-1])
        self.repeat_s = repeat_s

    def derivatives(self, t_s: FloatArray) -> FloatArray:
        """See :class:`Trajectory`; with the channels of the coefficients in place of the four."""
        piece = np.clip(np.searchsorted(self.knots_s, t_s, "right") - 1, 0, len(self.lengths_s) - 1)
        length = self.lengths_s[piece]
        return evaluate((t_s - self.knots_s[piece]) / length, length, self.coefficients[piece])

    def polynomials(self) -> Polynomials:
        """Return itself."""
        return self


def hermite(begins: FloatArray, ends: FloatArray, lengths_s: FloatArray) -> FloatArray:
    """Return polynomials of degree 2 r - 1 with given value and r - 1 derivatives at both ends.

    Args:
        begins: (pieces, r, channels), derivatives by time.
        ends: likewise.
        lengths_s: (pieces,).

    Returns:
        Coefficients over tau = 0 to 1, (pieces, 2 r, channels).
    """
    orders = begins.shape[1]
    scale = np.vander(lengths_s, orders, increasing=True)[:, :, None]
    coefficients: FloatArray = product(
        hermite_matrix(orders), np.concatenate((begins * scale, ends * scale), axis=1)
    )
    return coefficients


def padded(coefficients: FloatArray, degrees: int) -> FloatArray:
    """Return the same polynomials with further coefficients of 0, (pieces, degrees, channels)."""
    return np.pad(coefficients, ((0, 0), (0, degrees - coefficients.shape[1]), (0, 0)))


@cache
def hermite_matrix(orders: int) -> FloatArray:
    """Return coefficients over tau from the derivatives by tau at 0 and at 1.

    (2 r, 2 r) for r = ``orders``.
    """
    size = 2 * orders
    conditions = np.zeros((size, size))
    for k in range(orders):
        conditions[k, k] = perm(k, k)
        conditions[orders + k] = [perm(power, k) for power in range(size)]
    # Exact in the last digit: the inverse consists of integers divided by factorials.
    common = factorial(orders - 1)
    return np.round(np.linalg.inv(conditions) * common) / common


@cache
def _powers_of(degrees: int, orders: int) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return the power of tau of coefficient k in derivative o, and its factor k!/(k - o)!.

    (orders, degrees).
    """
    powers = np.maximum(np.arange(degrees) - np.arange(orders)[:, None], 0)
    factors = np.empty((orders, degrees))
    for order in range(orders):
        factors[order] = [float(perm(k, order)) for k in range(degrees)]
    return powers, factors


def evaluate(tau: FloatArray, lengths_s: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Return derivatives by time (n, 5, channels) of polynomials (n, degree + 1, channels) at tau.

    N,.
    """
    degrees = coefficients.shape[1]
    powers, factors = _powers_of(degrees, ORDERS)
    of_tau = np.vander(tau, degrees, increasing=True)
    by_tau = product(of_tau[:, powers] * factors, coefficients)
    rows: FloatArray = by_tau / np.vander(lengths_s, ORDERS, increasing=True)[:, :, None]
    return rows
