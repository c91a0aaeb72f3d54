"""The Flightmare quadrotor, compiled: tiles of 16 vehicles.

See :mod:`vil_simulation.vehicles.flightmare.model`.

A tile is one flat array of rows of 16 numbers at constant offsets: so the compiler knows that rows
do not overlap and turns every loop over lanes into vector code. Rows: state 17, command 4,
surroundings 12, thrusts and in their place the rotors' target speeds 4, wished wrench 4;
accelerations at the three stage times 4 each and those that stay 3; of RK4's stages the state 10,
the sums of outer and of inner slopes 10 each.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from vil_bridge.core.compile import LANES, compiled
from vil_simulation.vehicles.disturbances import SEA_LEVEL_DENSITY_KGPM3
from vil_simulation.vehicles.elementary_kernel import exp, expm1
from vil_simulation.vehicles.kernel_tiles import flush_rows, gather, put_truth, scatter

COLUMNS: Final = 17
"""Of a state: the first rows of a tile."""
AROUND: Final = 21 * LANES
"""Offset of a tile's surroundings, 12 rows."""
TARGET: Final = 33 * LANES
"""Offset of its thrusts, 4 rows, of which :func:`rotor_targets` makes speeds."""
TILE: Final = 86 * LANES
"""Numbers in a tile."""
PARAMETERS: Final = 76
"""Numbers of a vehicle: ``FlightmareQuadrotor.packed``."""

_COMMAND: Final = 17 * LANES
_WISH: Final = 37 * LANES
_PER_SEA_LEVEL: Final = 1.0 / SEA_LEVEL_DENSITY_KGPM3

_PX, _PY, _PZ, _VX, _VY, _VZ, _QX, _QY, _QZ, _QW, _WX, _WY, _WZ, _O1, _O2, _O3, _O4 = range(
    0, COLUMNS * LANES, LANES
)
_AIR_X, _AIR_Y, _AIR_Z, _FORCE_X, _FORCE_Y, _FORCE_Z = range(AROUND, AROUND + 6 * LANES, LANES)
_TORQUE_X, _TORQUE_Y, _TORQUE_Z, _DENSITY, _GRAVITY, _FACTOR = range(
    AROUND + 6 * LANES, TARGET, LANES
)
_T1, _T2, _T3, _T4 = range(TARGET, _WISH, LANES)
_FIRST, _MIDDLE, _LAST, _BASE, _STAGE, _OUTER, _INNER = (
    row * LANES for row in (41, 45, 49, 53, 56, 66, 76)
)

_MAP = 0
_LIMITS = 3
_ROTORS = 5
_BODY = 17
_DRAG = 24
_RATES = 34
_SHARES = 42
_DRAGGED = 58
_SLOWEST = 59
_FASTEST = 63
_SCALE = 67
_LAG_S = 71
_MIXED = 75


@compiled()
def rotor_targets(t: Any, p: Any) -> Any:
    """Turn the thrusts in the target rows of a tile into the rotor speeds that give them."""
    c2 = p[_MAP]
    c1 = p[_MAP + 1]
    c0 = p[_MAP + 2]
    least = p[_LIMITS]
    most = p[_LIMITS + 1]
    square = c1 * c1
    half = 1.0 / (2.0 * c2)
    for rotor in range(4):
        slowest = p[_SLOWEST + rotor]
        fastest = p[_FASTEST + rotor]
        row = TARGET + rotor * LANES
        for i in range(LANES):
            f = max(min(t[row + i], most), least)
            speed = (math.sqrt(max(square - 4.0 * c2 * (c0 - f), 0.0)) - c1) * half
            t[row + i] = max(min(speed, fastest), slowest)


@compiled()
def _rate_thrusts(t: Any, p: Any) -> Any:
    """Write thrusts that the rate controller asks for into the target rows."""
    mass = 1.0 / p[_BODY]
    jx = p[_BODY + 1]
    jy = p[_BODY + 2]
    jz = p[_BODY + 3]
    kx = p[_RATES]
    ky = p[_RATES + 1]
    kz = p[_RATES + 2]
    most_x = p[_RATES + 3]
    most_y = p[_RATES + 4]
    most_z = p[_RATES + 5]
    least_n = p[_RATES + 6]
    most_n = p[_RATES + 7]
    for i in range(LANES):
        wx = t[_WX + i]
        wy = t[_WY + i]
        wz = t[_WZ + i]
        hx = jx * wx
        hy = jy * wy
        hz = jz * wz
        t[_WISH + i] = max(min(mass * t[_COMMAND + i], most_n), least_n)
        rate = max(min(t[_COMMAND + LANES + i], most_x), -most_x)
        t[_WISH + LANES + i] = kx * (rate - wx) + (wy * hz - wz * hy)
        rate = max(min(t[_COMMAND + 2 * LANES + i], most_y), -most_y)
        t[_WISH + 2 * LANES + i] = ky * (rate - wy) + (wz * hx - wx * hz)
        rate = max(min(t[_COMMAND + 3 * LANES + i], most_z), -most_z)
        t[_WISH + 3 * LANES + i] = kz * (rate - wz) + (wx * hy - wy * hx)
    for rotor in range(4):
        shares = _SHARES + 4 * rotor
        a = p[shares]
        b = p[shares + 1]
        c = p[shares + 2]
        d = p[shares + 3]
        row = TARGET + rotor * LANES
        for i in range(LANES):
            t[row + i] = (
                a * t[_WISH + i]
                + b * t[_WISH + LANES + i]
                + c * t[_WISH + 2 * LANES + i]
                + d * t[_WISH + 3 * LANES + i]
            )


@compiled(inline=True)
def _wrench(
    speeds: Any, density: Any, scale: Any, torque: Any, curve: Any, rotors: Any, body: Any
) -> Any:
    """Return accelerations by four rotors at speeds and by a torque: along z, and about x, y, z.

    ``scale`` is the relative density times the thrust factor.
    """
    o1, o2, o3, o4 = speeds
    mx, my, mz = torque
    c2, c1, c0, least, most = curve
    y1, y2, y3, y4, x1, x2, x3, x4, z1, z2, z3, z4 = rotors
    per_mass, per_jx, per_jy, per_jz = body
    f1 = max(min((c2 * o1 + c1) * o1 + c0, most), least)
    f2 = max(min((c2 * o2 + c1) * o2 + c0, most), least)
    f3 = max(min((c2 * o3 + c1) * o3 + c0, most), least)
    f4 = max(min((c2 * o4 + c1) * o4 + c0, most), least)
    return (
        scale * per_mass * ((f1 + f2) + (f3 + f4)),
        (scale * ((y1 * f1 + y2 * f2) + (y3 * f3 + y4 * f4)) + mx) * per_jx,
        (scale * ((x1 * f1 + x2 * f2) + (x3 * f3 + x4 * f4)) + my) * per_jy,
        (density * ((z1 * f1 + z2 * f2) + (z3 * f3 + z4 * f4)) + mz) * per_jz,
    )


@compiled(inline=True)
def _wrenches(t: Any, p: Any, early: Any, midway: Any, late: Any) -> Any:
    """Write accelerations by rotors and surroundings at the stage times.

    The rotors get their last speeds.
    """
    curve = (p[_MAP], p[_MAP + 1], p[_MAP + 2], p[_LIMITS], p[_LIMITS + 1])
    y1 = p[_ROTORS]
    y2 = p[_ROTORS + 1]
    y3 = p[_ROTORS + 2]
    y4 = p[_ROTORS + 3]
    x1 = p[_ROTORS + 4]
    x2 = p[_ROTORS + 5]
    x3 = p[_ROTORS + 6]
    x4 = p[_ROTORS + 7]
    z1 = p[_ROTORS + 8]
    z2 = p[_ROTORS + 9]
    rotors = (y1, y2, y3, y4, x1, x2, x3, x4, z1, z2, p[_ROTORS + 10], p[_ROTORS + 11])
    per_mass = p[_BODY]
    body = (per_mass, p[_BODY + 4], p[_BODY + 5], p[_BODY + 6])
    for i in range(LANES):
        density = t[_DENSITY + i] * _PER_SEA_LEVEL
        scale = density * t[_FACTOR + i]
        torque = (t[_TORQUE_X + i], t[_TORQUE_Y + i], t[_TORQUE_Z + i])
        t1 = t[_T1 + i]
        t2 = t[_T2 + i]
        t3 = t[_T3 + i]
        t4 = t[_T4 + i]
        g1 = t[_O1 + i] - t1
        g2 = t[_O2 + i] - t2
        g3 = t[_O3 + i] - t3
        g4 = t[_O4 + i] - t4
        speeds = (t1 + early * g1, t2 + early * g2, t3 + early * g3, t4 + early * g4)
        a, b, c, d = _wrench(speeds, density, scale, torque, curve, rotors, body)
        t[_FIRST + i] = a
        t[_FIRST + LANES + i] = b
        t[_FIRST + 2 * LANES + i] = c
        t[_FIRST + 3 * LANES + i] = d
        speeds = (t1 + midway * g1, t2 + midway * g2, t3 + midway * g3, t4 + midway * g4)
        a, b, c, d = _wrench(speeds, density, scale, torque, curve, rotors, body)
        t[_MIDDLE + i] = a
        t[_MIDDLE + LANES + i] = b
        t[_MIDDLE + 2 * LANES + i] = c
        t[_MIDDLE + 3 * LANES + i] = d
        o1 = t1 + late * g1
        o2 = t2 + late * g2
        o3 = t3 + late * g3
        o4 = t4 + late * g4
        a, b, c, d = _wrench((o1, o2, o3, o4), density, scale, torque, curve, rotors, body)
        t[_LAST + i] = a
        t[_LAST + LANES + i] = b
        t[_LAST + 2 * LANES + i] = c
        t[_LAST + 3 * LANES + i] = d
        t[_O1 + i] = o1
        t[_O2 + i] = o2
        t[_O3 + i] = o3
        t[_O4 + i] = o4
        _base(t, i, per_mass)


@compiled(inline=True)
def _base(t: Any, i: Any, per_mass: Any) -> Any:
    """Write accelerations of a lane that stay over a sub-step."""
    t[_BASE + i] = per_mass * t[_FORCE_X + i]
    t[_BASE + LANES + i] = per_mass * t[_FORCE_Y + i]
    t[_BASE + 2 * LANES + i] = per_mass * t[_FORCE_Z + i] - t[_GRAVITY + i]


@compiled(inline=True)
def _push(t: Any, row: Any, speed: Any, curve: Any, effects: Any) -> Any:
    """Add what a rotor does at a speed to the four rows from ``row`` on, at a lane."""
    c2, c1, c0, least, most = curve
    f = max(min((c2 * speed + c1) * speed + c0, most), least)
    t[row] += effects[0] * f
    t[row + LANES] += effects[1] * f
    t[row + 2 * LANES] += effects[2] * f
    t[row + 3 * LANES] += effects[3] * f


@compiled(inline=True)
def _divide(t: Any, p: Any, row: Any, i: Any) -> Any:
    """Turn what rotors do at sea level, in the four rows from ``row`` on, into accelerations, at
    a lane.
    """
    density = t[_DENSITY + i] * _PER_SEA_LEVEL
    scale = density * t[_FACTOR + i]
    k = row + i
    t[k] *= scale * p[_BODY]
    t[k + LANES] = (scale * t[k + LANES] + t[_TORQUE_X + i]) * p[_BODY + 4]
    t[k + 2 * LANES] = (scale * t[k + 2 * LANES] + t[_TORQUE_Y + i]) * p[_BODY + 5]
    t[k + 3 * LANES] = (density * t[k + 3 * LANES] + t[_TORQUE_Z + i]) * p[_BODY + 6]


@compiled()
def _wrenches_mixed(t: Any, p: Any, h: Any) -> Any:
    """Do as :func:`_wrenches` for motors that differ; their fades are those of ``motor_fades``."""
    curve = (p[_MAP], p[_MAP + 1], p[_MAP + 2], p[_LIMITS], p[_LIMITS + 1])
    for i in range(12 * LANES):
        t[_FIRST + i] = 0.0
    for rotor in range(4):
        effects = (
            p[_SCALE + rotor],
            p[_ROTORS + rotor],
            p[_ROTORS + 4 + rotor],
            p[_ROTORS + 8 + rotor],
        )
        ratio = h / p[_LAG_S + rotor]
        midway = exp(-0.5 * ratio)
        late = exp(-ratio)
        early = -6.0 * expm1(-ratio) / ratio - 4.0 * midway - late
        for i in range(LANES):
            speed = _O1 + rotor * LANES + i
            goal = t[TARGET + rotor * LANES + i]
            gap = t[speed] - goal
            _push(t, _FIRST + i, goal + early * gap, curve, effects)
            _push(t, _MIDDLE + i, goal + midway * gap, curve, effects)
            t[speed] = goal + late * gap
            _push(t, _LAST + i, t[speed], curve, effects)
    for i in range(LANES):
        for stage in range(3):
            _divide(t, p, _FIRST + 4 * stage * LANES, i)
        _base(t, i, p[_BODY])


@compiled(inline=True)
def _slopes(t: Any, i: Any, state: Any, time: Any, constants: Any, dragged: Any) -> Any:
    """Return slopes of velocity, attitude and rates of a lane.

    Its rotation matrix is that of ``q_to_matrix``.
    """
    per_mass, gx, gy, gz, l1, l2, l3, s1, s2, s3, k1, k2, k3, lift = constants
    qx = t[state + 3 * LANES + i]
    qy = t[state + 4 * LANES + i]
    qz = t[state + 5 * LANES + i]
    qw = t[state + 6 * LANES + i]
    wx = t[state + 7 * LANES + i]
    wy = t[state + 8 * LANES + i]
    wz = t[state + 9 * LANES + i]
    push = t[time + i]
    ax = t[_BASE + i]
    ay = t[_BASE + LANES + i]
    az = t[_BASE + 2 * LANES + i]
    xx = qx * qx
    yy = qy * qy
    zz = qz * qz
    ww = qw * qw
    xy = qx * qy
    xz = qx * qz
    yz = qy * qz
    xw = qx * qw
    yw = qy * qw
    zw = qz * qw
    r02 = 2.0 * (xz + yw)
    r12 = 2.0 * (yz - xw)
    r22 = zz - xx - yy + ww
    if dragged:
        r00 = xx - yy - zz + ww
        r10 = 2.0 * (xy + zw)
        r20 = 2.0 * (xz - yw)
        r01 = 2.0 * (xy - zw)
        r11 = yy - xx - zz + ww
        r21 = 2.0 * (yz + xw)
        vx = t[state + i]
        vy = t[state + LANES + i]
        vz = t[state + 2 * LANES + i]
        ux = vx - t[_AIR_X + i]
        uy = vy - t[_AIR_Y + i]
        uz = vz - t[_AIR_Z + i]
        bx = r00 * ux + r10 * uy + r20 * uz
        by = r01 * ux + r11 * uy + r21 * uz
        bz = r02 * ux + r12 * uy + r22 * uz
        per_kg = t[_DENSITY + i] * _PER_SEA_LEVEL * per_mass
        fx = -per_kg * ((l1 + s1 * abs(bx) + k1 * bx * bx) * bx)
        fy = -per_kg * ((l2 + s2 * abs(by) + k2 * by * by) * by)
        push += per_kg * (lift * (bx * bx + by * by) - (l3 + s3 * abs(bz) + k3 * bz * bz) * bz)
        ax += r00 * fx + r01 * fy
        ay += r10 * fx + r11 * fy
        az += r20 * fx + r21 * fy
    ox = 0.5 * wx
    oy = 0.5 * wy
    oz = 0.5 * wz
    return (
        ax + r02 * push,
        ay + r12 * push,
        az + r22 * push,
        qw * ox + qy * oz - qz * oy,
        qw * oy + qz * ox - qx * oz,
        qw * oz + qx * oy - qy * ox,
        -(qx * ox + qy * oy + qz * oz),
        t[time + LANES + i] - gx * (wy * wz),
        t[time + 2 * LANES + i] - gy * (wz * wx),
        t[time + 3 * LANES + i] - gz * (wx * wy),
    )


@compiled(inline=True)
def _put(t: Any, row: Any, k: Any) -> Any:
    """Write ten numbers into the rows from ``row`` on, at a lane."""
    t[row], t[row + LANES], t[row + 2 * LANES], t[row + 3 * LANES], t[row + 4 * LANES] = (
        k[0],
        k[1],
        k[2],
        k[3],
        k[4],
    )
    (
        t[row + 5 * LANES],
        t[row + 6 * LANES],
        t[row + 7 * LANES],
        t[row + 8 * LANES],
        t[row + 9 * LANES],
    ) = (
        k[5],
        k[6],
        k[7],
        k[8],
        k[9],
    )


@compiled(inline=True)
def _go(t: Any, row: Any, origin: Any, h: Any, k: Any) -> Any:
    """Set rows from ``row`` on = those from ``origin`` on + h k, at a lane."""
    t[row] = t[origin] + h * k[0]
    t[row + LANES] = t[origin + LANES] + h * k[1]
    t[row + 2 * LANES] = t[origin + 2 * LANES] + h * k[2]
    t[row + 3 * LANES] = t[origin + 3 * LANES] + h * k[3]
    t[row + 4 * LANES] = t[origin + 4 * LANES] + h * k[4]
    t[row + 5 * LANES] = t[origin + 5 * LANES] + h * k[5]
    t[row + 6 * LANES] = t[origin + 6 * LANES] + h * k[6]
    t[row + 7 * LANES] = t[origin + 7 * LANES] + h * k[7]
    t[row + 8 * LANES] = t[origin + 8 * LANES] + h * k[8]
    t[row + 9 * LANES] = t[origin + 9 * LANES] + h * k[9]


@compiled(inline=True)
def _constants(p: Any) -> Any:
    """Return what :func:`_slopes` needs of the parameters."""
    jx = p[_BODY + 1]
    jy = p[_BODY + 2]
    jz = p[_BODY + 3]
    gx = (jz - jy) * p[_BODY + 4]
    gy = (jx - jz) * p[_BODY + 5]
    gz = (jy - jx) * p[_BODY + 6]
    l1 = p[_DRAG]
    l2 = p[_DRAG + 1]
    l3 = p[_DRAG + 2]
    s1 = p[_DRAG + 3]
    s2 = p[_DRAG + 4]
    s3 = p[_DRAG + 5]
    k1 = p[_DRAG + 6]
    k2 = p[_DRAG + 7]
    k3 = p[_DRAG + 8]
    lift = p[_DRAG + 9]
    return p[_BODY], gx, gy, gz, l1, l2, l3, s1, s2, s3, k1, k2, k3, lift


@compiled(inline=True)
def _rk4(t: Any, p: Any, h: Any, dragged: Any) -> Any:
    """Step a tile after its wrenches; ``dragged`` is a constant: each kernel has one branch of it.

    One loop a stage: the numbers of a loop fit the registers, and the processor works on several
    lanes' at once.
    """
    constants = _constants(p)
    half = 0.5 * h
    sixth = h / 6.0
    for i in range(LANES):
        k = _slopes(t, i, _VX, _FIRST, constants, dragged)
        _put(t, _OUTER + i, k)
        _go(t, _STAGE + i, _VX + i, half, k)
    for i in range(LANES):
        k = _slopes(t, i, _STAGE, _MIDDLE, constants, dragged)
        _put(t, _INNER + i, k)
        _go(t, _STAGE + i, _VX + i, half, k)
    for i in range(LANES):
        k = _slopes(t, i, _STAGE, _MIDDLE, constants, dragged)
        _go(t, _INNER + i, _INNER + i, 1.0, k)
        _go(t, _STAGE + i, _VX + i, h, k)
    for i in range(3 * LANES):
        # The slopes of the position are the velocities of the stages, so it needs no stages of its
        # own.
        t[_PX + i] += h * (t[_VX + i] + sixth * (t[_OUTER + i] + t[_INNER + i]))
    for i in range(LANES):
        k = _slopes(t, i, _STAGE, _LAST, constants, dragged)
        _go(t, _OUTER + i, _OUTER + i, 1.0, k)
    for i in range(10 * LANES):
        t[_VX + i] += sixth * (t[_OUTER + i] + 2.0 * t[_INNER + i])
    for i in range(LANES):
        qx = t[_QX + i]
        qy = t[_QY + i]
        qz = t[_QZ + i]
        qw = t[_QW + i]
        per_length = 1.0 / math.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
        t[_QX + i] = qx * per_length
        t[_QY + i] = qy * per_length
        t[_QZ + i] = qz * per_length
        t[_QW + i] = qw * per_length


@compiled()
def _substep_dragged(t: Any, p: Any, h: Any, early: Any, midway: Any, late: Any) -> Any:
    _wrenches(t, p, early, midway, late)
    _rk4(t, p, h, True)


@compiled()
def _substep_free(t: Any, p: Any, h: Any, early: Any, midway: Any, late: Any) -> Any:
    _wrenches(t, p, early, midway, late)
    _rk4(t, p, h, False)


@compiled()
def _substep_mixed(t: Any, p: Any, h: Any) -> Any:
    _wrenches_mixed(t, p, h)
    _rk4(t, p, h, True)


@compiled()
def substep(t: Any, p: Any, h: Any, early: Any, midway: Any, late: Any) -> Any:
    """Make one step of RK4 of a tile over h seconds; the fades are those of ``motor_fades``."""
    if p[_MIXED] > 0.0:
        _substep_mixed(t, p, h)
    elif p[_DRAGGED] > 0.0:
        _substep_dragged(t, p, h, early, midway, late)
    else:
        _substep_free(t, p, h, early, midway, late)
    flush_rows(t, 0, COLUMNS)


@compiled()
def step(x: Any, u: Any, around: Any, p: Any, rates: Any, h: Any, fades: Any, count: Any) -> Any:
    """Advance states x (n, 17) in place by ``count`` sub-steps of h seconds.

    u are commands (n, 4): thrusts, or with ``rates`` collective thrust over mass and body rates.
    around is (n, 12), p of ``FlightmareQuadrotor.packed``, fades of ``motor_fades``.
    """
    t = np.empty(TILE)
    for first in range(0, x.shape[0], LANES):
        gather(t, 0, x, 0, COLUMNS, first)
        gather(t, _COMMAND, u, 0, 4, first)
        gather(t, TARGET, u, 0, 4, first)
        gather(t, AROUND, around, 0, 12, first)
        if not rates:
            rotor_targets(t, p)
        for _ in range(count):
            if rates:
                _rate_thrusts(t, p)
                rotor_targets(t, p)
            substep(t, p, h, fades[0], fades[1], fades[2])
        scatter(t, 0, x, 0, COLUMNS, first)


@compiled()
def truth(
    x: Any,
    around: Any,
    own: Any,
    p: Any,
    v: Any,
    a: Any,
    q: Any,
    w: Any,
    alpha: Any,
    f: Any,
    speeds: Any,
) -> Any:
    """Write what sensors measure: the arrays of a ``TrueState``, from ``p`` on.

    ``own`` are parameters.
    """
    constants = _constants(own)
    curve = (own[_MAP], own[_MAP + 1], own[_MAP + 2], own[_LIMITS], own[_LIMITS + 1])
    t = np.empty(TILE)
    for first in range(0, x.shape[0], LANES):
        gather(t, 0, x, 0, COLUMNS, first)
        gather(t, AROUND, around, 0, 12, first)
        for k in range(4 * LANES):
            t[_FIRST + k] = 0.0
        for rotor in range(4):
            at = _ROTORS + rotor
            effects = (own[_SCALE + rotor], own[at], own[at + 4], own[at + 8])
            for i in range(LANES):
                _push(t, _FIRST + i, t[_O1 + rotor * LANES + i], curve, effects)
        for i in range(LANES):
            _divide(t, own, _FIRST, i)
            _base(t, i, own[_BODY])
            _put(t, _STAGE + i, _slopes(t, i, _VX, _FIRST, constants, True))
        scatter(t, _O1, speeds, 0, 4, first)
        scatter(t, _STAGE, a, 0, 3, first)
        scatter(t, _STAGE + 7 * LANES, alpha, 0, 3, first)
        put_truth(x, around, p, v, a, q, w, f, first)
