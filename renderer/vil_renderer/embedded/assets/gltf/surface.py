"""Normals and tangents from positions and texture coordinates, and vertices that are shared
where they can be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray

Float32Array = npt.NDArray[np.float32]
UintArray = npt.NDArray[np.uint32]
Array = npt.NDArray[Any]


def faceted(arrays: dict[str, Array], triangles: UintArray) -> tuple[dict[str, Array], UintArray]:
    """Return triangles with a ``normal`` each.

    Vertices of different triangles stay shared if theirs are equal.

    Args:
        arrays: of equal length n, ``p_m`` among them.
        triangles: shape (m, 3), m > 0, into them.
    """
    corners = triangles.reshape(-1)
    # Rounded so that the triangles of a plane agree; adding zero makes one of the two zeros.
    normal = _unit(_area_vectors(arrays["p_m"], triangles)).round(6) + np.float32(0.0)
    apart = {name: array[corners] for name, array in arrays.items()}
    return welded({**apart, "normal": np.repeat(normal, 3, axis=0)}, _in_order(len(triangles)))


def welded(arrays: dict[str, Array], triangles: UintArray) -> tuple[dict[str, Array], UintArray]:
    """Return the mesh without vertices that are equal bit by bit, the others in their order."""
    count = len(arrays["p_m"])
    rows = np.concatenate(
        [a.reshape(count, -1).astype(np.float32) for a in arrays.values()], axis=1
    )
    words = rows.view(np.uint32).astype(np.uint64)
    # Sorting one number per vertex is ten times as fast as sorting rows.
    factors = np.random.default_rng(1).integers(1, 2**63, words.shape[1], np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    _, first, group = np.unique(
        (words * factors).sum(axis=1), return_index=True, return_inverse=True
    )
    if not np.array_equal(words[first[group]], words):
        return arrays, triangles
    order = np.argsort(first)
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return {name: array[first[order]] for name, array in arrays.items()}, rank[group][triangles]


def vertex_normals(p_m: Float32Array, triangles: UintArray) -> Float32Array:
    """Return unit normals of vertices, shape (n, 3).

    Of the triangles around each, weighted by area.
    """
    return _unit(_at_vertices(_area_vectors(p_m, triangles), triangles, len(p_m)))


def repaired_normals(normal: Float32Array, p_m: Float32Array, triangles: UintArray) -> Float32Array:
    """Return normals at unit length.

    Those of no length, which exporters write, from the triangles around them.
    """
    length = np.linalg.norm(normal.astype(np.float64), axis=1)
    short = length < 1e-6
    unit = _unit(normal)
    if short.any():
        unit[short] = vertex_normals(p_m, triangles)[short]
    return unit


def tangents(
    p_m: Float32Array, normal: Float32Array, uv: npt.NDArray[np.floating[Any]], triangles: UintArray
) -> Float32Array:
    """Return tangents (n, 4) along increasing u.

    W is the sign for which cross(n, t) w points along decreasing v.

    From the gradient of u and v over the triangles around each vertex. Not MikkTSpace: normal maps
    baked for that show faint seams where a vertex is shared by faces whose texture coordinates are
    oriented differently.
    """
    corner = p_m.astype(np.float64)[triangles]
    place = uv.astype(np.float64)[triangles]
    e1 = corner[:, 1] - corner[:, 0]
    e2 = corner[:, 2] - corner[:, 0]
    (du1, dv1), (du2, dv2) = (place[:, 1] - place[:, 0]).T, (place[:, 2] - place[:, 0]).T
    # The sign of the determinant matters, its size would only weight small textures more.
    sign = np.sign(du1 * dv2 - du2 * dv1)[:, None]
    along_u = _at_vertices(sign * (e1 * dv2[:, None] - e2 * dv1[:, None]), triangles, len(p_m))
    along_v = _at_vertices(sign * (e2 * du1[:, None] - e1 * du2[:, None]), triangles, len(p_m))
    n = normal.astype(np.float64)
    along_u -= n * (n * along_u).sum(axis=1, keepdims=True)
    lost = np.linalg.norm(along_u, axis=1) < 1e-30
    along_u[lost] = np.cross(n[lost], np.eye(3)[np.abs(n[lost]).argmin(axis=1)])
    t = _unit(along_u)
    w = np.where((np.cross(n, t) * along_v).sum(axis=1) > 0.0, -1.0, 1.0)
    return np.column_stack((t, w)).astype(np.float32)


def _in_order(count: int) -> UintArray:
    """Return triangles whose corners are numbered in their order."""
    return np.arange(3 * count, dtype=np.uint32).reshape(-1, 3)


def _area_vectors(p_m: Float32Array, triangles: UintArray) -> FloatArray:
    corner = p_m.astype(np.float64)[triangles]
    return np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])


def _at_vertices(of_triangles: FloatArray, triangles: UintArray, count: int) -> FloatArray:
    """Return sums (count, 3) of the triangles' vectors at their corners."""
    corners = triangles.reshape(-1)
    sums = np.empty((count, 3))
    for axis in range(3):
        sums[:, axis] = np.bincount(corners, np.repeat(of_triangles[:, axis], 3), count)
    return sums


def _unit(vectors: npt.NDArray[np.floating[Any]]) -> Float32Array:
    wide = vectors.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.where(
        length > 0.0, wide / np.where(length > 0.0, length, 1.0), (0.0, 0.0, 1.0)
    ).astype(np.float32)
