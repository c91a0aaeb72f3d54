"""A plain path tracer of matt triangles and one lamp: an oracle for baked light. It shares no code with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.scene import Lamp, Scene

_BOUNCES = 12
_EPS = 1e-6


@dataclass(frozen=True)
class Surfaces:
    """Triangles: corners (m, 3, 3), unit normals (m, 3), albedo (m, 3)."""

    corners: FloatArray
    normal: FloatArray
    albedo: FloatArray

    @classmethod
    def of(cls, scene: Scene) -> Surfaces:
        """Return those of a scene."""
        corners, albedo = [], []
        for one in scene.objects:
            for node in one.asset.nodes:
                for part in node.primitives:
                    p = part.p_m @ one.world_from_asset[:3, :3].T + one.world_from_asset[:3, 3]
                    corners.append(p[part.triangles])
                    albedo.append(np.tile(part.material.base_colour[:3], (len(part.triangles), 1)))
        found = np.concatenate(corners).astype(np.float64)
        n = np.cross(found[:, 1] - found[:, 0], found[:, 2] - found[:, 0])
        return cls(found, n / np.linalg.norm(n, axis=1)[:, None], np.concatenate(albedo))

    def first(self, origin: FloatArray, way: FloatArray) -> tuple[FloatArray, np.ndarray]:
        """Return distance in lengths of the way and triangle of the first hit of rays (n, 3) (Moeller-Trumbore)."""
        best, which = np.full(len(origin), np.inf), np.full(len(origin), -1)
        for index, (a, b, c) in enumerate(self.corners):
            e1, e2 = b - a, c - a
            across = np.cross(way, e2)
            det = across @ e1
            with np.errstate(divide="ignore", invalid="ignore"):
                from_a = origin - a
                u = np.einsum("ni,ni->n", from_a, across) / det
                q = np.cross(from_a, e1)
                v = np.einsum("ni,ni->n", q, way) / det
                t = (q @ e2) / det
                hit = (u >= 0) & (v >= 0) & (u + v <= 1) & (t > _EPS) & (t < best)
            best[hit], which[hit] = t[hit], index
        return best, which

    def hidden(self, origin: FloatArray, target: FloatArray) -> BoolArray:
        """Return whether something lies between points (n, 3) and (n, 3)."""
        found: BoolArray = self.first(origin, target - origin)[0] < 1.0 - _EPS
        return found


def traced(surfaces: Surfaces, p_m: FloatArray, normal: FloatArray, lamp: Lamp, *, paths: int) -> FloatArray:
    """Return irradiance over pi at a point of a surface, linear RGB, (3,)."""
    rng = np.random.default_rng(11)
    p, n = np.tile(p_m, (paths, 1)), np.tile(normal, (paths, 1))
    share, total = np.ones((paths, 3)), np.zeros(3)
    for _ in range(_BOUNCES):
        p = p + 1e-4 * n
        total += (share * direct(surfaces, p, n, lamp)).sum(axis=0) / paths
        way = _cosine(rng, n)
        t, which = surfaces.first(p, way)
        alive = which >= 0
        p, n, share = (p + t[:, None] * way)[alive], surfaces.normal[which[alive]], share[alive]
        share = share * surfaces.albedo[which[alive]]
    return total


def direct(surfaces: Surfaces, p: FloatArray, n: FloatArray, lamp: Lamp) -> FloatArray:
    """Return what comes straight from a lamp to points with normals (n, 3), (n, 3)."""
    to = lamp.p_m - p
    r = np.linalg.norm(to, axis=1)
    strength = np.maximum(np.einsum("ni,ni->n", n, to) / r, 0.0) / r**2
    return np.where(surfaces.hidden(p, np.tile(lamp.p_m, (len(p), 1))), 0.0, strength)[:, None] * lamp.light


def _cosine(rng: np.random.Generator, n: FloatArray) -> FloatArray:
    """Return cosine-weighted directions about normals: the normal plus a point of the unit sphere."""
    ball = rng.standard_normal(n.shape)
    way = n + ball / np.linalg.norm(ball, axis=1)[:, None]
    unit: FloatArray = way / np.linalg.norm(way, axis=1)[:, None]
    return unit
