"""A step of the hover task, compiled in one piece.

Thrusts, dynamics, reward, ends, new starts, observation.

See :mod:`vil_simulation.vehicles.envs.hover`, which is the reference. Rows of a tile are those of
the vehicle's kernel, then the action 4, reward, whether the task ended, and the distance from the
goal.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from vil_bridge.core.compile import LANES, compiled
from vil_bridge.core.random.kernel import normal_of, philox4x32, unit_interval
from vil_simulation.vehicles.elementary_kernel import exp
from vil_simulation.vehicles.flightmare.kernel import (
    AROUND,
    COLUMNS,
    PARAMETERS,
    TARGET,
    TILE,
    rotor_targets,
    substep,
)

OBSERVED: Final = 18
"""Columns of an observation."""
AUTORESET: Final = {"disabled": 0, "same_step": 1, "next_step": 2}
"""Numbers of the modes for :func:`step`."""

_ACTION: Final = TILE
_REWARD: Final = _ACTION + 4 * LANES
_ENDED: Final = _REWARD + LANES
_DISTANCE: Final = _ENDED + LANES
_SIZE: Final = _DISTANCE + LANES

_PX, _PY, _PZ, _VX, _VY, _VZ, _QX, _QY, _QZ, _QW, _WX, _WY, _WZ = range(0, 13 * LANES, LANES)
_A1, _A2, _A3, _A4 = range(_ACTION, _REWARD, LANES)
_DX, _DY, _DZ, _R = range(0, 4 * LANES, LANES)
_OBS_V: Final = 12 * LANES
_OBS_W: Final = 15 * LANES
_STEP: Final = PARAMETERS
_WEIGHT, _LIMIT, _GOAL, _FLOOR, _FASTEST, _WEIGHTS, _CALM = (
    _STEP + place for place in (4, 5, 6, 9, 10, 11, 18)
)
_MODE: Final = _CALM + 12
# Distance and rates that end an episode, scale of nearness; of the reward near.
_NEAR: Final = _MODE + 1
_SAME_STEP = AUTORESET["same_step"]
_NEXT_STEP = AUTORESET["next_step"]
_ONE = np.uintp(1)
_TWO = np.uintp(2)
_THREE = np.uintp(3)
_EXPONENT: Final = np.uint64(0x7FF0000000000000)
_LEAST_EXPONENT: Final = np.uint64(1 << 52)
_SIGN: Final = np.uint64(1 << 63)
_MASK: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


@compiled()
def _all_finite(values: Any) -> Any:
    """Return True if all numbers of an array (n, 4) are finite.

    No exponent of infinities and NaNs.
    """
    bits = values.reshape(values.size).view(np.uint64)
    carry = np.uint64(0)
    for place in range(bits.size):
        carry |= (bits[place] & _EXPONENT) + _LEAST_EXPONENT
    return carry < _SIGN


@compiled()
def _command(t: Any, weight_n: Any) -> Any:
    """Write thrusts of the actions into the target rows."""
    for i in range(4 * LANES):
        action = max(min(t[_ACTION + i], 1.0), -1.0)
        t[_ACTION + i] = action
        t[TARGET + i] = weight_n * (0.25 + 0.5 * action)


@compiled()
def _observe(t: Any, single: Any, c: Any) -> Any:
    """Write observations (18 rows) of a tile, reward, whether the task ended, and the distance
    from the goal.
    """
    goal_x = c[_GOAL]
    goal_y = c[_GOAL + 1]
    goal_z = c[_GOAL + 2]
    floor = c[_FLOOR]
    fastest = c[_FASTEST]
    position = c[_WEIGHTS]
    attitude = 4.0 * c[_WEIGHTS + 1]
    velocity = c[_WEIGHTS + 2]
    rates = c[_WEIGHTS + 3]
    action = c[_WEIGHTS + 4]
    alive = c[_WEIGHTS + 5]
    end = c[_WEIGHTS + 6]
    for i in range(LANES):
        qx = t[_QX + i]
        qy = t[_QY + i]
        qz = t[_QZ + i]
        qw = t[_QW + i]
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
        dx = t[_PX + i] - goal_x
        dy = t[_PY + i] - goal_y
        dz = t[_PZ + i] - goal_z
        vx = t[_VX + i]
        vy = t[_VY + i]
        vz = t[_VZ + i]
        wx = t[_WX + i]
        wy = t[_WY + i]
        wz = t[_WZ + i]
        single[_DX + i] = dx
        single[_DY + i] = dy
        single[_DZ + i] = dz
        single[_R + i] = xx - yy - zz + ww
        single[_R + LANES + i] = 2.0 * (xy + zw)
        single[_R + 2 * LANES + i] = 2.0 * (xz - yw)
        single[_R + 3 * LANES + i] = 2.0 * (xy - zw)
        single[_R + 4 * LANES + i] = yy - xx - zz + ww
        single[_R + 5 * LANES + i] = 2.0 * (yz + xw)
        single[_R + 6 * LANES + i] = 2.0 * (xz + yw)
        single[_R + 7 * LANES + i] = 2.0 * (yz - xw)
        single[_R + 8 * LANES + i] = zz - xx - yy + ww
        single[_OBS_V + i] = vx
        single[_OBS_V + LANES + i] = vy
        single[_OBS_V + 2 * LANES + i] = vz
        single[_OBS_W + i] = wx
        single[_OBS_W + LANES + i] = wy
        single[_OBS_W + 2 * LANES + i] = wz
        a1 = t[_A1 + i]
        a2 = t[_A2 + i]
        a3 = t[_A3 + i]
        a4 = t[_A4 + i]
        spin = wx * wx + wy * wy + wz * wz
        squares = dx * dx + dy * dy + dz * dz
        t[_DISTANCE + i] = math.sqrt(squares)
        ended = max(1.0 if t[_PZ + i] <= floor else 0.0, 1.0 if spin > fastest else 0.0)
        t[_ENDED + i] = ended
        t[_REWARD + i] = (
            alive
            - position * squares
            - attitude * (xx + yy + zz)
            - velocity * (vx * vx + vy * vy + vz * vz)
            - rates * spin
            - action * math.sqrt(a1 * a1 + a2 * a2 + a3 * a3 + a4 * a4)
            + end * ended
        )


@compiled()
def _judge_near(t: Any, c: Any) -> Any:
    """Write reward and whether the task ended as ``SettleTask`` has them, in place of those of
    :func:`_observe`.
    """
    goal_x = c[_GOAL]
    goal_y = c[_GOAL + 1]
    goal_z = c[_GOAL + 2]
    farthest = c[_NEAR]
    fastest = c[_NEAR + 1]
    scale = c[_NEAR + 2]
    for i in range(LANES):
        dx = t[_PX + i] - goal_x
        dy = t[_PY + i] - goal_y
        dz = t[_PZ + i] - goal_z
        vx = t[_VX + i]
        vy = t[_VY + i]
        vz = t[_VZ + i]
        wx = t[_WX + i]
        wy = t[_WY + i]
        wz = t[_WZ + i]
        a1 = t[_A1 + i]
        a2 = t[_A2 + i]
        a3 = t[_A3 + i]
        a4 = t[_A4 + i]
        squares = dx * dx + dy * dy + dz * dz
        tilting = wx * wx + wy * wy
        near = 0.5 * (exp(-math.sqrt(squares)) + exp(-0.5 * squares / (scale * scale)))
        upright = 1.0 - 2.0 * (t[_QX + i] * t[_QX + i] + t[_QY + i] * t[_QY + i])
        haste = math.sqrt(vx * vx + vy * vy + vz * vz) + min(math.sqrt(tilting + wz * wz), 20.0)
        away = max(abs(dx), abs(dy), abs(dz)) > farthest or t[_PZ + i] <= c[_FLOOR]
        ended = 1.0 if away or math.sqrt(tilting) > fastest or abs(wz) > fastest else 0.0
        action = a1 * a1 + a2 * a2 + a3 * a3 + a4 * a4
        t[_ENDED + i] = ended
        t[_REWARD + i] = 0.1 * (near + 0.1 * upright - 0.02 * haste) - 0.002 * action - ended


@compiled()
def _begin(
    t: Any, lane: Any, c: Any, keys: Any, episode: Any, vehicle: Any, cell: Any, bits: Any
) -> Any:
    """Write the first state of a vehicle's next episode into its lane.

    Numbers of ``NoiseStream``, two per block.
    """
    for row in range(COLUMNS):
        t[row * LANES + lane] = 0.0
    low = episode & _MASK
    high = episode >> _HALF
    for block in range(3):
        a, b, d, e = philox4x32(np.uint64(block), vehicle, low, high, keys[0], keys[1])
        t[(2 * block) * LANES + lane] = 2.0 * unit_interval(a, b) - 1.0
        t[(2 * block + 1) * LANES + lane] = 2.0 * unit_interval(d, e) - 1.0
    for axis in range(3):
        t[_PX + axis * LANES + lane] += c[_GOAL + axis]
    for block in range(2):
        a, b, d, e = philox4x32(np.uint64(block), vehicle, low, high, keys[2], keys[3])
        t[_QX + (2 * block) * LANES + lane] = normal_of(unit_interval(a, b), cell, bits)
        t[_QX + (2 * block + 1) * LANES + lane] = normal_of(unit_interval(d, e), cell, bits)
    qx = t[_QX + lane]
    qy = t[_QY + lane]
    qz = t[_QZ + lane]
    qw = t[_QW + lane]
    length = math.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
    t[_QX + lane] = qx / length
    t[_QY + lane] = qy / length
    t[_QZ + lane] = qz / length
    t[_QW + lane] = qw / length


@compiled()
def _load(t: Any, x: Any, place: Any, actions: Any) -> Any:
    """Load states from column ``place`` on and actions (lanes, 4) of a tile.

    Its first vehicle fills spare lanes.
    """
    lanes = len(actions)
    # Four at a time, so that it becomes one vector: x and t might overlap for all that the compiler
    # knows.
    for column in range(COLUMNS):
        for lane in range(0, LANES, 4):
            source = place + np.uintp(lane)
            a = x[column, source]
            b = x[column, source + _ONE]
            c = x[column, source + _TWO]
            d = x[column, source + _THREE]
            to = column * LANES + lane
            t[to] = a
            t[to + 1] = b
            t[to + 2] = c
            t[to + 3] = d
    for lane in range(lanes):
        for column in range(4):
            t[_ACTION + column * LANES + lane] = actions[lane, column]
    for lane in range(lanes, LANES):
        for column in range(COLUMNS):
            t[column * LANES + lane] = t[column * LANES]
        for column in range(4):
            t[_ACTION + column * LANES + lane] = t[_ACTION + column * LANES]


@compiled()
def _store(t: Any, single: Any, x: Any, place: Any, obs: Any, distance: Any) -> Any:
    """Store states into columns from ``place`` on, observations into rows (lanes, 18) of a tile,
    and distances.
    """
    for column in range(COLUMNS):
        for lane in range(0, LANES, 4):
            source = column * LANES + lane
            a = t[source]
            b = t[source + 1]
            c = t[source + 2]
            d = t[source + 3]
            to = place + np.uintp(lane)
            x[column, to] = a
            x[column, to + _ONE] = b
            x[column, to + _TWO] = c
            x[column, to + _THREE] = d
    for lane in range(len(obs)):
        distance[lane] = t[_DISTANCE + lane]
        for column in range(OBSERVED):
            obs[lane, column] = single[column * LANES + lane]


@compiled()
def _end(
    t: Any, first: Any, lanes: Any, limit: Any, age: Any, reward: Any, flags: Any, mode: Any
) -> Any:
    """Write rewards, ages and ended episodes; return whether :func:`_renew` has anything to do."""
    any_over = False
    for lane in range(lanes):
        row = first + lane
        waited = mode == _NEXT_STEP and flags[2, row] > 0
        years = age[row] + 1
        over = (t[_ENDED + lane] > 0.0) & (not waited)
        late = (years >= limit) & (not over) & (not waited)
        age[row], reward[row] = years, t[_REWARD + lane]
        flags[0, row] = over
        flags[1, row] = late
        flags[2, row] = over | late
        any_over |= over | late | waited
        t[_ENDED + lane] = waited
    return any_over


@compiled()
def _renew(
    t: Any,
    single: Any,
    first: Any,
    lanes: Any,
    c: Any,
    keys: Any,
    counts: Any,
    reward: Any,
    finished: Any,
    last: Any,
    mode: Any,
    cell: Any,
) -> Any:
    """Keep the last observations of episodes that ended, begin those that are due."""
    bits = cell.view(np.int64)
    for lane in range(lanes):
        row = first + lane
        waited = t[_ENDED + lane] > 0.0
        if waited:
            reward[row] = 0.0
        if finished[row]:
            for column in range(OBSERVED):
                last[row, column] = single[column * LANES + lane]
        if waited or (finished[row] and mode == _SAME_STEP):
            counts[0, row] = 0
            counts[1, row] += 1
            _begin(
                t, lane, c, keys, np.uint64(counts[1, row]), np.uint64(counts[2, row]), cell, bits
            )
    _observe(t, single, c)


@compiled(inline=True)
def _parts(memory: Any, n: Any) -> Any:
    """Return parts of a task's memory.

    Keys of random numbers, counts, reward and distance, observations, flags.
    """
    counts_at = 32
    reward_at = 32 + 24 * n
    obs_at = 32 + 40 * n
    flags_at = obs_at + 8 * OBSERVED * n
    return (
        memory[:counts_at].view(np.uint64),
        memory[counts_at:reward_at].view(np.int64).reshape(3, n),
        memory[reward_at:obs_at].view(np.float64).reshape(2, n),
        memory[obs_at:flags_at].view(np.float32).reshape(2, n, OBSERVED),
        memory[flags_at : flags_at + 3 * n].reshape(3, n),
    )


@compiled()
def begin(x: Any, which: Any, n: Any, c: Any, memory: Any) -> Any:
    """Begin the next episode of the vehicles ``which`` of n; the others as in :func:`step`."""
    keys, counts, measures, obs, _ = _parts(memory, n)
    t = np.zeros(_SIZE)
    single = np.empty(OBSERVED * LANES, np.float32)
    cell = np.empty(1)
    bits = cell.view(np.int64)
    for first in range(0, len(which), LANES):
        lanes = min(LANES, len(which) - first)
        for lane in range(lanes):
            row = which[first + lane]
            counts[0, row] = 0
            counts[1, row] += 1
            _begin(
                t, lane, c, keys, np.uint64(counts[1, row]), np.uint64(counts[2, row]), cell, bits
            )
        _observe(t, single, c)
        for lane in range(lanes):
            row = which[first + lane]
            measures[1, row] = t[_DISTANCE + lane]
            for column in range(COLUMNS):
                x[column, row] = t[column * LANES + lane]
            for column in range(OBSERVED):
                obs[0, row, column] = single[column * LANES + lane]


@compiled()
def step(x: Any, actions: Any, c: Any, memory: Any, first_tile: Any, end_tile: Any) -> Any:
    """Step the vehicles of tiles ``first_tile`` to ``end_tile``.

    False, and nothing done, if an action is not finite.

    x (17, tiles * LANES) are states, actions (n, 4), c the constants that ``HoverTask`` packs,
    memory the bytes of :class:`~vil_simulation.vehicles.envs.base.VehicleTask`.
    """
    if not _all_finite(actions):
        return False
    n = len(actions)
    keys, counts, measures, obs, flags = _parts(memory, n)
    reward = measures[0]
    mode = int(c[_MODE])
    limit = int(c[_LIMIT])
    t = np.empty(_SIZE)
    single = np.empty(OBSERVED * LANES, np.float32)
    cell = np.empty(1)
    for row in range(12):
        for lane in range(LANES):
            t[AROUND + row * LANES + lane] = c[_CALM + row]
    for first in range(first_tile * LANES, end_tile * LANES, LANES):
        lanes = min(LANES, n - first)
        end = first + lanes
        _load(t, x, np.uintp(first), actions[first:end])
        _command(t, c[_WEIGHT])
        rotor_targets(t, c)
        substep(t, c, c[_STEP], c[_STEP + 1], c[_STEP + 2], c[_STEP + 3])
        _observe(t, single, c)
        if c[_NEAR] > 0.0:
            _judge_near(t, c)
        if _end(t, first, lanes, limit, counts[0], reward, flags, mode):
            _renew(t, single, first, lanes, c, keys, counts, reward, flags[2], obs[1], mode, cell)
        _store(t, single, x, np.uintp(first), obs[0, first:end], measures[1, first:end])
    return True
