"""First contact of a moving sphere with triangles, compiled: one triangle after another.

The same as :func:`vil_renderer.embedded.geometry.sweep.first_impact`; vectors are tuples of three
numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vil_bridge.core.compile import compiled
from vil_bridge.core.vector_kernel import cross, dot, less, plus

_TIE = 1e-9


@compiled(inline=True)
def _corner(corners: Any, i: Any, k: Any) -> Any:
    return (corners[i, k, 0], corners[i, k, 1], corners[i, k, 2])


@compiled()
def _face(corners: Any, i: Any) -> Any:
    """Return the unit normal of a triangle, zeros where it has no area."""
    a = _corner(corners, i, 0)
    n = cross(less(_corner(corners, i, 1), a), less(_corner(corners, i, 2), a))
    length = math.sqrt(dot(n, n))
    return plus((0.0, 0.0, 0.0), 1.0 / length if length > 0.0 else 0.0, n)


@compiled()
def _within(p: Any, corners: Any, i: Any, face: Any) -> Any:
    """Return True if a point of a triangle's plane is within its edges."""
    for k in range(3):
        a = _corner(corners, i, k)
        if dot(cross(less(_corner(corners, i, (k + 1) % 3), a), less(p, a)), face) < 0.0:
            return False
    return dot(face, face) > 0.0


@compiled()
def _closest(p: Any, corners: Any, i: Any, face: Any) -> Any:
    """Return the nearest point of a triangle."""
    foot = plus(p, -dot(less(p, _corner(corners, i, 0)), face), face)
    if _within(foot, corners, i, face):
        return foot
    best = foot
    least = math.inf
    for k in range(3):
        a = _corner(corners, i, k)
        edge = less(_corner(corners, i, (k + 1) % 3), a)
        share = dot(less(p, a), edge) / max(dot(edge, edge), 1e-30)
        q = plus(a, min(max(share, 0.0), 1.0), edge)
        away = less(p, q)
        if dot(away, away) < least:
            best = q
            least = dot(away, away)
    return best


@compiled()
def _entry(a: Any, b: Any, c: Any) -> Any:
    """Return where a t^2 + 2 b t + c falls to zero ahead of t = 0, infinity if it does not."""
    h = b * b - a * c
    if h > 0.0 and b < 0.0 and c >= 0.0 and a > 0.0:
        return c / (math.sqrt(h) - b)
    return math.inf


@compiled()
def _share(start: Any, way: Any, radius: Any, corners: Any, i: Any, face: Any) -> Any:
    """Return the share of the way at which the sphere meets a triangle that it does not touch
    yet.
    """
    best = math.inf
    height = dot(less(start, _corner(corners, i, 0)), face)
    rate = dot(way, face)
    side = 1.0 if height >= 0.0 else -1.0
    height = side * height
    rate = side * rate
    if rate < 0.0 and height >= radius:
        share = (height - radius) / -rate
        if _within(plus(plus(start, share, way), -side * radius, face), corners, i, face):
            best = share
    for k in range(3):
        a = _corner(corners, i, k)
        edge = less(_corner(corners, i, (k + 1) % 3), a)
        from_a = less(start, a)
        length2 = max(dot(edge, edge), 1e-30)
        along = dot(from_a, edge) / length2
        step = dot(edge, way) / length2
        across = plus(from_a, -along, edge)
        motion = plus(way, -step, edge)
        share = _entry(
            dot(motion, motion), dot(across, motion), dot(across, across) - radius * radius
        )
        if share < best and 0.0 <= along + share * step <= 1.0:
            best = share
        corner = _entry(dot(way, way), dot(from_a, way), dot(from_a, from_a) - radius * radius)
        best = min(best, corner)
    return best


@compiled()
def _contact_normal(start: Any, way: Any, corners: Any, i: Any, face: Any, touching: Any) -> Any:
    """Return the normal to the centre of a sphere that touches a triangle."""
    away = less(start, _closest(start, corners, i, face))
    distance = math.sqrt(dot(away, away))
    if distance > touching:
        return plus((0.0, 0.0, 0.0), 1.0 / distance, away)
    return plus((0.0, 0.0, 0.0), -1.0 if dot(face, way) >= 0.0 else 1.0, face)


@compiled()
def sweep(
    start_m: Any,
    way_m: Any,
    radius: Any,
    corners: Any,
    touching: Any,
    parallel: Any,
    shares: Any,
    out: Any,
) -> Any:
    """Return the share of the way at which a sphere meets triangles, infinity = it passes.

    Args:
        start_m: centre of the sphere, (3,).
        way_m: its motion, (3,).
        radius: of the sphere.
        corners: triangles (k, 3, 3).
        touching: distance from the sphere at which it touches.
        parallel: least slope of a way into a surface.
        shares: (k,), overwritten.
        out: (7,): the triangle, the point on it, the normal.
    """
    start = (start_m[0], start_m[1], start_m[2])
    way = (way_m[0], way_m[1], way_m[2])
    slope = -parallel * math.sqrt(dot(way, way))
    first = math.inf
    for i in range(len(corners)):
        face = _face(corners, i)
        away = less(start, _closest(start, corners, i, face))
        if dot(away, away) <= (radius + touching) ** 2:
            normal = _contact_normal(start, way, corners, i, face, touching)
            shares[i] = 0.0 if dot(normal, way) < slope else math.inf
        else:
            shares[i] = _share(start, way, radius, corners, i, face)
        first = min(first, shares[i])
    if not first <= 1.0:
        return math.inf
    centre = plus(start, first, way)
    least = math.inf
    for i in range(len(corners)):
        if shares[i] <= first + _TIE:
            face = _face(corners, i)
            p = _closest(centre, corners, i, face)
            away = less(centre, p)
            gap = dot(away, away)
            if gap < least:
                least = gap
                normal = _contact_normal(centre, way, corners, i, face, touching)
                out[0] = i
                out[1:4] = np.array(p)
                out[4:7] = np.array(normal)
    return first
