"""A plain path tracer of matt triangles and one lamp: an oracle for baked light.

It shares no code with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.scene import Lamp, Scene

_EPS = 1e-6
_LIFT_M = 1e-4
_CHUNK = 512
"""Rays whose numbers fit into the processor's cache."""


@dataclass(frozen=True)
class Surfaces:
    """Triangles: unit normals (m, 3), albedo (m, 3).

    Attributes:
        forms: distance from the plane, and barycentrics of the second and third corner, of points,
            (4, 3 m).
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
        forms = np.concatenate(
            [np.column_stack((slope, -(slope * a).sum(axis=1))) for slope in slopes]
        )
        return cls(normal, np.concatenate(albedo), forms.T.copy())

    def first(self, origin: FloatArray, way: FloatArray) -> tuple[FloatArray, np.ndarray]:
        """Return distance in lengths of the way and triangle of the first hit of rays (n, 3).

        Infinite, -1 = none.
        """
        best, which = np.full(len(origin), np.inf), np.full(len(origin), -1)
        m = len(self.normal)
        for part in (slice(begin, begin + _CHUNK) for begin in range(0, len(origin), _CHUNK)):
            start = origin[part] @ self.forms[:3] + self.forms[3]
            step = way[part] @ self.forms[:3]
            with np.errstate(divide="ignore", invalid="ignore"):
                t = -start[:, :m] / step[:, :m]
                u = start[:, m : 2 * m] + t * step[:, m : 2 * m]
                v = start[:, 2 * m :] + t * step[:, 2 * m :]
                t[~((u >= 0) & (v >= 0) & (u + v <= 1) & (t > _EPS))] = np.inf
            nearest = t.argmin(axis=1)
            best[part] = t[np.arange(len(t)), nearest]
            which[part] = np.where(best[part] < np.inf, nearest, -1)
        return best, which

    def hidden(self, origin: FloatArray, target: FloatArray) -> BoolArray:
        """Return whether something lies between points (n, 3) and (n, 3)."""
        found: BoolArray = self.first(origin, target - origin)[0] < 1.0 - _EPS
        return found


def traced(
    surfaces: Surfaces, p_m: FloatArray, normal: FloatArray, lamp: Lamp, *, paths: int
) -> FloatArray:
    """Return irradiance over pi at a point of a surface, linear RGB, (3,)."""
    p = p_m[None] + _LIFT_M * normal
    n = normal[None]
    way = _about(n, _even(paths))
    return np.asarray(
        direct(surfaces, p, n, lamp)[0] + _arriving(surfaces, p, way, lamp).mean(axis=0)
    )


def traced_around(
    surfaces: Surfaces, p_m: FloatArray, normals: FloatArray, lamp: Lamp, *, paths: int
) -> FloatArray:
    """Return irradiance over pi of small surfaces at a point, (n, 3), without what comes
    straight from the lamp.
    """
    way = _even(paths)
    facing = np.maximum(normals @ way.T, 0.0)
    return np.asarray(4.0 * facing @ _arriving(surfaces, p_m[None], way, lamp) / paths)


def _arriving(surfaces: Surfaces, p: FloatArray, way: FloatArray, lamp: Lamp) -> FloatArray:
    """Return the light from surfaces that arrives at a point (1, 3) against unit ways (n, 3),
    linear RGB, (n, 3).

    A path goes on from a surface with the probability of its greatest albedo (Russian roulette).
    """
    rng = np.random.default_rng(11)
    light = np.zeros(way.shape)
    path = np.arange(len(way))
    p = np.tile(p, (len(way), 1))
    share = np.ones(way.shape)
    while len(path):
        t, which = surfaces.first(p, way)
        odds = np.where(which >= 0, surfaces.albedo[which].max(axis=1), 0.0)
        alive = np.flatnonzero(rng.random(len(p)) < odds)
        hit = which[alive]
        path = path[alive]
        n = surfaces.normal[hit]
        p = p[alive] + t[alive, None] * way[alive] + _LIFT_M * n
        share = share[alive] * surfaces.albedo[hit] / odds[alive, None]
        light[path] += share * direct(surfaces, p, n, lamp)
        way = _about(n, rng.standard_normal(n.shape))
    return light


def direct(surfaces: Surfaces, p: FloatArray, n: FloatArray, lamp: Lamp) -> FloatArray:
    """Return what comes straight from a lamp to points with normals (n, 3), (n, 3)."""
    to = lamp.p_m - p
    r = np.linalg.norm(to, axis=1)
    strength = np.maximum(np.einsum("ni,ni->n", n, to) / r, 0.0) / r**2
    return (
        np.where(surfaces.hidden(p, np.tile(lamp.p_m, (len(p), 1))), 0.0, strength)[:, None]
        * lamp.light
    )


def _about(n: FloatArray, spread: FloatArray) -> FloatArray:
    """Return cosine-weighted directions about normals.

    Each plus a point of the unit sphere, from vectors (n, 3).
    """
    way = n + spread / np.linalg.norm(spread, axis=1)[:, None]
    unit: FloatArray = way / np.linalg.norm(way, axis=1)[:, None]
    return unit


def _even(count: int) -> FloatArray:
    """Return points of the unit sphere, (count, 3), a Fibonacci lattice."""
    height = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    turn = np.pi * (1.0 + 5.0**0.5) * np.arange(count)
    level = np.sqrt(1.0 - height**2)
    return np.stack((level * np.cos(turn), level * np.sin(turn), height), axis=1)
