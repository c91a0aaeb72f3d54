"""Objects of a scene as programs edit them: their models, and what they become."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, FloatArray
from vil_renderer.embedded.actors.prefabs import built_in, built_in_names
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scene import CLASSES, Prefab, Scene, SceneObject
from vil_renderer.embedded.scenes.basic_shapes import BASIC_SHAPES, basic_shape
from vil_renderer.queries.messages import ObjectState

_OWN: Final = "edited object "
_SPAWNED: Final = "spawned "


class EditedObjects:
    """Objects that edits of a scene describe.

    Args:
        scene: without edits.

    Attributes:
        own: the scene's objects by name. prefabs: models of actors by name, those of edited objects
            included.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.own: Final = {thing.name: thing for thing in scene.objects}
        self.prefabs: Final[dict[str, Prefab]] = dict(scene.prefabs)

    @property
    def assets(self) -> list[str]:
        """Names that objects can be spawned from."""
        return sorted({*BASIC_SHAPES, *self._scene.prefabs, *built_in_names()})

    def prefab_of(self, state: ObjectState) -> str:
        """Return the name of the model of an edited object."""
        return _SPAWNED + state.asset if state.asset else _OWN + state.name

    def asset_of(self, state: ObjectState) -> Asset:
        """Return the model of an edited object; its prefab is there afterwards.

        Raises:
            RendererError: the object or the asset is unknown.
        """
        if not state.asset:
            if state.name not in self.own:
                raise RendererError(
                    f"no object named {state.name!r}. Ask for objects() to list them"
                )
            thing = self.own[state.name]
            key = _OWN + state.name
            self.prefabs.setdefault(key, Prefab(thing.asset, thing.semantic, "size"))
            return thing.asset
        key = _SPAWNED + state.asset
        if key not in self.prefabs:
            self.prefabs[key] = self._spawned(state.asset)
        return self.prefabs[key].asset

    def _spawned(self, name: str) -> Prefab:
        if name in BASIC_SHAPES:
            return Prefab(basic_shape(name), CLASSES["prop"], "size")
        if name not in self.assets:
            raise RendererError(
                f"no asset named {name!r:.80}. Known assets: {', '.join(self.assets)}"
            )
        prefab = self._scene.prefabs.get(name) or built_in(name, ActorKind.PROP)[1]
        return replace(prefab, fit="size", asset_from_body=np.eye(4))

    def thing(self, state: ObjectState) -> SceneObject:
        """Return an edited object as one of a scene.

        Raises RendererError: it, or its asset, is unknown.
        """
        asset = self.asset_of(state)
        place: FloatArray = Transform.of(state.p_m, state.q_xyzw).matrix()
        place[:3, :3] *= state.scale
        own = self.own.get(state.name)
        if own is not None and not state.asset:
            return replace(own, world_from_asset=place, path=None, clip=None, movable=False)
        return SceneObject(state.name, asset, place, CLASSES["prop"], state.instance)
