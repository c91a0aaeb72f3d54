"""Links to autopilots' programs, over real sockets: what is sent, when an answer is waited for, and what ends that."""

from __future__ import annotations

import json
import math
import os
import re
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vil_adapters.emulation.pseudo_terminal import PseudoTerminal
from vil_bridge.core.clock import machine_ns
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.core.sensor_readings import BarometerReading, GpsReading, ImuReading, MagnetometerReading
from vil_bridge.protocols.autopilots.ardupilot import ArduPilotLink, state_line
from vil_bridge.protocols.autopilots.betaflight import RC_PORT, STATE_PORT, BetaflightLink, rc_packet, state_packet
from vil_bridge.protocols.autopilots.link import READS_AT_ONCE, AutopilotLink, AutopilotSample, LinkState
from vil_bridge.protocols.autopilots.poses import PoseSample, TrueMotion, pose_message
from vil_bridge.protocols.autopilots.px4 import Px4Link
from vil_bridge.protocols.autopilots.px4_serial import Px4SerialLink
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.framing import MavlinkParser, encode
from vil_bridge.protocols.mavlink.hil_messages import HilActuatorControls, HilGps, HilSensor
from vil_bridge.protocols.mavlink.pose_messages import Spread

pytestmark = pytest.mark.wire

MS = 1_000_000
LEVEL = (0.0, 0.0, 0.0, 1.0)
STILL = TrueMotion((1.0, 2.0, 3.0), (0.1, 0.2, 0.3), LEVEL, (0.0, 0.0, 0.0))
GPS = GpsReading(4 * MS, 47.5, 8.5, 430.0, 0.3, 0.4, (1.0, 2.0, 3.0), 3, True, 0)
POSE = PoseSample("ODOMETRY", 3 * MS, STILL, (47.1, 8.2, 456.5), Spread(0.002, 0.003, 0.05))
UNLIMITED_S = 60.0


def sample(t_ns: int, motion: TrueMotion = STILL, **more: object) -> AutopilotSample:
    imu = ImuReading(t_ns, motion.q_world_body, (0.1, 0.2, 0.3), (0.5, 0.6, 9.81))
    return AutopilotSample(
        t_ns,
        motion,
        imu,
        MagnetometerReading(t_ns, (1e-5, 2e-5, 3e-5)),
        BarometerReading(t_ns, 120.0, 99_900.0, 1013.25),
        **more,  # type: ignore[arg-type]
    )


def until(link: AutopilotLink, reached: object) -> None:
    """Read until a condition holds."""
    assert callable(reached)
    for _ in range(2000):
        link.receive()
        if reached():
            return
        select.select(link.descriptors(), (), (), 0.01)
    raise AssertionError("it never came")


def no_longer_waiting(link: AutopilotLink) -> bool:
    link.check()
    return not link.waiting


def has_state(link: AutopilotLink, state: LinkState) -> bool:
    return link.state == state


def free_port(kind: int) -> int:
    with socket.socket(socket.AF_INET, kind) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


# --- PX4 ----------------------------------------------------------------------------------------


@pytest.fixture
def px4() -> Iterator[tuple[Px4Link, socket.socket]]:
    port = free_port(socket.SOCK_STREAM)
    link = Px4Link("127.0.0.1", port, UNLIMITED_S)
    link.open()
    with socket.create_connection(("127.0.0.1", port)) as peer:
        until(link, lambda: has_state(link, "starting"))
        yield link, peer
    link.close()


def answer(peer: socket.socket, time_usec: int, controls: tuple[float, ...], mode: int = 129) -> None:
    body = HilActuatorControls(time_usec, 1, controls + (0.0,) * (16 - len(controls)), mode)
    peer.sendall(encode(body, 0, system=1, component=1))


def test_px4_gets_its_sensors_in_its_axes_and_all_groups_at_once(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    link.send(sample(4 * MS, gps=GPS, pose=POSE))
    bodies = [m.body for m in MavlinkParser().feed(peer.recv(4096))]
    gps, odometry, sensor = bodies
    assert isinstance(gps, HilGps)
    assert isinstance(odometry, mavlink.Odometry)
    assert isinstance(sensor, HilSensor)
    assert (sensor.time_usec, sensor.fields_updated) == (4000, 0x1BFF)
    assert sensor[1:7] == pytest.approx((0.5, -0.6, -9.81, 0.1, -0.2, -0.3))
    assert sensor[7:10] == pytest.approx((0.1, -0.2, -0.3))
    assert (sensor.abs_pressure_hpa, sensor.pressure_alt_m) == pytest.approx((999.0, 120.0))
    assert (gps.vn_cmps, gps.ve_cmps, gps.vd_cmps, gps.fix_type) == (200, 100, -300, 3)
    assert (odometry.x_m, odometry.y_m, odometry.z_m) == pytest.approx((1.0, -2.0, -3.0))
    assert (odometry.vx_mps, odometry.vy_mps, odometry.vz_mps) == pytest.approx((0.1, -0.2, -0.3))
    assert (odometry.frame_id, odometry.child_frame_id, odometry.estimator_type) == (20, 12, 3)
    assert odometry.time_usec == 3000, "when it was captured, not when it arrives"


def test_px4s_odometry_turns_with_the_body() -> None:
    yawed = TrueMotion((0.0, 0.0, 0.0), (1.0, 0.0, 0.5), tuple(q_from_euler_zyx(math.pi / 2, 0, 0)), (0.1, 0.2, 0.3))
    found = pose_message(POSE._replace(t_ns=7_999, motion=yawed))
    assert isinstance(found, mavlink.Odometry)
    assert (found.vx_mps, found.vy_mps, found.vz_mps) == pytest.approx((0.0, 1.0, -0.5)), "east is to the right"
    rates = found.rollspeed_radps, found.pitchspeed_radps, found.yawspeed_radps
    assert rates == pytest.approx((0.1, -0.2, -0.3))
    w, *axis = found.q_wxyz
    assert np.sign(w) * np.array(axis) == pytest.approx((0.0, 0.0, -math.sqrt(0.5)), abs=1e-12)
    assert (found.time_usec, found.quality) == (7, 100)
    for covariance, first, second in ((found.pose_covariance, 4e-6, 9e-6), (found.velocity_covariance, 25e-4, 25e-4)):
        triangle = np.zeros((6, 6))
        triangle[np.triu_indices(6)] = covariance
        np.testing.assert_allclose(triangle, np.diag([first] * 3 + [second] * 3))


def test_px4s_frames_are_numbered(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    link.send(sample(4 * MS, gps=GPS))
    link.send(sample(8 * MS))
    numbers = [m.sequence for m in MavlinkParser().feed(peer.recv(4096))]
    assert numbers == [1, 2, 3], "a receiver counts gaps as losses"


def test_px4_is_waited_for_until_the_answer_to_the_newest_sample(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    link.send(sample(4 * MS))
    assert link.waiting
    answer(peer, 3999, (0.9,) * 4)  # to another sample
    answer(peer, 4000, (0.1, 0.2, 1.3, math.nan))
    until(link, lambda: not link.waiting)
    assert has_state(link, "running")
    assert link.motors[:5] == pytest.approx((0.1, 0.2, 1.0, 0.0, 0.0)), "within bounds, and never a NaN"
    link.send(sample(8 * MS))
    answer(peer, 8000, (0.5,) * 4, mode=1)
    until(link, lambda: not link.waiting)
    assert not any(link.motors), "a disarmed autopilot turns no motor"


def test_px4s_first_samples_are_not_waited_for_long(px4: tuple[Px4Link, socket.socket]) -> None:
    link, _ = px4
    for i in range(1, 12):
        link.send(sample(4 * i * MS))
        until(link, lambda: no_longer_waiting(link))
        assert has_state(link, "starting")
    link.send(sample(48 * MS))
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < 0.05:
        link.check()
    assert link.waiting, "from here on each is answered"


def test_a_px4_that_starts_again_is_not_waited_for_at_first(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    for i in range(1, 13):
        link.send(sample(4 * i * MS))
    peer.close()
    until(link, lambda: has_state(link, "ended"))
    with socket.create_connection(link.address) as again:
        until(link, lambda: has_state(link, "starting"))
        link.send(sample(52 * MS))
        until(link, lambda: no_longer_waiting(link))
        assert has_state(link, "starting"), "its first samples are not answered either"
        link.send(sample(56 * MS))
        answer(again, 56_000, (0.5,) * 4)
        until(link, lambda: has_state(link, "running"))


def test_an_answer_to_another_sample_is_none(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    link.send(sample(4 * MS))
    answer(peer, 4001, (0.5,) * 4)
    answer(peer, 2**64 - 1, (0.5,) * 4)
    answer(peer, 4000, (0.25,) * 4)
    until(link, lambda: not link.waiting)
    assert link.answers == 1
    assert link.motors[:4] == (0.25,) * 4


def test_a_peer_that_does_not_read_is_cut_off(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    peer.settimeout(10)
    for i in range(200_000):
        link.send(sample(4 * i * MS))
        if link.state == "ended":
            break
    assert has_state(link, "ended")
    assert not any(link.motors)


def test_a_silent_peer_gives_way_to_another() -> None:
    port = free_port(socket.SOCK_STREAM)
    link = Px4Link("127.0.0.1", port, timeout_s=0.01)
    link.open()
    try:
        with socket.create_connection(("127.0.0.1", port)):  # no autopilot, or one whose computer is gone
            until(link, lambda: has_state(link, "starting"))
            for i in range(1, 13):
                link.send(sample(4 * i * MS))
                until(link, lambda: no_longer_waiting(link))
            assert has_state(link, "silent")
            with socket.create_connection(("127.0.0.1", port)) as peer:
                until(link, lambda: has_state(link, "starting"))
                link.send(sample(52 * MS))
                answer(peer, 52_000, (0.5,) * 4)
                until(link, lambda: has_state(link, "running"))
    finally:
        link.close()


def test_a_peer_that_floods_does_not_hold_up_the_steps(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    peer.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            peer.send(bytes(65536))
    link.receive()
    assert select.select(link.descriptors(), (), (), 0)[0], "the rest waits for the next step"


def test_garbage_from_a_peer_changes_nothing(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    link.send(sample(4 * MS))
    peer.sendall(bytes(range(256)) * 40)
    for _ in range(4):  # the end of the garbage claims a frame of 263 bytes
        answer(peer, 4000, (0.5,) * 4)
    until(link, lambda: not link.waiting)
    assert link.motors[:4] == pytest.approx((0.5,) * 4)


def test_the_wait_for_an_answer_ends_when_it_is_due() -> None:
    link = Px4Link("127.0.0.1", free_port(socket.SOCK_STREAM), timeout_s=0.05)
    link.open()
    try:
        with socket.create_connection(link.address) as peer:
            until(link, lambda: has_state(link, "starting"))
            link.send(sample(4 * MS))
            answer(peer, 4000, (0.5,) * 4)
            until(link, lambda: has_state(link, "running"))
            begun_ns = machine_ns()
            link.send(sample(8 * MS))
            due_ns = link.due_ns
            assert due_ns is not None
            assert due_ns - begun_ns >= 50 * MS
            while machine_ns() < due_ns:
                time.sleep(0.001)
            link.check()
            assert not link.waiting
    finally:
        link.close()


# --- PX4 on its own hardware ---------------------------------------------------------------------


def test_a_flight_controller_on_a_serial_line_flies_in_real_time(tmp_path: Path) -> None:
    with closing(PseudoTerminal(tmp_path / "ttyACM0")) as terminal:
        link = Px4SerialLink(str(tmp_path / "ttyACM0"), 921_600, timeout_s=0.05)
        link.open()
        try:
            link.send(sample(8 * MS, gps=GPS))
            assert link.takes(late=False)
            assert not link.takes(late=True), "a newer one follows"
            assert not link.waiting
            parser = MavlinkParser()
            bodies: list[Any] = []
            while len(bodies) < 2:
                bodies += [m.body for m in parser.feed(terminal.read())]
            assert [type(body) for body in bodies] == [HilGps, HilSensor]
            assert bodies[1].time_usec == 8000
            controls = HilActuatorControls(8100, 0, (0.25,) * 4 + (0.0,) * 12, 129)
            terminal.write(encode(controls, 0, system=1, component=1))
            until(link, lambda: has_state(link, "running"))
            assert link.motors[:4] == (0.25,) * 4
            until(link, lambda: has_state(link, "silent"))
            assert not any(link.motors)
        finally:
            link.close()


def test_a_flight_controller_that_starts_again_is_opened_again(tmp_path: Path) -> None:
    device = tmp_path / "ttyACM0"
    first = PseudoTerminal(device)
    link = Px4SerialLink(str(device), 921_600, timeout_s=UNLIMITED_S)
    link.open()
    try:
        first.close()
        until(link, lambda: has_state(link, "ended"))
        sent = link.sent
        link.send(sample(8 * MS))
        assert link.sent == sent, "nowhere to send"
        device.unlink(missing_ok=True)
        with closing(PseudoTerminal(device)) as again:
            until(link, lambda: has_state(link, "starting"))
            link.send(sample(12 * MS))
            assert link.sent == sent + 1
            again.write(encode(HilActuatorControls(0, 0, (0.25,) * 16, 129), 0, system=1, component=1))
            until(link, lambda: has_state(link, "running"))
    finally:
        link.close()


def test_a_line_that_is_too_slow_drops_samples(tmp_path: Path) -> None:
    with closing(PseudoTerminal(tmp_path / "ttyACM0")):
        link = Px4SerialLink(str(tmp_path / "ttyACM0"), 921_600, timeout_s=UNLIMITED_S)
        link.open()
        try:
            while not link.dropped:
                link.send(sample(8 * MS))
            assert link.sent > 0
        finally:
            link.close()


def test_late_samples_go_out_where_none_has_for_a_while(tmp_path: Path) -> None:
    with closing(PseudoTerminal(tmp_path / "ttyACM0")):
        link = Px4SerialLink(str(tmp_path / "ttyACM0"), 921_600, timeout_s=UNLIMITED_S)
        link.open()
        try:
            link.send(sample(8 * MS))
            begun_s = time.monotonic()
            while not link.takes(late=True):
                assert time.monotonic() - begun_s < 1.0
            link.send(sample(9 * MS))
            assert not link.takes(late=True)
        finally:
            link.close()


# --- ArduPilot ----------------------------------------------------------------------------------


@pytest.fixture
def ardupilot() -> Iterator[tuple[ArduPilotLink, socket.socket]]:
    port = free_port(socket.SOCK_DGRAM)
    link = ArduPilotLink("127.0.0.1", port, UNLIMITED_S)
    link.open()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        peer.connect(("127.0.0.1", port))
        peer.settimeout(10)
        yield link, peer
    link.close()


def servos(frame: int, *pulses: int, channels: int = 16) -> bytes:
    magic = 18458 if channels == 16 else 29569
    return struct.pack(f"<HHI{channels}H", magic, 1200, frame, *pulses, *[0] * (channels - len(pulses)))


@pytest.mark.parametrize("channels", [16, 32])
def test_ardupilots_pulses_become_outputs(ardupilot: tuple[ArduPilotLink, socket.socket], channels: int) -> None:
    link, peer = ardupilot
    peer.send(servos(0, 1000, 1500, 2000, 2200, 0, channels=channels))
    until(link, lambda: has_state(link, "running"))
    assert link.motors[:5] == (0.0, 0.5, 1.0, 1.0, 0.0)
    link.send(sample(MS))
    assert link.waiting
    assert peer.recv(2048).startswith(b"\n{")


def test_a_repeated_frame_gets_the_same_line_and_no_step(ardupilot: tuple[ArduPilotLink, socket.socket]) -> None:
    link, peer = ardupilot
    peer.send(servos(0))
    until(link, lambda: link.answers == 1)
    link.send(sample(2 * MS))
    first = peer.recv(2048)
    for _ in range(13):
        peer.send(servos(0))
    until(link, lambda: link.repeats == 13)
    assert {peer.recv(2048) for _ in range(13)} == {first}
    assert link.waiting
    assert (link.sent, link.answers) == (1, 1)


def test_an_ardupilot_that_starts_again_is_answered(ardupilot: tuple[ArduPilotLink, socket.socket]) -> None:
    link, peer = ardupilot
    for frame in (0, 1, 2, 0):
        peer.send(servos(frame))
        until(link, lambda: not link.waiting and link.state == "running")
        link.send(sample((link.sent + 1) * MS))
        assert b'"timestamp"' in peer.recv(2048)
    assert link.sent == 4


def test_another_program_does_not_take_the_vehicle(ardupilot: tuple[ArduPilotLink, socket.socket]) -> None:
    link, peer = ardupilot
    peer.send(servos(5, 1100))
    until(link, lambda: link.answers == 1)
    link.send(sample(MS))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.connect(link.address)
        stranger.settimeout(10)
        stranger.send(servos(6, 2000))
        stranger.send(servos(5, 2000))
        until(link, lambda: link.strangers == 2)
        assert link.motors[0] == 0.1
        stranger.send(servos(0, 1200))  # it was started anew, and has another port
        until(link, lambda: link.answers == 2)
        assert link.motors[0] == 0.2
        link.send(sample(2 * MS))
        assert b'"timestamp":0.002' in stranger.recv(2048)


def test_a_silent_program_gives_way_to_another() -> None:
    link = ArduPilotLink("127.0.0.1", free_port(socket.SOCK_DGRAM), timeout_s=0.01)
    link.open()
    try:
        for frame in (5, 8):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
                peer.connect(link.address)
                peer.send(servos(frame, 1100))
                until(link, lambda: has_state(link, "running"))
                link.send(sample(MS))
                until(link, lambda: no_longer_waiting(link))
                assert has_state(link, "silent")
    finally:
        link.close()


def test_a_frame_is_answered_once(ardupilot: tuple[ArduPilotLink, socket.socket]) -> None:
    link, peer = ardupilot
    link.send(sample(MS))
    assert link.sent == 0, "nobody asked"
    peer.send(servos(3))
    until(link, lambda: link.answers == 1)
    peer.send(servos(3))
    until(link, lambda: link.repeats == 1)
    link.send(sample(2 * MS))
    link.send(sample(3 * MS))
    assert link.sent == 1
    assert b'"timestamp":0.002' in peer.recv(2048)
    peer.setblocking(False)
    with pytest.raises(BlockingIOError):
        peer.recv(2048)
    peer.send(servos(2))  # started anew, its first frames lost
    until(link, lambda: link.answers == 2)


def test_frames_beyond_many_wait_for_the_next_step(ardupilot: tuple[ArduPilotLink, socket.socket]) -> None:
    link, peer = ardupilot
    for _ in range(READS_AT_ONCE + 1):
        peer.send(b"?")
    link.receive()
    assert select.select(link.descriptors(), (), (), 0)[0]
    link.receive()
    assert not select.select(link.descriptors(), (), (), 0)[0]


def test_remote_control_has_twelve_channels_for_ardupilot() -> None:
    line = json.loads(state_line(sample(MS, rc_us=tuple(range(1000, 1016)))).decode())
    assert line["rc"] == {f"rc_{i}": 999 + i for i in range(1, 13)}


@pytest.mark.parametrize("data", [b"", b"\x1a\x48", servos(1)[:-1], servos(1) + b"x", b"\xff" * 40, bytes(2000)])
def test_other_datagrams_are_no_frames(ardupilot: tuple[ArduPilotLink, socket.socket], data: bytes) -> None:
    link, peer = ardupilot
    peer.send(data)
    peer.send(servos(7))
    until(link, lambda: has_state(link, "running"))
    assert link.answers == 1


def test_the_line_is_what_ardupilots_search_for_keys_finds() -> None:
    nose_up = TrueMotion((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), tuple(q_from_euler_zyx(math.pi / 2, -0.2, 0.0)), (0, 0, 0))
    line = state_line(sample(1_234_567_891, nose_up, rc_us=(1500, 1501, 1000, 1499, 2000))).decode()
    assert line[0] == line[-1] == "\n"
    assert not re.search(r'":\s', line), "a blank behind a colon is an error"
    found = json.loads(line)
    assert found["timestamp"] == pytest.approx(1.234567891, abs=1e-9)
    assert found["position"] == pytest.approx([2.0, 1.0, -3.0])
    assert found["velocity"] == pytest.approx([5.0, 4.0, -6.0])
    assert found["imu"]["accel_body"] == pytest.approx([0.5, -0.6, -9.81])
    assert found["imu"]["gyro"] == pytest.approx([0.1, -0.2, -0.3])
    assert found["rc"]["rc_3"] == 1000
    # Facing north with the nose up by 0.2: no yaw, and a positive pitch.
    w, x, y, z = found["quaternion"]
    assert np.abs([w, x, y, z]) == pytest.approx([math.cos(0.1), 0.0, math.sin(0.1), 0.0], abs=1e-9)
    assert w * y > 0.0


# --- Betaflight ---------------------------------------------------------------------------------


def test_a_state_has_betaflights_signs() -> None:
    numbers = struct.unpack("<18d", state_packet(sample(2_000 * MS, gps=GPS)))
    assert numbers[0] == 2.0
    assert numbers[1:4] == pytest.approx((0.1, -0.2, -0.3))
    assert numbers[4:7] == pytest.approx((-0.5, -0.6, -9.81)), "minus the specific force, forward, left, up"
    assert abs(numbers[7]) == pytest.approx(math.sqrt(0.5)), "body axes along the room's x face east"
    assert numbers[11:14] == (0.1, 0.2, 0.3)
    assert numbers[14:18] == (8.5, 47.5, 430.0, 99_900.0)
    indoors = struct.unpack("<18d", state_packet(sample(0)))
    assert indoors[14:17] == (0.0, 0.0, 3.0), "the height is known"


def test_remote_control_has_sixteen_channels() -> None:
    values = struct.unpack("<d16H", rc_packet(10 * MS, (1510, 1520, 1010, 1530, 1900, 1800)))
    assert values == (0.01, 1510, 1520, 1010, 1530, 1900, 1800, *[1000] * 10)


def first_state(link: BetaflightLink, states: socket.socket) -> int:
    """Return the size of the first datagram that is no probe, which comes a second after the port opened."""
    begun_s = time.monotonic()
    while True:
        link.send(sample(0))
        if select.select([states], (), (), 0.01)[0]:
            data = states.recv(2048)
            if len(data) > 1:
                assert time.monotonic() - begun_s > 0.9
                return len(data)


def test_betaflight_is_never_waited_for_and_gets_no_late_state() -> None:
    pid = os.getpid()
    host = f"127.23.{pid >> 8 & 255}.{pid & 255}"  # a loopback address of its own: the ports are fixed
    link = BetaflightLink(host, timeout_s=0.05)
    link.open()
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as states,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as rc,
        ):
            states.bind((host, STATE_PORT))
            rc.bind((host, RC_PORT))
            states.settimeout(10)
            rc.settimeout(10)
            seen = [first_state(link, states)]
            assert seen == [144], "probes are shorter: a state ends a program that starts up"
            link.send(sample(2 * MS, rc_us=(1500,) * 8, gps=GPS))
            assert struct.unpack_from("<d", states.recv(2048))[0] == 0.002
            assert len(rc.recv(2048)) == 40
            link.send(sample(3 * MS, rc_us=(1600,) * 8))
            place = struct.unpack("<18d", states.recv(2048))[14:17]
            assert place == (8.5, 47.5, 430.0), "the newest reading, until there is another"
            assert struct.unpack_from("<dH", rc.recv(2048)) == (0.003, 1600), "a stick that moves is not held back"
            for t_ms in range(4, 14):
                link.send(sample(t_ms * MS, rc_us=(1600,) * 8))
                assert len(states.recv(2048)) == 144
            assert struct.unpack_from("<d", rc.recv(2048))[0] == 0.013, "a hundred times a second"
            assert not link.waiting
            states.sendto(struct.pack("<4f", 0.1, 0.2, math.nan, 7.0), (host, 9002))
            until(link, lambda: has_state(link, "running"))
            assert link.motors == pytest.approx((0.1, 0.2, 0.0, 1.0))
            until(link, lambda: has_state(link, "silent"))
            assert not any(link.motors)
    finally:
        link.close()


def taken_ns(link: BetaflightLink) -> int:
    """Return the machine time at which the link takes a sample."""
    while not link.takes(late=False):
        pass
    return machine_ns()


def test_no_state_spoils_the_rate_of_betaflights_clock() -> None:
    pid = os.getpid()
    host = f"127.25.{pid >> 8 & 255}.{pid & 255}"
    link = BetaflightLink(host, timeout_s=UNLIMITED_S)
    link.open()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as states:
            states.bind((host, STATE_PORT))

            def sent_ns(t_ms: int) -> tuple[int, int]:
                before_ns = machine_ns()
                link.send(sample(t_ms * MS))
                return before_ns, machine_ns()

            begun_ns = machine_ns()
            first_state(link, states)
            assert taken_ns(link) - begun_ns > 1020 * MS, "the one after a state that it drops is no pair with it"
            sent_ns(21)
            assert link.takes(late=False), "without answers, as while it starts, the next one goes out"
            states.sendto(struct.pack("<4f", *[0.1] * 4), (host, 9002))
            until(link, lambda: has_state(link, "running"))
            before_ns, _ = sent_ns(22)
            assert taken_ns(link) - before_ns > 20 * MS, "nothing says that it has read the state before"
            _, after_ns = sent_ns(43)
            time.sleep(0.008)
            answers, answered_ns = link.answers, machine_ns()
            states.sendto(struct.pack("<4f", *[0.2] * 4), (host, 9002))
            until(link, lambda: link.answers > answers)
            now_ns = taken_ns(link)
            assert 4 * (now_ns - answered_ns) >= now_ns - after_ns, "it may have read the state just now"
    finally:
        link.close()


def test_a_betaflight_that_starts_again_gets_no_state_before_it_is_up() -> None:
    pid = os.getpid()
    host = f"127.24.{pid >> 8 & 255}.{pid & 255}"
    link = BetaflightLink(host, timeout_s=UNLIMITED_S)
    link.open()
    try:
        for _ in range(2):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as states:
                states.bind((host, STATE_PORT))
                assert first_state(link, states) == 144
            for _ in range(3):
                link.send(sample(0))  # refused
                time.sleep(0.01)
    finally:
        link.close()
