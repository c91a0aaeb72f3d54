"""Hands of a human: a palm, four fingers that bend a little, and a thumb."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.lofts import loft, smooth_table
from vil_renderer.embedded.actors.people.builds import HumanBuild
from vil_renderer.embedded.actors.people.joints import Joints
from vil_renderer.embedded.actors.people.outfits import PLACES
from vil_renderer.embedded.actors.people.rings import downward, rounded
from vil_renderer.embedded.actors.people.weights import Blend, Part
from vil_renderer.embedded.actors.turning import unit

# Distance from the wrist; half width, half thickness.
_PALM: Final = (
    (-0.020, 0.026, 0.022),
    (0.010, 0.029, 0.020),
    (0.040, 0.037, 0.018),
    (0.075, 0.042, 0.0155),
    (0.096, 0.041, 0.0125),
    (0.106, 0.036, 0.007),
)
# Across from the middle of the palm, distance of the root from the wrist; length, half thickness,
# spread.
_FINGERS: Final = (
    (0.0300, 0.092, 0.072, 0.0092, 0.10),
    (0.0100, 0.098, 0.079, 0.0095, 0.02),
    (-0.0105, 0.095, 0.074, 0.0090, -0.05),
    (-0.0295, 0.086, 0.058, 0.0080, -0.14),
)
# Share of a finger's length; share of its thickness: knuckles and tip.
_FINGER: Final = ((0.0, 1.0), (0.30, 0.92), (0.45, 1.0), (0.70, 0.86), (0.90, 0.78), (1.0, 0.42))
_CURL_RAD: Final = 0.55


def hand(build: HumanBuild, blend: Blend, joints: Joints, side: str) -> list[Part]:
    """Return the parts of a hand that goes on along the forearm, the thumb to the front."""
    wrist = joints[f"{side}Hand"][1]
    along = unit(wrist - joints[f"{side}ForeArm"][1])
    front = unit(np.array([1.0, 0.0, 0.0]) - along[0] * along)
    palm = cross(along, front) if side == "Left" else cross(front, along)
    thick = 0.5 + 0.5 * build.girth
    out, wide, deep = smooth_table(_PALM, 9).T
    sizes = thick * np.stack((deep, wide), axis=-1)
    rings = rounded(
        wrist + out[:, None] * along, np.tile(along, (len(out), 1)), -front, sizes, 14, 2.5
    )
    meshes = [loft(rings, downward(PLACES["palm"]))]
    for across, root, length, half, spread in _FINGERS:
        start = wrist + root * along + thick * across * front
        way = unit(along + spread * front)
        meshes.append(
            loft(
                _finger(start, way, palm, (length, thick * half), _CURL_RAD),
                downward(PLACES["finger"]),
            )
        )
    start = wrist + 0.030 * along + 0.022 * front + 0.006 * palm
    way = unit(0.72 * along + 0.62 * front + 0.25 * palm)
    meshes.append(
        loft(_finger(start, way, palm, (0.078, thick * 0.0115), 0.35), downward(PLACES["finger"]))
    )
    return [blend.one(f"{side}Hand", mesh) for mesh in meshes]


def _finger(
    start: FloatArray, way: FloatArray, palm: FloatArray, size_m: tuple[float, float], curl: float
) -> FloatArray:
    """Return the rings (8, 8, 3) of a finger that bends towards the palm."""
    share, thin = smooth_table(_FINGER, 8).T
    bend = curl * share[:, None]
    along = np.cos(bend) * way + np.sin(bend) * palm
    step = size_m[0] * np.diff(share, prepend=0.0)[:, None] * along
    half = size_m[1] * thin
    return rounded(
        start + np.cumsum(step, axis=0),
        along,
        -palm,
        np.stack((half, 0.92 * half), axis=-1),
        8,
        2.0,
    )
