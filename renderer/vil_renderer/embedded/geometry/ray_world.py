"""Rays in a scene: first hits and occlusion.

Embree for meshes, closed forms for humans; no OpenGL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Asset, Float32Array
from vil_renderer.embedded.geometry.ray_parts import Part, Parts, RigidParts
from vil_renderer.embedded.geometry.surfaces import (
    Capsules,
    IndexArray,
    Struck,
    TriangleSurface,
    dots,
    drawn_mesh,
    joined,
    solid_mesh,
    unit_rows,
)
from vil_renderer.embedded.posed_models import PosedGroup, PosedModels
from vil_renderer.embedded.scene import Posed, Scene, SceneObject, collider_parts

NOTHING: Final[frozenset[str]] = frozenset()
_CLEARANCE_M: Final = 0.002


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """First hits of n rays.

    Attributes:
        distance_m: float32 (n,), in lengths of the direction, infinity where nothing was hit.
        normal_world: float32 (n, 3), unit, on the side the ray came from; 0 where nothing was hit.
        semantic, instance: uint16 (n,), 0 where nothing was hit.
        owner: (n,), index into :attr:`RayWorld.names`, -1 = nothing.
        part: (n,), index into :attr:`RayWorld.parts`, -1 = nothing.
    """

    distance_m: Float32Array
    normal_world: Float32Array
    semantic: npt.NDArray[np.uint16]
    instance: npt.NDArray[np.uint16]
    owner: IndexArray
    part: IndexArray


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """First hits before they are looked up: reach (n,), part, primitive, u, v."""

    reach: Float32Array
    part: IndexArray
    primitive: IndexArray
    u: Float32Array
    v: Float32Array

    def within(self, part: int) -> tuple[npt.NDArray[np.intp], Struck]:
        """Return the rays that hit one part, and how."""
        rays = np.flatnonzero(self.part == part)
        return rays, (self.reach[rays], self.primitive[rays], self.u[rays], self.v[rays])


@dataclass(frozen=True, slots=True, eq=False)
class _Instant:
    """Everything that rays can hit, in its present place.

    Attributes:
        semantic, instance: by owner; the last one answers owner -1: nothing was hit.
    """

    parts: Parts
    semantic: npt.NDArray[np.uint16]
    instance: npt.NDArray[np.uint16]

    def near(
        self, o: Float32Array, d: Float32Array, reach: Float32Array, hide: frozenset[str]
    ) -> list[int]:
        """Return indices of the visible moving parts that some ray may meet."""
        met = np.ones(len(self.parts), bool)
        if len(o) < len(self.parts):  # else each part asks all rays anyway
            met[:] = False
            for ray in range(len(o)):
                one = slice(ray, ray + 1)
                met |= _meets(self.parts.centre, self.parts.radius, o[one], d[one], reach[one])
        met[0] = False
        return [
            index for index in np.flatnonzero(met).tolist() if self.parts[index].name not in hide
        ]

    def rays_of(
        self, part: int, o: Float32Array, d: Float32Array, reach: Float32Array
    ) -> BoolArray:
        """Return which rays may meet a part."""
        one = slice(part, part + 1)
        return _meets(self.parts.centre[one], self.parts.radius[one], o, d, reach)


class RayWorld:
    """A scene that rays can be cast into.

    Static objects are one Embree scene; a rigid moving object is one per node of its model, in the
    node's axes (the ray is moved, not the mesh); a human is made of capsules. Movable objects of
    the scene rest at their own place while no actor of their name is there.

    Args:
        scene: the scene. drawn: False = solid objects and box colliders, True = the drawn shapes.

    Raises:
        RendererError: embreex is not installed.
    """

    def __init__(self, scene: Scene, *, drawn: bool = False) -> None:
        self.scene = scene
        self._nodes: WeakKeyDictionary[Asset, tuple[tuple[int, TriangleSurface], ...]] = (
            WeakKeyDictionary()
        )
        self.still, owner = drawn_mesh(scene) if drawn else solid_mesh(scene)
        self._still_owner = np.append(owner, -1).astype(np.int32)
        self._boxes = {
            thing.name: TriangleSurface(*part)
            for thing in scene.objects
            if thing.movable and thing.solid and thing.collider == "box" and not drawn
            for part in collider_parts(thing)
        }
        self._at_rest = {
            thing.name: self._object_parts(thing, index)
            for index, thing in enumerate(scene.objects)
            if thing.movable and (thing.solid or drawn)
        }
        self._static = Part.of("", -1, -1, self.still, np.eye(4))
        self._semantic = np.array([thing.semantic for thing in scene.objects], np.uint16)
        self._instances = np.array([thing.instance for thing in scene.objects], np.uint16)
        self._passable = {o.name for o in scene.objects if o.movable} - set(self._at_rest)
        self.update(())

    def update(self, posed: Sequence[Posed]) -> None:
        """Move everything to its place at an instant.

        Args:
            posed: the actors of this instant; others are absent.
        """
        self._posed = posed if isinstance(posed, PosedModels) else PosedModels.of(posed)
        self._instant: _Instant | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scene's objects and then of the actors."""
        return (*(thing.name for thing in self.scene.objects), *self._posed.rows)

    @property
    def parts(self) -> Sequence[Part]:
        """Surfaces that rays hit: first all static ones, then each moving one."""
        return self._now().parts

    def _now(self) -> _Instant:
        """Return the parts of the last :meth:`update`.

        Computed on the first ray, since most pictures need none.
        """
        if self._instant is None:
            groups = self._posed.groups
            nothing = np.zeros(1, np.uint16)
            self._instant = _Instant(
                self.parts_at(self._posed),
                np.concatenate(
                    [self._semantic, *((g.ids >> 16).astype(np.uint16) for g in groups), nothing]
                ),
                np.concatenate(
                    [self._instances, *(g.ids.astype(np.uint16) for g in groups), nothing]
                ),
            )
        return self._instant

    def parts_at(self, posed: Sequence[Posed]) -> Parts:
        """Return :attr:`parts` with these actors; static ones come first."""
        models = posed if isinstance(posed, PosedModels) else PosedModels.of(posed)
        single = [self._static]
        for name, still_parts in self._at_rest.items():
            if name not in models.rows:
                single += still_parts
        rigid: list[RigidParts] = []
        first = len(self.scene.objects)
        for group in models.groups:
            owner = np.arange(first, first + len(group.names))
            first += len(group.names)
            if self._boxes or self._passable:
                boxed = [i for i, name in enumerate(group.names) if name in self._boxes]
                single += [self._box_part(group, i, int(owner[i])) for i in boxed]
                drawn = np.array(
                    [name not in self._boxes and name not in self._passable for name in group.names]
                )
                group = group.only(drawn)
                owner = owner[drawn]
            single += [
                Part.of(group.names[i], -1, int(owner[i]), Capsules(capsules), np.eye(4))
                for i, capsules in enumerate(group.capsules)
                if len(capsules)
            ]
            meshes = self._node_meshes(group.asset)
            if meshes and group.names:
                rigid.append(RigidParts.of(group, owner, meshes))
        return Parts(single, rigid)

    def cast(
        self,
        origins_m: npt.NDArray[np.floating],
        directions: npt.NDArray[np.floating],
        far_m: float = np.inf,
        hide: frozenset[str] = NOTHING,
        *,
        smooth: bool = False,
    ) -> Hits:
        """Return the first hits of rays.

        Args:
            origins_m: (n, 3), world.
            directions: (n, 3), world; where they are not of unit length, distances (``far_m`` too)
                count in their lengths: with directions of z = 1 along an optical axis they are
                z-depths.
            far_m: nothing is hit beyond.
            hide: actors and movable objects that the rays pass through.
            smooth: normals interpolated between vertices, as they are drawn, in place of the
                triangles' own.
        """
        o = np.ascontiguousarray(origins_m, np.float32)
        d = np.ascontiguousarray(directions, np.float32)
        found = self._first(o, d, far_m, hide)
        distance = found.reach
        if np.isfinite(far_m):
            distance[found.part < 0] = np.inf
        owner, normal = self._lookup(found, o, d, smooth)
        now = self._now()
        return Hits(
            distance, normal, now.semantic.take(owner), now.instance.take(owner), owner, found.part
        )

    def occluded(
        self,
        origins_m: npt.NDArray[np.floating],
        targets_m: npt.NDArray[np.floating],
        hide: frozenset[str] = NOTHING,
    ) -> BoolArray:
        """Return whether something lies between points (n, 3) and (n, 3), world.

        2 mm at both ends do not count.
        """
        start, way = _between(origins_m, targets_m)
        reach = np.ones(len(start), np.float32)
        blocked = self.still.blocks(start, way, reach.copy())
        now = self._now()
        for index in now.near(start, way, reach, hide):
            part = now.parts[index]
            rays = np.flatnonzero(~blocked & now.rays_of(index, start, way, reach))
            if len(rays):
                blocked[rays] = part.shape.blocks(
                    *part.local(start[rays], way[rays]), np.ones(len(rays), np.float32)
                )
        return blocked

    def _first(
        self, o: Float32Array, d: Float32Array, far_m: float, hide: frozenset[str]
    ) -> _Found:
        reach, primitive, u, v = self.still.strike(o, d, np.full(len(o), far_m, np.float32))
        which = np.minimum(primitive, 0)
        now = self._now()
        for index in now.near(o, d, reach, hide):
            part = now.parts[index]
            rays = np.flatnonzero(now.rays_of(index, o, d, reach))
            if not len(rays):
                continue
            struck = part.shape.strike(*part.local(o[rays], d[rays]), reach[rays])
            hit = struck[1] >= 0
            rays = rays[hit]
            reach[rays], primitive[rays], u[rays], v[rays] = (a[hit] for a in struck)
            which[rays] = index
        return _Found(reach, which, primitive, u, v)

    def _lookup(
        self, found: _Found, o: Float32Array, d: Float32Array, smooth: bool
    ) -> tuple[IndexArray, Float32Array]:
        """Return owners and normals of hits."""
        # Moving parts have primitives of their own, which the tables of static objects do not know.
        parts = self.parts
        primitive = found.primitive
        hits_of = np.zeros(0, np.intp)
        if len(parts) > 1:
            primitive = np.where(found.part > 0, -1, found.primitive)
            hits_of = np.bincount(found.part[found.part > 0])
        normal = self.still.normals((found.reach, primitive, found.u, found.v), d, smooth=smooth)
        owner = self._still_owner.take(primitive)
        for index in np.flatnonzero(hits_of).tolist():
            part, (rays, struck) = parts[index], found.within(index)
            owner[rays] = part.owner
            if isinstance(part.shape, Capsules):
                normal[rays] = part.shape.normals(struck[1], o[rays] + struck[0][:, None] * d[rays])
            else:
                local = part.shape.normals(struck, part.local(o[rays], d[rays])[1], smooth=smooth)
                normal[rays] = unit_rows(local @ np.linalg.inv(part.world_from_part[:3, :3]))
        return owner, normal

    def _object_parts(self, thing: SceneObject, owner: int) -> list[Part]:
        if thing.name in self._boxes:
            return [Part.of(thing.name, -1, owner, self._boxes[thing.name], thing.world_from_asset)]
        places = thing.world_from_asset @ thing.asset.asset_from_node()
        return [
            Part.of(thing.name, node, owner, mesh, places[node])
            for node, mesh in self._node_meshes(thing.asset)
        ]

    def _box_part(self, group: PosedGroup, model: int, owner: int) -> Part:
        """Return the box around a model whose collider is one."""
        place = group.world_from_node[model, 0] @ np.linalg.inv(group.asset.asset_from_node()[0])
        return Part.of(group.names[model], -1, owner, self._boxes[group.names[model]], place)

    def _node_meshes(self, asset: Asset) -> tuple[tuple[int, TriangleSurface], ...]:
        """Return meshes of the rigid nodes, built when the asset is first seen."""
        if asset not in self._nodes:
            meshes = []
            for index, node in enumerate(asset.nodes):
                if node.primitives and node.skin is None:
                    parts = [(p.p_m, p.triangles, p.normal) for p in node.primitives]
                    meshes.append((index, joined(parts)))
            self._nodes[asset] = tuple(meshes)
        return self._nodes[asset]


def hides(
    surface: TriangleSurface, origins_m: npt.NDArray[np.floating], targets_m: FloatArray
) -> BoolArray:
    """Return whether a surface in world axes lies between points (n, 3) and (n, 3), as
    :meth:`RayWorld.occluded`.
    """
    start, way = _between(origins_m, targets_m)
    return surface.blocks(start, way, np.ones(len(start), np.float32))


def _between(
    origins_m: npt.NDArray[np.floating], targets_m: npt.NDArray[np.floating]
) -> tuple[Float32Array, Float32Array]:
    """Return starts and ways (n, 3) of rays between points (n, 3) and (n, 3), without 2 mm at
    both ends.
    """
    o = np.asarray(origins_m, np.float64)
    d = np.asarray(targets_m, np.float64) - origins_m
    step = _CLEARANCE_M / np.maximum(np.linalg.norm(d, axis=1), 2.0 * _CLEARANCE_M)[:, None]
    return (o + step * d).astype(np.float32), ((1.0 - 2.0 * step) * d).astype(np.float32)


def _meets(
    centre: Float32Array,
    radius: Float32Array,
    o: Float32Array,
    d: Float32Array,
    reach: Float32Array,
) -> BoolArray:
    """Return which rays enter a ball within their reach.

    One ball (1, 3) and n rays, or k balls and one ray (1, 3).
    """
    to_centre = centre - o
    along = dots(to_centre, d)
    squared = dots(d, d)
    aside = dots(to_centre, to_centre) - along * along / squared
    margin = np.float32(1.0001) * radius + np.float32(1e-4)
    in_lengths = margin / np.sqrt(squared)
    nearest = along / squared
    return np.asarray(
        (aside <= margin * margin) & (nearest >= -in_lengths) & (nearest - in_lengths <= reach)
    )
