"""Distance and direction by which a sphere or a box must move to leave a triangle, a box or a round
cone.

Everything here returns depths (n,), > 0 = they overlap, and unit normals (n, 3) towards the sphere
or box: moved by depth along normal it just touches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.geometry.surfaces import unit_rows

_ZOOMS: Final = 5
_SAMPLES: Final = 17
_SIGNS: Final = np.array([1.0, -1.0])
_TINY: Final = 1e-9
# Crossed edges win only when they are clearly shallower: they say where boxes touch less well.
_EDGE_HANDICAP: Final = 1.0001


@dataclass(frozen=True, slots=True, eq=False)
class Sphere:
    """A sphere: centre (3,), radius."""

    centre: FloatArray
    radius: float

    def moved(self, by_m: FloatArray) -> Sphere:
        """Return the sphere at another place."""
        return Sphere(self.centre + by_m, self.radius)

    def leave_triangles(self, corners: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return depths and normals for triangles (n, 3, 3), which have two sides."""
        return self._leave_points(closest_on_triangles(self.centre, corners), 0.0)

    def leave_box(self, box: OrientedBox) -> tuple[FloatArray, FloatArray]:
        """Return depth (1,) and normal (1, 3) for a solid box."""
        distance, normal = box.distance(self.centre[None])
        return self.radius - distance, normal

    def leave_cones(self, cones: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return depths and normals for round cones (n, 8), ends and radii, and the points (n,
        3) on them.
        """
        a = cones[:, :3]
        axis = cones[:, 3:6] - cones[:, :3]
        ra = cones[:, 6]
        taper = cones[:, 6] - cones[:, 7]
        length = np.sqrt((axis * axis).sum(axis=1))
        along = ((self.centre - a) * axis).sum(axis=1) / np.maximum(length, _TINY)
        aside = np.sqrt(np.maximum(((self.centre - a) ** 2).sum(axis=1) - along * along, 0.0))
        # The nearest of the spheres that make up a cone is met across its slope, not across its
        # axis.
        lean = taper / np.sqrt(np.maximum(length * length - taper * taper, _TINY))
        s = np.clip((along - aside * lean) / np.maximum(length, _TINY), 0.0, 1.0)
        s = np.where(length > np.abs(taper), s, (taper < 0.0).astype(float))
        centre = a + s[:, None] * axis
        radius = ra - s * taper
        depth, normal = self._leave_points(centre, radius)
        return depth, normal, centre + radius[:, None] * normal

    def _leave_points(
        self, points: FloatArray, radius: FloatArray | float
    ) -> tuple[FloatArray, FloatArray]:
        away = self.centre - points
        distance = np.sqrt((away * away).sum(axis=1))
        normal = np.where(distance[:, None] > _TINY, unit_rows(away), (0.0, 0.0, 1.0))
        return self.radius + radius - distance, normal


@dataclass(frozen=True, slots=True, eq=False)
class OrientedBox:
    """A box: centre (3,), its axes as rows (3, 3), half sizes (3,)."""

    centre: FloatArray
    axes: FloatArray
    half: FloatArray

    def moved(self, by_m: FloatArray) -> OrientedBox:
        """Return the box at another place."""
        return OrientedBox(self.centre + by_m, self.axes, self.half)

    def leave_triangles(self, corners: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return depths and normals for triangles (n, 3, 3), which have two sides.

        The least of all separating axes.
        """
        edges = np.roll(corners, -1, axis=1) - corners
        face = np.cross(edges[:, 0], edges[:, 1])[:, None]
        own = np.broadcast_to(self.axes, (len(corners), 3, 3))
        crossed = np.cross(edges[:, :, None], self.axes).reshape(-1, 9, 3)
        length = np.sqrt((crossed * crossed).sum(axis=2))
        usable = (
            length > 1e-6 * np.sqrt((edges * edges).sum(axis=2)).max(axis=1, initial=0.0)[:, None]
        )
        ways = np.concatenate((unit_rows(face), own, unit_rows(crossed)), axis=1)
        usable = np.concatenate((np.ones((len(corners), 4), bool), usable), axis=1)
        handicap = np.where(np.arange(13) < 4, 1.0, _EDGE_HANDICAP)[:, None]
        reach = np.abs(ways @ self.axes.T) @ self.half
        places = (corners - self.centre) @ ways.transpose(0, 2, 1)
        depths = np.stack((reach + places.max(axis=1), reach - places.min(axis=1)), axis=2)
        # Apart along any axis is apart; the handicap must not hide that.
        cost = np.where(
            usable[:, :, None], np.where(depths > 0.0, depths * handicap, depths), np.inf
        )
        chosen = cost.reshape(len(corners), -1).argmin(axis=1)
        rows = np.arange(len(corners))
        return depths.reshape(len(corners), -1)[rows, chosen], ways[rows, chosen // 2] * _SIGNS[
            chosen % 2
        ][:, None]

    def leave_cones(self, cones: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return depths and normals for round cones (n, 8), ends and radii, and the points (n, 3)
        on them.

        Along a cone's axis the distance to the box less the radius has one least value: closed in
        on by zooming.
        """
        low = np.zeros(len(cones))
        high = np.ones(len(cones))
        a = cones[:, None, :3]
        axis = (cones[:, 3:6] - cones[:, :3])[:, None]
        rows = np.arange(len(cones))
        for _ in range(_ZOOMS):
            s = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _SAMPLES)
            gap = self.distance((a + s[..., None] * axis).reshape(-1, 3))[0].reshape(s.shape)
            gap -= cones[:, 6:7] + s * (cones[:, 7:8] - cones[:, 6:7])
            best = gap.argmin(axis=1)
            low = s[rows, np.maximum(best - 1, 0)]
            high = s[rows, np.minimum(best + 1, _SAMPLES - 1)]
        share = 0.5 * (low + high)
        centre = a[:, 0] + share[:, None] * axis[:, 0]
        radius = cones[:, 6] + share * (cones[:, 7] - cones[:, 6])
        distance, outward = self.distance(centre)
        return radius - distance, -outward, centre - radius[:, None] * outward

    def distance(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return signed distances (n,) of points (n, 3) from the surface (negative inside),
        directions out (n, 3).
        """
        local = (points - self.centre) @ self.axes.T
        beyond = np.abs(local) - self.half
        outside = np.maximum(beyond, 0.0)
        length = np.sqrt((outside * outside).sum(axis=1))
        nearest = np.eye(3)[beyond.argmax(axis=1)]
        way = np.where((length > _TINY)[:, None], unit_rows(outside), nearest) * np.copysign(
            1.0, local
        )
        return np.where(length > _TINY, length, beyond.max(axis=1)), way @ self.axes


def closest_on_triangles(p: FloatArray, corners: FloatArray) -> FloatArray:
    """Return the nearest points (n, 3) to p, (3,) or (n, 3), on triangles (n, 3, 3)."""
    edges = np.roll(corners, -1, axis=1) - corners
    apex = p[..., None, :]
    share = ((apex - corners) * edges).sum(axis=2) / np.maximum((edges * edges).sum(axis=2), 1e-30)
    on_edges = corners + np.clip(share, 0.0, 1.0)[..., None] * edges
    aside = ((apex - on_edges) ** 2).sum(axis=2)
    rows = np.arange(len(corners))
    on_edge = on_edges[rows, aside.argmin(axis=1)]
    normal = unit_rows(np.cross(edges[:, 0], edges[:, 1]))
    height = ((p - corners[:, 0]) * normal).sum(axis=1)
    foot = p - height[:, None] * normal
    turns = (np.cross(edges, foot[:, None] - corners) * normal[:, None]).sum(axis=2)
    within = (turns >= 0.0).all(axis=1) & (normal != 0.0).any(axis=1)
    return np.asarray(np.where(within[:, None], foot, on_edge))


def patches(box: OrientedBox, corners: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return centroids (n, 3) and areas (n,) of the parts of triangles (n, 3, 3) within a box."""
    polygons = (corners - box.centre) @ box.axes.T
    for axis in range(3):
        for sign in _SIGNS:
            polygons = _cut(polygons, sign * polygons[:, :, axis] - box.half[axis])
    a = polygons[:, :1]
    b = polygons[:, 1:-1]
    c = polygons[:, 2:]
    crossed = np.cross(b - a, c - a)
    weights = 0.5 * np.sqrt((crossed * crossed).sum(axis=2))
    areas = weights.sum(axis=1)
    middles = (weights[..., None] * (a + b + c) / 3.0).sum(axis=1) / np.maximum(areas, 1e-30)[
        :, None
    ]
    return np.where(areas[:, None] > 0.0, middles, polygons[:, 0]) @ box.axes + box.centre, areas


def _cut(polygons: FloatArray, beyond: FloatArray) -> FloatArray:
    """Clip convex polygons (n, k, 3) to where ``beyond`` (n, k) is not positive, filled up with
    first corners.
    """
    before = np.roll(polygons, 1, axis=1)
    here = np.roll(beyond, 1, axis=1)
    crosses = (here > 0.0) != (beyond > 0.0)
    share = np.where(crosses, here / np.where(crosses, here - beyond, 1.0), 0.0)
    between = before + share[..., None] * (polygons - before)
    points = np.stack((between, polygons), axis=2).reshape(len(polygons), -1, 3)
    inside = np.stack((crosses, beyond <= 0.0), axis=2).reshape(len(polygons), -1)
    order = np.argsort(~inside, axis=1, kind="stable")[:, : polygons.shape[1] + 1]
    inside = np.take_along_axis(inside, order, axis=1)
    points = np.take_along_axis(points, order[..., None], axis=1)
    return np.where(inside[..., None], points, points[:, :1])
