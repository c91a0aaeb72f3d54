"""Occupancy maps and planned flights on ROS 2: latched, sent again when they changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from tests.support import ros_types
from tests.support.events import until
from tests.support.outputs import Flight, wall_offset_ns
from vil_bridge.core.clock import now_ns
from vil_bridge.interfaces.planned_path import PlannedPath
from vil_bridge.protocols.octomap import read_octree, write_binary
from vil_bridge.world.occupancy.live_map import LiveMap
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap

zenoh = pytest.importorskip("zenoh")
pytest.importorskip("rosbags")

from tests.support.ros_reader import opened, reader, router  # noqa: E402
from vil_bridge.outputs.ros.config import Ros2Config  # noqa: E402
from vil_bridge.outputs.ros.ros2_output import Ros2Output  # noqa: E402

pytestmark = pytest.mark.wire

TOPIC = "vil/room/octomap"


def read_map(message: ros_types.Octomap) -> OccupancyMap:
    """The map of a message, by the header that a reader of octomap_msgs writes before it."""
    assert (message.binary, message.id, message.header.frame_id) == (True, "OcTree", "world")
    data = np.array(message.data, np.int8).tobytes()
    size = 1 + sum(
        (word >> 2 * child & 3) > 0
        for word in np.frombuffer(data, "<u2").tolist()
        for child in range(8)
    )
    head = f"# Octomap OcTree binary file\nid OcTree\nsize {size}\nres {message.resolution}\ndata\n"
    return OccupancyMap.of_tree(read_octree(head.encode() + data))


@contextmanager
def late_reader(place: str) -> Iterator[list[ros_types.Octomap]]:
    """A node that subscribes to the latched map now."""
    got: list[ros_types.Octomap] = []
    with opened(mode="peer", connect__endpoints=[place], timestamping__enabled=True) as session:
        subscriber = zenoh.ext.declare_advanced_subscriber(
            session,
            f"0/{TOPIC}/**",
            lambda sample: got.append(ros_types.Octomap.deserialize(sample.payload.to_bytes())),
            history=zenoh.ext.HistoryConfig(detect_late_publishers=True),
        )
        yield got
        subscriber.undeclare()


async def test_maps_are_latched_and_sent_when_they_changed() -> None:
    found, other = (LiveMap(0.1, np.full(3, -5.0), np.full(3, 5.0), 6.0) for _ in range(2))
    sensor, wall = np.array([0.05, 0.05, 0.55]), np.array([[2.05, 0.05, 0.55], [2.05, 0.25, 0.55]])
    first_ns = now_ns()
    found.insert_points(wall, sensor, first_ns)
    other.insert_points(wall, sensor, first_ns)
    with router() as place:
        output = Ros2Output("ros", Ros2Config(connect=(place,), maps=("room",)))
        output.accept_maps({"room": found, "other": other})
        async with Flight().flying(output):
            await until(lambda: output.status.counters["maps"] == 1)
            with reader(place) as read, late_reader(place) as got:
                await until(lambda: got)
                assert abs(got[0].header.t_ns - wall_offset_ns() - first_ns) < 1_000_000
                assert write_binary(read_map(got[0]).tree()) == found.snapshot().tree
                found.insert_points(np.add(wall, (0.5, 0.0, 0.0)), sensor, now_ns())
                await until(lambda: len(got) >= 2)
                assert write_binary(read_map(got[-1]).tree()) == found.snapshot().tree
                assert not read.of("vil/other/octomap", ros_types.Octomap)
                tokens = [token for token in read.tokens if "room%octomap" in token]
                assert len(tokens) == 1 and "octomap_msgs::msg::dds_::Octomap_" in tokens[0]
        assert output.status.counters["maps"] == 2


async def test_planned_flights_are_sent_and_withdrawn() -> None:
    begins_ns = now_ns()
    path = PlannedPath(
        begins_ns,
        np.array([0.0, 2.0]),
        np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        np.array([0.0, 1.0]),
    )
    given = {"drone": path}
    with router() as place, reader(place) as read:
        output = Ros2Output("ros", Ros2Config(connect=(place,), actors=("drone",)))
        output.accept_paths(lambda: dict(given))
        async with Flight().flying(output):
            await until(lambda: read.of("vil/drone/planned_path", ros_types.Path))
            (sent,) = read.of("vil/drone/planned_path", ros_types.Path)
            assert [pose.pose.position.xyz for pose in sent.poses] == path.p_world_m.tolist()
            assert sent.poses[1].pose.orientation.xyzw == pytest.approx(
                [0.0, 0.0, np.sin(0.5), np.cos(0.5)]
            )
            assert sent.poses[1].header.t_ns - sent.header.t_ns == 2_000_000_000
            assert abs(sent.header.t_ns - wall_offset_ns() - begins_ns) < 1_000_000
            # Another one that begins then.
            given["drone"] = replace(path, p_world_m=path.p_world_m + 1.0)
            await until(lambda: len(read.of("vil/drone/planned_path", ros_types.Path)) == 2)
            given.clear()
            await until(lambda: len(read.of("vil/drone/planned_path", ros_types.Path)) == 3)
            assert read.of("vil/drone/planned_path", ros_types.Path)[-1].poses == []
