"""The ROS 2 node on zenoh, read by an independent session with types of its own, as rmw_zenoh's
nodes would.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
import simplejpeg

from tests.support import ros_types
from tests.support.events import until
from tests.support.outputs import (
    CAMERA,
    INFO,
    LENS,
    T_BODY_IMU,
    V_WORLD_MPS,
    W_BODY_RADPS,
    Flight,
    header,
    picture,
    wall_offset_ns,
)
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.geometry import Transform, q_rotate
from vil_bridge.interfaces.ports import FrameSink
from vil_bridge.runtime.supervisor import ComponentState
from vil_simulation.demo.child_processes import free_ports

zenoh = pytest.importorskip("zenoh")
pytest.importorskip("rosbags")

from tests.support.ros_reader import ATTACHMENT, HASHES, Reader, opened, reader, router  # noqa: E402
from vil_bridge.outputs.ros.config import Ros2Config  # noqa: E402
from vil_bridge.outputs.ros.ros2_output import Ros2Output  # noqa: E402
from vil_bridge.outputs.ros.zenoh_node import type_hash, type_name  # noqa: E402
from vil_bridge.protocols.ros_messages import Messages  # noqa: E402

pytestmark = pytest.mark.wire


def has(seen: list[object], count: int) -> bool:
    return len(seen) >= count


def has_sent(output: Ros2Output, count: int) -> bool:
    return output.status.counters["sent"] >= count


def output_at(place: str, **more: Any) -> tuple[Ros2Output, FrameSink]:
    settings = {
        "cameras": ("front",),
        "actors": ("drone",),
        "connect": (place,),
        "images": ("compressed", "raw"),
    }
    output = Ros2Output("ros", Ros2Config(**(settings | more)))
    sink = output.frame_sink(INFO)
    assert sink is not None
    return output, sink


async def test_poses_inertial_samples_and_the_tree() -> None:
    flight = Flight()
    with router() as place, reader(place) as read:
        output, _ = output_at(place)
        async with flight.flying(output):
            await until(lambda: len(read.of("vil/drone/odom", ros_types.Odometry)) >= 10)
            await until(lambda: len(read.of("vil/drone/imu/data_raw", ros_types.Imu)) >= 40)
            wall_ns = wall_offset_ns()
        poses = read.of("vil/drone/odom", ros_types.Odometry)
        for told in poses:
            off_ns, t_ns = min((abs(t + wall_ns - told.header.t_ns), t) for t in flight.filmed_ns)
            assert off_ns < 1_000_000  # the same instant, up to the wall clock's steps
            truth = flight.pose(t_ns)
            assert (told.header.frame_id, told.child_frame_id) == ("world", "drone/base_link")
            assert told.pose.pose.position.xyz == truth.p_m.tolist()
            np.testing.assert_allclose(told.pose.pose.orientation.xyzw, truth.q_xyzw, atol=1e-12)
            variances = np.diag(np.reshape(told.pose.covariance, (6, 6)))
            assert (variances >= 0.0).all() and not any(told.twist.covariance)
        last, t_ns = poses[-1], flight.filmed_ns[-1]
        v_body = flight.pose(t_ns).rotation().T @ V_WORLD_MPS
        np.testing.assert_allclose(last.twist.twist.linear.xyz, v_body, atol=0.02)
        np.testing.assert_allclose(last.twist.twist.angular.xyz, W_BODY_RADPS, atol=0.02)
        stamps = [p.header.t_ns for p in poses]
        assert all(a < b for a, b in pairwise(stamps))
        assert_inertial(read, flight)
        assert_moving_frame(read, poses)


def assert_inertial(read: Reader, flight: Flight) -> None:
    felt = {
        w_radps.tobytes(): (n, f_mps2) for n, (w_radps, f_mps2) in enumerate(flight.imu.values())
    }
    told = read.of("vil/drone/imu/data_raw", ros_types.Imu)
    found = [felt[np.array(message.angular_velocity.xyz).tobytes()] for message in told]
    assert all(a < b for (a, _), (b, _) in pairwise(found))
    for message, (_, f_mps2) in zip(told, found, strict=True):
        assert message.linear_acceleration.xyz == f_mps2.tolist()
        assert message.orientation_covariance[0] == -1.0
        assert message.header.frame_id == "drone/imu_link"


def assert_moving_frame(read: Reader, poses: list[Any]) -> None:
    moved = [m.transforms[0] for m in read.of("tf", ros_types.TFMessage)]
    by_stamp = {m.header.t_ns: m for m in moved}
    link = by_stamp[poses[0].header.t_ns]
    assert (link.header.frame_id, link.child_frame_id) == ("world", "drone/base_link")
    assert link.transform.translation.xyz == poses[0].pose.pose.position.xyz


async def test_pictures_and_their_geometry() -> None:
    with router() as place, reader(place) as read:
        output, sink = output_at(place)
        async with Flight().flying(output):
            await until(lambda: sink.wanted("rgb", "compensated"))
            assert not sink.wanted("rgb", "raw")
            t_ns = now_ns()
            sink.offer(header(7, t_ns), picture(7))
            await until(lambda: output.status.counters["sent"] == 1)
            sink.offer(header(8, t_ns), picture(8))  # shows no later instant
            await until(lambda: output.status.counters["sent"] == 2)
            await until(lambda: read.of("vil/front/camera_info", ros_types.CameraInfo))
            utc_ns = t_ns + wall_offset_ns()
        assert output.status.counters["not_newer"] == 1
        (raw,) = read.of("vil/front/image_raw", ros_types.Image)
        (jpeg,) = read.of("vil/front/image_raw/compressed", ros_types.CompressedImage)
        (info,) = read.of("vil/front/camera_info", ros_types.CameraInfo)
        assert raw.header == jpeg.header == info.header
        assert raw.header.frame_id == "front_optical"
        assert abs(raw.header.t_ns - utc_ns) < 1_000_000
        assert (raw.encoding, raw.step, raw.is_bigendian) == ("rgb8", 3 * 64, 0)
        pixels = np.array(raw.data, np.uint8).reshape(raw.height, raw.width, 3)
        np.testing.assert_array_equal(pixels, picture(7))
        assert jpeg.format == "jpeg"
        decoded = simplejpeg.decode_jpeg(bytes(jpeg.data))
        assert np.abs(decoded.astype(int) - picture(7)).mean() < 2.0
        assert (info.width, info.height, info.distortion_model) == (64, 48, "plumb_bob")
        assert tuple(info.d) == LENS.coefficients
        assert info.k == CAMERA.K.reshape(-1).tolist()
        assert info.p == [60.0, 0.0, 31.0, 0.0, 0.0, 61.0, 23.5, 0.0, 0.0, 0.0, 1.0, 0.0]
        assert info.r == np.eye(3).reshape(-1).tolist()


async def test_the_right_camera_of_a_pair_tells_the_baseline() -> None:
    apart = Transform.of((0.25, 0.0, 0.0))  # in the left camera's optical axes
    right = replace(
        INFO, model=replace(CAMERA, name="front_right"), T_body_optical=INFO.T_body_optical @ apart
    )
    with router() as place, reader(place) as read:
        output, _ = output_at(place)
        sink = output.frame_sink(right)
        assert sink is not None
        async with Flight().flying(output):
            await until(lambda: sink.wanted("rgb", "compensated"))
            sink.offer(header(1, now_ns()), picture(1))
            await until(lambda: read.of("vil/front_right/camera_info", ros_types.CameraInfo))
        (info,) = read.of("vil/front_right/camera_info", ros_types.CameraInfo)
        np.testing.assert_allclose(
            info.p, [60.0, 0, 31.0, -60.0 * 0.25, 0, 61.0, 23.5, 0, 0, 0, 1.0, 0], atol=1e-12
        )


async def test_the_wire_is_rmw_zenohs() -> None:
    with router() as place, reader(place) as read:
        output, _ = output_at(place)
        async with Flight().flying(output):
            await until(lambda: len(read.of("vil/drone/odom", ros_types.Odometry)) >= 5)
            await until(lambda: len(read.tokens) >= 8)
            await until(lambda: output.status.state is ComponentState.RUNNING)
            tokens = sorted(read.tokens)
        await until(lambda: not read.tokens)
        (key,) = [k for k in read.samples if "/odom/" in k]
        kind = "nav_msgs::msg::dds_::Odometry_"
        assert key == f"0/vil/drone/odom/{kind}/RIHS01_{HASHES[kind]}"
        notes = [ATTACHMENT.unpack(sample.attachment.to_bytes()) for sample in read.samples[key]]
        steps = [b - a for (a, *_), (b, *_) in pairwise(notes)]
        assert notes[0][0] >= 1 and min(steps) == 1  # a line may drop one, none is told twice
        assert {(length, gid) for *_, length, gid in notes} == {(16, notes[0][3])}
        assert all(abs(t_ns - time.time_ns()) < 60e9 for _, t_ns, *_ in notes)
        (node,) = [t for t in tokens if "/NN/" in t]
        zid = node.split("/")[2]
        assert node == f"@ros2_lv/0/{zid}/0/0/NN/%/%/vil_bridge"
        told = {}
        for token in tokens:
            if "/MP/" in token:
                head, topic, type_, hash_, qos = token.rsplit("/", 4)
                assert head.startswith(f"@ros2_lv/0/{zid}/0/") and head.endswith(
                    "/MP/%/%/vil_bridge"
                )
                assert hash_ == f"RIHS01_{HASHES[type_]}"
                told[topic] = qos
        assert told["%tf_static"] == ":1:,1:,:,:,,"
        assert told["%tf"] == "::,100:,:,:,,"
        names = {
            "%vil%drone%odom",
            "%vil%drone%imu%data_raw",
            "%tf",
            "%tf_static",
            "%vil%front%image_raw",
        }
        names |= {
            "%vil%front%image_raw%compressed",
            "%vil%front%camera_info",
            "%vil%drone%planned_path",
        }
        assert set(told) == names
        assert len({t.split("/")[4] for t in tokens}) == len(tokens)  # entity ids


@pytest.mark.parametrize("distro", ["humble", "jazzy", "kilted", "lyrical"])
def test_every_distributions_readers_are_met(distro: Any) -> None:
    store = Messages(distro).store
    for wire_name, hash_ in HASHES.items():
        message = wire_name.replace("::msg::dds_::", "/msg/").removesuffix("_")
        expected = "TypeHashNotSupported" if distro == "humble" else f"RIHS01_{hash_}"
        assert type_hash(store, message, distro) == expected
        assert type_name(message) == wire_name


async def test_who_comes_late_gets_the_static_frames() -> None:
    with router() as place:
        output, _ = output_at(place, frame_prefix="sim/")
        async with Flight().flying(output):
            await until(lambda: output.status.counters["poses"] > 3)
            with opened(
                mode="peer", connect__endpoints=[place], timestamping__enabled=True
            ) as session:
                got: list[Any] = []
                subscriber = zenoh.ext.declare_advanced_subscriber(
                    session,
                    "0/tf_static/**",
                    lambda s: got.append(ros_types.TFMessage.deserialize(s.payload.to_bytes())),
                    history=zenoh.ext.HistoryConfig(detect_late_publishers=True),
                )
                await until(lambda: got)
                subscriber.undeclare()
        link, inertial = got[0].transforms
        assert (link.header.frame_id, link.child_frame_id) == (
            "sim/drone/base_link",
            "sim/front_optical",
        )
        assert link.transform.translation.xyz == INFO.T_body_optical.p_m.tolist()
        assert link.transform.rotation.xyzw == INFO.T_body_optical.q_xyzw.tolist()
        assert (inertial.header.frame_id, inertial.child_frame_id) == (
            "sim/drone/base_link",
            "sim/drone/imu_link",
        )
        assert inertial.transform.translation.xyz == T_BODY_IMU.p_m.tolist()


async def test_the_static_frame_of_a_camera_follows_its_mount() -> None:
    mount = {"p_m": (0.3, -0.1, 0.2), "ypr_deg": (90.0, 0.0, 0.0)}
    with router() as place, reader(place) as read:
        output, sink = output_at(place)

        def camera_frames() -> list[Any]:
            links = [
                link for m in read.of("tf_static", ros_types.TFMessage) for link in m.transforms
            ]
            found = [link for link in links if link.child_frame_id == "front_optical"]
            return [
                link
                for link in found
                if np.allclose(link.transform.translation.xyz, mount["p_m"], atol=1e-12)
            ]

        async with Flight().flying(output):
            await until(lambda: sink.wanted("rgb", "compensated"))
            for frame in (1, 2):
                moved = msgspec.structs.replace(header(frame, now_ns()), T_body_camera=mount)
                sink.offer(moved, picture(frame))
                await until(functools.partial(has_sent, output, frame))
                await until(camera_frames)
            newest = read.of("tf_static", ros_types.TFMessage)[-1]
        assert [link.child_frame_id for link in newest.transforms] == [
            "front_optical",
            "drone/imu_link",
        ]
        (camera,) = camera_frames()  # one message for one change
        assert camera.header.frame_id == "drone/base_link"
        ahead = q_rotate(np.array(camera.transform.rotation.xyzw), np.array([0.0, 0.0, 1.0]))
        np.testing.assert_allclose(ahead, [0.0, 1.0, 0.0], atol=1e-12)  # it looks to the left now


async def test_no_router_yet_none_for_a_while_and_back() -> None:
    place = f"tcp/127.0.0.1:{free_ports(1, socket.SOCK_STREAM)[0]}"
    output, sink = output_at(place)
    async with Flight().flying(output):
        await until(lambda: output.status.state is ComponentState.WAITING)
        assert place in output.status.report().reason
        assert not sink.wanted("rgb", "compensated")
        for _ in range(2):
            with opened(mode="router", listen__endpoints=[place]) as there:
                seen: list[object] = []
                subscriber = there.declare_subscriber("0/vil/drone/odom/**", seen.append)
                await until(functools.partial(has, seen, 3))
                await until(lambda: output.status.state is ComponentState.RUNNING)
                subscriber.undeclare()
            await until(lambda: output.status.state is ComponentState.WAITING)


async def test_a_lost_body_is_not_told() -> None:
    flight = Flight()
    flight.film()
    with router() as place, reader(place) as read:
        output, _ = output_at(place)
        running = asyncio.create_task(output.run(flight.world))
        await until(lambda: output.status.state is ComponentState.RUNNING)
        flight.film(tracked=False)
        flight.feel()
        await until(lambda: read.of("vil/drone/imu/data_raw", ros_types.Imu))
        assert not read.of("vil/drone/odom", ros_types.Odometry)
        flight.film()
        await until(lambda: read.of("vil/drone/odom", ros_types.Odometry))
        running.cancel()
        await asyncio.wait([running])
        output.close()


async def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(
        SinkError, match="front has no compensated rgb or gray pictures; it offers depth"
    ):
        Ros2Output("ros", Ros2Config(variant="compensated")).frame_sink(
            replace(INFO, offers={"depth": ("raw",)})
        )
    with pytest.raises(ValueError, match="must not become one"):
        Ros2Config(actors=("a-b", "a_b"))
    with pytest.raises(ValueError, match="tcp/HOST:PORT"):
        Ros2Config(connect=("localhost",))
    for there in (
        {"connect": ("tcp/10.0.0.1:7447",)},
        {"listen": ("tcp/0.0.0.0:0",)},
        {"multicast": True},
    ):
        with pytest.raises(ValueError, match="insecure: true"):
            Ros2Config.model_validate(there)
        Ros2Config.model_validate(there | {"insecure": True})
