"""Static part of a scene: its mesh, the light on it, and the world for rays.

Objects can be taken out of it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.engine.light import StaticLight
from vil_renderer.embedded.engine.vertices import static_mesh
from vil_renderer.embedded.geometry.ray_world import RayWorld, hides
from vil_renderer.embedded.geometry.sky_cover import SkyCover
from vil_renderer.embedded.geometry.surfaces import TriangleSurface, solid_mesh
from vil_renderer.embedded.lighting.ambient_occlusion import REACH_M, bake_ao
from vil_renderer.embedded.lighting.baked.baked_light import split
from vil_renderer.embedded.lighting.baked.static_light import BakedStaticLight
from vil_renderer.embedded.lighting.baked.store import stored_light
from vil_renderer.embedded.scene import Scene

logger = logging.getLogger(__name__)

_EVERYWHERE: Final = np.True_
_NOT_YET: Final = SkyCover(np.zeros((0, 0), np.float32), np.zeros(3), np.zeros(3), 1.0)


class StaticScene:
    """Static objects of a scene.

    Args:
        scene: the scene.
        baked: light over all bounces, from the cache or worked out now.

    Attributes:
        scene: without what was taken out. mesh: of all objects, those that were taken out included.
        light: on the mesh. rays: the scene to cast rays into, None without Embree.
    """

    light: StaticLight | BakedStaticLight
    _sky_cover: SkyCover | None

    def __init__(self, scene: Scene, *, baked: bool = False) -> None:
        self.scene = scene
        self.mesh = static_mesh(scene)
        self._baked = stored_light(scene, self.mesh) if baked else None
        if self._baked is not None:
            self.mesh = split(self.mesh, self._baked)
        self._ambient_share = np.ones(len(self.mesh.vertices), np.float32)
        self._build(np.full(len(self.mesh.vertices), _EVERYWHERE))

    def take_out(self, names: frozenset[str]) -> None:
        """Remove objects: they are no longer drawn and cast no shadow.

        Only vertices near them are studied again.
        """
        chunks = self.mesh.chunks
        gone = np.array([name in names for name in chunks.name], np.bool_)
        chunks.gone[gone] = True
        self.scene = replace(
            self.scene, objects=tuple(o for o in self.scene.objects if o.name not in names)
        )
        self._build(self._near(gone))

    @property
    def sky_cover(self) -> SkyCover | None:
        """Roofs, worked out when they are first needed.

        None without Embree: it then rains everywhere.
        """
        if self.rays is None:
            return None
        if self._sky_cover is _NOT_YET:
            self._sky_cover = SkyCover.of(self.scene)
        return self._sky_cover

    def _build(self, changed: BoolArray) -> None:
        """Build rays and light.

        Ambient occlusion by all solid objects where it has changed, (n,).
        """
        self._sky_cover = _NOT_YET
        self.rays = _ray_world(self.scene)
        if self._baked is not None:
            self.light = BakedStaticLight(self._baked, self.mesh)
            return
        occluded = None
        if self.rays is not None:
            changed = changed & self._visible()
            vertices = self.mesh.vertices[changed]
            self._ambient_share[changed] = bake_ao(vertices["p"], vertices["normal"], self.rays)
            occluded = _Shadows(self.scene, self.rays).occluded
        self.light = StaticLight(self.mesh, self._ambient_share, occluded)

    def _visible(self) -> BoolArray:
        """Return which vertices are ever seen, (n,): not those of what replaces splats."""
        chunks = self.mesh.chunks
        visible = np.ones(len(self.mesh.vertices), np.bool_)
        for start, stop in zip(chunks.start[chunks.proxy], chunks.stop[chunks.proxy], strict=True):
            visible[self.mesh.triangles[start:stop].reshape(-1)] = False
        return visible

    def _near(self, chunks: BoolArray) -> BoolArray:
        """Return which vertices some chunks can take light from, (n,)."""
        p_m = self.mesh.vertices["p"]
        near = np.zeros(len(p_m), np.bool_)
        for start, stop in zip(
            self.mesh.chunks.start[chunks], self.mesh.chunks.stop[chunks], strict=True
        ):
            own = p_m[self.mesh.triangles[start:stop].reshape(-1)]
            low = own.min(axis=0) - REACH_M
            high = own.max(axis=0) + REACH_M
            near |= ((p_m >= low) & (p_m <= high)).all(axis=1)
        return near


class _Shadows:
    """Static solid objects that cast shadows: light comes in through the others.

    Gathered when light first asks.
    """

    def __init__(self, scene: Scene, rays: RayWorld) -> None:
        self._scene = scene
        self._rays = rays

    def occluded(self, origins_m: npt.NDArray[np.floating], targets_m: FloatArray) -> BoolArray:
        """Return whether one lies between points (n, 3) and (n, 3)."""
        return hides(self._surface, origins_m, targets_m)

    @cached_property
    def _surface(self) -> TriangleSurface:
        solid = [thing for thing in self._scene.objects if not thing.movable and thing.solid]
        casters = tuple(thing for thing in solid if thing.casts_shadow)
        if len(casters) == len(solid):
            return self._rays.still
        return solid_mesh(replace(self._scene, objects=casters))[0]


def _ray_world(scene: Scene) -> RayWorld | None:
    """Return the scene for rays.

    None without Embree, which costs shade and sensors, not pictures.
    """
    try:
        return RayWorld(scene)
    except RendererError as exc:
        logger.warning("no ambient occlusion, no shade of lamps, no beacons, no range: %s", exc)
        return None
