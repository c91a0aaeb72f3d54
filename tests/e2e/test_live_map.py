"""A running bridge maps a scene from the depth pictures of its flying vehicle, and a flight is
planned on that map.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.support.bridge_rig import read, running, service_of
from tests.support.mapped_flight import (
    RESOLUTION_M,
    SCENE,
    fly,
    mapping,
    seen_surfaces,
    settled,
    touches,
)
from tests.support.scenes import built
from vil_bridge.core.errors import ConfigError
from vil_bridge.interfaces.voxels import MapSnapshot, Occupancy, VoxelChanges
from vil_bridge.protocols.octomap import codes_of, read_octree
from vil_bridge.registry import solid_world
from vil_bridge.services.maps.service import MapService
from vil_bridge.web.client import BridgeApi
from vil_bridge.web.client.errors import NoSuchThing, RequestRejected
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap
from vil_simulation.planning.planner import FlightPlanner
from vil_simulation.planning.scene_map import map_of_scene
from vil_simulation.planning.simulated_flight import contact_on
from vil_simulation.vehicles.control.limits import Limits

pytestmark = [pytest.mark.process, pytest.mark.gl]

STATIONS = [
    *((-1.0, -1.0, 1.2, yaw) for yaw in (0.0, 1.57, 3.1, -1.57)),
    (1.0, -1.0, 1.5, 0.0),
    (1.0, 1.0, 1.5, 1.57),
    (-1.0, 1.0, 1.2, 3.1),
    (-1.0, 1.0, 1.2, -1.57),
    (-1.0, -1.0, 1.2, 0.8),
]
LEAST_PRECISION, LEAST_RECALL = 0.999, 0.95
CAMERAS = """
version: 1
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {renderer: drawn, modalities: [rgb]}}
maps: {room: {cameras: [%s], min_m: [0, 0, 0], max_m: [%s]}}
"""


def precision(found: OccupancyMap) -> float:
    """Share of the occupied voxels that a triangle of the scene passes."""
    occupied = found.codes[found.log_odds >= 0.0]
    return float(np.isin(occupied, map_of_scene(built(SCENE), RESOLUTION_M).codes).mean())


def planned_free(found: OccupancyMap) -> None:
    """Plan through known free space only, and compare the flight with the triangles of the
    scene.
    """
    low, high = np.array([-2.0, -2.0, 0.5]), np.array([2.0, 2.0, 2.0])
    planner = FlightPlanner(found, 0.2, low, high, Limits(speed_mps=2.0, acceleration_mps2=4.0))
    flight = planner.plan(np.array([-1.0, -1.0, 1.2]), np.array([1.0, 1.0, 1.5]))
    assert flight is not None
    reference = flight.trajectory.at(np.linspace(0.0, flight.trajectory.duration_s, 400))
    assert contact_on(reference.p_world_m, solid_world(SCENE, None), 0.2) is None


class Reader:
    """A client that follows the feed of the map from the beginning.

    Attributes:
        states: by code, as the messages say. number: of the newest message. changes: messages that
            were changes.
        last: number at which the reader may leave.
    """

    def __init__(self, api: BridgeApi) -> None:
        self.states: dict[int, int] = {}
        self.number = self.changes = 0
        self.last: int | None = None
        self._feed = api.map_changes("room")

    def follow(self) -> None:
        """Read until the number ``last``, once it is set."""
        while self.last is None or self.number < self.last:
            try:
                message = self._feed.next(1.0)
            except TimeoutError:
                continue
            if isinstance(message, MapSnapshot):
                tree = OccupancyMap.of_tree(read_octree(message.tree))
                states = np.where(tree.log_odds >= 0.0, Occupancy.OCCUPIED, Occupancy.FREE)
                self.states = dict(zip(tree.codes.tolist(), states.tolist(), strict=True))
            else:
                assert message.since == self.number and isinstance(message, VoxelChanges)
                self.states |= dict(
                    zip(codes_of(message.keys).tolist(), message.states.tolist(), strict=True)
                )
                self.changes += 1
            self.number = message.number

    def close(self) -> None:
        self._feed.close()


async def test_a_flight_maps_the_scene_and_a_path_on_the_map_is_free() -> None:
    async with mapping() as (bridge, camera):
        api = BridgeApi(bridge.http.url, timeout_s=60.0)
        reader = await asyncio.to_thread(Reader, api)
        following = asyncio.create_task(asyncio.to_thread(reader.follow))
        await fly(bridge, STATIONS)
        await settled(bridge)
        live = service_of(bridge, MapService).maps["room"].map
        reader.last = live.number
        await following
        await asyncio.to_thread(reader.close)
        found = live.occupancy_map()
        files = {
            form: await asyncio.to_thread(api.get_map_file, "room", form)
            for form in ("ot", "bt", "ply")
        }
        view = (await asyncio.to_thread(api.get_status)).maps["room"]
        metrics = await asyncio.to_thread(api.get_metrics)
        emptied = await asyncio.to_thread(api.reset_map, "room")
        with pytest.raises(NoSuchThing, match="no map is named 'rom'; known: room"):
            await asyncio.to_thread(api.get_map, "rom")
        lost = await asyncio.to_thread(api.map_changes, "rom")
        with pytest.raises(RequestRejected, match="no map is named 'rom'; known: room"):
            await asyncio.to_thread(lost.next, 60.0)
    recall = float(touches(seen_surfaces(camera), found).mean())
    print(
        f"precision {precision(found):.4f}, recall {recall:.4f}, {view.occupied} "
        f"occupied, {view.pictures} pictures"
    )
    assert precision(found) >= LEAST_PRECISION and recall >= LEAST_RECALL
    states = np.where(found.log_odds >= 0.0, Occupancy.OCCUPIED, Occupancy.FREE)
    assert (
        reader.states == dict(zip(found.codes.tolist(), states.tolist(), strict=True))
        and reader.changes > 3
    )
    full = OccupancyMap.of_tree(read_octree(files["ot"]))
    assert np.array_equal(full.codes, found.codes) and np.array_equal(full.log_odds, found.log_odds)
    assert np.array_equal(
        OccupancyMap.of_tree(read_octree(files["bt"])).occupied_m(), found.occupied_m()
    )
    assert f"element vertex {view.occupied}\n".encode() in files["ply"]
    assert view.occupied == len(found.occupied_m()) and view.pictures > 30 and view.problem == ""
    assert f'vil_map_voxels{{map="room",state="occupied"}} {float(view.occupied)}' in metrics
    assert (emptied.free, emptied.occupied) == (0, 0)
    pytest.importorskip("ompl", reason="the package is not installed (extra plan)")
    planned_free(found)


async def test_a_bridge_without_maps_says_so() -> None:
    config = (
        'version: 1\nrequire_cameras: false\nstream: {bind: "tcp://127.0.0.1:0"}\nhttp: {port: 0}\n'
    )
    async with (
        running(config) as bridge,
        httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web,
    ):
        assert (await web.get("/api/v1/maps")).json() == {}
        answer = await web.get("/api/v1/maps/room/map.bt")
        assert answer.status_code == 404 and "add the section `maps`" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("camera", "corner", "reason"),
    [
        ("back", "1, 1, 1", "no camera is named 'back'; known: front"),
        ("front", "1, 1, 1", "'front' has no depth pictures; add depth32 to its modalities"),
        ("front", "1, 0, 1", "is empty: give its lowest corner first"),
        ("front", "900, 900, 900", "at most 3e\\+07"),
    ],
)
def test_maps_that_cannot_be_are_refused(
    camera: str, corner: str, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "bridge.yaml"
    file.write_text(CAMERAS % (camera, corner))
    with pytest.raises(ConfigError, match=reason):
        read(file)
