"""Actors of a snapshot as posed models, for the scene pass and for the rays."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, q_normalize, q_to_matrix
from vil_bridge.core.types import ActorKind, ActorState, FloatArray, SkeletonFrame, TrackingState, WorldSnapshot
from vil_renderer.embedded.actors.capsule_body import CapsuleBody
from vil_renderer.embedded.actors.pose import PosedRig
from vil_renderer.embedded.actors.prefabs import built_in
from vil_renderer.embedded.actors.retarget import Retarget
from vil_renderer.embedded.actors.rig import Rig
from vil_renderer.embedded.actors.rigid import RigidModel
from vil_renderer.embedded.actors.source import ModelKey, Source
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.lru_cache import LruByteCache
from vil_renderer.embedded.scene import ACTORS_LAYER, Posed, Prefab, Scene, SceneObject

FIRST_INSTANCE: Final = 32768
"""Instance ids of actors start here; those of scene objects lie below."""

_INSTANCES: Final = 65536 - FIRST_INSTANCE
_MOST_POSERS: Final = 64
_NO_CAPSULES: Final = np.zeros((0, 8))


class HumanModels:
    """Retargeting of each pair of skeleton and model, computed when first seen and cached for the 64 latest."""

    def __init__(self) -> None:
        self._rigs: dict[Asset, Rig | None] = {}
        self._posers: LruByteCache[tuple[ModelKey, Asset], Retarget | CapsuleBody]
        self._posers = LruByteCache(_MOST_POSERS, lambda _: 1)

    def pose(self, skeleton: SkeletonFrame, asset: Asset) -> tuple[Asset, PosedRig | None]:
        """Return a skeleton's pose on a model, or on its own capsule body if either of them is not human.

        Returns:
            The model that is used, and its pose; None if no part of it can be placed.
        """
        poser = self._posers.get((ModelKey(skeleton.model), asset), lambda: self._make(skeleton, asset))
        return poser.asset, poser.pose(skeleton)

    def rig(self, asset: Asset) -> Rig | None:
        """Return a model's joints, None if it is not human; the first call takes a tenth of a second."""
        if asset not in self._rigs:
            self._rigs[asset] = Rig.of(asset)
        return self._rigs[asset]

    def _make(self, skeleton: SkeletonFrame, asset: Asset) -> Retarget | CapsuleBody:
        rig, source = self.rig(asset), Source.of(skeleton.model)
        return CapsuleBody(skeleton.model) if rig is None or source is None else Retarget(source, rig)


@dataclass(frozen=True, slots=True, eq=False)
class _ActorModel:
    """Model and ids of an actor."""

    model: RigidModel
    semantic: int
    instance: int
    layer: str


class ActorModels:
    """Posed models of the actors of snapshots, by the models of a scene.

    Attributes:
        instances: instance id of every actor seen so far, in order of appearance, and of movable objects.
        missing_prefabs: requested names of unknown models, or of models that no skeleton can move.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._movable = {thing.name: thing for thing in scene.objects if thing.movable}
        self.instances: dict[str, int] = {name: thing.instance for name, thing in self._movable.items()}
        self.missing_prefabs: set[str] = set()
        self._appeared = 0
        self._models: dict[Prefab, RigidModel] = {}
        self._assigned: dict[tuple[str, ActorKind, str], _ActorModel] = {}
        self._humans = HumanModels()
        # Painted and studied now, so that the first appearance of an actor does not delay a picture.
        shipped = {kind: built_in("", kind)[1].asset for kind in ActorKind}
        self._humans.rig(shipped[ActorKind.HUMAN])

    def pose(self, snapshot: WorldSnapshot) -> tuple[Posed, ...]:
        """Return every actor as a posed model; leave out lost actors and poses that are not finite.

        Of several actors with one name the last one counts, as in the Unity programs.
        """
        rigid: list[tuple[ActorState, _ActorModel]] = []
        posed: list[Posed] = []
        for actor in {actor.name: actor for actor in snapshot.actors}.values():
            if actor.state is TrackingState.LOST:
                continue
            drawn = self._assigned.get((actor.name, actor.kind, actor.prefab)) or self._assign(actor)
            if actor.skeleton is None or actor.name in self._movable:
                rigid.append((actor, drawn))
            elif _finite(actor.T_world_body) and (human := self._human(actor, drawn)) is not None:
                posed.append(human)
        posed += _place(rigid, snapshot.t_ns)
        return tuple(posed)

    def _assign(self, actor: ActorState) -> _ActorModel:
        movable = self._movable.get(actor.name)
        if len(self._assigned) >= _INSTANCES:
            self._reset()
        if movable is not None:
            drawn = _ActorModel(_driven(movable), movable.semantic, movable.instance, movable.layer)
        else:
            if actor.name not in self.instances:
                self.instances[actor.name] = FIRST_INSTANCE + self._appeared
                self._appeared += 1
            model = self._model(actor)
            semantic = model.prefab.semantic or self._scene.classes[actor.kind.value]
            drawn = _ActorModel(model, semantic, self.instances[actor.name], ACTORS_LAYER)
        self._assigned[actor.name, actor.kind, actor.prefab] = drawn
        return drawn

    def _reset(self) -> None:
        """Start over after more names than there are ids."""
        self._assigned.clear()
        self.missing_prefabs.clear()
        self.instances = {name: thing.instance for name, thing in self._movable.items()}
        self._appeared = 0

    def _model(self, actor: ActorState) -> RigidModel:
        prefab = self._scene.prefabs.get(actor.prefab)
        if prefab is None:
            known, prefab = built_in(actor.prefab, actor.kind)
            if actor.prefab and not known:
                self.missing_prefabs.add(actor.prefab)
        if prefab not in self._models:
            self._models[prefab] = RigidModel(prefab)
        return self._models[prefab]

    def _human(self, actor: ActorState, drawn: _ActorModel) -> Posed | None:
        assert actor.skeleton is not None
        requested = drawn.model.prefab.asset
        asset, pose = self._humans.pose(actor.skeleton, requested)
        if actor.prefab and self._humans.rig(requested) is None:
            self.missing_prefabs.add(actor.prefab)
        if pose is None:
            return None
        T = actor.T_world_body
        return Posed(
            actor.name,
            asset,
            pose.world_from_node,
            drawn.semantic,
            drawn.instance,
            T,
            _half_size(pose.capsules, T),
            drawn.layer,
            pose.node_light,
            pose.capsules,
        )


def _finite(T: Transform) -> bool:
    return bool(np.isfinite(T.p_m).all() and np.isfinite(T.q_xyzw).all())


def _driven(thing: SceneObject) -> RigidModel:
    """Return a scene object as a model that keeps its scale and takes place and rotation of its actor."""
    scale = np.eye(4)
    scale[range(3), range(3)] = 1.0 / np.linalg.norm(thing.world_from_asset[:3, :3], axis=0)
    return RigidModel(Prefab(thing.asset, thing.semantic, asset_from_body=scale))


def _place(rigid: list[tuple[ActorState, _ActorModel]], t_ns: int) -> list[Posed]:
    """Return the rigid actors as posed models, all of one model at once."""
    if not rigid:
        return []
    p_m = np.concatenate([actor.T_world_body.p_m for actor, _ in rigid]).reshape(-1, 3)
    q = np.concatenate([actor.T_world_body.q_xyzw for actor, _ in rigid]).reshape(-1, 4)
    finite = np.logical_and.reduce(np.isfinite(np.hstack((p_m, q))), axis=1)
    R = q_to_matrix(q_normalize(np.where(finite[:, None], q, 0.0)))
    groups: dict[RigidModel, list[int]] = {}
    for i in np.flatnonzero(finite).tolist():
        groups.setdefault(rigid[i][1].model, []).append(i)
    posed: list[Posed] = []
    for model, members in groups.items():
        size_m = np.fromiter(chain.from_iterable(rigid[i][0].size_m for i in members), float).reshape(-1, 3)
        matrices = model.place(R[members], p_m[members], size_m, t_ns)
        halves = map(tuple, model.half_sizes(size_m).tolist())
        asset = model.prefab.asset
        for i, world_from_node, half in zip(members, matrices, halves, strict=True):
            actor, drawn = rigid[i]
            posed.append(
                Posed(
                    actor.name,
                    asset,
                    world_from_node,
                    drawn.semantic,
                    drawn.instance,
                    actor.T_world_body,
                    half,
                    drawn.layer,
                    None,
                    _NO_CAPSULES,
                )
            )
    return posed


def _half_size(capsules: FloatArray, T_world_body: Transform) -> tuple[float, float, float]:
    """Return the half of the box about the body's origin and along its axes that holds all capsules (k, 8)."""
    if not len(capsules):
        return (0.0, 0.0, 0.0)
    ends = T_world_body.inverse().apply(capsules[:, :6].reshape(-1, 3))
    x, y, z = (np.abs(ends) + capsules[:, 6:].reshape(-1, 1)).max(axis=0).tolist()
    return (x, y, z)
