"""Solid parts of a scene for a simulation (implements ``vil_bridge.core.solid_world.SolidWorld``)."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.solid_world import SweptContact
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.geometry.sweep import first_impact
from vil_renderer.embedded.optional_imports import load_native
from vil_renderer.embedded.scene import Scene, collider_parts
from vil_renderer.embedded.scenefile import load_scene

_POINT_M: Final = 1e-6
_STRETCH_M: Final = 0.5
"""Longest part of a way whose triangles are looked at together."""
_MARGIN_M: Final = 1e-3
_FLOOR_M: Final = 0.02
_AT_ONCE: Final = 256


class SceneSolids:
    """Triangles of the solid objects of a scene, movable ones where the scene puts them.

    Args:
        scene: the scene.
        floor_m: height of a floor that is not part of this: triangles in it are left out; None = none are.

    Raises:
        RendererError: python-fcl is not installed.
    """

    def __init__(self, scene: Scene, floor_m: float | None) -> None:
        self._fcl = load_native("fcl", "python-fcl", "collisions")
        self._names: Final = tuple(thing.name for thing in scene.objects)
        self._corners, self._owner = _solid_triangles(scene)
        if floor_m is not None:
            above = ~(np.abs(self._corners[:, :, 2] - floor_m) <= _FLOOR_M).all(axis=1)
            self._corners, self._owner = self._corners[above], self._owner[above]
        model = self._fcl.BVHModel()
        model.beginModel(3 * len(self._corners), len(self._corners))
        model.addSubModel(self._corners.reshape(-1, 3), np.arange(3 * len(self._corners)).reshape(-1, 3))
        model.endModel()
        if len(self._corners):  # compiles what a flight must not wait for
            first_impact(self._corners[0, 0], np.ones(3), 1.0, self._corners[:1])
        self._model = self._fcl.CollisionObject(model, self._fcl.Transform())

    def clearance_m(self, p_world_m: FloatArray) -> float:
        """Return the distance from a point (3,) to the nearest surface; infinity where there is none."""
        if not len(self._corners):
            return math.inf
        request, result = self._fcl.DistanceRequest(), self._fcl.DistanceResult()
        return float(self._fcl.distance(self._model, self._ball(p_world_m, _POINT_M), request, result)) + _POINT_M

    def first_contact(self, start_m: FloatArray, goal_m: FloatArray, radius_m: float) -> SweptContact | None:
        """Return the first surface that stops a sphere on its way from one point (3,) to another."""
        way = goal_m - start_m
        length_m = float(np.linalg.norm(way))
        gone_m = 0.0
        while gone_m < length_m:
            here = start_m + gone_m / length_m * way
            free_m = self.clearance_m(here) - radius_m - _MARGIN_M
            if free_m > _STRETCH_M:
                gone_m += free_m
                continue
            stretch_m = min(max(free_m, 0.0) + _STRETCH_M, length_m - gone_m)
            part = stretch_m / length_m * way
            triangles = self._near(here + 0.5 * part, radius_m + 0.5 * stretch_m + _MARGIN_M)
            impact = first_impact(here, part, radius_m, self._corners[triangles])
            if impact is not None:
                share = (gone_m + impact.share * stretch_m) / length_m
                other = self._names[int(self._owner[triangles[impact.triangle]])]
                return SweptContact(share, impact.p_m, impact.normal, other)
            gone_m += stretch_m
        return None

    def _near(self, p_m: FloatArray, reach_m: float) -> npt.NDArray[np.intp]:
        """Return the triangles that a ball overlaps."""
        most = _AT_ONCE
        while True:
            request = self._fcl.CollisionRequest(num_max_contacts=most, enable_contact=True)
            result = self._fcl.CollisionResult()
            self._fcl.collide(self._model, self._ball(p_m, reach_m), request, result)
            if len(result.contacts) < most:
                return np.array([contact.b1 for contact in result.contacts], np.intp)
            most *= 8

    def _ball(self, p_m: FloatArray, radius_m: float) -> Any:
        return self._fcl.CollisionObject(self._fcl.Sphere(radius_m), self._fcl.Transform(p_m))


@functools.lru_cache(maxsize=4)
def load_solids(scene: str, floor_m: float | None) -> SceneSolids:
    """Return the solid parts of a shipped scene, or of a scene file.

    Raises:
        RendererError: no such scene, or it cannot be read; or python-fcl is not installed.
    """
    return SceneSolids(load_scene(scene), floor_m)


def _solid_triangles(scene: Scene) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Return the triangles (m, 3, 3) of all solid objects and per triangle the index into ``scene.objects``."""
    corners, owners = [np.zeros((0, 3, 3))], [np.zeros(0, np.intp)]
    for index, thing in enumerate(scene.objects):
        if not thing.solid:
            continue
        m = thing.world_from_asset
        for p_m, faces in collider_parts(thing):
            corners.append((p_m @ m[:3, :3].T + m[:3, 3])[faces])
            owners.append(np.full(len(faces), index, np.intp))
    return np.concatenate(corners).astype(np.float64), np.concatenate(owners)
