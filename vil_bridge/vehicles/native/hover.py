"""A step of the hover task, compiled in one piece: thrusts, dynamics, reward, ends, new starts, observation.

See :mod:`vil_bridge.vehicles.envs.hover`, which is the reference. Rows of a tile are those of the vehicle's kernel,
then the action 4, the observation 18, reward, and whether the task ended.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from vil_bridge.vehicles.native.compile import LANES, compiled
from vil_bridge.vehicles.native.flightmare import AROUND, COLUMNS, PARAMETERS, TARGET, TILE, rotor_targets, substep
from vil_bridge.vehicles.native.noise import fill

__all__ = ["AUTORESET", "OBSERVED", "step"]

OBSERVED: Final = 18
"""Columns of an observation."""
AUTORESET: Final = {"disabled": 0, "same_step": 1, "next_step": 2}
"""Numbers of the modes for :func:`step`."""

_ACTION: Final = TILE
_OBS: Final = _ACTION + 4 * LANES
_REWARD: Final = _OBS + OBSERVED * LANES
_ENDED: Final = _REWARD + LANES
_SIZE: Final = _ENDED + LANES

_PX, _PY, _PZ, _VX, _VY, _VZ, _QX, _QY, _QZ, _QW, _WX, _WY, _WZ = range(0, 13 * LANES, LANES)
_A1, _A2, _A3, _A4, _DX, _DY, _DZ, _R = range(_ACTION, _ACTION + 8 * LANES, LANES)
_OBS_VX: Final = _R + 9 * LANES
_STEP: Final = PARAMETERS
_WEIGHT, _LIMIT, _GOAL, _FLOOR, _FASTEST, _WEIGHTS, _CALM = (_STEP + place for place in (4, 5, 6, 9, 10, 11, 18))
_SAME_STEP, _NEXT_STEP = AUTORESET["same_step"], AUTORESET["next_step"]
_ONE, _TWO, _THREE = np.uintp(1), np.uintp(2), np.uintp(3)
_EXPONENT: Final = np.int64(0x7FF0000000000000)


@compiled()
def _all_finite(values: Any) -> Any:
    """Whether all numbers of an array (n, k) are finite: none has the exponent of infinities and NaNs."""
    bits = values.view(np.int64)
    largest = np.int64(0)
    for row in range(bits.shape[0]):
        for column in range(4):
            largest = max(largest, bits[row, column] & _EXPONENT)
    return largest < _EXPONENT


@compiled()
def _command(t: Any, weight_n: Any) -> Any:
    """Thrusts of the actions, into the target rows."""
    for i in range(4 * LANES):
        action = max(min(t[_ACTION + i], 1.0), -1.0)
        t[_ACTION + i] = action
        t[TARGET + i] = weight_n * (0.25 + 0.5 * action)


@compiled()
def _observe(t: Any, c: Any) -> Any:
    """Observation rows of a tile."""
    goal_x, goal_y, goal_z = c[_GOAL], c[_GOAL + 1], c[_GOAL + 2]
    for i in range(LANES):
        qx, qy, qz, qw = t[_QX + i], t[_QY + i], t[_QZ + i], t[_QW + i]
        xx, yy, zz, ww = qx * qx, qy * qy, qz * qz, qw * qw
        xy, xz, yz, xw, yw, zw = qx * qy, qx * qz, qy * qz, qx * qw, qy * qw, qz * qw
        t[_DX + i], t[_DY + i], t[_DZ + i] = t[_PX + i] - goal_x, t[_PY + i] - goal_y, t[_PZ + i] - goal_z
        t[_R + i] = xx - yy - zz + ww
        t[_R + LANES + i] = 2.0 * (xy + zw)
        t[_R + 2 * LANES + i] = 2.0 * (xz - yw)
        t[_R + 3 * LANES + i] = 2.0 * (xy - zw)
        t[_R + 4 * LANES + i] = yy - xx - zz + ww
        t[_R + 5 * LANES + i] = 2.0 * (yz + xw)
        t[_R + 6 * LANES + i] = 2.0 * (xz + yw)
        t[_R + 7 * LANES + i] = 2.0 * (yz - xw)
        t[_R + 8 * LANES + i] = zz - xx - yy + ww
    for i in range(3 * LANES):
        t[_OBS_VX + i] = t[_VX + i]
        t[_OBS_VX + 3 * LANES + i] = t[_WX + i]


@compiled()
def _judge(t: Any, c: Any) -> Any:
    """Reward and end of the observed tile."""
    floor, fastest = c[_FLOOR], c[_FASTEST]
    position, attitude, velocity, rates = c[_WEIGHTS], c[_WEIGHTS + 1], c[_WEIGHTS + 2], c[_WEIGHTS + 3]
    action, alive, end = c[_WEIGHTS + 4], c[_WEIGHTS + 5], c[_WEIGHTS + 6]
    for i in range(LANES):
        dx, dy, dz = t[_DX + i], t[_DY + i], t[_DZ + i]
        qx, qy, qz = t[_QX + i], t[_QY + i], t[_QZ + i]
        vx, vy, vz = t[_VX + i], t[_VY + i], t[_VZ + i]
        wx, wy, wz = t[_WX + i], t[_WY + i], t[_WZ + i]
        a, b, c, d = t[_A1 + i], t[_A2 + i], t[_A3 + i], t[_A4 + i]
        spin = wx * wx + wy * wy + wz * wz
        ended = max(1.0 if t[_PZ + i] <= floor else 0.0, 1.0 if spin > fastest else 0.0)
        t[_ENDED + i] = ended
        t[_REWARD + i] = (
            alive
            - position * (dx * dx + dy * dy + dz * dz)
            - attitude * (4.0 * (qx * qx + qy * qy + qz * qz))
            - velocity * (vx * vx + vy * vy + vz * vz)
            - rates * spin
            - action * math.sqrt(a * a + b * b + c * c + d * d)
            + end * ended
        )


@compiled()
def _begin(t: Any, lane: Any, c: Any, keys: Any, episode: Any, vehicle: Any, scratch: Any) -> Any:
    """First state of a vehicle's next episode, into its lane."""
    who, place, attitude = scratch
    who[0] = vehicle
    for row in range(COLUMNS):
        t[row * LANES + lane] = 0.0
    fill(keys[0], np.uint64(episode), who, False, place)
    for axis in range(3):
        t[_PX + axis * LANES + lane] = c[_GOAL + axis] + (2.0 * place[0, axis] - 1.0)
        t[_VX + axis * LANES + lane] = 2.0 * place[0, 3 + axis] - 1.0
    fill(keys[1], np.uint64(episode), who, True, attitude)
    qx, qy, qz, qw = attitude[0, 0], attitude[0, 1], attitude[0, 2], attitude[0, 3]
    length = math.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
    t[_QX + lane], t[_QY + lane], t[_QZ + lane], t[_QW + lane] = qx / length, qy / length, qz / length, qw / length


@compiled()
def _load(t: Any, x: Any, place: Any, actions: Any) -> Any:
    """States from column ``place`` on and actions (lanes, 4) of a tile, its first vehicle also in lanes left over."""
    lanes = len(actions)
    # Four at a time, so that it becomes one vector: x and t might overlap for all that the compiler knows.
    for column in range(COLUMNS):
        for lane in range(0, LANES, 4):
            source = place + np.uintp(lane)
            a, b = x[column, source], x[column, source + _ONE]
            c, d = x[column, source + _TWO], x[column, source + _THREE]
            to = column * LANES + lane
            t[to], t[to + 1], t[to + 2], t[to + 3] = a, b, c, d
    for lane in range(lanes):
        for column in range(4):
            t[_ACTION + column * LANES + lane] = actions[lane, column]
    for lane in range(lanes, LANES):
        for column in range(COLUMNS):
            t[column * LANES + lane] = t[column * LANES]
        for column in range(4):
            t[_ACTION + column * LANES + lane] = t[_ACTION + column * LANES]


@compiled()
def _store(t: Any, single: Any, x: Any, place: Any, obs: Any, reward: Any) -> Any:
    """States into columns from ``place`` on, observations (lanes, 18) and rewards (lanes,) of a tile."""
    for column in range(COLUMNS):
        for lane in range(0, LANES, 4):
            source = column * LANES + lane
            a, b, c, d = t[source], t[source + 1], t[source + 2], t[source + 3]
            to = place + np.uintp(lane)
            x[column, to], x[column, to + _ONE] = a, b
            x[column, to + _TWO], x[column, to + _THREE] = c, d
    for i in range(OBSERVED * LANES):
        single[i] = t[_OBS + i]
    for lane in range(len(reward)):
        reward[lane] = t[_REWARD + lane]
        for column in range(OBSERVED):
            obs[lane, column] = single[column * LANES + lane]


@compiled()
def _end(t: Any, first: Any, lanes: Any, limit: Any, age: Any, flags: Any, mode: Any) -> Any:
    """Grow older a step and note which episodes ended; whether :func:`_renew` has anything to do."""
    terminated, truncated, finished = flags
    any_over = False
    for lane in range(lanes):
        row = first + lane
        waited = finished[row] and mode == _NEXT_STEP
        age[row] += 1
        over = t[_ENDED + lane] > 0.0 and not waited
        late = age[row] >= limit and not over and not waited
        terminated[row], truncated[row], finished[row] = over, late, over or late
        any_over |= over or late or waited
        t[_ENDED + lane] = 1.0 if waited else 0.0
    return any_over


@compiled()
def _renew(
    t: Any, first: Any, lanes: Any, c: Any, keys: Any, counts: Any, finished: Any, last: Any, mode: Any, scratch: Any
) -> Any:
    """Keep the last observations of episodes that ended, begin those that are due."""
    age, episode, vehicles = counts
    for lane in range(lanes):
        row = first + lane
        waited = t[_ENDED + lane] > 0.0
        if waited:
            t[_REWARD + lane] = 0.0
        if finished[row]:
            for column in range(OBSERVED):
                last[row, column] = t[_OBS + column * LANES + lane]
        if waited or (finished[row] and mode == _SAME_STEP):
            age[row] = 0
            episode[row] += 1
            _begin(t, lane, c, keys, episode[row], vehicles[row], scratch)
    _observe(t, c)


@compiled()
def step(
    x: Any,
    actions: Any,
    c: Any,
    keys: Any,
    counts: Any,
    flags: Any,
    obs: Any,
    reward: Any,
    mode: Any,
    first_tile: Any,
    end_tile: Any,
) -> Any:
    """Step the vehicles of tiles ``first_tile`` to ``end_tile``; false, and nothing done, if an action is not finite.

    x (17, tiles * LANES) are states, actions (n, 4), c the constants that ``HoverTask`` packs, keys (2, 2) those of
    the random streams; counts (3, n) age, episode and identity; flags (3, n) terminated, truncated and finished; obs
    (2, n, 18) what is observed and what was at the end; reward (n,); mode one of :data:`AUTORESET`.
    """
    if not _all_finite(actions):
        return False
    n = len(actions)
    t, single = np.empty(_SIZE), np.empty(OBSERVED * LANES, np.float32)
    scratch = (np.empty(1, np.uint64), np.empty((1, 6)), np.empty((1, 4)))
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
        _observe(t, c)
        _judge(t, c)
        if _end(t, first, lanes, c[_LIMIT], counts[0], flags, mode):
            _renew(t, first, lanes, c, keys, counts, flags[2], obs[1], mode, scratch)
        _store(t, single, x, np.uintp(first), obs[0, first:end], reward[first:end])
    return True
