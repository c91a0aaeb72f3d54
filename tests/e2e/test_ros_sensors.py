"""Sensors over ROS.

Read by an independent zenoh session with types of its own, in bags by mcap-ros2 and rosbags.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import ros_types
from tests.support.bridge_rig import build, running
from tests.support.events import until
from tests.support.outputs import fed, wall_offset_ns
from tests.support.sensor_flight import MOUNT, SENSORS, SensorFlight
from vil_bridge.core.clock import WallClock
from vil_bridge.core.sensor_readings import BarometerReading, GpsReading, SensorReading
from vil_bridge.core.types import FloatArray

zenoh = pytest.importorskip("zenoh")
pytest.importorskip("rosbags")
pytest.importorskip("mcap_ros2")

from mcap.reader import make_reader  # noqa: E402
from mcap_ros2.decoder import DecoderFactory  # noqa: E402
from rosbags.rosbag1 import Reader as Ros1Reader  # noqa: E402
from rosbags.typesys import Stores, get_typestore  # noqa: E402

from tests.support.ros_reader import HASHES, Reader, opened, reader, router  # noqa: E402
from vil_bridge.outputs.ros.bag import RosBagOutput  # noqa: E402
from vil_bridge.outputs.ros.config import Ros2Config, RosBagConfig  # noqa: E402
from vil_bridge.outputs.ros.ros2_output import Ros2Output  # noqa: E402

pytestmark = pytest.mark.wire

TYPES = {
    "imu2": ros_types.Imu,
    "baro": ros_types.FluidPressure,
    "compass": ros_types.MagneticField,
    "gps": ros_types.NavSatFix,
    "rotors": ros_types.JointState,
}


def values_of(message: Any) -> list[float]:
    """Return the numbers of a message, in the order of its reading."""
    match type(message).__name__.rpartition("__")[2]:
        case "Imu":
            q, w, f = message.orientation, message.angular_velocity, message.linear_acceleration
            return [q.x, q.y, q.z, q.w, w.x, w.y, w.z, f.x, f.y, f.z]
        case "FluidPressure":
            return [message.fluid_pressure]
        case "MagneticField":
            b = message.magnetic_field
            return [b.x, b.y, b.z]
        case "JointState":
            assert message.name == ["rotor_1", "rotor_2"] and not len(message.position)
            return [*message.velocity, *message.effort]
        case _:
            return [message.latitude, message.longitude, message.altitude]


def expected_values(sensor: str, row: FloatArray) -> list[float]:
    """The same of a row that went into the world."""
    match sensor:
        # The room's turn by 90 degrees about z, then the sensor's by 180 degrees about x.
        case "imu2":
            half = 0.5**0.5
            return [half, half, 0.0, 0.0, *row[4:10].tolist()]
        case "baro":
            return [float(row[1])]
        case "compass":
            return list(row.tolist())
        case "rotors":
            return [row[2], row[5], row[1], row[4]]
        case _:
            return list(row[:3].tolist())


def assert_is_what_was_measured(
    flight: SensorFlight, sensor: str, stamps: list[int], found: list[list[float]]
) -> None:
    """Each message is one reading, its stamp the instant of the measurement.

    In order, and none missing in between.
    """
    rows = list(flight.rows[sensor].items())
    wall_ns = wall_offset_ns()
    assert len(found) >= 5
    assert all(a < b for a, b in pairwise(stamps))
    nearest = [
        min(range(len(rows)), key=lambda i: abs(rows[i][0] + wall_ns - t_ns)) for t_ns in stamps
    ]
    assert all(
        abs(rows[i][0] + wall_ns - t_ns) < 1_000_000
        for i, t_ns in zip(nearest, stamps, strict=True)
    )
    assert [b - a for a, b in pairwise(nearest)] == [1] * (len(nearest) - 1)
    for i, values in zip(nearest, found, strict=True):
        np.testing.assert_allclose(values, expected_values(sensor, rows[i][1]), rtol=0, atol=1e-15)


async def test_every_reading_is_published_with_its_standard_message() -> None:
    flight = SensorFlight()
    with router() as place, reader(place) as read:
        output = Ros2Output("ros", Ros2Config(actors=("drone", "bare"), connect=(place,)))
        async with fed(output, flight.world, flight.measure):
            for sensor, kind in TYPES.items():
                topic = f"vil/drone/sensors/{sensor}"
                await until(
                    lambda topic=topic, kind=kind: len(read.of(topic, kind)) >= 20,  # type: ignore[misc]
                )
        for sensor, kind in TYPES.items():
            messages = read.of(f"vil/drone/sensors/{sensor}", kind)
            stamps = [m.header.t_ns for m in messages]
            assert_is_what_was_measured(flight, sensor, stamps, [values_of(m) for m in messages])
            assert {m.header.frame_id for m in messages} == {f"drone/{sensor}_link"}
            (key,) = [k for k in read.samples if f"/sensors/{sensor}/" in k]
            type_name = f"sensor_msgs::msg::dds_::{kind.__name__}_"
            assert key == f"0/vil/drone/sensors/{sensor}/{type_name}/RIHS01_{HASHES[type_name]}"
        assert_covariances(read)
        assert output.status.counters["unsent_readings"] == 0


def assert_covariances(read: Reader) -> None:
    """They are the parts' white noise, and the accuracies that the receiver reports."""
    last = {
        sensor: read.of(f"vil/drone/sensors/{sensor}", kind)[-1] for sensor, kind in TYPES.items()
    }
    gyro, accel = 8.7266e-5**2 * 100.0, last["imu2"].linear_acceleration_covariance[0]
    np.testing.assert_allclose(
        last["imu2"].angular_velocity_covariance, np.diag([gyro] * 3).ravel(), rtol=1e-3
    )
    np.testing.assert_array_equal(
        last["imu2"].linear_acceleration_covariance, np.diag([accel] * 3).ravel()
    )
    assert accel > 0.0
    assert not any(last["imu2"].orientation_covariance)
    assert last["baro"].variance == pytest.approx(2.7**2)
    np.testing.assert_allclose(
        last["compass"].magnetic_field_covariance, np.diag([0.005e-4**2] * 3).ravel()
    )
    fix = last["gps"]
    assert (fix.status.status, fix.status.service, fix.position_covariance_type) == (0, 1, 1)
    np.testing.assert_allclose(fix.position_covariance, np.diag([0.5**2, 0.5**2, 0.75**2]).ravel())


async def test_the_mounts_of_sensors_are_static_frames() -> None:
    flight = SensorFlight()
    with router() as place:
        output = Ros2Output("ros", Ros2Config(actors=("drone",), connect=(place,)))
        with opened(mode="peer", connect__endpoints=[place], timestamping__enabled=True) as session:
            async with fed(output, flight.world, flight.measure):
                got: list[Any] = []
                subscriber = zenoh.ext.declare_advanced_subscriber(
                    session,
                    "0/tf_static/**",
                    lambda s: got.append(ros_types.TFMessage.deserialize(s.payload.to_bytes())),
                    history=zenoh.ext.HistoryConfig(detect_late_publishers=True),
                )
                await until(lambda: got)
                subscriber.undeclare()
    links = {link.child_frame_id: link for link in got[0].transforms}
    assert set(links) == {f"drone/{sensor}_link" for sensor in SENSORS}
    mounted = links["drone/imu2_link"]
    assert mounted.header.frame_id == "drone/base_link"
    assert mounted.transform.translation.xyz == MOUNT["p_body_m"]
    assert mounted.transform.rotation.xyzw == MOUNT["q_body_sensor"]


async def recorded(path: Path) -> tuple[SensorFlight, Path]:
    """A bag of a short measurement."""
    flight = SensorFlight()
    output = RosBagOutput("rec", RosBagConfig(path=path, actors=("drone",)))
    async with fed(output, flight.world, flight.measure):
        await until(lambda: output.status.counters["readings"] >= 40)
    assert output.status.counters["lost"] == 0
    return flight, Path(output.status.facts["path"])


async def test_a_ros2_bag_has_every_reading(tmp_path: Path) -> None:
    flight, path = await recorded(tmp_path / "run")
    messages: dict[str, list[Any]] = {sensor: [] for sensor in SENSORS}
    with (path / "run.mcap").open("rb") as stream:
        for sent in make_reader(
            stream, decoder_factories=[DecoderFactory()]
        ).iter_decoded_messages():
            if "/sensors/" in sent.channel.topic:
                messages[sent.channel.topic.rpartition("/")[2]].append(sent.decoded_message)
    for sensor, found in messages.items():
        stamps = [10**9 * m.header.stamp.sec + m.header.stamp.nanosec for m in found]
        assert_is_what_was_measured(flight, sensor, stamps, [values_of(m) for m in found])


async def test_a_ros1_bag_has_every_reading(tmp_path: Path) -> None:
    flight, path = await recorded(tmp_path / "run.bag")
    store = get_typestore(Stores.ROS1_NOETIC)
    messages: dict[str, list[Any]] = {sensor: [] for sensor in SENSORS}
    with Ros1Reader(path) as bag:
        for connection, _, data in bag.messages():
            if "/sensors/" in connection.topic:
                message = store.deserialize_ros1(data, connection.msgtype)
                messages[connection.topic.rpartition("/")[2]].append(message)
    for sensor, found in messages.items():
        stamps = [10**9 * m.header.stamp.sec + m.header.stamp.nanosec for m in found]
        assert_is_what_was_measured(flight, sensor, stamps, [values_of(m) for m in found])


_BRIDGE = """
version: 1
rooms: {hall: {T_world_room: {p_m: [5.0, 0.0, 0.0], ypr_deg: [90.0, 0.0, 0.0]}}}
sources:
  sim:
    type: simulated
    room: hall
    vehicles:
      quad:
        model: airsim
        sensors: {baro: {type: barometer, preset: ms5611},
            gps: {type: gps, parameters: {noise_horizontal_m: 0.5}}}
actors: {drone: {kind: vehicle, source: sim, subject: quad}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
outputs: {ros: {type: ros2, actors: [drone], connect: ["%s"]}}
"""


async def test_a_simulated_vehicles_sensors_leave_its_bridge() -> None:
    """They are what the bus of vehicles has, to the bit."""
    seen: dict[tuple[str, int], SensorReading] = {}
    with router() as place, reader(place) as read:
        bridge = build(_BRIDGE % place)
        async with running(bridge):
            utc_ns = WallClock.of_run().utc_ns
            vehicles = bridge.context.for_sources.vehicles

            def is_enough() -> bool:
                if "quad" in vehicles.names():
                    seen.update(
                        {
                            (name, utc_ns(r.t_ns)): r
                            for name, r in vehicles.of("quad").readings("quad").items()
                        }
                    )
                return len(seen) >= 50

            await until(is_enough)
        compared = 0
        for name in ("baro", "gps"):
            for message in read.of(f"vil/drone/sensors/{name}", TYPES[name]):
                reading = seen.get((name, message.header.t_ns))
                if isinstance(reading, GpsReading):
                    assert values_of(message) == [
                        reading.latitude_deg,
                        reading.longitude_deg,
                        reading.altitude_m,
                    ]
                elif isinstance(reading, BarometerReading):
                    assert message.fluid_pressure == reading.pressure_pa
                compared += reading is not None
        assert compared >= 20
