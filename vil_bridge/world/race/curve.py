"""Curve of a racer between two poses: cubic, from known velocities or from the poses before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray

_DEGREE: Final = 3
_S_PER_NS: Final = 1e-9
_BEYOND: Final = 0.5
"""Share of the interval by which a root may lie outside it: the curve smooths noise, so that it ends off the poses."""


@dataclass(frozen=True, slots=True, eq=False)
class RacerPose:
    """Measured position of a racer.

    Attributes:
        p_m: world, (3,). v_mps: world, (3,); None = unknown.
    """

    t_ns: int
    p_m: FloatArray
    v_mps: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Cubic curve.

    Attributes:
        start_ns: its time 0. span_s: length of the interval that it stands for.
        terms: (n, 3): coefficients of s^0, s^1..., s = seconds from ``start_ns``.
    """

    start_ns: int
    span_s: float
    terms: FloatArray

    def at(self, s: float) -> FloatArray:
        """Return position at a time, (3,)."""
        p_m: FloatArray = s ** np.arange(len(self.terms)) @ self.terms
        return p_m

    def velocity(self, s: float) -> FloatArray:
        """Return velocity at a time, (3,), m/s."""
        k = np.arange(1, len(self.terms))
        v_mps: FloatArray = (k * s ** (k - 1)) @ self.terms[1:]
        return v_mps

    def crosses(self, normal: FloatArray, point_m: FloatArray, share: float) -> float:
        """Return the time at which the curve crosses a plane, seconds from its start.

        Args:
            normal: of the plane, (3,).
            point_m: in the plane, (3,).
            share: of the interval at which the straight line crosses; the root nearest to it is taken.
        """
        heights = self.terms @ normal
        heights[0] -= point_m @ normal
        guess, beyond = share * self.span_s, _BEYOND * self.span_s
        roots = np.roots(heights[::-1])
        real = roots[np.abs(roots.imag) < 1e-9].real
        near = real[(real >= -beyond) & (real <= self.span_s + beyond)]
        return float(near[np.abs(near - guess).argmin()]) if len(near) else guess


def between(first: RacerPose, second: RacerPose, around: Sequence[RacerPose]) -> Curve:
    """Return the curve between two poses.

    Args:
        first: the earlier pose.
        second: the later pose.
        around: poses in time order, those two among them: the curve is fitted to all if a velocity is unknown.
    """
    span_s = (second.t_ns - first.t_ns) * _S_PER_NS
    if first.v_mps is not None and second.v_mps is not None:
        return Curve(first.t_ns, span_s, _hermite(first.p_m, first.v_mps, second.p_m, second.v_mps, span_s))
    s = np.array([pose.t_ns - first.t_ns for pose in around], np.float64) * _S_PER_NS
    middle, scale = 0.5 * (s[0] + s[-1]), 0.5 * (s[-1] - s[0])
    degree = min(_DEGREE, len(s) - 1)
    powers = np.vander((s - middle) / scale, degree + 1, increasing=True)
    scaled = np.linalg.lstsq(powers, np.array([pose.p_m for pose in around]), rcond=None)[0]
    return Curve(first.t_ns, span_s, _shifted(np.asarray(scaled, np.float64), middle, scale))


def _hermite(p0: FloatArray, v0: FloatArray, p1: FloatArray, v1: FloatArray, span_s: float) -> FloatArray:
    mean = (p1 - p0) / span_s
    return np.stack((p0, v0, (3.0 * mean - 2.0 * v0 - v1) / span_s, (v0 + v1 - 2.0 * mean) / span_s**2))


def _shifted(scaled: FloatArray, middle: float, scale: float) -> FloatArray:
    """Return terms in s from those in (s - middle) / scale."""
    terms = np.zeros_like(scaled)
    power = np.ones(1)
    for k, term in enumerate(scaled):
        terms[: k + 1] += power[:, None] * term
        power = np.convolve(power, (-middle / scale, 1.0 / scale))
    return terms
