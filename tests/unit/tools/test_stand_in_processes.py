"""Stand-ins of autopilots as processes: command lines, sockets and exit codes.

Pymavlink flies them.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from time import monotonic, sleep
from typing import Any

import pytest

from tests.support.autopilot_peers import ArduPilotPeer, BetaflightPeer, Px4Peer
from tests.support.common import ROOT, free_port
from tests.support.fork_server import without_forking
from tests.support.mavlink_pilot import Pilot, fly_ardupilot_guided, fly_px4_offboard
from tests.support.sitl import STAND_IN
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_simulation.autopilots.stand_ins.betaflight import BetaflightStandIn
from vil_simulation.autopilots.stand_ins.px4 import UNANSWERED
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.process

_DEADLINE_S = 120.0


@contextmanager
def stand_in(*words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*STAND_IN, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    out, err = process.communicate(timeout=_DEADLINE_S)
    return process.returncode, json.loads(out), err.strip()


class Simulator:
    """PX4's stand-in behind a socket, for the naive peer."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._parser = framing.MavlinkParser()
        self._sent = 0

    def receive(self, data: bytes) -> None:
        self._link.sendall(data)
        self._sent += 1

    def answer(self) -> bytes:
        while self._sent > UNANSWERED:
            data = self._link.recv(4096)
            if not data:
                raise ConnectionResetError
            for message in self._parser.feed(data):
                if isinstance(message.body, hil.HilActuatorControls):
                    return framing.encode(message.body, 0, system=1, component=1)
        return b""


@contextmanager
def px4_simulator(*words: str) -> Iterator[tuple[Px4Peer, subprocess.Popen[str]]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with stand_in(
            "px4", "--port", port, "--gcs-port", "0", "--unanswered", str(UNANSWERED), *words
        ) as process:
            server.settimeout(_DEADLINE_S)
            link, _ = server.accept()
            link.settimeout(_DEADLINE_S)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with link:
                yield Px4Peer(Simulator(link)), process  # type: ignore[arg-type]


def test_pymavlink_flies_px4s_stand_in_in_offboard() -> None:
    with closing(socket.socket(type=socket.SOCK_DGRAM)) as link:
        link.bind(("127.0.0.1", free_port(socket.SOCK_DGRAM, 40)))
        port = link.getsockname()[1]
        with px4_simulator("--onboard-port", str(port)) as (simulator, process):
            pilot = Pilot(link, simulator.step)
            fly_px4_offboard(pilot)
            process.send_signal(signal.SIGTERM)
            code, counters, _ = ended(process)
    assert (code, counters["violation"]) == (0, "")
    assert [armed for _, armed in counters["armed"]] == [True, False]
    assert counters["packets"] - counters["answers"] == UNANSWERED


def test_px4s_stand_in_ends_with_a_sentence_at_a_violation() -> None:
    with px4_simulator("--onboard-port", "0") as (simulator, process):
        for _ in range(20):
            simulator.step()
        simulator.time_us += 1
        with pytest.raises(ConnectionError):
            for _ in range(2):
                simulator.step()
        code, counters, sentence = ended(process)
    assert code == 3
    assert sentence == counters["violation"] == "time_usec rises by 4001 us, not by 4000 us."


def test_px4s_stand_in_ends_with_the_link() -> None:
    with px4_simulator("--onboard-port", "0") as (simulator, process):
        for _ in range(20):
            simulator.step()
        simulator.stand_in._link.close()  # type: ignore[attr-defined]
        code, counters, _ = ended(process)
    assert (code, counters["connections"]) == (0, 1)


def test_px4s_stand_in_connects_again_and_ends_at_its_time() -> None:
    """It is executed here, and forked in the other cases."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = (
            "--port",
            str(server.getsockname()[1]),
            "--gcs-port",
            "0",
            "--onboard-port",
            "0",
            "--reconnect",
            "--unanswered",
            "11",
        )
        with without_forking(), stand_in("px4", *words, "--seconds", "0.5") as process:
            server.settimeout(_DEADLINE_S)
            server.accept()[0].close()
            link, _ = server.accept()
            link.settimeout(_DEADLINE_S)
            with link, pytest.raises(ConnectionError):
                Px4Peer(Simulator(link)).run(2.0)  # type: ignore[arg-type]
            code, counters, _ = ended(process)
    assert (code, counters["connections"]) == (0, 2)
    assert counters["simulated_s"] == 0.5


@contextmanager
def ardupilot_physics(*words: str) -> Iterator[tuple[Callable[[], None], subprocess.Popen[str]]]:
    with closing(socket.socket(type=socket.SOCK_DGRAM)) as link:
        link.bind(("127.0.0.1", 0))
        link.settimeout(0.05)
        physics = ArduPilotPeer(None)  # type: ignore[arg-type]

        def step() -> None:
            try:
                data, peer = link.recvfrom(4096)
            except TimeoutError:
                return
            link.sendto(physics.answer(data), peer)

        port = str(link.getsockname()[1])
        with stand_in(
            "ardupilot", "--port", port, "--rate", "400", "--speedup", "0", *words
        ) as process:
            yield step, process


def test_pymavlink_flies_ardupilots_stand_in_in_guided() -> None:
    port = free_port(socket.SOCK_STREAM, 2, 3)
    with (
        ardupilot_physics("--command-port", str(port)) as (step, process),
        closing(socket.socket()) as link,
    ):
        give_up = monotonic() + _DEADLINE_S
        while link.connect_ex(("127.0.0.1", port)):
            assert monotonic() < give_up
            sleep(0.05)
        pilot = Pilot(link, step)
        fly_ardupilot_guided(pilot)
        process.send_signal(signal.SIGTERM)
        code, counters, _ = ended(process)
    assert (code, counters["violation"]) == (0, "")
    assert counters["frames"] - counters["answers"] in (0, 1)


def test_ardupilots_stand_in_waits_for_its_first_client_only_with_a_port() -> None:
    with ardupilot_physics("--command-port", "0", "--seconds", "1") as (step, process):
        while process.poll() is None:
            step()
        code, counters, _ = ended(process)
    assert (code, counters["simulated_s"]) == (0, pytest.approx(1.0, abs=0.1))
    port = free_port(socket.SOCK_STREAM, 2, 3)
    with ardupilot_physics("--command-port", str(port), "--seconds", "1") as (step, process):
        with closing(socket.socket()) as link:
            while link.connect_ex(("127.0.0.1", port)):
                step()
            while process.poll() is None:
                step()
        assert ended(process)[0] == 0


@contextmanager
def betaflight_physics() -> Iterator[
    tuple[socket.socket, socket.socket, int, subprocess.Popen[str]]
]:
    """Sockets for motors and raw outputs, and the port of the states."""
    state_port, rc_port = free_ports(2, socket.SOCK_DGRAM)
    kinds = socket.AF_INET, socket.SOCK_DGRAM
    with closing(socket.socket(*kinds)) as motors, closing(socket.socket(*kinds)) as raw:
        for link in (motors, raw):
            link.bind(("127.0.0.1", 0))
            link.settimeout(0.05)
        outputs = [
            "--motor-port",
            str(motors.getsockname()[1]),
            "--raw-port",
            str(raw.getsockname()[1]),
        ]
        ports = ["--port", str(state_port), "--rc-port", str(rc_port), *outputs]
        with stand_in("betaflight", *ports) as process:
            yield motors, raw, state_port, process


def test_betaflights_stand_in_answers_states() -> None:
    flown = BetaflightPeer(BetaflightStandIn())
    give_up = monotonic() + _DEADLINE_S
    with betaflight_physics() as (motors, raw, port, process):
        answers = 0
        while answers < 20:
            assert monotonic() < give_up
            sleep(0.002)
            flown.stamp_s += 0.002
            motors.sendto(flown.packet(flown.vehicle.motion()), ("127.0.0.1", port))
            try:
                assert motors.recv(64) == bytes(16)
            except TimeoutError:
                continue
            assert len(raw.recv(128)) == 68
            answers += 1
        process.send_signal(signal.SIGTERM)
        code, counters, _ = ended(process)
    assert (code, counters["violation"]) == (0, "")
    assert counters["answers"] >= 20


def test_betaflights_stand_in_ends_at_a_state_of_another_size() -> None:
    give_up = monotonic() + _DEADLINE_S
    with betaflight_physics() as (motors, _, port, process):
        while process.poll() is None:
            assert monotonic() < give_up
            motors.sendto(bytes(145), ("127.0.0.1", port))
            sleep(0.05)
        code, _, sentence = ended(process)
    assert (code, sentence) == (3, "a state has 145 bytes, not 144: Betaflight drops it.")
