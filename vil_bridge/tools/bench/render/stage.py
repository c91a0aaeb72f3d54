"""Content of the cases of ``bench render``: a camera on its way through the yardstick hall, a human, small props."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from vil_adapters.motions.walking_human import WalkMotion
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.skeleton import place_of
from vil_bridge.core.types import ActorKind, ActorState, CameraModel, FloatArray, TrackingState, WorldSnapshot
from vil_bridge.pipeline.camera import T_FLU_OPTICAL
from vil_bridge.tools.bench.render.reference import box_panels, panelled, yardstick_scene
from vil_renderer.embedded.actors.figure import figure
from vil_renderer.embedded.assets.model import Asset, Float32Array, Material, Primitive
from vil_renderer.embedded.scene import CLASSES, Prefab, Scene

__all__ = ["CAMERA", "STEP_NS", "camera_pose", "crowd", "stage_scene", "walker"]

CAMERA: Final = CameraModel("bench", 640, 480, math.radians(70.0))
STEP_NS: Final = 33_333_333
_WALKER_TRIANGLES: Final = 27_000
_TINY_M: Final = 0.02
_PACE_M: Final = 0.05


def camera_pose(n: int, along_m: float = -7.0) -> Transform:
    """Return the camera's pose at step ``n`` of its way down the hall, looking from side to side."""
    yaw_rad, pitch_rad = 0.4 * math.sin(0.15 * n), 0.1 * math.sin(0.11 * n)
    p_m = (along_m + _PACE_M * n, 0.4 * math.sin(0.1 * n), 1.8)
    return Transform.of(p_m, q_from_euler_zyx(yaw_rad, pitch_rad, 0.0)) @ T_FLU_OPTICAL


def stage_scene(*, gloss: bool = False) -> Scene:
    """Return the yardstick hall with the models of :func:`walker` and :func:`crowd`."""
    tiny = Asset.of("tiny", [panelled(box_panels(np.full(3, _TINY_M), 0.0, np.zeros(3)), 1, Material("tiny"))])
    models = {"walker": Prefab(_fine_human(), CLASSES["human"]), "tiny": Prefab(tiny, CLASSES["prop"])}
    return replace(yardstick_scene(gloss=gloss), prefabs=models)


def walker(n: int) -> WorldSnapshot:
    """Return one human of 27,000 skinned triangles at step ``n``, walking ahead of the camera."""
    t_ns = n * STEP_NS
    skeleton = WalkMotion("walker", center_m=(-2.5, 0.0), radius_m=0.8).at(t_ns).skeletons[0]
    root = place_of(skeleton)
    state = ActorState("walker", ActorKind.HUMAN, TrackingState.TRACKED, 0, root, skeleton, prefab="walker")
    return WorldSnapshot(t_ns, (state,))


def crowd(n: int, count: int) -> WorldSnapshot:
    """Return small props all over the hall at step ``n``, each on its own circle."""
    rng = np.random.default_rng(1000)
    centres_m: FloatArray = rng.uniform((-9.0, -2.4, 0.3), (9.0, 2.4, 4.0), (count, 3))
    phases: FloatArray = rng.uniform(0.0, 2 * np.pi, count) + 0.1 * n
    circles_m = 0.3 * np.stack((np.cos(phases), np.sin(phases), np.zeros(count)), axis=-1)
    poses = [
        Transform.of(p_m, q_from_euler_zyx(phase, 0.0, 0.0))
        for p_m, phase in zip(centres_m + circles_m, phases.tolist(), strict=True)
    ]
    size_m = (2 * _TINY_M, 2 * _TINY_M, 2 * _TINY_M)
    return WorldSnapshot(
        n * STEP_NS,
        tuple(
            ActorState(f"p{i}", ActorKind.PROP, TrackingState.TRACKED, 0, pose, prefab="tiny", size_m=size_m)
            for i, pose in enumerate(poses)
        ),
    )


def _fine_human() -> Asset:
    """Return the built-in human with its triangles cut into four until there are as many as in a realistic one."""
    asset = figure()
    nodes = tuple(
        replace(node, primitives=tuple(_refined(part, _WALKER_TRIANGLES) for part in node.primitives))
        for node in asset.nodes
    )
    return replace(asset, nodes=nodes)


def _refined(part: Primitive, count: int) -> Primitive:
    """Return a skinned mesh of about ``count`` triangles: the first ones are cut at the middles of their sides."""
    assert part.joints is not None and part.weights is not None
    cut = min(len(part.triangles), -(-(count - len(part.triangles)) // 3))
    corners = part.triangles[:cut]
    sides = np.sort(np.concatenate((corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]])), axis=1)
    pairs, middle = np.unique(sides, axis=0, return_inverse=True)
    ab, bc, ca = middle.reshape(3, cut) + len(part.p_m)
    a, b, c = corners.T
    fine = np.stack((a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca), axis=1).reshape(-1, 3)
    first = pairs[:, 0]  # a middle hangs on the joints of one end: as dear as its own, and as smooth as a cost asks

    def halfway(values: Float32Array) -> Float32Array:
        return np.concatenate((values, values[pairs].mean(axis=1)))

    return replace(
        part,
        p_m=halfway(part.p_m),
        normal=halfway(part.normal),
        uv=halfway(part.uv),
        triangles=np.concatenate((fine, part.triangles[cut:])).astype(np.uint32),
        joints=np.concatenate((part.joints, part.joints[first])),
        weights=np.concatenate((part.weights, part.weights[first])),
    )
