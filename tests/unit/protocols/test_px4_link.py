"""Links to PX4: in lockstep over TCP, in real time over a serial line."""

from __future__ import annotations

import math
import select
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.autopilot_links import (
    GPS,
    MS,
    POSE,
    UNLIMITED_S,
    free_port,
    has_state,
    no_longer_waiting,
    sample,
    until,
)
from vil_adapters.emulation.pseudo_terminal import PseudoTerminal
from vil_bridge.core.clock import machine_ns
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.protocols.autopilots.poses import TrueMotion, pose_message
from vil_bridge.protocols.autopilots.px4 import Px4Link
from vil_bridge.protocols.autopilots.px4_serial import Px4SerialLink
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.framing import MavlinkParser, encode
from vil_bridge.protocols.mavlink.hil_messages import HilActuatorControls, HilGps, HilSensor

pytestmark = pytest.mark.wire


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
