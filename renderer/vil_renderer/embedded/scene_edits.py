"""A scene whose objects are moved, scaled, spawned and destroyed while it is drawn.

An edited object leaves the scene and comes back as an actor of its name, which costs nothing when
it moves. The way of one that falls is computed when it begins; its pose is then a function of the
snapshot's time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, ActorState, TrackingState, WorldSnapshot
from vil_renderer.embedded.edited_objects import EditedObjects
from vil_renderer.embedded.falling_objects import Falls, fallen, landed
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.renderer import EmbeddedRenderer
from vil_renderer.embedded.scene import Scene
from vil_renderer.embedded.scene_listing import bounds_m, object_row
from vil_renderer.queries.messages import ObjectRow, ObjectState


class EditedScene:
    """A renderer of a scene with edits.

    Args:
        scene: without edits.
        make: builds a renderer of a scene.

    Attributes:
        renderer: of the scene with its edits; another one after :meth:`apply`.
    """

    def __init__(self, scene: Scene, make: Callable[[Scene], EmbeddedRenderer]) -> None:
        self._scene = scene
        self._make = make
        self._objects = EditedObjects(scene)
        self._states: dict[str, ObjectState] = {}
        self._actors: tuple[ActorState, ...] = ()
        self._falling: tuple[ObjectState, ...] = ()
        self.renderer = make(self._without(frozenset()))

    @property
    def assets(self) -> list[str]:
        """Names that objects can be spawned from."""
        return self._objects.assets

    def apply(self, states: Sequence[ObjectState], t_ns: int | None = None) -> list[ObjectState]:
        """Set the edits of objects, all of them, and return them with the ways of those that fall.

        Args:
            states: of all edited objects.
            t_ns: when they are edited, so that objects begin to fall; None = those that fall have
                their ways.

        Raises:
            RendererError: an object or an asset is unknown, or nothing can fall here: Embree is not
                installed.
        """
        before = self._states
        self._set(states)
        if t_ns is not None and any(state.falls and not state.gone for state in states):
            falls = Falls(self._objects, lambda others: self._resting_world(others, t_ns))
            try:
                found = falls.update(states, before, t_ns)
            except RendererError:
                self._set(tuple(before.values()))
                raise
            self._set([landed(state, t_ns) for state in found])
        return list(self._states.values())

    def _resting_world(self, states: Sequence[ObjectState], t_ns: int) -> RayWorld:
        """Return what stops a falling object.

        The scene with edited objects where they come to rest.
        """
        self._set([msgspec.structs.replace(state, way=()) for state in states])
        self.renderer.pose(self.with_edits(WorldSnapshot(t_ns, ())))
        return self.renderer.rays or RayWorld(self.renderer.scene)  # which says what to install

    def _set(self, states: Sequence[ObjectState]) -> None:
        found = {state.name: state for state in states}
        for state in states:
            self._objects.asset_of(state)
        gone, before = (
            frozenset(names) & frozenset(self._objects.own) for names in (found, self._states)
        )
        if gone != before:
            self._take_out(gone, before)
            self._states = {}  # their instance ids are reserved again
        for name in self._states.keys() - found.keys():
            self.renderer.reserve_instance(name, None)
        for name in found.keys() - self._states.keys():
            self.renderer.reserve_instance(name, found[name].instance)
        self._states = found
        present = [state for state in states if not state.gone]
        self._falling = tuple(state for state in present if state.way)
        self._actors = tuple(self._actor(state) for state in present if not state.way)

    def with_edits(self, snapshot: WorldSnapshot) -> WorldSnapshot:
        """Return a snapshot with the edited objects.

        Where an actor has the name of one, the actor counts.
        """
        falling = (self._actor(fallen(state, snapshot.t_ns)) for state in self._falling)
        edited = (*self._actors, *falling)
        return replace(snapshot, actors=(*edited, *snapshot.actors)) if edited else snapshot

    def whole(self) -> Scene:
        """Return the scene with its edits as objects, those that fall where they come to rest."""
        return self._with(self._states.values())

    def _with(self, states: Iterable[ObjectState]) -> Scene:
        rest = [thing for thing in self._scene.objects if thing.name not in self._states]
        edited = [self._objects.thing(state) for state in states if not state.gone]
        return replace(self._scene, objects=(*rest, *edited))

    def rows(self, t_ns: int) -> list[ObjectRow]:
        """Return a row for each object, at a time."""
        fixed = frozenset(() if self._scene.splats is None else self._scene.splats.proxy)
        now = self._with(fallen(state, t_ns) for state in self._states.values())
        falling = {state.name for state in self._falling if t_ns < state.way[-1].t_ns}
        rows = [object_row(thing, t_ns, movable=thing.name not in fixed) for thing in now.objects]
        for index, row in enumerate(rows):
            if row.name in falling:
                rows[index] = msgspec.structs.replace(row, moves=True)
        return rows

    def _take_out(self, gone: frozenset[str], before: frozenset[str]) -> None:
        """Draw the scene without some of its own objects.

        Another renderer draws one that comes back.
        """
        if gone > before:
            self.renderer.take_out(gone - before)
            return
        made = self._make(self._without(gone))
        self.renderer.close()
        self.renderer = made

    def _without(self, gone: frozenset[str]) -> Scene:
        objects = tuple(thing for thing in self._scene.objects if thing.name not in gone)
        return replace(self._scene, objects=objects, prefabs=self._objects.prefabs)

    def _actor(self, state: ObjectState) -> ActorState:
        low, high = bounds_m(self._objects.asset_of(state))
        scale = np.array(state.scale)
        T = Transform.of(state.p_m, state.q_xyzw)
        middle = Transform(T.apply(0.5 * scale * (low + high)), T.q_xyzw)
        x, y, z = (scale * (high - low)).tolist()
        prefab = self._objects.prefab_of(state)
        return ActorState(
            state.name,
            ActorKind.PROP,
            TrackingState.TRACKED,
            0,
            middle,
            prefab=prefab,
            size_m=(x, y, z),
        )
