"""Depth, normals, ids and flow without OpenGL.

An oracle for the rasteriser, and a substitute without OpenGL.

A ray goes through the centre of every pixel, so edges are never blended. It differs from the
rasteriser in that humans are capsules (without flow), masked and blended materials are solid, and
both sides of a triangle are seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.geometry.ray_world import NOTHING, Hits, RayWorld
from vil_renderer.embedded.geometry.surfaces import Capsules
from vil_renderer.embedded.optics.camera import NEAR_M
from vil_renderer.embedded.optics.lens import pixel_rays, project
from vil_renderer.embedded.scene import Posed, Scene

_FAR_M: Final = 100.0
_NOWHERE_M: Final = 1e9
Previous = tuple[Transform, Sequence[Posed]]
"""Camera pose and actors of the camera's previous picture."""


@dataclass(frozen=True, slots=True, eq=False)
class AuxPictures:
    """Measurements of a camera, as :class:`vil_bridge.core.types.Modality` says.

    (h, w), top row first.

    Attributes:
        depth32: float32, z-depth in metres, 100 = nothing within 100 m.
        normals: float32 (h, w, 3), unit, optical axes, as interpolated between vertices; 0 = no
            surface.
        semantic, instance: uint16.
        flow: float32 (h, w, 2), pixels, 0 where ``valid`` is False.
        valid: bool.
    """

    depth32: Float32Array
    normals: Float32Array
    semantic: npt.NDArray[np.uint16]
    instance: npt.NDArray[np.uint16]
    flow: Float32Array
    valid: BoolArray


class RaycastRenderer:
    """Renderer of what a camera measures, except colours.

    Args:
        scene: the scene, of which all that is drawn is seen, solid or not.

    Raises:
        RendererError: embreex is not installed.
    """

    def __init__(self, scene: Scene) -> None:
        self._world = RayWorld(scene, drawn=True)

    def render_aux(
        self,
        camera: CameraModel,
        T_world_camera: Transform,
        posed: Sequence[Posed] = (),
        previous: Previous | None = None,
        hide: frozenset[str] = NOTHING,
    ) -> AuxPictures:
        """Render one picture of each modality.

        Args:
            camera: its lens bends the rays.
            T_world_camera: optical axes.
            posed: the actors.
            previous: of the same camera; None = the flow is not known.
            hide: actors that are not drawn.
        """
        self._world.update(posed)
        rays = pixel_rays(camera)
        seen = ~np.isnan(rays[:, :1])
        way = np.where(seen, rays, (0.0, 0.0, 1.0)) @ T_world_camera.rotation().T
        # What the lens does not show looks from where nothing is.
        hits = self._world.cast(
            np.where(seen, T_world_camera.p_m, _NOWHERE_M), way, hide=hide, smooth=True
        )
        flow, valid = self._flow(camera, T_world_camera, rays, hits, previous)
        size = camera.height_px, camera.width_px
        normals = (hits.normal_world @ T_world_camera.rotation()).astype(np.float32)
        return AuxPictures(
            np.minimum(hits.distance_m, np.float32(_FAR_M)).reshape(size),
            normals.reshape(*size, 3),
            hits.semantic.reshape(size),
            hits.instance.reshape(size),
            flow.astype(np.float32).reshape(*size, 2),
            valid.reshape(size),
        )

    def _flow(
        self,
        camera: CameraModel,
        T_world_camera: Transform,
        rays: FloatArray,
        hits: Hits,
        previous: Previous | None,
    ) -> tuple[FloatArray, BoolArray]:
        """Return the previous pixel of each surface point.

        Moved back with its part, seen by the previous camera.
        """
        flow = np.zeros((len(rays), 2))
        valid = np.zeros(len(rays), bool)
        if previous is None:
            return flow, valid
        T_before, posed_before = previous
        before = {(part.name, part.node): part for part in self._world.parts_at(posed_before)}
        for index, part in enumerate(self._world.parts):
            was = before.get((part.name, part.node))
            pixels = np.flatnonzero(hits.part == index)
            if was is None or isinstance(part.shape, Capsules) or not len(pixels):
                continue
            p_world = T_world_camera.apply(
                hits.distance_m[pixels, None].astype(np.float64) * rays[pixels]
            )
            back = was.world_from_part @ np.linalg.inv(part.world_from_part)
            p_camera = T_before.inverse().apply(p_world @ back[:3, :3].T + back[:3, 3])
            ahead = p_camera[:, 2] > NEAR_M
            pixels = pixels[ahead]
            p_camera = p_camera[ahead]
            now = np.stack((pixels % camera.width_px, pixels // camera.width_px), axis=1)
            flow[pixels] = now - project(camera, p_camera)
            valid[pixels] = True
        return flow, valid
