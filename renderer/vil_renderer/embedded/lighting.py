"""One light model for baked vertices (here) and for moving actors (the same sums in ``shaders.py``).

Radiance is linear; a surface shows texture x sqrt(light), that is gamma 2 without a power per pixel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.boxes import Boxes
from vil_renderer.embedded.mesh import Mesh

__all__ = ["Lights", "bake"]

_LIFT_M: Final = 0.02
_AMBIENT_REACH_M: Final = 1.6
_AMBIENT_RAYS: Final = 8
_CHUNK: Final = 256
_CELL_M: Final = 2.0
_SUN_REACH_M: Final = 9.0
_FAINT: Final = 0.01
_OCCLUDER_M: Final = 0.45


@dataclass(frozen=True, slots=True, eq=False)
class Lights:
    """Lights of a scene, linear RGB.

    Attributes:
        sky, ground: ambient light on surfaces facing up and down, shape (3,).
        to_sun: unit vector towards the sun, shape (3,). sun: its light, shape (3,).
        lamps_m: lamp positions, shape (k, 3), k <= 8. lamp: light of each at 1 m, shape (3,).
    """

    sky: FloatArray
    ground: FloatArray
    to_sun: FloatArray
    sun: FloatArray
    lamps_m: FloatArray
    lamp: FloatArray


def bake(mesh: Mesh, lights: Lights, shell: Boxes, furniture: Boxes) -> npt.NDArray[np.uint8]:
    """Colour that multiplies the texture at each vertex, uint8 (n, 4) where 127.5 is 1.0.

    The shell (floor, walls, roof) darkens corners but throws no shadow: light comes in through it.
    """
    light = np.empty((len(mesh.p_m), 3))
    solid = Boxes.join((shell, furniture))
    occluders = furniture.where(np.linalg.norm(furniture.half_m, axis=1) > _OCCLUDER_M)
    rays = _sphere(_AMBIENT_RAYS)
    for part in _neighbourhoods(mesh.p_m):
        normal = mesh.normal[part].astype(np.float64)
        p = mesh.p_m[part] + _LIFT_M * normal
        light[part] = _ambient(p, normal, rays, lights, solid) + _direct(p, normal, lights, occluders)
    colour = np.where(mesh.glow[:, None], 1.0, np.sqrt(light)) * mesh.tint
    rgba = np.full((len(colour), 4), 255, np.uint8)
    rgba[:, :3] = np.clip(colour * 127.5 + 0.5, 0, 255)
    return rgba


def _ambient(p: FloatArray, normal: FloatArray, rays: FloatArray, lights: Lights, boxes: Boxes) -> FloatArray:
    up = 0.5 + 0.5 * normal[:, 2:3]
    full = lights.ground + up * (lights.sky - lights.ground)
    near = _near(boxes, p, _AMBIENT_REACH_M)
    if not len(near.centre_m):
        return full
    covered = np.zeros(len(p))
    for ray in rays:
        # Mirrored into the hemisphere of each vertex, bent towards its normal.
        side = np.sign(normal @ ray)[:, None]
        direction = np.where(side == 0.0, 1.0, side) * ray + 0.6 * normal
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        covered += near.between(p, p + _AMBIENT_REACH_M * direction)
    return full * (1.0 - 0.75 * covered[:, None] / len(rays))


def _direct(p: FloatArray, normal: FloatArray, lights: Lights, occluders: Boxes) -> FloatArray:
    sun = np.maximum(normal @ lights.to_sun, 0.0)
    total: FloatArray = _seen(p, p + _SUN_REACH_M * lights.to_sun, sun, occluders)[:, None] * lights.sun
    for lamp_m in lights.lamps_m:
        to_lamp = lamp_m - p
        distance = np.linalg.norm(to_lamp, axis=1)
        strength = np.maximum(np.einsum("ni,ni->n", normal, to_lamp), 0.0) / (distance * (1.0 + distance**2))
        total += _seen(p, p + to_lamp, strength, occluders)[:, None] * lights.lamp
    return total


def _seen(p: FloatArray, light_m: FloatArray, strength: FloatArray, occluders: Boxes) -> FloatArray:
    """The strength (n,) of a light, 0 where something stands between."""
    facing = np.flatnonzero(strength > _FAINT)
    if len(facing):
        start, end = p[facing], light_m[facing]
        shadowed = _near(occluders, np.concatenate((start, end)), 0.0).between(start, end)
        strength[facing[shadowed]] = 0.0
    return strength


def _neighbourhoods(p_m: npt.NDArray[np.float32]) -> list[npt.NDArray[np.intp]]:
    """Indices of vertices, in groups that lie close together."""
    cell = np.floor(p_m / _CELL_M).astype(np.int64)
    order = np.lexsort((cell[:, 2], cell[:, 1], cell[:, 0]))
    return np.array_split(order, math.ceil(len(order) / _CHUNK))


def _near(boxes: Boxes, p: FloatArray, reach_m: float) -> Boxes:
    """The boxes that come near the points' bounding box."""
    gap = np.maximum(np.maximum(p.min(axis=0) - boxes.centre_m, boxes.centre_m - p.max(axis=0)), 0.0)
    return boxes.where(np.linalg.norm(gap, axis=1) <= np.linalg.norm(boxes.half_m, axis=1) + reach_m)


def _sphere(count: int) -> FloatArray:
    """Unit vectors spread evenly over the sphere by the golden angle, shape (count, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    turn = np.arange(count) * np.pi * (3.0 - np.sqrt(5.0))
    r = np.sqrt(1.0 - z * z)
    return np.stack((r * np.cos(turn), r * np.sin(turn), z), axis=-1)
