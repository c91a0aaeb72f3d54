"""The Flightmare quadrotor, compiled: tiles of 16 vehicles; see :mod:`vil_bridge.vehicles.flightmare`.

A tile is one flat array of rows of 16 numbers at constant offsets: so the compiler knows that rows do not overlap
and turns every loop over lanes into vector code. Rows: state 17, command 4, surroundings 12, thrusts and in
their place the rotors' target speeds 4, wished wrench 4.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.vehicles.native.compile import LANES, compiled
from vil_bridge.vehicles.surroundings import SEA_LEVEL_DENSITY_KGPM3

if TYPE_CHECKING:
    from vil_bridge.vehicles.flightmare import FlightmareQuadrotor

__all__ = ["AROUND", "COLUMNS", "PARAMETERS", "TARGET", "TILE", "pack", "rotor_targets", "step", "substep"]

COLUMNS: Final = 17
"""Of a state: the first rows of a tile."""
AROUND: Final = 21 * LANES
"""Where a tile's surroundings begin, 12 rows."""
TARGET: Final = 33 * LANES
"""Where its thrusts begin, 4 rows, of which :func:`rotor_targets` makes speeds."""
TILE: Final = 41 * LANES
"""Numbers in a tile."""
PARAMETERS: Final = 61
"""Numbers that :func:`pack` packs."""

_COMMAND: Final = 17 * LANES
_WISH: Final = 37 * LANES
_PER_SEA_LEVEL: Final = 1.0 / SEA_LEVEL_DENSITY_KGPM3

_PX, _PY, _PZ, _VX, _VY, _VZ, _QX, _QY, _QZ, _QW, _WX, _WY, _WZ, _O1, _O2, _O3, _O4 = range(0, COLUMNS * LANES, LANES)
_AIR_X, _AIR_Y, _AIR_Z, _FORCE_X, _FORCE_Y, _FORCE_Z = range(AROUND, AROUND + 6 * LANES, LANES)
_TORQUE_X, _TORQUE_Y, _TORQUE_Z, _DENSITY, _GRAVITY, _FACTOR = range(AROUND + 6 * LANES, TARGET, LANES)
_T1, _T2, _T3, _T4 = range(TARGET, _WISH, LANES)

_MAP, _LIMITS, _ROTORS, _BODY, _DRAG, _RATES, _SHARES, _DRAGGED = 0, 3, 7, 19, 26, 36, 44, 60


def pack(model: FlightmareQuadrotor) -> FloatArray:
    """The parameters of a vehicle as one array, shape (PARAMETERS,)."""
    p = model.parameters
    inertia = np.array(p.inertia_kgm2)
    allocation = p.allocation()
    return np.concatenate(
        (
            p.thrust_map,
            (*model.thrust_limits_n, p.rotor_min_radps, p.rotor_max_radps),
            allocation[1:].ravel(),
            (1.0 / p.mass_kg, *inertia, *1.0 / inertia),
            p.drag_linear_nspm,
            0.5 * SEA_LEVEL_DENSITY_KGPM3 * np.array(p.drag_area_m2),
            p.drag_cubic_ns3pm3,
            (p.lift_ns2pm2,),
            inertia * p.rate_gains_1ps,
            p.rate_limits_radps,
            np.array(model.thrust_limits_mps2) * p.mass_kg,
            np.linalg.inv(allocation).ravel(),
            (model.dragged,),
        )
    )


@compiled()
def rotor_targets(t: Any, p: Any) -> Any:
    """Turn the thrusts in the target rows of a tile into the rotor speeds that give them."""
    c2, c1, c0 = p[_MAP], p[_MAP + 1], p[_MAP + 2]
    least, most, slowest, fastest = p[_LIMITS], p[_LIMITS + 1], p[_LIMITS + 2], p[_LIMITS + 3]
    square, half = c1 * c1, 1.0 / (2.0 * c2)
    for i in range(4 * LANES):
        f = max(min(t[TARGET + i], most), least)
        speed = (math.sqrt(max(square - 4.0 * c2 * (c0 - f), 0.0)) - c1) * half
        t[TARGET + i] = max(min(speed, fastest), slowest)


@compiled()
def _rate_thrusts(t: Any, p: Any) -> Any:
    """Thrusts that the rate controller asks for, into the target rows."""
    mass = 1.0 / p[_BODY]
    jx, jy, jz = p[_BODY + 1], p[_BODY + 2], p[_BODY + 3]
    kx, ky, kz = p[_RATES], p[_RATES + 1], p[_RATES + 2]
    most_x, most_y, most_z = p[_RATES + 3], p[_RATES + 4], p[_RATES + 5]
    least_n, most_n = p[_RATES + 6], p[_RATES + 7]
    for i in range(LANES):
        wx, wy, wz = t[_WX + i], t[_WY + i], t[_WZ + i]
        hx, hy, hz = jx * wx, jy * wy, jz * wz
        t[_WISH + i] = max(min(mass * t[_COMMAND + i], most_n), least_n)
        rate = max(min(t[_COMMAND + LANES + i], most_x), -most_x)
        t[_WISH + LANES + i] = kx * (rate - wx) + (wy * hz - wz * hy)
        rate = max(min(t[_COMMAND + 2 * LANES + i], most_y), -most_y)
        t[_WISH + 2 * LANES + i] = ky * (rate - wy) + (wz * hx - wx * hz)
        rate = max(min(t[_COMMAND + 3 * LANES + i], most_z), -most_z)
        t[_WISH + 3 * LANES + i] = kz * (rate - wz) + (wx * hy - wy * hx)
    for rotor in range(4):
        shares = _SHARES + 4 * rotor
        a, b, c, d = p[shares], p[shares + 1], p[shares + 2], p[shares + 3]
        row = TARGET + rotor * LANES
        for i in range(LANES):
            t[row + i] = (
                a * t[_WISH + i]
                + b * t[_WISH + LANES + i]
                + c * t[_WISH + 2 * LANES + i]
                + d * t[_WISH + 3 * LANES + i]
            )


@compiled(inline=True)
def _wrench(speeds: Any, scale: Any, density: Any, curve: Any, rotors: Any) -> Any:
    """Thrust and torque of four rotors at speeds; ``scale`` is the relative density times the thrust factor."""
    o1, o2, o3, o4 = speeds
    c2, c1, c0, least, most = curve
    y1, y2, y3, y4, x1, x2, x3, x4, z1, z2, z3, z4 = rotors
    f1 = max(min((c2 * o1 + c1) * o1 + c0, most), least)
    f2 = max(min((c2 * o2 + c1) * o2 + c0, most), least)
    f3 = max(min((c2 * o3 + c1) * o3 + c0, most), least)
    f4 = max(min((c2 * o4 + c1) * o4 + c0, most), least)
    return (
        scale * ((f1 + f2) + (f3 + f4)),
        scale * ((y1 * f1 + y2 * f2) + (y3 * f3 + y4 * f4)),
        scale * ((x1 * f1 + x2 * f2) + (x3 * f3 + x4 * f4)),
        density * ((z1 * f1 + z2 * f2) + (z3 * f3 + z4 * f4)),
    )


@compiled(inline=True)
def _motion(s: Any, wrench: Any, around: Any, constants: Any, dragged: Any) -> Any:
    """Slopes of velocity, attitude and rates; the rotation matrix is that of ``q_to_matrix``."""
    vx, vy, vz, qx, qy, qz, qw, wx, wy, wz = s
    thrust, tx, ty, tz = wrench
    air_x, air_y, air_z, ax, ay, az, mx, my, mz, density = around
    per_mass, jx, jy, jz, per_jx, per_jy, per_jz, l1, l2, l3, s1, s2, s3, k1, k2, k3, lift = constants
    xx, yy, zz, ww = qx * qx, qy * qy, qz * qz, qw * qw
    xy, xz, yz, xw, yw, zw = qx * qy, qx * qz, qy * qz, qx * qw, qy * qw, qz * qw
    r02, r12, r22 = 2.0 * (xz + yw), 2.0 * (yz - xw), zz - xx - yy + ww
    if dragged:
        r00, r10, r20 = xx - yy - zz + ww, 2.0 * (xy + zw), 2.0 * (xz - yw)
        r01, r11, r21 = 2.0 * (xy - zw), yy - xx - zz + ww, 2.0 * (yz + xw)
        ux, uy, uz = vx - air_x, vy - air_y, vz - air_z
        bx = r00 * ux + r10 * uy + r20 * uz
        by = r01 * ux + r11 * uy + r21 * uz
        bz = r02 * ux + r12 * uy + r22 * uz
        fx = -density * ((l1 + s1 * abs(bx) + k1 * bx * bx) * bx)
        fy = -density * ((l2 + s2 * abs(by) + k2 * by * by) * by)
        fz = density * (lift * (bx * bx + by * by) - (l3 + s3 * abs(bz) + k3 * bz * bz) * bz) + thrust
        ax += (r00 * fx + r01 * fy + r02 * fz) * per_mass
        ay += (r10 * fx + r11 * fy + r12 * fz) * per_mass
        az += (r20 * fx + r21 * fy + r22 * fz) * per_mass
    else:
        push = thrust * per_mass
        ax += r02 * push
        ay += r12 * push
        az += r22 * push
    hx, hy, hz = jx * wx, jy * wy, jz * wz
    ox, oy, oz = 0.5 * wx, 0.5 * wy, 0.5 * wz
    return (
        ax,
        ay,
        az,
        qw * ox + qy * oz - qz * oy,
        qw * oy + qz * ox - qx * oz,
        qw * oz + qx * oy - qy * ox,
        -(qx * ox + qy * oy + qz * oz),
        (tx + mx - (wy * hz - wz * hy)) * per_jx,
        (ty + my - (wz * hx - wx * hz)) * per_jy,
        (tz + mz - (wx * hy - wy * hx)) * per_jz,
    )


@compiled(inline=True)
def _along(s: Any, h: Any, k: Any) -> Any:
    """The ten columns s + h k."""
    s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 = s
    k0, k1, k2, k3, k4, k5, k6, k7, k8, k9 = k
    return (
        s0 + h * k0,
        s1 + h * k1,
        s2 + h * k2,
        s3 + h * k3,
        s4 + h * k4,
        s5 + h * k5,
        s6 + h * k6,
        s7 + h * k7,
        s8 + h * k8,
        s9 + h * k9,
    )


@compiled(inline=True)
def _rk4(t: Any, p: Any, h: Any, early: Any, midway: Any, late: Any, dragged: Any) -> Any:
    """A step of a tile; ``dragged`` is a constant, so that each of both kernels has one branch of it."""
    curve = (p[_MAP], p[_MAP + 1], p[_MAP + 2], p[_LIMITS], p[_LIMITS + 1])
    y1, y2, y3, y4, x1, x2 = p[_ROTORS], p[_ROTORS + 1], p[_ROTORS + 2], p[_ROTORS + 3], p[_ROTORS + 4], p[_ROTORS + 5]
    x3, x4, z1, z2 = p[_ROTORS + 6], p[_ROTORS + 7], p[_ROTORS + 8], p[_ROTORS + 9]
    rotors = (y1, y2, y3, y4, x1, x2, x3, x4, z1, z2, p[_ROTORS + 10], p[_ROTORS + 11])
    per_mass, jx, jy, jz = p[_BODY], p[_BODY + 1], p[_BODY + 2], p[_BODY + 3]
    per_jx, per_jy, per_jz = p[_BODY + 4], p[_BODY + 5], p[_BODY + 6]
    l1, l2, l3, s1, s2, s3 = p[_DRAG], p[_DRAG + 1], p[_DRAG + 2], p[_DRAG + 3], p[_DRAG + 4], p[_DRAG + 5]
    k1, k2, k3, lift = p[_DRAG + 6], p[_DRAG + 7], p[_DRAG + 8], p[_DRAG + 9]
    constants = (per_mass, jx, jy, jz, per_jx, per_jy, per_jz, l1, l2, l3, s1, s2, s3, k1, k2, k3, lift)
    half, sixth = 0.5 * h, h / 6.0
    for i in range(LANES):
        density = t[_DENSITY + i] * _PER_SEA_LEVEL
        scale = density * t[_FACTOR + i]
        ax, ay, az = (
            per_mass * t[_FORCE_X + i],
            per_mass * t[_FORCE_Y + i],
            per_mass * t[_FORCE_Z + i] - t[_GRAVITY + i],
        )
        air_x, air_y, air_z = t[_AIR_X + i], t[_AIR_Y + i], t[_AIR_Z + i]
        mx, my, mz = t[_TORQUE_X + i], t[_TORQUE_Y + i], t[_TORQUE_Z + i]
        around = (air_x, air_y, air_z, ax, ay, az, mx, my, mz, density)
        t1, t2, t3, t4 = t[_T1 + i], t[_T2 + i], t[_T3 + i], t[_T4 + i]
        g1, g2, g3, g4 = t[_O1 + i] - t1, t[_O2 + i] - t2, t[_O3 + i] - t3, t[_O4 + i] - t4
        speeds = (t1 + early * g1, t2 + early * g2, t3 + early * g3, t4 + early * g4)
        first = _wrench(speeds, scale, density, curve, rotors)
        speeds = (t1 + midway * g1, t2 + midway * g2, t3 + midway * g3, t4 + midway * g4)
        middle = _wrench(speeds, scale, density, curve, rotors)
        o1, o2, o3, o4 = t1 + late * g1, t2 + late * g2, t3 + late * g3, t4 + late * g4
        last = _wrench((o1, o2, o3, o4), scale, density, curve, rotors)
        vx, vy, vz, qx, qy, qz = t[_VX + i], t[_VY + i], t[_VZ + i], t[_QX + i], t[_QY + i], t[_QZ + i]
        s = (vx, vy, vz, qx, qy, qz, t[_QW + i], t[_WX + i], t[_WY + i], t[_WZ + i])
        ka = _motion(s, first, around, constants, dragged)
        kb = _motion(_along(s, half, ka), middle, around, constants, dragged)
        kc = _motion(_along(s, half, kb), middle, around, constants, dragged)
        kd = _motion(_along(s, h, kc), last, around, constants, dragged)
        # The slopes of the position are the velocities of the stages, so it needs no stages of its own.
        t[_PX + i] += h * (s[0] + sixth * (ka[0] + kb[0] + kc[0]))
        t[_PY + i] += h * (s[1] + sixth * (ka[1] + kb[1] + kc[1]))
        t[_PZ + i] += h * (s[2] + sixth * (ka[2] + kb[2] + kc[2]))
        t[_VX + i] = s[0] + sixth * (ka[0] + 2.0 * (kb[0] + kc[0]) + kd[0])
        t[_VY + i] = s[1] + sixth * (ka[1] + 2.0 * (kb[1] + kc[1]) + kd[1])
        t[_VZ + i] = s[2] + sixth * (ka[2] + 2.0 * (kb[2] + kc[2]) + kd[2])
        qx = s[3] + sixth * (ka[3] + 2.0 * (kb[3] + kc[3]) + kd[3])
        qy = s[4] + sixth * (ka[4] + 2.0 * (kb[4] + kc[4]) + kd[4])
        qz = s[5] + sixth * (ka[5] + 2.0 * (kb[5] + kc[5]) + kd[5])
        qw = s[6] + sixth * (ka[6] + 2.0 * (kb[6] + kc[6]) + kd[6])
        per_length = 1.0 / math.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
        t[_QX + i] = qx * per_length
        t[_QY + i] = qy * per_length
        t[_QZ + i] = qz * per_length
        t[_QW + i] = qw * per_length
        t[_WX + i] = s[7] + sixth * (ka[7] + 2.0 * (kb[7] + kc[7]) + kd[7])
        t[_WY + i] = s[8] + sixth * (ka[8] + 2.0 * (kb[8] + kc[8]) + kd[8])
        t[_WZ + i] = s[9] + sixth * (ka[9] + 2.0 * (kb[9] + kc[9]) + kd[9])
        t[_O1 + i], t[_O2 + i], t[_O3 + i], t[_O4 + i] = o1, o2, o3, o4


@compiled()
def _substep_dragged(t: Any, p: Any, h: Any, early: Any, midway: Any, late: Any) -> Any:
    _rk4(t, p, h, early, midway, late, True)


@compiled()
def _substep_free(t: Any, p: Any, h: Any, early: Any, midway: Any, late: Any) -> Any:
    _rk4(t, p, h, early, midway, late, False)


@compiled()
def substep(t: Any, p: Any, h: Any, early: Any, midway: Any, late: Any) -> Any:
    """One step of RK4 of a tile over h seconds; the fades are those of ``motor_fades``."""
    if p[_DRAGGED] > 0.0:
        _substep_dragged(t, p, h, early, midway, late)
    else:
        _substep_free(t, p, h, early, midway, late)


@compiled()
def step(x: Any, u: Any, around: Any, p: Any, rates: Any, h: Any, fades: Any, count: Any) -> Any:
    """Advance states x (n, 17) in place by ``count`` sub-steps of h seconds.

    u are commands (n, 4): thrusts, or with ``rates`` collective thrust over mass and body rates. around is (n, 12),
    p of :func:`pack`, fades of ``motor_fades``.
    """
    n = x.shape[0]
    t = np.empty(TILE)
    for first in range(0, n, LANES):
        for lane in range(LANES):
            row = min(first + lane, n - 1)
            for column in range(COLUMNS):
                t[column * LANES + lane] = x[row, column]
            for column in range(4):
                t[_COMMAND + column * LANES + lane] = t[TARGET + column * LANES + lane] = u[row, column]
            for column in range(12):
                t[AROUND + column * LANES + lane] = around[row, column]
        if not rates:
            rotor_targets(t, p)
        for _ in range(count):
            if rates:
                _rate_thrusts(t, p)
                rotor_targets(t, p)
            substep(t, p, h, fades[0], fades[1], fades[2])
        for lane in range(min(LANES, n - first)):
            for column in range(COLUMNS):
                x[first + lane, column] = t[column * LANES + lane]
