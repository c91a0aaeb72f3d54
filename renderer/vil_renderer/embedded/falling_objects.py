"""Objects that fall: their ways when they begin, and where they are at a time."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_conj, q_log, q_mul, q_slerp
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.edited_objects import EditedObjects
from vil_renderer.embedded.geometry.fall import FallingBox, fall
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.scene_listing import bounds_m
from vil_renderer.queries.messages import FallingPose, ObjectState

_NEAR_M: Final = 0.05
"""Gap between the balls around two objects that may touch."""
_MOVED_M: Final = 1e-3


def fallen(state: ObjectState, t_ns: int) -> ObjectState:
    """Return an object where it is at a time.

    On its way, at its begin before it, at rest after it.
    """
    way = state.way
    i = bisect_right(way, t_ns, key=attrgetter("t_ns"))
    if i == len(way):
        return state
    after = way[i]
    if i == 0:
        return msgspec.structs.replace(state, p_m=after.p_m, q_xyzw=after.q_xyzw)
    before = way[i - 1]
    share = (t_ns - before.t_ns) / (after.t_ns - before.t_ns)
    p = np.array(before.p_m) + share * (np.array(after.p_m) - np.array(before.p_m))
    q = q_slerp(np.array(before.q_xyzw), np.array(after.q_xyzw), share)
    return _placed(state, Transform(p, q))


def landed(state: ObjectState, t_ns: int) -> ObjectState:
    """Return an object without its way where that ended more than a second before a time."""
    ended = bool(state.way) and state.way[-1].t_ns + NS_PER_S < t_ns
    return msgspec.structs.replace(state, way=()) if ended else state


class Falls:
    """Falls of edited objects.

    Args:
        objects: their models.
        resting: returns the surfaces of the scene with edited objects where they rest.
    """

    def __init__(
        self, objects: EditedObjects, resting: Callable[[Sequence[ObjectState]], RayWorld]
    ) -> None:
        self._objects = objects
        self._resting = resting

    def update(
        self, states: Sequence[ObjectState], before: Mapping[str, ObjectState], t_ns: int
    ) -> Sequence[ObjectState]:
        """Return states with the ways of all that begin to fall at a time.

        The changed ones, and those next to one.

        Each falls once, the lowest first, between others where they come to rest.
        """
        now = {state.name: state for state in states}
        changed = [name for name in now.keys() | before.keys() if now.get(name) != before.get(name)]
        places = [entry[name] for name in changed for entry in (now, before) if name in entry]
        waiting = {state.name for state in states if state.falls and not state.gone}
        while woken := [
            now[name]
            for name in waiting
            if name in changed or self._is_near(now[name], places, t_ns)
        ]:
            state = min(woken, key=lambda woken_one: fallen(woken_one, t_ns).p_m[2])
            waiting.discard(state.name)
            now[state.name] = self._dropped(
                state, tuple(now.values()), t_ns, at_rest=state.name in changed
            )
            if math.dist(fallen(state, t_ns).p_m, now[state.name].p_m) > _MOVED_M:
                places.append(state)
        return tuple(now.values())

    def _dropped(
        self, state: ObjectState, states: Sequence[ObjectState], t_ns: int, *, at_rest: bool
    ) -> ObjectState:
        """Return an object with its way from a time on; at rest = it begins without speed."""
        here = fallen(state, t_ns)
        middle, half_m = self._box(here)
        v_mps, w_radps = (np.zeros(3), np.zeros(3)) if at_rest else _motion(state, t_ns)
        path = fall(self._resting(states), state.name, FallingBox(middle, half_m, v_mps, w_radps))
        T_box_object = middle.inverse() @ Transform.of(here.p_m, here.q_xyzw)
        way = []
        for time_s, T_world_box in zip(path.times_s, path.poses, strict=True):
            placed = _placed(state, T_world_box @ T_box_object)
            way.append(FallingPose(t_ns + round(time_s * NS_PER_S), placed.p_m, placed.q_xyzw))
        last = way[-1]
        return msgspec.structs.replace(state, p_m=last.p_m, q_xyzw=last.q_xyzw, way=tuple(way))

    def _box(self, state: ObjectState) -> tuple[Transform, FloatArray]:
        """Return middle and axes of the box around an object, and half of its size, (3,)."""
        low, high = bounds_m(self._objects.asset_of(state))
        scale = np.array(state.scale)
        T = Transform.of(state.p_m, state.q_xyzw)
        return Transform(T.apply(0.5 * scale * (low + high)), T.q_xyzw), 0.5 * scale * (high - low)

    def _is_near(self, state: ObjectState, places: Sequence[ObjectState], t_ns: int) -> bool:
        """Return whether an object, now or at rest, may touch one of some objects."""
        own = [self._box(entry) for entry in (state, fallen(state, t_ns))]
        for place in places:
            for other_T, other_half in (self._box(place), self._box(fallen(place, t_ns))):
                for T, half in own:
                    reach_m = np.linalg.norm(half) + np.linalg.norm(other_half) + _NEAR_M
                    if np.linalg.norm(T.p_m - other_T.p_m) <= reach_m:
                        return True
        return False


def _motion(state: ObjectState, t_ns: int) -> tuple[FloatArray, FloatArray]:
    """Return velocity and spin of an object on its way, world, (3,) each; zero where it rests."""
    i = bisect_right(state.way, t_ns, key=attrgetter("t_ns"))
    if i in (0, len(state.way)):
        return np.zeros(3), np.zeros(3)
    before, after = state.way[i - 1 : i + 1]
    per_s = NS_PER_S / (after.t_ns - before.t_ns)
    turn = q_log(q_mul(np.array(after.q_xyzw), q_conj(np.array(before.q_xyzw))))
    return per_s * (np.array(after.p_m) - np.array(before.p_m)), per_s * turn


def _placed(state: ObjectState, T: Transform) -> ObjectState:
    px, py, pz = T.p_m.tolist()
    qx, qy, qz, qw = T.q_xyzw.tolist()
    return msgspec.structs.replace(state, p_m=(px, py, pz), q_xyzw=(qx, qy, qz, qw))
