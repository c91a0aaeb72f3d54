"""FlightGoggles' multicopter compiled: the equations of :mod:`vil_bridge.vehicles.flightgoggles`, tile by tile.

A tile's numbers stand in one array of rows by lanes. Rows that a rotor's number selects lie behind those of
fixed place: so the compiler can see that they do not overlap, and computes all lanes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.vehicles.native.compile import LANES, compiled
from vil_bridge.vehicles.surroundings import SEA_LEVEL_DENSITY_KGPM3

if TYPE_CHECKING:
    from vil_bridge.vehicles.flightgoggles import FlightGogglesMulticopter

__all__ = ["MOST_ROTORS", "ROTOR_PARAMETERS", "SCALARS", "advance", "pack"]

MOST_ROTORS: Final = 16

SCALARS: Final = 42
"""Parameters before those of the rotors: mass, motor time constant, slowest and fastest speed, thrust, torque, rotor
inertia, drag; inertia, its inverse, aerodynamic moment (9 each); gains proportional, integral, derivative, limit of
the integral, stiffness and damping of the filter, and 1 for the gyroscopic moment (0 = left out)."""

ROTOR_PARAMETERS: Final = 13
"""Parameters of each rotor: axis, lever, twist (3 each), row of the allocation (4)."""

# Rows of fixed place.
_SUMS: Final = 0  # of the rotors: force 3, moment 3, angular momentum 3
_AIR: Final = 9  # surroundings, 12; density in units of that at sea level
_MEMORY: Final = 21  # gyro sample, filtered rate, its slope, integral of the error, 3 each
_COMMAND: Final = 33  # thrust, rates 3
_WANTED: Final = 37  # moment 3, thrust
# Rows of states: p 3, v 3, q 4, w 3, speeds of the rotors. Those of rotors follow.
_ROWS_OF_STATE: Final = 13 + MOST_ROTORS
_STATE: Final = 41
_SLOPE: Final = _STATE + _ROWS_OF_STATE
_ASKED: Final = _SLOPE + _ROWS_OF_STATE
_TARGET: Final = _ASKED + MOST_ROTORS  # asked, within limits
_START: Final = _TARGET + MOST_ROTORS
_TOTAL: Final = _START + _ROWS_OF_STATE
_ROWS: Final = _TOTAL + _ROWS_OF_STATE
_SPEED: Final = _STATE + 13
_SPIN: Final = _SLOPE + 13

_EULER: Final = 0
_COMPAT: Final = 2


def pack(model: FlightGogglesMulticopter) -> FloatArray:
    """A vehicle's parameters in the order of :data:`SCALARS` and :data:`ROTOR_PARAMETERS`."""
    p, gains = model.parameters, model.rate_gains
    allocation = np.zeros((len(p.rotors), 4)) if model.mode == "motor_speeds" else p.allocation()
    motors = (p.motor_time_constant_s, p.motor_min_radps, p.motor_max_radps, p.thrust_ns2, p.torque_nms2)
    inertia = np.array(p.inertia_kgm2)
    matrices = (inertia, np.linalg.inv(inertia), np.array(p.aero_moment_nms2))
    rates = (gains.proportional_per_s, gains.integral_per_s2, gains.derivative, gains.integral_limit_rad)
    return np.concatenate(
        [
            (p.mass_kg, *motors, p.rotor_inertia_kgm2, p.drag_ns2pm2),
            np.ravel(matrices),
            (*rates, gains.stiffness_per_s2, gains.damping_per_s, float(model.compat is None)),
            np.hstack([p.axes_body, p.levers_m, p.twists_body, allocation]).ravel(),
        ]
    )


@compiled(inline=True)
def _sum_rotors(w: FloatArray, p: FloatArray, rotors: int) -> None:
    """Accelerations of the rotors; their force, moment and angular momentum."""
    lag, kf, kt, inertia = 1.0 / p[1], p[4], p[5], p[6]
    for row in range(_SUMS, _SUMS + 9):
        for lane in range(LANES):
            w[row, lane] = 0.0
    for i in range(rotors):
        at = SCALARS + ROTOR_PARAMETERS * i
        ax, ay, az = p[at], p[at + 1], p[at + 2]
        lx, ly, lz = p[at + 3], p[at + 4], p[at + 5]
        tx, ty, tz = p[at + 6], p[at + 7], p[at + 8]
        for lane in range(LANES):
            speed = w[_SPEED + i, lane]
            spin = (w[_TARGET + i, lane] - speed) * lag
            w[_SPIN + i, lane] = spin
            square = w[_AIR + 9, lane] * (speed * abs(speed))
            thrust = kf * (w[_AIR + 11, lane] * square)
            twist = kt * square + inertia * spin
            momentum = inertia * speed
            w[_SUMS, lane] += ax * thrust
            w[_SUMS + 1, lane] += ay * thrust
            w[_SUMS + 2, lane] += az * thrust
            w[_SUMS + 3, lane] += lx * thrust + tx * twist
            w[_SUMS + 4, lane] += ly * thrust + ty * twist
            w[_SUMS + 5, lane] += lz * thrust + tz * twist
            w[_SUMS + 6, lane] -= tx * momentum
            w[_SUMS + 7, lane] -= ty * momentum
            w[_SUMS + 8, lane] -= tz * momentum


@compiled(inline=True)
def _slopes(w: FloatArray, p: FloatArray) -> None:
    """Time derivative of the rigid body's state from the rotors' sums."""
    per_kg, drag = 1.0 / p[0], p[7]
    jxx, jxy, jxz, jyy, jyz, jzz = p[8], p[9], p[10], p[12], p[13], p[16]
    ixx, ixy, ixz, iyy, iyz, izz = p[17], p[18], p[19], p[21], p[22], p[25]
    axx, axy, axz, ayx, ayy, ayz, azx, azy, azz = p[26], p[27], p[28], p[29], p[30], p[31], p[32], p[33], p[34]
    for lane in range(LANES):
        density = w[_AIR + 9, lane]
        vx, vy, vz = w[_STATE + 3, lane], w[_STATE + 4, lane], w[_STATE + 5, lane]
        x, y, z, s = w[_STATE + 6, lane], w[_STATE + 7, lane], w[_STATE + 8, lane], w[_STATE + 9, lane]
        wx, wy, wz = w[_STATE + 10, lane], w[_STATE + 11, lane], w[_STATE + 12, lane]
        fx, fy, fz = w[_SUMS, lane], w[_SUMS + 1, lane], w[_SUMS + 2, lane]

        rx, ry, rz = vx - w[_AIR, lane], vy - w[_AIR + 1, lane], vz - w[_AIR + 2, lane]
        resistance = drag * density * np.sqrt(rx * rx + ry * ry + rz * rz)
        # R(q) f = f + 2 s (r x f) + 2 r x (r x f) with r the vector part
        cx, cy, cz = y * fz - z * fy, z * fx - x * fz, x * fy - y * fx
        gx = fx + 2.0 * (s * cx + (y * cz - z * cy))
        gy = fy + 2.0 * (s * cy + (z * cx - x * cz))
        gz = fz + 2.0 * (s * cz + (x * cy - y * cx))
        w[_SLOPE, lane], w[_SLOPE + 1, lane], w[_SLOPE + 2, lane] = vx, vy, vz
        w[_SLOPE + 3, lane] = (gx - resistance * rx + w[_AIR + 3, lane]) * per_kg
        w[_SLOPE + 4, lane] = (gy - resistance * ry + w[_AIR + 4, lane]) * per_kg
        w[_SLOPE + 5, lane] = (gz - resistance * rz + w[_AIR + 5, lane]) * per_kg - w[_AIR + 10, lane]

        w[_SLOPE + 6, lane] = 0.5 * (s * wx + y * wz - z * wy)
        w[_SLOPE + 7, lane] = 0.5 * (s * wy + z * wx - x * wz)
        w[_SLOPE + 8, lane] = 0.5 * (s * wz + x * wy - y * wx)
        w[_SLOPE + 9, lane] = -0.5 * (x * wx + y * wy + z * wz)

        turning = density * np.sqrt(wx * wx + wy * wy + wz * wz)
        hx = jxx * wx + jxy * wy + jxz * wz + w[_SUMS + 6, lane]
        hy = jxy * wx + jyy * wy + jyz * wz + w[_SUMS + 7, lane]
        hz = jxz * wx + jyz * wy + jzz * wz + w[_SUMS + 8, lane]
        mx = w[_SUMS + 3, lane] - turning * (axx * wx + axy * wy + axz * wz) + w[_AIR + 6, lane] - (wy * hz - wz * hy)
        my = w[_SUMS + 4, lane] - turning * (ayx * wx + ayy * wy + ayz * wz) + w[_AIR + 7, lane] - (wz * hx - wx * hz)
        mz = w[_SUMS + 5, lane] - turning * (azx * wx + azy * wy + azz * wz) + w[_AIR + 8, lane] - (wx * hy - wy * hx)
        w[_SLOPE + 10, lane] = ixx * mx + ixy * my + ixz * mz
        w[_SLOPE + 11, lane] = ixy * mx + iyy * my + iyz * mz
        w[_SLOPE + 12, lane] = ixz * mx + iyz * my + izz * mz


@compiled(inline=True)
def _normalize(w: FloatArray, row: int) -> None:
    """Quaternions of the state that begins at ``row`` get unit length."""
    for lane in range(LANES):
        x, y, z, s = w[row + 6, lane], w[row + 7, lane], w[row + 8, lane], w[row + 9, lane]
        norm = np.sqrt(x * x + y * y + z * z + s * s)
        w[row + 6, lane], w[row + 7, lane], w[row + 8, lane], w[row + 9, lane] = x / norm, y / norm, z / norm, s / norm


@compiled(inline=True)
def _clip(flat: FloatArray, rows: int, source: int, target: int, low: float, high: float) -> None:
    """Rows of rotor speeds within limits."""
    for k in range(rows * LANES):
        speed = flat[source * LANES + k]
        speed = speed if speed > low else low
        flat[target * LANES + k] = speed if speed < high else high


@compiled(inline=True)
def _add(flat: FloatArray, rows: int, target: int, origin: int, dt_s: float) -> None:
    """Rows ``target`` = ``origin`` + dt_s * slope."""
    for k in range(rows * LANES):
        flat[target * LANES + k] = flat[origin * LANES + k] + dt_s * flat[_SLOPE * LANES + k]


@compiled(inline=True)
def _copy(flat: FloatArray, rows: int, target: int, source: int) -> None:
    for k in range(rows * LANES):
        flat[target * LANES + k] = flat[source * LANES + k]


@compiled(inline=True)
def _control(w: FloatArray, p: FloatArray, dt_s: float, rotors: int) -> None:
    """Rate controller: what the rotors are asked for."""
    jxx, jxy, jxz, jyy, jyz, jzz = p[8], p[9], p[10], p[12], p[13], p[16]
    proportional, integral, derivative, limit = p[35], p[36], p[37], p[38]
    stiffness, damping, gyroscopic = p[39], p[40], p[41]
    follow = stiffness * dt_s
    settle = 1.0 / (1.0 + damping * dt_s + stiffness * dt_s * dt_s)
    for axis in range(3):
        for lane in range(LANES):
            rate = w[_MEMORY + 3 + axis, lane]
            slope = (w[_MEMORY + 6 + axis, lane] + follow * (w[_MEMORY + axis, lane] - rate)) * settle
            rate += dt_s * slope
            error = w[_COMMAND + 1 + axis, lane] - rate
            total = w[_MEMORY + 9 + axis, lane] + dt_s * error
            total = total if total > -limit else -limit
            total = total if total < limit else limit
            w[_MEMORY + 3 + axis, lane] = rate
            w[_MEMORY + 6 + axis, lane] = slope
            w[_MEMORY + 9 + axis, lane] = total
            w[_WANTED + axis, lane] = proportional * error + integral * total - derivative * slope
    for lane in range(LANES):
        wx, wy, wz = w[_MEMORY + 3, lane], w[_MEMORY + 4, lane], w[_MEMORY + 5, lane]
        ax, ay, az = w[_WANTED, lane], w[_WANTED + 1, lane], w[_WANTED + 2, lane]
        hx = jxx * wx + jxy * wy + jxz * wz
        hy = jxy * wx + jyy * wy + jyz * wz
        hz = jxz * wx + jyz * wy + jzz * wz
        w[_WANTED, lane] = jxx * ax + jxy * ay + jxz * az + gyroscopic * (wy * hz - wz * hy)
        w[_WANTED + 1, lane] = jxy * ax + jyy * ay + jyz * az + gyroscopic * (wz * hx - wx * hz)
        w[_WANTED + 2, lane] = jxz * ax + jyz * ay + jzz * az + gyroscopic * (wx * hy - wy * hx)
        w[_WANTED + 3, lane] = w[_COMMAND, lane]
    for i in range(rotors):
        at = SCALARS + ROTOR_PARAMETERS * i + 9
        bx, by, bz, bt = p[at], p[at + 1], p[at + 2], p[at + 3]
        for lane in range(LANES):
            square = bx * w[_WANTED, lane] + by * w[_WANTED + 1, lane] + bz * w[_WANTED + 2, lane]
            square += bt * w[_WANTED + 3, lane]
            w[_ASKED + i, lane] = np.copysign(np.sqrt(abs(square)), square)


@compiled()
def _gather(w: FloatArray, row: int, table: FloatArray, column: int, count: int, first: int) -> None:
    """Columns of a table's vehicles into rows of lanes; the last vehicle fills the lanes behind it."""
    last = table.shape[0] - 1
    for lane in range(LANES):
        vehicle = min(first + lane, last)
        for k in range(count):
            w[row + k, lane] = table[vehicle, column + k]


@compiled()
def _scatter(w: FloatArray, row: int, table: FloatArray, column: int, count: int, first: int) -> None:
    """Rows of lanes back into a table's columns."""
    for lane in range(min(LANES, table.shape[0] - first)):
        for k in range(count):
            table[first + lane, column + k] = w[row + k, lane]


@compiled()
def advance(
    x: FloatArray,
    u: FloatArray,
    around: FloatArray,
    p: FloatArray,
    dt_s: float,
    steps: int,
    rotors: int,
    controlled: bool,
    scheme: int,
) -> None:
    """Advance states in place.

    Args:
        x: (n, dx) in the model's layout.
        u: (n, du).
        around: (n, 12).
        p: parameters, see :data:`SCALARS` and :data:`ROTOR_PARAMETERS`.
        dt_s: of one step.
        steps: how many.
        rotors: at most :data:`MOST_ROTORS`.
        controlled: u is thrust and rates, else rotor speeds.
        scheme: 0 = Euler, 1 = RK4, 2 = RK4 that normalises its running sum.
    """
    rotors = max(0, min(rotors, MOST_ROTORS))  # what the compiler can rely on
    rows = 13 + rotors
    w = np.empty((_ROWS, LANES))
    flat = w.reshape(_ROWS * LANES)
    for first in range(0, x.shape[0], LANES):
        _gather(w, _STATE, x, 0, rows, first)
        _gather(w, _AIR, around, 0, 12, first)
        for lane in range(LANES):
            w[_AIR + 9, lane] /= SEA_LEVEL_DENSITY_KGPM3
        if controlled:
            _gather(w, _MEMORY, x, rows + rotors, 12, first)
            _gather(w, _COMMAND, u, 0, 4, first)
        else:
            _gather(w, _ASKED, u, 0, rotors, first)
        for _ in range(steps):
            if controlled:
                _control(w, p, dt_s, rotors)
            _clip(flat, rotors, _ASKED, _TARGET, p[2], p[3])
            if scheme != _EULER:
                _copy(flat, rows, _START, _STATE)
                _copy(flat, rows, _TOTAL, _STATE)
            for stage in range(1 if scheme == _EULER else 4):
                _sum_rotors(w, p, rotors)
                _slopes(w, p)
                if scheme == _EULER:
                    _add(flat, rows, _STATE, _STATE, dt_s)
                elif stage == 3:
                    _add(flat, rows, _STATE, _TOTAL, dt_s / 6.0)
                else:
                    _add(flat, rows, _TOTAL, _TOTAL, dt_s / 6.0 if stage == 0 else dt_s / 3.0)
                    _add(flat, rows, _STATE, _START, dt_s if stage == 2 else 0.5 * dt_s)
                    if scheme == _COMPAT:
                        _normalize(w, _TOTAL)
                _clip(flat, rotors, _SPEED, _SPEED, p[2], p[3])
                _normalize(w, _STATE)
            if controlled:
                _copy(flat, 3, _MEMORY, _STATE + 10)
        _scatter(w, _STATE, x, 0, rows, first)
        if controlled:
            _scatter(w, _ASKED, x, rows, rotors, first)
            _scatter(w, _MEMORY, x, rows + rotors, 12, first)
