"""Betaflight's real simulator as a peer.

Built once, configured by its command line, alone in a network of its own.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

import pytest

from tests.support.autopilot_peers import FloorVehicle, betaflight_state
from tests.support.common import PATIENCE_S, ROOT
from tests.support.network_namespaces import in_network
from tests.support.packages import python_path
from tests.support.programs import Program
from vil_bridge.protocols.msp import MspDirection, MspMessage, MspParser, encode

STATE_PORT, RC_PORT, MOTOR_PORT, RAW_PORT, MSP_PORT = 9003, 9004, 9002, 9001, 5761
STATE: Final = struct.Struct("<18d")
RC: Final = struct.Struct("<d16H")
MOTORS: Final = struct.Struct("<4f")
CONFIGURATION: Final = ("aux 0 0 0 1700 2100 0 0", "aux 1 1 1 1700 2100 0 0")
"""Lines that let AUX1 arm and AUX2 choose ANGLE, above 1700."""
_BUILD_S: Final = 1500.0
_IN_OWN_NETWORK: Final = """
import os, sys
from vil_simulation.source.network_namespace import enter_own_network
enter_own_network()
os.execv(sys.argv[1], sys.argv[1:])
"""
_STATUS_EX: Final = 150
_SECOND_S: Final = 0.025
"""From the first state, whose arrival the program forgets, to the second.

Less than 20 ms would let its clock stand.
"""
_STALLED_S: Final = 20.0
_LONGEST_WAIT_S: Final = 0.2
_ATTEMPTS: Final = 5
_BOOT_S: Final = 7.5
_ARMING_S: Final = 3.0


@cache
def program() -> Path:
    """Return the program, built where it is not; skips where that is not possible."""
    found = subprocess.run(
        ["sh", "scripts/betaflight.sh"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_BUILD_S,
        check=False,
    )
    if found.returncode:
        pytest.skip(found.stderr.strip().rpartition("\n")[2] or "scripts/betaflight.sh failed")
    return Path(found.stdout.strip())


class StalledError(Exception):
    """The program's clock stands for good, as after a few of its starts.

    It must be started again.
    """


class Status(NamedTuple):
    """Answer to MSP_STATUS_EX."""

    pid_period_us: int
    armed: bool
    disabled: int


class Betaflight(Program):
    """The program, running in a folder and a network of its own; the end of the block ends it.

    Args:
        folder: holds its ``eeprom.bin``.
    """

    def __init__(self, folder: Path) -> None:
        binary = program()
        super().__init__(
            sys.executable, "-c", _IN_OWN_NETWORK, binary, cwd=folder, env={"PYTHONPATH": _paths()}
        )
        self._binary = binary

    def connect(self, make: Callable[[], socket.socket]) -> socket.socket:
        """Return a socket that is made in the program's network.

        Skips where that is not permitted.
        """
        self.await_that(self._running, "its start")
        try:
            return in_network(Path(f"/proc/{self.pid}/ns/net"), make)
        except PermissionError as exc:
            pytest.skip(f"another network namespace cannot be entered without root: {exc}")

    def tcp(self) -> socket.socket:
        """Return a connection to UART1: MSP, and the command line."""
        opened: list[socket.socket] = []

        def connected() -> bool:
            with suppress(ConnectionRefusedError):
                opened.append(
                    self.connect(
                        lambda: socket.create_connection(("127.0.0.1", MSP_PORT), PATIENCE_S)
                    )
                )
            return bool(opened)

        self.await_that(connected, "its port")
        return opened[0]

    def udp(self, port: int = 0) -> socket.socket:
        """Return a socket of loopback there."""

        def make() -> socket.socket:
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            opened.bind(("127.0.0.1", port))
            opened.setblocking(False)
            return opened

        return self.connect(make)

    def _running(self) -> bool:
        with suppress(OSError):
            return Path(f"/proc/{self.pid}/exe").readlink() == self._binary.resolve()
        return False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()  # it has no orderly end
        super().__exit__(kind, value, traceback)


def _paths() -> str:
    return python_path(ROOT)


@cache
def _template() -> bytes:
    """Return the memory of a configured program.

    Some of its starts never answer the first connection.
    """
    for attempt in range(_ATTEMPTS):
        with tempfile.TemporaryDirectory() as folder:
            try:
                prepare_by_cli(Path(folder))
            except TimeoutError:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return (Path(folder) / "eeprom.bin").read_bytes()
    raise AssertionError


def prepare(folder: Path) -> None:
    """Put a configured ``eeprom.bin`` into a folder.

    The command line is used once in a test run.
    """
    (folder / "eeprom.bin").write_bytes(_template())


def prepare_by_cli(folder: Path) -> None:
    """Configure the program of a folder by its command line; ``save`` ends it."""
    with Betaflight(folder) as running, running.tcp() as cli:
        cli.sendall(b"#")
        _read_until(cli, b"\r\n# ")
        for line in CONFIGURATION:
            cli.sendall(line.encode() + b"\n")
            answer = _read_until(cli, b"\r\n# ")
            assert line.encode() in answer, answer
        cli.sendall(b"save\n")
        running.wait(PATIENCE_S)
        assert running.returncode == 0, running.text()


def _read_until(cli: socket.socket, end: bytes) -> bytes:
    cli.settimeout(PATIENCE_S)
    answer = b""
    while not answer.endswith(end):
        data = cli.recv(4096)
        assert data, f"the command line closed after {answer!r}"
        answer += data
    return answer


class Link:
    """Sockets of a flight: states and RC out, motors in, MSP both ways."""

    def __init__(self, running: Betaflight) -> None:
        self.running = running
        self.motors: tuple[float, ...] = (0.0,) * 4
        self.answers = 0
        self.answered = False
        self._out = running.udp()
        self._motors = running.udp(MOTOR_PORT)
        self._msp: socket.socket | None = None
        self._parser = MspParser()

    def close(self) -> None:
        """Close them."""
        for opened in (self._out, self._motors, self._msp):
            if opened is not None:
                opened.close()

    def send_state(self, values: tuple[float, ...]) -> None:
        """Send a state of 18 numbers."""
        self.answered = False
        self._out.sendto(STATE.pack(*values), ("127.0.0.1", STATE_PORT))

    def take_motors(self) -> None:
        """Take the motors that wait."""
        with suppress(BlockingIOError):
            while True:
                self.motors = MOTORS.unpack(self._motors.recv(64))
                self.answers += 1
                self.answered = True

    def send_rc(self, t_s: float, channels: tuple[int, ...]) -> None:
        """Send sticks and switches, microseconds: roll, pitch, throttle, yaw, AUX1..."""
        padded = (*channels, *([1000] * (16 - len(channels))))
        self._out.sendto(RC.pack(t_s, *padded), ("127.0.0.1", RC_PORT))

    def connect_msp(self) -> None:
        """Connect, once the program has been up for a second.

        Some connections before are never answered.
        """
        self._msp = self.running.tcp()
        self._msp.setblocking(False)

    def request(self, command: int) -> None:
        """Ask, without waiting."""
        assert self._msp is not None
        self._msp.sendall(encode(MspMessage(1, MspDirection.REQUEST, command, b"")))

    def request_status(self) -> None:
        """Ask for the status."""
        self.request(_STATUS_EX)

    def messages(self) -> list[MspMessage]:
        """Return the answers that have come."""
        assert self._msp is not None
        with suppress(BlockingIOError):
            return self._parser.feed(self._msp.recv(4096))
        return []

    def statuses(self) -> list[Status]:
        """Return the statuses that have come."""
        return [_status(m.payload) for m in self.messages() if m.command == _STATUS_EX]


def _status(payload: bytes) -> Status:
    # Behind the first 15 bytes: more mode flags behind their number, then reasons not to arm behind
    # theirs.
    more = payload[15] & 0xF
    disabled = struct.unpack_from("<I", payload, 17 + more)[0]
    return Status(struct.unpack_from("<H", payload)[0], bool(payload[6] & 1), disabled)


@contextmanager
def flown(folder: Path) -> Iterator[Link]:
    """Run a configured program with its sockets open."""
    if not (folder / "eeprom.bin").exists():
        prepare(folder)
    with Betaflight(folder) as running:
        running.tcp().close()
        link = Link(running)
        try:
            yield link
        finally:
            link.close()


class Hover:
    """A vehicle that Betaflight flies.

    States a thousand times a second at most, sticks by a pilot of height.

    Args:
        link: to the program. vehicle: its physics, of a thousand steps a second.
    """

    def __init__(self, link: Link, vehicle: FloorVehicle) -> None:
        self.link = link
        self.vehicle = vehicle
        self.t_s = 0.0
        self.armed = self.flying = False
        self.target_m = 1.5
        self.heights_m: list[float] = []
        self.statuses: list[Status] = []
        self._sent_s = self._answered_s = time.monotonic()
        self._states = 0
        self._rc_s = self._status_s = 0.0
        self._integral = 0.0

    def arm(self) -> None:
        """Let the boot pass, and arm; a busy computer needs more than one attempt."""
        for _ in range(_ATTEMPTS):
            self.armed = False
            self.run(_BOOT_S)
            self.armed = True
            self.run(_ARMING_S, until=lambda: min(self.link.motors) > 0.0)
            if min(self.link.motors) > 0.0:
                return
        raise AssertionError(f"not armed: {self.statuses[-3:]}\n{self.link.running.text()}")

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Send states for a simulated time.

        Each waits for the answer to the one before, whatever the time: a busy computer makes it
        slow, but the program's clock right.
        """
        end_s = self.t_s + seconds
        while self.t_s < end_s and not until():
            self.link.take_motors()
            if self.link.answered:
                self._answered_s = time.monotonic()
            elif time.monotonic() - self._answered_s > _STALLED_S:
                raise StalledError(f"no motors for {_STALLED_S} s after {self._states} states")
            steps = self._due_steps()
            if not steps:
                time.sleep(0.0002)
                continue
            self.t_s += steps * 1e-3
            self._sent_s = time.monotonic()
            self._states += 1
            self.vehicle.advance(self.link.motors, steps)
            self.link.send_state(betaflight_state(self.t_s, self.vehicle.motion()))
            self._command()
            assert self.link.running.poll() is None, self.link.running.text()

    def _due_steps(self) -> int:
        if not self._states:
            return 1
        since_s = time.monotonic() - self._sent_s
        if self._states == 1:
            return round(since_s * 1e3) if since_s > _SECOND_S else 0
        answered = self.link.answered or since_s > _LONGEST_WAIT_S
        return int(answered and since_s >= 1e-3)

    def _command(self) -> None:
        if self.t_s - self._rc_s >= 0.01:
            throttle = self._throttle(self.t_s - self._rc_s) if self.flying else 1000
            self._rc_s = self.t_s
            self.link.send_rc(
                self.t_s, (1500, 1500, throttle, 1500, 1900 if self.armed else 1000, 1900)
            )
        if self.t_s - self._status_s >= 0.1:
            self._status_s = self.t_s
            self.heights_m.append(float(self.vehicle.position[2]))
            self.link.request_status()
            self.statuses += self.link.statuses()

    def _throttle(self, dt_s: float) -> int:
        state, row = self.vehicle.fleet.model.state, self.vehicle.fleet.x[0]
        error, climb = (
            self.target_m - float(self.vehicle.position[2]),
            float(row[state["v_world_mps"]][2]),
        )
        wanted = max(-0.5, min(0.7, error))
        self._integral = max(-100.0, min(100.0, self._integral + 40.0 * (wanted - climb) * dt_s))
        return round(max(1050.0, min(1800.0, 1515.0 + 120.0 * (wanted - climb) + self._integral)))
