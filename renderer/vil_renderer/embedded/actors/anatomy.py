"""Bones of a skeleton by the part of a human that they carry, found by name and by where limbs
branch off.
"""

from __future__ import annotations

from typing import Final

from vil_bridge.bodies.skeleton import canonical_bones
from vil_bridge.core.types import SkeletonModel

SIDES: Final = ("left", "right")
_SIDED: Final = (
    "shoulder",
    "upper_arm",
    "lower_arm",
    "hand",
    "upper_leg",
    "lower_leg",
    "foot",
    "toe",
)

PARTS: Final = (
    "hips",
    "chest",
    "neck",
    "head",
    *(f"{side}_{part}" for side in SIDES for part in _SIDED),
)
"""Parts of a human that move on their own, in the order of all arrays of this package."""

PART_INDEX: Final = {part: i for i, part in enumerate(PARTS)}

LIMBS: Final = tuple(
    (f"{side}_{upper}", f"{side}_{lower}", f"{side}_{end}")
    for upper, lower, end in (
        ("upper_arm", "lower_arm", "hand"),
        ("upper_leg", "lower_leg", "foot"),
    )
    for side in SIDES
)
"""Left arm, right arm, left leg, right leg: the joints at which they begin, bend and end."""

UPPERS: Final = [PART_INDEX[upper] for upper, _, _ in LIMBS]
LOWERS: Final = [PART_INDEX[lower] for _, lower, _ in LIMBS]
ENDS: Final = [PART_INDEX[end] for _, _, end in LIMBS]


def anatomy(model: SkeletonModel) -> dict[str, int]:
    """Return the bone of each part of :data:`PARTS` that a skeleton has.

    Chest and hips are where the arms and the legs branch off, whatever they are called; a foot's
    child is its toe, the chest's child that carries the head is the neck.
    """
    found = canonical_bones(model)
    for trunk, limb in (("chest", "upper_arm"), ("hips", "upper_leg")):
        if all(f"{side}_{limb}" in found for side in SIDES):
            left, right = (path_up(model.parents, found[f"{side}_{limb}"]) for side in SIDES)
            common = next((bone for bone in left[1:] if bone in right[1:]), -1)
            if common >= 0:
                found[trunk] = common
    for side in SIDES:
        foot = found.get(f"{side}_foot")
        if foot is not None and foot in model.parents:
            found.setdefault(f"{side}_toe", model.parents.index(foot))
    if {"chest", "head"} <= found.keys() and "neck" not in found:
        up = path_up(model.parents, found["head"])
        if found["chest"] in up[2:]:
            found["neck"] = up[up.index(found["chest"]) - 1]
    return {part: bone for part, bone in found.items() if part in PART_INDEX}


def path_up(parents: tuple[int, ...], bone: int) -> list[int]:
    """Return the bone, its parent and so on to the root."""
    path = []
    while bone >= 0:
        path.append(bone)
        bone = parents[bone]
    return path
