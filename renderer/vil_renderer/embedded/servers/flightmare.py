"""The embedded renderer behind the Flightmare wire protocol."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

import numpy as np

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import FloatArray, RenderedImage, View, WorldSnapshot
from vil_bridge.optics.event_camera import EventCamera
from vil_renderer.embedded.geometry.collision import box_at
from vil_renderer.embedded.geometry.point_cloud import Box, voxel_cloud, write_ply
from vil_renderer.embedded.lru_cache import LruByteCache
from vil_renderer.embedded.renderer import EmbeddedRenderer
from vil_renderer.embedded.sensors.lidar import planar_fan
from vil_renderer.flightmare.convert_renderer import Fan
from vil_renderer.flightmare.files import PointCloudBox
from vil_renderer.flightmare.messages import EventCameraMessage, EventMessage
from vil_renderer.flightmare.server import FlightmareServerConfig, RenderedRequest, Senses, serve

logger = logging.getLogger(__name__)

CLIENTS_CHOICE: Final = "client"
"""Name of a scene that is the client's to choose, by its number."""
_FIRST_SCENE: Final = "hall"
_MOST_EVENT_CAMERAS: Final = 64


class FlightmareServer:
    """Renderer of the scene in use, as the Flightmare protocol asks for it.

    Args:
        make: a renderer of a scene.
        scene: the scene; :data:`CLIENTS_CHOICE` = by the client's number.

    Raises:
        RendererError: this machine cannot draw, or the scene does not exist.
    """

    def __init__(self, make: Callable[[str], EmbeddedRenderer], scene: str) -> None:
        self._make = make
        self.chosen_by_client = scene == CLIENTS_CHOICE
        self._name = _FIRST_SCENE if self.chosen_by_client else scene
        self.renderer = make(self._name)
        self._event_cameras: LruByteCache[tuple[object, ...], EventCamera]
        self._event_cameras = LruByteCache(_MOST_EVENT_CAMERAS, lambda _: 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.renderer.close()

    def change(self, scene: str) -> None:
        """Load another scene. Raises RendererError."""
        if scene != self._name:
            renderer = self._make(scene)
            self.renderer.close()
            self.renderer = renderer
            self._name = scene

    def draw(self, views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        """Render pictures of all views."""
        return RenderedRequest(
            self.renderer.render(views, snapshot),
            info={"renderer": self.renderer.info["gl_renderer"]},
        )

    def collides(self, vehicle: str, snapshot: WorldSnapshot) -> bool:
        """Return whether a vehicle's box overlaps the scene or another object.

        An undrawn one touches nothing.
        """
        world = self.renderer.collisions(snapshot)
        posed = next((p for p in self.renderer.pose(snapshot) if p.name == vehicle), None)
        return posed is not None and bool(
            world.contacts(vehicle, box_at(posed.T_world_body, posed.half_size_m))
        )

    def ranges(self, fan: Fan, snapshot: WorldSnapshot) -> FloatArray:
        """Return a vehicle's lidar ranges, metres, shape (beams,); nothing without rays."""
        self.renderer.pose(snapshot)
        if self.renderer.rays is None:
            return np.zeros(0)
        hide = frozenset({fan.vehicle})
        return planar_fan(
            self.renderer.rays,
            fan.T_world_sensor,
            fan.start_rad,
            fan.end_rad,
            fan.beams,
            fan.limit_m,
            hide,
        )

    def events(
        self, image: RenderedImage, camera: EventCameraMessage, snapshot: WorldSnapshot
    ) -> Sequence[EventMessage]:
        """Return an event camera's events up to this picture; times are those of the snapshots."""
        character = (
            camera.Cp,
            camera.Cm,
            1e-9 * camera.refractory_period_ns,
            max(camera.sigma_Cp, camera.sigma_Cm),
        )
        key = (image.view.camera.name, *character)
        events = self._event_cameras.get(key, lambda: EventCamera(*character)).events(
            image.pixels, snapshot.t_ns
        )
        rows = zip(
            events.x.tolist(),
            events.y.tolist(),
            events.polarity.tolist(),
            events.t_ns.tolist(),
            strict=True,
        )
        return [
            EventMessage(coord_x=x, coord_y=y, polarity=p, time=float(t)) for x, y, p, t in rows
        ]

    def occupied(self, point_m: FloatArray, radius_m: float) -> bool:
        """Return whether a sphere touches the scene."""
        return self.renderer.collisions().touches_sphere(point_m, radius_m)

    def write_point_cloud(self, box: PointCloudBox, path: Path) -> None:
        """Write the scene's cells in a box. Raises RendererError."""
        write_ply(
            path, voxel_cloud(self.renderer.scene, box.resolution_m, Box(box.origin_m, box.range_m))
        )


def serve_flightmare(
    server: FlightmareServer, config: FlightmareServerConfig, stop: threading.Event
) -> None:
    """Serve until ``stop`` is set, with every measurement that the embedded renderer supports on
    this computer.
    """
    try:
        server.renderer.collisions()
        collides = True
    except RendererError as exc:
        logger.warning("collisions are not reported: %s", exc)
        collides = False
    senses = Senses(
        load_scene=server.change if server.chosen_by_client else None,
        collides=server.collides if collides else None,
        ranges=server.ranges,
        events=server.events,
        occupied=server.occupied if collides else None,
        point_cloud=server.write_point_cloud,
    )
    serve(server.draw, config, stop, senses=senses)
