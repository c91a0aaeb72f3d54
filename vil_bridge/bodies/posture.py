"""Signs of a wrong up axis: a person who lies, a vehicle on its side or below the floor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.bodies.skeleton import canonical_bones, is_human
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import SkeletonFrame

_STANDING: Final = 0.8  # height of a standing person over length and width
_ARM: Final = ("upper_arm", "lower_arm", "hand")
_TILTED_RAD: Final = math.radians(60.0)
_BELOW_M: Final = 0.5


def skeleton_extent_m(skeleton: SkeletonFrame) -> tuple[float, float, float]:
    """Return the size of the box around trunk, head and legs, else around all bones, along x, y, z,
    metres.

    Arms do not count: a person may hold them out.
    """
    bones: Sequence[int] = range(len(skeleton.p_m))
    if is_human(skeleton.model):
        bones = [
            b for part, b in canonical_bones(skeleton.model).items() if not part.endswith(_ARM)
        ]
    if not bones:
        return 0.0, 0.0, 0.0
    x, y, z = np.ptp(skeleton.p_m[bones], axis=0).tolist()
    return x, y, z


def extent_problem(extent_m: tuple[float, float, float]) -> str:
    """Describe a person who is not tallest along z, empty for one who stands."""
    x, y, z = extent_m
    if z >= _STANDING * max(x, y):
        return ""
    return f"measures {x:.2f} x {y:.2f} x {z:.2f} m along x, y, z: it lies, or the up axis is wrong"


def skeleton_problem(skeleton: SkeletonFrame) -> str:
    """Describe a skeleton that lies, empty for one that stands or has one bone only."""
    if len(skeleton.p_m) <= 1:
        return ""
    return extent_problem(skeleton_extent_m(skeleton))


def body_problem(T_room_body: Transform) -> str:
    """Describe a vehicle on its side or below the room's floor, empty for one that may be right."""
    up = float(np.clip(T_room_body.rotation()[2, 2], -1.0, 1.0))
    tilt_rad = math.acos(up)
    if tilt_rad > _TILTED_RAD:
        return (
            f"is tilted by {math.degrees(tilt_rad):.0f} degrees: it lies on its side, or the "
            "up axis is wrong"
        )
    below_m = -float(T_room_body.p_m[2])
    if below_m > _BELOW_M:
        return (
            f"is {below_m:.2f} m below the floor (z = 0): the up axis or the origin of the "
            "room is wrong"
        )
    return ""


def axis_cure(source: str, up_axis: str | None) -> str:
    """Return the cure of a wrong up axis.

    ``up_axis`` is the configured one, None where there is no such key.
    """
    if up_axis is None:
        return f"Set the up axis of {source} in the mocap program to z, or run `vil-bridge align`"
    return (
        f"Set `up_axis:` of sources.{source} (now {up_axis}) to that of the mocap program, or "
        "run `vil-bridge align`"
    )
