"""Charts: flat parts of the static mesh, each with its own rectangle of texels in one atlas.

Triangles that hang together and face the same way make a chart. Its texels lie in the plane of
their mean normal. Charts of a few texels would waste more than they hold: their light is that of
their vertices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import BoolArray, FloatArray

IntArray = npt.NDArray[np.intp]

PAD: Final = 1
"""Texels around a chart that repeat its edge, so that none of a neighbour is mixed in."""
_SAME_WAY: Final = 0.95
"""Cosine of the largest angle between neighbours of one chart."""
_MOST_BENT: Final = 0.5
"""Cosine of the largest angle between a chart's triangles and its plane."""
_LEAST_TEXELS: Final = 12.0
"""Area of a chart below which its vertices have the light."""


class Rectangles(NamedTuple):
    """Places of rectangles in an atlas: lower corners (k, 2), and the atlas's width and height."""

    corner: IntArray
    size: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class ChartLayout:
    """Atlas of a mesh.

    Attributes:
        vertex: of the mesh for each vertex of the atlas, (v,): one that belongs to several charts
            comes several times.
        triangles: (m, 3), into those; the order is the mesh's.
        place: of each vertex in the atlas, texels (v, 2); NaN = the vertex has its own light.
        chart: of each triangle, (m,); -1 = none.
        size: width and height of the atlas in texels.
    """

    vertex: IntArray
    triangles: IntArray
    place: FloatArray
    chart: IntArray
    size: tuple[int, int]


def lay_out(p_m: FloatArray, triangles: IntArray, texel_m: float) -> ChartLayout:
    """Return the atlas of a mesh.

    Args:
        p_m: vertices, (n, 3).
        triangles: (m, 3). Only those that share vertices hang together.
        texel_m: side of a texel.
    """
    a, b, c = (p_m[triangles[:, k]] for k in range(3))
    normals = cross(b - a, c - a)
    double_m2 = np.linalg.norm(normals, axis=1)
    normal = normals / np.maximum(double_m2, 1e-12)[:, None]
    group = _groups(triangles, normal)
    count = int(group.max(initial=-1)) + 1
    sums = np.stack(
        [np.bincount(group, normals[:, k], count) for k in range(3)], axis=1, dtype=np.float64
    )
    facing = sums / np.maximum(np.linalg.norm(sums, axis=1), 1e-12)[:, None]
    bent = np.zeros(count, np.bool_)
    np.logical_or.at(bent, group, np.einsum("ni,ni->n", normal, facing[group]) < _MOST_BENT)
    area_m2 = np.bincount(group, 0.5 * double_m2, count)
    good = ~bent & (area_m2 >= _LEAST_TEXELS * texel_m**2)
    chart = np.where(good[group], (np.cumsum(good) - 1)[group], -1)
    return _placed(p_m, triangles, chart, facing[good], texel_m)


def _groups(triangles: IntArray, normal: FloatArray) -> IntArray:
    """Return the group of each triangle, (m,).

    Neighbours across an edge that face nearly the same way.
    """
    count = len(triangles)
    edges = np.sort(
        np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1
    )
    owner = np.tile(np.arange(count), 3)
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    edges = edges[order]
    owner = owner[order]
    same = (edges[1:] == edges[:-1]).all(axis=1)
    first = owner[:-1][same]
    second = owner[1:][same]
    flat = np.einsum("ni,ni->n", normal[first], normal[second]) >= _SAME_WAY
    links = coo_matrix(
        (np.ones(flat.sum(), np.int8), (first[flat], second[flat])), shape=(count, count)
    )
    found: IntArray = connected_components(links, directed=False)[1].astype(np.intp)
    return found


def _placed(
    p_m: FloatArray, triangles: IntArray, chart: IntArray, facing: FloatArray, texel_m: float
) -> ChartLayout:
    """Split vertices by chart, and give each chart its rectangle."""
    corners = np.stack((triangles.ravel(), np.repeat(chart, 3)), axis=1)
    pairs, where = np.unique(corners, axis=0, return_inverse=True)
    vertex = pairs[:, 0]
    of_chart = pairs[:, 1]
    place = np.full((len(vertex), 2), np.nan)
    size = (1, 1)
    if len(facing):
        right, up = _axes(facing)
        inside = of_chart >= 0
        own = of_chart[inside]
        p = p_m[vertex[inside]]
        flat = (
            np.stack(
                (np.einsum("ni,ni->n", p, right[own]), np.einsum("ni,ni->n", p, up[own])), axis=1
            )
            / texel_m
        )
        low = np.full((len(facing), 2), np.inf)
        high = -low
        np.minimum.at(low, own, flat)
        np.maximum.at(high, own, flat)
        texels = np.maximum(np.ceil(high - low).astype(np.intp), 1)
        rectangles = packed(texels + 2 * PAD)
        # A strip narrower than a texel, as of a pipe, covers the middles of its texels.
        low -= np.where(texels == 1, 0.5 * (1.0 - (high - low)), 0.0)
        place[inside] = flat - low[own] + rectangles.corner[own] + PAD
        size = rectangles.size
    return ChartLayout(vertex, where.reshape(-1, 3), place, chart, size)


def _axes(facing: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return unit vectors to the right and up in planes with unit normals (k, 3), (k, 3) each."""
    level = np.abs(facing[:, 2]) > 0.9
    helper = np.where(level[:, None], (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    aside = cross(helper, facing)
    right = aside / np.linalg.norm(aside, axis=1)[:, None]
    return right, cross(facing, right)


def packed(sizes: IntArray) -> Rectangles:
    """Return places for rectangles of sizes (k, 2) row by row, the highest first, in a nearly
    square atlas.
    """
    width = max(
        int(sizes[:, 0].max(initial=1)),
        int(np.ceil(np.sqrt(1.1 * float((sizes[:, 0] * sizes[:, 1]).sum())))),
    )
    corner = np.zeros((len(sizes), 2), np.intp)
    x = y = shelf = 0
    for index in np.lexsort((-sizes[:, 0], -sizes[:, 1])).tolist():
        wide, high = sizes[index].tolist()
        if x + wide > width:
            x = 0
            y = y + shelf
            shelf = 0
        corner[index] = x, y
        x = x + wide
        shelf = max(shelf, high)
    return Rectangles(corner, (width, y + shelf))


def is_outside(place: FloatArray) -> BoolArray:
    """Return which vertices are in no chart, (v,)."""
    outside: BoolArray = np.isnan(place[:, 0])
    return outside
