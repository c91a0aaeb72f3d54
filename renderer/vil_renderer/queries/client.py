"""A scene that answers questions, drawn by the embedded renderer in a process of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.scene_queries import QueriedObject, RayHits
from vil_bridge.core.types import FloatArray, Modality, RenderedImage, View, WorldSnapshot
from vil_renderer.queries.config import EmbeddedQueriesConfig
from vil_renderer.queries.messages import (
    MOST_BYTES,
    MOST_PIXELS_ALONG,
    MOST_RAYS,
    MOST_VIEWS,
    Cast,
    Images,
    Instances,
    Load,
    Objects,
    decode_info,
    decode_instances,
    decode_objects,
    encode,
)
from vil_renderer.queries.process import SceneProcess

_BYTES_PER_PIXEL: Final = {
    Modality.RGB: 3,
    Modality.GRAY: 1,
    Modality.RGBA: 4,
    Modality.DEPTH: 2,
    Modality.DEPTH32: 4,
    Modality.NORMALS: 6,
    Modality.SEMANTIC: 2,
    Modality.INSTANCE: 2,
    Modality.FLOW: 9,
}


class EmbeddedSceneQueries:
    """Implementation of :class:`~vil_bridge.core.scene_queries.SceneQueries`.

    Args:
        name: for messages.
        config: what to draw, and how well.

    Attributes:
        process: the scene's process, with its counters.
    """

    def __init__(self, name: str, config: EmbeddedQueriesConfig) -> None:
        self.name = name
        self.process = SceneProcess(Load(config.scene, config.profile, config.device, config.depth_reach_m))
        self._encoded: tuple[WorldSnapshot, msgspec.Raw] | None = None

    @property
    def info(self) -> Mapping[str, object]:
        """The scene's name and the renderer's strings; empty while no process runs."""
        return {} if self.process.info is None else decode_info(self.process.info)

    async def open(self) -> None:
        """Start the process and wait until it can draw.

        Raises:
            RendererError: it cannot: no such scene, or no OpenGL.
        """
        await self.objects()

    async def images(self, views: Sequence[View], snapshot: WorldSnapshot) -> tuple[RenderedImage, ...]:
        """Return pictures of the due views, in their order, all of the snapshot's instant.

        Raises:
            RendererError: they are too many or too large, or the process cannot draw them.
        """
        due = tuple(view for view in views if view.due)
        _check_views(due)
        if not due:
            return ()
        answer = await self.process.ask(Images(due, self._snapshot(snapshot)))
        arrays = iter(answer.arrays)
        return tuple(
            RenderedImage(view, next(arrays), next(arrays) if view.modality is Modality.FLOW else None) for view in due
        )

    async def cast(
        self,
        origins_m: FloatArray,
        directions: FloatArray,
        reach_m: float,
        snapshot: WorldSnapshot,
        hide: Sequence[str] = (),
    ) -> RayHits:
        """Return the first hits of rays (n, 3), actors included.

        Raises:
            RendererError: the rays are too many or not finite, or Embree is not installed.
        """
        rays = _checked_rays(origins_m), _checked_rays(directions)
        if rays[0].shape != rays[1].shape:
            raise RendererError(f"{len(rays[0])} origins and {len(rays[1])} directions. Give one direction for each")
        if not reach_m > 0.0:
            raise RendererError(f"rays reach {reach_m} m. Give a positive length")
        answer = await self.process.ask(Cast(reach_m, tuple(hide), self._snapshot(snapshot)), rays)
        ranges, instance, normal = answer.arrays
        return RayHits(ranges.astype(np.float64), instance.astype(np.uint32), normal.astype(np.float64))

    async def objects(self, t_ns: int = 0) -> Mapping[str, QueriedObject]:
        """Return the scene's objects by name at an instant, without the actors of the world.

        Raises:
            RendererError: the process ended.
        """
        answer = await self.process.ask(Objects(t_ns))
        return {
            row.name: QueriedObject(
                row.name, Transform.of(row.p_m, row.q_xyzw), row.size_m, row.centre_m, row.instance, row.movable
            )
            for row in decode_objects(answer.value)
        }

    async def instances(self) -> Mapping[str, int]:
        """Return the instance ids of the scene's objects and of every actor drawn so far, by name.

        Raises:
            RendererError: the process ended.
        """
        return decode_instances((await self.process.ask(Instances())).value)

    async def close(self) -> None:
        """End the process and release its memory; may be called twice."""
        self.process.close()

    def _snapshot(self, snapshot: WorldSnapshot) -> msgspec.Raw:
        """Return a snapshot as bytes; several questions often concern the same one."""
        if self._encoded is None or self._encoded[0] is not snapshot:
            self._encoded = snapshot, msgspec.Raw(encode(snapshot))
        return self._encoded[1]


def _check_views(views: Sequence[View]) -> None:
    """Refuse views that take too much memory or have no pose.

    Raises:
        RendererError: the message names the bound.
    """
    if len(views) > MOST_VIEWS:
        raise RendererError(f"{len(views)} pictures in a request. Ask for at most {MOST_VIEWS}")
    total = 0
    for view in views:
        camera, T = view.camera, view.T_world_camera
        if not (0 < camera.width_px <= MOST_PIXELS_ALONG and 0 < camera.height_px <= MOST_PIXELS_ALONG):
            size = f"{camera.width_px}x{camera.height_px}"
            raise RendererError(f"{camera.name}: {size} pixels. Ask for 1x1 to {MOST_PIXELS_ALONG}x{MOST_PIXELS_ALONG}")
        if not (np.isfinite(T.p_m).all() and np.isfinite(T.q_xyzw).all() and T.q_xyzw.any()):
            raise RendererError(f"{camera.name}: the camera's pose is not finite. Give numbers")
        if not all(map(math.isfinite, camera.intrinsics_px)):
            raise RendererError(f"{camera.name}: the focal length is not finite. Choose another field of view")
        total += camera.width_px * camera.height_px * _BYTES_PER_PIXEL[view.modality]
    if total > MOST_BYTES:
        raise RendererError(f"pictures of {total >> 20} MiB in a request. Ask for at most {MOST_BYTES >> 20} MiB")


def _checked_rays(vectors: FloatArray) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return vectors (n, 3) as float32.

    Raises:
        RendererError: they are too many, of another shape, or not finite.
    """
    if vectors.ndim != 2 or vectors.shape[1] != 3:
        raise RendererError(f"rays of shape {vectors.shape}. Give (n, 3)")
    if len(vectors) > MOST_RAYS:
        raise RendererError(f"{len(vectors)} rays in a request. Ask for at most {MOST_RAYS}")
    rays = np.ascontiguousarray(vectors, np.float32)
    if not np.isfinite(rays).all():
        raise RendererError("rays that are not finite. Give numbers")
    return rays
