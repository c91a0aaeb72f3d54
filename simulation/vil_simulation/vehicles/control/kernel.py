"""Geometric tracking control, compiled.

One vehicle after another, so that its bits depend on no other.

Everything as in :mod:`vil_simulation.vehicles.control.flatness` and
:mod:`~vil_simulation.vehicles.control.geometric`; vectors are tuples of three numbers.
"""

from __future__ import annotations

import math
from typing import Any, Final

from vil_bridge.core.compile import compiled
from vil_simulation.vehicles.elementary_kernel import sin_cos

_TINY: Final = 1e-9


@compiled()
def _cross(a: Any, b: Any) -> Any:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@compiled()
def _dot(a: Any, b: Any) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled()
def _sum(a: Any, s: Any, b: Any) -> Any:
    """Return a + s b."""
    return (a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2])


@compiled()
def _scaled(s: Any, a: Any) -> Any:
    return (s * a[0], s * a[1], s * a[2])


@compiled()
def _slopes(a: Any, b: Any) -> Any:
    """Return a cross product with its first and second derivative."""
    slope = _sum(_cross(a[1], b[0]), 1.0, _cross(a[0], b[1]))
    bend = _sum(_sum(_cross(a[2], b[0]), 2.0, _cross(a[1], b[1])), 1.0, _cross(a[0], b[2]))
    return (_cross(a[0], b[0]), slope, bend)


@compiled()
def _length(a: Any) -> Any:
    """Return length with its first and second derivative; those are 0 where the length is."""
    length = math.sqrt(_dot(a[0], a[0]))
    inverse = 1.0 / length if length > _TINY else 0.0
    slope = _dot(a[0], a[1]) * inverse
    return (length, slope, (_dot(a[1], a[1]) + _dot(a[0], a[2]) - slope * slope) * inverse)


@compiled()
def _unit(a: Any) -> Any:
    """Return direction with its first and second derivative."""
    length, slope, bend = _length(a)
    inverse = 1.0 / max(length, _TINY)
    u = _scaled(inverse, a[0])
    du = _scaled(inverse, _sum(a[1], -slope, u))
    return (u, du, _scaled(inverse, _sum(_sum(a[2], -2.0 * slope, du), -bend, u)))


@compiled()
def _matrix(p: Any, a: Any) -> Any:
    """Return the inertia times a vector."""
    return (
        p[6] * a[0] + p[9] * a[1] + p[12] * a[2],
        p[7] * a[0] + p[10] * a[1] + p[13] * a[2],
        p[8] * a[0] + p[11] * a[1] + p[14] * a[2],
    )


@compiled()
def _axes(x: Any) -> Any:
    """Return the body's axes in the world, from its quaternion in columns 6 to 9."""
    i = x[6]
    j = x[7]
    k = x[8]
    w = x[9]
    return (
        (i * i - j * j - k * k + w * w, 2.0 * (i * j + k * w), 2.0 * (i * k - j * w)),
        (2.0 * (i * j - k * w), -i * i + j * j - k * k + w * w, 2.0 * (j * k + i * w)),
        (2.0 * (i * k + j * w), 2.0 * (j * k - i * w), -i * i - j * j + k * k + w * w),
    )


@compiled()
def _attitude(force: Any, yaw: Any) -> Any:
    """Return axes of the attitude whose z axis lies along a force."""
    sine, cosine = sin_cos(yaw)
    x = _cross((-sine, cosine, 0.0), force)
    x = _scaled(1.0 / max(math.sqrt(_dot(x, x)), _TINY), x)
    z = _scaled(1.0 / max(math.sqrt(_dot(force, force)), _TINY), force)
    return (x, _cross(z, x), z)


@compiled()
def _turn(r: Any) -> Any:
    """Return twice the vector part of a rotation's quaternion whose scalar is not negative.

    R its rows.
    """
    a = r[0][0]
    b = r[1][1]
    c = r[2][2]
    squares = (1.0 + a - b - c, 1.0 - a + b - c, 1.0 - a - b + c, 1.0 + a + b + c)
    x = (squares[0], r[0][1] + r[1][0], r[0][2] + r[2][0], r[2][1] - r[1][2])
    y = (x[1], squares[1], r[1][2] + r[2][1], r[0][2] - r[2][0])
    z = (x[2], y[2], squares[2], r[1][0] - r[0][1])
    w = (x[3], y[3], z[3], squares[3])
    q = x
    best = squares[0]
    if squares[1] > best:
        q = y
        best = squares[1]
    if squares[2] > best:
        q = z
        best = squares[2]
    if squares[3] > best:
        q = w
    size = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    return _scaled(math.copysign(2.0, q[3]) / size, q)


@compiled()
def _flat(p: Any, r: Any) -> Any:
    """Return body axes, rates, angular acceleration and thrust that a reference (18,) demands."""
    velocity = ((r[3], r[4], r[5]), (r[6], r[7], r[8]), (r[9], r[10], r[11]))
    up = (0.0, 0.0, p[1])
    f0 = _scaled(p[0], _sum(velocity[1], 1.0, up))
    f1 = _scaled(p[0], velocity[2])
    f2 = _scaled(p[0], (r[12], r[13], r[14]))
    if p[2] != 0.0:
        n0, n1, n2 = _length(velocity)
        f0 = _sum(f0, p[2] * n0, velocity[0])
        f1 = _sum(_sum(f1, p[2] * n1, velocity[0]), p[2] * n0, velocity[1])
        f2 = _sum(
            _sum(_sum(f2, p[2] * n2, velocity[0]), 2.0 * p[2] * n1, velocity[1]),
            p[2] * n0,
            velocity[2],
        )
    sine, cosine = sin_cos(r[15])
    ahead = (cosine, sine, 0.0)
    left = (-ahead[1], ahead[0], 0.0)
    across = (left, _scaled(-r[16], ahead), _sum(_scaled(-r[17], ahead), -r[16] * r[16], left))
    seen_x = (_sum(f0, p[3], velocity[0]), _sum(f1, p[3], velocity[1]), _sum(f2, p[3], velocity[2]))
    seen_y = (_sum(f0, p[4], velocity[0]), _sum(f1, p[4], velocity[1]), _sum(f2, p[4], velocity[2]))
    x = _unit(_slopes(across, seen_x))
    y = _unit(_slopes(seen_y, x))
    z = _slopes(x, y)
    w = (_dot(z[0], y[1]), _dot(x[0], z[1]), _dot(y[0], x[1]))
    alpha = (
        _dot(z[0], y[2]) - w[1] * w[2],
        _dot(x[0], z[2]) - w[0] * w[2],
        _dot(y[0], x[2]) - w[0] * w[1],
    )
    return (x[0], y[0], z[0]), w, alpha, _dot(z[0], _sum(f0, p[5], velocity[0]))


@compiled()
def demands(p: Any, references: Any, states: Any, out: Any) -> None:
    """Compute thrust, torque and rates (n, 7) from references (n, 18) and states (n, 13).

    p (24,): mass, gravity, quadratic drag, linear drag 3, inertia 9; gains of position, velocity,
    attitude and rate; limit of the feedback, lags of the rates 3, limit of the yaw error.
    """
    for i in range(len(references)):
        r = references[i]
        s = states[i]
        axes, w_ahead, alpha_ahead, thrust = _flat(p, r)
        behind = (r[0] - s[0], r[1] - s[1], r[2] - s[2])
        slower = (r[3] - s[3], r[4] - s[4], r[5] - s[5])
        feedback = _sum(_scaled(p[15], behind), p[16], slower)
        size = math.sqrt(_dot(feedback, feedback))
        feedback = _scaled(p[0] * min(1.0, p[19] / max(size, p[19])), feedback)
        force = _sum(feedback, thrust, axes[2])

        body = _axes(s)
        wanted = _attitude(force, r[15])
        rows = (
            (_dot(body[0], wanted[0]), _dot(body[0], wanted[1]), _dot(body[0], wanted[2])),
            (_dot(body[1], wanted[0]), _dot(body[1], wanted[1]), _dot(body[1], wanted[2])),
            (_dot(body[2], wanted[0]), _dot(body[2], wanted[1]), _dot(body[2], wanted[2])),
        )
        turn = _turn(rows)
        error = (turn[0], turn[1], max(min(turn[2], p[23]), -p[23]))
        w = (s[10], s[11], s[12])
        leading = (_dot(rows[0], w_ahead), _dot(rows[1], w_ahead), _dot(rows[2], w_ahead))
        driving = (
            _dot(rows[0], alpha_ahead),
            _dot(rows[1], alpha_ahead),
            _dot(rows[2], alpha_ahead),
        )
        alpha = _sum(_sum(_scaled(p[17], error), p[18], _sum(leading, -1.0, w)), 1.0, driving)
        alpha = _sum(alpha, -1.0, _cross(w, leading))
        torque = _sum(_matrix(p, alpha), 1.0, _cross(w, _matrix(p, w)))
        out[i, 0] = max(_dot(body[2], force), 0.0)
        for k in range(3):
            out[i, 1 + k] = torque[k]
            out[i, 4 + k] = leading[k] + p[17] / p[18] * error[k] + p[20 + k] * driving[k]
