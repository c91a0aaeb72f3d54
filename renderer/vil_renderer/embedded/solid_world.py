"""Solid parts of a scene for a simulation.

Implements ``vil_bridge.interfaces.solid_world.SolidWorld``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.interfaces.solid_world import SceneEdit, SweptContact
from vil_renderer.embedded.edited_objects import EditedObjects
from vil_renderer.embedded.geometry.fcl_shapes import ReusedShapes
from vil_renderer.embedded.geometry.separation import Sphere, closest_on_triangles
from vil_renderer.embedded.geometry.sweep import first_impact
from vil_renderer.embedded.optional_imports import load_native
from vil_renderer.embedded.scene import Scene, SceneObject, collider_parts
from vil_renderer.embedded.scenefile import load_scene
from vil_renderer.queries.messages import ObjectState

_POINT_M: Final = 1e-6
_STRETCH_M: Final = 0.5
"""Longest part of a way whose triangles are looked at together."""
_MARGIN_M: Final = 1e-3
_FLOOR_M: Final = 0.02
_AT_ONCE: Final = 256


class _Surfaces:
    """Triangles of some objects, searched by fcl; they can be moved as a whole.

    Attributes:
        corners_m: (k, 3, 3), world, before they are moved. middle_m, reach_m: of a ball around
            them, where they are.
    """

    def __init__(self, things: Sequence[SceneObject], floor_m: float | None) -> None:
        self._fcl = load_native("fcl", "python-fcl", "collisions")
        self._ball = ReusedShapes()
        self._names: Final = tuple(thing.name for thing in things)
        self._floor_m = floor_m
        self.corners_m, self._owner = _solid_triangles(things)
        in_floor = self._in_floor(self.corners_m)
        self._has_floor = bool(in_floor.any())
        self.corners_m = self.corners_m[~in_floor]
        self._owner = self._owner[~in_floor]
        points = self.corners_m.reshape(-1, 3)
        self.middle_m: FloatArray = (
            0.5 * (points.min(axis=0) + points.max(axis=0)) if len(points) else np.zeros(3)
        )
        self._built_middle_m: Final = self.middle_m
        self._motion = Transform.identity()
        self.reach_m = float(np.linalg.norm(points - self.middle_m, axis=1).max(initial=0.0))
        if not len(points):
            return  # never searched: at_least_m
        model = self._fcl.BVHModel()
        model.beginModel(len(points), len(self.corners_m))
        model.addSubModel(points, np.arange(len(points)).reshape(-1, 3))
        model.endModel()
        self._model = self._fcl.CollisionObject(model, self._fcl.Transform())

    def _in_floor(self, corners_m: FloatArray) -> BoolArray:
        """Return which triangles (k, 3, 3), world, lie in the floor, which is not part of this."""
        if self._floor_m is None:
            return np.zeros(len(corners_m), np.bool_)
        return np.asarray((np.abs(corners_m[:, :, 2] - self._floor_m) <= _FLOOR_M).all(axis=1))

    def move(self, motion: Transform) -> bool:
        """Put everything elsewhere, from where it was built.

        False = a part is in the floor: build it again.

        Building takes a hundred times as long for a mesh of thousands of triangles.
        """
        if (
            self._has_floor
            or self._in_floor(motion.apply(self.corners_m.reshape(-1, 3)).reshape(-1, 3, 3)).any()
        ):
            return False
        self._motion = motion
        self.middle_m = motion.apply(self._built_middle_m)
        if len(self.corners_m):
            self._model.setTransform(self._fcl.Transform(motion.rotation(), motion.p_m))
        return True

    def at_least_m(self, p_m: FloatArray) -> float:
        """Return a distance that no surface is nearer than; infinity where there is none."""
        if not len(self.corners_m):
            return math.inf
        return math.dist(p_m.tolist(), self.middle_m.tolist()) - self.reach_m

    def clearance_m(self, p_m: FloatArray) -> float:
        """Return the distance from a point (3,) to the nearest surface."""
        request = self._fcl.DistanceRequest()
        result = self._fcl.DistanceResult()
        return (
            float(
                self._fcl.distance(
                    self._model, self._ball.of(Sphere(p_m, _POINT_M)), request, result
                )
            )
            + _POINT_M
        )

    def near(self, p_m: FloatArray, reach_m: float) -> tuple[FloatArray, list[str]]:
        """Return the triangles (k, 3, 3) that a ball overlaps, and whose each is."""
        most = _AT_ONCE
        while True:
            request = self._fcl.CollisionRequest(num_max_contacts=most, enable_contact=True)
            result = self._fcl.CollisionResult()
            self._fcl.collide(self._model, self._ball.of(Sphere(p_m, reach_m)), request, result)
            if len(result.contacts) < most:
                found = np.array([contact.b1 for contact in result.contacts], np.intp)
                corners_m = self._motion.apply(self.corners_m[found].reshape(-1, 3)).reshape(
                    -1, 3, 3
                )
                return corners_m, [self._names[k] for k in self._owner[found].tolist()]
            most *= 8


class SceneSolids:
    """Triangles of the solid objects of a scene, movable ones where the scene or an edit puts them.

    Args:
        scene: the scene.
        floor_m: height of a floor that is not part of this: triangles in it are left out; None =
            none are.

    Raises:
        RendererError: python-fcl is not installed.
    """

    def __init__(self, scene: Scene, floor_m: float | None) -> None:
        self._scene = scene
        self._floor_m = floor_m
        self._objects: Final = EditedObjects(scene)
        self._rest = _unedited(scene, floor_m, frozenset())
        self._edited: dict[str, _Surfaces] = {}
        self._built: dict[str, SceneEdit] = {}
        if len(self._rest.corners_m):  # compiles what a flight must not wait for
            first_impact(self._rest.corners_m[0, 0], np.ones(3), 1.0, self._rest.corners_m[:1])

    def edit(self, edit: SceneEdit) -> None:
        """Move, scale, add or remove an object.

        The first edit of one of the scene's own takes longer.

        Raises:
            RendererError: there is no such object or asset.
        """
        state = ObjectState(edit.name, edit.asset, edit.p_m, edit.q_xyzw, edit.scale, 0, edit.gone)
        thing = self._objects.thing(state)
        if self._moved(edit):
            return
        self._built.pop(edit.name, None)
        if edit.gone and edit.name not in self._objects.own:
            self._edited.pop(edit.name, None)
            return
        self._edited[edit.name] = _Surfaces([] if edit.gone else [thing], self._floor_m)
        if not edit.gone:
            self._built[edit.name] = edit
        own = frozenset(self._edited) & frozenset(self._objects.own)
        self._rest = _unedited(self._scene, self._floor_m, own)

    def _moved(self, edit: SceneEdit) -> bool:
        """Move an object that is there already; False = it must be built."""
        built = self._built.get(edit.name)
        if built is None or edit.gone or (edit.asset, edit.scale) != (built.asset, built.scale):
            return False
        before, now = (Transform.of(e.p_m, e.q_xyzw) for e in (built, edit))
        return self._edited[edit.name].move(now @ before.inverse())

    def clearance_m(self, p_world_m: FloatArray) -> float:
        """Return the distance from a point (3,) to the nearest surface.

        Infinity where there is none.
        """
        least_m = math.inf
        for surfaces in self._all():
            if surfaces.at_least_m(p_world_m) < least_m:
                least_m = min(least_m, surfaces.clearance_m(p_world_m))
        return least_m

    def first_contact(
        self, start_m: FloatArray, goal_m: FloatArray, radius_m: float
    ) -> SweptContact | None:
        """Return the first surface that stops a sphere on its way from one point (3,) to
        another.
        """
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
            corners, names = self._near(here + 0.5 * part, radius_m + 0.5 * stretch_m + _MARGIN_M)
            impact = first_impact(here, part, radius_m, corners)
            if impact is not None:
                share = (gone_m + impact.share * stretch_m) / length_m
                return SweptContact(share, impact.p_m, impact.normal, names[impact.triangle])
            gone_m += stretch_m
        return None

    def overlap(self, p_world_m: FloatArray, radius_m: float) -> SweptContact | None:
        """Return the nearest surface that a sphere at (3,) overlaps; None = it is free."""
        corners, names = self._near(p_world_m, radius_m)
        if not names:
            return None
        points = closest_on_triangles(p_world_m, corners)
        away = p_world_m - points
        distance = np.linalg.norm(away, axis=1)
        k = int(distance.argmin())
        if not 0.0 < distance[k] < radius_m:
            return None
        return SweptContact(0.0, points[k], away[k] / distance[k], names[k])

    def _near(self, p_m: FloatArray, reach_m: float) -> tuple[FloatArray, list[str]]:
        """Return the triangles (k, 3, 3) that a ball overlaps, and whose each is."""
        found = [part.near(p_m, reach_m) for part in self._all() if part.at_least_m(p_m) <= reach_m]
        names = [name for _, owners in found for name in owners]
        return np.concatenate([np.zeros((0, 3, 3)), *(corners for corners, _ in found)]), names

    def _all(self) -> Iterable[_Surfaces]:
        return (self._rest, *self._edited.values())


@functools.lru_cache(maxsize=8)
def _unedited(scene: Scene, floor_m: float | None, gone: frozenset[str]) -> _Surfaces:
    """Return the surfaces of all objects that no edit has changed."""
    return _Surfaces([thing for thing in scene.objects if thing.name not in gone], floor_m)


_loaded: Final = functools.lru_cache(maxsize=4)(load_scene)


def load_solids(scene: str, floor_m: float | None) -> SceneSolids:
    """Return the solid parts of a shipped scene, or of a scene file, without edits.

    Raises:
        RendererError: no such scene, or it cannot be read; or python-fcl is not installed.
    """
    return SceneSolids(_loaded(scene), floor_m)


def _solid_triangles(things: Sequence[SceneObject]) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Return the triangles (m, 3, 3) of all solid objects and per triangle the index of its
    object.
    """
    corners = [np.zeros((0, 3, 3))]
    owners = [np.zeros(0, np.intp)]
    for index, thing in enumerate(things):
        if not thing.solid:
            continue
        m = thing.world_from_asset
        for p_m, faces in collider_parts(thing):
            corners.append((p_m @ m[:3, :3].T + m[:3, 3])[faces])
            owners.append(np.full(len(faces), index, np.intp))
    return np.concatenate(corners).astype(np.float64), np.concatenate(owners)
