"""The kinematic bicycle, compiled: see :class:`vil_simulation.vehicles.car.KinematicBicycle`."""

from __future__ import annotations

import math
from typing import Any

from vil_bridge.core.compile import compiled
from vil_simulation.vehicles.elementary_kernel import arctan2, sin_cos
from vil_simulation.vehicles.layout import LEAST

_FORCE = 3
"""First column of the force in the environment."""


@compiled(inline=True)
def _limited(value: Any, low: Any, high: Any) -> Any:
    return min(max(value, low), high)


@compiled(inline=True)
def _flushed(value: Any) -> Any:
    return value if abs(value) >= LEAST else 0.0


@compiled(inline=True)
def _unit(i: Any, j: Any, k: Any, r: Any) -> Any:
    per_length = 1.0 / math.sqrt(i * i + j * j + k * k + r * r)
    return (i * per_length, j * per_length, k * per_length, r * per_length)


@compiled(inline=True)
def _rolling(q: Any, speed: Any, steering: Any, p: Any) -> Any:
    """Return world velocity (3) and yaw rate of wheels that do not slip."""
    across, along = sin_cos(steering)
    sine, cosine = sin_cos(arctan2(p[1] / (p[0] + p[1]) * across, along))
    ahead = speed * cosine
    left = speed * sine
    i, j, k, r = q
    return (
        (1.0 - 2.0 * (j * j + k * k)) * ahead + 2.0 * (i * j - r * k) * left,
        2.0 * (i * j + r * k) * ahead + (1.0 - 2.0 * (i * i + k * k)) * left,
        2.0 * (i * k - r * j) * ahead + 2.0 * (j * k + r * i) * left,
        left / p[1],
    )


@compiled()
def _rates(q: Any, speed: Any, steering: Any, wanted: Any, creep: Any, p: Any) -> Any:
    """Return the time derivatives of x, y, attitude (4), speed and steering."""
    vx, vy, _, turn = _rolling(q, speed, steering, p)
    i, j, k, r = q
    half = 0.5 * turn
    pull = _limited((wanted[0] - speed) / p[5], -p[8], p[9])
    swing = _limited((wanted[1] - steering) / p[4], -p[3], p[3])
    return (vx + creep[0], vy + creep[1], half * j, -half * i, half * r, -half * k, pull, swing)


@compiled()
def _ahead(s: Any, h: Any, d: Any) -> Any:
    """Return a state moved along its derivatives."""
    q = _unit(s[2] + h * d[2], s[3] + h * d[3], s[4] + h * d[4], s[5] + h * d[5])
    return (
        s[0] + h * d[0],
        s[1] + h * d[1],
        q[0],
        q[1],
        q[2],
        q[3],
        s[6] + h * d[6],
        s[7] + h * d[7],
    )


@compiled()
def _slope(s: Any, wanted: Any, creep: Any, p: Any) -> Any:
    return _rates((s[2], s[3], s[4], s[5]), s[6], s[7], wanted, creep, p)


@compiled()
def advance(x: Any, u: Any, around: Any, p: Any, dt_s: Any, steps: Any) -> None:
    """Advance cars x (n, 15) in place by Runge-Kutta steps of fourth order.

    Args:
        x: states.
        u: commands (n, 2).
        around: environment (n, 12).
        p: the fields of ``BicycleParameters`` in their order.
        dt_s: a step.
        steps: how many.
    """
    for car in range(len(x)):
        wanted = (_limited(u[car, 0], p[6], p[7]), _limited(u[car, 1], -p[2], p[2]))
        creep = (around[car, _FORCE] / p[10], around[car, _FORCE + 1] / p[10])
        row = x[car]
        s = (row[0], row[1], row[6], row[7], row[8], row[9], row[13], row[14])
        for _ in range(steps):
            a = _slope(s, wanted, creep, p)
            b = _slope(_ahead(s, 0.5 * dt_s, a), wanted, creep, p)
            c = _slope(_ahead(s, 0.5 * dt_s, b), wanted, creep, p)
            d = _slope(_ahead(s, dt_s, c), wanted, creep, p)
            mean = (
                a[0] + 2.0 * (b[0] + c[0]) + d[0],
                a[1] + 2.0 * (b[1] + c[1]) + d[1],
                a[2] + 2.0 * (b[2] + c[2]) + d[2],
                a[3] + 2.0 * (b[3] + c[3]) + d[3],
                a[4] + 2.0 * (b[4] + c[4]) + d[4],
                a[5] + 2.0 * (b[5] + c[5]) + d[5],
                a[6] + 2.0 * (b[6] + c[6]) + d[6],
                a[7] + 2.0 * (b[7] + c[7]) + d[7],
            )
            t = _ahead(s, dt_s / 6.0, mean)
            s = (
                _flushed(t[0]),
                _flushed(t[1]),
                _flushed(t[2]),
                _flushed(t[3]),
                _flushed(t[4]),
                _flushed(t[5]),
                _flushed(t[6]),
                _flushed(t[7]),
            )
        q = (s[2], s[3], s[4], s[5])
        vx, vy, vz, turn = _rolling(q, s[6], s[7], p)
        row[0], row[1] = s[0], s[1]
        row[3], row[4], row[5] = _flushed(vx), _flushed(vy), _flushed(vz)
        row[6], row[7], row[8], row[9] = q
        row[10], row[11], row[12] = 0.0, 0.0, _flushed(turn)
        row[13], row[14] = s[6], s[7]
