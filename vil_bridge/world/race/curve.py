"""Curve of a racer between two poses.

Cubic, from known velocities or from the poses before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray

_DEGREE: Final = 3
_S_PER_NS: Final = 1e-9
_CELLS: Final = 32
_HALVINGS: Final = 50
_BEYOND: Final = 0.5
"""Share of the interval by which a root may lie outside it.

The curve smooths noise, so that it ends off the poses.
"""


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
        p_m: FloatArray = product(np.vander([s], len(self.terms), increasing=True)[0], self.terms)
        return p_m

    def velocity(self, s: float) -> FloatArray:
        """Return velocity at a time, (3,), m/s."""
        k = np.arange(1, len(self.terms))
        v_mps: FloatArray = product(k * np.vander([s], len(k), increasing=True)[0], self.terms[1:])
        return v_mps

    def crosses(self, normal: FloatArray, point_m: FloatArray, share: float) -> float:
        """Return the time at which the curve crosses a plane, seconds from its start.

        Args:
            normal: of the plane, (3,).
            point_m: in the plane, (3,).
            share: of the interval at which the straight line crosses; the root nearest to it is
                taken.
        """
        heights = product(self.terms, normal)
        heights[0] -= product(point_m, normal)
        guess = share * self.span_s
        beyond = _BEYOND * self.span_s
        found = _roots(heights.tolist(), -beyond, self.span_s + beyond)
        return min(found, key=lambda root: abs(root - guess), default=guess)


def _roots(terms: list[float], low: float, high: float) -> list[float]:
    """Return where a polynomial changes its sign between two numbers, to the last digit on every
    processor.
    """

    def below(s: float) -> bool:
        value = 0.0
        for term in reversed(terms):
            value = value * s + term
        return value < 0.0

    step = (high - low) / _CELLS
    edges = [low + step * number for number in range(_CELLS + 1)]
    signs = [below(edge) for edge in edges]
    roots = []
    for number in range(_CELLS):
        if signs[number] == signs[number + 1]:
            continue
        before = edges[number]
        after = edges[number + 1]
        for _ in range(_HALVINGS):
            middle = 0.5 * (before + after)
            if below(middle) == signs[number]:
                before = middle
            else:
                after = middle
        roots.append(after)
    return roots


def between(first: RacerPose, second: RacerPose, around: Sequence[RacerPose]) -> Curve:
    """Return the curve between two poses.

    Args:
        first: the earlier pose.
        second: the later pose.
        around: poses in time order, those two among them: the curve is fitted to all if a velocity
            is unknown.
    """
    span_s = (second.t_ns - first.t_ns) * _S_PER_NS
    if first.v_mps is not None and second.v_mps is not None:
        return Curve(
            first.t_ns, span_s, _hermite(first.p_m, first.v_mps, second.p_m, second.v_mps, span_s)
        )
    s = np.array([pose.t_ns - first.t_ns for pose in around], np.float64) * _S_PER_NS
    middle = 0.5 * (s[0] + s[-1])
    scale = 0.5 * (s[-1] - s[0])
    degree = min(_DEGREE, len(s) - 1)
    powers = np.vander((s - middle) / scale, degree + 1, increasing=True)
    scaled = np.linalg.lstsq(powers, np.array([pose.p_m for pose in around]), rcond=None)[0]
    return Curve(first.t_ns, span_s, _shifted(np.asarray(scaled, np.float64), middle, scale))


def _hermite(
    p0: FloatArray, v0: FloatArray, p1: FloatArray, v1: FloatArray, span_s: float
) -> FloatArray:
    mean = (p1 - p0) / span_s
    return np.stack(
        (p0, v0, (3.0 * mean - 2.0 * v0 - v1) / span_s, (v0 + v1 - 2.0 * mean) / span_s**2)
    )


def _shifted(scaled: FloatArray, middle: float, scale: float) -> FloatArray:
    """Return terms in s from those in (s - middle) / scale."""
    terms = np.zeros_like(scaled)
    power = np.ones(1)
    for k, term in enumerate(scaled):
        terms[: k + 1] += power[:, None] * term
        power = np.convolve(power, (-middle / scale, 1.0 / scale))
    return terms
