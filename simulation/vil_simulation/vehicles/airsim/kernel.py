"""AirSim's multirotor, compiled: tiles of 16 vehicles.

See :mod:`vil_simulation.vehicles.airsim.model`.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from vil_bridge.core.compile import LANES, compiled
from vil_simulation.vehicles.airsim import kernel_layout as at
from vil_simulation.vehicles.airsim.airframes import MIN_DRAG_SPEED_MPS
from vil_simulation.vehicles.airsim.kernel_control import cascade
from vil_simulation.vehicles.disturbances import SEA_LEVEL_DENSITY_KGPM3
from vil_simulation.vehicles.elementary_kernel import exp, sin_cos
from vil_simulation.vehicles.kernel_tiles import flush_rows, gather, put_truth, scatter

_PER_SEA_LEVEL: Final = 1.0 / SEA_LEVEL_DENSITY_KGPM3


@compiled()
def _wrench(t: Any, p: Any, controls: Any, tilts: Any, trig: Any) -> Any:
    """Force and torque of all rotors into their rows."""
    rotors = int(p[at.COUNT])
    servos = int(p[at.SERVOS])
    for row in range(servos):
        for i in range(LANES):
            sine, cosine = sin_cos(t[tilts + row * LANES + i])
            t[trig + 2 * row * LANES + i] = cosine
            t[trig + (2 * row + 1) * LANES + i] = sine
    for i in range(6 * LANES):
        t[at.FORCE + i] = 0.0
    for rotor in range(rotors):
        r = p[at.TILTS + at.TILT_SIZE * servos + at.ROTOR_SIZE * rotor :]
        cosines = trig + 2 * int(r[20]) * LANES
        row = controls + rotor * LANES
        for i in range(LANES):
            air = t[row + i] * (t[at.DENSITY + i] * _PER_SEA_LEVEL)
            cos = t[cosines + i]
            sin = t[cosines + LANES + i]
            rx = r[0] + r[3] * cos + r[6] * sin
            ry = r[1] + r[4] * cos + r[7] * sin
            rz = r[2] + r[5] * cos + r[8] * sin
            nx = r[9] + r[12] * cos + r[15] * sin
            ny = r[10] + r[13] * cos + r[16] * sin
            nz = r[11] + r[14] * cos + r[17] * sin
            thrust = air * t[at.FACTOR + i] * r[18]
            turning = air * r[19]
            fx = thrust * nx
            fy = thrust * ny
            fz = thrust * nz
            t[at.FORCE + i] += fx
            t[at.FORCE + LANES + i] += fy
            t[at.FORCE + 2 * LANES + i] += fz
            t[at.TORQUE + i] += ry * fz - rz * fy + turning * nx
            t[at.TORQUE + LANES + i] += rz * fx - rx * fz + turning * ny
            t[at.TORQUE + 2 * LANES + i] += rx * fy - ry * fx + turning * nz


@compiled(inline=True)
def _rotation(x: Any, y: Any, z: Any, w: Any) -> Any:
    """Return rows of the matrix of a unit quaternion."""
    return (
        (w * w + x * x - y * y - z * z, 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), w * w - x * x + y * y - z * z, 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), w * w - x * x - y * y + z * z),
    )


@compiled()
def _drag(speed: Any, factor: Any) -> Any:
    """Return the drag of the windward one of two faces."""
    return -factor * (speed * abs(speed) if abs(speed) > MIN_DRAG_SPEED_MPS else 0.0)


@compiled()
def _accelerate(t: Any, p: Any, q: Any, v: Any, w: Any, a: Any, alpha: Any) -> Any:
    """Write accelerations into the rows a and alpha, from attitude, velocity and rates in the
    rows q, v, w.
    """
    per_mass = 1.0 / p[at.MASS]
    jx = p[at.INERTIA]
    jy = p[at.INERTIA + 1]
    jz = p[at.INERTIA + 2]
    kx = p[at.DRAG]
    ky = p[at.DRAG + 1]
    kz = p[at.DRAG + 2]
    for i in range(LANES):
        rows = _rotation(t[q + i], t[q + LANES + i], t[q + 2 * LANES + i], t[q + 3 * LANES + i])
        (r00, r01, r02), (r10, r11, r12), (r20, r21, r22) = rows
        vx = t[v + i] - t[at.AROUND + i]
        vy = t[v + LANES + i] - t[at.AROUND + LANES + i]
        vz = t[v + 2 * LANES + i] - t[at.AROUND + 2 * LANES + i]
        density = t[at.DENSITY + i]
        fx = t[at.FORCE + i] + density * _drag(r00 * vx + r10 * vy + r20 * vz, kx)
        fy = t[at.FORCE + LANES + i] + density * _drag(r01 * vx + r11 * vy + r21 * vz, ky)
        fz = t[at.FORCE + 2 * LANES + i] + density * _drag(r02 * vx + r12 * vy + r22 * vz, kz)
        outside = at.AROUND + 3 * LANES + i
        t[a + i] = (r00 * fx + r01 * fy + r02 * fz + t[outside]) * per_mass
        t[a + LANES + i] = (r10 * fx + r11 * fy + r12 * fz + t[outside + LANES]) * per_mass
        t[a + 2 * LANES + i] = (
            r20 * fx + r21 * fy + r22 * fz + t[outside + 2 * LANES]
        ) * per_mass - t[at.GRAVITY + i]
        wx = t[w + i]
        wy = t[w + LANES + i]
        wz = t[w + 2 * LANES + i]
        t[alpha + i] = (
            t[at.TORQUE + i] + t[outside + 3 * LANES] - (wy * jz * wz - wz * jy * wy)
        ) / jx
        t[alpha + LANES + i] = (
            t[at.TORQUE + LANES + i] + t[outside + 4 * LANES] - (wz * jx * wx - wx * jz * wz)
        ) / jy
        t[alpha + 2 * LANES + i] = (
            t[at.TORQUE + 2 * LANES + i] + t[outside + 5 * LANES] - (wx * jy * wy - wy * jx * wx)
        ) / jz


@compiled()
def _lag_rotors(t: Any, keep: Any, controls: Any, wanted: Any) -> Any:
    """Move rows of controls towards those wanted.

    ``keep``: the remaining share of each rotor's difference.
    """
    for rotor in range(keep.size):
        share = keep[rotor]
        row = controls + rotor * LANES
        goal = wanted + rotor * LANES
        for i in range(LANES):
            t[row + i] = t[goal + i] + share * (t[row + i] - t[goal + i])


@compiled()
def _lag_servos(t: Any, p: Any, h: Any, tilts: Any, angles: Any) -> Any:
    """Move rows of servo angles towards those commanded."""
    for servo in range(int(p[at.SERVOS])):
        tau = at.TILTS + at.TILT_SIZE * servo
        keep = exp(-h / p[tau])
        low = p[tau + 1]
        high = p[tau + 2]
        for i in range(servo * LANES, (servo + 1) * LANES):
            goal = max(min(t[angles + i], high), low)
            t[tilts + i] = goal + keep * (t[tilts + i] - goal)


@compiled()
def _predict(t: Any, h: Any, ahead: Any) -> Any:
    """Predict the attitude at the step's end, and velocity and rates where its second forces are
    taken.
    """
    for i in range(LANES):
        wx = t[at.W + i] + 0.5 * h * t[at.ALPHA + i]
        wy = t[at.W + LANES + i] + 0.5 * h * t[at.ALPHA + LANES + i]
        wz = t[at.W + 2 * LANES + i] + 0.5 * h * t[at.ALPHA + 2 * LANES + i]
        half = 0.5 * h * math.sqrt(wx * wx + wy * wy + wz * wz)
        sine, bw = sin_cos(half)
        scale = 0.5 * h * (sine / half if half > 0.0 else 1.0)
        bx = scale * wx
        by = scale * wy
        bz = scale * wz
        x = t[at.Q + i]
        y = t[at.Q + LANES + i]
        z = t[at.Q + 2 * LANES + i]
        w = t[at.Q + 3 * LANES + i]
        qx = w * bx + x * bw + y * bz - z * by
        qy = w * by - x * bz + y * bw + z * bx
        qz = w * bz + x * by - y * bx + z * bw
        qw = w * bw - x * bx - y * by - z * bz
        per_length = 1.0 / math.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
        t[at.Q1 + i] = qx * per_length
        t[at.Q1 + LANES + i] = qy * per_length
        t[at.Q1 + 2 * LANES + i] = qz * per_length
        t[at.Q1 + 3 * LANES + i] = qw * per_length
    for i in range(3 * LANES):
        t[at.V1 + i] = t[at.V + i] + ahead * t[at.A + i]
        t[at.W1 + i] = t[at.W + i] + ahead * t[at.ALPHA + i]


@compiled()
def _move(t: Any, p: Any, h: Any) -> Any:
    """Move rigid bodies to the step's end; grounded vehicles stay."""
    mass = p[at.MASS]
    for i in range(LANES):
        free = t[at.GROUNDED + i] < 0.5
        fx = t[at.FORCE + i]
        fy = t[at.FORCE + LANES + i]
        fz = t[at.FORCE + 2 * LANES + i]
        weight = mass * t[at.GRAVITY + i]
        stays = fx * fx + fy * fy + fz * fz < weight * weight
        t[at.GROUNDED + i] = t[at.GROUNDED + i] if stays else 0.0
        for row in range(0, 3 * LANES, LANES):
            k = row + i
            t[at.P + k] = t[at.P + k] + (h * (t[at.V + k] + 0.5 * h * t[at.A + k]) if free else 0.0)
            t[at.V + k] = t[at.V + k] + 0.5 * h * (t[at.A + k] + t[at.A1 + k]) if free else 0.0
            t[at.W + k] = (
                t[at.W + k] + 0.5 * h * (t[at.ALPHA + k] + t[at.ALPHA1 + k]) if free else 0.0
            )
            t[at.A + k] = t[at.A1 + k] if free else 0.0
            t[at.ALPHA + k] = t[at.ALPHA1 + k] if free else 0.0
        for row in range(0, 4 * LANES, LANES):
            t[at.Q + row + i] = t[at.Q1 + row + i] if free else t[at.Q + row + i]


@compiled()
def advance(x: Any, u: Any, around: Any, p: Any, h: Any, steps: Any) -> Any:
    """Advance states x in place by equal steps of h seconds.

    P are parameters as :mod:`kernel_layout` places them.
    """
    rotors = int(p[at.COUNT])
    servos = int(p[at.SERVOS])
    asked = u.shape[1] - servos
    as_airsim = p[at.COMPAT] != 0.0
    # Columns of a state between rigid body and accelerations: controls, servo angles, with compat
    # outputs.
    between = rotors + servos + (rotors if as_airsim else 0)
    controls = at.VARYING
    tilts = controls + rotors * LANES
    outputs = tilts + servos * LANES
    commanded = controls + between * LANES
    angles = commanded + rotors * LANES
    wanted = angles + servos * LANES
    trig = wanted + rotors * LANES
    # Rotors without a servo read the first one's row, times 0.
    t = np.zeros(trig + 2 * max(servos, 1) * LANES)
    keep = np.empty(rotors)
    for rotor in range(rotors):
        keep[rotor] = exp(-h / p[at.TILTS + at.TILT_SIZE * servos + at.ROTOR_SIZE * rotor + 25])
    for first in range(0, x.shape[0], LANES):
        gather(t, 0, x, 0, at.RIGID, first)
        gather(t, controls, x, at.RIGID, between, first)
        gather(t, at.RIGID * LANES, x, at.RIGID + between, at.STATE - at.RIGID, first)
        gather(t, commanded if p[at.MODE] == 0.0 else at.COMMAND, u, 0, asked, first)
        gather(t, angles, u, asked, servos, first)
        gather(t, at.AROUND, around, 0, 12, first)
        for _ in range(steps):
            cascade(t, p, h, commanded, wanted)
            if not as_airsim:
                _wrench(t, p, controls, tilts, trig)
                _accelerate(t, p, at.Q, at.V, at.W, at.A, at.ALPHA)
            _predict(t, h, 0.5 * h if as_airsim else h)
            _lag_servos(t, p, h, tilts, angles)
            if as_airsim:
                _wrench(t, p, outputs, tilts, trig)
                for i in range(rotors * LANES):
                    t[outputs + i] = t[controls + i]
            _lag_rotors(t, keep, controls, wanted)
            if not as_airsim:
                _wrench(t, p, controls, tilts, trig)
            _accelerate(t, p, at.Q if as_airsim else at.Q1, at.V1, at.W1, at.A1, at.ALPHA1)
            _move(t, p, h)
            flush_rows(t, 0, at.STATE)
            flush_rows(t, controls, between)
        scatter(t, 0, x, 0, at.RIGID, first)
        scatter(t, controls, x, at.RIGID, between, first)
        scatter(t, at.RIGID * LANES, x, at.RIGID + between, at.STATE - at.RIGID, first)


@compiled()
def truth(
    x: Any,
    around: Any,
    max_radps: Any,
    controls: Any,
    accelerations: Any,
    p: Any,
    v: Any,
    a: Any,
    q: Any,
    w: Any,
    alpha: Any,
    f: Any,
    speeds: Any,
) -> None:
    """Write what sensors measure: the arrays of a ``TrueState``, from ``p`` on.

    ``controls`` and ``accelerations`` are the columns of x (n, dx) at which the controls that push
    and both accelerations begin; max_radps is (rotors,).
    """
    for first in range(0, x.shape[0], LANES):
        for i in range(first, min(first + LANES, x.shape[0])):
            for k in range(3):
                a[i, k], alpha[i, k] = x[i, accelerations + k], x[i, accelerations + 3 + k]
            for k in range(max_radps.size):
                speeds[i, k] = math.sqrt(x[i, controls + k]) * max_radps[k]
        put_truth(x, around, p, v, a, q, w, f, first)
