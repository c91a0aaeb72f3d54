"""Actors of a snapshot as posed models, for the scene pass and for the rays."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    FloatArray,
    SkeletonFrame,
    TrackingState,
    WorldSnapshot,
)
from vil_renderer.embedded.actors.capsule_body import CapsuleBody
from vil_renderer.embedded.actors.pose import PosedRig
from vil_renderer.embedded.actors.prefabs import built_in
from vil_renderer.embedded.actors.retarget import Retarget
from vil_renderer.embedded.actors.rig import Rig
from vil_renderer.embedded.actors.rigid import RigidModel
from vil_renderer.embedded.actors.source import ModelKey, Source
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.lru_cache import LruByteCache
from vil_renderer.embedded.posed_models import NO_CAPSULES, PosedGroup, PosedModels
from vil_renderer.embedded.scene import ACTORS_LAYER, Posed, Prefab, Scene, SceneObject

FIRST_INSTANCE: Final = 32768
"""Instance ids of actors start here; those of scene objects lie below."""

_INSTANCES: Final = 65536 - FIRST_INSTANCE
_MOST_POSERS: Final = 64
_FLOAT: Final = np.dtype(np.float64)


@cache
def _shipped_human() -> tuple[Asset, Rig | None]:
    """Return the model of humans without a prefab, and its joints.

    Studied once, since no scene changes them.
    """
    asset = built_in("", ActorKind.HUMAN)[1].asset
    return asset, Rig.of(asset)


class HumanModels:
    """Retargeting of each pair of skeleton and model, computed when first seen and cached for
    the 64 latest.
    """

    def __init__(self) -> None:
        self._rigs: dict[Asset, Rig | None] = dict([_shipped_human()])
        self._posers: LruByteCache[tuple[ModelKey, Asset], Retarget | CapsuleBody]
        self._posers = LruByteCache(_MOST_POSERS, lambda _: 1)

    def pose(self, skeleton: SkeletonFrame, asset: Asset) -> tuple[Asset, PosedRig | None]:
        """Return a skeleton's pose on a model, or on its own capsule body if either of them is not
        human.

        Returns:
            The model that is used, and its pose; None if no part of it can be placed.
        """
        poser = self._posers.get(
            (ModelKey(skeleton.model), asset), lambda: self._make(skeleton, asset)
        )
        return poser.asset, poser.pose(skeleton)

    def rig(self, asset: Asset) -> Rig | None:
        """Return a model's joints, None if it is not human.

        The first call takes a tenth of a second.
        """
        if asset not in self._rigs:
            self._rigs[asset] = Rig.of(asset)
        return self._rigs[asset]

    def _make(self, skeleton: SkeletonFrame, asset: Asset) -> Retarget | CapsuleBody:
        rig = self.rig(asset)
        source = Source.of(skeleton.model)
        if rig is None or source is None:
            return CapsuleBody(skeleton.model)
        return Retarget(source, rig)


@dataclass(frozen=True, slots=True, eq=False)
class _ActorModel:
    """Model and ids of an actor."""

    model: RigidModel
    semantic: int
    instance: int
    layer: str


_Keys = tuple[
    list[str], list[ActorKind], list[str], list[tuple[float, float, float]], list[bool], list[bool]
]


def _keys_of(actors: Sequence[ActorState]) -> _Keys:
    """Return all that decides on models and ids of actors.

    Columns, since a thousand tuples wake the collector.
    """
    lost = TrackingState.LOST  # to look it up in the class takes four times as long as to compare
    return (
        [a.name for a in actors],
        [a.kind for a in actors],
        [a.prefab for a in actors],
        [a.size_m for a in actors],
        [a.state is lost for a in actors],
        [a.skeleton is None for a in actors],
    )


def _rows_of(vectors: Sequence[FloatArray]) -> FloatArray:
    """Return vectors of one length as rows.

    Joined as bytes, a thousand take two thirds of the time of concatenate.
    """
    if [v.dtype for v in vectors].count(_FLOAT) == len(vectors):
        with contextlib.suppress(TypeError, BufferError):  # of vectors with gaps
            return np.frombuffer(b"".join(cast("Any", vectors))).reshape(len(vectors), -1)
    return np.concatenate(vectors).reshape(len(vectors), -1)


def _rotations(q: FloatArray) -> FloatArray:
    """Return rotation matrices (k, 3, 3) of quaternions (k, 4) of any length.

    Of zeros the identity.

    By columns, a thousand take half the time of :func:`q_normalize` and :func:`q_to_matrix`.
    """
    x, y, z, w = columns = np.ascontiguousarray(q.T)
    squared = (columns * columns).sum(axis=0)
    sx, sy, sz = columns[:3] * np.divide(
        2.0, squared, out=np.zeros_like(squared), where=squared > 0.0
    )
    R = np.empty((len(q), 3, 3))
    R[:, 0, 0] = 1.0 - (y * sy + z * sz)
    R[:, 0, 1] = x * sy - w * sz
    R[:, 0, 2] = x * sz + w * sy
    R[:, 1, 0] = x * sy + w * sz
    R[:, 1, 1] = 1.0 - (x * sx + z * sz)
    R[:, 1, 2] = y * sz - w * sx
    R[:, 2, 0] = x * sz - w * sy
    R[:, 2, 1] = y * sz + w * sx
    R[:, 2, 2] = 1.0 - (x * sx + y * sy)
    return R


@dataclass(frozen=True, slots=True, eq=False)
class _RigidGroup:
    """Rigid actors of one model, k of them.

    Attributes:
        rows: of each among all rigid actors, (k,). size_m: (k, 3). ids: semantic id << 16 |
            instance id, (k,).
    """

    model: RigidModel
    rows: npt.NDArray[np.intp]
    names: tuple[str, ...]
    ids: npt.NDArray[np.uint32]
    size_m: FloatArray
    layers: tuple[str, ...]

    @classmethod
    def of(
        cls, model: RigidModel, members: Sequence[tuple[int, ActorState, _ActorModel]]
    ) -> _RigidGroup:
        """Return the group of actors, each with its row and its model."""
        return cls(
            model,
            np.array([row for row, _, _ in members], np.intp),
            tuple(actor.name for _, actor, _ in members),
            np.array([drawn.semantic << 16 | drawn.instance for _, _, drawn in members], np.uint32),
            np.array([actor.size_m for _, actor, _ in members], np.float64),
            tuple(drawn.layer for _, _, drawn in members),
        )

    def place(
        self, bodies: Sequence[Transform], R: FloatArray, p_m: FloatArray, t_ns: int
    ) -> PosedGroup:
        """Return the models of bodies at rotations (m, 3, 3) and places (m, 3) of all rigid
        actors.
        """
        own = p_m[self.rows]
        count = len(self.names)
        return PosedGroup(
            self.model.prefab.asset,
            self.names,
            self.model.place(R[self.rows], own, self.size_m, t_ns),
            self.ids,
            [bodies[row] for row in self.rows.tolist()],
            own,
            self.model.half_sizes(self.size_m),
            self.layers,
            (None,) * count,
            (NO_CAPSULES,) * count,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _ActorTable:
    """Actors of a snapshot by model.

    Attributes:
        keys: of all actors; with other keys, or None, the table is computed again.
        humans: index of each among all actors, with its model. rigid: indices of the others.
    """

    keys: _Keys | None = None
    humans: list[tuple[int, _ActorModel]] = field(default_factory=list)
    rigid: list[int] = field(default_factory=list)
    groups: list[_RigidGroup] = field(default_factory=list)

    def place(self, bodies: Sequence[Transform], t_ns: int) -> list[PosedGroup]:
        """Return the rigid actors as posed models, except those whose pose is not finite."""
        if not bodies:
            return []
        p_m = _rows_of([T.p_m for T in bodies])
        q = _rows_of([T.q_xyzw for T in bodies])
        if np.isfinite(p_m).all() and np.isfinite(q).all():
            R = _rotations(q)
            return [group.place(bodies, R, p_m, t_ns) for group in self.groups]
        finite = np.logical_and.reduce(np.isfinite(np.hstack((p_m, q))), axis=1)
        R = _rotations(np.where(finite[:, None], q, 0.0))
        return [group.place(bodies, R, p_m, t_ns).only(finite[group.rows]) for group in self.groups]


class ActorModels:
    """Posed models of the actors of snapshots, by the models of a scene.

    Attributes:
        instances: instance id of every actor seen so far, in order of appearance, and of movable
            objects.
        missing_prefabs: requested names of unknown models, or of models that no skeleton can move.
        expected: models that are drawn sooner or later: the shipped human, and the scene's prefabs.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._movable = {thing.name: thing for thing in scene.objects if thing.movable}
        self.instances: dict[str, int] = {
            name: thing.instance for name, thing in self._movable.items()
        }
        self.missing_prefabs: set[str] = set()
        self._appeared = 0
        self._reserved: dict[str, int] = {}
        self._models: dict[Prefab, RigidModel] = {}
        self._assigned: dict[tuple[str, ActorKind, str], _ActorModel] = {}
        self._humans = HumanModels()
        self._table = _ActorTable()
        # Painted now, as the human was studied, so that the first appearance of an actor does not
        # delay a picture.
        shipped = {kind: built_in("", kind)[1].asset for kind in ActorKind}
        self.expected = (
            shipped[ActorKind.HUMAN],
            *(prefab.asset for prefab in scene.prefabs.values()),
        )

    def pose(self, snapshot: WorldSnapshot) -> PosedModels:
        """Return every actor as a posed model; leave out lost actors and poses that are not finite.

        Of several actors with one name the last one counts, as in the Unity programs.
        """
        actors = snapshot.actors
        keys = _keys_of(actors)
        if keys != self._table.keys:
            self._table = self._tabulate(actors, keys)
        posed = [
            PosedGroup.of(human)
            for i, drawn in self._table.humans
            if _finite(actors[i].T_world_body)
            and (human := self._human(actors[i], drawn)) is not None
        ]
        bodies = [actors[i].T_world_body for i in self._table.rigid]
        return PosedModels([*posed, *self._table.place(bodies, snapshot.t_ns)])

    def reserve(self, name: str, instance: int | None) -> None:
        """Give the actor of a name this instance id, from its next snapshot on.

        None = one of its own, as others have.

        An id of another actor or object is not refused: the caller chooses.
        """
        if instance is None:
            self._reserved.pop(name, None)
            self.instances.pop(name, None)
        else:
            self._reserved[name] = self.instances[name] = instance
        self._assigned = {key: drawn for key, drawn in self._assigned.items() if key[0] != name}
        self._table = _ActorTable()

    def _tabulate(self, actors: Sequence[ActorState], keys: _Keys | None) -> _ActorTable:
        """Return models and ids of actors.

        The same for all snapshots with the same actors in the same states.
        """
        humans: list[tuple[int, _ActorModel]] = []
        rigid: list[int] = []
        groups: dict[RigidModel, list[tuple[int, ActorState, _ActorModel]]] = {}
        assigned = self._assigned
        for i in {actor.name: i for i, actor in enumerate(actors)}.values():
            actor = actors[i]
            if actor.state is TrackingState.LOST:
                continue
            drawn = self._assigned.get((actor.name, actor.kind, actor.prefab)) or self._assign(
                actor
            )
            if actor.skeleton is None or actor.name in self._movable:
                groups.setdefault(drawn.model, []).append((len(rigid), actor, drawn))
                rigid.append(i)
            else:
                humans.append((i, drawn))
        if self._assigned is not assigned:
            # Names were given again while this table was made: it serves this snapshot only.
            keys = None
        return _ActorTable(
            keys, humans, rigid, [_RigidGroup.of(model, rows) for model, rows in groups.items()]
        )

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
        self._assigned = {}
        self.missing_prefabs.clear()
        self.instances = {
            name: thing.instance for name, thing in self._movable.items()
        } | self._reserved
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
    """Return a scene object as a model that keeps its scale and takes place and rotation of its
    actor.
    """
    scale = np.eye(4)
    scale[range(3), range(3)] = 1.0 / np.linalg.norm(thing.world_from_asset[:3, :3], axis=0)
    return RigidModel(Prefab(thing.asset, thing.semantic, asset_from_body=scale))


def _half_size(capsules: FloatArray, T_world_body: Transform) -> tuple[float, float, float]:
    """Return the half of the box about the body's origin and along its axes that holds all
    capsules (k, 8).
    """
    if not len(capsules):
        return (0.0, 0.0, 0.0)
    ends = T_world_body.inverse().apply(capsules[:, :6].reshape(-1, 3))
    x, y, z = (np.abs(ends) + capsules[:, 6:].reshape(-1, 1)).max(axis=0).tolist()
    return (x, y, z)
