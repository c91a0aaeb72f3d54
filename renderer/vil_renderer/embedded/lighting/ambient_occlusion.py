"""Ambient occlusion, baked once per vertex.

The share of the sky above a surface that the scene leaves open.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.geometry.surfaces import TriangleSurface, solid_mesh
from vil_renderer.embedded.lighting.baked.transport import across
from vil_renderer.embedded.scene import Scene

DARKEST: Final = 0.25
REACH_M: Final = 2.5
"""Farther surfaces take no light."""
_INSIDE: Final = np.float32(0.6)
_LIFT_M: Final = 0.01
_CHUNK: Final = 16384
_GOLDEN_ANGLE: Final = np.pi * (3.0 - 5.0**0.5)


def bake_ao(
    p_world_m: Float32Array,
    normal_world: Float32Array,
    scene: Scene | RayWorld,
    *,
    rays: int = 16,
    reach_m: float = REACH_M,
) -> Float32Array:
    """Return factors 0.25..1 on the ambient light of vertices, by static solid objects.

    Each of ``rays`` cosine-weighted directions counts by the distance to what it hits, up to
    ``reach_m``; one that hits a surface from behind started inside something and counts 0.6, so
    that vertices buried in a neighbour do not darken what is seen of their triangles. Vertices at
    the same place see along the same pattern: no seams.

    Args:
        p_world_m: float32 (n, 3).
        normal_world: float32 (n, 3), unit.
        scene: give a :class:`RayWorld` when there are several calls: it is built only once.
        rays: per vertex.
        reach_m: farther surfaces take no light.

    Raises:
        RendererError: embreex is not installed.
    """
    still = scene.still if isinstance(scene, RayWorld) else solid_mesh(scene)[0]
    open_share = np.empty(len(p_world_m), np.float32)
    for first in range(0, len(p_world_m), _CHUNK):
        chunk = slice(first, first + _CHUNK)
        open_share[chunk] = _open_share(still, p_world_m[chunk], normal_world[chunk], rays, reach_m)
    return np.clip(open_share, DARKEST, 1.0, out=open_share)


def _open_share(
    still: TriangleSurface, p_m: Float32Array, normal: Float32Array, rays: int, reach_m: float
) -> Float32Array:
    d = _directions(p_m, normal, rays).reshape(-1, 3)
    o = np.repeat((p_m + np.float32(_LIFT_M) * normal).astype(np.float32), rays, axis=0)
    distance, primitive, _, _ = still.strike(o, d, np.full(len(o), reach_m, np.float32))
    seen: Float32Array = np.where(
        still.from_behind(primitive, d), _INSIDE, distance * np.float32(1.0 / reach_m)
    )
    return np.asarray(seen.reshape(-1, rays).mean(axis=1, dtype=np.float32))


def _directions(p_m: Float32Array, normal: Float32Array, rays: int) -> Float32Array:
    """Return cosine-weighted directions (n, rays, 3).

    One spiral on the disc, turned by the place and lifted.
    """
    index = np.arange(rays) + 0.5
    radius = np.sqrt(index / rays)
    height = np.sqrt(1.0 - index / rays)
    place = np.round(p_m.astype(np.float64) * 1000.0) @ np.array([12.9898, 78.233, 37.719])
    angle = index * _GOLDEN_ANGLE + 2.0 * np.pi * np.modf(np.sin(place) * 43758.5453)[0][:, None]
    tangent, binormal = across(normal)
    x = (radius * np.cos(angle)).astype(np.float32)
    y = (radius * np.sin(angle)).astype(np.float32)
    made: Float32Array = x[..., None] * tangent[:, None] + y[..., None] * binormal[:, None]
    made += height.astype(np.float32)[:, None] * normal[:, None]
    return made
