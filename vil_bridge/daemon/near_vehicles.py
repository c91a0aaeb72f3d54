"""Vehicles of simulated sources that are near those of another one, as bodies for that one's
simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform, q_mul, q_rotate
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import BodyMass, MovingBody, VehicleBodies

_HORIZON_S: Final = 0.25
"""Vehicles that can meet in this time are near each other.

In simulated time much of it passes between two looks.
"""
_MARGIN_M: Final = 1.0
_MOST_BODIES: Final = 1000


def bodies_near(
    found: Mapping[str, VehicleBodies], places: Mapping[str, Transform]
) -> dict[str, list[MovingBody]]:
    """Return the vehicles of other sources that are near the vehicles of each source, in its room.

    Args:
        found: the vehicles of each source.
        places: T_world_room of each source.
    """
    names = [name for name, bodies in found.items() if bodies.names and name in places]
    if len(names) < 2:
        return {}
    p_m = np.concatenate([places[name].apply(found[name].p_m) for name in names])
    speed_mps = np.concatenate([np.linalg.norm(found[name].v_mps, axis=1) for name in names])
    reach_m = (
        np.concatenate([found[name].reach_m for name in names])
        + _HORIZON_S * speed_mps
        + 0.5 * _MARGIN_M
    )
    counts = [len(found[name].names) for name in names]
    owner = np.repeat(np.arange(len(names)), counts)
    row = np.concatenate([np.arange(count) for count in counts])
    pairs = _near_pairs(p_m, reach_m, owner)
    bodies: dict[str, list[MovingBody]] = {}
    for s, name in enumerate(names):
        others = np.unique(pairs[1][owner[pairs[0]] == s])[:_MOST_BODIES].tolist()
        T_room_world = places[name].inverse() if others else Transform.identity()
        bodies[name] = [
            _body_of(found[names[owner[k]]], int(row[k]), T_room_world @ places[names[owner[k]]])
            for k in others
        ]
    return bodies


def _near_pairs(
    p_m: FloatArray, reach_m: FloatArray, owner: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return all pairs of spheres at (n, 3) with radii (n,) that overlap and have different
    owners, both ways.
    """
    axis = int(np.argmax(np.ptp(p_m, axis=0)))
    order = np.argsort(p_m[:, axis] - reach_m)
    low = (p_m[:, axis] - reach_m)[order]
    high = (p_m[:, axis] + reach_m)[order]
    # That begin before a sphere ends.
    counts = np.searchsorted(low, high, side="right") - np.arange(len(order)) - 1
    first = np.repeat(np.arange(len(order)), counts)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    a = order[first]
    b = order[second]
    apart = owner[a] != owner[b]
    a = a[apart]
    b = b[apart]
    gap = p_m[a] - p_m[b]
    near = (gap * gap).sum(axis=1) <= (reach_m[a] + reach_m[b]) ** 2
    a = a[near]
    b = b[near]
    return np.concatenate((a, b)), np.concatenate((b, a))


def _body_of(bodies: VehicleBodies, row: int, T_room_own: Transform) -> MovingBody:
    """Return one of the vehicles of a source in the room of another."""
    shape = bodies.shapes[row]
    q_own = bodies.q_xyzw[row]
    in_own = bodies.p_m[row] + q_rotate(q_own, shape.offsets_m)
    px, py, pz = T_room_own.apply(bodies.p_m[row]).tolist()
    qx, qy, qz, qw = q_mul(T_room_own.q_xyzw, q_own).tolist()
    vx, vy, vz = (T_room_own.rotation() @ bodies.v_mps[row]).tolist()
    wx, wy, wz = bodies.w_radps[row].tolist()
    surface = shape.restitution, shape.friction
    mass = BodyMass(
        (px, py, pz), (qx, qy, qz, qw), (wx, wy, wz), shape.mass_kg, shape.inertia_kgm2, *surface
    )
    middles_m = tuple((x, y, z) for x, y, z in T_room_own.apply(in_own).tolist())
    return MovingBody(bodies.names[row], bodies.t_ns, shape.radius_m, middles_m, (vx, vy, vz), mass)
