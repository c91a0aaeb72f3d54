"""Skeletons of one person of 1.8 m as different programs describe them.

Names and tree of each, places of one body.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import SkeletonModel

__all__ = ["CONVENTIONS", "expected_parts", "tree_of"]

_V = tuple[float, float, float]
_PLACE_M: Final[dict[str, _V]] = {
    "origin": (0.0, 0.0, 0.0),
    "hips": (0.0, 0.0, 0.98),
    "spine": (0.0, 0.0, 1.08),
    "spine1": (0.0, 0.0, 1.17),
    "spine2": (0.0, 0.0, 1.25),
    "chest": (0.0, 0.0, 1.32),
    "neck": (0.0, 0.0, 1.50),
    "neck1": (0.01, 0.0, 1.55),
    "head": (0.02, 0.0, 1.60),
    "head_end": (0.02, 0.0, 1.80),
    "collar": (0.0, 0.03, 1.45),
    "upper_arm": (0.0, 0.19, 1.45),
    "lower_arm": (0.0, 0.48, 1.45),
    "hand": (0.0, 0.74, 1.45),
    "finger": (0.01, 0.83, 1.44),
    "finger1": (0.01, 0.87, 1.44),
    "thumb": (0.03, 0.77, 1.45),
    "hip_joint": (0.0, 0.0, 0.98),
    "upper_leg": (0.0, 0.10, 0.93),
    "lower_leg": (0.01, 0.10, 0.52),
    "foot": (0.0, 0.10, 0.09),
    "toe": (0.13, 0.10, 0.02),
    "toe_end": (0.20, 0.10, 0.02),
}
"""Joints, metres: x forward, y left, z up, standing with the arms out; the left ones of pairs."""

_TRUNK_AND_LIMBS = tuple[str, str, str]  # trunk, arm, leg: "name=place" from the root, to the ends
CONVENTIONS: Final[dict[str, _TRUNK_AND_LIMBS]] = {
    "motive": (
        "Hip=hips Ab=spine Chest=chest Neck=neck Head=head",
        "{s}Shoulder=collar {s}UArm=upper_arm {s}FArm=lower_arm {s}Hand=hand",
        "{s}Thigh=upper_leg {s}Shin=lower_leg {s}Foot=foot {s}Toe=toe",
    ),
    "vicon": (
        "Pelvis=hips Thorax=chest Head=head",
        "{s}Clavicle=collar {s}Humerus=upper_arm {s}Radius=lower_arm {s}Hand=hand",
        "{s}Femur=upper_leg {s}Tibia=lower_leg {s}Foot=foot {s}Toes=toe",
    ),
    "cmu": (
        "Hips=hips LowerBack=spine Spine=spine1 Spine1=chest Neck=neck Neck1=neck1 Head=head",
        "{side}Shoulder=collar {side}Arm=upper_arm {side}ForeArm=lower_arm "
        "{side}Hand=hand {side}FingerBase=finger"
        " {side}HandIndex1=finger1",
        "{s}HipJoint=hip_joint {side}UpLeg=upper_leg {side}Leg=lower_leg {side}Foot=foot "
        "{side}ToeBase=toe",
    ),
    "mixamo": (
        "Armature=origin mixamorig:Hips=hips mixamorig:Spine=spine "
        "mixamorig:Spine1=spine1 mixamorig:Spine2=chest"
        " mixamorig:Neck=neck mixamorig:Head=head mixamorig:HeadTop_End=head_end",
        "mixamorig:{side}Shoulder=collar mixamorig:{side}Arm=upper_arm "
        "mixamorig:{side}ForeArm=lower_arm"
        " mixamorig:{side}Hand=hand mixamorig:{side}HandIndex1=finger "
        "mixamorig:{side}HandIndex2=finger1",
        "mixamorig:{side}UpLeg=upper_leg mixamorig:{side}Leg=lower_leg mixamorig:{side}Foot=foot"
        " mixamorig:{side}ToeBase=toe mixamorig:{side}Toe_End=toe_end",
    ),
    "xsens": (
        "Hips=hips Chest=spine Chest2=spine1 Chest3=spine2 Chest4=chest Neck=neck Head=head",
        "{side}Collar=collar {side}Shoulder=upper_arm {side}Elbow=lower_arm {side}Wrist=hand",
        "{side}Hip=upper_leg {side}Knee=lower_leg {side}Ankle=foot {side}Toe=toe",
    ),
    "biovision": (
        "Hips=hips Chest=chest Neck=neck Head=head",
        "{side}Collar=collar {side}UpArm=upper_arm {side}LowArm=lower_arm {side}Hand=hand",
        "{side}UpLeg=upper_leg {side}LowLeg=lower_leg {side}Foot=foot",
    ),
}


def tree_of(convention: str, *, named: bool = True) -> SkeletonModel:
    """Return the skeleton as a program describes it, all axes parallel.

    ``named`` False numbers the bones.
    """
    trunk, arm, leg = CONVENTIONS[convention]
    bones: list[str] = []
    places: list[str] = []
    parents: list[int] = []
    p_m: list[_V] = []

    def grow(chain: str, parent: int, y: float) -> None:
        for entry in chain.split():
            bone, _, place = entry.rpartition("=")
            bones.append(bone)
            places.append(place)
            parents.append(parent)
            parent = len(bones) - 1
            p_m.append((_PLACE_M[place][0], y * _PLACE_M[place][1], _PLACE_M[place][2]))

    grow(trunk, -1, 0.0)
    for side, y in (("Left", 1.0), ("Right", -1.0)):
        for chain, above in ((arm, "chest"), (leg, "hips")):
            grow(chain.format(s=side[0], side=side), places.index(above), y)
            if chain is arm and "FingerBase" in arm:
                grow(f"{side[0]}Thumb=thumb", places.index("hand", -4), y)
    above_m = [p_m[parent] if parent >= 0 else (0.0, 0.0, 0.0) for parent in parents]
    names = tuple(bones) if named else tuple(f"b{i}" for i in range(len(bones)))
    return SkeletonModel(convention, names, tuple(parents), np.array(p_m) - np.array(above_m))


def expected_parts(convention: str) -> dict[str, str]:
    """Return the bone of each part that the convention has."""
    trunk, arm, leg = (
        dict(entry.split("=")[::-1] for entry in chain.split()) for chain in CONVENTIONS[convention]
    )
    found: dict[str, str] = {
        part: trunk[part] for part in ("hips", "spine", "chest", "neck", "head") if part in trunk
    }
    limbs = ("collar", "upper_arm", "lower_arm", "hand", "upper_leg", "lower_leg", "foot", "toe")
    for side in ("Left", "Right"):
        for part in limbs:
            if part in arm | leg:
                bone = (arm | leg)[part].format(s=side[0], side=side)
                found[f"{side.lower()}_{part.replace('collar', 'shoulder')}"] = bone
    return found
