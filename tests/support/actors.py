"""Skeletons and scenes for the tests of the renderer's cast."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

from tests.support.common import data_dir
from vil_adapters.recording.formats import open_recording
from vil_adapters.recording.model import RecordedSkeleton
from vil_bridge.bodies.skeleton import local_to_global
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    FloatArray,
    SkeletonFrame,
    SkeletonModel,
    TrackingState,
    WorldSnapshot,
)
from vil_renderer.embedded.actors import ActorModels, skin
from vil_renderer.embedded.assets.gltf import load_gltf
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scene import Environment, Posed, Prefab, Scene, SceneObject

RIGS = ("human_male_cmu", "human_female_cmu", "human_male_fingers", "kaykit_rogue", "human")
CMU_UNIT_M = 0.056444


def scene(*objects: SceneObject, **prefabs: Prefab) -> Scene:
    return Scene("test", objects, Environment(np.ones(3), np.ones(3)), prefabs=prefabs)


@cache
def rig(name: str) -> Asset:
    return load_gltf(data_dir("assets") / f"{name}.glb")


def model_of(asset: Asset, name: str = "own") -> SkeletonModel:
    """The joints of an asset whose nodes carry no rotation, as a skeleton with axes parallel to
    the room's.
    """
    place = asset.asset_from_node()[:, :3, 3]
    joints = [i for i, node in enumerate(asset.nodes) if not node.primitives]
    parents = tuple(
        joints.index(asset.nodes[i].parent) if asset.nodes[i].parent in joints else -1
        for i in joints
    )
    offsets = np.array(
        [
            place[i] - (place[joints[p]] if p >= 0 else 0.0)
            for i, p in zip(joints, parents, strict=True)
        ]
    )
    return SkeletonModel(name, tuple(asset.nodes[i].name for i in joints), parents, offsets)


def posed_by(model: SkeletonModel, turns: Mapping[str, FloatArray] | None = None) -> SkeletonFrame:
    """Forward kinematics: rotation matrices of some bones relative to their parents, the
    identity for the others.
    """
    R = np.tile(np.eye(3), (len(model.bones), 1, 1))
    for bone, turn in (turns or {}).items():
        R[model.bones.index(bone)] = turn
    p, q = local_to_global(np.array(model.offsets_m), q_from_matrix(R), model.parents)
    return SkeletonFrame(model, p, q, np.ones(len(p), np.bool_))


def human(skeleton: SkeletonFrame, prefab: str = "", name: str = "h") -> ActorState:
    T = Transform(skeleton.p_m[0], skeleton.q_xyzw[0])
    return ActorState(name, ActorKind.HUMAN, TrackingState.TRACKED, 0, T, skeleton, prefab)


def prop(
    name: str, p_m: npt.ArrayLike, q_xyzw: npt.ArrayLike = (0, 0, 0, 1), prefab: str = ""
) -> ActorState:
    pose = Transform(np.asarray(p_m, np.float64), np.asarray(q_xyzw, np.float64))
    return ActorState(
        name, ActorKind.PROP, TrackingState.TRACKED, 0, pose, prefab=prefab, size_m=(0.2, 0.4, 0.6)
    )


def pose_one(cast: ActorModels, actor: ActorState, t_ns: int = 0) -> Posed:
    (posed,) = cast.pose(WorldSnapshot(t_ns, (actor,)))
    return posed


def points(posed: Posed) -> FloatArray:
    """World positions (n, 3) of all vertices."""
    nodes = enumerate(posed.asset.nodes)
    return np.concatenate([skin(posed, i, part) for i, node in nodes for part in node.primitives])


@cache
def walk() -> RecordedSkeleton:
    """A real walk of the CMU library: 31 joints, 524 frames."""
    path = data_dir("skeleton") / "cmu_12_01_walk.bvh"
    return open_recording(path, unit_m=CMU_UNIT_M, up_axis="y").skeletons[0]


def step_of(track: RecordedSkeleton, row: int) -> SkeletonFrame:
    bones = track.bones
    return SkeletonFrame(track.model, bones.p_m[row], bones.q_xyzw[row], bones.tracked[row])
