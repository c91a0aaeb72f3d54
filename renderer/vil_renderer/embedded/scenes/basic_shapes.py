"""Plain shapes of 1 m about their middle, which programs spawn by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scenes.builder import Thing
from vil_renderer.embedded.scenes.shapes import MeshBuilder, box, lathe

_SIDES: Final = 32
_RINGS: Final = 16


def _cube() -> MeshBuilder:
    return box((1.0, 1.0, 1.0), cell_m=1.0).at(0.0, 0.0, -0.5)


def _sphere() -> MeshBuilder:
    angles = [math.pi * (ring / _RINGS - 0.5) for ring in range(1, _RINGS)]
    profile = [(0.0, -0.5), *((0.5 * math.cos(a), 0.5 * math.sin(a)) for a in angles), (0.0, 0.5)]
    return lathe(profile, _SIDES, smooth=True)


def _cylinder() -> MeshBuilder:
    return lathe([(0.0, -0.5), (0.5, -0.5), (0.5, 0.5), (0.0, 0.5)], _SIDES)


def _cone() -> MeshBuilder:
    return lathe([(0.0, -0.5), (0.5, -0.5), (0.0, 0.5)], _SIDES)


BASIC_SHAPES: Final[Mapping[str, Callable[[], MeshBuilder]]] = {
    "1M_Cube": _cube,
    "1M_Cube_Chamfer": _cube,
    "Cone": _cone,
    "Cube": _cube,
    "Cylinder": _cylinder,
    "Sphere": _sphere,
}
"""By the names that AirSim's programs use."""


@cache
def basic_shape(name: str) -> Asset:
    """Return a shape of :data:`BASIC_SHAPES` as a light gray asset."""
    return Thing().add(BASIC_SHAPES[name](), "plain", (0.75, 0.75, 0.75)).asset(name)
