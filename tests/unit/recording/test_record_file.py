"""Recordings: exact, readable by others, and honest when cut short or damaged."""

from __future__ import annotations

import logging
import os
import struct
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import simplejpeg
from foxglove_schemas_protobuf.CameraCalibration_pb2 import CameraCalibration
from foxglove_schemas_protobuf.Log_pb2 import Log
from foxglove_schemas_protobuf.PoseInFrame_pb2 import PoseInFrame
from foxglove_schemas_protobuf.PosesInFrame_pb2 import PosesInFrame
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from mcap.opcode import Opcode
from mcap.reader import make_reader

from tests.support.common import wait_until
from tests.support.record import FACTS, frame_at, picture, record, recorder, same, some_events
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import RecordingError
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import (
    ClockExchange,
    FloatArray,
    ImuSample,
    SourceEvent,
    SourceFrame,
    SourceReset,
)
from vil_bridge.recording.event_codec import EventEncoder
from vil_bridge.recording.mcap_writer import McapFile
from vil_bridge.recording.message_writer import MessageWriter
from vil_bridge.recording.reader import Recording
from vil_bridge.recording.recorder import Recorder
from vil_bridge.recording.write_queue import LogLine, WriteQueue


def test_every_event_comes_back_to_the_bit_in_the_order_of_arrival(tmp_path: Path) -> None:
    events = some_events(120)
    told = record(tmp_path / "a.mcap", events).report()
    assert (told.state, told.lost) == ("done", {})
    with Recording(tmp_path / "a.mcap") as recording:
        assert not recording.truncated
        assert (recording.bridge, recording.version, recording.config_text) == (
            "test",
            "1.2.3",
            "version: 1\n",
        )
        read = list(recording.events())
        stamped = list(recording.stamped_events())
    assert len(read) == len(events)
    assert all(same(a, b) for a, b in zip(events, read, strict=True))
    assert [s.t_capture_ns for s in stamped] == [getattr(e, "t_arrival_ns", None) for e in events]
    frames = [e for e in read if isinstance(e, SourceFrame)]
    assert len({id(f.skeletons[0].model) for f in frames}) == 1
    assert len({id(f.subjects) for f in frames}) == 1


def test_stored_events_have_the_layout_that_other_versions_read() -> None:
    """As read by msgpack alone."""
    frame, zeros = frame_at(3, 500), np.zeros(3)
    (shown,), markers = frame.skeletons, frame.markers
    assert markers is not None
    events: list[SourceEvent] = [
        frame,
        ImuSample("imu", None, 500, zeros, zeros),
        SensorReadings("sim", "pressure", "barometer", 480, 500, ("a", "b"), np.zeros((2, 3))),
        ClockExchange("mocap", 400, 7, 500),
        SourceReset("imu", "restarted", clock=False),
        SourceReset("imu", "put elsewhere", clock=False, subjects=("drone", "car")),
    ]
    encode = EventEncoder().encode
    assert [msgspec.msgpack.decode(data) for event in events for data in encode(event, 450)] == [
        ["skeleton", 0, "Actor", ["hip", "head"], [-1, 0], stored(shown.model.offsets_m), 1.05],
        [
            *("frame", 3, 7_000_000_500, 500, 450, 1_500_000, ["body", "wand"]),
            *(stored(frame.p_m), stored(frame.q_xyzw), b"\1\0"),
            [[0, stored(shown.p_m), stored(shown.q_xyzw), b"\1\1"]],
            [["body/1", ""], stored(markers.p_m), b"\1\0"],
        ],
        ["imu", None, 500, 450, bytes(24), bytes(24)],
        ["sensor", "pressure", "barometer", 480, 500, ["a", "b"], bytes(48), []],
        ["clock", 400, 7, 500],
        ["reset", "restarted", False, []],
        ["reset", "put elsewhere", False, ["drone", "car"]],
    ]


def test_readings_of_sensors_come_back_and_are_shown_by_vehicle(tmp_path: Path) -> None:
    t_ns = now_ns()
    values = np.array([[1.0, 2.0, 1013.25], [3.0, 4.0, 1013.25]])
    event = SensorReadings("sim", "baro", "barometer", t_ns, t_ns, ("a", "b"), values)
    record(tmp_path / "a.mcap", [event])
    with Recording(tmp_path / "a.mcap") as recording:
        (read,) = recording.events()
    assert same(read, event)
    with (tmp_path / "a.mcap").open("rb") as file:
        ((schema, _, message),) = make_reader(file).iter_messages(topics="/sensors/sim/b/baro")
    assert schema is not None
    assert (schema.name, message.publish_time) == (
        "vil.BarometerReading",
        t_ns + FACTS.utc_offset_ns,
    )
    assert msgspec.json.decode(schema.data)["properties"]["pressure_pa"] == {"type": "number"}
    shown = msgspec.json.decode(message.data)
    assert (shown["t_ns"], shown["altitude_m"], shown["pressure_pa"], shown["qnh_hpa"]) == (
        t_ns,
        3.0,
        4.0,
        1013.25,
    )


def test_samples_and_poses_are_published_at_their_capture_and_logged_at_their_arrival(
    tmp_path: Path,
) -> None:
    recording = Recorder(
        tmp_path / "a.mcap", FACTS, lambda event: getattr(event, "t_arrival_ns", 0) - 5_000_000
    )
    t_ns = now_ns()
    recording.queue.enqueue_event(frame_at(1, t_ns))
    recording.queue.enqueue_event(ImuSample("imu", None, t_ns, np.ones(3), np.ones(3)))
    recording.stop(30.0)
    topics = ("/imu/imu", "/actors/drone/pose", "/actors/human/skeleton", "/tf")
    with (tmp_path / "a.mcap").open("rb") as file:
        found = {
            channel.topic: message
            for _, channel, message in make_reader(file).iter_messages(topics=topics)
        }
    assert set(found) == set(topics)
    for message in found.values():
        assert message.publish_time == t_ns - 5_000_000 + FACTS.utc_offset_ns
        assert message.log_time >= t_ns + FACTS.utc_offset_ns
    assert (
        msgspec.json.decode(found["/imu/imu"].data)["timestamp"]
        == found["/imu/imu"].publish_time / NS_PER_S
    )


def test_controls_of_different_modes_come_back_with_their_modes(tmp_path: Path) -> None:
    t_ns = now_ns()
    values = np.array([[1.0, 2.0, 3.0], [4.0, np.nan, np.nan]])
    event = SensorReadings(
        "sim", "u", "controls", t_ns, t_ns, ("a", "b"), values, ("rates", "speed")
    )
    rotors = SensorReadings(
        "sim", "rotors", "rotors", t_ns, t_ns, ("a",), np.array([[1.0, -0.1, 500.0] * 4])
    )
    beacons = SensorReadings(
        "sim", "uwb", "beacons", t_ns, t_ns, ("a",), np.array([[1.0, 2.0, 3.0, 7.5]]), ("tag",)
    )
    record(tmp_path / "a.mcap", [event, rotors, beacons])
    with Recording(tmp_path / "a.mcap") as recording:
        read = list(recording.events())
    assert all(same(a, b) for a, b in zip(read, (event, rotors, beacons), strict=True))
    with (tmp_path / "a.mcap").open("rb") as file:
        topics = ("/sensors/sim/b/u", "/sensors/sim/a/rotors", "/sensors/sim/a/uwb")
        shown = {
            c.topic: msgspec.json.decode(m.data)
            for _, c, m in make_reader(file).iter_messages(topics=topics)
        }
    assert (shown[topics[0]]["mode"], shown[topics[0]]["values"]) == ("speed", [4.0])
    assert shown[topics[1]]["speeds_radps"] == [500.0] * 4
    assert shown[topics[1]]["torques_nm"] == [-0.1] * 4
    assert (shown[topics[2]]["names"], shown[topics[2]]["places_m"]) == (["tag"], [[1.0, 2.0, 3.0]])
    assert shown[topics[2]]["ranges_m"] == [7.5]


def stored(values: FloatArray) -> bytes:
    return values.astype("<f8").tobytes()


def test_skeletons_of_two_people_are_their_own(tmp_path: Path) -> None:
    def shown(number: int) -> SourceFrame:
        frame = frame_at(number, now_ns())
        skeleton = frame.skeletons[0]
        model = replace(skeleton.model, name=f"person {number % 2}")
        return replace(frame, skeletons=(replace(skeleton, model=model),))

    events: list[SourceEvent] = [shown(number) for number in range(4)]
    record(tmp_path / "a.mcap", events)
    with Recording(tmp_path / "a.mcap") as recording:
        assert all(same(a, b) for a, b in zip(events, recording.events(), strict=True))


def test_nonsense_that_a_source_may_tell_is_kept_or_counted(tmp_path: Path) -> None:
    nan, huge = some_events(1)[0], some_events(1)[0]
    assert isinstance(nan, SourceFrame)
    assert isinstance(huge, SourceFrame)
    nan.p_m[0] = (np.nan, np.inf, -0.0)
    nan.t_foreign_ns = -(1 << 63)
    huge.t_foreign_ns = 1 << 70
    told = record(tmp_path / "a.mcap", [nan, huge]).report()
    assert told.state == "done"
    assert told.lost == {"/vil/events/mocap": 1}
    with Recording(tmp_path / "a.mcap") as recording:
        (read,) = recording.events()
        assert same(read, nan)
        assert recording.lost() == {"/vil/events/mocap": 1}


def test_a_skeleton_first_shown_by_a_frame_that_no_file_holds_is_told_by_the_next_one(
    tmp_path: Path,
) -> None:
    huge, good = (e for e in some_events(2) if isinstance(e, SourceFrame))
    huge.t_foreign_ns = 1 << 70
    told = record(tmp_path / "a.mcap", [huge, good]).report()
    assert (told.state, told.lost) == ("done", {"/vil/events/mocap": 1})
    with Recording(tmp_path / "a.mcap") as recording:
        (read,) = recording.events()
    assert same(read, good)


def test_a_log_line_that_names_a_file_of_no_text_ends_no_recording(tmp_path: Path) -> None:
    line = f"recording into {os.fsdecode(b'caf' + bytes([0xE9]))}"
    with recorder(tmp_path / "a.mcap") as recording:
        recording.queue.enqueue_line(LogLine(now_ns(), logging.INFO, "test", line))
    assert recording.report().state == "done"
    with (tmp_path / "a.mcap").open("rb") as file:
        ((_, _, message),) = make_reader(file).iter_messages(topics="/log")
    assert Log.FromString(message.data).message == "recording into caf\\udce9"


def test_events_that_wait_are_20_000_and_further_ones_are_counted() -> None:
    queue = WriteQueue()
    events = [SourceReset("imu", str(number)) for number in range(20_002)]
    for event in events:
        queue.enqueue_event(event)
    assert [event for _, event in queue.events()] == events[:20_000]
    assert queue.lost == {"/vil/events/imu": 2}


def test_log_lines_that_find_no_room_are_counted_and_the_newest_are_kept() -> None:
    queue = WriteQueue()
    for number in range(1500):
        queue.enqueue_line(LogLine(number, logging.INFO, "test", "a line"))
    assert [line.t_ns for line in queue.lines()] == list(range(500, 1500))
    assert queue.lost == {"/log": 500}
    assert not queue.waiting


def test_pictures_that_wait_take_64_mib_and_the_oldest_make_room() -> None:
    queue, size = WriteQueue(), (1024, 1024)  # 3 MiB each
    for frame_id in range(25):
        queue.enqueue_picture(picture(frame_id, size=size))
    waiting = []
    while (found := queue.picture()) is not None:
        waiting.append(found)
    assert [found.header.frame_id for found in waiting] == list(range(4, 25))
    assert sum(found.pixels.nbytes for found in waiting) == 63 << 20
    assert queue.lost.total() == 4
    # Alone it is beyond the limit, and must not be lost.
    queue.enqueue_picture(picture(30, size=(8192, 4096)))
    found = queue.picture()
    assert found is not None and found.pixels.nbytes == 96 << 20


def test_bodies_that_come_in_turn_are_all_shown(tmp_path: Path) -> None:
    """As trackers of VRPN come: each frame tells of some of them."""
    t_ns = now_ns()
    here, both = (
        np.zeros((1, 3)),
        (replace(FACTS.actors[0], name=name, subject=name) for name in ("one", "two")),
    )
    q_xyzw, seen = np.array([[0.0, 0.0, 0.0, 1.0]]), np.array([True])
    recording = Recorder(
        tmp_path / "a.mcap", replace(FACTS, actors=tuple(both)), lambda _event: t_ns
    )
    for i, name in enumerate(("one", "two")):
        recording.queue.enqueue_event(
            SourceFrame("mocap", i, None, t_ns, (name,), here, q_xyzw, seen)
        )
    recording.stop(30.0)
    with (tmp_path / "a.mcap").open("rb") as file:
        shown = {channel.topic for _, channel, _ in make_reader(file).iter_messages()}
    assert {"/actors/one/pose", "/actors/two/pose"} <= shown


@pytest.mark.parametrize(("rate_hz", "shown"), [(60.0, 60), (62.5, 31), (120.0, 60), (240.0, 60)])
def test_of_an_actor_at_most_60_poses_a_second_are_shown(
    tmp_path: Path, rate_hz: float, shown: int
) -> None:
    file, t0_ns = McapFile(tmp_path / "a.mcap"), now_ns()
    file.start()
    transcript = MessageWriter(file, FACTS, lambda _event: t0_ns)
    for i in range(int(rate_hz)):
        transcript.event(t0_ns + round(i * 1e9 / rate_hz), frame_at(i, t0_ns))
    file.finish()
    with (tmp_path / "a.mcap").open("rb") as written:
        assert (
            sum(1 for _ in make_reader(written).iter_messages(topics="/actors/drone/pose")) == shown
        )


def test_pictures_come_back_with_their_headers(tmp_path: Path) -> None:
    with recorder(tmp_path / "a.mcap") as recording:
        for i in range(5):
            recording.queue.enqueue_picture(picture(10 * i, "compensated"))
            recording.queue.enqueue_picture(picture(10 * i, "raw"))
    with Recording(tmp_path / "a.mcap") as read:
        assert read.cameras() == {"front": ("compensated", "raw")}
        found = list(read.pictures("front", "raw"))
        assert len(list(read.pictures("front"))) == 10
    assert [header["frame_id"] for header, _ in found] == [0, 10, 20, 30, 40]
    assert {header["variant"] for header, _ in found} == {"raw"}
    brightness = [float(simplejpeg.decode_jpeg(jpeg).mean()) for _, jpeg in found]
    assert brightness == pytest.approx([0, 10, 20, 30, 40], abs=2)


def test_others_read_it(tmp_path: Path) -> None:
    """The library's own reader and Foxglove's schemas, as Foxglove and PlotJuggler use them."""
    record(tmp_path / "a.mcap", some_events(3), pictures=1)
    found: dict[str, list[bytes]] = {}
    with (tmp_path / "a.mcap").open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        for schema, channel, message in reader.iter_messages():
            found.setdefault(channel.topic, []).append(message.data)
            if schema is not None and schema.encoding == "protobuf":
                described = FileDescriptorSet.FromString(schema.data)
                names = [f"{f.package}.{m.name}" for f in described.file for m in f.message_type]
                assert schema.name in names
    assert summary is not None
    assert summary.statistics is not None
    assert summary.statistics.message_count == sum(map(len, found.values()))
    pose = PoseInFrame.FromString(found["/actors/drone/pose"][0])
    frame = some_events(1)[0]
    assert isinstance(frame, SourceFrame)
    at = (pose.pose.position.x, pose.pose.position.y, pose.pose.position.z)
    assert at == pytest.approx(frame.p_m[0] + FACTS.actors[0].T_world_room.p_m)
    assert pose.frame_id == "world"
    assert len(PosesInFrame.FromString(found["/actors/human/skeleton"][0]).poses) == 2
    calibration = CameraCalibration.FromString(found["/cameras/front/compensated/calibration"][0])
    assert (calibration.width, calibration.K[2], calibration.K[5]) == (32, 15.5, 11.5)
    assert {"/tf", "/imu/imu", "/cameras/front/compensated"} <= set(found)


def test_a_file_cut_anywhere_reads_up_to_its_last_whole_chunk(tmp_path: Path) -> None:
    events = some_events(40)
    path = tmp_path / "a.mcap"
    with recorder(path) as recording:
        for i in range(4):  # four chunks at least
            for event in events[i * 20 : i * 20 + 20]:
                recording.queue.enqueue_event(event)
            size = path.stat().st_size
            wait_until(lambda size=size: path.stat().st_size > size)  # type: ignore[misc]
    whole = path.read_bytes()
    counts = []
    for cut in range(len(whole) - 1, 8, -max(1, len(whole) // 50)):
        path.write_bytes(whole[:cut])
        try:
            with Recording(path) as read:
                counts.append(len(list(read.events())))
                assert all(same(a, b) for a, b in zip(events, read.events(), strict=False))
                assert read.truncated or counts[-1] == counts[0]
        except RecordingError as exc:
            assert str(path) in str(exc)  # not even its metadata are whole
    assert counts[0] == 80
    assert sorted(counts, reverse=True) == counts
    assert len(set(counts)) >= 4


def test_a_damaged_file_is_told_and_nothing_else_happens(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    record(path, some_events(60), pictures=2)
    whole, noise = path.read_bytes(), np.random.default_rng(7)
    told = 0
    for _ in range(150):
        broken = bytearray(whole)
        for at in noise.integers(0, len(whole), size=3).tolist():
            broken[at] = int(noise.integers(0, 256))
        path.write_bytes(broken)
        try:
            with Recording(path) as read:
                list(read.events()), list(read.pictures("front")), list(read.ledger())
        except RecordingError as exc:
            told += 1
            assert str(path) in str(exc)
    assert told > 50


def test_zeros_behind_a_power_cut_are_no_records(tmp_path: Path) -> None:
    """A file system may give back the size of a file whose last blocks never reached the disk."""
    path = tmp_path / "a.mcap"
    record(path, some_events(3))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 4000)
        file.truncate(1 << 40)
    with Recording(path) as read:
        assert read.truncated


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an MCAP recording"),
        (b"nonsense" * 9, "not an MCAP recording"),
        (b"\x89MCAP0\r\n", "not a recording of a VIL Bridge"),
    ],
)
def test_what_is_no_recording_says_so(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=words):
        Recording(path)


@pytest.mark.parametrize(
    ("size", "words"),
    [(16 << 20, "not a recording of a VIL Bridge"), ((16 << 20) + 1, "metadata of 16777217 bytes")],
)
def test_metadata_of_more_than_16_mib_are_not_read(tmp_path: Path, size: int, words: str) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(b"\x89MCAP0\r\n" + struct.pack("<BQ", Opcode.METADATA, size))
    os.truncate(path, path.stat().st_size + size)
    with pytest.raises(RecordingError, match=words):
        Recording(path)


def test_a_recording_never_replaces_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.mcap").write_text("precious")
    with pytest.raises(RecordingError, match="exists"), recorder(tmp_path / "a.mcap"):
        pass
    assert (tmp_path / "a.mcap").read_text() == "precious"
