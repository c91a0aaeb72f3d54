"""Compiled simple_flight for a tile of vehicles.

:func:`vil_simulation.vehicles.airsim.simple_flight.cascade`.
"""

from __future__ import annotations

import math
from typing import Any, Final

from vil_bridge.core.compile import LANES, compiled
from vil_simulation.vehicles.airsim import kernel_layout as at
from vil_simulation.vehicles.airsim.simple_flight import EXPIRED_S, FADING, HOLDING_S
from vil_simulation.vehicles.elementary_kernel import arcsin, arctan2, sin_cos

_ROTORS, _RATES, _ATTITUDE, _VELOCITY, _POSITION = range(5)
_TURN: Final = math.tau


@compiled()
def _clip(value: Any, most: Any) -> Any:
    return max(min(value, most), -most)


@compiled()
def _wrapped(angle: Any) -> Any:
    return angle - _TURN * math.floor(angle / _TURN + 0.5)


@compiled(inline=True)
def _euler(x: Any, y: Any, z: Any, w: Any) -> Any:
    """Return roll, pitch and yaw of an attitude."""
    roll = arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = arcsin(_clip(2.0 * (w * y - z * x), 1.0))
    yaw = arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return roll, pitch, yaw


@compiled(inline=True)
def _time_out(t: Any, i: Any, h: Any, px: Any, py: Any, pz: Any, yaw: Any, forgets: Any) -> Any:
    """Count down a lane's command.

    Return True if it timed out, then the position and heading to hold.

    ``forgets``: the climb loop's integral begins again then.
    """
    left = t[at.LEFT + i]
    holding = left <= EXPIRED_S
    now = holding and left > HOLDING_S
    t[at.LEFT + i] = HOLDING_S if holding else left - h
    gx = t[at.HOLD + i] = px if now else t[at.HOLD + i]
    gy = t[at.HOLD + LANES + i] = py if now else t[at.HOLD + LANES + i]
    gz = t[at.HOLD + 2 * LANES + i] = pz if now else t[at.HOLD + 2 * LANES + i]
    heading = t[at.HOLD_YAW + i] = yaw if now else t[at.HOLD_YAW + i]
    t[at.HOLDING + i] = 1.0 if holding else 0.0
    t[at.INTEGRAL + i] = 0.0 if now and forgets else t[at.INTEGRAL + i]
    return holding, gx, gy, gz, heading


@compiled(inline=True)
def _goal_velocity(
    level: Any, holding: Any, command: Any, goal: Any, p: Any, gains: Any, speed: Any
) -> Any:
    """Return world velocity that a lane shall have."""
    c0, c1, c2 = command
    gx, gy, gz = goal
    px, py, pz = p
    kx, ky, kz = gains
    if level == _POSITION:
        gx = gx if holding else c0
        gy = gy if holding else c1
        gz = gz if holding else c2
    vx = speed * _clip(kx * (gx - px), 1.0)
    vy = speed * _clip(ky * (gy - py), 1.0)
    vz = speed * _clip(kz * (gz - pz), 1.0)
    if level == _VELOCITY:
        vx = vx if holding else c0
        vy = vy if holding else c1
        vz = vz if holding else c2
    return vx, vy, vz


@compiled(inline=True)
def _axes(x: Any, y: Any, z: Any, w: Any) -> Any:
    """Return the body axes ahead, to the left and up of an attitude, each in the world."""
    return (
        (w * w + x * x - y * y - z * z, 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)),
        (2.0 * (x * y - w * z), w * w - x * x + y * y - z * z, 2.0 * (y * z + w * x)),
        (2.0 * (x * z + w * y), 2.0 * (y * z - w * x), w * w - x * x - y * y + z * z),
    )


@compiled(inline=True)
def _compat_error(axes: Any, goal: Any, v: Any, towards: Any) -> Any:
    """Return the error of a velocity along the body axes, as the original has it.

    ``towards`` a position each axis takes only what its own axis of the world gives: ahead y, left
    x, up z.
    """
    (ax, ay, az), (lx, ly, lz), (ux, uy, uz) = axes
    gx, gy, gz = goal
    vx, vy, vz = v
    ahead = ay * gy if towards else ax * gx + ay * gy + az * gz
    left = lx * gx if towards else lx * gx + ly * gy + lz * gz
    up = uz * gz if towards else ux * gx + uy * gy + uz * gz
    return (
        ahead - (ax * vx + ay * vy + az * vz),
        left - (lx * vx + ly * vy + lz * vz),
        up - (ux * vx + uy * vy + uz * vz),
    )


@compiled()
def _demand(t: Any, p: Any, h: Any) -> Any:
    """Run the loops down to the mixer.

    Write demands, throttle, timed-out commands and the controller's state.
    """
    level = int(p[at.MODE])
    position_p = p[at.POSITION_P], p[at.POSITION_P + 1], p[at.POSITION_P + 2]
    ahead_p = p[at.VELOCITY_P]
    left_p = p[at.VELOCITY_P + 1]
    climb_p = p[at.VELOCITY_P + 2]
    climb_i = p[at.CLIMB_I]
    angles = p[at.ANGLE_P :]
    rates = p[at.RATE_P :]
    speed = p[at.LIMITS]
    lean = p[at.LIMITS + 1]
    turn = p[at.LIMITS + 2]
    least = p[at.LIMITS + 3]
    compat = p[at.COMPAT] > 0.5
    keeps = FADING if compat else 1.0
    forgets = compat and level != _POSITION
    yaw_row = at.COMMAND + 3 * LANES
    for i in range(LANES):
        roll, pitch, yaw = _euler(
            t[at.Q + i], t[at.Q + LANES + i], t[at.Q + 2 * LANES + i], t[at.Q + 3 * LANES + i]
        )
        px = t[at.P + i]
        py = t[at.P + LANES + i]
        pz = t[at.P + 2 * LANES + i]
        holding, gx, gy, gz, heading = _time_out(t, i, h, px, py, pz, yaw, forgets)
        c0 = t[at.COMMAND + i]
        c1 = t[at.COMMAND + LANES + i]
        c2 = t[at.COMMAND + 2 * LANES + i]
        vx, vy, vz = _goal_velocity(
            level, holding, (c0, c1, c2), (gx, gy, gz), (px, py, pz), position_p, speed
        )
        if compat:
            axes = _axes(
                t[at.Q + i], t[at.Q + LANES + i], t[at.Q + 2 * LANES + i], t[at.Q + 3 * LANES + i]
            )
            v = t[at.V + i], t[at.V + LANES + i], t[at.V + 2 * LANES + i]
            ahead, left, up = _compat_error(axes, (vx, vy, vz), v, holding or level != _VELOCITY)
        else:
            vx -= t[at.V + i]
            vy -= t[at.V + LANES + i]
            up = vz - t[at.V + 2 * LANES + i]
            sin, cos = sin_cos(yaw)
            ahead = cos * vx + sin * vy
            left = cos * vy - sin * vx
        roll_goal = lean * _clip(-left_p * left, 1.0)
        pitch_goal = lean * _clip(ahead_p * ahead, 1.0)
        integral = _clip(t[at.INTEGRAL + i] * keeps + climb_i * h * up, 1.0)
        throttle = max(0.5 * (_clip(climb_p * up + integral, 1.0) + 1.0), least)
        if level < _VELOCITY:
            integral = integral if holding else 0.0
        t[at.INTEGRAL + i] = integral
        if level == _ATTITUDE:
            roll_goal = roll_goal if holding else c0
            pitch_goal = pitch_goal if holding else c1
            throttle = throttle if holding else c2
        if level == _RATES:
            throttle = throttle if holding else t[at.COMMAND + 3 * LANES + i]
        if level >= _ATTITUDE:
            heading = heading if holding else t[yaw_row + i]
        roll_rate = turn * _clip(angles[0] * _wrapped(_clip(roll_goal, lean) - roll), 1.0)
        pitch_rate = turn * _clip(angles[1] * _wrapped(_clip(pitch_goal, lean) - pitch), 1.0)
        yaw_rate = turn * _clip(angles[2] * _wrapped(heading - yaw), 1.0)
        if level >= _ATTITUDE:
            by_rate = not holding and t[yaw_row + 2 * LANES + i] > 0.5
            yaw_rate = t[yaw_row + LANES + i] if by_rate else yaw_rate
        if compat and holding:
            yaw_rate = 0.0
        if level == _RATES:
            roll_rate = roll_rate if holding else c0
            pitch_rate = pitch_rate if holding else c1
            yaw_rate = yaw_rate if holding else c2
        t[at.DEMAND + i] = _clip(rates[0] * (_clip(roll_rate, turn) - t[at.W + i]), 1.0)
        t[at.DEMAND + LANES + i] = _clip(
            rates[1] * (_clip(pitch_rate, turn) - t[at.W + LANES + i]), 1.0
        )
        t[at.DEMAND + 2 * LANES + i] = _clip(
            rates[2] * (_clip(yaw_rate, turn) - t[at.W + 2 * LANES + i]), 1.0
        )
        t[at.THROTTLE + i] = throttle


@compiled()
def cascade(t: Any, p: Any, h: Any, commanded: Any, wanted: Any) -> Any:
    """Write the wanted controls of the rotors into rows from ``wanted``.

    ``commanded``: those of mode rotors.
    """
    rotors = int(p[at.COUNT])
    servos = int(p[at.SERVOS])
    direct = int(p[at.MODE]) == _ROTORS
    _demand(t, p, h)
    for i in range(LANES):
        t[at.LOWEST + i] = 0.0
        t[at.HIGHEST + i] = 1.0
    for rotor in range(rotors):
        mixing = at.TILTS + at.TILT_SIZE * servos + at.ROTOR_SIZE * rotor + 21
        a = p[mixing]
        b = p[mixing + 1]
        c = p[mixing + 2]
        row = wanted + rotor * LANES
        for i in range(LANES):
            demand = (
                a * t[at.DEMAND + i]
                + b * t[at.DEMAND + LANES + i]
                + c * t[at.DEMAND + 2 * LANES + i]
            )
            t[row + i] = t[at.THROTTLE + i] + demand
            t[at.LOWEST + i] = min(t[at.LOWEST + i], t[row + i])
    for rotor in range(rotors):
        row = wanted + rotor * LANES
        for i in range(LANES):
            t[row + i] -= t[at.LOWEST + i]
            t[at.HIGHEST + i] = max(t[at.HIGHEST + i], t[row + i])
    angling = p[at.LIMITS + 4]
    for rotor in range(rotors):
        row = wanted + rotor * LANES
        ask = commanded + rotor * LANES
        most = p[at.TILTS + at.TILT_SIZE * servos + at.ROTOR_SIZE * rotor + 24]
        for i in range(LANES):
            throttle = t[at.THROTTLE + i]
            control = throttle if throttle < angling else t[row + i] / t[at.HIGHEST + i]
            control = t[ask + i] if direct and t[at.HOLDING + i] == 0.0 else control
            t[row + i] = max(min(control, most), 0.0)
