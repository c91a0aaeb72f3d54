"""Receivers: the places of a static mesh whose light is worked out, texels of charts and
vertices without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.geometry.surfaces import TriangleSurface, unit_rows
from vil_renderer.embedded.lighting.baked.charts import ChartLayout, is_outside
from vil_renderer.embedded.lighting.baked.solid_sides import SolidSides, lifted

Index32 = npt.NDArray[np.int32]

_REACH_TEXELS: Final = 2.0
"""Farther texels from a chart are not filled with its light."""
_CHUNK: Final = 1 << 18
_FAR_M: Final = 1.0e3
_INWARD: Final = 0.4
"""Share of the way from a vertex to the middle of its triangle.

Ends of rods and feet are often in other things.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Receivers:
    """Places that receive light: texels first, then vertices.

    Attributes:
        p_m: float32 (r, 3). normal: float32 (r, 3), unit. triangle: the one that each lies on,
            (r,).
        texel: row and column in the atlas of the first ones, (t, 2).
        of_texel: receiver of each texel of the atlas, (h, w); -1 = none near.
        of_vertex: receiver of each vertex of the atlas without a chart, (v,); -1 = it has one.
    """

    p_m: Float32Array
    normal: Float32Array
    triangle: npt.NDArray[np.intp]
    texel: Index32
    of_texel: Index32
    of_vertex: Index32

    def at(
        self, layout: ChartLayout, triangle: npt.NDArray[np.intp], u: Float32Array, v: Float32Array
    ) -> Index32:
        """Return the receiver next to points on triangles, (n,), given by the barycentrics of
        two corners.
        """
        in_chart = layout.chart[triangle] >= 0
        charted = np.flatnonzero(in_chart)
        others = np.flatnonzero(~in_chart)
        found = np.empty(len(triangle), np.int32)
        found[others] = self._vertex_at(layout, triangle[others], u[others], v[others])
        u = u[charted]
        v = v[charted]
        # Rows as single items are looked up in half the time.
        rows = layout.place[layout.triangles].reshape(-1, 6).view("V48").ravel()
        a, b, c = rows.take(triangle[charted]).view(np.float64).reshape(-1, 3, 2).transpose(1, 2, 0)
        height, width = self.of_texel.shape
        x, y = ((1.0 - u - v) * a[axis] + u * b[axis] + v * c[axis] for axis in range(2))
        column = np.clip(x.astype(np.intp), 0, width - 1)
        row = np.clip(y.astype(np.intp), 0, height - 1)
        found[charted] = self.of_texel[row, column]
        return found

    def _vertex_at(
        self, layout: ChartLayout, triangle: npt.NDArray[np.intp], u: Float32Array, v: Float32Array
    ) -> Index32:
        first = 1.0 - u - v
        own = np.where(first >= np.maximum(u, v), 0, np.where(u >= v, 1, 2))
        return self.of_vertex[layout.triangles[triangle, own]]


def receivers_of(
    layout: ChartLayout, p_m: Float32Array, normal: Float32Array, solid: SolidSides
) -> Receivers:
    """Return the receivers of a mesh with vertices (n, 3) and their normals (n, 3).

    Texels inside of something solid get the light of those at its edge: none, and it would bleed
    out of it.
    """
    texel, triangle, u, v = _struck(layout)
    corners = layout.vertex[layout.triangles[triangle]]
    weights = np.stack((1.0 - u - v, u, v), axis=1)
    places = np.einsum("nk,nki->ni", weights, p_m[corners]).astype(np.float32)
    normals = unit_rows(np.einsum("nk,nki->ni", weights, normal[corners])).astype(np.float32)
    free = ~solid.is_buried(places, normals)
    texel = texel[free]
    triangle = triangle[free]
    places = places[free]
    normals = normals[free]
    alone = np.flatnonzero(is_outside(layout.place))
    of_vertex = np.full(len(layout.vertex), -1, np.int32)
    of_vertex[alone] = len(texel) + np.arange(len(alone), dtype=np.int32)
    of_triangle = np.zeros(len(layout.vertex), np.intp)
    of_triangle[layout.triangles.ravel()] = np.repeat(np.arange(len(layout.triangles)), 3)
    own_m = p_m[layout.vertex[alone]]
    middle_m = p_m[layout.vertex[layout.triangles[of_triangle[alone]]]].mean(axis=1)
    return Receivers(
        np.concatenate((places, own_m + np.float32(_INWARD) * (middle_m - own_m))),
        np.concatenate((normals, normal[layout.vertex[alone]])),
        np.concatenate((triangle, of_triangle[alone])),
        texel,
        _filled(layout, texel),
        of_vertex,
    )


def sun_light(to_sun: FloatArray, places: Receivers, solid: SolidSides) -> Float32Array:
    """Return the share of the sun's light that receivers get straight from it, (r,)."""
    strength = np.maximum(places.normal @ to_sun.astype(np.float32), 0.0)
    lit = np.flatnonzero(strength > 0.0)
    p_m = lifted(places.p_m[lit], places.normal[lit])
    strength[lit] *= solid.sees(p_m, p_m + _FAR_M * to_sun)
    return strength


def _struck(
    layout: ChartLayout,
) -> tuple[Index32, npt.NDArray[np.intp], Float32Array, Float32Array]:
    """Return the texels whose middles lie in a triangle of the atlas.

    Row and column, triangle, and barycentrics.
    """
    charted = np.flatnonzero(layout.chart >= 0)
    flat = np.zeros((len(layout.vertex), 3), np.float32)
    flat[:, :2] = np.nan_to_num(layout.place)
    surface = TriangleSurface(flat, layout.triangles[charted].astype(np.uint32))
    width, height = layout.size
    found: list[tuple[Index32, npt.NDArray[np.intp], Float32Array, Float32Array]] = []
    for first in range(0, width * height, _CHUNK):
        index = np.arange(first, min(first + _CHUNK, width * height))
        row, column = np.divmod(index, width)
        above = np.stack((column + 0.5, row + 0.5, np.ones(len(index))), axis=1).astype(np.float32)
        down = np.tile(np.array((0.0, 0.0, -1.0), np.float32), (len(index), 1))
        _, hit, u, v = surface.strike(above, down, np.full(len(index), 2.0, np.float32))
        met = np.flatnonzero(hit >= 0)
        texel = np.stack((row[met], column[met]), axis=1).astype(np.int32)
        found.append((texel, charted[hit[met]], u[met], v[met]))
    texels, triangles, us, vs = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return texels, triangles, us, vs


def _filled(layout: ChartLayout, texel: Index32) -> Index32:
    """Return the receiver of each texel of the atlas, the nearest one's where it has none."""
    width, height = layout.size
    made = np.full((height, width), -1, np.int32)
    made[texel[:, 0], texel[:, 1]] = np.arange(len(texel), dtype=np.int32)
    if not len(texel):
        return made
    found = distance_transform_edt(made < 0, return_indices=True)
    assert found is not None
    away, (row, column) = found
    return np.where(away <= _REACH_TEXELS, made[row, column], -1).astype(np.int32)
