"""A mocap skeleton as the retargeting reads it.

Its rest, and its frames sorted by parts, implausible ones marked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.bodies.anatomy import has_human_parts
from vil_bridge.core.geometry import q_to_matrix
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame, SkeletonModel
from vil_renderer.embedded.actors.anatomy import LIMBS, PARTS, SIDES, anatomy
from vil_renderer.embedded.actors.turning import body_axes, snapped_body_axes

_TRUNK: Final = ("hips", "chest")
_BELOW: Final = ("hips", "leg", "foot", "toe")
_STRETCH: Final = 1.5
_STRETCH_M: Final = 0.1
_TRUST: Final = 0.9

_ABOVE: Final = {
    "chest": "hips",
    "neck": "chest",
    "head": "chest",
    "shoulder": "chest",
    "upper_arm": "shoulder",
    "lower_arm": "upper_arm",
    "hand": "lower_arm",
    "upper_leg": "hips",
    "lower_leg": "upper_leg",
    "foot": "lower_leg",
    "toe": "foot",
}
"""The part that moves one without a bone of its own."""


class ModelKey:
    """Hashable skeleton model: models of the same rest pose are equal."""

    __slots__ = ("_key", "model")

    def __init__(self, model: SkeletonModel) -> None:
        self.model = model
        self._key = (model.bones, model.parents, model.offsets_m.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelKey) and self._key == other._key


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Properties of a skeleton model, known before any frame of it.

    Attributes:
        bones: of each part, (20,): its own, or the nearest one above that the skeleton has.
        own: True for parts that it has, (20,).
        joints: where limbs begin, bend and end, (4, 3); -1 = the skeleton has none.
        axes: bone axes from body axes (forward, left, up) at rest, (20, 3, 3).
        rest_m: bone origins at rest with all bones' axes parallel, (m, 3).
        thighs_m: middle of the thigh joints in the hips' axes, (3,). hip_width_m: their distance.
        shoulders_m: middle of the arms' joints in the chest's axes, None if the rest does not show
            it.
        shoulder_width_m: their distance. torso_m: from one middle to the other; 0 = unknown.
    """

    bones: npt.NDArray[np.intp]
    own: BoolArray
    joints: npt.NDArray[np.intp]
    axes: FloatArray
    rest_m: FloatArray
    thighs_m: FloatArray
    hip_width_m: float
    shoulders_m: FloatArray | None
    shoulder_width_m: float
    torso_m: float

    @classmethod
    def of(cls, model: SkeletonModel) -> Source | None:
        """Study a model; None when it has too few parts of a human."""
        parts = anatomy(model)
        if not has_human_parts(parts):
            return None
        rest_m = np.array(model.offsets_m, np.float64)
        for bone, parent in enumerate(model.parents):
            rest_m[bone] = rest_m[parent] + model.offsets_m[bone] if parent >= 0 else 0.0
        hips = parts["hips"]
        chest = parts.get("chest", hips)
        legs = _pair(parts, "upper_leg")
        arms = _pair(parts, "upper_arm")
        F_hips, F_chest = _trunk_axes(parts, rest_m)
        thighs_m = np.zeros(3)
        if legs:
            thighs_m = rest_m[legs].mean(axis=0) - rest_m[hips]
        shoulders_m: FloatArray | None = None
        torso = np.zeros(3)
        if _trusted(arms, chest, model, rest_m):
            shoulders_m = rest_m[arms].mean(axis=0) - rest_m[chest]
            torso = rest_m[chest] + shoulders_m - rest_m[hips] - thighs_m
        joints = [parts.get(part, -1) for limb in LIMBS for part in limb]
        axes = []
        for part in PARTS:
            if part == "hips" or "leg" in part or "foot" in part or "toe" in part:
                axes.append(F_hips)
            else:
                axes.append(F_chest)
        return cls(
            bones=np.array([_bone_of(part, parts) for part in PARTS], np.intp),
            own=np.array([part in parts for part in PARTS]),
            joints=np.array(joints, np.intp).reshape(len(LIMBS), -1),
            axes=np.array(axes),
            rest_m=rest_m,
            thighs_m=thighs_m,
            hip_width_m=_width(legs, rest_m),
            shoulders_m=shoulders_m,
            shoulder_width_m=_width(arms, rest_m),
            torso_m=float(np.linalg.norm(torso)),
        )


def _bone_of(part: str, parts: dict[str, int]) -> int:
    side = ""
    name = part
    if part.startswith(SIDES):
        side, _, name = part.partition("_")
    while part not in parts:
        name = _ABOVE[name]
        part = name if name in _TRUNK else f"{side}_{name}"
    return parts[part]


def _pair(parts: dict[str, int], name: str) -> list[int]:
    pair = [parts[f"{side}_{name}"] for side in SIDES if f"{side}_{name}" in parts]
    return pair if len(pair) == 2 else []


def _width(pair: list[int], rest_m: FloatArray) -> float:
    return float(np.linalg.norm(rest_m[pair[0]] - rest_m[pair[1]])) if pair else 0.0


def _trunk_axes(parts: dict[str, int], rest_m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return axes of hips and chest from body axes at rest."""
    hips = parts["hips"]
    head = parts["head"]
    chest = parts.get("chest", hips)
    up = rest_m[chest if chest != hips else head] - rest_m[hips]
    F_hips: FloatArray | None = None
    F_chest: FloatArray | None = None
    if legs := _pair(parts, "upper_leg"):
        F_hips = snapped_body_axes(rest_m[legs[0]] - rest_m[legs[1]], up)
    arms = _pair(parts, "shoulder")
    if not arms or _width(arms, rest_m) < 0.02:
        arms = _pair(parts, "upper_arm")
    if arms:
        F_chest = snapped_body_axes(rest_m[arms[0]] - rest_m[arms[1]], rest_m[head] - rest_m[chest])
    if F_hips is None:
        F_hips = F_chest
    if F_hips is None:
        F_hips = np.eye(3)
    if F_chest is None:
        F_chest = F_hips
    return F_hips, F_chest


def _trusted(arms: list[int], chest: int, model: SkeletonModel, rest_m: FloatArray) -> bool:
    """Return whether the rest shows where the arms begin.

    At the chest itself, or held apart by collar bones.

    The axes of these may be their own, so that they lie elsewhere when all bones' axes are
    parallel.
    """
    if arms and all(model.parents[arm] == chest for arm in arms):
        return True
    collars_m = sum(float(np.linalg.norm(model.offsets_m[arm])) for arm in arms)
    return bool(arms) and _width(arms, rest_m) >= _TRUST * collars_m


def plausible(skeleton: SkeletonFrame) -> BoolArray:
    """Return which bones have a plausible place, (m,).

    Tracked ones, and those near a plausible parent.

    A bone that the system never saw lies in the origin: nothing may be drawn towards it. If no bone
    is tracked, the whole pose is an old one and counts as plausible.
    """
    placed: BoolArray = np.logical_and.reduce(
        np.isfinite(np.hstack((skeleton.p_m, skeleton.q_xyzw))), axis=1
    )
    if skeleton.tracked.all() or not skeleton.tracked.any():
        return placed
    model = skeleton.model
    parents = np.array(model.parents, np.intp)
    length_m = np.linalg.norm(skeleton.p_m - skeleton.p_m[parents], axis=1)
    near = length_m <= _STRETCH * np.linalg.norm(model.offsets_m, axis=1) + _STRETCH_M
    for bone, parent in enumerate(model.parents):
        if not skeleton.tracked[bone]:
            placed[bone] &= parent >= 0 and near[bone] and placed[parent]
    return placed


class SortedFrame:
    """A frame, sorted by parts.

    Attributes:
        R: rotations of the parts from the model's axes at rest, (20, 3, 3).
        p_m: origins of their bones, (20, 3). placed, tracked: of their bones, (20,).
        joints_m: limb joints, (4, 3, 3). seen: True for joints that exist and are placed, (4, 3).
    """

    def __init__(self, source: Source, skeleton: SkeletonFrame, bone_from_rest: FloatArray) -> None:
        placed = plausible(skeleton)
        bones = source.bones
        q = np.where(placed[bones, None], skeleton.q_xyzw[bones], (0.0, 0.0, 0.0, 1.0))
        p_m = np.where(placed[:, None], skeleton.p_m, 0.0)
        self._R_bone = q_to_matrix(q)
        self.R = self._R_bone @ bone_from_rest
        self.p_m: FloatArray = p_m[bones]
        self.placed: BoolArray = placed[bones]
        self.tracked: BoolArray = skeleton.tracked[bones]
        self.joints_m: FloatArray = p_m[source.joints]
        self.seen: BoolArray = (source.joints >= 0) & placed[source.joints]

    def middle(self, part: int, offset_m: FloatArray | None, limbs: list[int]) -> FloatArray | None:
        """Return the middle of two limbs' first joints, by the trunk if placed, else between them.

        None if unknown.
        """
        if offset_m is not None and self.placed[part]:
            return np.asarray(self.p_m[part] + self._R_bone[part] @ offset_m)
        if self.seen[limbs, 0].all():
            return np.asarray(self.joints_m[limbs, 0].mean(axis=0))
        return None

    def apart(self, limbs: list[int], up: FloatArray) -> FloatArray | None:
        """Return the trunk's rotation from the first joints of two limbs.

        None if they are missing.
        """
        if not self.seen[limbs, 0].all():
            return None
        left_m, right_m = self.joints_m[limbs, 0]
        return body_axes(left_m - right_m, up)
