"""Poses as messages, and the port of ArduPilot that takes them, over a real socket."""

from __future__ import annotations

import math
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.framing import MavlinkParser, encode
from vil_bridge.protocols.mavlink.hil_messages import GpsInput
from vil_bridge.protocols.mavlink.pose_messages import Spread
from vil_simulation.autopilots.links.ardupilot_port import ArduPilotPort
from vil_simulation.autopilots.links.poses import PoseKind, PoseSample, TrueMotion, pose_message

pytestmark = pytest.mark.wire

MS = 1_000_000
STILL = TrueMotion((1.0, 2.0, 3.0), (0.1, 0.2, 0.3), (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0))
HOST = "127.0.0.1"


def seen(kind: PoseKind, motion: TrueMotion = STILL) -> PoseSample:
    return PoseSample(kind, 4 * MS, motion, (47.1, 8.2, 456.5), Spread(0.002, 0.003, 0.05))


class Peer:
    """ArduPilot's end."""

    def __init__(self, server: socket.socket) -> None:
        self.server = server
        self.port = ArduPilotPort(server.getsockname()[1], (47.0, 8.0, 400.0))
        self._parser = MavlinkParser()
        self._accepted = ExitStack()

    def accept(self) -> None:
        self.close()
        self.socket = self._accepted.enter_context(self.server.accept()[0])
        self.socket.settimeout(10.0)

    def close(self) -> None:
        self._accepted.close()

    def send(self, body: mavlink.Body) -> None:
        self.socket.sendall(encode(body, 0, system=3, component=1))

    def bodies(self, count: int) -> list[mavlink.Body]:
        found: list[mavlink.Body] = []
        while len(found) < count:
            found += [message.body for message in self._parser.feed(self.socket.recv(4096))]
        return found


@pytest.fixture
def peer() -> Iterator[Peer]:
    with socket.create_server((HOST, 0)) as server:
        found = Peer(server)
        yield found
        found.port.close()
        found.close()


def test_vision_position_estimate_is_north_east_down() -> None:
    body = pose_message(seen("VISION_POSITION_ESTIMATE"))
    assert isinstance(body, mavlink.VisionPositionEstimate)
    assert (body.usec, *body[1:4]) == pytest.approx((4000, 2.0, 1.0, -3.0))
    assert body[4:7] == pytest.approx((0.0, 0.0, math.pi / 2)), (
        "a body along the room's x looks east"
    )


def test_gps_input_has_the_place_the_accuracies_and_the_heading() -> None:
    body = pose_message(seen("GPS_INPUT"))
    assert isinstance(body, GpsInput)
    assert (body.lat_e7, body.lon_e7, body.alt_m) == (471_000_000, 82_000_000, 456.5)
    assert body[7:13] == pytest.approx((0.2, 0.1, -0.3, 0.05, 0.002, 0.002)), (
        "north, east, down, accuracies"
    )
    assert (body.ignore_flags, body.fix_type, body.yaw_cdeg, body.time_week_ms) == (0, 3, 9000, 4)
    north = STILL._replace(q_world_body=tuple(q_from_euler_zyx(math.pi / 2, 0.0, 0.0)))
    body = pose_message(seen("GPS_INPUT", north))
    assert isinstance(body, GpsInput)
    assert body.yaw_cdeg == 36_000, "0 would mean that there is none"


def test_it_connects_and_sends_a_sign_of_life_and_poses(peer: Peer) -> None:
    peer.port.exchange(HOST, 0, None)
    assert peer.port.connected
    peer.accept()
    peer.port.exchange(HOST, 20 * MS, seen("ODOMETRY"))
    heartbeat, odometry = peer.bodies(2)
    assert isinstance(heartbeat, mavlink.Heartbeat)
    assert (heartbeat.type, heartbeat.autopilot) == (18, 8)
    assert (
        odometry
        == MavlinkParser()
        .feed(encode(pose_message(seen("ODOMETRY")), 0, system=1, component=197))[0]
        .body
    )


def test_the_origin_is_sent_each_second_until_ardupilot_has_one(peer: Peer) -> None:
    peer.port.exchange(HOST, 0, None)
    peer.accept()
    peer.bodies(1)
    peer.send(mavlink.Heartbeat(0, 2, 3, 0, 4))
    for second in (1, 2):
        peer.port.exchange(HOST, second * NS_PER_S, None)
        _, origin = peer.bodies(2)
        assert isinstance(origin, mavlink.SetGpsGlobalOrigin)
        assert origin[:4] == (470_000_000, 80_000_000, 400_000, 3), "to the system that was heard"
    peer.send(mavlink.GpsGlobalOrigin(470_000_000, 80_000_000, 400_000))
    peer.port.exchange(HOST, 3 * NS_PER_S, None)
    assert len(peer.bodies(1)) == 1
    peer.port.exchange(HOST, 4 * NS_PER_S, seen("VISION_POSITION_ESTIMATE"))
    assert [type(body) for body in peer.bodies(2)] == [
        mavlink.Heartbeat,
        mavlink.VisionPositionEstimate,
    ]


def test_clock_requests_are_answered_in_simulated_time(peer: Peer) -> None:
    peer.port.exchange(HOST, 0, None)
    peer.accept()
    peer.bodies(1)
    peer.send(mavlink.TimeSync(0, 77))
    peer.port.exchange(HOST, 500 * MS, None)
    assert peer.bodies(1) == [mavlink.TimeSync(500 * MS, 77)]


def test_an_answer_to_a_clock_request_is_not_answered(peer: Peer) -> None:
    """A request has a zero in tc1, an answer the clock of its sender.

    Two sides that answer answers never end.
    """
    peer.port.exchange(HOST, 0, None)
    peer.accept()
    peer.bodies(1)
    for tc1_ns, ts1_ns in ((1, 11), (123_456_789, 12), (-5, 13), (0, 14), (2**62, 15), (0, 16)):
        peer.send(mavlink.TimeSync(tc1_ns, ts1_ns))
    answers: list[mavlink.Body] = []
    for _ in range(1000):
        peer.port.exchange(HOST, 500 * MS, None)
        if select.select([peer.socket], (), (), 0.01)[0]:
            answers += peer.bodies(1)
        if len(answers) >= 2:
            break
    assert answers == [mavlink.TimeSync(500 * MS, 14), mavlink.TimeSync(500 * MS, 16)]
    peer.port.exchange(HOST, 500 * MS, seen("ODOMETRY"))
    assert isinstance(peer.bodies(1)[0], mavlink.Odometry)


def test_a_closed_connection_is_opened_again_at_a_time_of_the_simulation(peer: Peer) -> None:
    peer.port.exchange(HOST, 0, None)
    peer.accept()
    peer.bodies(1)
    peer.close()
    peer.port.exchange(HOST, 100 * MS, None)
    assert not peer.port.connected
    peer.port.exchange(HOST, 400 * MS, seen("ODOMETRY"))
    assert not peer.port.connected, "half a second after the last attempt"
    peer.port.exchange(HOST, 500 * MS, None)
    peer.accept()
    assert isinstance(peer.bodies(1)[0], mavlink.Heartbeat)


def test_a_peer_that_reads_nothing_loses_the_connection(peer: Peer) -> None:
    peer.port.exchange(HOST, 0, None)
    peer.accept()
    for number in range(200_000):
        if not peer.port.connected:
            break
        peer.port.exchange(HOST, number, seen("ODOMETRY"))
    assert not peer.port.connected
