"""Surfaces for rays: triangle meshes (Embree) and round cones (closed form), each in its own axes.

Directions need not be of unit length: distances count in lengths of the direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.optional_imports import load_native
from vil_renderer.embedded.scene import Scene, static_triangles

IndexArray = npt.NDArray[np.int32]
Struck = tuple[Float32Array, IndexArray, Float32Array, Float32Array]
"""Distance (n,), primitive (n,) (-1 = nothing), and the barycentrics u and v (n,) of its second
and third corner.
"""


class TriangleSurface:
    """Triangles.

    Args:
        p_m: float32 (k, 3).
        triangles: (m, 3).
        normal: float32 (k, 3) of the vertices, None = flat triangles.
    """

    def __init__(
        self,
        p_m: Float32Array,
        triangles: npt.NDArray[np.uint32],
        normal: Float32Array | None = None,
    ) -> None:
        self.p_m = np.ascontiguousarray(p_m, np.float32)
        self.triangles = np.ascontiguousarray(triangles, np.int32)
        self.vertex_normal = normal
        a, b, c = (self.p_m[self.triangles[:, i]] for i in range(3))
        front = unit_rows(np.cross(b - a, c - a)).astype(np.float32)
        # Both sides of every triangle; the last row of either half answers primitive -1: nothing
        # was hit.
        sides = np.zeros((2 * len(triangles) + 2, 4), np.float32)
        sides[: len(triangles), :3] = front
        sides[len(triangles) + 1 : -1, :3] = -front
        # Rows as single items of 16 bytes are looked up in half the time.
        self._sides = sides.view("V16").ravel()
        low, high = (
            (self.p_m.min(axis=0), self.p_m.max(axis=0)) if len(p_m) else (np.zeros(3), np.zeros(3))
        )
        self.centre = 0.5 * (low + high).astype(np.float64)
        self.radius = float(np.linalg.norm(self.p_m - self.centre, axis=1).max(initial=0.0))
        self._embree = self._built()

    def _built(self) -> Any:
        scene = load_native("embreex.rtcore_scene", "embreex", "rays").EmbreeScene(robust=True)
        if len(self.triangles):
            load_native("embreex.mesh_construction", "embreex", "rays").TriangleMesh(
                scene, self.p_m, self.triangles
            )
        return scene

    def strike(
        self, origins: Float32Array, directions: Float32Array, reach: Float32Array
    ) -> Struck:
        """Return the first hit within ``reach`` (n,), which is overwritten."""
        if not len(self.triangles):
            nothing = np.zeros(len(origins), np.float32)
            return reach, np.full(len(origins), -1, np.int32), nothing, nothing
        found = self._embree.run(origins, directions, dists=reach, output=1)
        return found["tfar"], found["primID"], found["u"], found["v"]

    def blocks(
        self, origins: Float32Array, directions: Float32Array, reach: Float32Array
    ) -> BoolArray:
        """Return whether anything lies within ``reach`` (n,)."""
        if not len(self.triangles):
            return np.zeros(len(origins), bool)
        return np.asarray(self._embree.run(origins, directions, dists=reach, query="OCCLUDED") >= 0)

    def from_behind(self, primitive: IndexArray, directions: Float32Array) -> BoolArray:
        """Return whether rays (n, 3) came from the back of their surface; False without a hit."""
        return np.asarray(dots(self._looked_up(primitive), directions) > 0.0)

    def normals(self, struck: Struck, directions: Float32Array, *, smooth: bool) -> Float32Array:
        """Return normals (n, 3) on the side the rays (n, 3) came from, unit, 0 without a hit.

        Args:
            struck: their hits.
            directions: theirs.
            smooth: interpolated between the vertices, where these have normals.
        """
        _, primitive, u, v = struck
        behind = self.from_behind(primitive, directions)
        flat = self._looked_up(primitive + behind * np.int32(len(self.triangles) + 1))
        if not smooth or self.vertex_normal is None or not len(self.triangles):
            return flat
        a, b, c = (self.vertex_normal[self.triangles[primitive, i]] for i in range(3))
        mixed = (1.0 - u - v)[:, None] * a + u[:, None] * b + v[:, None] * c
        # On the flat one's side: mirrored and carelessly wound meshes have their front elsewhere.
        side = np.where(primitive < 0, 0.0, np.copysign(1.0, dots(mixed, flat)))
        return np.asarray((side[:, None] * unit_rows(mixed)).astype(np.float32))

    def _looked_up(self, rows: IndexArray) -> Float32Array:
        return self._sides.take(rows).view(np.float32).reshape(-1, 4)[:, :3]


class Capsules:
    """Round cones: two spheres and all that lies between them.

    Args:
        ends_and_radii: (k, 8): first end, second end, first radius, second radius.
    """

    def __init__(self, ends_and_radii: FloatArray) -> None:
        self.a = ends_and_radii[:, :3]
        self.axis = ends_and_radii[:, 3:6] - ends_and_radii[:, :3]
        self.radius_a = ends_and_radii[:, 6]
        self.radius_b = ends_and_radii[:, 7]
        ends = ends_and_radii[:, :6].reshape(-1, 2, 3)
        radii = ends_and_radii[:, 6:, None]
        low = (ends - radii).min(axis=(0, 1))
        high = (ends + radii).max(axis=(0, 1))
        self.centre = 0.5 * (low + high)
        self.radius = 0.5 * float(np.linalg.norm(high - low))

    def strike(
        self, origins: Float32Array, directions: Float32Array, reach: Float32Array
    ) -> Struck:
        """Return the first entry within ``reach`` (n,).

        A ray that starts inside does not hit its capsule.
        """
        o = origins.astype(np.float64)
        d = directions.astype(np.float64)
        best = reach.astype(np.float64)
        primitive = np.full(len(o), -1, np.int32)
        for k in range(len(self.a)):
            t = self._entry(k, o - self.a[k], d)
            closer = t < best
            best[closer] = t[closer]
            primitive[closer] = k
        nothing = np.zeros(len(o), np.float32)
        return best.astype(np.float32), primitive, nothing, nothing

    def blocks(
        self, origins: Float32Array, directions: Float32Array, reach: Float32Array
    ) -> BoolArray:
        """Return whether anything lies within ``reach`` (n,)."""
        return self.strike(origins, directions, reach)[1] >= 0

    def _entry(self, k: int, m: FloatArray, d: FloatArray) -> FloatArray:
        """Return where rays (m from the first end, d) enter capsule k.

        Two spheres, and the cone that touches both.
        """
        ra = self.radius_a[k]
        rb = self.radius_b[k]
        axis = self.axis[k]
        dd = dots(d, d)
        md = dots(m, d)
        mm = dots(m, m)
        entry = np.minimum(
            _root(dd, md, mm - ra * ra),
            _root(dd, dots(m - axis, d), dots(m - axis, m - axis) - rb * rb),
        )
        # The cone is where the least over s of |m + t d - s axis|^2 - (ra - s (ra - rb))^2 is zero.
        taper = ra - rb
        slope = float(axis @ axis) - taper * taper
        if slope <= 0.0:
            return np.where((mm < ra * ra) | (dots(m - axis, m - axis) < rb * rb), np.inf, entry)
        y = m @ axis - ra * taper
        yd = d @ axis
        t = _root(slope * dd - yd * yd, slope * md - y * yd, slope * (mm - ra * ra) - y * y)
        s = (y + np.where(np.isfinite(t), t, 0.0) * yd) / slope
        starts_inside = (
            mm - ra * ra + (slope * (nearest := np.clip(y / slope, 0.0, 1.0)) - 2.0 * y) * nearest
            < 0.0
        )
        return np.where(
            starts_inside, np.inf, np.where((s >= 0.0) & (s <= 1.0), np.minimum(entry, t), entry)
        )

    def normals(self, primitive: IndexArray, p_m: FloatArray) -> Float32Array:
        """Return outward normals (n, 3) at points on the capsules ``primitive`` (n,)."""
        axis = self.axis[primitive]
        radius = self.radius_a[primitive]
        taper = radius - self.radius_b[primitive]
        m = p_m - self.a[primitive]
        slope = dots(axis, axis) - taper * taper
        s = (dots(m, axis) - radius * taper) / np.where(slope > 0.0, slope, np.inf)
        return np.asarray(unit_rows(m - np.clip(s, 0.0, 1.0)[:, None] * axis).astype(np.float32))


def _root(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Return the entering root of a t^2 + 2 b t + c = 0 ahead of the origin, infinity if there
    is none.
    """
    h = b * b - a * c
    t = (-b - np.sqrt(np.maximum(h, 0.0))) / np.where(a == 0.0, 1.0, a)
    return np.where((h > 0.0) & (a != 0.0) & (t > 0.0), t, np.inf)


def dots(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> npt.NDArray[Any]:
    """Return dot products of rows (n, 3); for many rows, by columns costs a quarter of einsum."""
    return np.asarray(a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1] + a[:, 2] * b[:, 2])


def unit_rows(v: npt.NDArray[np.floating]) -> npt.NDArray[Any]:
    """Return rows scaled to unit length; zero rows stay."""
    length = np.sqrt((v * v).sum(axis=-1, keepdims=True))
    return np.asarray(v / np.maximum(length, 1e-30))


_Piece = tuple[npt.NDArray[np.floating], npt.NDArray[np.uint32], npt.NDArray[np.floating]]


def joined(pieces: Sequence[_Piece]) -> TriangleSurface:
    """Join pieces (points, triangles, vertex normals of any length) into one mesh."""
    points = [np.zeros((0, 3), np.float32)]
    normals = [np.zeros((0, 3), np.float32)]
    triangles = [np.zeros((0, 3), np.uint32)]
    count = 0
    for p_m, corners, normal in pieces:
        points.append(p_m.astype(np.float32))
        normals.append(unit_rows(normal).astype(np.float32))
        triangles.append(corners + np.uint32(count))
        count += len(p_m)
    return TriangleSurface(
        np.concatenate(points), np.concatenate(triangles), np.concatenate(normals)
    )


def drawn_mesh(scene: Scene) -> tuple[TriangleSurface, npt.NDArray[np.intp]]:
    """Return all static objects in drawn shape, and per triangle the index into
    ``scene.objects``.
    """
    pieces: list[_Piece] = []
    owners = [np.zeros(0, np.intp)]
    for index, thing in enumerate(scene.objects):
        if thing.movable:
            continue
        for node, matrix in zip(thing.asset.nodes, thing.asset.asset_from_node(), strict=True):
            m = thing.world_from_asset @ matrix
            turn = m[:3, :3]
            place = m[:3, 3]
            for part in node.primitives:
                pieces.append(
                    (part.p_m @ turn.T + place, part.triangles, part.normal @ np.linalg.inv(turn))
                )
                owners.append(np.full(len(part.triangles), index, np.intp))
    return joined(pieces), np.concatenate(owners)


def solid_mesh(scene: Scene) -> tuple[TriangleSurface, npt.NDArray[np.intp]]:
    """Return all static solid objects, and per triangle the index into ``scene.objects``."""
    still = static_triangles(scene)
    return TriangleSurface(still.p_m, still.triangles), still.owner
