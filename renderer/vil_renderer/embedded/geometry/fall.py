"""A box that falls, bounces a little and comes to rest on the surfaces of a scene."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.geometry import Transform, q_exp, q_mul, q_normalize
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.geometry.ray_world import RayWorld

_LONGEST_S: Final = 10.0
"""Time of a fall that finds nothing below it; the box is left there."""
_STEP_HZ: Final = 120
_MOST_TOUCHES: Final = 3 * _STEP_HZ
"""Steps in contact, all in all, after which a box that does not come to rest is left where it
is.
"""
_RECORDED: Final = 2
"""Steps from one recorded pose to the next."""
_GRAVITY_MPS2: Final = np.array([0.0, 0.0, -9.81])
_RESTITUTION: Final = 0.2
_FRICTION: Final = 0.6
_BOUNCE_MPS: Final = 0.5
"""A slower impact does not bounce."""
_MOST_PARTS: Final = 4
_ROUNDS: Final = 16
_TOUCHING_M: Final = 5e-4
"""Depth that contacts leave, so that a resting box is in contact at every step."""
_SPIN_LEFT: Final = 0.98
"""Share of the spin that a step in contact leaves."""
_THINNEST_M: Final = 5e-3
_STILL_MPS: Final = 0.02
_STILL_RADPS: Final = 0.05
_STILL_STEPS: Final = 12
_SLOWEST_MPS: Final = 1e-9
_GRID: Final = (-1.0, -0.5, 0.0, 0.5, 1.0)
_POINTS: Final = np.array(
    [p for p in itertools.product(_GRID, repeat=3) if max(map(abs, p)) == 1.0]
)
"""Points of the sides of a box, in its half sizes: (98, 3)."""
_SIGHT_M: Final = 40.0
_UNSEEN: Final = 0.25
"""Share of the way to what is in sight that a box goes without another look."""


@dataclass(slots=True, eq=False)
class FallingBox:
    """A box of even density; its mass does not matter.

    Attributes:
        T_world_box: its middle and axes. half_m: half of its size, (3,).
        v_mps: of the middle, world, (3,). w_radps: world, (3,).
        free_m: way that it can go before anything may stop it.
    """

    T_world_box: Transform
    half_m: FloatArray
    v_mps: FloatArray
    w_radps: FloatArray
    free_m: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class FallPath:
    """Poses of a box from the begin of its fall until it rests.

    Attributes:
        times_s: (k,), from 0. poses: its middle and axes, k of them.
    """

    times_s: tuple[float, ...]
    poses: tuple[Transform, ...]


class _Contacts(NamedTuple):
    """Points of a box beyond surfaces.

    From its middle (k, 3), normals of the surfaces (k, 3), how deep (k,).
    """

    arm_m: FloatArray
    normal: FloatArray
    depth_m: FloatArray


def fall(world: RayWorld, name: str, box: FallingBox) -> FallPath:
    """Let the box of an object fall, and return its way; other objects and actors stand still.

    It is stopped by surfaces between its middle and 98 points of its sides: what is narrower than a
    quarter of a side may reach into it.
    """
    box.half_m = np.maximum(box.half_m, _THINNEST_M)
    hide = frozenset((name,))
    times_s = [0.0]
    poses = [box.T_world_box]
    still = touched = 0
    for step in range(1, round(_LONGEST_S * _STEP_HZ) + 1):
        touches = _step(world, hide, box)
        slow = math.hypot(*box.v_mps) < _STILL_MPS and math.hypot(*box.w_radps) < _STILL_RADPS
        still = still + 1 if touches and slow else 0
        touched += touches
        rests = still == _STILL_STEPS or touched == _MOST_TOUCHES
        if rests or step % _RECORDED == 0:
            times_s.append(step / _STEP_HZ)
            poses.append(box.T_world_box)
        if rests:
            break
    return FallPath(tuple(times_s), tuple(poses))


def _step(world: RayWorld, hide: frozenset[str], box: FallingBox) -> bool:
    """Move a box by a step, in a few parts where it is fast.

    True = it touches something at the end.
    """
    reach_mps = math.hypot(*box.v_mps) + math.hypot(*box.w_radps) * math.hypot(*box.half_m)
    way_m = reach_mps / _STEP_HZ
    if way_m > box.free_m:
        box.free_m = _UNSEEN * (_sight_m(world, hide, box) - math.hypot(*box.half_m))
    if way_m < box.free_m:
        box.free_m -= way_m
        _move(box, _way_m(box, 1.0 / _STEP_HZ), 1.0 / _STEP_HZ)
        return False
    box.free_m = 0.0
    parts = min(max(1, math.ceil(2.0 * way_m / float(box.half_m.min()))), _MOST_PARTS)
    dt_s = 1.0 / (_STEP_HZ * parts)
    contacts: _Contacts | None = None
    for _ in range(parts):
        part_m = _way_m(box, dt_s)
        if math.hypot(*part_m) > float(box.half_m.min()):
            part_m = _free_share(world, hide, box.T_world_box.p_m, part_m) * part_m
        _move(box, part_m, dt_s)
        contacts = _contacts(world, hide, box)
        if contacts is not None:
            _collide(box, contacts)
    return contacts is not None


def _way_m(box: FallingBox, dt_s: float) -> FloatArray:
    """Return the way of the middle in free fall, (3,)."""
    way_m: FloatArray = dt_s * (box.v_mps + 0.5 * dt_s * _GRAVITY_MPS2)
    return way_m


def _move(box: FallingBox, way_m: FloatArray, dt_s: float) -> None:
    """Move a box by a way, and let it turn and gain speed for a time."""
    box.v_mps = box.v_mps + dt_s * _GRAVITY_MPS2
    q = q_mul(q_exp(dt_s * box.w_radps), box.T_world_box.q_xyzw)
    box.T_world_box = Transform(box.T_world_box.p_m + way_m, q_normalize(q))


def _sight_m(world: RayWorld, hide: frozenset[str], box: FallingBox) -> float:
    """Return the distance from the middle of a box to the nearest surface in sight, or that
    which it can see.
    """
    directions = np.vstack(
        (_POINTS @ box.T_world_box.rotation().T, box.v_mps + _GRAVITY_MPS2 / _STEP_HZ)
    )
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    origins = np.tile(box.T_world_box.p_m, (len(directions), 1))
    return min(float(world.cast(origins, directions, _SIGHT_M, hide).distance_m.min()), _SIGHT_M)


def _free_share(
    world: RayWorld, hide: frozenset[str], middle: FloatArray, way_m: FloatArray
) -> float:
    """Return how much of its way the middle of a box can go.

    It passes no surface, however fast and flat the box is.
    """
    share = float(world.cast(middle[None], way_m[None], 1.0, hide).distance_m[0])
    if share >= 1.0:
        return 1.0
    return max(share - _TOUCHING_M / max(math.hypot(*way_m), _TOUCHING_M), 0.0)


def _contacts(world: RayWorld, hide: frozenset[str], box: FallingBox) -> _Contacts | None:
    """Return the points of a box that lie beyond a surface, seen from its middle.

    None = there are none.
    """
    middle = box.T_world_box.p_m
    arms = (_POINTS * box.half_m) @ box.T_world_box.rotation().T
    hits = world.cast(np.tile(middle, (len(arms), 1)), arms, 1.0, hide)
    beyond = hits.distance_m < 1.0
    if not beyond.any():
        return None
    arm_m = arms[beyond]
    normal = hits.normal_world[beyond].astype(np.float64)
    depth_m = (hits.distance_m[beyond] - 1.0) * (arm_m * normal).sum(axis=1)
    return _Contacts(arm_m, normal, depth_m)


def _collide(box: FallingBox, at: _Contacts) -> None:
    """Apply the impulses of contacts, and move the box out of what it overlaps.

    All contacts push at the same time, so that a box which lands level stays level.
    """
    R = box.T_world_box.rotation()
    x2, y2, z2 = (box.half_m * box.half_m).tolist()
    inverse_inertia: FloatArray = (R * (3.0 / np.array([y2 + z2, x2 + z2, x2 + y2]))) @ R.T
    share = 1.0 / len(at.arm_m)
    lever = np.cross(at.arm_m, at.normal)
    yielding = 1.0 + (lever * (lever @ inverse_inertia)).sum(axis=1)
    first_mps = _speeds(box, at)
    wanted_mps = np.where(first_mps < -_BOUNCE_MPS, -_RESTITUTION * first_mps, 0.0)
    pressed = np.zeros(len(at.arm_m))
    for _ in range(_ROUNDS):
        more = (
            np.maximum(pressed + share * (wanted_mps - _speeds(box, at)) / yielding, 0.0) - pressed
        )
        pressed += more
        box.v_mps = box.v_mps + more @ at.normal
        box.w_radps = box.w_radps + inverse_inertia @ (more @ lever)
    slip = box.v_mps + np.cross(box.w_radps, at.arm_m)
    slip -= (slip * at.normal).sum(axis=1, keepdims=True) * at.normal
    slip_mps = np.linalg.norm(slip, axis=1)
    along: FloatArray = slip / np.maximum(slip_mps, _SLOWEST_MPS)[:, None]
    turn = np.cross(at.arm_m, along)
    held = np.minimum(
        share * slip_mps / (1.0 + (turn * (turn @ inverse_inertia)).sum(axis=1)),
        _FRICTION * pressed,
    )
    box.v_mps = box.v_mps - held @ along
    box.w_radps = _SPIN_LEFT * (box.w_radps - inverse_inertia @ (held @ turn))
    deepest = int(at.depth_m.argmax())
    out_m = max(float(at.depth_m[deepest]) - _TOUCHING_M, 0.0)
    box.T_world_box = Transform(
        box.T_world_box.p_m + out_m * at.normal[deepest], box.T_world_box.q_xyzw
    )


def _speeds(box: FallingBox, at: _Contacts) -> FloatArray:
    """Return how fast the points of contacts leave their surfaces, (k,)."""
    speeds: FloatArray = ((box.v_mps + np.cross(box.w_radps, at.arm_m)) * at.normal).sum(axis=1)
    return speeds
