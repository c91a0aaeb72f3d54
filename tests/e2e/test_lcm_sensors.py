"""Sensors, humans and depth over LCM.

Received by LCM's own library, decoded by what lcm-gen makes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest
from msgspec import structs

from tests.support.events import until
from tests.support.outputs import CAMERA, INFO, Flight, fed, header, wall_offset_ns
from tests.support.people import PersonFlight
from tests.support.sensor_flight import BEAMS, T_BODY_RING, RangingFlight, SensorFlight
from vil_bridge.core.clock import now_ns
from vil_bridge.core.sensor_readings import (
    ActorReading,
    BeaconsReading,
    ControlsReading,
    GpsReading,
    RotorsReading,
    SensorDescription,
)

pytest.importorskip("lcm")

from tests.support.lcm_reader import decoders, hearing
from vil_bridge.outputs.lcm.config import LcmConfig
from vil_bridge.outputs.lcm.output import LcmOutput
from vil_bridge.outputs.lcm.sensor_messages import encode_reading

pytestmark = pytest.mark.process

HALF = 0.5**0.5
FIELDS = {
    "imu2": ("q_xyzw", "w_radps", "f_mps2"),
    "baro": ("altitude_m", "pressure_pa", "qnh_hpa"),
    "compass": ("b_t",),
    "gps": ("latitude_deg", "longitude_deg", "altitude_m", "eph_m", "epv_m", "v_world_mps", "fix"),
    "rotors": ("thrusts_n", "torques_nm", "speeds_radps"),
}


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The reference decoders."""
    return decoders(tmp_path_factory.mktemp("lcm"))


async def test_every_reading_is_sent_with_its_type(types: ModuleType) -> None:
    flight = SensorFlight()
    with hearing(types) as heard:
        output = LcmOutput("lcm", LcmConfig(url=heard.url, actors=("drone", "bare")))
        async with fed(output, flight.world, flight.measure):
            for sensor in FIELDS:
                channel = f"vil/drone/sensors/{sensor}"
                await until(
                    lambda channel=channel: len(heard.messages[channel]) >= 20,  # type: ignore[misc]
                )
            offset_ns = wall_offset_ns()
    for sensor, fields in FIELDS.items():
        messages = list(heard.messages[f"vil/drone/sensors/{sensor}"])
        assert all(a.t_ns < b.t_ns for a, b in pairwise(messages))
        for message in messages:
            t_ns = min(flight.rows[sensor], key=lambda t: abs(t + offset_ns - message.t_ns))
            assert abs(t_ns + offset_ns - message.t_ns) < 1_000_000
            row = flight.rows[sensor][t_ns].copy()
            # The room's turn by 90 degrees about z, then the sensor's by 180 degrees about x.
            if sensor == "imu2":
                row[0:4] = HALF, HALF, 0.0, 0.0
            if sensor == "gps":
                row[5:8] = -2.0, 1.0, 3.0
            if sensor == "rotors":
                row = row.reshape(2, 3).T.ravel()
            assert (message.actor, message.sensor) == ("drone", sensor)
            values = np.hstack([getattr(message, field) for field in fields])
            np.testing.assert_allclose(values, row, rtol=0, atol=1e-15)


async def test_a_human_is_sent_with_the_names_of_its_bones(types: ModuleType) -> None:
    flight = PersonFlight()
    flight.unseen = (4,)
    with hearing(types) as heard:
        output = LcmOutput("lcm", LcmConfig(url=heard.url, actors=("ann-1",)))
        async with fed(output, flight.world, flight.film):
            await until(lambda: len(heard.messages["vil/ann-1/skeleton"]) >= 10)
            offset_ns = wall_offset_ns()
    for message in list(heard.messages["vil/ann-1/skeleton"]):
        truth = flight.captured_at(message.t_ns - offset_ns)
        assert (message.actor, tuple(message.bones), message.size) == (
            "ann-1",
            truth.model.bones,
            5,
        )
        assert tuple(message.parents) == truth.model.parents
        assert tuple(message.tracked) == (True, True, True, True, False)
        np.testing.assert_allclose(message.p_world_m[:4], truth.p_m[:4], atol=1e-12)
        np.testing.assert_allclose(message.q_xyzw[:4], truth.q_xyzw[:4], atol=1e-12)
        assert np.linalg.norm(
            np.subtract(message.p_world_m[4], message.p_world_m[3])
        ) == pytest.approx(0.42)


@pytest.mark.parametrize("modality", ["depth", "depth32"])
async def test_depth_is_in_metres(types: ModuleType, modality: str) -> None:
    sent = np.linspace(1.0, 90.0, 48 * 64, dtype=np.float32).reshape(48, 64)
    sent[3, 5] = 100.0
    if modality == "depth":
        sent = (sent * np.float32(655.35)).astype(np.uint16)
        sent[3, 5] = 65535
    with hearing(types) as heard:
        output = LcmOutput("lcm", LcmConfig(url=heard.url, cameras=("front",), depth=True))
        sink = output.frame_sink(replace(INFO, offers={modality: ("compensated",)}))
        assert sink is not None
        async with Flight().flying(output):
            await until(lambda: sink.wanted(modality, "compensated"))
            t_ns = now_ns()
            sink.offer(structs.replace(header(5, t_ns), modality=modality), sent)
            await until(lambda: heard.messages["vil/front/depth"])
            utc_ns = t_ns + wall_offset_ns()
    (image,) = heard.messages["vil/front/depth"]
    assert abs(image.t_ns - utc_ns) < 1_000_000
    assert (image.camera, image.format, image.K_px) == ("front", "32FC1", CAMERA.intrinsics_px)
    metres = np.frombuffer(image.data, "<f4").reshape(48, 64)
    assert math.isinf(metres[3, 5]) and np.isinf(metres).sum() == 1
    known = np.isfinite(metres)
    np.testing.assert_allclose(
        metres[known], sent[known] / (655.35 if modality == "depth" else 1.0), rtol=1e-6
    )


def test_controls_and_rotors_that_state_speeds_only(types: ModuleType) -> None:
    sensor = SensorDescription("controls")
    reading = ControlsReading(5, "velocity", (1.0, 2.0, 3.0, 0.5))
    found = types.controls_t.decode(
        encode_reading(7, ActorReading("drone", "stick", reading), sensor)
    )
    assert (found.t_ns, found.actor, found.sensor, found.mode) == (7, "drone", "stick", "velocity")
    assert (found.size, found.values) == (4, (1.0, 2.0, 3.0, 0.5))
    rotors = RotorsReading(5, (10.0, 20.0), (), ())
    found = types.rotors_t.decode(encode_reading(7, ActorReading("drone", "r", rotors), sensor))
    assert found.speeds_radps == (10.0, 20.0)
    assert all(map(math.isnan, (*found.thrusts_n, *found.torques_nm)))


@pytest.mark.parametrize(("valid", "fix"), [(True, 3), (False, 0)])
def test_a_receiver_that_has_not_started_has_no_fix(
    types: ModuleType, valid: bool, fix: int
) -> None:
    reading = GpsReading(5, 47.0, 8.0, 500.0, 1.0, 2.0, (1.0, 2.0, 3.0), 3, valid, 0)
    found = types.gps_t.decode(
        encode_reading(7, ActorReading("drone", "gps", reading), SensorDescription("gps"))
    )
    assert (found.fix, found.epv_m, found.v_world_mps) == (fix, 2.0, (1.0, 2.0, 3.0))


async def test_distances_and_lidars(types: ModuleType) -> None:
    flight = RangingFlight()
    with hearing(types) as heard:
        output = LcmOutput("lcm", LcmConfig(url=heard.url, actors=("drone",)))
        async with fed(output, flight.world, flight.measure):
            await until(lambda: len(heard.messages["vil/drone/sensors/around"]) >= 10)
            await until(lambda: len(heard.messages["vil/drone/sensors/ring"]) >= 10)
            offset_ns = wall_offset_ns()
    for beams in list(heard.messages["vil/drone/sensors/around"]):
        t_ns = flight.at(beams.t_ns - offset_ns)
        assert (beams.actor, beams.sensor, beams.size) == ("drone", "around", 2)
        assert (beams.min_m, beams.max_m, beams.p_body_m) == (0.5, 30.0, (0.1, 0.0, -0.05))
        assert [tuple(direction) for direction in beams.directions_body] == list(BEAMS.values())
        assert tuple(beams.ranges_m) == (flight.ranges_m[t_ns], 30.0)
    for turn in list(heard.messages["vil/drone/sensors/ring"]):
        points = flight.turns[flight.at(turn.t_ns - offset_ns)]
        assert (turn.size, turn.p_body_m) == (2, tuple(T_BODY_RING.p_m))
        assert turn.q_body_sensor == tuple(T_BODY_RING.q_xyzw)
        np.testing.assert_array_equal(turn.points_m, points[:, :3])
        np.testing.assert_array_equal(turn.instances, points[:, 3])


def test_beacons(types: ModuleType) -> None:
    reading = BeaconsReading(
        5, ("door", "mast"), ((1.0, 2.0, 3.0), (-4.0, 5.5, 0.25)), (7.5, 8.125)
    )
    found = types.beacons_t.decode(
        encode_reading(7, ActorReading("drone", "uwb", reading), SensorDescription("beacons"))
    )
    assert (found.t_ns, found.actor, found.sensor, found.size) == (7, "drone", "uwb", 2)
    assert tuple(found.names) == reading.names
    assert tuple(map(tuple, found.p_world_m)) == reading.places_m
    assert found.ranges_m == reading.ranges_m
    none = types.beacons_t.decode(
        encode_reading(
            7,
            ActorReading("drone", "uwb", BeaconsReading(5, (), (), ())),
            SensorDescription("beacons"),
        )
    )
    assert (none.size, len(none.names), len(none.ranges_m)) == (0, 0, 0)
