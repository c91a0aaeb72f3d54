"""Virtual walls: actors about to leave their room, and actors of different rooms about to collide.

People and vehicles of different rooms do not see each other, but in the shared world they may stand
in the same place. Every body is a set of rounded boxes: a vehicle its bounding box, a human one
capsule per bone (a box without thickness, rounded). Their distance over the next half second, both
moving on as they do now, is one small convex problem: two points within their boxes and an instant.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from vil_bridge.bodies.skeleton import body_parents
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_to_matrix
from vil_bridge.core.types import ActorState, FloatArray, TrackingState, WorldSnapshot

HORIZON_S: Final = 0.5
"""Time ahead for which warnings are given."""
BONE_RADIUS_M: Final = 0.1
_SHOWN: Final = (TrackingState.TRACKED, TrackingState.COASTING)
_STEPS: Final = 80
_CURVATURE: Final = 7.0
"""Seven unit directions: no eigenvalue of their Gram matrix is larger."""


@dataclass(frozen=True, slots=True)
class Walls:
    """A box in a room's frame, metres."""

    min_m: tuple[float, float, float]
    max_m: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class RoomVolume:
    """A room in the world.

    A distance to actors of other rooms below ``margin_m`` causes a warning.
    """

    name: str
    T_world_room: Transform
    walls: Walls | None = None
    margin_m: float = 0.5


@dataclass(frozen=True, slots=True)
class RoomWarning:
    """Something that is about to happen.

    Attributes:
        kind: ``collision`` of two actors of different rooms in the shared world, or ``leaving``: an
            actor reaches beyond the walls of its room.
        actors: the two, or the one. rooms: theirs.
        distance_m: least distance; for walls how far inside, negative outside.
        in_s: when that is so, from now.
    """

    kind: Literal["collision", "leaving"]
    actors: tuple[str, ...]
    rooms: tuple[str, ...]
    distance_m: float
    in_s: float


@dataclass(frozen=True, slots=True, eq=False)
class ActorVolume:
    """Rounded boxes of one actor, world coordinates.

    Attributes:
        center_m: shape (k, 3). axes: shape (k, 3, 3), unit axes in the columns. half_m: shape (k,
            3).
        radius_m: of the rounding. v_mps: shape (3,), velocity of the whole.
    """

    center_m: FloatArray
    axes: FloatArray
    half_m: FloatArray
    radius_m: float
    v_mps: FloatArray

    def reach_m(self) -> FloatArray:
        """Return the radius of a sphere around each box, its rounding included, shape (k,)."""
        reach: FloatArray = np.linalg.norm(self.half_m, axis=1) + self.radius_m
        return reach


def shape_of(now: ActorState, later: ActorState, dt_s: float) -> ActorVolume:
    """Return an actor's boxes now, moving as it does from ``now`` to ``later``."""
    v_mps = (later.T_world_body.p_m - now.T_world_body.p_m) / dt_s
    skeleton = now.skeleton
    if skeleton is None:
        half_m = 0.5 * np.array([now.size_m])
        return ActorVolume(
            now.T_world_body.p_m[None], now.T_world_body.rotation()[None], half_m, 0.0, v_mps
        )
    parents = body_parents(skeleton.model)
    child = np.array([i for i, parent in enumerate(parents) if parent >= 0] or [0])
    parent = np.array([max(0, parents[i]) for i in child])
    start = skeleton.p_m[parent]
    end = skeleton.p_m[child]
    length_m = np.linalg.norm(end - start, axis=1)
    along = np.divide(
        end - start, length_m[:, None], out=np.zeros_like(start), where=length_m[:, None] > 1e-9
    )
    axes = np.zeros((len(child), 3, 3))
    axes[:, :, 0] = along
    half_m = np.zeros((len(child), 3))
    half_m[:, 0] = 0.5 * length_m
    return ActorVolume(0.5 * (start + end), axes, half_m, BONE_RADIUS_M, v_mps)


def closest(a: ActorVolume, b: ActorVolume, horizon_s: float = HORIZON_S) -> tuple[float, float]:
    """Return the least distance within the horizon and when it is reached; 0 when they touch.

    Minimises |d + sum x_i g_i|^2 over the boxes' coordinates and the time (bounds on x_i) for all
    pairs of boxes at once, by accelerated projected gradients; good to a centimetre.
    """
    drift = a.v_mps - b.v_mps
    speed_mps = float(np.linalg.norm(drift))
    apart_m = np.linalg.norm(a.center_m[:, None] - b.center_m[None], axis=2)
    # A pair counts that may come nearer than some pair's centres are now.
    i, j = np.nonzero(
        apart_m - a.reach_m()[:, None] - b.reach_m()[None] - speed_mps * horizon_s <= apart_m.min()
    )
    course = drift / speed_mps if speed_mps > 1e-9 else np.zeros(3)
    d = a.center_m[i] - b.center_m[j]
    directions = np.concatenate(
        (
            a.axes[i].transpose(0, 2, 1),
            b.axes[j].transpose(0, 2, 1),
            np.broadcast_to(course, (len(i), 1, 3)),
        ),
        axis=1,
    )
    upper = np.concatenate(
        (a.half_m[i], b.half_m[j], np.full((len(i), 1), speed_mps * horizon_s)), axis=1
    )
    lower = -upper
    lower[:, 6] = 0.0
    x = _nearest(d, directions, lower, upper)
    gap_m = np.linalg.norm(d + (x[:, None, :] @ directions)[:, 0], axis=1)
    best = int(np.argmin(gap_m))
    in_s = float(x[best, 6] / speed_mps) if speed_mps > 1e-9 else 0.0
    return max(0.0, float(gap_m[best]) - a.radius_m - b.radius_m), in_s


def _nearest(
    d: FloatArray, directions: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """Solve bounded least squares for many small problems.

    D (n, 3), directions (n, 7, 3), bounds (n, 7).
    """
    x = np.clip(np.zeros_like(upper), lower, upper)
    y = x
    momentum = 1.0
    for _ in range(_STEPS):
        r = d + (y[:, None, :] @ directions)[:, 0]
        stepped = np.clip(y - (directions @ r[..., None])[..., 0] / _CURVATURE, lower, upper)
        following = 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum) ** 0.5)
        y = stepped + (momentum - 1.0) / following * (stepped - x)
        x = stepped
        momentum = following
    return x


def room_warnings(
    now: WorldSnapshot,
    later: WorldSnapshot,
    rooms: Iterable[RoomVolume],
    room_of: Mapping[str, str],
) -> tuple[RoomWarning, ...]:
    """Return all warnings for the next half second.

    Args:
        now: the world at present.
        later: the same actors a little later, from which their velocities follow.
        rooms: each with its walls.
        room_of: name of each actor's room; others are not judged.
    """
    known = {room.name: room for room in rooms}
    dt_s = (later.t_ns - now.t_ns) / NS_PER_S
    judged = [
        (known[room_of[state.name]], state.name, shape_of(state, after, dt_s))
        for state, after in zip(now.actors, later.actors, strict=True)
        if state.state in _SHOWN and room_of.get(state.name) in known
    ]
    found = [_leaving(*each) for each in judged]
    found += [
        _meeting(*one, *other)
        for one, other in itertools.combinations(judged, 2)
        if one[0] is not other[0]
    ]
    return tuple(warning for warning in found if warning is not None)


def _leaving(room: RoomVolume, name: str, shape: ActorVolume) -> RoomWarning | None:
    if room.walls is None:
        return None
    T_room_world = room.T_world_room.inverse()
    R = q_to_matrix(T_room_world.q_xyzw)
    extent_m = (np.abs(R @ shape.axes) @ shape.half_m[..., None])[..., 0] + shape.radius_m
    center_m = T_room_world.apply(shape.center_m)
    inside = []
    for t_s in (0.0, HORIZON_S):
        p_m = center_m + t_s * (R @ shape.v_mps)
        room_m = np.minimum(
            p_m - extent_m - room.walls.min_m, np.asarray(room.walls.max_m) - p_m - extent_m
        )
        inside.append(float(room_m.min()))
    if min(inside) >= 0.0:
        return None
    in_s = 0.0 if inside[0] < 0.0 else HORIZON_S * inside[0] / (inside[0] - inside[1])
    return RoomWarning("leaving", (name,), (room.name,), min(inside), in_s)


def _meeting(
    room: RoomVolume,
    name: str,
    shape: ActorVolume,
    other: RoomVolume,
    other_name: str,
    other_shape: ActorVolume,
) -> RoomWarning | None:
    margin_m = max(room.margin_m, other.margin_m)
    near_m = margin_m + HORIZON_S * float(np.linalg.norm(shape.v_mps - other_shape.v_mps))
    apart_m = np.linalg.norm(shape.center_m[:, None] - other_shape.center_m[None], axis=2)
    if (apart_m - shape.reach_m()[:, None] - other_shape.reach_m()[None]).min() > near_m:
        return None
    distance_m, in_s = closest(shape, other_shape)
    if distance_m >= margin_m:
        return None
    return RoomWarning("collision", (name, other_name), (room.name, other.name), distance_m, in_s)
