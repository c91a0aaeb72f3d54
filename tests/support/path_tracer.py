"""A plain path tracer of matt triangles and one lamp: an oracle for baked light. It shares no code with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.scene import Lamp, Scene

_BOUNCES = 12
_EPS = 1e-6
_CHUNK = 512
"""Rays whose numbers fit into the processor's cache."""


@dataclass(frozen=True)
class Surfaces:
    """Triangles: unit normals (m, 3), albedo (m, 3).

    Attributes:
        forms: distance from the plane, and barycentrics of the second and third corner, of points, (4, 3 m).
    """

    normal: FloatArray
    albedo: FloatArray
    forms: FloatArray

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
        a, b, c = np.concatenate(corners).astype(np.float64).transpose(1, 0, 2)
        across = np.cross(b - a, c - a)
        squared = (across**2).sum(axis=1)[:, None]
        normal = across / np.sqrt(squared)
        slopes = normal, np.cross(c - a, across) / squared, np.cross(across, b - a) / squared
        forms = np.concatenate([np.column_stack((slope, -(slope * a).sum(axis=1))) for slope in slopes])
        return cls(normal, np.concatenate(albedo), forms.T.copy())

    def first(self, origin: FloatArray, way: FloatArray) -> tuple[FloatArray, np.ndarray]:
        """Return distance in lengths of the way and triangle of the first hit of rays (n, 3); infinite, -1 = none."""
        best, which = np.full(len(origin), np.inf), np.full(len(origin), -1)
        for part in (slice(begin, begin + _CHUNK) for begin in range(0, len(origin), _CHUNK)):
            height, u, v = np.split(origin[part] @ self.forms[:3] + self.forms[3], 3, axis=1)
            sinking, u_way, v_way = np.split(way[part] @ self.forms[:3], 3, axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                t = -height / sinking
                u = u + t * u_way
                v = v + t * v_way
                t[~((u >= 0) & (v >= 0) & (u + v <= 1) & (t > _EPS))] = np.inf
            nearest = t.argmin(axis=1)
            best[part] = t[np.arange(len(t)), nearest]
            which[part] = np.where(best[part] < np.inf, nearest, -1)
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
