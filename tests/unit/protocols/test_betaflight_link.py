"""Link to Betaflight: states over UDP, at the rate that its clock needs."""

from __future__ import annotations

import math
import os
import select
import socket
import struct
import time

import pytest

from tests.support.autopilot_links import (
    GPS,
    MS,
    UNLIMITED_S,
    has_state,
    sample,
    until,
)
from vil_bridge.core.clock import machine_ns
from vil_simulation.autopilots.links.betaflight import (
    MOTORS_PORT,
    RC_PORT,
    STATE_PORT,
    BetaflightLink,
    rc_packet,
    state_packet,
)

pytestmark = pytest.mark.wire


def test_a_state_has_betaflights_signs() -> None:
    numbers = struct.unpack("<18d", state_packet(sample(2_000 * MS, gps=GPS)))
    assert numbers[0] == 2.0
    assert numbers[1:4] == pytest.approx((0.1, -0.2, -0.3))
    assert numbers[4:7] == pytest.approx((-0.5, -0.6, -9.81)), (
        "minus the specific force, forward, left, up"
    )
    assert abs(numbers[7]) == pytest.approx(math.sqrt(0.5)), (
        "body axes along the room's x face east"
    )
    assert numbers[11:14] == (0.1, 0.2, 0.3)
    assert numbers[14:18] == (8.5, 47.5, 430.0, 99_900.0)
    indoors = struct.unpack("<18d", state_packet(sample(0)))
    assert indoors[14:17] == (0.0, 0.0, 3.0), "the height is known"


def test_remote_control_has_sixteen_channels() -> None:
    values = struct.unpack("<d16H", rc_packet(10 * MS, (1510, 1520, 1010, 1530, 1900, 1800)))
    assert values == (0.01, 1510, 1520, 1010, 1530, 1900, 1800, *[1000] * 10)


def first_state(link: BetaflightLink, states: socket.socket) -> int:
    """Return the size of the first datagram that is no probe, which comes a second after the
    port opened.
    """
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
    host = (
        f"127.23.{pid >> 8 & 255}.{pid & 255}"  # a loopback address of its own: the ports are fixed
    )
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
            assert struct.unpack_from("<dH", rc.recv(2048)) == (0.003, 1600), (
                "a stick that moves is not held back"
            )
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
            assert taken_ns(link) - begun_ns > 1020 * MS, (
                "the one after a state that it drops is no pair with it"
            )
            sent_ns(21)
            assert link.takes(late=False), (
                "without answers, as while it starts, the next one goes out"
            )
            states.sendto(struct.pack("<4f", *[0.1] * 4), (host, 9002))
            until(link, lambda: has_state(link, "running"))
            before_ns, _ = sent_ns(22)
            assert taken_ns(link) - before_ns > 20 * MS, (
                "nothing says that it has read the state before"
            )
            _, after_ns = sent_ns(43)
            time.sleep(0.008)
            answers, answered_ns = link.answers, machine_ns()
            states.sendto(struct.pack("<4f", *[0.2] * 4), (host, 9002))
            until(link, lambda: link.answers > answers)
            now_ns = taken_ns(link)
            assert 4 * (now_ns - answered_ns) >= now_ns - after_ns, (
                "it may have read the state just now"
            )
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


def test_motors_of_others_fly_no_vehicle() -> None:
    pid = os.getpid()
    host = f"127.26.{pid >> 8 & 255}.{pid & 255}"
    link = BetaflightLink(host, timeout_s=UNLIMITED_S)
    link.open()
    forged = struct.pack("<4f", *[0.9] * 4)
    own = struct.pack("<4f", *[0.3] * 4)
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as neighbour,
        ):
            forger.bind(("127.0.0.2", 0))
            neighbour.bind((host, 0))

            def forge() -> None:
                strangers = link.strangers
                for one in (forger, neighbour):
                    one.sendto(forged, (host, MOTORS_PORT))
                until(link, lambda: link.strangers == strangers + 2)

            forge()
            assert link.state == "absent", "no Betaflight runs"
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as states:
                states.bind((host, STATE_PORT))
                assert first_state(link, states) == 144
                states.sendto(own, (host, MOTORS_PORT))
                until(link, lambda: has_state(link, "running"))
                assert link.armed
                forge()
                assert link.motors == pytest.approx((0.3,) * 4)
                assert link.note == f", ignores datagrams of 127.0.0.2:{forger.getsockname()[1]}"
            while link.note:  # its port is closed: states are refused
                link.send(sample(0))
            forge()
            assert link.motors == pytest.approx((0.3,) * 4), "they stop once it is silent"
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
                again.bind((host, STATE_PORT))
                assert first_state(link, again) == 144
                again.sendto(struct.pack("<4f", *[0.4] * 4), (host, MOTORS_PORT))
                until(link, lambda: link.motors[0] == pytest.approx(0.4))
    finally:
        link.close()
