"""A skinned model as the retargeting drives it.

The part of a human that moves each node, and parts at rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray, SkeletonModel
from vil_renderer.embedded.actors.anatomy import (
    ENDS,
    LIMBS,
    LOWERS,
    PART_INDEX,
    PARTS,
    SIDES,
    UPPERS,
    anatomy,
    path_up,
)
from vil_renderer.embedded.actors.capsules import NodeCapsules
from vil_renderer.embedded.actors.skinning import skinned_points
from vil_renderer.embedded.actors.turning import unit
from vil_renderer.embedded.assets.model import Asset, Skin

_NEEDED: Final = ("hips", "chest", "head", *(part for limb in LIMBS for part in limb))
_TWIST: Final = "twist"
_TWISTED: Final = (*UPPERS, *LOWERS)


@dataclass(frozen=True, slots=True, eq=False)
class Rig:
    """An asset with the joints of a human.

    Attributes:
        asset: the model. asset_from_node: (n, 4, 4), at rest.
        driver: what moves each node, (n,): an index into :data:`PARTS`, 20 + an index into the
            spine, or 20 + s + an index into the twists.
        joint_m: rest place of each part's joint in the asset's axes, (20, 3). own: whether it has
            that part, (20,).
        spine: share of the way from hips to chest of each joint between them, (s,). spine_m: their
            places, (s, 3).
        twist_part: the part of a limb that each joint named ``twist`` shares out, (t,).
        twist_share: how far along it that joint lies, (t,).
        thighs_m, shoulders_m: middles of the joints of legs and arms, (3,).
        along: unit direction of each part to the next one, (20, 3); 0 where it has none. length_m:
            (20,).
        height_m: of the mesh. ankle_m: of the ankles above its lowest point.
        capsules: what rays meet.
    """

    asset: Asset
    asset_from_node: FloatArray
    driver: npt.NDArray[np.intp]
    joint_m: FloatArray
    own: BoolArray
    spine: FloatArray
    spine_m: FloatArray
    twist_part: npt.NDArray[np.intp]
    twist_share: FloatArray
    thighs_m: FloatArray
    shoulders_m: FloatArray
    along: FloatArray
    length_m: FloatArray
    height_m: float
    ankle_m: float
    capsules: NodeCapsules

    @classmethod
    def of(cls, asset: Asset) -> Rig | None:
        """Study an asset; None unless it is a skinned human: a trunk, a head and four limbs."""
        model = _model(asset)
        if model is None:
            return None
        parts = anatomy(model)
        if any(part not in parts for part in _NEEDED):
            return None
        rest = asset.asset_from_node()
        spine = [
            b
            for b in path_up(model.parents, parts["chest"])[1:]
            if parts["hips"] in path_up(model.parents, b)[1:]
        ]
        place = rest[:, :3, 3]
        own = np.array([part in parts for part in PARTS])
        joint_m = np.array([place[parts[_or_above(part, parts)]] for part in PARTS])
        hips_z = place[parts["hips"], 2]
        chest_z = place[parts["chest"], 2]
        share = np.clip((place[spine, 2] - hips_z) / max(chest_z - hips_z, 1e-6), 0.0, 1.0).reshape(
            -1
        )
        limbs = _drivers(model.parents, parts, spine)
        bones = _bone_vectors(joint_m)
        twists = [
            i
            for i, name in enumerate(model.bones)
            if _TWIST in name.lower() and limbs[i] in _TWISTED
        ]
        driver = limbs.copy()
        driver[twists] = len(PARTS) + len(spine) + np.arange(len(twists))
        heights = np.concatenate([p[:, 2] for p in skinned_points(asset, rest)])
        return cls(
            asset=asset,
            asset_from_node=rest,
            driver=driver,
            joint_m=joint_m,
            own=own,
            spine=share,
            spine_m=place[spine].reshape(-1, 3),
            twist_part=limbs[twists],
            twist_share=_shares(place[twists], joint_m[limbs[twists]], bones[limbs[twists]]),
            thighs_m=_middle(joint_m, "upper_leg"),
            shoulders_m=_middle(joint_m, "upper_arm"),
            along=unit(bones),
            length_m=np.linalg.norm(bones, axis=1),
            height_m=float(np.ptp(heights)),
            ankle_m=float(joint_m[ENDS[2:], 2].mean() - heights.min()),
            capsules=NodeCapsules.around(asset, rest, limbs, len(PARTS) + len(spine)),
        )


def _model(asset: Asset) -> SkeletonModel | None:
    """Return the nodes as a skeleton in which only joints have names.

    None if nothing is skinned.
    """
    skins: list[Skin] = [node.skin for node in asset.nodes if node.skin is not None]
    joints = {joint for skin in skins for joint in skin.joints}
    if not joints:
        return None
    names = tuple(node.name if i in joints else "" for i, node in enumerate(asset.nodes))
    parents = tuple(node.parent for node in asset.nodes)
    place = asset.asset_from_node()[:, :3, 3]
    offsets_m = place - np.where(np.array(parents)[:, None] >= 0, place[np.array(parents)], 0.0)
    return SkeletonModel(asset.name, names, parents, offsets_m)


def _or_above(part: str, parts: dict[str, int]) -> str:
    """Return the part, or the one that stands in for its joint if the asset lacks it."""
    if part in parts:
        return part
    if part == "neck":
        return "head"
    side = part.partition("_")[0]
    if part.endswith("toe"):
        return f"{side}_foot"
    return f"{side}_upper_arm"


def _drivers(
    parents: tuple[int, ...], parts: dict[str, int], spine: list[int]
) -> npt.NDArray[np.intp]:
    """Return the driver of each node.

    Itself if it is a part, else the nearest one above, else the hips.
    """
    moved = {bone: PART_INDEX[part] for part, bone in parts.items()}
    moved |= {bone: len(PARTS) + i for i, bone in enumerate(spine)}
    driver: list[int] = []
    for node, parent in enumerate(parents):
        driver.append(moved.get(node, driver[parent] if parent >= 0 else 0))
    return np.array(driver, np.intp)


def _shares(place_m: FloatArray, begin_m: FloatArray, bone_m: FloatArray) -> FloatArray:
    """Return how far places (t, 3) lie along bones, each from its beginning, 0 to 1, (t,)."""
    squared = np.maximum((bone_m * bone_m).sum(axis=-1), 1e-12)
    return np.asarray(np.clip(((place_m - begin_m) * bone_m).sum(axis=-1) / squared, 0.0, 1.0))


def _middle(joint_m: FloatArray, part: str) -> FloatArray:
    return np.asarray(joint_m[[PART_INDEX[f"{side}_{part}"] for side in SIDES]].mean(axis=0))


def _bone_vectors(joint_m: FloatArray) -> FloatArray:
    """Return vectors from each part's joint to the next one's, (20, 3).

    0 for head, hands, toes and the trunk.
    """
    bones = np.zeros_like(joint_m)
    chains = [("neck", "head")]
    for side in SIDES:
        chains += [(f"{side}_shoulder", f"{side}_upper_arm"), (f"{side}_foot", f"{side}_toe")]
    for upper, lower, end in LIMBS:
        chains += [(upper, lower), (lower, end)]
    for part, following in chains:
        bones[PART_INDEX[part]] = joint_m[PART_INDEX[following]] - joint_m[PART_INDEX[part]]
    return bones
