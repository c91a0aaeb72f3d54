"""Stand-ins of autopilots as processes: command lines, sockets and exit codes; pymavlink flies them."""

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
from pymavlink.dialects.v20 import common as reference

from tests.support.autopilot_peers import ArduPilotPeer, BetaflightPeer, Px4Peer
from tests.support.common import ROOT, free_port, free_ports
from tests.support.sitl import STAND_IN
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_bridge.tools.lab.autopilots.betaflight import BetaflightStandIn
from vil_bridge.tools.lab.autopilots.px4 import SILENT_PACKETS

pytestmark = pytest.mark.process

_DEADLINE_S = 120.0
_POSITION_ONLY = 0x9F8


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
        while self._sent > SILENT_PACKETS:
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
        with stand_in("px4", "--port", port, "--gcs-port", "0", *words) as process:
            server.settimeout(_DEADLINE_S)
            link, _ = server.accept()
            link.settimeout(_DEADLINE_S)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with link:
                yield Px4Peer(Simulator(link)), process  # type: ignore[arg-type]


class Pilot:
    """A program with pymavlink that flies over a socket, while the simulation runs step by step."""

    def __init__(self, link: socket.socket, step: Callable[[], object]) -> None:
        self.heard: dict[str, Any] = {}
        self._link, self._step = link, step
        self._mav = reference.MAVLink(self, srcSystem=255, srcComponent=190)
        self._mav.robust_parsing = True
        self._peer: Any = None
        link.setblocking(False)

    def write(self, data: bytes) -> None:
        if self._peer:
            self._link.sendto(bytes(data), self._peer)
        else:
            self._link.sendall(bytes(data))

    def until(self, holds: Callable[[], bool], act: Callable[[], None] = lambda: None) -> None:
        """Step, and act ten times a simulated second, until something holds."""
        give_up = monotonic() + _DEADLINE_S
        steps = 0
        while not holds():
            assert monotonic() < give_up, self.heard
            if steps % 25 == 0:
                act()
            steps += 1
            self._step()
            self._listen()

    def command(self, number: int, *values: float) -> int:
        """The result of a command."""
        self.heard.pop("COMMAND_ACK", None)
        padded = [*values, *[0.0] * (7 - len(values))]
        self._mav.command_long_send(1, 1, number, 0, *padded)
        self.until(lambda: "COMMAND_ACK" in self.heard)
        assert self.heard["COMMAND_ACK"].command == number
        return int(self.heard["COMMAND_ACK"].result)

    def arm(self) -> None:
        while self.command(400, 1.0):
            pass

    def fly_to(self, north: float, east: float, down: float) -> None:
        self._mav.set_position_target_local_ned_send(
            *(0, 1, 1, 1, _POSITION_ONLY, north, east, down, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        )

    def at(self, north: float, east: float, down: float) -> bool:
        p = self.heard.get("LOCAL_POSITION_NED")
        return p is not None and max(abs(p.x - north), abs(p.y - east), abs(p.z - down)) < 0.1

    def request_parameters(self) -> None:
        self._mav.param_request_list_send(1, 1)

    def set_parameter(self, name: bytes, value: float, kind: int) -> None:
        self._mav.param_set_send(1, 1, name, value, kind)

    def _listen(self) -> None:
        try:
            data, peer = self._link.recvfrom(65536)
        except BlockingIOError:
            return
        self._peer = peer
        for message in self._mav.parse_buffer(data) or []:
            name = message.get_type()
            self.heard[f"PARAM {message.param_id}" if name == "PARAM_VALUE" else name] = message


def test_pymavlink_flies_px4s_stand_in_in_offboard() -> None:
    with closing(socket.socket(type=socket.SOCK_DGRAM)) as link:
        link.bind(("127.0.0.1", free_port(socket.SOCK_DGRAM, 40)))
        port = link.getsockname()[1]
        with px4_simulator("--onboard-port", str(port)) as (simulator, process):
            pilot = Pilot(link, simulator.step)
            pilot.until(lambda: "HEARTBEAT" in pilot.heard)
            pilot.request_parameters()
            pilot.until(lambda: "PARAM SYS_HAS_MAG" in pilot.heard)
            pilot.set_parameter(b"MIS_TAKEOFF_ALT", 1.0, 9)
            pilot.until(lambda: pilot.heard["PARAM MIS_TAKEOFF_ALT"].param_value == 1.0)
            pilot.arm()
            assert pilot.command(22, *[0.0] * 6, float("nan")) == 0
            pilot.until(lambda: pilot.at(0.0, 0.0, -1.0))
            assert pilot.command(176, 1.0, 6.0) == 1, "no set-points yet"
            pilot.fly_to(1.0, -1.0, -1.5)
            assert pilot.command(176, 1.0, 6.0) == 0
            pilot.until(lambda: pilot.at(1.0, -1.0, -1.5), lambda: pilot.fly_to(1.0, -1.0, -1.5))
            assert pilot.heard["HEARTBEAT"].custom_mode in (6 << 16, 4 << 16 | 2 << 24)
            assert pilot.command(21) == 0
            pilot.until(lambda: not pilot.heard["HEARTBEAT"].base_mode & 128)
            process.send_signal(signal.SIGTERM)
            code, counters, _ = ended(process)
    assert (code, counters["violation"]) == (0, "")
    assert [armed for _, armed in counters["armed"]] == [True, False]
    assert counters["packets"] - counters["answers"] == SILENT_PACKETS


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
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = "--port", str(server.getsockname()[1]), "--gcs-port", "0", "--onboard-port", "0", "--reconnect"
        with stand_in("px4", *words, "--seconds", "0.5") as process:
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
        with stand_in("ardupilot", "--port", port, "--rate", "400", "--speedup", "0", *words) as process:
            yield step, process


def test_pymavlink_flies_ardupilots_stand_in_in_guided() -> None:
    port = free_port(socket.SOCK_STREAM, 2, 3)
    with ardupilot_physics("--command-port", str(port)) as (step, process), closing(socket.socket()) as link:
        give_up = monotonic() + _DEADLINE_S
        while link.connect_ex(("127.0.0.1", port)):
            assert monotonic() < give_up
            sleep(0.05)
        pilot = Pilot(link, step)
        pilot.until(lambda: "HEARTBEAT" in pilot.heard)
        assert pilot.heard["HEARTBEAT"].autopilot == 3
        pilot.set_parameter(b"VISO_DELAY_MS", 20.0, 6)
        pilot.until(lambda: "PARAM VISO_DELAY_MS" in pilot.heard)
        assert pilot.heard["PARAM VISO_DELAY_MS"].param_value == 20.0
        pilot.arm()
        assert pilot.command(22, *[0.0] * 6, 1.2) == 4, "GUIDED first"
        assert pilot.command(176, 1.0, 4.0) == 0
        assert pilot.command(22, *[0.0] * 6, 1.2) == 0
        pilot.until(lambda: pilot.at(0.0, 0.0, -1.2))
        pilot.fly_to(1.0, 1.0, -1.5)
        pilot.until(lambda: pilot.at(1.0, 1.0, -1.5))
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
def betaflight_physics() -> Iterator[tuple[socket.socket, socket.socket, int, subprocess.Popen[str]]]:
    """Sockets for motors and raw outputs, and the port of the states."""
    state_port, rc_port = free_ports(2, socket.SOCK_DGRAM)
    kinds = socket.AF_INET, socket.SOCK_DGRAM
    with closing(socket.socket(*kinds)) as motors, closing(socket.socket(*kinds)) as raw:
        for link in (motors, raw):
            link.bind(("127.0.0.1", 0))
            link.settimeout(0.05)
        outputs = ["--motor-port", str(motors.getsockname()[1]), "--raw-port", str(raw.getsockname()[1])]
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
