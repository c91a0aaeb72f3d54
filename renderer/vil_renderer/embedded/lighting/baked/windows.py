"""Windows of rooms in baked light: matt lamps as bright as the sky outside."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Float32Array, UvRect
from vil_renderer.embedded.engine.vertices import StaticMesh
from vil_renderer.embedded.lighting.baked.charts import ChartLayout
from vil_renderer.embedded.lighting.baked.receivers import Receivers

_OUTSIDE: Final = 2.0
"""Light of the sky outside over that of a room's environment, which stands for what the room
scatters.
"""


def window_light(
    mesh: StaticMesh, layout: ChartLayout, places: Receivers, albedo: Float32Array
) -> Float32Array:
    """Return the light (r, 3) with which windows look as bright as a white sky outside.

    0 for all else.

    Args:
        mesh: has windows where its materials say so.
        layout: of the mesh.
        places: its receivers.
        albedo: theirs, (r, 3).
    """
    light = np.zeros_like(albedo)
    chunk = np.searchsorted(mesh.chunks.stop, places.triangle, side="right")
    material = mesh.chunks.material[chunk]
    for index, (made, _) in enumerate(mesh.materials):
        own = np.flatnonzero(material == index) if made.windows else np.empty(0, np.intp)
        glass = own[_are_within(made.windows, _uv(mesh, layout, places, own))]
        light[glass] = np.float32(_OUTSIDE) / np.maximum(albedo[glass], np.float32(1e-3))
    return light


def _are_within(windows: tuple[UvRect, ...], uv: FloatArray) -> BoolArray:
    """Return whether texture coordinates (n, 2) lie in any of the windows."""
    within = np.zeros(len(uv), bool)
    for low_u, low_v, high_u, high_v in windows:
        within |= ((uv >= (low_u, low_v)) & (uv <= (high_u, high_v))).all(axis=1)
    return within


def _products(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return the scalar products of rows of p and q, (n, 3), as (n,)."""
    return np.asarray(np.einsum("ni,ni->n", p, q))


def _uv(
    mesh: StaticMesh, layout: ChartLayout, places: Receivers, receivers: npt.NDArray[np.intp]
) -> FloatArray:
    """Return the texture coordinates of receivers, 0..1, (n, 2)."""
    corners = layout.vertex[layout.triangles[places.triangle[receivers]]]
    a, b, c = (mesh.vertices["p"][corners[:, k]].astype(np.float64) for k in range(3))
    along = b - a
    across = c - a
    to = places.p_m[receivers] - a
    along_along = _products(along, along)
    along_across = _products(along, across)
    along_to = _products(along, to)
    across_across = _products(across, across)
    across_to = _products(across, to)
    area = np.maximum(along_along * across_across - along_across**2, 1e-12)
    u = (across_across * along_to - along_across * across_to) / area
    v = (along_along * across_to - along_across * along_to) / area
    uv_a, uv_b, uv_c = (mesh.vertices["uv"][corners[:, k]].astype(np.float64) for k in range(3))
    found: FloatArray = np.mod(uv_a + u[:, None] * (uv_b - uv_a) + v[:, None] * (uv_c - uv_a), 1.0)
    return found
