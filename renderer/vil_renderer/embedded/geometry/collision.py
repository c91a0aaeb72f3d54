"""Collisions of vehicles with a scene and with each other.

fcl's tree finds the triangles that a vehicle overlaps; depths and normals are our own
(separation.py), because fcl's of meshes are those of single triangles only. Every contact is a
triple in the world: ``normal_world`` points from the other thing to the vehicle, and moved by
``depth_m`` along it the vehicle just touches; ``p_world_m`` is where, on the other's surface.
Surfaces have two sides: a vehicle is pushed to the side where it mostly is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.geometry.fcl_shapes import ReusedShapes
from vil_renderer.embedded.geometry.ray_world import NOTHING
from vil_renderer.embedded.geometry.separation import OrientedBox, Sphere, patches
from vil_renderer.embedded.geometry.surfaces import solid_mesh, unit_rows
from vil_renderer.embedded.optional_imports import load_native
from vil_renderer.embedded.scene import Posed, Scene, SceneObject, collider_parts

_MOST_TRIANGLES: Final = 256
_TOUCHING_M: Final = 1e-6
_ALIKE: Final = 0.999
_HERE: Final = np.eye(4)


@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """Overlap of two objects.

    Attributes:
        name: the vehicle. other: the object or actor.
        p_world_m: on the other's surface, (3,).
        normal_world: from the other to the vehicle, unit, (3,).
        depth_m: how far the vehicle must move along the normal until they only touch.
    """

    name: str
    other: str
    p_world_m: FloatArray
    normal_world: FloatArray
    depth_m: float


@dataclass(slots=True, eq=False)
class _Obstacle:
    """A mesh in fcl.

    Attributes:
        names: what its triangles belong to, by ``owner`` (m,). corners: (m, 3, 3) in its own axes.
        world_from_own: rigid, (4, 4). model: fcl's, at that place.
        node: of the model, which carries it. at_rest: the world from that node when it was built,
            (4, 4).
    """

    names: tuple[str, ...]
    owner: npt.NDArray[np.intp]
    corners: FloatArray
    model: Any
    world_from_own: FloatArray
    node: int
    at_rest: FloatArray


class CollisionWorld:
    """Colliders of a scene and its actors.

    Solid objects are their triangles (or the boxes that they ask for), movable ones too, wherever
    the actor of their name carries them; other actors are their boxes, humans their capsules.

    Args:
        scene: the scene.

    Raises:
        RendererError: python-fcl is not installed.
    """

    def __init__(self, scene: Scene) -> None:
        self._fcl = load_native("fcl", "python-fcl", "collisions")
        self._vehicle, self._other = ReusedShapes(), ReusedShapes()
        still, owner = solid_mesh(scene)
        names = tuple(thing.name for thing in scene.objects)
        self._still: list[_Obstacle] = []
        if len(owner):
            self._still.append(self._obstacle(names, still.p_m[still.triangles], owner=owner))
        self._movable = {
            o.name: self._movable_obstacles(o) for o in scene.objects if o.movable and o.solid
        }
        self._passable = {o.name for o in scene.objects if o.movable and not o.solid}
        self._actors: tuple[Posed, ...] = ()

    def update(self, posed: Sequence[Posed]) -> None:
        """Move everything to its place at an instant."""
        for obstacles in self._movable.values():
            for obstacle in obstacles:
                self._put(obstacle, obstacle.at_rest)
        for actor in posed:
            for obstacle in self._movable.get(actor.name, ()):
                self._put(obstacle, actor.world_from_node[obstacle.node])
        self._actors = tuple(
            actor
            for actor in posed
            if actor.name not in self._passable
            and (len(actor.capsules) or actor.name not in self._movable)
        )

    def contacts(
        self, name: str, vehicle: Sphere | OrientedBox, hide: frozenset[str] = NOTHING
    ) -> list[Overlap]:
        """Return everything that a vehicle overlaps, deepest first for each object.

        Args:
            name: the vehicle's, which does not collide with itself.
            vehicle: its sphere or box (:func:`box_at`), world.
            hide: objects that it passes through.
        """
        found: list[Overlap] = []
        for obstacle in self._obstacles(hide | {name}):
            found += _with_mesh(
                name, vehicle, obstacle, self._overlapped(vehicle, obstacle, _MOST_TRIANGLES)
            )
        for actor in self._actors:
            if actor.name != name and actor.name not in hide:
                found += self._with_actor(name, vehicle, actor)
        return found

    def touches_sphere(
        self, p_world_m: FloatArray, radius_m: float, hide: frozenset[str] = NOTHING
    ) -> bool:
        """Return whether a sphere overlaps anything."""
        sphere = Sphere(p_world_m, radius_m)
        if any(len(self._overlapped(sphere, obstacle, 1)) for obstacle in self._obstacles(hide)):
            return True
        return any(
            self._with_actor("", sphere, actor) for actor in self._actors if actor.name not in hide
        )

    def _obstacles(self, hide: frozenset[str]) -> Iterator[_Obstacle]:
        yield from self._still
        yield from (
            obstacle
            for name, some in self._movable.items()
            if name not in hide
            for obstacle in some
        )

    def _put(self, obstacle: _Obstacle, world_from_node: FloatArray) -> None:
        m = world_from_node @ np.linalg.inv(obstacle.at_rest)
        obstacle.world_from_own = m
        obstacle.model.setTransform(self._fcl.Transform(m[:3, :3], m[:3, 3]))

    def _obstacle(
        self,
        names: tuple[str, ...],
        corners: npt.NDArray[np.floating],
        node: int = 0,
        at_rest: FloatArray = _HERE,
        owner: npt.NDArray[np.intp] | None = None,
    ) -> _Obstacle:
        model = self._fcl.BVHModel()
        model.beginModel(3 * len(corners), len(corners))
        points = corners.reshape(-1, 3).astype(np.float64)
        model.addSubModel(points, np.arange(3 * len(corners)).reshape(-1, 3))
        model.endModel()
        # The object is made once: making it walks through the whole mesh.
        placed = self._fcl.CollisionObject(model, self._fcl.Transform())
        owner = np.zeros(len(corners), np.intp) if owner is None else owner
        return _Obstacle(names, owner, points.reshape(-1, 3, 3), placed, np.eye(4), node, at_rest)

    def _movable_obstacles(self, thing: SceneObject) -> list[_Obstacle]:
        """Return rigid parts.

        The whole, or each node if a clip may move them apart (joints have capsules).
        """
        places = thing.world_from_asset @ thing.asset.asset_from_node()
        apart = thing.collider == "mesh" and (
            thing.clip or any(node.skin for node in thing.asset.nodes)
        )
        if not apart:
            parts = [_corners(part, thing.world_from_asset) for part in collider_parts(thing)]
            whole = np.concatenate([np.zeros((0, 3, 3)), *parts])
            return [self._obstacle((thing.name,), whole, 0, places[0])]
        found = []
        for index, (node, m) in enumerate(zip(thing.asset.nodes, places, strict=True)):
            if node.primitives and node.skin is None:
                parts = [_corners((p.p_m, p.triangles), m) for p in node.primitives]
                found.append(self._obstacle((thing.name,), np.concatenate(parts), index, m))
        return found

    def _overlapped(
        self, vehicle: Sphere | OrientedBox, obstacle: _Obstacle, most: int
    ) -> npt.NDArray[np.intp]:
        """Return triangles of an obstacle that a vehicle overlaps."""
        request = self._fcl.CollisionRequest(num_max_contacts=most, enable_contact=True)
        result = self._fcl.CollisionResult()
        self._fcl.collide(obstacle.model, self._vehicle.of(vehicle), request, result)
        return np.array([contact.b1 for contact in result.contacts], np.intp)

    def _with_actor(self, name: str, vehicle: Sphere | OrientedBox, actor: Posed) -> list[Overlap]:
        if len(actor.capsules):
            return _with_cones(name, vehicle, actor)
        box = box_at(actor.T_world_body, actor.half_size_m)
        if isinstance(vehicle, OrientedBox):
            return self._box_in_box(name, vehicle, actor.name, box)
        depth, normal = vehicle.leave_box(box)
        surface = vehicle.centre - (vehicle.radius - depth[0]) * normal[0]
        if not depth[0] > 0.0:
            return []
        return [Overlap(name, actor.name, surface, normal[0], float(depth[0]))]

    def _box_in_box(
        self, name: str, vehicle: OrientedBox, other: str, box: OrientedBox
    ) -> list[Overlap]:
        request = self._fcl.CollisionRequest(num_max_contacts=8, enable_contact=True)
        result = self._fcl.CollisionResult()
        if not self._fcl.collide(self._other.of(box), self._vehicle.of(vehicle), request, result):
            return []
        depth = max(contact.penetration_depth for contact in result.contacts)
        normal = result.contacts[0].normal
        # fcl's points lie half way between the two surfaces.
        middle = np.mean([contact.pos for contact in result.contacts], axis=0)
        return [Overlap(name, other, middle + 0.5 * depth * normal, normal, float(depth))]


def _corners(
    part: tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32]], m: FloatArray
) -> FloatArray:
    """Return triangles (k, 3, 3) of points and indices, moved by (4, 4)."""
    p_m, triangles = part
    return np.asarray((p_m @ m[:3, :3].T + m[:3, 3])[triangles])


def box_at(T_world_body: Transform, half_size_m: Sequence[float]) -> OrientedBox:
    """Return a vehicle's box at its pose."""
    return OrientedBox(
        T_world_body.p_m, T_world_body.rotation().T, np.asarray(half_size_m, np.float64)
    )


def _with_cones(name: str, vehicle: Sphere | OrientedBox, actor: Posed) -> list[Overlap]:
    """Return the deepest contact with a human."""
    depths, normals, points = vehicle.leave_cones(actor.capsules)
    deepest = int(depths.argmax())
    if depths[deepest] <= 0.0:
        return []
    return [Overlap(name, actor.name, points[deepest], normals[deepest], float(depths[deepest]))]


def _with_mesh(
    name: str, vehicle: Sphere | OrientedBox, obstacle: _Obstacle, overlapped: npt.NDArray[np.intp]
) -> list[Overlap]:
    """Return contacts with a mesh.

    The deepest triangle, then the deepest of those that leaving it would not clear.
    """
    m = obstacle.world_from_own
    corners = obstacle.corners[overlapped] @ m[:3, :3].T + m[:3, 3]
    owner = obstacle.owner[overlapped]
    found: list[Overlap] = []
    while len(corners):
        depths, normals = vehicle.leave_triangles(corners)
        deepest = int(depths.argmax())
        depth = float(depths[deepest])
        normal = normals[deepest]
        if depth <= 0.0:
            break
        cleared = vehicle.moved(depth * normal).leave_triangles(corners)[0] <= _TOUCHING_M
        cleared[deepest] = True
        same = cleared & (owner == owner[deepest]) & (normals @ normal > _ALIKE)
        p = _touched(vehicle, corners[same], depth, normal)
        found.append(Overlap(name, obstacle.names[int(owner[deepest])], p, normal, depth))
        corners = corners[~cleared]
        owner = owner[~cleared]
    return found


def _touched(
    vehicle: Sphere | OrientedBox, corners: FloatArray, depth: float, normal: FloatArray
) -> FloatArray:
    """Return the point on the surface.

    Below a sphere's centre, or in the middle of the part within a box.
    """
    if isinstance(vehicle, Sphere):
        return vehicle.centre - (vehicle.radius - depth) * normal
    faces = unit_rows(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))
    flush = np.abs(faces @ normal) > _ALIKE
    middles, areas = patches(vehicle, corners[flush] if flush.any() else corners)
    weights = areas / areas.sum() if areas.sum() > 0.0 else np.full(len(areas), 1.0 / len(areas))
    middle: FloatArray = weights @ middles
    reach = np.abs(vehicle.axes @ normal) @ vehicle.half
    return middle + ((vehicle.centre - middle) @ normal - reach + depth) * normal
