"""Depth, time, humans, distances and lidars over ROS, read by a foreign zenoh session and from
bags.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from tests.support import ros_types
from tests.support.events import until
from tests.support.outputs import CAMERA, INFO, LENS, Flight, fed, header, picture, wall_offset_ns
from tests.support.people import PersonFlight
from tests.support.sensor_flight import BEAMS, T_BODY_RING, RangingFlight
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ImageArray
from vil_bridge.runtime.supervisor import ComponentState
from vil_simulation.demo.child_processes import free_ports

pytest.importorskip("zenoh")
pytest.importorskip("rosbags")

import itertools
import socket

from rosbags.rosbag1 import Reader as Ros1Reader
from rosbags.typesys import Stores, get_typestore

from tests.support.ros_reader import HASHES, Reader, opened, reader, router
from vil_bridge.outputs.ros.bag import RosBagOutput
from vil_bridge.outputs.ros.config import Ros2Config, RosBagConfig
from vil_bridge.outputs.ros.ros2_output import Ros2Output

pytestmark = pytest.mark.wire

DEPTH = "vil/front/depth/image_raw"
NEAR_M, FAR_UNITS = 1.25, 65534


def depth_picture(modality: str) -> ImageArray:
    """Depths that differ, the last row at nothing.

    Rows run upwards in memory, as from a renderer.
    """
    if modality == "depth":
        pixels: ImageArray = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64) + np.uint16(800)
        pixels[0, 0], pixels[-1] = FAR_UNITS, 65535
    else:
        pixels = np.linspace(NEAR_M, 99.0, 48 * 64, dtype=np.float32).reshape(48, 64)
        pixels[-1] = 100.0
    return np.ascontiguousarray(pixels[::-1])[::-1]


@pytest.mark.parametrize("modality", ["depth", "depth32"])
async def test_depth_is_in_metres_with_its_geometry(modality: str) -> None:
    info = replace(INFO, offers={"rgb": ("compensated", "raw"), modality: ("compensated", "raw")})
    with router() as place, reader(place) as read:
        output = Ros2Output("ros", Ros2Config(cameras=("front",), connect=(place,), depth=True))
        sink = output.frame_sink(info)
        assert sink is not None
        flight = Flight()
        async with flight.flying(output):
            await until(lambda: sink.wanted(modality, "compensated"))
            assert not sink.wanted(modality, "raw")
            t_ns = now_ns()
            sink.offer(structs.replace(header(7, t_ns), modality=modality), depth_picture(modality))
            sink.offer(header(7, t_ns), picture(7))  # the same instant, of another kind
            await until(lambda: output.status.counters["sent"] == 2)
            await until(lambda: read.of("vil/front/depth/camera_info", ros_types.CameraInfo))
            await until(
                lambda: read.of("vil/front/image_raw/compressed", ros_types.CompressedImage)
            )
            utc_ns = t_ns + wall_offset_ns()
        assert_depth(read, modality, utc_ns)


def assert_depth(read: Reader, modality: str, utc_ns: int) -> None:
    (image,) = read.of(DEPTH, ros_types.Image)
    (info,) = read.of("vil/front/depth/camera_info", ros_types.CameraInfo)
    (shown,) = read.of("vil/front/image_raw/compressed", ros_types.CompressedImage)
    assert image.header == info.header == shown.header
    assert abs(image.header.t_ns - utc_ns) < 1_000_000
    assert (image.header.frame_id, image.encoding, image.step) == ("front_optical", "32FC1", 4 * 64)
    metres = np.frombuffer(bytes(image.data), "<f4").reshape(image.height, image.width)
    sent = depth_picture(modality)
    assert np.isinf(metres[-1]).all() and np.isfinite(metres[:-1]).all()
    if modality == "depth":
        np.testing.assert_allclose(metres[:-1], sent[:-1] / 655.35, rtol=1e-6)
    else:
        np.testing.assert_array_equal(metres[:-1], sent[:-1])
    assert info.k == CAMERA.K.reshape(-1).tolist()
    assert info.p == [60.0, 0.0, 31.0, 0.0, 0.0, 61.0, 23.5, 0.0, 0.0, 0.0, 1.0, 0.0]
    assert (tuple(info.d), info.distortion_model) == (LENS.coefficients, "plumb_bob")


async def test_depth_without_readers_and_depth_that_is_not_asked_for() -> None:
    depth_only = replace(INFO, offers={"depth": ("raw",)})
    with router() as place:
        output = Ros2Output("ros", Ros2Config(cameras=("front",), connect=(place,), depth=True))
        sink = output.frame_sink(depth_only)
        assert sink is not None
        async with Flight().flying(output):
            await until(lambda: output.status.facts.get("connected"))
            assert not sink.wanted("depth", "raw"), "nobody reads"
        assert not sink.wanted("rgb", "raw")
    with pytest.raises(SinkError, match="no rgb or gray pictures"):
        Ros2Output("ros", Ros2Config(cameras=("front",))).frame_sink(depth_only)


async def test_the_clock_is_bridge_time_and_stands_while_it_stands() -> None:
    time = BridgeTime()
    with router() as place, reader(place) as read, time.in_force():
        time.run(0.25)
        output = Ros2Output("ros", Ros2Config(connect=(place,), clock=True))
        start_ns = now_ns()
        async with Flight().flying(output):
            await until(lambda: len(read.of("clock", ros_types.Clock)) >= 30)
            time.run(0.0)
            paused_ns = now_ns()
            count = len(read.of("clock", ros_types.Clock))
            time.run(50.0)
            await until(lambda: len(read.of("clock", ros_types.Clock)) >= count + 10)
        end_ns = now_ns()
        offset_ns = output._feed.wall_clock.offset_ns
    stamps = [m.t_ns - offset_ns for m in read.of("clock", ros_types.Clock)]
    assert all(a < b for a, b in itertools.pairwise(stamps)), "none comes twice"
    assert start_ns <= stamps[0] and stamps[-1] <= end_ns
    assert stamps[20] < paused_ns < stamps[-1]
    (key,) = [k for k in read.samples if "/clock/" in k]
    assert (
        key == "0/clock/rosgraph_msgs::msg::dds_::Clock_/"
        f"RIHS01_{HASHES['rosgraph_msgs::msg::dds_::Clock_']}"
    )


async def test_a_router_is_noticed_while_bridge_time_stands() -> None:
    place = f"tcp/127.0.0.1:{free_ports(1, socket.SOCK_STREAM)[0]}"
    time = BridgeTime()
    with time.in_force():
        time.run(0.0)
        output = Ros2Output("ros", Ros2Config(connect=(place,), actors=("drone",)))
        async with Flight().flying(output):
            await until(lambda: output.status.state is ComponentState.WAITING)
            with opened(mode="router", listen__endpoints=[place]):
                await until(lambda: output.status.state is ComponentState.RUNNING)
            await until(lambda: output.status.state is ComponentState.WAITING)


async def test_a_human_is_a_tree_of_frames_and_an_array_of_poses() -> None:
    flight = PersonFlight()
    with router() as place, reader(place) as read:
        output = Ros2Output("ros", Ros2Config(actors=("ann-1",), connect=(place,)))
        async with fed(output, flight.world, flight.film):
            await until(lambda: len(read.of("vil/ann_1/skeleton", ros_types.PoseArray)) >= 10)
            await until(lambda: len(read.of("tf", ros_types.TFMessage)) >= 10)
            offset_ns = wall_offset_ns()
        arrays = {m.header.t_ns: m for m in read.of("vil/ann_1/skeleton", ros_types.PoseArray)}
        for t_utc_ns, array in arrays.items():
            truth = flight.captured_at(t_utc_ns - offset_ns)
            assert array.header.frame_id == "world"
            np.testing.assert_allclose([p.position.xyz for p in array.poses], truth.p_m, atol=1e-12)
            np.testing.assert_allclose(
                [p.orientation.xyzw for p in array.poses], truth.q_xyzw, atol=1e-12
            )
        for moved in read.of("tf", ros_types.TFMessage):
            assert_tree(flight, moved.transforms, offset_ns)
        assert not [key for key in read.samples if "odom" in key or "imu" in key]


def assert_tree(flight: PersonFlight, links: list[Any], offset_ns: int) -> None:
    """Every bone is where it was, by the product of the frames above it."""
    truth = flight.captured_at(links[0].header.t_ns - offset_ns)
    frames = {"world": Transform.identity()}
    for link in links:
        pose = Transform.of(link.transform.translation.xyz, link.transform.rotation.xyzw)
        frames[link.child_frame_id] = frames[link.header.frame_id] @ pose
    assert [link.child_frame_id for link in links] == [
        f"ann-1/{bone}" for bone in truth.model.bones
    ]
    assert [link.header.frame_id for link in links[:3]] == ["world", "ann-1/Hip", "ann-1/Ab"]
    for i, bone in enumerate(truth.model.bones):
        np.testing.assert_allclose(frames[f"ann-1/{bone}"].p_m, truth.p_m[i], atol=1e-9)
        assert abs(np.dot(frames[f"ann-1/{bone}"].q_xyzw, truth.q_xyzw[i])) == pytest.approx(
            1.0, abs=1e-9
        )


async def test_a_human_who_is_not_seen_is_not_sent() -> None:
    flight = PersonFlight()
    flight.unseen = (0,)  # the hips, by which the place of all is known
    with router() as place, reader(place) as read:
        output = Ros2Output("ros", Ros2Config(actors=("ann-1",), connect=(place,), clock=True))
        async with fed(output, flight.world, flight.film):
            await until(lambda: len(read.of("clock", ros_types.Clock)) >= 30)
            assert not read.of("vil/ann_1/skeleton", ros_types.PoseArray)
            flight.unseen = ()
            await until(lambda: read.of("vil/ann_1/skeleton", ros_types.PoseArray))


async def test_a_ros1_bag_has_humans_depth_and_time(tmp_path: Path) -> None:
    flight = PersonFlight()
    config = RosBagConfig(
        path=tmp_path / "run.bag", actors=("ann-1",), cameras=("front",), depth=True, clock=True
    )
    output = RosBagOutput("rec", config)
    sink = output.frame_sink(replace(INFO, offers={"depth32": ("compensated",)}))
    assert sink is not None
    async with fed(output, flight.world, flight.film):
        await until(lambda: sink.wanted("depth32", "compensated"))
        sink.offer(
            structs.replace(header(1, now_ns()), modality="depth32"), depth_picture("depth32")
        )
        await until(
            lambda: output.status.counters["skeletons"] >= 10 and output.status.counters["sent"]
        )
        offset_ns = wall_offset_ns()
    store, found = get_typestore(Stores.ROS1_NOETIC), dict[str, list[Any]]()
    with Ros1Reader(Path(output.status.facts["path"])) as bag:
        for connection, _, data in bag.messages():
            message = (
                store.deserialize_ros1(data, connection.msgtype)
                if "tf" not in connection.topic
                else None
            )
            found.setdefault(connection.topic, []).append(message)
    array = found["/vil/ann_1/skeleton"][-1]
    truth = flight.captured_at(
        array.header.stamp.sec * 10**9 + array.header.stamp.nanosec - offset_ns
    )
    np.testing.assert_allclose(
        [(p.position.x, p.position.y, p.position.z) for p in array.poses], truth.p_m, atol=1e-12
    )
    (depth,) = found["/vil/front/depth/image_raw"]
    metres = depth.data.view("<f4").reshape(48, 64)
    np.testing.assert_array_equal(metres[:-1], depth_picture("depth32")[:-1])
    assert len(found["/clock"]) >= 10 and len(found["/vil/front/depth/camera_info"]) == 1


async def test_beams_are_ranges_in_frames_of_their_own() -> None:
    flight = RangingFlight()
    with router() as place, reader(place) as read:
        output = Ros2Output("ros", Ros2Config(actors=("drone",), connect=(place,)))
        async with fed(output, flight.world, flight.measure):
            await until(lambda: len(read.of("vil/drone/sensors/around", ros_types.Range)) >= 20)
            await until(lambda: len(read.of("tf_static", ros_types.TFMessage)) >= 2)
            offset_ns = wall_offset_ns()
        messages = read.of("vil/drone/sensors/around", ros_types.Range)
        for message in messages:
            t_ns = flight.at(message.header.t_ns - offset_ns)
            first = message.header.frame_id == "drone/around_link_1"
            assert message.range == (flight.ranges_m[t_ns] if first else math.inf)
            assert (message.min_range, message.max_range, message.radiation_type) == (0.5, 30.0, 1)
            assert message.variance == pytest.approx(0.04)
        assert {m.header.frame_id for m in messages} == {
            "drone/around_link_1",
            "drone/around_link_2",
        }
        links = {
            link.child_frame_id: link
            for link in read.of("tf_static", ros_types.TFMessage)[-1].transforms
        }
        assert set(links) == {"drone/ring_link", "drone/around_link_1", "drone/around_link_2"}
        down, left = (links[f"drone/around_link_{number}"].transform for number in (1, 2))
        assert down.translation.xyz == left.translation.xyz == [0.1, 0.0, -0.05]
        for beam, direction in ((down, BEAMS["down"]), (left, BEAMS["left"])):
            ahead = Transform.of((0, 0, 0), beam.rotation.xyzw).rotation()[:, 0]
            np.testing.assert_allclose(ahead, direction, atol=1e-12)
        (key,) = [key for key in read.samples if "/around/" in key]
        assert key.endswith(
            f"sensor_msgs::msg::dds_::Range_/RIHS01_{HASHES['sensor_msgs::msg::dds_::Range_']}"
        )


async def test_a_lidar_is_a_cloud_in_its_own_axes() -> None:
    flight = RangingFlight()
    with router() as place, reader(place) as read:
        output = Ros2Output("ros", Ros2Config(actors=("drone",), connect=(place,)))
        async with fed(output, flight.world, flight.measure):
            await until(lambda: len(read.of("vil/drone/sensors/ring", ros_types.PointCloud2)) >= 10)
            offset_ns = wall_offset_ns()
        for cloud in read.of("vil/drone/sensors/ring", ros_types.PointCloud2):
            points = flight.turns[flight.at(cloud.header.t_ns - offset_ns)]
            assert (cloud.header.frame_id, cloud.height, cloud.width) == ("drone/ring_link", 1, 2)
            assert [(f.name, f.offset, f.datatype, f.count) for f in cloud.fields] == [
                *(("x", 0, 7, 1), ("y", 4, 7, 1), ("z", 8, 7, 1)),
                ("instance", 12, 6, 1),
            ]
            assert (cloud.point_step, cloud.row_step, cloud.is_bigendian, cloud.is_dense) == (
                16,
                32,
                False,
                True,
            )
            rows = np.frombuffer(bytes(cloud.data), dtype=[("p", "<f4", 3), ("instance", "<u4")])
            np.testing.assert_array_equal(rows["p"], points[:, :3])
            np.testing.assert_array_equal(rows["instance"], points[:, 3])
        (link,) = read.of("tf_static", ros_types.TFMessage)[0].transforms
        assert link.transform.translation.xyz == T_BODY_RING.p_m.tolist()
        (key,) = [key for key in read.samples if "/ring/" in key]
        kind = "sensor_msgs::msg::dds_::PointCloud2_"
        assert key.endswith(f"{kind}/RIHS01_{HASHES[kind]}")
