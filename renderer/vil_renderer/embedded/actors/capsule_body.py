"""A body of tapered capsules, one or more to each bone.

For skeletons that are not human, or lack parts of one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.bodies.skeleton import local_to_global
from vil_bridge.core.geometry import q_to_matrix
from vil_bridge.core.types import FloatArray, SkeletonFrame, SkeletonModel
from vil_renderer.embedded.actors.lofts import capsule
from vil_renderer.embedded.actors.pose import PosedRig
from vil_renderer.embedded.actors.retarget import UNSEEN_LIGHT
from vil_renderer.embedded.actors.source import plausible
from vil_renderer.embedded.assets.model import Asset, Node, Primitive, Skin
from vil_renderer.embedded.scenes.shapes import MeshBuilder, join
from vil_renderer.embedded.scenes.surfaces import material

_SLENDER: Final = 0.16
_RADIUS_M: Final = (0.015, 0.075)
_TIP: Final = 0.6
_JOINTS_PER_SKIN: Final = 128
_TEXTURE_M: Final = 0.5


class CapsuleBody:
    """Body of a skeleton, one or more capsules for each bone.

    Attributes:
        asset: a node for each bone, in the bones' order, then the skinned meshes.
    """

    def __init__(self, model: SkeletonModel) -> None:
        self._bone, self._ends_m, self._radii_m = _capsules(model)
        self.asset = _asset(model, self._bone, self._ends_m, self._radii_m)
        self._parents = np.array(model.parents, np.intp)

    def pose(self, skeleton: SkeletonFrame) -> PosedRig | None:
        """Return the body in the pose of a frame; None if no bone can be placed."""
        placed = plausible(skeleton)
        if not placed.any():
            return None
        count = len(placed)
        matrices = np.tile(np.eye(4), (len(self.asset.nodes), 1, 1))
        matrices[:count, :3, :3] = q_to_matrix(np.where(placed[:, None], skeleton.q_xyzw, 0.0))
        matrices[:count, :3, 3] = np.where(placed[:, None], skeleton.p_m, 0.0)
        for bone in np.flatnonzero(~placed):
            # Shrunk to its parent's place; below a lost root, to any placed bone.
            above = self._parents[bone]
            at = matrices[above if above >= 0 and placed[above] else int(placed.argmax()), :3, 3]
            matrices[bone, :3] = 0.0
            matrices[bone, :3, 3] = at
        ends = np.concatenate((self._ends_m, np.ones((*self._ends_m.shape[:2], 1))), axis=2)
        world = (matrices[self._bone][:, None, :3] @ ends[..., None])[..., 0]
        capsules = np.hstack((world.reshape(-1, 6), self._radii_m))[placed[self._bone]]
        light = None
        if not skeleton.tracked.all():
            light = np.ones(len(matrices))
            light[:count][~skeleton.tracked] = UNSEEN_LIGHT
        return PosedRig(matrices, light, capsules)


def _capsules(model: SkeletonModel) -> tuple[npt.NDArray[np.intp], FloatArray, FloatArray]:
    """Return the bone (k,) of each capsule, its ends (k, 2, 3) in the bone's axes, its radii.

    K, 2.
    """
    length_m = np.linalg.norm(model.offsets_m, axis=1)
    rows: list[tuple[int, FloatArray, float]] = []
    for bone, parent in enumerate(model.parents):
        if parent >= 0:
            rows.append((parent, model.offsets_m[bone], float(length_m[bone])))
        if bone in model.parents:
            continue
        if parent >= 0:
            rows.append((bone, _TIP * model.offsets_m[bone], _TIP * float(length_m[bone])))
        else:
            rows.append((bone, np.zeros(3), 0.0))
    radius = np.clip([_SLENDER * length for _, _, length in rows], *_RADIUS_M)
    ends = np.array([(np.zeros(3), tip) for _, tip, _ in rows])
    return (
        np.array([bone for bone, _, _ in rows], np.intp),
        ends,
        np.stack((radius, 0.8 * radius), axis=-1),
    )


def _asset(
    model: SkeletonModel, bones: npt.NDArray[np.intp], ends_m: FloatArray, radii_m: FloatArray
) -> Asset:
    nodes = [
        Node(n, p, offset)
        for n, p, offset in zip(model.bones, model.parents, model.offsets_m, strict=True)
    ]
    identity = np.tile((0.0, 0.0, 0.0, 1.0), (len(nodes), 1))
    rest_m, _ = local_to_global(np.array(model.offsets_m, np.float64), identity, model.parents)
    meshes: dict[int, list[tuple[int, MeshBuilder]]] = {}
    for bone, (a, b), (ra, rb) in zip(bones.tolist(), ends_m, radii_m.tolist(), strict=True):
        shape = capsule(a, b, (ra, rb), columns=10, rows=3)
        # One texture along and around: long bones are not stretched.
        shape = MeshBuilder(
            shape.p_m + rest_m[bone], shape.normal, shape.uv * _uv_scale(a, b, ra), shape.triangles
        )
        meshes.setdefault(bone // _JOINTS_PER_SKIN, []).append((bone, shape))
    for chunk, parts in meshes.items():
        joints = tuple(
            range(chunk * _JOINTS_PER_SKIN, min(len(model.bones), (chunk + 1) * _JOINTS_PER_SKIN))
        )
        inverse_bind = np.tile(np.eye(4), (len(joints), 1, 1))
        inverse_bind[:, :3, 3] = -rest_m[list(joints)]
        nodes.append(
            Node(
                f"body{chunk}",
                primitives=(_primitive(parts, joints[0]),),
                skin=Skin(joints, inverse_bind),
            )
        )
    return Asset(model.name, tuple(nodes), origin="procedural")


def _uv_scale(a: FloatArray, b: FloatArray, radius_m: float) -> FloatArray:
    along = float(np.linalg.norm(b - a)) + 2.0 * radius_m
    return np.array([2.0 * np.pi * radius_m, along]) / _TEXTURE_M


def _primitive(parts: list[tuple[int, MeshBuilder]], first_joint: int) -> Primitive:
    mesh = join([shape for _, shape in parts])
    joints = np.zeros((len(mesh.p_m), 4), np.uint16)
    joints[:, 0] = np.repeat(
        [bone - first_joint for bone, _ in parts], [len(shape.p_m) for _, shape in parts]
    )
    weights = np.zeros((len(mesh.p_m), 4), np.float32)
    weights[:, 0] = 1.0
    return mesh.primitive(material("cloth"), joints=joints, weights=weights)
