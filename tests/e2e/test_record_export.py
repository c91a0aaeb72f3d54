"""A recording in other programs' formats, read by other programs."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from evo.core import sync
from evo.tools import file_interface
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from msgspec import structs
from rosbags.highlevel import AnyReader
from rosbags.interfaces import QosDurability
from rosbags.typesys import Stores, get_typestore

from tests.support.record import picture
from vil_bridge import registry
from vil_bridge.assembly.recorded import recorded_config, recording_metadata
from vil_bridge.config.load import load
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.errors import ConfigError, RecordingError
from vil_bridge.core.geometry import q_rotate
from vil_bridge.core.types import ImuSample, SkeletonFrame, SkeletonModel, SourceFrame
from vil_bridge.offline.export import export
from vil_bridge.recording.export import FORMATS
from vil_bridge.recording.export.images import decoded
from vil_bridge.recording.reader import Recording
from vil_bridge.recording.recorder import Recorder

CONFIG = """
version: 1
rooms: {lab: {T_world_room: {p_m: [10.0, 0.0, 0.0], ypr_deg: [90.0, 0.0, 0.0]}}}
sources:
  mocap: {type: motion-file, room: lab, path: none.txt, format: tum, subject: body}
  imu: {type: mavlink-imu, device: /dev/null}
actors: {drone: {kind: vehicle, source: mocap, subject: body, imu: imu,
    T_body_imu: {p_m: [0.1, 0.0, 0.0]}}}
renderers: {drawn: {type: flightgoggles}}
cameras:
  front:
    actor: drone
    renderer: drawn
    width_px: 32
    height_px: 24
    stereo_baseline_m: 0.2
    T_body_camera: {p_m: [0.2, 0.1, 0.0]}
  still: {renderer: drawn, width_px: 32, height_px: 24, T_body_camera: {p_m: [-3.0, 0.0, 1.5]}}
"""
POSES = 300
PERIOD_NS = 10_000_000


def on_the_circle(i: int) -> tuple[list[float], list[float]]:
    """A metre around the room's origin, half a turn in 3 s, nose along the path."""
    a = math.pi * i / POSES
    turned = 0.5 * (a + math.pi / 2)
    return [math.cos(a), math.sin(a), 1.0], [0.0, 0.0, math.sin(turned), math.cos(turned)]


@pytest.fixture(scope="module")
def flight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flight")
    (folder / "bridge.yaml").write_text(CONFIG)
    (folder / "none.txt").write_text("0 0 0 0 0 0 0 1\n")
    config = load(folder / "bridge.yaml", env={}, resolve=registry.resolve)
    facts = recording_metadata(config, WallClock.of_run().offset_ns)
    begin_ns = now_ns() - POSES * PERIOD_NS
    recorder = Recorder(
        folder / "flight.mcap", facts, lambda event: getattr(event, "t_arrival_ns", None)
    )
    for i in range(POSES):
        t_ns = begin_ns + i * PERIOD_NS
        p_m, q_xyzw = on_the_circle(i)
        seen = np.array([i != 150])  # once nobody saw it
        recorder.queue.enqueue_event(
            SourceFrame(
                "mocap", i, t_ns, t_ns, ("body",), np.array([p_m]), np.array([q_xyzw]), seen
            )
        )
        recorder.queue.enqueue_event(
            ImuSample("imu", t_ns, t_ns + 5, np.array([0.0, 0.0, 1.0]), np.array([0, 0, 9.8]))
        )
    for i in range(4):
        for camera in ("front", "front_right"):
            waiting = picture(i, "raw")._replace(camera=camera)
            waiting.header.camera, waiting.header.width, waiting.header.height = camera, 32, 24
            recorder.queue.enqueue_picture(waiting)
    recorder.stop(30.0)
    return folder / "flight.mcap"


def test_evo_reads_the_euroc_folder_and_agrees_with_tum(flight: Path, tmp_path: Path) -> None:
    told = export(flight, "euroc", tmp_path / "euroc")
    export(flight, "tum", tmp_path / "tum")
    mav = tmp_path / "euroc" / "drone" / "mav0"
    imu = file_interface.read_euroc_csv_trajectory(
        str(mav / "state_groundtruth_estimate0" / "data.csv")
    )
    body = file_interface.read_tum_trajectory_file(str(tmp_path / "tum" / "drone.txt"))
    assert told["drone/state_groundtruth_estimate0"] == imu.num_poses == POSES - 3
    assert body.num_poses == POSES - 1
    body.timestamps, imu.timestamps = (
        body.timestamps - body.timestamps[0],
        imu.timestamps - body.timestamps[0],
    )
    body, imu = sync.associate_trajectories(body, imu, max_diff=1e-4)
    assert imu.num_poses == POSES - 3
    apart = np.linalg.norm(imu.positions_xyz - body.positions_xyz, axis=1)
    # The IMU sits 0.1 m ahead of the body's origin.
    np.testing.assert_allclose(apart, 0.1, atol=1e-9)
    p_m, _ = on_the_circle(1)
    np.testing.assert_allclose(body.positions_xyz[0], (10.0 - p_m[1], p_m[0], p_m[2]), atol=1e-9)


def test_the_euroc_folder_holds_speed_samples_and_pictures(flight: Path, tmp_path: Path) -> None:
    export(flight, "euroc", tmp_path / "euroc")
    mav = tmp_path / "euroc" / "drone" / "mav0"
    truth = np.loadtxt(mav / "state_groundtruth_estimate0" / "data.csv", delimiter=",", skiprows=1)
    speed = np.linalg.norm(truth[:, 8:11], axis=1)
    np.testing.assert_allclose(speed, math.pi / 3 * math.hypot(1.0, 0.1), rtol=1e-3)
    assert len(np.loadtxt(mav / "imu0" / "data.csv", delimiter=",", skiprows=1)) == POSES
    rows = list(csv.reader((mav / "cam0" / "data.csv").read_text().splitlines()))[1:]
    assert len(rows) == 4
    drawn = cv2.imread(str(mav / "cam0" / "data" / rows[3][1]), cv2.IMREAD_GRAYSCALE)
    assert drawn is not None
    assert drawn.shape == (24, 32)
    assert float(drawn.mean()) == pytest.approx(3, abs=2)
    assert "T_BS" in (mav / "cam0" / "sensor.yaml").read_text()


def test_a_ros_2_reader_reads_the_bag(flight: Path, tmp_path: Path) -> None:
    told = export(flight, "ros2", tmp_path / "bag")
    (file,) = (tmp_path / "bag").glob("*.mcap")
    found: dict[str, list[object]] = {}
    with file.open("rb") as opened:
        for decoded in make_reader(
            opened, decoder_factories=[DecoderFactory()]
        ).iter_decoded_messages():
            found.setdefault(decoded.channel.topic, []).append(decoded.decoded_message)
    assert {topic: len(messages) for topic, messages in found.items()} == dict(told)
    odometry = found["/drone/odom"][0]
    p_m, _ = on_the_circle(1)
    position = odometry.pose.pose.position  # type: ignore[attr-defined]
    assert (position.x, position.y) == pytest.approx((10.0 - p_m[1], p_m[0]))
    assert odometry.twist.twist.linear.x == pytest.approx(math.pi / 3, rel=1e-3)  # type: ignore[attr-defined]
    assert {
        "/tf",
        "/drone/imu/data_raw",
        "/front/image_raw/compressed",
        "/front/camera_info",
    } <= set(found)
    (right,) = {info.p[3] / info.p[0] for info in found["/front_right/camera_info"]}  # type: ignore[attr-defined]
    assert right == pytest.approx(-0.2)


def test_the_bag_tells_where_cameras_and_imu_sit_to_those_who_come_late(
    flight: Path, tmp_path: Path
) -> None:
    export(flight, "ros2", tmp_path / "bag")
    with AnyReader([tmp_path / "bag"], default_typestore=get_typestore(Stores.ROS2_JAZZY)) as bag:
        ((connection, _, data),) = bag.messages(
            [c for c in bag.connections if c.topic == "/tf_static"]
        )
        offered = connection.ext.offered_qos_profiles[0]  # type: ignore[union-attr]
        assert offered.durability is QosDurability.TRANSIENT_LOCAL
        told: Any = bag.deserialize(data, connection.msgtype)
    links = {
        (link.header.frame_id, link.child_frame_id): link.transform for link in told.transforms
    }
    body = "drone/base_link"
    assert set(links) == {
        *((body, child) for child in ("front_optical", "front_right_optical", "drone/imu_link")),
        ("world", "still_optical"),
    }
    front, imu = links[body, "front_optical"], links[body, "drone/imu_link"]
    assert (front.translation.x, front.translation.y, imu.translation.x) == pytest.approx(
        (0.2, 0.1, 0.1)
    )
    turned = front.rotation.x, front.rotation.y, front.rotation.z, front.rotation.w
    np.testing.assert_allclose(
        q_rotate(np.array(turned), np.array([0.0, 0.0, 1.0])), (1.0, 0.0, 0.0), atol=1e-12
    )


def test_the_bag_follows_a_camera_that_was_moved(flight: Path, tmp_path: Path) -> None:
    with Recording(flight) as recording:
        facts = recording_metadata(recorded_config(recording), recording.utc_offset_ns)
    path = tmp_path / "moved.mcap"
    recorder = Recorder(path, facts, lambda _event: None)
    begin_ns = now_ns() + 1
    for i in range(6):
        waiting = picture(i, "raw")
        header = structs.replace(waiting.header, width=32, height=24, t_display_ns=begin_ns + i)
        if i >= 3:
            header.T_body_camera = {"p_m": [0.0, 0.0, 0.5 + i // 5], "ypr_deg": [90.0, 0.0, 0.0]}
        recorder.queue.enqueue_picture(waiting._replace(header=header))
    recorder.stop(30.0)
    written = export(path, "ros2", tmp_path / "bag")
    with AnyReader([tmp_path / "bag"], default_typestore=get_typestore(Stores.ROS2_JAZZY)) as bag:
        read: list[tuple[int, Any]] = [
            (t_ns, bag.deserialize(data, connection.msgtype))
            for connection, t_ns, data in bag.messages(
                [c for c in bag.connections if c.topic == "/tf_static"]
            )
        ]
        pictures = bag.messages(
            [c for c in bag.connections if c.topic == "/front/image_raw/compressed"]
        )
        messages: list[Any] = [
            bag.deserialize(data, connection.msgtype) for connection, _, data in pictures
        ]
    shown = [message.header.stamp for message in messages]
    stamps = [stamp.sec * 10**9 + stamp.nanosec - facts.utc_offset_ns - begin_ns for stamp in shown]
    assert stamps == list(range(6)), "Unix time of the instant that each shows"
    assert written["/tf_static"] == len(read) == 3
    places: list[Any] = []
    for _, message in read:
        (front,) = [
            link.transform for link in message.transforms if link.child_frame_id == "front_optical"
        ]
        places.append(front)
        assert len(message.transforms) == 4
    assert [place.translation.z for place in places] == [0.0, 0.5, 1.5]
    assert [t_ns - facts.utc_offset_ns - begin_ns for t_ns, _ in read[1:]] == [3, 5]
    turned = [getattr(places[-1].rotation, axis) for axis in "xyzw"]
    np.testing.assert_allclose(
        q_rotate(np.array(turned), np.array([0.0, 0.0, 1.0])), (0.0, 1.0, 0.0), atol=1e-12
    )


def test_a_mount_that_is_none_is_refused(flight: Path, tmp_path: Path) -> None:
    with Recording(flight) as recording:
        facts = recording_metadata(recorded_config(recording), recording.utc_offset_ns)
    recorder = Recorder(tmp_path / "broken.mcap", facts, lambda _event: None)
    waiting = picture(1, "raw")
    header = structs.replace(waiting.header, width=32, height=24, T_body_camera={"p_m": [1.0]})
    recorder.queue.enqueue_picture(waiting._replace(header=header))
    recorder.stop(30.0)
    with pytest.raises(RecordingError, match="a picture of front has a damaged mount"):
        export(tmp_path / "broken.mcap", "ros2", tmp_path / "bag")


def test_tables_and_pictures(flight: Path, tmp_path: Path) -> None:
    assert export(flight, "csv", tmp_path / "csv") == {"drone.csv": POSES - 1, "imu.imu.csv": POSES}
    rows = list(csv.DictReader((tmp_path / "csv" / "drone.csv").read_text().splitlines()))
    with Recording(flight) as recording:
        first = next(recording.events())
        assert isinstance(first, SourceFrame)
        assert int(rows[0]["t_utc_ns"]) == first.t_arrival_ns + recording.utc_offset_ns
    assert export(flight, "png", tmp_path / "png") == {"front-raw": 4, "front_right-raw": 4}
    drawn = cv2.imread(str(tmp_path / "png" / "front-raw" / "2.png"))
    assert drawn is not None
    assert drawn.shape == (24, 32, 3)


def test_names_of_bones_are_text_in_tables(tmp_path: Path) -> None:
    """Peers choose them: a comma adds no column, a formula is not run."""
    human = CONFIG.replace(
        "actors: {", "actors: {person: {kind: human, source: mocap, subject: Actor}, "
    )
    (tmp_path / "bridge.yaml").write_text(human)
    (tmp_path / "none.txt").write_text("0 0 0 0 0 0 0 1\n")
    facts = recording_metadata(load(tmp_path / "bridge.yaml", env={}, resolve=registry.resolve), 0)
    recorder = Recorder(
        tmp_path / "human.mcap", facts, lambda event: getattr(event, "t_arrival_ns", None)
    )
    model = SkeletonModel(
        "Actor", ("Hip,Left", "=cmd()"), (-1, 0), np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.7]])
    )
    still, both = np.repeat([[0.0, 0.0, 0.0, 1.0]], 2, axis=0), np.ones(2, dtype=np.bool_)
    person = SkeletonFrame(model, np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.7]]), still, both)
    empty = np.empty((0, 3)), np.empty((0, 4)), np.empty(0, dtype=np.bool_)
    recorder.queue.enqueue_event(SourceFrame("mocap", 1, None, now_ns(), (), *empty, (person,)))
    recorder.stop(30.0)
    export(tmp_path / "human.mcap", "csv", tmp_path / "csv")
    rows = list(csv.DictReader((tmp_path / "csv" / "person-bones.csv").read_text().splitlines()))
    assert [row["bone"] for row in rows] == ["Hip,Left", "'=cmd()"]
    assert [float(row["z_m"]) for row in rows] == [1.0, 1.7] and None not in rows[0]


def test_a_picture_of_another_size_than_it_says_is_refused_before_it_is_decoded(
    flight: Path,
) -> None:
    with Recording(flight) as recording:
        header, jpeg = next(recording.pictures("front", "raw"))
        huge = bytearray(jpeg)
        at = huge.index(b"\xff\xc0") + 5  # rows and columns in the frame's header
        huge[at : at + 4] = b"\xff\xdc\xff\xdc"
        for broken in (bytes(huge), jpeg[:20], b""):
            with pytest.raises(RecordingError, match="picture 0 cannot be decoded"):
                decoded(recording, header, broken, cv2.IMREAD_COLOR)


@pytest.mark.parametrize("kind", FORMATS)
def test_an_export_never_replaces_files(flight: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "precious").write_text("precious")
    with pytest.raises(ConfigError, match="not empty"):
        export(flight, kind, tmp_path)
    assert (tmp_path / "precious").read_text() == "precious"
