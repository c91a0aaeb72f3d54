"""Readings of sensors in the exports of a recording, read by other programs."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from vil_bridge import registry
from vil_bridge.assembly.recorded import recording_metadata
from vil_bridge.config.load import load_text
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.geometry import q_rotate
from vil_bridge.core.sensor_readings import SensorKind, SensorReadings
from vil_bridge.core.types import FloatArray
from vil_bridge.offline.export import export
from vil_bridge.recording.recorder import Recorder

CONFIG = """
version: 1
rooms: {hall: {T_world_room: {p_m: [10.0, 0.0, 0.0], ypr_deg: [90.0, 0.0, 0.0]}}}
sources:
  sim:
    type: simulated
    room: hall
    contact: {scene: empty}
    vehicles:
      quad:
        model: flightgoggles
        sensors:
          imu2: {type: imu, preset: mpu6000, rate_hz: 100,
              parameters: {mounting: {p_body_m: [0.1, 0, 0]}}}
          baro: {type: barometer, preset: ms5611}
          compass: {type: magnetometer}
          gps: {type: gps}
          rotors: {type: rotors}
          stick: {type: controls}
          around: {type: distance, parameters: {beams_deg: [[0, -90], [90, 0]], max_m: 30}}
          uwb: {type: beacons, parameters: {beacons: {a: [1, 2, 3], b: [4, 5, 6]}}}
          ring: {type: lidar, parameters: {mounting: {p_body_m: [0, 0, -0.1]}}}
actors: {drone: {kind: vehicle, source: sim, subject: quad}}
"""
VALUES: dict[str, tuple[SensorKind, list[float]]] = {
    "imu2": ("imu", [0.0, 0.0, 0.0, 1.0, 0.1, -0.2, 0.3, 0.5, -0.4, 9.81]),
    "baro": ("barometer", [125.5, 99_800.25, 1013.25]),
    "compass": ("magnetometer", [4e-6, 18e-6, -50e-6]),
    "gps": ("gps", [47.6412345678, -122.14, 123.0, 0.5, 0.75, 1.0, 2.0, 3.0, 3.0]),
    "rotors": ("rotors", [2.0, 0.03, 700.0, 2.5, -0.04, 710.0]),
    "stick": ("controls", [9.81, 0.0, 0.1, 0.2]),
    "around": ("distance", [0.2, 30.0, 0.0, 0.0, 0.05, 0.0, 0.0, -1.0, 1.75, 0.0, 1.0, 0.0, 30.0]),
    "uwb": ("beacons", [1.0, 2.0, 3.0, 7.5, 4.0, 5.0, 6.0, math.nan]),
    "ring": (
        "lidar",
        [0.0, 0.0, -0.1, 0.0, 0.0, 0.0, 1.0, 1.5, -2.25, 0.125, 7.0, 0.1, 0.2, 0.3, 40_000.0],
    ),
}
SENSORS = "/drone/sensors/"


@pytest.fixture(scope="module")
def flight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Return a recording of two readings of each sensor, and the Unix time of the first ones."""
    path = tmp_path_factory.mktemp("flight") / "flight.mcap"
    facts = recording_metadata(
        load_text(CONFIG, "bridge.yaml", resolve=registry.resolve), WallClock.of_run().offset_ns
    )
    recorder = Recorder(path, facts, lambda event: getattr(event, "t_ns", None))
    begin_ns = now_ns()
    for step in range(2):
        t_ns = begin_ns + step * 10_000_000
        for name, (kind, row) in VALUES.items():
            labels = {"controls": ("rates",), "beacons": ("a,b",)}.get(kind, ())
            values = np.array([row])
            recorder.queue.enqueue_event(
                SensorReadings("sim", name, kind, t_ns, t_ns, ("quad",), values, labels)
            )
    recorder.stop(20.0)
    return path, begin_ns + facts.utc_offset_ns


def table(folder: Path, sensor: str) -> tuple[list[str], FloatArray]:
    head, *rows = csv.reader((folder / f"drone.{sensor}.csv").read_text().splitlines())
    return head, np.array(rows, dtype=np.float64)


def test_tables_have_every_number_as_it_was(flight: tuple[Path, int], tmp_path: Path) -> None:
    path, t_utc_ns = flight
    written = export(path, "csv", tmp_path / "csv")
    assert written["drone.ring.csv"] == 4 and written["drone.gps.csv"] == 2
    for sensor in ("baro", "compass", "around"):
        _, rows = table(tmp_path / "csv", sensor)
        first = rows[0, 1:].tolist()
        expected = VALUES[sensor][1]
        assert first == (expected if sensor != "around" else expected[:2] + expected[5:])
    head, rows = table(tmp_path / "csv", "gps")
    assert head[:3] == ["t_utc_ns", "latitude_deg", "longitude_deg"]
    assert rows[0, 1:6].tolist() == VALUES["gps"][1][:5]
    # The room is turned by 90 degrees in the world.
    assert rows[0, 6:9] == pytest.approx((-2.0, 1.0, 3.0))
    head, rows = table(tmp_path / "csv", "rotors")
    assert head[1:4] == ["speed_1_radps", "thrust_1_n", "torque_1_nm"]
    assert rows[1, 1:].tolist() == [700.0, 2.0, 0.03, 710.0, 2.5, -0.04]
    _, rows = table(tmp_path / "csv", "ring")
    assert rows[:2, 1:] == pytest.approx(
        np.array([[1.5, -2.25, 0.125, 7.0], [0.1, 0.2, 0.3, 40_000.0]])
    )
    text = (tmp_path / "csv" / "drone.uwb.csv").read_text().splitlines()
    assert text[0] == "t_utc_ns,beacon,x_m,y_m,z_m,range_m" and len(text) == 3
    assert text[1].startswith(f"{t_utc_ns},a,8.") and text[1].endswith(",3.0,7.5")  # in the world
    text = (tmp_path / "csv" / "drone.stick.csv").read_text().splitlines()
    assert text[:2] == ["t_utc_ns,mode,values", f"{t_utc_ns},rates,9.81 0.0 0.1 0.2"]


def read_by_rosbags(folder: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    with AnyReader([folder], default_typestore=get_typestore(Stores.ROS2_JAZZY)) as bag:
        for connection, _, data in bag.messages():
            found.setdefault(connection.topic, []).append(bag.deserialize(data, connection.msgtype))
    return found


def read_by_mcap(folder: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    (file,) = folder.glob("*.mcap")
    with file.open("rb") as opened:
        for one in make_reader(
            opened, decoder_factories=[DecoderFactory()]
        ).iter_decoded_messages():
            found.setdefault(one.channel.topic, []).append(one.decoded_message)
    return found


@pytest.mark.parametrize("read", [read_by_rosbags, read_by_mcap])
def test_ros_readers_find_the_sensors_in_the_bag(
    read: Any, flight: tuple[Path, int], tmp_path: Path
) -> None:
    path, t_utc_ns = flight
    written = export(path, "ros2", tmp_path / "bag")
    found = read(tmp_path / "bag")
    assert {topic: len(messages) for topic, messages in found.items()} == dict(written)
    assert not {f"{SENSORS}stick", f"{SENSORS}uwb"} & found.keys()  # no standard message
    first = {name: found[f"{SENSORS}{name}"][0] for name in VALUES if f"{SENSORS}{name}" in found}
    for name, message in first.items():
        stamp = message.header.stamp
        nanosec = getattr(stamp, "nanosec", None)
        assert stamp.sec * 10**9 + nanosec == t_utc_ns, name
    imu, fix, ring = first["imu2"], first["gps"], first["ring"]
    assert (imu.orientation.z, imu.orientation.w) == pytest.approx((math.sqrt(0.5), math.sqrt(0.5)))
    assert [getattr(imu.linear_acceleration, axis) for axis in "xyz"] == [0.5, -0.4, 9.81]
    assert (fix.latitude, fix.longitude, fix.altitude) == (47.6412345678, -122.14, 123.0)
    assert first["baro"].fluid_pressure == 99_800.25
    assert first["compass"].magnetic_field.z == -50e-6
    assert list(first["rotors"].velocity) == [700.0, 710.0]
    points = np.frombuffer(bytes(ring.data), [("p", "<f4", 3), ("instance", "<u4")])
    assert points["p"] == pytest.approx(np.array([[1.5, -2.25, 0.125], [0.1, 0.2, 0.3]]))
    assert points["instance"].tolist() == [7, 40_000]
    assert (ring.width, ring.point_step, [f.name for f in ring.fields]) == (
        2,
        16,
        ["x", "y", "z", "instance"],
    )
    down, left = found[f"{SENSORS}around"][:2]
    assert (down.range, left.range, down.max_range) == (1.75, math.inf, 30.0)
    check_frames(
        found["/tf_static"][0], (down.header.frame_id, left.header.frame_id), ring.header.frame_id
    )


def check_frames(places: Any, beams: tuple[str, str], ring: str) -> None:
    links = {link.child_frame_id: link for link in places.transforms}
    for beam, direction in zip(beams, ((0, 0, -1), (0, 1, 0)), strict=True):
        q = links[beam].transform.rotation
        ahead = q_rotate(np.array([q.x, q.y, q.z, q.w]), np.array([1.0, 0.0, 0.0]))
        assert ahead == pytest.approx(direction, abs=1e-12)
        assert links[beam].transform.translation.z == pytest.approx(0.05)
    assert (links[ring].header.frame_id, links[ring].transform.translation.z) == (
        "drone/base_link",
        -0.1,
    )
    assert links["drone/imu2_link"].transform.translation.x == 0.1
