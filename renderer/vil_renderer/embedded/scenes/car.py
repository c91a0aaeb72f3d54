"""A small car: painted body, glass, wheels in their arches, lights, mirrors.

It stands on its wheels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scenes.builder import Thing, Tint
from vil_renderer.embedded.scenes.shapes import MeshBuilder, box, join, lathe, panel

_AXLES_M: Final = (1.30, -1.40)
"""Ahead of the centre of gravity, as the bicycle model has them."""
_WHEEL_M: Final = 0.33
_TRACK_M: Final = 0.78

_PAINT: Final[Tint] = (0.72, 0.10, 0.08)
_BLACK: Final[Tint] = (0.06, 0.06, 0.07)
_GLASS: Final[Tint] = (0.16, 0.20, 0.24)
_RUBBER: Final[Tint] = (0.10, 0.10, 0.11)
_RIM: Final[Tint] = (0.75, 0.76, 0.78)
_PLATE: Final[Tint] = (0.92, 0.92, 0.88)

_Outline = Sequence[tuple[float, float, float]]
"""Corners of a convex side view, turning left seen from the right side.

Ahead, up, half width there.
"""

_HULL: Final[_Outline] = (
    (-2.08, 0.26, 0.80),
    (2.04, 0.22, 0.80),
    (2.15, 0.44, 0.80),
    (2.10, 0.66, 0.82),
    (1.12, 0.88, 0.88),
    (-1.92, 0.94, 0.88),
    (-2.15, 0.74, 0.84),
    (-2.15, 0.44, 0.80),
)
_CABIN: Final[_Outline] = (
    (-1.98, 0.92, 0.80),
    (1.14, 0.86, 0.80),
    (0.30, 1.41, 0.62),
    (-1.30, 1.43, 0.62),
)
_ROOF: Final[_Outline] = (
    (-1.34, 1.41, 0.635),
    (0.34, 1.39, 0.635),
    (0.24, 1.45, 0.58),
    (-1.24, 1.47, 0.58),
)


def car() -> Asset:
    """Build the red car of moving actors."""
    return painted_car(_PAINT).asset("car")


def painted_car(paint: Tint, sides: int = 20) -> Thing:
    """Build a car 4.3 m long, 2.0 m wide with its mirrors, and 1.5 m high.

    X is ahead, the origin on the ground.

    Args:
        paint: of its body.
        sides: of its round wheels.
    """
    thing = Thing()
    thing.add(_slab(_HULL), "plain", paint).add(_slab(_ROOF), "plain", paint)
    thing.add(_slab(_CABIN), "plain", _GLASS)
    for side in (1.0, -1.0):
        _pillars(thing, side, paint)
        for x in _AXLES_M:
            _wheel(thing, x, side, sides)
        thing.add(box((0.12, 0.18, 0.13)).at(0.78, side * 0.92, 0.92), "plain", paint)
        thing.add(box((0.20, 0.012, 0.03)).at(-0.05, side * 0.888, 0.78), "plain", _RIM)
        thing.add(box((0.04, 0.34, 0.12)).at(2.125, side * 0.60, 0.54), "lamp_light")
        thing.add(box((0.03, 0.26, 0.16)).at(-2.145, side * 0.66, 0.66), "beacon")
    thing.add(box((0.05, 1.62, 0.16)).at(2.115, 0.0, 0.24), "plain", _BLACK)
    thing.add(box((0.03, 0.70, 0.12)).at(2.135, 0.0, 0.56), "plain", _BLACK)
    thing.add(box((0.05, 1.62, 0.16)).at(-2.135, 0.0, 0.28), "plain", _BLACK)
    for x in (2.15, -2.17):
        thing.add(box((0.015, 0.46, 0.10)).at(x, 0.0, 0.36), "plain", _PLATE)
    return thing


def _slab(outline: _Outline) -> MeshBuilder:
    """Build a solid between a side view and its mirror image."""
    left = np.array([(x, y, z) for x, z, y in outline])
    right = left * (1.0, -1.0, 1.0)
    parts = []
    for k in range(len(left)):
        following = (k + 1) % len(left)
        parts.append(_quad(left[k], left[following], right[following], right[k]))
    middle = slice(1, len(left) - 1)
    for a, b in zip(left[middle], left[2:], strict=True):
        parts += [
            _triangle(left[0], b, a),
            _triangle(right[0], *(p * (1.0, -1.0, 1.0) for p in (a, b))),
        ]
    return join(parts)


def _quad(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> MeshBuilder:
    return join([_triangle(a, b, c), _triangle(a, c, d)])


def _triangle(a: FloatArray, b: FloatArray, c: FloatArray) -> MeshBuilder:
    """Build a flat triangle, seen from where it turns left."""
    flat = panel(a, b - a, c - a, cell_m=1e3)
    return MeshBuilder(np.array((a, b, c)), flat.normal[:3], flat.uv[:3], np.array([[0, 1, 2]]))


def _pillars(thing: Thing, side: float, paint: Tint) -> None:
    """Add the painted posts between the windows of a side."""
    posts = (
        ((1.16, 0.86), (0.30, 1.42)),
        ((-0.42, 0.90), (-0.44, 1.43)),
        ((-1.98, 0.93), (-1.30, 1.44)),
    )
    for (x0, z0), (x1, z1) in posts:
        ends = np.array(((x0, side * 0.80, z0), (x1, side * 0.62, z1)))
        ring = np.array(
            ((0.05, 0.02, 0.0), (-0.05, 0.02, 0.0), (-0.05, -0.02, 0.0), (0.05, -0.02, 0.0))
        )
        low = ends[0] + ring
        high = ends[1] + ring
        sides = [_quad(low[k], low[k - 3], high[k - 3], high[k]) for k in range(4)]
        thing.add(join([*sides, _quad(*low[::-1]), _quad(*high)]), "plain", paint)


def _wheel(thing: Thing, x: float, side: float, sides: int) -> None:
    """Add a tyre with its rim, and the dark arch behind it."""
    outwards = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, side], [0.0, -side, 0.0]])
    arch = lathe([(0.38, 0.0), (0.38, 0.012), (0.0, 0.012)], sides)
    thing.add(arch.turned(outwards).at(x, side * 0.875, _WHEEL_M + 0.06), "plain", _BLACK)
    tyre = lathe(
        [(0.20, 0.0), (0.31, 0.0), (_WHEEL_M, 0.03), (_WHEEL_M, 0.12), (0.31, 0.15), (0.21, 0.15)],
        sides,
    )
    thing.add(tyre.turned(outwards).at(x, side * _TRACK_M, _WHEEL_M), "plain", _RUBBER)
    rim = lathe(
        [(0.21, 0.0), (0.21, 0.145), (0.17, 0.115), (0.05, 0.125), (0.0, 0.135)], sides // 2
    )
    thing.add(rim.turned(outwards).at(x, side * _TRACK_M, _WHEEL_M), "plain", _RIM)
