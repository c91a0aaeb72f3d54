"""Occupancy maps: depth pictures in, voxels out, in threads that no picture waits for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray, ImageArray
from vil_bridge.interfaces.bulkhead import Bulkhead
from vil_bridge.interfaces.ports import RAW
from vil_bridge.outputs.base import depth_m
from vil_bridge.outputs.sink_thread import SinkThread
from vil_bridge.runtime.pacing import FrameRateLimiter
from vil_bridge.runtime.supervisor import Status
from vil_bridge.services.maps.config import OccupancyConfig
from vil_bridge.services.maps.view import MapView
from vil_bridge.services.service import HostCamera
from vil_bridge.world.occupancy.live_map import LiveMap
from vil_bridge.world.occupancy.measurement import depth_points, pixel_rays

_DEPTHS: Final = ("depth32", "depth")


class MapRunner:
    """A map and what fills it.

    One thread for each camera, with one slot in which the newest picture wins.

    The pictures are those that the renderer drew, before any warp, with the pose that they were
    drawn for.

    Attributes:
        map: takes the pictures. status: counts ``sent`` (pictures taken), ``superseded``,
            ``too_often`` and ``failed``.
    """

    def __init__(
        self, name: str, config: OccupancyConfig, cameras: Mapping[str, HostCamera]
    ) -> None:
        self.config: Final = config
        self.map: Final = make_live_map(config)
        self.status: Final = Status(name)
        self._insert_s = 0.0
        self._bulkhead = Bulkhead(f"map {name}", self._on_failure)
        for camera in config.cameras:
            self._connect(name, cameras[camera])

    def view(self) -> MapView:
        """Return the map as people read it; any thread."""
        config = self.config
        counters = self.status.counters
        known, occupied = self.map.counts
        return MapView(
            cameras=config.cameras,
            min_m=config.min_m,
            max_m=config.max_m,
            resolution_m=config.resolution_m,
            number=self.map.number,
            t_ns=self.map.t_ns,
            free=known - occupied,
            occupied=occupied,
            pictures=counters["sent"] - counters["too_often"],
            superseded=counters["superseded"],
            failed=counters["failed"],
            insert_ms=1e3 * self._insert_s,
            problem=self.status.report().reason,
        )

    def _connect(self, name: str, camera: HostCamera) -> None:
        """Let a camera's depth pictures come."""
        insert = DepthInserter(self.map, camera.model, self.config.rate_hz)

        def take(header: FrameHeader, pixels: ImageArray) -> None:
            begun_s = time.perf_counter()
            if insert(header, pixels):
                self._insert_s += 0.1 * (time.perf_counter() - begun_s - self._insert_s)
                self.status.running()
            else:
                self.status.counters["too_often"] += 1

        kinds = (depth_kind(camera.modalities),)
        sink = self._bulkhead.owned(
            lambda: SinkThread(f"map-{name}-{camera.model.name}", kinds, take, self.status)
        )
        camera.pictures.add(self._bulkhead.sink(sink))

    def _on_failure(self, error: BaseException) -> None:
        self.status.waiting(f"a bug ended it: {error}. Report it with the traceback in the log")


class DepthInserter:
    """Insertion of one camera's depth pictures into a map, at an even rate.

    Args:
        found: the map.
        model: of the camera.
        rate_hz: pictures per second at most.
    """

    def __init__(self, found: LiveMap, model: CameraModel, rate_hz: float) -> None:
        self._map = found
        self._model = model
        self._limiter = FrameRateLimiter(rate_hz)
        self._rays: FloatArray | None = None

    def __call__(self, header: FrameHeader, pixels: ImageArray) -> bool:
        """Insert a picture as rendered.

        Return False for one that comes too early or shows nothing.
        """
        pose = header.pose_rendered
        t_ns = header.t_render_ns
        if pose is None or t_ns is None or not self._limiter.passes(t_ns):
            return False
        if self._rays is None:
            # Takes a second with a lens, in the thread that has the time.
            self._rays = pixel_rays(self._model)
        T_world_camera = Transform(np.array(pose.p_m), np.array(pose.q_xyzw))
        points_m = depth_points(depth_m(pixels), self._rays, T_world_camera)
        self._map.insert_points(points_m, T_world_camera.p_m, t_ns)
        return True


def depth_kind(modalities: Sequence[str]) -> tuple[str, str]:
    """Return the kind of pictures (modality, variant) that maps take of a camera, the more exact
    depth first.
    """
    return next(depth for depth in _DEPTHS if depth in modalities), RAW


def make_live_map(config: OccupancyConfig) -> LiveMap:
    """Return the empty map of a configuration."""
    return LiveMap(
        config.resolution_m, np.array(config.min_m), np.array(config.max_m), config.range_m
    )
