"""Live occupancy: what OctoMap counts, in a box; changes since any number; kernel and twin.

Messages of the feed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import MutableMapping
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI, WebSocket

from tests.support.common import PATIENCE_S
from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.errors import ConfigError, ProtocolError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.voxels import MapSnapshot, Occupancy, VoxelChanges
from vil_bridge.protocols.octomap import centres_of, codes_of, keys_of, read_octree, write_full
from vil_bridge.services.maps.feed import _send, map_feed_router
from vil_bridge.web.live.frames import POST, framed
from vil_bridge.web.live.map_codec import decode_map, encode_changes, encode_snapshot
from vil_bridge.world.occupancy import live_map, marks
from vil_bridge.world.occupancy.live_map import LiveMap
from vil_bridge.world.occupancy.measurement import depth_points, measurement, pixel_rays
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap

LOW, HIGH = np.array([-6.0, -6.0, -6.0]), np.array([6.0, 6.0, 6.0])


def clouds(count: int = 5, seed: int = 1) -> list[tuple[FloatArray, FloatArray]]:
    """Sensors and the points that each sees, some of them beyond the range of 3 m."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        sensor, way = rng.normal(size=3), rng.normal(size=(900, 3))
        made.append(
            (
                sensor,
                sensor
                + way / np.linalg.norm(way, axis=1)[:, None] * rng.uniform(1.0, 4.0, (900, 1)),
            )
        )
    return made


def filled(
    resolution_m: float = 0.1, low: FloatArray = LOW, high: FloatArray = HIGH, count: int = 5
) -> LiveMap:
    made = LiveMap(resolution_m, low, high, 3.0)
    for number, (sensor, points) in enumerate(clouds(count)):
        made.insert_points(points, sensor, 100 + number)
    return made


@pytest.mark.parametrize("resolution_m", [0.1, 0.07])
def test_live_maps_give_the_bytes_of_octomap(resolution_m: float) -> None:
    pyoctomap = pytest.importorskip("pyoctomap", reason="the package is not installed (extra dev)")
    theirs = pyoctomap.OcTree(resolution_m)
    for sensor, points in clouds():
        theirs.insertPointCloud(points, sensor, 3.0)
    ours = filled(resolution_m).occupancy_map()
    assert write_full(ours.tree()) == theirs.write()
    occupied = ours.occupied_m()
    assert len(occupied) == len(theirs.extractPointCloud()[0])
    assert all(theirs.isNodeOccupied(theirs.search(centre)) for centre in occupied)


def test_a_box_bounds_the_map_and_changes_nothing_inside() -> None:
    whole, part = (
        filled().occupancy_map(),
        filled(low=np.array([-1.0, 0.0, -0.5]), high=np.array([1.0, 2.0, 0.5])),
    )
    keys = keys_of(whole.codes)
    centres = centres_of(keys, 0.1)
    inside = ((centres > [-1.0, 0.0, -0.5]) & (centres < [1.0, 2.0, 0.5])).all(axis=1)
    found = part.occupancy_map()
    assert np.array_equal(found.codes, whole.codes[inside])
    assert np.array_equal(found.log_odds, whole.log_odds[inside])
    assert part.counts == (len(found.codes), int(np.count_nonzero(found.log_odds >= 0.0)))


def test_a_sensor_outside_the_box_sees_into_it_and_one_out_of_reach_changes_nothing() -> None:
    seen = LiveMap(0.1, np.array([1.0, -1.0, -1.0]), np.array([3.0, 1.0, 1.0]), 5.0)
    seen.insert_points(np.array([[2.05, 0.05, 0.05]]), np.array([0.05, 0.05, 0.05]), 1)
    assert seen.counts == (11, 1)
    seen.insert_points(np.array([[30.0, 0.05, 0.05]]), np.array([29.0, 0.05, 0.05]), 2)
    assert seen.counts == (11, 1) and seen.number == 1


def test_kernel_and_twin_mark_the_same_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = filled().occupancy_map()
    monkeypatch.setattr(marks, "_KERNEL", None)
    plain = filled().occupancy_map()
    assert np.array_equal(compiled.codes, plain.codes)
    assert np.array_equal(compiled.log_odds, plain.log_odds)


def test_changes_since_any_number_lead_to_the_same_states() -> None:
    made = LiveMap(0.1, LOW, HIGH, 3.0)
    states: list[dict[int, int]] = [{}]
    for number, (sensor, points) in enumerate(clouds()):
        made.insert_points(points, sensor, number)
        now = made.occupancy_map()
        occupied = np.where(now.log_odds >= 0.0, Occupancy.OCCUPIED, Occupancy.FREE)
        states.append(dict(zip(now.codes.tolist(), occupied.tolist(), strict=True)))
    for since, before in enumerate(states):
        changes = made.changes(since)
        assert changes is not None and (changes.since, changes.number) == (since, 5)
        after = before | dict(
            zip(codes_of(changes.keys).tolist(), changes.states.tolist(), strict=True)
        )
        assert after == states[-1]
    assert made.changes(6) is None


def test_what_is_too_long_ago_or_before_a_reset_needs_the_whole_map(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_map, "_MOST_CHANGES", 1000)
    made = filled()
    assert made.changes(0) is None and made.changes(4) is not None
    made.reset()
    assert made.counts == (0, 0) and made.number == 6
    assert made.changes(5) is None
    empty = made.changes(6)
    assert empty is not None and len(empty.keys) == 0
    assert len(read_octree(made.snapshot().tree).code) == 0
    ((sensor, points),) = clouds(1)
    made.insert_points(points, sensor, 9)
    more = made.changes(6)
    assert more is not None and len(more.keys) == made.counts[0]


def test_a_map_that_stays_the_same_remembers_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_map, "_MOST_MEASUREMENTS", 3)
    made = LiveMap(0.1, LOW, HIGH, 3.0)
    ((sensor, points),) = clouds(1)
    for number in range(20):
        made.insert_points(points, sensor, number)
    assert made.number == 20 and len(made._changes) == 1
    first = made.changes(0)
    assert first is not None and len(first.keys) == made.counts[0]
    same = made.changes(1)
    assert same is not None and len(same.keys) == 0
    for number in range(5):
        point = np.array([[4.05 - 0.1 * number, 5.05, 5.05]])
        made.insert_points(point, point[0] - (0.0, 0.2, 0.0), 20 + number)
    assert len(made._changes) == 3 and made.changes(21) is None
    later = made.changes(22)
    assert later is not None and later.number == 25 and len(later.keys) == 9


@pytest.mark.parametrize("kernel", [True, False])
def test_a_ray_too_short_for_single_precision_ends(
    kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves the sensor's cell over two borders at once; its length is 0."""
    if not kernel:
        monkeypatch.setattr(marks, "_KERNEL", None)
    sensor, end = (
        np.array([0.0, 0.0, 0.05], np.float32),
        np.array([[-1e-30, -1e-30, 0.05]], np.float32),
    )
    low, shape = np.full(3, 32760), np.full(3, 16)
    assert not marks.crossed_marks(sensor, end, 0.1, low, shape).any()


@pytest.mark.parametrize(
    ("resolution_m", "low", "high", "reason"),
    [
        (0.1, [0.0, 0.0, 0.0], [1.0, 0.0, 1.0], "is empty: give its lowest corner first"),
        (0.01, [-5.0, -5.0, 0.0], [5.0, 5.0, 5.0], r"5e\+08 voxels, at most 3e\+07: go coarser"),
        (0.01, [0.0, 0.0, 0.0], [400.0, 0.1, 0.1], "reaches beyond the 327.68 m of a tree"),
    ],
)
def test_boxes_that_cannot_be_had_are_refused(
    resolution_m: float, low: list[float], high: list[float], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        LiveMap(resolution_m, np.array(low), np.array(high), 3.0)


def test_the_box_ends_where_it_says() -> None:
    made = LiveMap(0.1, np.zeros(3), np.array([1.0, 0.3, 0.2]), 3.0)
    assert made._shape.tolist() == [10, 3, 2]


def test_pictures_through_a_lens_show_points_where_they_are() -> None:
    """A wall at 2 m, seen through a lens that bends the borders inwards."""
    lens = Distortion(LensModel.PLUMB_BOB, (-0.2, 0.0, 0.0, 0.0, 0.0))
    camera = CameraModel("front", 65, 49, math.radians(50.0), distortion=lens)
    rays = pixel_rays(camera)
    straight = pixel_rays(CameraModel("front", 65, 49, math.radians(50.0)))
    points = depth_points(np.full((49, 65), 2.0, np.float32), rays, Transform.identity())
    assert np.allclose(points[:, 2], 2.0)
    middle = 24 * 65 + 32
    assert np.allclose(rays[middle], straight[middle], atol=1e-9)
    assert rays[24 * 65, 0] < straight[24 * 65, 0]
    assert np.isfinite(measurement(points, np.zeros(3), 5.0, 0.1).hits_m).all()


def test_messages_of_the_feed_come_back_as_they_were() -> None:
    made = filled()
    whole = decode_map(encode_snapshot(made.snapshot()))
    assert isinstance(whole, MapSnapshot) and (whole.number, whole.t_ns) == (5, 104)
    known = OccupancyMap.of_tree(read_octree(whole.tree))
    assert np.array_equal(known.codes, made.occupancy_map().codes)
    changes = made.changes(3)
    assert changes is not None
    message = encode_changes(changes)
    again = decode_map(message)
    assert isinstance(again, VoxelChanges)
    assert (again.since, again.number, again.t_ns) == (3, 5, 104)
    assert np.array_equal(again.keys, changes.keys) and np.array_equal(again.states, changes.states)
    for broken in (b"", message[:-1], b"\x09" + message[1:], message[:20]):
        with pytest.raises(ProtocolError):
            decode_map(broken)


async def test_a_busy_reader_gets_the_whole_map_that_was_made_for_it_and_then_the_changes() -> None:
    """Making it again for each try would take a processor for a reader that takes nothing."""
    made, tries, done = filled(), list[bytes](), asyncio.Event()

    def post(frame: bytes) -> bool:
        tries.append(frame)
        if len(tries) < 3:
            (sensor, points), *_ = clouds(1, seed=len(tries))
            made.insert_points(points, sensor, 200 + len(tries))
        elif len(tries) == 4:
            done.set()
        return len(tries) >= 3

    async def unused(*_: object) -> Any:
        raise AssertionError("the feed writes frames itself")

    websocket = WebSocket({"type": "websocket", "extensions": {POST: post}}, unused, unused)
    sending = asyncio.create_task(_send(made, websocket))
    await asyncio.wait_for(done.wait(), PATIENCE_S)
    sending.cancel()
    assert tries[0] == tries[1] == tries[2] == framed(encode_snapshot(filled().snapshot()))
    changes = made.changes(5)
    assert changes is not None and tries[3] == framed(encode_changes(changes))


async def test_a_feed_that_cannot_be_made_ends_its_connection() -> None:
    app, silence = FastAPI(), asyncio.Event()
    app.include_router(map_feed_router({"room": LiveMap.__new__(LiveMap)}))  # without its voxels
    received = iter([{"type": "websocket.connect"}])

    async def receive() -> dict[str, str]:
        for message in received:
            return message
        await silence.wait()
        raise AssertionError("nothing more comes")

    async def send(message: MutableMapping[str, Any]) -> None:
        assert message["type"] == "websocket.accept"

    path = "/api/v1/maps/room/live"
    scope = {
        "type": "websocket",
        "path": path,
        "headers": [],
        "query_string": b"",
        "extensions": {POST: bool},
    }
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await asyncio.wait_for(app(scope, receive, send), PATIENCE_S)
