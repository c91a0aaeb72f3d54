"""First contact of a moving sphere with triangles, in closed form."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.compile import has_numba
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.geometry.separation import closest_on_triangles
from vil_renderer.embedded.geometry.surfaces import dots, unit_rows
from vil_renderer.embedded.geometry.sweep_kernel import sweep

_TOUCHING_M: Final = 1e-6
"""A sphere that is this near to a surface touches it."""
_PARALLEL: Final = 1e-9


class Impact(NamedTuple):
    """First contact: share of the way, number of the triangle, point on it (3,), normal to the
    centre (3,).
    """

    share: float
    triangle: int
    p_m: FloatArray
    normal: FloatArray


def first_impact(
    start_m: FloatArray, way_m: FloatArray, radius_m: float, corners: FloatArray
) -> Impact | None:
    """Return the first contact of a sphere that moves from a point (3,) along a way (3,), None = it
    passes.

    A triangle that it touches at the start counts only if the way leads into it.

    Args:
        start_m: centre of the sphere.
        way_m: its motion.
        radius_m: its radius.
        corners: triangles (k, 3, 3), which have two sides.
    """
    if not has_numba():
        return reference_impact(start_m, way_m, radius_m, corners)
    out = np.empty(7)
    inputs = (
        np.ascontiguousarray(start_m),
        np.ascontiguousarray(way_m),
        radius_m,
        np.ascontiguousarray(corners),
    )
    share = float(sweep(*inputs, _TOUCHING_M, _PARALLEL, np.empty(len(corners)), out))
    return None if share > 1.0 else Impact(share, int(out[0]), out[1:4], out[4:7])


def reference_impact(
    start_m: FloatArray, way_m: FloatArray, radius_m: float, corners: FloatArray
) -> Impact | None:
    """Return the same as :func:`first_impact` by NumPy, for installations without numba."""
    nearest = closest_on_triangles(start_m, corners)
    away = start_m - nearest
    distance = np.sqrt(dots(away, away))
    touches = distance <= radius_m + _TOUCHING_M
    face = unit_rows(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))
    # A centre on the surface itself leaves to the side from which it moves.
    own = np.where(
        distance[:, None] > _TOUCHING_M,
        unit_rows(away),
        -np.copysign(1.0, face @ way_m)[:, None] * face,
    )
    share = np.minimum(
        _on_faces(start_m, way_m, radius_m, corners, face),
        _on_edges(start_m, way_m, radius_m, corners),
    )
    share = np.where(
        touches, np.where(own @ way_m < -_PARALLEL * np.linalg.norm(way_m), 0.0, np.inf), share
    )
    if not len(share) or not share.min() <= 1.0:
        return None
    # Of several at once, such as the two triangles of a wall's side, that with the nearest surface.
    first = np.flatnonzero(share <= share.min() + 1e-9)
    centre = start_m + share.min() * way_m
    points = closest_on_triangles(centre, corners[first])
    gaps = ((centre - points) ** 2).sum(axis=1)
    i = int(gaps.argmin())
    chosen = int(first[i])
    normal = own[chosen] if touches[chosen] else unit_rows((centre - points[i])[None])[0]
    return Impact(float(share.min()), chosen, points[i], normal)


def _on_faces(
    start: FloatArray, way: FloatArray, radius: float, corners: FloatArray, face: FloatArray
) -> FloatArray:
    """Return the share of the way (k,) at which the sphere meets the inside of each triangle,
    infinity = never.
    """
    height = dots(start - corners[:, 0], face)
    normal = np.copysign(1.0, height)[:, None] * face
    height = np.abs(height)
    rate = normal @ way
    share = np.divide(
        height - radius,
        -rate,
        out=np.full(len(rate), np.inf),
        where=(rate < 0.0) & (height >= radius),
    )
    at = np.where(np.isfinite(share), share, 0.0)[:, None]
    foot = start + at * way - radius * normal
    edges = np.roll(corners, -1, axis=1) - corners
    turns = (np.cross(edges, foot[:, None] - corners) * face[:, None]).sum(axis=2)
    return np.where((turns >= 0.0).all(axis=1), share, np.inf)


def _on_edges(start: FloatArray, way: FloatArray, radius: float, corners: FloatArray) -> FloatArray:
    """Return the share of the way (k,) at which the sphere meets an edge or a corner of each
    triangle.
    """
    a = corners.reshape(-1, 3)
    edge = (np.roll(corners, -1, axis=1) - corners).reshape(-1, 3)
    from_a = start - a
    length2 = np.maximum(dots(edge, edge), 1e-30)
    along = dots(from_a, edge) / length2
    step = (edge @ way) / length2
    across = from_a - along[:, None] * edge
    motion = way - step[:, None] * edge
    share = _entry(
        dots(motion, motion), dots(across, motion), dots(across, across) - radius * radius
    )
    place = along + np.where(np.isfinite(share), share, 0.0) * step
    share = np.where((place >= 0.0) & (place <= 1.0), share, np.inf)
    corner = _entry(
        np.full(len(a), float(way @ way)), from_a @ way, dots(from_a, from_a) - radius * radius
    )
    return np.asarray(np.minimum(share, corner).reshape(-1, 3).min(axis=1))


def _entry(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Return where a t^2 + 2 b t + c falls to zero ahead of t = 0, infinity if it does not."""
    h = b * b - a * c
    enters = (h > 0.0) & (b < 0.0) & (c >= 0.0) & (a > 0.0)
    # c / (-b + sqrt h) is (-b - sqrt h) / a without its cancellation.
    t: FloatArray = np.divide(
        c, -b + np.sqrt(np.maximum(h, 0.0)), out=np.full(len(a), np.inf), where=enters
    )
    return t
