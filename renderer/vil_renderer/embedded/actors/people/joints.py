"""Joints of a human at rest: standing with the arms half lifted.

Forward is x; the floor is z = 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.people.builds import HumanBuild

_V = tuple[float, float, float]
Joints = dict[str, tuple[str, FloatArray]]
"""Parent and place of each joint, parents first."""

_TRUNK: Final[dict[str, tuple[str, _V]]] = {
    "Hips": ("", (0.0, 0.0, 0.95)),
    "Spine": ("Hips", (0.0, 0.0, 1.06)),
    "Chest": ("Spine", (0.0, 0.0, 1.19)),
    "Neck": ("Chest", (-0.012, 0.0, 1.47)),
    "Head": ("Neck", (0.006, 0.0, 1.555)),
}
_LIMBS: Final[dict[str, tuple[str, _V]]] = {
    "Shoulder": ("Chest", (0.0, 0.03, 1.415)),
    "Arm": ("Shoulder", (0.0, 0.185, 1.405)),
    "ForeArm": ("Arm", (-0.010, 0.385, 1.205)),
    "Hand": ("ForeArm", (0.030, 0.555, 1.035)),
    "UpLeg": ("Hips", (0.0, 0.092, 0.91)),
    "Leg": ("UpLeg", (0.012, 0.098, 0.50)),
    "Foot": ("Leg", (-0.020, 0.104, 0.085)),
    "ToeBase": ("Foot", (0.115, 0.110, 0.025)),
}
"""Joints: parent and place, metres; those of the left side."""

TWISTS: Final = {
    "Arm": ("ForeArm", (0, 50)),
    "ForeArm": ("Hand", (0, 50, 100)),
    "UpLeg": ("Leg", (0, 50)),
}
"""Joints that share out a limb's twist: where the bone ends, and per cent of the way to there."""


def joints_of(build: HumanBuild) -> Joints:
    """Return the joints of a human in the tables' stature."""
    joints: Joints = {name: (parent, np.array(place)) for name, (parent, place) in _TRUNK.items()}
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        for name, (parent, (x, y, z)) in _LIMBS.items():
            inward = y
            if name in ("Arm", "ForeArm", "Hand"):
                inward = y - (1.0 - build.shoulders) * 0.185
            joints[side + name] = (
                parent if parent in _TRUNK else side + parent,
                np.array([x, sign * inward, z]),
            )
        for name, (following, shares) in TWISTS.items():
            a = joints[side + name][1]
            b = joints[side + following][1]
            for percent in shares:
                joints[f"{side}{name}Twist{percent}"] = (side + name, a + 0.01 * percent * (b - a))
    return joints
