"""Collisions of :mod:`vil_simulation.vehicles.contact` compiled, one vehicle after another.

The same up to rounding.

States (n, dx) begin with the 13 columns of a rigid body. A body is packed as mass, principal
moments (3), restitution, friction. Vectors are tuples of three numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vil_bridge.core.compile import compiled
from vil_bridge.core.vector_kernel import cross, dot, plus, product, turned
from vil_simulation.vehicles.elementary_kernel import arctan2, sin_cos

_UPRIGHT = 0.25
_ON_ITS_HEAD = 0.5 * math.pi


@compiled(inline=True)
def _over(a: Any, body: Any) -> Any:
    """Return a vector divided by the principal moments."""
    return (a[0] / body[1], a[1] / body[2], a[2] / body[3])


@compiled(inline=True)
def _mobility(body: Any, arm: Any, along: Any) -> Any:
    return 1.0 / body[0] + dot(cross(_over(cross(arm, along), body), arm), along)


@compiled()
def _level(x: Any, i: Any, grounded: Any, levels_rad: Any) -> Any:
    """Set a vehicle at rest, and turn it level by at most an angle.

    One that is level is grounded.
    """
    a = x[i, 6]
    b = x[i, 7]
    c = x[i, 8]
    d = x[i, 9]
    half_yaw = 0.5 * arctan2(2.0 * (d * c + a * b), 1.0 - 2.0 * (b * b + c * c))
    sine, cosine = sin_cos(half_yaw)
    x[i, 3:6] = 0.0
    x[i, 10:13] = 0.0
    tilt, rest = product((0.0, 0.0, -sine), cosine, (a, b, c), d)
    size = math.sqrt(dot(tilt, tilt))
    angle = 2.0 * arctan2(size, abs(rest))
    if levels_rad < angle < _ON_ITS_HEAD:
        half = 0.5 * (angle - levels_rad)
        half_sine, half_cosine = sin_cos(half)
        share = math.copysign(1.0, rest) * half_sine / size
        part = (share * tilt[0], share * tilt[1], share * tilt[2])
        (x[i, 6], x[i, 7], x[i, 8]), x[i, 9] = product((0.0, 0.0, sine), cosine, part, half_cosine)
        return
    x[i, 6] = 0.0
    x[i, 7] = 0.0
    x[i, 8] = sine
    x[i, 9] = cosine
    if grounded >= 0:
        x[i, grounded] = 1.0


@compiled()
def _strike(
    x: Any, i: Any, grounded: Any, body: Any, normal: Any, point: Any, depth: Any, levels_rad: Any
) -> Any:
    """Let a vehicle bounce off, or land on, what it touches."""
    r = (x[i, 6], x[i, 7], x[i, 8])
    s = x[i, 9]
    back = (-r[0], -r[1], -r[2])
    v_world = (x[i, 3], x[i, 4], x[i, 5])
    n = turned(back, s, normal)
    v = turned(back, s, v_world)
    arm = turned(back, s, (point[0] - x[i, 0], point[1] - x[i, 1], point[2] - x[i, 2]))
    w = (x[i, 10], x[i, 11], x[i, 12])
    u_n = dot(plus(v, 1.0, cross(w, arm)), n)
    if not (depth >= 0.0 and u_n < 0.0):
        return
    for k in range(3):
        x[i, k] += depth * normal[k]
    sinks = -v_world[2] > max(abs(v_world[0]), abs(v_world[1]))
    if levels_rad >= 0.0 and sinks and abs(abs(n[2]) - 1.0) <= _UPRIGHT:
        _level(x, i, grounded, levels_rad)
        return
    push = -(1.0 + body[4]) * u_n / _mobility(body, arm, n)
    v = plus(v, push / body[0], n)
    w = plus(w, push, _over(cross(arm, n), body))
    sliding = plus(v, 1.0, cross(w, arm))
    sliding = plus(sliding, -dot(sliding, n), n)
    speed = math.sqrt(dot(sliding, sliding))
    if speed > 0.0:
        along = plus((0.0, 0.0, 0.0), 1.0 / speed, sliding)
        drag = min(speed / _mobility(body, arm, along), body[5] * push)
        v = plus(v, -drag / body[0], along)
        w = plus(w, -drag, _over(cross(arm, along), body))
    x[i, 3], x[i, 4], x[i, 5] = turned(r, s, v)
    x[i, 10], x[i, 11], x[i, 12] = w


@compiled()
def collide(
    x: Any, grounded: Any, body: Any, normals: Any, points: Any, depths: Any, levels_rad: Any
) -> Any:
    """Change states as :func:`vil_simulation.vehicles.contact.collide` does.

    ``grounded``: column of that field, -1 = none. Normals and points are (n, 3), depths (n,).
    ``levels_rad``: by which those that land turn level, at most; below 0 = none lands.
    """
    for i in range(x.shape[0]):
        normal = (normals[i, 0], normals[i, 1], normals[i, 2])
        _strike(
            x,
            i,
            grounded,
            body,
            normal,
            (points[i, 0], points[i, 1], points[i, 2]),
            depths[i],
            levels_rad,
        )


@compiled()
def lift(
    x: Any,
    active: Any,
    floor_m: Any,
    lowest_m: Any,
    grounded: Any,
    body: Any,
    spin: Any,
    levels_rad: Any,
    rows: Any,
) -> Any:
    """Lift active vehicles below ``lowest_m`` onto a floor.

    Return how many, and write their numbers into ``rows``.
    """
    count = 0
    for i in range(x.shape[0]):
        if active[i] and x[i, 2] < lowest_m:
            point = (x[i, 0], x[i, 1], x[i, 2])
            _strike(x, i, grounded, body, (0.0, 0.0, 1.0), point, floor_m - x[i, 2], levels_rad)
            for k in range(10, 13):
                x[i, k] *= spin
            rows[count] = i
            count += 1
    return count


@compiled()
def note(
    rows: Any, step: Any, dt_s: Any, apart_s: Any, touched: Any, recorded: Any, begun: Any, out: Any
) -> Any:
    """Note which vehicles touch something at a step; return how many of them are to be recorded.

    Args:
        rows: which touch it.
        step: the step.
        dt_s: of one step.
        apart_s: contacts closer in time than this are one.
        touched: step at which each vehicle touched it before, (n,), changed.
        recorded: step of its newest record, likewise; one that lasts is recorded in this interval.
        begun: contacts begun by each, (n,), changed.
        out: places in ``rows`` of those to be recorded, changed.
    """
    count = 0
    for i in range(len(rows)):
        row = rows[i]
        begins = (step - touched[row]) * dt_s > apart_s
        begun[row] += begins
        touched[row] = step
        if begins or (step - recorded[row]) * dt_s >= apart_s:
            recorded[row] = step
            out[count] = i
            count += 1
    return count


@compiled()
def changes(before: Any, x: Any, which: Any, out: Any) -> Any:
    """Write changes of velocities and body rates of some vehicles into their rows of ``out``.

    N, 6.
    """
    for i in range(x.shape[0]):
        if which[i]:
            for k in range(3):
                out[i, k] = x[i, 3 + k] - before[i, 3 + k]
                out[i, 3 + k] = x[i, 10 + k] - before[i, 10 + k]


@compiled()
def add_pushes(change: Any, dt_s: Any, q: Any, a: Any, alpha: Any, f: Any) -> Any:
    """Add what changes of velocities and rates (n, 6) over a step mean to accelerations and
    specific forces.
    """
    for i in range(change.shape[0]):
        pushed = (change[i, 0] / dt_s, change[i, 1] / dt_s, change[i, 2] / dt_s)
        felt = turned((-q[i, 0], -q[i, 1], -q[i, 2]), q[i, 3], pushed)
        for k in range(3):
            a[i, k] += pushed[k]
            alpha[i, k] += change[i, 3 + k] / dt_s
            f[i, k] += felt[k]


@compiled()
def fall_s(x: Any, active: Any, floor_m: Any, hardest_mps2: Any) -> Any:
    """Return the time for which no active vehicle reaches the floor, whatever accelerates it up
    to a limit.
    """
    least = math.inf
    for i in range(x.shape[0]):
        if active[i]:
            height_m = max(x[i, 2] - floor_m, 0.0)
            climb = x[i, 5]
            least = min(least, climb + np.sqrt(climb * climb + 2.0 * hardest_mps2 * height_m))
    return least / hardest_mps2
