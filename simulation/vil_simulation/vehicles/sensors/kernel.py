"""Inertial sensors, magnetometers and barometers, compiled.

The same noise and, up to rounding, the same readings.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from vil_bridge.core.compile import compiled
from vil_bridge.core.random.kernel import fill
from vil_bridge.core.vector_kernel import cross, dot, less, plus, product, turned
from vil_simulation.vehicles.elementary_kernel import arctan2, exp, expm1, sin_cos
from vil_simulation.vehicles.environment import formulas

TRIAD: Final = 6
"""Parameters of a triad before its bank.

White noise of each axis, density and memory (s) of the walk, limit. Of each process of the bank
follow its correlation time (s) and deviation.
"""

_TINY: Final = 1e-9
"""Smaller angles turn as their vectors say."""

_make = compiled()
_latitude_and_height = _make(formulas.latitude_and_height)
_geopotential_m = _make(formulas.geopotential_m)
_layer_at = _make(formulas.layer_at)
_fall = _make(formulas.fall)
_pressure_in = _make(formulas.pressure_in)
_height_of = _make(formulas.height_of)
_SEA_LEVEL_PA: Final = formulas.SEA_LEVEL_PRESSURE_PA


@compiled()
def _read(
    ideal: Any,
    p: Any,
    turn_on: Any,
    walk: Any,
    flicker: Any,
    dt_s: Any,
    sample_s: Any,
    noise: Any,
    first: Any,
    out: Any,
) -> Any:
    """Write readings of three axes (n, 3), then let their biases walk.

    Their normals begin in column ``first``.
    """
    per_root = 1.0 / math.sqrt(sample_s)
    density = p[3]
    memory_s = p[4]
    limit = p[5]
    keep = 1.0
    spread = density * math.sqrt(dt_s)
    if not math.isinf(memory_s):
        keep = exp(-dt_s / memory_s)
        spread = density * math.sqrt(-0.5 * memory_s * expm1(-2.0 * dt_s / memory_s))
    bank = flicker.shape[1]
    for row in range(ideal.shape[0]):
        for axis in range(3):
            bias = 0.0
            for k in range(bank):
                bias += flicker[row, k, axis]
            bias += turn_on[row, axis] + walk[row, axis]
            measured = ideal[row, axis] + bias + p[axis] * per_root * noise[row, first + axis]
            out[row, axis] = min(max(measured, -limit), limit)
            walk[row, axis] = keep * walk[row, axis] + spread * noise[row, first + 3 + axis]
    for k in range(bank):
        tau_s = p[TRIAD + 2 * k]
        sigma = p[TRIAD + 2 * k + 1]
        share = exp(-dt_s / tau_s)
        fresh = sigma * math.sqrt(-expm1(-2.0 * dt_s / tau_s))
        for row in range(ideal.shape[0]):
            for axis in range(3):
                n = noise[row, first + 6 + 3 * k + axis]
                flicker[row, k, axis] = share * flicker[row, k, axis] + fresh * n


@compiled(inline=True)
def _turn_by(angle: Any) -> Any:
    """Return vector part and scalar of the quaternion of a rotation vector."""
    size = math.sqrt(dot(angle, angle))
    sine, cosine = sin_cos(0.5 * size)
    share = 0.5
    if size > _TINY:
        share = sine / size
    return (share * angle[0], share * angle[1], share * angle[2]), cosine


@compiled(inline=True)
def _angle_of(r: Any, s: Any, expected: Any) -> Any:
    """Return the rotation vector of a unit quaternion, with as many full turns as bring it
    nearest to another one.
    """
    sign = math.copysign(1.0, s)
    sine = math.sqrt(dot(r, r))
    if sine > _TINY:
        size = 2.0 * arctan2(sine, abs(s))
        turns = math.floor((sign * dot(expected, r) / sine - size) / (2.0 * math.pi) + 0.5)
        share = sign * (size + 2.0 * math.pi * turns) / sine
        return (share * r[0], share * r[1], share * r[2])
    most = math.sqrt(dot(expected, expected))
    share = 0.0
    if most > math.pi:
        share = 2.0 * math.pi * math.floor(most / (2.0 * math.pi) + 0.5) / most
    return plus((2.0 * sign * r[0], 2.0 * sign * r[1], 2.0 * sign * r[2]), share, expected)


@compiled()
def _means(
    truth: Any, mount: Any, before: Any, span_s: Any, back_s: Any, w_out: Any, f_out: Any
) -> Any:
    """Write mean rates and specific forces (n, 3), body axes, and move what was known before on.

    See :func:`imu`.
    """
    v_all, a_all, q_all, w_all, alpha_all, f_all = truth
    arm = (mount[0], mount[1], mount[2])
    for i in range(w_out.shape[0]):
        r = (q_all[i, 0], q_all[i, 1], q_all[i, 2])
        s = q_all[i, 3]
        w = (w_all[i, 0], w_all[i, 1], w_all[i, 2])
        f = (f_all[i, 0], f_all[i, 1], f_all[i, 2])
        weight = less(turned(r, s, f), (a_all[i, 0], a_all[i, 1], a_all[i, 2]))
        spin = cross(w, arm)
        v = plus((v_all[i, 0], v_all[i, 1], v_all[i, 2]), 1.0, turned(r, s, spin))
        f = plus(
            plus(f, 1.0, cross((alpha_all[i, 0], alpha_all[i, 1], alpha_all[i, 2]), arm)),
            1.0,
            cross(w, spin),
        )
        mean_w = w
        mean_f = f
        if back_s > 0.0:
            v = plus(v, -back_s, less(turned(r, s, f), weight))
            back, half = _turn_by((-back_s * w[0], -back_s * w[1], -back_s * w[2]))
            r, s = product(r, s, back, half)
        middle = r
        scalar = s
        since_s = span_s - before[i, 11]
        if before[i, 10] and since_s > 0.0:
            r0 = (before[i, 3], before[i, 4], before[i, 5])
            s0 = before[i, 6]
            away, scalar = product((-r0[0], -r0[1], -r0[2]), s0, r, s)
            sum_w = plus(w, 1.0, (before[i, 7], before[i, 8], before[i, 9]))
            angle = _angle_of(
                away,
                scalar,
                (0.5 * since_s * sum_w[0], 0.5 * since_s * sum_w[1], 0.5 * since_s * sum_w[2]),
            )
            part, scalar = _turn_by((0.5 * angle[0], 0.5 * angle[1], 0.5 * angle[2]))
            middle, scalar = product(r0, s0, part, scalar)
            push = plus(weight, 1.0 / since_s, less(v, (before[i, 0], before[i, 1], before[i, 2])))
            mean_w = (angle[0] / since_s, angle[1] / since_s, angle[2] / since_s)
            mean_f = turned((-middle[0], -middle[1], -middle[2]), scalar, push)
        before[i, 0], before[i, 1], before[i, 2] = v
        before[i, 3], before[i, 4], before[i, 5] = r
        before[i, 6] = s
        before[i, 7], before[i, 8], before[i, 9] = w
        before[i, 10] = mount[7]
        before[i, 11] = 0.0
        before[i, 12], before[i, 13], before[i, 14] = middle
        before[i, 15] = scalar
        w_out[i, 0], w_out[i, 1], w_out[i, 2] = mean_w
        f_out[i, 0], f_out[i, 1], f_out[i, 2] = mean_f


@compiled()
def _mounted(mount: Any, shaken: Any, v: Any) -> Any:
    """Add vibrations (n, 3), (0, 3) = none, to vectors (n, 3) of the body, and turn them into
    the sensor's axes.
    """
    back = (-mount[3], -mount[4], -mount[5])
    s = mount[6]
    for i in range(shaken.shape[0]):
        for axis in range(3):
            v[i, axis] += shaken[i, axis]
    if s != 1.0:
        for i in range(v.shape[0]):
            v[i, 0], v[i, 1], v[i, 2] = turned(back, s, (v[i, 0], v[i, 1], v[i, 2]))


@compiled()
def imu(
    key: Any,
    step: Any,
    vehicles: Any,
    truth: Any,
    mount: Any,
    shaken: Any,
    before: Any,
    gyro: Any,
    accel: Any,
    times_s: Any,
    w_out: Any,
    f_out: Any,
) -> Any:
    """Write readings of gyroscopes and accelerometers, (n, 3) each, and move their biases on.

    Args:
        key: of the noise, (2,).
        step: number of the measurement.
        vehicles: identities (n,), uint64.
        truth: velocities and accelerations (world), attitudes, body rates, their accelerations,
            specific forces.
        mount: place on the body, attitude there, and 1 where readings are means, 0 where they are
            of the instant, (8,).
        shaken: what vibration adds to rates and to specific forces, body axes, (n, 3) each; (0, 3)
            = nothing.
        before: see :class:`~vil_simulation.vehicles.sensors.mean_motion.MeanMotion`, (n, 16),
            changed.
        gyro: parameters (see :data:`TRIAD`), and state: bias since switched on (n, 3), walk (n, 3),
            bank (n, k, 3).
        accel: likewise.
        times_s: since the measurement before; over which white noise is averaged; from the
            measurement to the truth.
        w_out: changed.
        f_out: changed.
    """
    dt_s, sample_s, back_s = times_s
    w = np.empty(w_out.shape)
    f = np.empty(f_out.shape)
    _means(truth, mount, before, dt_s, back_s, w, f)
    _mounted(mount, shaken[0], w)
    _mounted(mount, shaken[1], f)
    first = 6 + 3 * gyro[3].shape[1]
    noise = np.empty((w.shape[0], first + 6 + 3 * accel[3].shape[1]))
    fill(key, step, vehicles, True, noise)
    _read(w, gyro[0], gyro[1], gyro[2], gyro[3], dt_s, sample_s, noise, 0, w_out)
    _read(f, accel[0], accel[1], accel[2], accel[3], dt_s, sample_s, noise, first, f_out)


@compiled()
def magnetometer(
    key: Any, step: Any, vehicles: Any, q: Any, field: Any, p: Any, bias: Any, out: Any
) -> Any:
    """Write readings of magnetometers, (n, 3), tesla.

    Args:
        key: of the noise, (2,).
        step: number of the measurement.
        vehicles: identities (n,), uint64.
        q: attitudes of the sensors in the world, (n, 4).
        field: of the world at their places, (n, 3), tesla.
        p: scale, deviation of the noise.
        bias: (n, 3).
        out: changed.
    """
    fill(key, step, vehicles, True, out)
    for row in range(out.shape[0]):
        x = -q[row, 0]
        y = -q[row, 1]
        z = -q[row, 2]
        w = q[row, 3]
        bx = field[row, 0]
        by = field[row, 1]
        bz = field[row, 2]
        cx = y * bz - z * by
        cy = z * bx - x * bz
        cz = x * by - y * bx
        turned = (
            bx + 2.0 * (w * cx + (y * cz - z * cy)),
            by + 2.0 * (w * cy + (z * cx - x * cz)),
            bz + 2.0 * (w * cz + (x * cy - y * cx)),
        )
        for axis in range(3):
            out[row, axis] = p[0] * turned[axis] + p[1] * out[row, axis] + bias[row, axis]


@compiled()
def barometer(
    key: Any,
    step: Any,
    vehicles: Any,
    p_world: Any,
    p_ecef: Any,
    R_enu_ecef: Any,
    p: Any,
    drift: Any,
    dt_s: Any,
    pressure: Any,
    altitude: Any,
) -> Any:
    """Write pressures (n,), Pa, and altitudes (n,), m, and move the drift on.

    Args:
        key: of the noise, (2,).
        step: number of the measurement.
        vehicles: identities (n,), uint64.
        p_world: places, (n, 3).
        p_ecef: the world's origin, Earth-centred.
        R_enu_ecef: turns Earth's axes into the world's.
        p: correlation time of the drift (s), its deviation, deviation of the noise (Pa), pressure
            at sea level (Pa).
        drift: (n,), changed.
        dt_s: since the measurement before.
        pressure: changed.
        altitude: changed.
    """
    noise = np.empty((p_world.shape[0], 2))
    fill(key, step, vehicles, True, noise)
    share = exp(-dt_s / p[0])
    fresh = p[1] * math.sqrt(-expm1(-2.0 * dt_s / p[0]))
    for row in range(p_world.shape[0]):
        drift[row] = share * drift[row] + fresh * noise[row, 0]
        east = p_world[row, 0]
        north = p_world[row, 1]
        up = p_world[row, 2]
        x = p_ecef[0] + east * R_enu_ecef[0, 0] + north * R_enu_ecef[1, 0] + up * R_enu_ecef[2, 0]
        y = p_ecef[1] + east * R_enu_ecef[0, 1] + north * R_enu_ecef[1, 1] + up * R_enu_ecef[2, 1]
        z = p_ecef[2] + east * R_enu_ecef[0, 2] + north * R_enu_ecef[1, 2] + up * R_enu_ecef[2, 2]
        _, h = _latitude_and_height(np.hypot(x, y), z)
        height = _geopotential_m(h)
        layer = _layer_at(height)
        air = _pressure_in(layer, _fall(height, layer)) * (1.0 + drift[row]) + p[2] * noise[row, 1]
        pressure[row] = air - _SEA_LEVEL_PA + p[3]
        altitude[row] = _height_of(air)
