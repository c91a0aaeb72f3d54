"""A bridge whose simulated vehicle flies in a shipped scene and maps it from its depth pictures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np

from tests.support.bridge_rig import drawn_bridge, service_of
from tests.support.common import needs_gl
from tests.support.events import until
from tests.support.scenes import first_hits
from vil_bridge.core.types import BoolArray, FloatArray, View, WorldSnapshot
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.interfaces.vehicle_commands import VehicleCommand, VehicleState
from vil_bridge.interfaces.voxel_box import keys_at
from vil_bridge.interfaces.voxels import Occupancy
from vil_bridge.protocols.octomap import codes_of
from vil_bridge.services.maps.service import MapService
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.flightgoggles.server import RenderedRequest

LOAD_S = 200.0
SCENE = "lab"
RESOLUTION_M, RANGE_M = 0.1, 8.0
LOW_M, HIGH_M = np.array([-4.0, -4.0, -0.3]), np.array([4.0, 4.0, 3.5])
CONFIG = f"""
version: 1
rooms: {{hall: {{}}}}
sources:
  sim:
    type: simulated
    room: hall
    vehicles:
      drone: {{model: flightgoggles, p_m: [-1, -1, 1.2], command_timeout_ms: 60000}}
actors: {{drone: {{kind: vehicle, source: sim, subject: drone}}}}
renderers: {{drawn: {{type: flightgoggles, pose_port: 0, image_port: 0}}}}
cameras:
  front: {{actor: drone, renderer: drawn, width_px: 160, height_px: 120, fov_y_deg: 80, rate_hz: 10,
          modalities: [depth32], latency_compensation: none}}
maps:
  room: {{cameras: [front], min_m: {LOW_M.tolist()}, max_m: {HIGH_M.tolist()},
      resolution_m: {RESOLUTION_M},
         range_m: {RANGE_M}}}
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: 0}}
realtime: {{fifo_priority: 0}}
simulation: {{clock: simulated, wait_for_cameras: true, speed: 4}}
"""


class Camera:
    """The embedded renderer; made in the thread that draws, as OpenGL wants it.

    Attributes:
        views: of all pictures that it drew.
    """

    def __init__(self) -> None:
        self.views: list[View] = []
        self._renderer: EmbeddedRenderer | None = None

    def __call__(self, views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        if self._renderer is None:
            self._renderer = EmbeddedRenderer(SCENE)
        self.views += views
        return RenderedRequest(self._renderer.render(views, snapshot))


@asynccontextmanager
async def mapping(config: str = CONFIG) -> AsyncIterator[tuple[Bridge, Camera]]:
    """Run the bridge until its map has begun."""
    needs_gl()
    camera = Camera()
    async with drawn_bridge(config, camera) as bridge:
        await until(lambda: service_of(bridge, MapService).maps["room"].map.number > 0, LOAD_S)
        yield bridge, camera


def state(bridge: Bridge) -> VehicleState:
    return bridge.context.for_sources.vehicles.of("drone").state("drone")


async def fly(bridge: Bridge, stations: Sequence[tuple[float, float, float, float]]) -> None:
    """Fly to positions and headings, one after the other."""
    for x, y, z, yaw in stations:
        bridge.context.for_sources.vehicles.send(
            "drone", VehicleCommand(mode="position", values=[x, y, z, yaw])
        )

        def arrived(goal: tuple[float, float, float] = (x, y, z), yaw: float = yaw) -> bool:
            now = state(bridge)
            qx, qy, qz, qw = now.q_world_body
            heading = np.arctan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
            turned = abs((heading - yaw + np.pi) % (2.0 * np.pi) - np.pi)
            return bool(np.linalg.norm(np.subtract(goal, now.p_world_m)) < 0.15 and turned < 0.1)

        await until(arrived, LOAD_S)


def seen_surfaces(camera: Camera, every_px: int = 2) -> FloatArray:
    """Return points (n, 3) in the box, one for each voxel, where rays from the drawn poses meet the
    scene.

    Another ray caster finds them.
    """
    low, high = LOW_M + 1e-6, HIGH_M - 1e-6
    found = np.zeros((0, 3))
    for view in camera.views:
        fx, fy, cx, cy = view.camera.intrinsics_px
        rows, columns = (
            np.arange(0, view.camera.height_px, every_px),
            np.arange(0, view.camera.width_px, every_px),
        )
        v, u = (axis.ravel() for axis in np.meshgrid(rows, columns, indexing="ij"))
        way = (
            np.column_stack(((u - cx) / fx, (v - cy) / fy, np.ones(u.shape)))
            @ view.T_world_camera.rotation().T
        )
        way /= np.linalg.norm(way, axis=1, keepdims=True)
        start = np.broadcast_to(view.T_world_camera.p_m, way.shape)
        _, distance = first_hits(SCENE, start, way)
        near = distance < RANGE_M - 0.1
        points = start[near] + distance[near, None] * way[near]
        found = np.concatenate((found, points[((points > low) & (points < high)).all(axis=1)]))
        _, first = np.unique(codes_of(keys_at(found, RESOLUTION_M)), return_index=True)
        found = found[first]
    return found


def touches(points_m: FloatArray, found: OccupancyMap) -> BoolArray:
    """Return which points (n, 3) lie in an occupied voxel or within a millimetre of one."""
    offsets = 1e-3 * np.stack(np.meshgrid(*[(-1.0, 1.0)] * 3), axis=-1).reshape(-1, 3)
    states = [found.state(points_m + offset) == Occupancy.OCCUPIED for offset in offsets]
    return np.asarray(np.any(states, axis=0))


async def settled(bridge: Bridge) -> None:
    """Wait until the map takes no more pictures: the world stands still."""
    bridge.context.simulation.set_pace(paused=True)
    runner = service_of(bridge, MapService).maps["room"]
    before = -1
    while before != runner.map.number:
        before = runner.map.number
        await asyncio.sleep(0.5)
