"""Head of a human: neck, face, ears, hair."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.lofts import capsule, loft
from vil_renderer.embedded.actors.people.builds import HumanBuild
from vil_renderer.embedded.actors.people.outfits import PLACES
from vil_renderer.embedded.actors.people.rings import upright
from vil_renderer.embedded.actors.people.skull import LOW_M, TOP_M, columns_rad, skull
from vil_renderer.embedded.actors.people.weights import Blend, Part, steps
from vil_renderer.embedded.actors.turning import unit
from vil_renderer.embedded.assets.model import UvRect
from vil_renderer.embedded.scenes.shapes import MeshBuilder

_NECK: Final = (
    (1.430, 0.066, 0.066, -0.014),
    (1.465, 0.058, 0.061, -0.012),
    (1.500, 0.055, 0.058, -0.006),
    (1.540, 0.054, 0.058, 0.000),
    (1.575, 0.052, 0.058, 0.004),
    (1.600, 0.045, 0.048, 0.006),
)
_EAR: Final = (
    (1.597, 0.003, 0.004, 0.006),
    (1.604, 0.006, 0.009, 0.006),
    (1.620, 0.008, 0.012, 0.002),
    (1.640, 0.010, 0.017, -0.002),
    (1.654, 0.009, 0.016, -0.004),
    (1.664, 0.004, 0.008, -0.004),
)
_TAIL: Final = (
    (1.430, 0.008, 0.008, -0.128),
    (1.460, 0.022, 0.018, -0.132),
    (1.520, 0.032, 0.024, -0.134),
    (1.590, 0.034, 0.026, -0.130),
    (1.640, 0.026, 0.024, -0.118),
    (1.670, 0.022, 0.026, -0.104),
    (1.690, 0.010, 0.014, -0.092),
)
_HELMET: Final = (
    (1.668, 0.090, 0.116, 0.008),
    (1.670, 0.103, 0.144, 0.018),
    (1.676, 0.104, 0.144, 0.018),
    (1.684, 0.097, 0.120, 0.006),
    (1.720, 0.092, 0.112, 0.004),
    (1.760, 0.068, 0.084, 0.002),
    (1.781, 0.026, 0.032, 0.000),
)
# Angle from the front, degrees; the lowest hair there.
_HAIRLINE: Final = (
    (0, 1.711), (22, 1.714), (42, 1.706), (58, 1.686), (72, 1.650), (88, 1.620), (100, 1.664),
    (122, 1.600),
    (180, 1.545),
)  # fmt: skip
_SEED: Final = 77


def head(build: HumanBuild, blend: Blend) -> list[Part]:
    """Return neck, face, ears and hair, and the helmet over them."""
    neck = loft(_scaled_neck(build), PLACES["neck"])
    parts = [
        (
            neck,
            blend.along(
                ["Chest", "Neck", "Head"], steps(neck.p_m[:, 2], (1.44, 1.48), (1.515, 1.58))
            ),
        )
    ]
    face = _by_height(loft(skull(build, _face_heights(), 40), PLACES["head"]), PLACES["head"])
    parts.append(blend.one("Head", face))
    parts += [blend.one("Head", _ear(build, sign)) for sign in (1.0, -1.0)]
    parts.append(blend.one("Head", _hair(build)))
    if build.hair == "tail":
        parts.append(blend.one("Head", loft(upright(_TAIL, 20, 16, 2.1), PLACES["hair"])))
    if build.hair == "bun":
        knot = capsule(
            np.array([-0.098, 0.0, 1.684]), np.array([-0.112, 0.0, 1.692]), (0.036, 0.036), 14, 6
        )
        parts.append(blend.one("Head", _placed(knot, PLACES["hair"])))
    if build.hair == "helmet":
        parts.append(blend.one("Head", loft(upright(_HELMET, 16, 24, 2.0), PLACES["helmet"])))
    return parts


def _scaled_neck(build: HumanBuild) -> FloatArray:
    return upright(
        [(z, wide * build.neck, deep * build.neck, fore) for z, wide, deep, fore in _NECK],
        10,
        20,
        2.1,
    )


def _face_heights() -> FloatArray:
    """Return heights of the rings, densest between chin and brows."""
    knots = ((0.0, LOW_M), (6.0, 1.540), (28.0, 1.655), (34.0, 1.70), (42.0, TOP_M))
    return np.asarray(np.interp(np.arange(43.0), *np.transpose(knots)))


def _by_height(mesh: MeshBuilder, place: UvRect) -> MeshBuilder:
    """Return a mesh whose v is its height, as the face is painted."""
    share = np.clip((TOP_M - mesh.p_m[:, 2]) / (TOP_M - LOW_M), 0.0, 1.0)
    return replace(
        mesh, uv=np.stack((mesh.uv[:, 0], place[1] + share * (place[3] - place[1])), axis=-1)
    )


def _placed(mesh: MeshBuilder, place: UvRect) -> MeshBuilder:
    """Return a mesh of the whole texture on a part of it."""
    low = np.array(place[:2])
    return replace(mesh, uv=low + mesh.uv * (np.array(place[2:]) - low))


def _ear(build: HumanBuild, sign: float) -> MeshBuilder:
    rings = upright(_EAR, 9, 10, 2.0)
    half = np.abs(skull(build, np.array([1.63]), 40)[..., 1]).max()
    lean = np.stack(
        (np.zeros(9), 0.15 * (rings[:, 0, 2] - 1.60) + half - 0.001, np.zeros(9)), axis=-1
    )
    ear = rings + lean[:, None]
    if sign < 0.0:
        ear = np.roll(ear[:, ::-1], 1, axis=1) * (1.0, -1.0, 1.0)
    return loft(ear, PLACES["neck"])


def _hair(build: HumanBuild) -> MeshBuilder:
    """Return a shell that stands out of the skull above the hairline and hides below it."""
    heights = np.linspace(1.535, TOP_M, 30)
    rings = skull(build, heights, 40, features=False)
    angle = np.abs(np.degrees(columns_rad(40)))
    line = np.interp(angle, *np.transpose(_HAIRLINE))
    covered = steps(heights[:, None] - line[None, :], (-0.006, 0.008))
    rng = np.random.default_rng(_SEED)
    strands = (
        1.0 + 0.16 * rng.uniform(-1.0, 1.0, 40)[None, :] + 0.10 * rng.uniform(-1.0, 1.0, (30, 40))
    )
    crown = 1.0 + 0.5 * steps(heights, (1.68, 1.74))[:, None]
    out = np.where(
        covered > 0.0, covered * (build.hair_m * strands * crown + 0.006) - 0.006, -0.006
    )
    centre = np.array([0.008, 0.0, 1.640])
    return loft(rings + out[..., None] * unit(rings - centre), PLACES["hair"])
