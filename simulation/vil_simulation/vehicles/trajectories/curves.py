"""Circles and lemniscates, entered from rest and left to rest along themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from vil_bridge.core.elementary import arctan2, sin_cos
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import ORDERS, Polynomials, Trajectory
from vil_simulation.vehicles.trajectories.composed import Retimed, Transformed

Facing = Literal["along", "fixed"]
"""Direction of the nose: along the flight, or always along x."""

Lemniscate = Literal["bernoulli", "gerono"]

_Complex = npt.NDArray[np.complex128]
_TURN: Final = 2.0 * math.pi

# A smooth step whose first three derivatives vanish at both ends; this is its integral, 1/2 at the
# end.
_RAMP: Final = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 7.0, -14.0, 10.0, -2.5])


def circle(
    radius_m: float,
    speed_mps: float,
    *,
    center_m: npt.ArrayLike = (0.0, 0.0, 0.0),
    start_rad: float = 0.0,
    turns: float | None = 1.0,
    ramp_s: float = 2.0,
    facing: Facing = "along",
) -> Trajectory:
    """Return a level circle, to the left seen from above.

    Args:
        radius_m: positive.
        speed_mps: after the run-in; negative = to the right.
        center_m: (3,).
        start_rad: where on the circle it starts, from x towards y.
        turns: in all, run-in and run-out included; None = without end.
        ramp_s: run-in from rest, and run-out, each.
        facing: see :data:`Facing`.

    Raises:
        ValueError: a radius or speed that makes no circle, or too few turns for the ramps.
    """
    if not (radius_m > 0.0 and speed_mps != 0.0):
        raise ValueError(
            f"a circle needs a radius above 0 and a speed, got {radius_m} m and {speed_mps} m/s"
        )
    side = math.copysign(1.0, speed_mps)

    def derivatives(phase: FloatArray) -> _Complex:
        slopes = np.array([1.0, 1j * side, -1.0, -1j * side, 1.0])
        return np.asarray(
            radius_m * _direction(start_rad + side * phase) * slopes[:, None], dtype=np.complex128
        )

    def heading(phase: FloatArray) -> FloatArray:
        return start_rad + side * (phase + 0.5 * math.pi)

    return Transformed(
        _flown(derivatives, heading, abs(speed_mps) / radius_m, turns, ramp_s, facing), center_m
    )


def lemniscate(
    width_m: float,
    speed_mps: float,
    *,
    kind: Lemniscate = "bernoulli",
    center_m: npt.ArrayLike = (0.0, 0.0, 0.0),
    turn_rad: float = 0.0,
    turns: float | None = 1.0,
    ramp_s: float = 2.0,
    facing: Facing = "along",
) -> Trajectory:
    """Return a level figure of eight along x, started at its right tip (Bernoulli) or its crossing.

    Gerono.

    Bernoulli: (x, y) = a (cos p, sin p cos p) / (1 + sin^2 p). Gerono: (x, y) = a (sin p, sin p cos
    p).

    Args:
        width_m: from tip to tip, 2 a.
        speed_mps: the largest on the way.
        kind: of the curve.
        center_m: (3,).
        turn_rad: the figure turned about z, its x axis with it.
        turns: rounds in all, run-in and run-out included; None = without end.
        ramp_s: run-in from rest, and run-out, each.
        facing: ``fixed`` = along the figure's x axis.

    Raises:
        ValueError: a width or speed that is not positive, or too few turns for the ramps.
    """
    if not (width_m > 0.0 and speed_mps > 0.0):
        raise ValueError(
            f"a lemniscate needs a width and a speed above 0, got {width_m} m and {speed_mps} m/s"
        )
    half = 0.5 * width_m
    # The direction of flight swings by 135 degrees to both sides of its middle; the speed is
    # largest at Bernoulli's tips and at Gerono's crossing.
    middle, derivatives, rate = {
        "bernoulli": (0.5 * math.pi, _bernoulli, speed_mps / half),
        "gerono": (-0.5 * math.pi, _gerono, speed_mps / (math.sqrt(2.0) * half)),
    }[kind]
    timed = _flown(
        lambda phase: half * derivatives(phase),
        lambda phase: np.full_like(phase, middle),
        rate,
        turns,
        ramp_s,
        facing,
    )
    return Transformed(timed, center_m, turn_rad)


class _Shape(Trajectory):
    """A curve in the plane x + i y over its phase; yaw along it, or 0."""

    def __init__(
        self,
        length: float,
        derivatives: Callable[[FloatArray], _Complex],
        heading: Callable[[FloatArray], FloatArray],
        facing: Facing,
    ) -> None:
        self.duration_s = length
        self.knots_s = np.array([0.0, length])
        self._derivatives: Final = derivatives
        self._heading: Final = heading
        self._along: Final = facing == "along"

    def derivatives(self, t_s: FloatArray) -> FloatArray:
        z = self._derivatives(t_s)
        rows = np.zeros((len(t_s), ORDERS, 4))
        rows[:, :, 0] = z.real.T
        rows[:, :, 1] = z.imag.T
        if self._along:
            # The heading is the imaginary part of log z', which stays on the branch next to the
            # expected one.
            near = self._heading(t_s)
            bend = _quotient(z[2], z[1])
            off = _product(z[1], _direction(-near))
            rows[:, 0, 3] = near + arctan2(off.imag, off.real)
            rows[:, 1, 3] = bend.imag
            rows[:, 2, 3] = (_quotient(z[3], z[1]) - _product(bend, bend)).imag
        return rows


def _bernoulli(phase: FloatArray) -> _Complex:
    """Return derivatives (5, n) of cos p / (1 - i sin p).

    By Leibniz's rule from z (1 - i sin p) = cos p.
    """
    quarter = 0.5 * math.pi * np.arange(ORDERS)[:, None]
    sine, top = sin_cos(phase + quarter)
    bottom = -1j * sine
    bottom[0] += 1.0
    z = np.empty((ORDERS, len(phase)), dtype=np.complex128)
    for order in range(ORDERS):
        known = np.zeros(len(phase), dtype=np.complex128)
        for k in range(order):
            known += math.comb(order, k) * _product(z[k], bottom[order - k])
        z[order] = _quotient(top[order] - known, bottom[0])
    return z


def _gerono(phase: FloatArray) -> _Complex:
    """Return derivatives (5, n) of sin p + i/2 sin 2p."""
    orders = np.arange(ORDERS)[:, None]
    quarter = 0.5 * math.pi * orders
    doubled = 0.5j * np.ldexp(1.0, orders) * sin_cos(2.0 * phase + quarter)[0]
    return np.asarray(sin_cos(phase + quarter)[0] + doubled, dtype=np.complex128)


def _direction(angle_rad: FloatArray) -> _Complex:
    sine, cosine = sin_cos(angle_rad)
    return np.asarray(cosine + 1j * sine, dtype=np.complex128)


def _product(a: _Complex, b: _Complex) -> _Complex:
    """Return a b: NumPy fuses the sums of complex products on some processors."""
    return np.asarray(
        (a.real * b.real - a.imag * b.imag) + 1j * (a.real * b.imag + a.imag * b.real)
    )


def _quotient(a: _Complex, b: _Complex) -> _Complex:
    """Return a / b; as for :func:`_product`.

    ``b`` must be far from the limits of floating point.
    """
    share = _product(a, b.conjugate())
    size = b.real * b.real + b.imag * b.imag
    return np.asarray(share.real / size + 1j * (share.imag / size))


def _flown(
    derivatives: Callable[[FloatArray], _Complex],
    heading: Callable[[FloatArray], FloatArray],
    rate: float,
    turns: float | None,
    ramp_s: float,
    facing: Facing,
) -> Retimed:
    """Return a closed shape of phase 2 pi a turn, at a phase rate (rad/s) between the ramps."""
    ramp = 0.5 * rate * ramp_s
    length = ramp + _TURN if turns is None else turns * _TURN
    cruise = length - ramp - (0.0 if turns is None else ramp)
    if not (ramp_s > 0.0 and cruise > 0.0):
        raise ValueError(
            f"ramps of {ramp_s} s need {2.0 * ramp / _TURN:.3g} turns at this speed: more "
            "turns, or shorter ramps"
        )
    run_in = 2.0 * ramp * _RAMP
    steady = np.zeros_like(_RAMP)
    steady[:2] = ramp, cruise
    run_out = -run_in
    run_out[0] = ramp + cruise
    run_out[1] = 2.0 * ramp
    pieces = [run_in, steady, run_out]
    lengths = [ramp_s, cruise / rate, ramp_s]
    count = 2 if turns is None else 3
    pace = Polynomials(np.cumsum([0.0, *lengths[:count]]), np.array(pieces[:count])[..., None])
    shape = _Shape(length, derivatives, heading, facing)
    return Retimed(shape, pace, cruise / rate if turns is None else 0.0)
