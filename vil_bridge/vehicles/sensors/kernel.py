"""Inertial sensors, magnetometers and barometers, compiled: the same noise and, up to rounding, the same readings."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from vil_bridge.vehicles.compile import compiled
from vil_bridge.vehicles.environment import formulas
from vil_bridge.vehicles.random.kernel import fill

TRIAD: Final = 6
"""Parameters of a triad before its bank: white noise of each axis, density and memory (s) of the walk, limit. Of each
process of the bank follow its correlation time (s) and deviation."""

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
    """Write readings of three axes (n, 3), then let their biases walk; their normals begin in column ``first``."""
    per_root = 1.0 / math.sqrt(sample_s)
    density, memory_s, limit = p[3], p[4], p[5]
    keep, spread = 1.0, density * math.sqrt(dt_s)
    if not math.isinf(memory_s):
        keep = math.exp(-dt_s / memory_s)
        spread = density * math.sqrt(-0.5 * memory_s * math.expm1(-2.0 * dt_s / memory_s))
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
        tau_s, sigma = p[TRIAD + 2 * k], p[TRIAD + 2 * k + 1]
        share = math.exp(-dt_s / tau_s)
        fresh = sigma * math.sqrt(-math.expm1(-2.0 * dt_s / tau_s))
        for row in range(ideal.shape[0]):
            for axis in range(3):
                n = noise[row, first + 6 + 3 * k + axis]
                flicker[row, k, axis] = share * flicker[row, k, axis] + fresh * n


@compiled()
def imu(
    key: Any,
    step: Any,
    vehicles: Any,
    w: Any,
    f: Any,
    gyro: Any,
    accel: Any,
    dt_s: Any,
    sample_s: Any,
    w_out: Any,
    f_out: Any,
) -> Any:
    """Write readings of gyroscopes and accelerometers, (n, 3) each, and move their biases on.

    Args:
        key: of the noise, (2,).
        step: number of the measurement.
        vehicles: identities (n,), uint64.
        w: true rates in the sensor's axes, (n, 3).
        f: specific forces, likewise.
        gyro: parameters (see :data:`TRIAD`), and state: bias since switched on (n, 3), walk (n, 3), bank (n, k, 3).
        accel: likewise.
        dt_s: since the measurement before.
        sample_s: over which white noise is averaged.
        w_out: changed.
        f_out: changed.
    """
    first = 6 + 3 * gyro[3].shape[1]
    noise = np.empty((w.shape[0], first + 6 + 3 * accel[3].shape[1]))
    fill(key, step, vehicles, True, noise)
    _read(w, gyro[0], gyro[1], gyro[2], gyro[3], dt_s, sample_s, noise, 0, w_out)
    _read(f, accel[0], accel[1], accel[2], accel[3], dt_s, sample_s, noise, first, f_out)


@compiled()
def magnetometer(key: Any, step: Any, vehicles: Any, q: Any, field: Any, p: Any, bias: Any, out: Any) -> Any:
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
        x, y, z, w = -q[row, 0], -q[row, 1], -q[row, 2], q[row, 3]
        bx, by, bz = field[row, 0], field[row, 1], field[row, 2]
        cx, cy, cz = y * bz - z * by, z * bx - x * bz, x * by - y * bx
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
        p: correlation time of the drift (s), its deviation, deviation of the noise (Pa), pressure at sea level (Pa).
        drift: (n,), changed.
        dt_s: since the measurement before.
        pressure: changed.
        altitude: changed.
    """
    noise = np.empty((p_world.shape[0], 2))
    fill(key, step, vehicles, True, noise)
    share = math.exp(-dt_s / p[0])
    fresh = p[1] * math.sqrt(-math.expm1(-2.0 * dt_s / p[0]))
    for row in range(p_world.shape[0]):
        drift[row] = share * drift[row] + fresh * noise[row, 0]
        east, north, up = p_world[row, 0], p_world[row, 1], p_world[row, 2]
        x = p_ecef[0] + east * R_enu_ecef[0, 0] + north * R_enu_ecef[1, 0] + up * R_enu_ecef[2, 0]
        y = p_ecef[1] + east * R_enu_ecef[0, 1] + north * R_enu_ecef[1, 1] + up * R_enu_ecef[2, 1]
        z = p_ecef[2] + east * R_enu_ecef[0, 2] + north * R_enu_ecef[1, 2] + up * R_enu_ecef[2, 2]
        _, h = _latitude_and_height(np.hypot(x, y), z)
        height = _geopotential_m(h)
        layer = _layer_at(height)
        air = _pressure_in(layer, _fall(height, layer)) * (1.0 + drift[row]) + p[2] * noise[row, 1]
        pressure[row] = air - _SEA_LEVEL_PA + p[3]
        altitude[row] = _height_of(air)
