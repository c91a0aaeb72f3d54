"""A scene whose objects are moved, scaled, spawned and destroyed while it is drawn.

An edited object leaves the scene and comes back as an actor of its name, which costs nothing when it moves. The
first edit of one of the scene's own objects therefore builds the renderer again, in about the time of its start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, ActorState, FloatArray, TrackingState, WorldSnapshot
from vil_renderer.embedded.actors.prefabs import built_in, built_in_names
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.renderer import EmbeddedRenderer
from vil_renderer.embedded.scene import CLASSES, Prefab, Scene, SceneObject
from vil_renderer.embedded.scene_listing import bounds_m, object_row
from vil_renderer.embedded.scenes.basic_shapes import BASIC_SHAPES, basic_shape
from vil_renderer.queries.messages import ObjectRow, ObjectState

_OWN: Final = "edited object "
_SPAWNED: Final = "spawned "


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
        self._own = {thing.name: thing for thing in scene.objects}
        self._prefabs: dict[str, Prefab] = dict(scene.prefabs)
        self._states: dict[str, ObjectState] = {}
        self._actors: tuple[ActorState, ...] = ()
        self.renderer = make(self._without(frozenset()))

    @property
    def assets(self) -> list[str]:
        """Names that objects can be spawned from."""
        return sorted({*BASIC_SHAPES, *self._scene.prefabs, *built_in_names()})

    def apply(self, states: Sequence[ObjectState]) -> None:
        """Set the edits of objects, all of them.

        Raises:
            RendererError: an object or an asset is unknown.
        """
        found = {state.name: state for state in states}
        for state in states:
            self._asset_of(state)
        gone = frozenset(found) & frozenset(self._own)
        if gone != frozenset(self._states) & frozenset(self._own):
            made = self._make(self._without(gone))
            self.renderer.close()
            self.renderer, self._states = made, {}
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
        edited = [self._thing(state) for state in self._states.values() if not state.gone]
        return replace(self._scene, objects=(*rest, *edited))

    def rows(self, t_ns: int) -> list[ObjectRow]:
        """Return a row for each object, at a time."""
        fixed = frozenset(() if self._scene.splats is None else self._scene.splats.proxy)
        return [object_row(thing, t_ns, movable=thing.name not in fixed) for thing in self.whole().objects]

    def _without(self, gone: frozenset[str]) -> Scene:
        objects = tuple(thing for thing in self._scene.objects if thing.name not in gone)
        return replace(self._scene, objects=objects, prefabs=self._prefabs)

    def _asset_of(self, state: ObjectState) -> Asset:
        """Return the model of an edited object; its prefab is there afterwards."""
        if not state.asset:
            if state.name not in self._own:
                raise RendererError(f"no object named {state.name!r}. Ask for objects() to list them")
            thing = self._own[state.name]
            key = _OWN + state.name
            self._prefabs.setdefault(key, Prefab(thing.asset, thing.semantic, "size"))
            return thing.asset
        key = _SPAWNED + state.asset
        if key not in self._prefabs:
            self._prefabs[key] = self._spawned(state.asset)
        return self._prefabs[key].asset

    def _spawned(self, name: str) -> Prefab:
        if name in BASIC_SHAPES:
            return Prefab(basic_shape(name), CLASSES["prop"], "size")
        if name not in self.assets:
            raise RendererError(f"no asset named {name!r:.80}. Known assets: {', '.join(self.assets)}")
        prefab = self._scene.prefabs.get(name) or built_in(name, ActorKind.PROP)[1]
        return replace(prefab, fit="size", asset_from_body=np.eye(4))

    def _actor(self, state: ObjectState) -> ActorState:
        low, high = bounds_m(self._asset_of(state))
        scale = np.array(state.scale)
        T = Transform.of(state.p_m, state.q_xyzw)
        middle = Transform(T.apply(0.5 * scale * (low + high)), T.q_xyzw)
        x, y, z = (scale * (high - low)).tolist()
        prefab = _SPAWNED + state.asset if state.asset else _OWN + state.name
        return ActorState(state.name, ActorKind.PROP, TrackingState.TRACKED, 0, middle, prefab=prefab, size_m=(x, y, z))

    def _thing(self, state: ObjectState) -> SceneObject:
        asset = self._asset_of(state)
        place: FloatArray = Transform.of(state.p_m, state.q_xyzw).matrix()
        place[:3, :3] *= state.scale
        own = self._own.get(state.name)
        if own is not None and not state.asset:
            return replace(own, world_from_asset=place, path=None, clip=None, movable=False)
        return SceneObject(state.name, asset, place, CLASSES["prop"], state.instance)
