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
    STILL,
    UNLIMITED_S,
    has_state,
    no_longer_waiting,
    sample,
    until,
)
from tests.support.common import free_port
from vil_adapters.emulation.pseudo_terminal import PseudoTerminal
from vil_bridge.core.clock import machine_ns
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.flight_messages import RcChannels, RcChannelsOverride
from vil_bridge.protocols.mavlink.framing import MavlinkParser, encode
from vil_bridge.protocols.mavlink.hil_messages import (
    HilActuatorControls,
    HilGps,
    HilSensor,
    HilStateQuaternion,
)
from vil_simulation.autopilots.links.poses import TrueMotion, pose_message
from vil_simulation.autopilots.links.px4 import Px4Link
from vil_simulation.autopilots.links.px4_serial import Px4SerialLink

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


def answer(
    peer: socket.socket, time_usec: int, controls: tuple[float, ...], mode: int = 129
) -> None:
    body = HilActuatorControls(time_usec, 1, controls + (0.0,) * (16 - len(controls)), mode)
    peer.sendall(encode(body, 0, system=1, component=1))


def test_px4_gets_its_sensors_in_its_axes_and_all_groups_at_once(
    px4: tuple[Px4Link, socket.socket],
) -> None:
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
    yawed = TrueMotion(
        (0.0, 0.0, 0.0),
        (1.0, 0.0, 0.5),
        tuple(q_from_euler_zyx(math.pi / 2, 0, 0)),
        (0.1, 0.2, 0.3),
    )
    found = pose_message(POSE._replace(t_ns=7_999, motion=yawed))
    assert isinstance(found, mavlink.Odometry)
    assert (found.vx_mps, found.vy_mps, found.vz_mps) == pytest.approx((0.0, 1.0, -0.5)), (
        "east is to the right"
    )
    rates = found.rollspeed_radps, found.pitchspeed_radps, found.yawspeed_radps
    assert rates == pytest.approx((0.1, -0.2, -0.3))
    w, *axis = found.q_wxyz
    assert np.sign(w) * np.array(axis) == pytest.approx((0.0, 0.0, -math.sqrt(0.5)), abs=1e-12)
    assert (found.time_usec, found.quality) == (7, 100)
    for covariance, first, second in (
        (found.pose_covariance, 4e-6, 9e-6),
        (found.velocity_covariance, 25e-4, 25e-4),
    ):
        triangle = np.zeros((6, 6))
        triangle[np.triu_indices(6)] = covariance
        np.testing.assert_allclose(triangle, np.diag([first] * 3 + [second] * 3))


def test_px4s_frames_are_numbered(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    link.send(sample(4 * MS, gps=GPS))
    link.send(sample(8 * MS))
    numbers = [m.sequence for m in MavlinkParser().feed(peer.recv(4096))]
    assert numbers == [1, 2, 3], "a receiver counts gaps as losses"


def test_px4_is_waited_for_until_the_answer_to_the_newest_sample(
    px4: tuple[Px4Link, socket.socket],
) -> None:
    link, peer = px4
    link.send(sample(4 * MS))
    assert link.waiting
    answer(peer, 3999, (0.9,) * 4)  # to another sample
    answer(peer, 4000, (0.1, 0.2, 1.3, math.nan))
    until(link, lambda: not link.waiting)
    assert has_state(link, "running")
    assert link.motors[:5] == pytest.approx((0.1, 0.2, 1.0, 0.0, 0.0)), (
        "within bounds, and never a NaN"
    )
    link.send(sample(8 * MS))
    answer(peer, 8000, (0.5,) * 4, mode=1)
    until(link, lambda: not link.waiting)
    assert not any(link.motors), "a disarmed autopilot turns no motor"


def started(link: Px4Link, peer: socket.socket, unanswered: int) -> int:
    """Send samples until PX4, which answers none of the first ones, runs.

    Return how many it was sent.
    """
    parser = MavlinkParser()
    got = 0
    while link.state != "running":
        if not link.waiting:
            link.send(sample((link.sent + 1) * MS // 10))
        bodies = (
            [m.body for m in parser.feed(peer.recv(65536))]
            if select.select([peer], (), (), 0)[0]
            else []
        )
        for body in bodies:
            if isinstance(body, HilSensor):
                got += 1
                if got > unanswered:
                    answer(peer, body.time_usec, (0.5,) * 4)
        link.receive()
        link.check()
    return link.sent


@pytest.mark.parametrize("unanswered", [1, 11, 12, 122, 500])
def test_any_number_of_first_samples_may_stay_unanswered(
    px4: tuple[Px4Link, socket.socket], unanswered: int
) -> None:
    link, peer = px4
    assert started(link, peer, unanswered) > unanswered
    link.receive()
    link.send(sample((link.sent + 1) * MS // 10))
    link.check()
    assert link.waiting, "from here on each is answered"


def test_first_samples_go_out_at_the_pace_of_time(px4: tuple[Px4Link, socket.socket]) -> None:
    link, _ = px4
    due_ns = [machine_ns()]
    for i in range(1, 5):
        link.send(sample(40 * i * MS))
        assert link.due_ns is not None
        due_ns.append(link.due_ns)
        until(link, lambda: no_longer_waiting(link))
        assert has_state(link, "starting")
    gaps_ns = np.diff(due_ns)
    assert gaps_ns[0] >= 4 * MS, "PX4's own rate, as nothing else is known yet"
    assert (gaps_ns[1:] >= 40 * MS).all(), "one that is late is not followed by a burst"


def test_the_first_answer_may_be_to_a_sample_before_the_newest(
    px4: tuple[Px4Link, socket.socket],
) -> None:
    link, peer = px4
    for i in (1, 2, 3):
        link.send(sample(i * MS // 10))
        until(link, lambda: no_longer_waiting(link))
    answer(peer, 200, (0.5,) * 4)
    until(link, lambda: has_state(link, "running"))
    link.check()
    assert link.waiting, "for the answer to the newest, which follows"
    answer(peer, 300, (0.6,) * 4)
    until(link, lambda: not link.waiting)
    assert link.motors[0] == pytest.approx(0.6)


def test_a_px4_that_starts_again_is_not_waited_for_at_first(
    px4: tuple[Px4Link, socket.socket],
) -> None:
    link, peer = px4
    started(link, peer, 3)
    peer.close()
    until(link, lambda: has_state(link, "ended"))
    with socket.create_connection(link.address) as again:
        until(link, lambda: has_state(link, "starting"))
        first = link.sent
        assert started(link, again, 40) > first + 40, "its first samples are not answered either"


def test_a_silent_px4_gets_samples_and_revives() -> None:
    link = Px4Link("127.0.0.1", free_port(socket.SOCK_STREAM), timeout_s=0.05)
    link.open()
    try:
        with socket.create_connection(link.address) as peer:
            until(link, lambda: has_state(link, "starting"))
            started(link, peer, 2)
            until(link, lambda: link.waiting is False)
            link.send(sample(MS))
            until(link, lambda: no_longer_waiting(link))
            assert has_state(link, "silent")
            assert not any(link.motors)
            assert not link.armed
            before = link.sent
            for i in range(2, 12):
                link.send(sample(i * MS))
                assert not link.waiting, "the others fly on"
            assert link.sent == before + 10
            answer(peer, 8_000, (0.7,) * 4)
            until(link, lambda: has_state(link, "running"))
            assert link.motors[0] == pytest.approx(0.7)
            answer(peer, 11_000, (0.4,) * 4)
            until(link, lambda: not link.waiting)
            link.send(sample(12 * MS))
            answer(peer, 12_000, (0.6,) * 4)
            until(link, lambda: not link.waiting)
            assert link.motors[0] == pytest.approx(0.6), "in lockstep again"
    finally:
        link.close()


def test_a_px4_that_reads_nothing_loses_whole_samples(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    assert link._peer is not None
    link._peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)  # it is full sooner
    t_ns = 0
    while link.dropped < 10:
        t_ns += MS
        link.send(sample(t_ns, gps=GPS, pose=POSE))
    parser = MavlinkParser()
    while link.state == "starting":
        times_us = [
            m.body.time_usec for m in parser.feed(peer.recv(65536)) if isinstance(m.body, HilSensor)
        ]
        if times_us:
            answer(peer, times_us[-1], (0.5,) * 4)
        t_ns += MS
        link.send(sample(t_ns))
        link.receive()
    assert (parser.bad_crc, parser.garbage) == (0, 0), "what was sent in part was sent to its end"


class NarrowSocket(socket.socket):
    """A socket that takes 100 bytes at a time."""

    def send(self, data: Any, flags: int = 0, /) -> int:
        return super().send(memoryview(data)[:100], flags)


def test_a_sample_that_went_out_in_part_goes_out_to_its_end(
    px4: tuple[Px4Link, socket.socket],
) -> None:
    link, peer = px4
    assert link._peer is not None
    link._peer = NarrowSocket(fileno=link._peer.detach())
    link._peer.setblocking(False)
    taken_us = []
    for i in range(1, 41):
        dropped = link.dropped
        link.send(sample(i * MS, gps=GPS, pose=POSE))
        taken_us += [1000 * i] if link.dropped == dropped else []
    link.close()
    parser = MavlinkParser()
    times_us: list[int] = []
    while data := peer.recv(65536):
        times_us += [m.body.time_usec for m in parser.feed(data) if isinstance(m.body, HilSensor)]
    assert times_us in (taken_us, taken_us[:-1]), "the newest may be under way"
    assert 10 <= link.dropped <= 30
    assert (parser.bad_crc, parser.garbage) == (0, 0)


def test_an_answer_to_another_sample_is_none(px4: tuple[Px4Link, socket.socket]) -> None:
    link, peer = px4
    link.send(sample(4 * MS))
    answer(peer, 4001, (0.5,) * 4)
    answer(peer, 2**64 - 1, (0.5,) * 4)
    answer(peer, 4000, (0.25,) * 4)
    until(link, lambda: not link.waiting)
    assert link.answers == 1
    assert link.motors[:4] == (0.25,) * 4


def test_a_silent_peer_gives_way_to_another() -> None:
    port = free_port(socket.SOCK_STREAM)
    link = Px4Link("127.0.0.1", port, timeout_s=0.01)
    link.open()
    try:
        # No autopilot, or one whose computer is gone.
        with socket.create_connection(("127.0.0.1", port)):
            until(link, lambda: has_state(link, "starting"))
            for i in range(1, 13):
                link.send(sample(4 * i * MS))
                until(link, lambda: no_longer_waiting(link))
            with socket.create_connection(("127.0.0.1", port)) as peer:
                assert started(link, peer, 2) > 14
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


def test_the_ground_truth_comes_as_often_as_px4_asks() -> None:
    place = lambda p_m: (47.0 + p_m[0], 8.0 + p_m[1], 400.0 + p_m[2])  # noqa: E731
    link = Px4Link("127.0.0.1", free_port(socket.SOCK_STREAM), UNLIMITED_S, place)
    link.open()
    try:
        with socket.create_connection(link.address) as peer:
            until(link, lambda: has_state(link, "starting"))
            parser = MavlinkParser()

            def truths(times_ms: range) -> list[HilStateQuaternion]:
                for t_ms in times_ms:
                    link.send(sample(t_ms * MS, STILL._replace(v_world_mps=(0.1 * t_ms, 0.2, 0.3))))
                found: list[HilStateQuaternion] = []
                last = 0
                while last < 1000 * times_ms[-1]:
                    for message in parser.feed(peer.recv(65536)):
                        found += (
                            [message.body] if isinstance(message.body, HilStateQuaternion) else []
                        )
                        last = (
                            message.body.time_usec if isinstance(message.body, HilSensor) else last
                        )
                return found

            def ask(number: float, interval_us: float) -> None:
                words = number, interval_us, 0.0, 0.0, 0.0, 0.0, 0.0
                body = mavlink.CommandLong(*words, mavlink.CMD_SET_MESSAGE_INTERVAL)
                peer.sendall(encode(body, 0, system=1, component=1))
                answer(peer, 2**40, (0.0,) * 4)
                while select.select(link.descriptors(), (), (), 0.0)[0]:
                    link.receive()

            assert truths(range(4, 20, 4)) == [], "without a wish there is none"
            ask(24, 5000.0)
            assert truths(range(20, 40, 4)) == [], "it asked for another message"
            ask(115, 5000.0)
            assert truths(range(40, 1000, 4)) == [], "it begins at a whole second"
            found = truths(range(1000, 1040, 4))
            times_ms = [m.time_usec // 1000 for m in found]
            assert times_ms == [1000, 1008, 1012, 1016, 1020, 1028, 1032, 1036]
            second = found[1]
            assert (second.lat_e7, second.lon_e7, second.alt_mm) == (
                480_000_000,
                100_000_000,
                403_000,
            )
            assert (second.vx_cmps, second.vy_cmps, second.vz_cmps) == (20, 10_080, -30)
            assert (second.xacc, second.yacc, second.zacc) == (0, 32_767, 0), "100 m/s2 do not fit"
            assert abs(second.q_wxyz[0]) == pytest.approx(math.sqrt(0.5)), "the room's x is east"
            ask(115, -1.0)
            assert truths(range(1040, 1060, 4)) == []
    finally:
        link.close()


def test_remote_control_reaches_px4_fifty_times_a_second(
    px4: tuple[Px4Link, socket.socket],
) -> None:
    link, peer = px4
    sticks = (1510, 1520, 1030, 1540, 1900)
    for t_ms in range(4, 64, 4):
        link.send(sample(t_ms * MS, rc_us=sticks))
    link.send(sample(64 * MS, rc_us=(1600, *sticks[1:])))
    link.send(sample(68 * MS))
    parser = MavlinkParser()
    bodies: list[Any] = []
    while not bodies or getattr(bodies[-1], "time_usec", 0) < 68_000:
        bodies += [m.body for m in parser.feed(peer.recv(65536))]
    found = [body for body in bodies if isinstance(body, RcChannels)]
    assert [body.time_boot_ms for body in found] == [4, 24, 44, 64], "and at once where they change"
    assert found[0].channels_us == (*sticks, *(0,) * 13)
    assert (found[0].chancount, found[0].rssi) == (5, 254)
    assert found[-1].channels_us[0] == 1600


# --- PX4 on its own hardware ---------------------------------------------------------------------


def test_a_flight_controller_on_a_serial_line_flies_in_real_time(tmp_path: Path) -> None:
    with closing(PseudoTerminal(tmp_path / "ttyACM0")) as terminal:
        link = Px4SerialLink(str(tmp_path / "ttyACM0"), 921_600, timeout_s=0.05)
        link.open()
        try:
            link.send(sample(8 * MS, gps=GPS, rc_us=(1510, 1500, 1000, 1500)))
            assert link.takes(late=False)
            assert not link.takes(late=True), "a newer one follows"
            assert not link.waiting
            parser = MavlinkParser()
            bodies: list[Any] = []
            while len(bodies) < 3:
                bodies += [m.body for m in parser.feed(terminal.read())]
            assert [type(body) for body in bodies] == [HilGps, RcChannelsOverride, HilSensor]
            assert bodies[1].channels_us[:4] == (1510, 1500, 1000, 1500), (
                "its receiver knows no RC_CHANNELS"
            )
            assert bodies[2].time_usec == 8000
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
            again.write(
                encode(HilActuatorControls(0, 0, (0.25,) * 16, 129), 0, system=1, component=1)
            )
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
