"""Link to ArduPilot: frames over UDP, a line of JSON for each."""

from __future__ import annotations

import json
import math
import re
import select
import socket
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.autopilot_links import (
    MS,
    UNLIMITED_S,
    has_state,
    no_longer_waiting,
    sample,
    until,
)
from tests.support.common import free_port
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_simulation.autopilots.links.ardupilot import ArduPilotLink, state_line
from vil_simulation.autopilots.links.link import READS_AT_ONCE
from vil_simulation.autopilots.links.poses import TrueMotion

pytestmark = pytest.mark.wire


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
    return struct.pack(
        f"<HHI{channels}H", magic, 1200, frame, *pulses, *[0] * (channels - len(pulses))
    )


@pytest.mark.parametrize("channels", [16, 32])
def test_ardupilots_pulses_become_outputs(
    ardupilot: tuple[ArduPilotLink, socket.socket], channels: int
) -> None:
    link, peer = ardupilot
    peer.send(servos(0, 1000, 1500, 2000, 2200, 0, channels=channels))
    until(link, lambda: has_state(link, "running"))
    assert link.motors[:5] == (0.0, 0.5, 1.0, 1.0, 0.0)
    link.send(sample(MS))
    assert link.waiting
    assert peer.recv(2048).startswith(b"\n{")


def test_a_repeated_frame_gets_the_same_line_and_no_step(
    ardupilot: tuple[ArduPilotLink, socket.socket],
) -> None:
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


def test_an_ardupilot_that_starts_again_is_answered(
    ardupilot: tuple[ArduPilotLink, socket.socket],
) -> None:
    link, peer = ardupilot
    for frame in (0, 1, 2, 0):
        peer.send(servos(frame))
        until(link, lambda: not link.waiting and link.state == "running")
        link.send(sample((link.sent + 1) * MS))
        assert b'"timestamp"' in peer.recv(2048)
    assert link.sent == 4


def test_another_program_does_not_take_the_vehicle(
    ardupilot: tuple[ArduPilotLink, socket.socket],
) -> None:
    link, peer = ardupilot
    peer.send(servos(5, 1100))
    until(link, lambda: link.answers == 1)
    link.send(sample(MS))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.connect(link.address)
        stranger.settimeout(10)
        stranger.send(servos(6, 2000))
        stranger.send(servos(5, 2000))
        stranger.send(servos(0, 2000))  # as if it had started again
        until(link, lambda: link.strangers == 3)
        assert link.motors[0] == 0.1
        assert link.note == f", ignores datagrams of 127.0.0.1:{stranger.getsockname()[1]}"
        link.program_ended()  # it was started by the bridge: the next one has another port
        assert link.note == ""
        stranger.send(servos(0, 1200))
        until(link, lambda: link.answers == 2)
        assert link.motors[0] == 0.2
        link.send(sample(2 * MS))
        assert b'"timestamp":0.002' in stranger.recv(2048)


def test_frames_of_another_address_stop_no_motor(
    ardupilot: tuple[ArduPilotLink, socket.socket],
) -> None:
    link, peer = ardupilot
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
        forger.bind(("127.0.0.2", peer.getsockname()[1]))
        for frame in range(5, 40):
            peer.send(servos(frame, 1500))
            until(link, lambda before=frame - 5: link.answers == before + 1)
            strangers = link.strangers
            forger.sendto(servos(frame + 1, 1000), link.address)
            forger.sendto(servos(0, 1000), link.address)
            until(link, lambda before=strangers: link.strangers == before + 2)
            assert link.motors[0] == 0.5
            link.send(sample(frame * MS))
            assert b'"timestamp"' in peer.recv(2048)
        forger.setblocking(False)
        with pytest.raises(BlockingIOError):
            forger.recv(2048)


def test_a_silent_program_that_comes_back_gets_the_line_that_it_missed() -> None:
    link = ArduPilotLink("127.0.0.1", free_port(socket.SOCK_DGRAM), timeout_s=0.01)
    link.open()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.connect(link.address)
            peer.settimeout(10)
            peer.send(servos(5, 1100))
            until(link, lambda: has_state(link, "running"))
            link.send(sample(MS))
            line = peer.recv(2048)
            until(link, lambda: no_longer_waiting(link))
            assert has_state(link, "silent")
            peer.send(servos(5, 1100))
            until(link, lambda: link.repeats == 1)
            assert peer.recv(2048) == line
            peer.send(servos(6, 1200))
            until(link, lambda: has_state(link, "running"))
    finally:
        link.close()


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
    peer.send(servos(2))  # started again, its first frames lost
    until(link, lambda: link.answers == 2)


def test_frames_beyond_many_wait_for_the_next_step(
    ardupilot: tuple[ArduPilotLink, socket.socket],
) -> None:
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


@pytest.mark.parametrize(
    "data", [b"", b"\x1a\x48", servos(1)[:-1], servos(1) + b"x", b"\xff" * 40, bytes(2000)]
)
def test_other_datagrams_are_no_frames(
    ardupilot: tuple[ArduPilotLink, socket.socket], data: bytes
) -> None:
    link, peer = ardupilot
    peer.send(data)
    peer.send(servos(7))
    until(link, lambda: has_state(link, "running"))
    assert link.answers == 1


def test_the_line_is_what_ardupilots_search_for_keys_finds() -> None:
    nose_up = TrueMotion(
        (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), tuple(q_from_euler_zyx(math.pi / 2, -0.2, 0.0)), (0, 0, 0)
    )
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
