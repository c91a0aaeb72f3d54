"""Coarser meshes for distant models, by merging the vertices of each cell of a grid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.assets.model import Float32Array, Primitive

_IndexArray = npt.NDArray[np.intp]

# Seams lie on planes of symmetry, where rounding would put their two sides into different cells.
_OFF_CENTRE: Final = np.float32(0.37)
_APPEARANCE: Final = ("normal", "uv", "uv1", "tangent", "colour")
_PLACES: Final = ("p_m", "joints", "weights", "targets")


def simplified(part: Primitive, cell_m: float) -> Primitive:
    """Return the surface with fewer triangles; no vertex moves farther than a cell's diagonal.

    The vertices in a cell that hang mostly on the same joint come to one place: that of the one in
    their middle, with its joints and weights. Those that face differently keep normals, texture
    coordinates and colours of their own, so that edges stay hard and thin sheets have two sides,
    and nothing opens between them.

    Args:
        part: the surface, in the axes of its node.
        cell_m: side of a cell.
    """
    if not len(part.triangles):
        return part
    cell = np.floor(part.p_m / cell_m + _OFF_CENTRE).astype(np.int64)
    place = _numbered(np.column_stack((cell, _joint(part))))
    deviation = _deviation(part.p_m, place)
    vertex = _numbered(np.column_stack((place, _facing(part.normal))))
    appearance = _first(vertex, deviation)
    place_of = _first(place, deviation)[place[appearance]]
    values: dict[str, Any] = {name: getattr(part, name) for name in (*_APPEARANCE, *_PLACES)}
    chosen = {
        name: value[appearance if name in _APPEARANCE else place_of]
        for name, value in values.items()
        if value is not None
    }
    triangles = _unfolded(vertex[part.triangles], place[part.triangles])
    return replace(part, triangles=triangles.astype(np.uint32), **chosen)


def _numbered(keys: npt.NDArray[np.int64]) -> _IndexArray:
    """Return numbers (n,) of the rows (n, k) from 0; equal rows have the same number."""
    return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1], np.intp).reshape(-1)


def _joint(part: Primitive) -> npt.NDArray[np.int64]:
    """Return the joint that moves each vertex most, (n,); 0 if none does."""
    if part.joints is None or part.weights is None:
        return np.zeros(len(part.p_m), np.int64)
    most = np.argmax(part.weights, axis=1)
    return np.asarray(part.joints[np.arange(len(most)), most], np.int64)


def _facing(normal: Float32Array) -> npt.NDArray[np.int64]:
    """Return the axis of six that each normal is nearest to, (n,)."""
    axis = np.argmax(np.abs(normal), axis=1)
    return np.asarray(2 * axis + (normal[np.arange(len(axis)), axis] < 0.0), np.int64)


def _deviation(p_m: Float32Array, group: _IndexArray) -> npt.NDArray[np.float64]:
    """Return the distance of each vertex from the mean of its group, (n,)."""
    count = np.bincount(group)
    mean = np.stack([np.bincount(group, weights=p_m[:, i]) / count for i in range(3)], axis=1)
    return np.asarray(np.linalg.norm(p_m - mean[group], axis=1))


def _first(group: _IndexArray, rank: npt.NDArray[np.float64]) -> _IndexArray:
    """Return the member of the lowest rank of each group."""
    order = np.lexsort((rank, group))
    return np.asarray(order[np.searchsorted(group[order], np.arange(group.max() + 1))], np.intp)


def _unfolded(triangles: _IndexArray, place: _IndexArray) -> _IndexArray:
    """Return triangles (m, 3) whose corners, at these places, are three; each once."""
    a, b, c = place.T
    left = triangles[(a != b) & (b != c) & (c != a)]
    start = np.argmin(left, axis=1)
    turned = left[np.arange(len(left))[:, None], (start[:, None] + np.arange(3)) % 3]
    return np.unique(turned, axis=0)
