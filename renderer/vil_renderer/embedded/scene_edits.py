"""A scene whose objects are moved, scaled, spawned and destroyed while it is drawn.

An edited object leaves the scene and comes back as an actor of its name, which costs nothing when it moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, ActorState, TrackingState, WorldSnapshot
from vil_renderer.embedded.edited_objects import EditedObjects
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
        self._scene, self._make = scene, make
        self._objects = EditedObjects(scene)
        self._states: dict[str, ObjectState] = {}
        self._actors: tuple[ActorState, ...] = ()
        self.renderer = make(self._without(frozenset()))

    @property
    def assets(self) -> list[str]:
        """Names that objects can be spawned from."""
        return self._objects.assets

    def apply(self, states: Sequence[ObjectState]) -> None:
        """Set the edits of objects, all of them.

        Raises:
            RendererError: an object or an asset is unknown.
        """
        found = {state.name: state for state in states}
        for state in states:
            self._objects.asset_of(state)
        gone, before = (frozenset(names) & frozenset(self._objects.own) for names in (found, self._states))
        if gone != before:
            self._take_out(gone, before)
            self._states = {}  # their instance ids are reserved again
        for name in self._states.keys() - found.keys():
            self.renderer.reserve_instance(name, None)
        for name in found.keys() - self._states.keys():
            self.renderer.reserve_instance(name, found[name].instance)
        self._states = found
        self._actors = tuple(self._actor(state) for state in states if not state.gone)

    def with_edits(self, snapshot: WorldSnapshot) -> WorldSnapshot:
        """Return a snapshot with the edited objects; where an actor has the name of one, the actor counts."""
        return replace(snapshot, actors=(*self._actors, *snapshot.actors)) if self._actors else snapshot

    def whole(self) -> Scene:
        """Return the scene with its edits as objects."""
        rest = [thing for thing in self._scene.objects if thing.name not in self._states]
        edited = [self._objects.thing(state) for state in self._states.values() if not state.gone]
        return replace(self._scene, objects=(*rest, *edited))

    def rows(self, t_ns: int) -> list[ObjectRow]:
        """Return a row for each object, at a time."""
        fixed = frozenset(() if self._scene.splats is None else self._scene.splats.proxy)
        return [object_row(thing, t_ns, movable=thing.name not in fixed) for thing in self.whole().objects]

    def _take_out(self, gone: frozenset[str], before: frozenset[str]) -> None:
        """Draw the scene without some of its own objects; another renderer draws one that comes back."""
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
        return ActorState(state.name, ActorKind.PROP, TrackingState.TRACKED, 0, middle, prefab=prefab, size_m=(x, y, z))
