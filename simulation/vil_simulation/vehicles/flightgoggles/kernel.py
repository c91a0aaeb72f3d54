"""FlightGoggles' multicopter compiled.

The equations of :mod:`vil_simulation.vehicles.flightgoggles.model`, tile by tile.

A tile's numbers stand in one array of rows by lanes. Rows that a rotor's number selects lie behind
those of fixed place: so the compiler can see that they do not overlap, and computes all lanes at
once.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from vil_bridge.core.compile import LANES, compiled
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import SEA_LEVEL_DENSITY_KGPM3
from vil_simulation.vehicles.elementary_kernel import arcsin, arctan2, sin_cos
from vil_simulation.vehicles.kernel_tiles import flush_rows, gather, put_truth, scatter

MOST_ROTORS: Final = 16

SCALARS: Final = 44
"""Parameters before those of the rotors: mass, rotor inertia, drag.

Inertia, its inverse, aerodynamic moment (9 each); gains proportional, integral, derivative, limit
of the integral, stiffness and damping of the filter, 1 for the gyroscopic moment (0 = left out);
for waypoints the gains of position, velocity and attitude, limits of position error, acceleration
and rates, gravity.
"""

ROTOR_PARAMETERS: Final = 18
"""Parameters of each rotor.

Axis, lever, twist (3 each), row of the allocation (4), rate of the motor's lag, slowest and fastest
speed, thrust, torque.
"""

L: Final = LANES
# Where rows of fixed place begin.
_SUMS: Final = 0  # of the rotors: force 3, moment 3, angular momentum 3
_AIR: Final = 9 * L  # surroundings, 12; density in units of that at sea level
_MEMORY: Final = 21 * L  # gyro sample, filtered rate, its slope, integral of the error, 3 each
_GOAL: Final = 33 * L  # waypoint 3, yaw
_COMMAND: Final = 37 * L  # thrust, rates 3
_WANTED: Final = 41 * L  # moment 3, thrust
# States: p 3, v 3, q 4, w 3, speeds of the rotors. Rows of rotors follow.
_STATE_ROWS: Final = (13 + MOST_ROTORS) * L
_STATE: Final = 45 * L
_SLOPE: Final = _STATE + _STATE_ROWS
_ASKED: Final = _SLOPE + _STATE_ROWS
_TARGET: Final = _ASKED + MOST_ROTORS * L  # asked, within limits
_START: Final = _TARGET + MOST_ROTORS * L
_TOTAL: Final = _START + _STATE_ROWS
_TILE: Final = _TOTAL + _STATE_ROWS
_SPEED: Final = _STATE + 13 * L
_SPIN: Final = _SLOPE + 13 * L

_SPEEDS: Final = 0
_WAYPOINT: Final = 2
_EULER: Final = 0
_COMPAT: Final = 2


@compiled()
def _sum_rotors(t: FloatArray, p: FloatArray, rotors: int) -> None:
    """Write accelerations of the rotors, and sums of their force, moment and angular momentum."""
    inertia = p[1]
    for k in range(_SUMS, _SUMS + 9 * L):
        t[k] = 0.0
    for i in range(min(rotors, MOST_ROTORS)):
        at = SCALARS + ROTOR_PARAMETERS * i
        ax = p[at]
        ay = p[at + 1]
        az = p[at + 2]
        lx = p[at + 3]
        ly = p[at + 4]
        lz = p[at + 5]
        tx = p[at + 6]
        ty = p[at + 7]
        tz = p[at + 8]
        lag = p[at + 13]
        kf = p[at + 16]
        kt = p[at + 17]
        for lane in range(LANES):
            sums = _SUMS + lane
            air = _AIR + lane
            speed = t[_SPEED + i * L + lane]
            spin = (t[_TARGET + i * L + lane] - speed) * lag
            t[_SPIN + i * L + lane] = spin
            square = t[air + 9 * L] * (speed * abs(speed))
            thrust = kf * (t[air + 11 * L] * square)
            twist = kt * square + inertia * spin
            momentum = inertia * speed
            t[sums] += ax * thrust
            t[sums + L] += ay * thrust
            t[sums + 2 * L] += az * thrust
            t[sums + 3 * L] += lx * thrust + tx * twist
            t[sums + 4 * L] += ly * thrust + ty * twist
            t[sums + 5 * L] += lz * thrust + tz * twist
            t[sums + 6 * L] -= tx * momentum
            t[sums + 7 * L] -= ty * momentum
            t[sums + 8 * L] -= tz * momentum


@compiled()
def _slopes(t: FloatArray, p: FloatArray) -> None:
    """Write the time derivative of the rigid body's state from the rotors' sums."""
    per_kg = 1.0 / p[0]
    drag = p[2]
    jxx = p[3]
    jxy = p[4]
    jxz = p[5]
    jyy = p[7]
    jyz = p[8]
    jzz = p[11]
    ixx = p[12]
    ixy = p[13]
    ixz = p[14]
    iyy = p[16]
    iyz = p[17]
    izz = p[20]
    axx = p[21]
    axy = p[22]
    axz = p[23]
    ayx = p[24]
    ayy = p[25]
    ayz = p[26]
    azx = p[27]
    azy = p[28]
    azz = p[29]
    for lane in range(LANES):
        at = _STATE + lane
        to = _SLOPE + lane
        sums = _SUMS + lane
        air = _AIR + lane
        density = t[air + 9 * L]
        vx = t[at + 3 * L]
        vy = t[at + 4 * L]
        vz = t[at + 5 * L]
        x = t[at + 6 * L]
        y = t[at + 7 * L]
        z = t[at + 8 * L]
        s = t[at + 9 * L]
        wx = t[at + 10 * L]
        wy = t[at + 11 * L]
        wz = t[at + 12 * L]
        fx = t[sums]
        fy = t[sums + L]
        fz = t[sums + 2 * L]

        rx = vx - t[air]
        ry = vy - t[air + L]
        rz = vz - t[air + 2 * L]
        resistance = drag * density * np.sqrt(rx * rx + ry * ry + rz * rz)
        # R(q) f = f + 2 s (r x f) + 2 r x (r x f) with r the vector part
        cx = y * fz - z * fy
        cy = z * fx - x * fz
        cz = x * fy - y * fx
        gx = fx + 2.0 * (s * cx + (y * cz - z * cy))
        gy = fy + 2.0 * (s * cy + (z * cx - x * cz))
        gz = fz + 2.0 * (s * cz + (x * cy - y * cx))
        t[to] = vx
        t[to + L] = vy
        t[to + 2 * L] = vz
        t[to + 3 * L] = (gx - resistance * rx + t[air + 3 * L]) * per_kg
        t[to + 4 * L] = (gy - resistance * ry + t[air + 4 * L]) * per_kg
        t[to + 5 * L] = (gz - resistance * rz + t[air + 5 * L]) * per_kg - t[air + 10 * L]

        t[to + 6 * L] = 0.5 * (s * wx + y * wz - z * wy)
        t[to + 7 * L] = 0.5 * (s * wy + z * wx - x * wz)
        t[to + 8 * L] = 0.5 * (s * wz + x * wy - y * wx)
        t[to + 9 * L] = -0.5 * (x * wx + y * wy + z * wz)

        turning = density * np.sqrt(wx * wx + wy * wy + wz * wz)
        hx = jxx * wx + jxy * wy + jxz * wz + t[sums + 6 * L]
        hy = jxy * wx + jyy * wy + jyz * wz + t[sums + 7 * L]
        hz = jxz * wx + jyz * wy + jzz * wz + t[sums + 8 * L]
        mx = (
            t[sums + 3 * L]
            - turning * (axx * wx + axy * wy + axz * wz)
            + t[air + 6 * L]
            - (wy * hz - wz * hy)
        )
        my = (
            t[sums + 4 * L]
            - turning * (ayx * wx + ayy * wy + ayz * wz)
            + t[air + 7 * L]
            - (wz * hx - wx * hz)
        )
        mz = (
            t[sums + 5 * L]
            - turning * (azx * wx + azy * wy + azz * wz)
            + t[air + 8 * L]
            - (wx * hy - wy * hx)
        )
        t[to + 10 * L] = ixx * mx + ixy * my + ixz * mz
        t[to + 11 * L] = ixy * mx + iyy * my + iyz * mz
        t[to + 12 * L] = ixz * mx + iyz * my + izz * mz


@compiled(inline=True)
def _normalize(t: FloatArray, state: int) -> None:
    """Scale attitudes to unit length in the state that begins at ``state``."""
    for lane in range(LANES):
        at = state + 6 * L + lane
        x = t[at]
        y = t[at + L]
        z = t[at + 2 * L]
        s = t[at + 3 * L]
        per_norm = 1.0 / np.sqrt(x * x + y * y + z * z + s * s)
        t[at] = x * per_norm
        t[at + L] = y * per_norm
        t[at + 2 * L] = z * per_norm
        t[at + 3 * L] = s * per_norm


@compiled(inline=True)
def _between(value: float, low: float, high: float) -> Any:
    value = value if value > low else low
    return value if value < high else high


@compiled(inline=True)
def _limit(value: float, limit: float) -> Any:
    return _between(value, -limit, limit)


@compiled(inline=True)
def _clip(t: FloatArray, p: FloatArray, rotors: int, source: int, target: int) -> None:
    """Limit rows of rotor speeds to the range of each motor."""
    for i in range(min(rotors, MOST_ROTORS)):
        at = SCALARS + ROTOR_PARAMETERS * i + 14
        low = p[at]
        high = p[at + 1]
        for lane in range(LANES):
            t[target + i * L + lane] = _between(t[source + i * L + lane], low, high)


@compiled(inline=True)
def _add(t: FloatArray, rows: int, target: int, origin: int, dt_s: float) -> None:
    """Set rows ``target`` = ``origin`` + dt_s * slope."""
    for k in range(rows * LANES):
        t[target + k] = t[origin + k] + dt_s * t[_SLOPE + k]


@compiled(inline=True)
def _next_stage(
    t: FloatArray, p: FloatArray, rotors: int, total: int, share_s: float, ahead_s: float
) -> None:
    """Set the running sum = rows ``total`` + share_s * slope, and the state = start + ahead_s *
    slope within limits.
    """
    for k in range(13 * L):
        slope = t[_SLOPE + k]
        t[_TOTAL + k] = t[total + k] + share_s * slope
        t[_STATE + k] = t[_START + k] + ahead_s * slope
    for i in range(min(rotors, MOST_ROTORS)):
        at = SCALARS + ROTOR_PARAMETERS * i + 14
        low = p[at]
        high = p[at + 1]
        for lane in range(LANES):
            k = (13 + i) * L + lane
            slope = t[_SLOPE + k]
            t[_TOTAL + k] = t[total + k] + share_s * slope
            t[_STATE + k] = _between(t[_START + k] + ahead_s * slope, low, high)


@compiled(inline=True)
def _copy(t: FloatArray, rows: int, target: int, source: int) -> None:
    for k in range(rows * LANES):
        t[target + k] = t[source + k]


@compiled()
def _steer(t: FloatArray, p: FloatArray) -> None:
    """Run the waypoint controller: write thrust and rates to command."""
    for lane in range(LANES):
        at = _STATE + lane
        goal = _GOAL + lane
        to = _COMMAND + lane
        ax = _limit(p[37] * _limit(t[goal] - t[at], p[40]) - p[38] * t[at + 3 * L], p[41])
        ay = _limit(p[37] * _limit(t[goal + L] - t[at + L], p[40]) - p[38] * t[at + 4 * L], p[41])
        az = (
            _limit(
                p[37] * _limit(t[goal + 2 * L] - t[at + 2 * L], p[40]) - p[38] * t[at + 5 * L],
                p[41],
            )
            + p[43]
        )
        size = math.sqrt(ax * ax + ay * ay + az * az)
        t[to] = p[0] * size
        # The least rotation that turns z to the thrust, in axes turned by the yaw; then both as
        # one.
        yaw = t[goal + 3 * L]
        s, c = sin_cos(yaw)
        bx = -(c * ay - s * ax)
        by = c * ax + s * ay
        bw = size + az
        norm = math.sqrt(bx * bx + by * by + bw * bw)
        half_s, half_c = sin_cos(0.5 * yaw)
        hc = half_c / norm
        hs = half_s / norm
        gx = hc * bx - hs * by
        gy = hc * by + hs * bx
        gz = hs * bw
        gw = hc * bw
        # From the attitude to that one.
        x = t[at + 6 * L]
        y = t[at + 7 * L]
        z = t[at + 8 * L]
        w = t[at + 9 * L]
        ew = w * gw + x * gx + y * gy + z * gz
        ex = w * gx - x * gw - y * gz + z * gy
        ey = w * gy - y * gw - z * gx + x * gz
        ez = w * gz - z * gw - x * gy + y * gx
        roll = arctan2(2.0 * (ew * ex + ey * ez), 1.0 - 2.0 * (ex * ex + ey * ey))
        pitch = arcsin(_limit(2.0 * (ew * ey - ez * ex), 1.0))
        turn = arctan2(2.0 * (ew * ez + ex * ey), 1.0 - 2.0 * (ey * ey + ez * ez))
        t[to + L] = _limit(p[39] * roll, p[42])
        t[to + 2 * L] = _limit(p[39] * pitch, p[42])
        t[to + 3 * L] = _limit(p[39] * turn, p[42])


@compiled()
def _control(t: FloatArray, p: FloatArray, dt_s: float, rotors: int) -> None:
    """Run the rate controller: write the speeds that it asks of the rotors."""
    jxx = p[3]
    jxy = p[4]
    jxz = p[5]
    jyy = p[7]
    jyz = p[8]
    jzz = p[11]
    proportional = p[30]
    integral = p[31]
    derivative = p[32]
    limit = p[33]
    stiffness = p[34]
    damping = p[35]
    gyroscopic = p[36]
    follow = stiffness * dt_s
    settle = 1.0 / (1.0 + damping * dt_s + stiffness * dt_s * dt_s)
    for axis in range(3):
        for lane in range(LANES):
            at = _MEMORY + axis * L + lane
            slope = (t[at + 6 * L] + follow * (t[at] - t[at + 3 * L])) * settle
            rate = t[at + 3 * L] + dt_s * slope
            error = t[_COMMAND + L + axis * L + lane] - rate
            total = _limit(t[at + 9 * L] + dt_s * error, limit)
            t[at + 3 * L] = rate
            t[at + 6 * L] = slope
            t[at + 9 * L] = total
            t[_WANTED + axis * L + lane] = (
                proportional * error + integral * total - derivative * slope
            )
    for lane in range(LANES):
        at = _MEMORY + 3 * L + lane
        to = _WANTED + lane
        wx = t[at]
        wy = t[at + L]
        wz = t[at + 2 * L]
        ax = t[to]
        ay = t[to + L]
        az = t[to + 2 * L]
        hx = jxx * wx + jxy * wy + jxz * wz
        hy = jxy * wx + jyy * wy + jyz * wz
        hz = jxz * wx + jyz * wy + jzz * wz
        t[to] = jxx * ax + jxy * ay + jxz * az + gyroscopic * (wy * hz - wz * hy)
        t[to + L] = jxy * ax + jyy * ay + jyz * az + gyroscopic * (wz * hx - wx * hz)
        t[to + 2 * L] = jxz * ax + jyz * ay + jzz * az + gyroscopic * (wx * hy - wy * hx)
        t[to + 3 * L] = t[_COMMAND + lane]
    for i in range(min(rotors, MOST_ROTORS)):
        row = SCALARS + ROTOR_PARAMETERS * i + 9
        bx = p[row]
        by = p[row + 1]
        bz = p[row + 2]
        bt = p[row + 3]
        for lane in range(LANES):
            at = _WANTED + lane
            square = bx * t[at] + by * t[at + L] + bz * t[at + 2 * L] + bt * t[at + 3 * L]
            t[_ASKED + i * L + lane] = np.copysign(np.sqrt(abs(square)), square)


@compiled(inline=True)
def _integrate(t: FloatArray, p: FloatArray, rotors: int, scheme: int, dt_s: float) -> None:
    """Advance the state by one step with rotor targets held."""
    rows = 13 + rotors
    if scheme != _EULER:
        _copy(t, rows, _START, _STATE)
    for stage in range(1 if scheme == _EULER else 4):
        _sum_rotors(t, p, rotors)
        _slopes(t, p)
        if scheme == _EULER:
            _add(t, rows, _STATE, _STATE, dt_s)
            _clip(t, p, rotors, _SPEED, _SPEED)
        elif stage == 3:
            _add(t, rows, _STATE, _TOTAL, dt_s / 6.0)
            _clip(t, p, rotors, _SPEED, _SPEED)
        else:
            if stage == 0:
                _next_stage(t, p, rotors, _START, dt_s / 6.0, 0.5 * dt_s)
            else:
                _next_stage(t, p, rotors, _TOTAL, dt_s / 3.0, dt_s if stage == 2 else 0.5 * dt_s)
            if scheme == _COMPAT:
                _normalize(t, _TOTAL)
        _normalize(t, _STATE)
    flush_rows(t, _STATE, rows)


@compiled()
def advance(
    x: FloatArray,
    u: FloatArray,
    around: FloatArray,
    p: FloatArray,
    dt_s: float,
    steps: int,
    rotors: int,
    mode: int,
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
        mode: u is 0 = rotor speeds, 1 = thrust and rates, 2 = waypoints.
        scheme: 0 = Euler, 1 = RK4, 2 = RK4 that normalises its running sum.
    """
    rows = 13 + rotors
    t = np.empty(_TILE)
    for first in range(0, x.shape[0], LANES):
        gather(t, _STATE, x, 0, rows, first)
        gather(t, _AIR, around, 0, 12, first)
        for lane in range(LANES):
            t[_AIR + 9 * L + lane] /= SEA_LEVEL_DENSITY_KGPM3
        if mode == _SPEEDS:
            gather(t, _ASKED, u, 0, rotors, first)
        else:
            gather(t, _MEMORY, x, rows + rotors, 12, first)
            gather(t, _GOAL if mode == _WAYPOINT else _COMMAND, u, 0, 4, first)
        for _ in range(steps):
            if mode == _WAYPOINT:
                _steer(t, p)
            if mode != _SPEEDS:
                _control(t, p, dt_s, rotors)
            _clip(t, p, rotors, _ASKED, _TARGET)
            _integrate(t, p, rotors, scheme, dt_s)
            if mode != _SPEEDS:
                _copy(t, 3, _MEMORY, _STATE + 10 * L)
                flush_rows(t, _MEMORY + 3 * L, 9)
        scatter(t, _STATE, x, 0, rows, first)
        if mode != _SPEEDS:
            scatter(t, _ASKED, x, rows, rotors, first)
            scatter(t, _MEMORY, x, rows + rotors, 12, first)


@compiled()
def truth(
    x: FloatArray,
    asked: FloatArray,
    around: FloatArray,
    parameters: FloatArray,
    p: FloatArray,
    v: FloatArray,
    a: FloatArray,
    q: FloatArray,
    w: FloatArray,
    alpha: FloatArray,
    f: FloatArray,
    speeds: FloatArray,
) -> None:
    """Write what sensors measure: the arrays of a ``TrueState``, from ``p`` on.

    ``asked`` (n, at least rotors) begins with the speeds asked of the rotors; x, around and the
    parameters are those of :func:`advance`.
    """
    rotors = speeds.shape[1]
    t = np.empty(_TILE)
    for first in range(0, x.shape[0], LANES):
        gather(t, _STATE, x, 0, 13 + rotors, first)
        gather(t, _AIR, around, 0, 12, first)
        for lane in range(LANES):
            t[_AIR + 9 * L + lane] /= SEA_LEVEL_DENSITY_KGPM3
        gather(t, _ASKED, asked, 0, rotors, first)
        _clip(t, parameters, rotors, _ASKED, _TARGET)
        _sum_rotors(t, parameters, rotors)
        _slopes(t, parameters)
        scatter(t, _SPEED, speeds, 0, rotors, first)
        scatter(t, _SLOPE + 3 * L, a, 0, 3, first)
        scatter(t, _SLOPE + 10 * L, alpha, 0, 3, first)
        put_truth(x, around, p, v, a, q, w, f, first)
