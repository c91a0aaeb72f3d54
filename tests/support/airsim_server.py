"""`vil-bridge airsim` as a child process, and calls of its RPC without AirSim's client."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgpack
import pytest

from tests.support.common import ROOT, needs_gl
from tests.support.programs import VIL_BRIDGE, Program

CLIENT: Final = ROOT / ".venv" / "airsim-client"
"""Environment of AirSim's own client."""
COSYS_CLIENT: Final = ROOT / ".venv" / "cosys-client"
"""Environment of Cosys-AirSim's client."""
PROGRAMS: Final = ROOT / "tests" / "support" / "airsim_programs"
RANGING_DRONE: Final[dict[str, Any]] = {
    "VehicleType": "SimpleFlight",
    "Sensors": {
        "Distance": {"SensorType": 5, "Enabled": True, "Pitch": -90},
        "Lidar": {"SensorType": 6, "Enabled": True, "PointsPerSecond": 20_000, "Z": -1},
    },
}
CAR: Final[dict[str, Any]] = {"SettingsVersion": 1.2, "SimMode": "Car", "ClockSpeed": 2}
_LIMIT_S: Final = 300.0
_START_S: Final = 300.0
"""Models are compiled at the first start."""


@contextmanager
def serving(settings: dict[str, Any], folder: Path, *options: object) -> Iterator[int]:
    """Run a server that records into a folder, and yield its port.

    An exception in its log fails.
    """
    needs_gl()
    path = folder / "settings.json"
    path.write_text(json.dumps({"Recording": {"Folder": str(folder)}, **settings}))
    with Program(*VIL_BRIDGE, "airsim", path, "--port", 0, *options, log=folder / "log") as bridge:
        yield int(
            bridge.await_text(r"AirSim programs connect to 127\.0\.0\.1 port (\d+)", _START_S)[1]
        )
        assert "Traceback" not in bridge.text() and "RuntimeWarning" not in bridge.text(), (
            bridge.text()
        )
        assert bridge.end() == 0


@contextmanager
def serving_programs(settings: dict[str, Any], folder: Path) -> Iterator[int]:
    """Run a server for programs and yield its port; skips without AirSim's client."""
    if not (CLIENT / ".installed").exists():
        pytest.skip("AirSim's client is missing: sh scripts/airsim_client.sh")
    with serving(settings, folder) as port:
        yield port


class ClientPrograms:
    """Programs that one process forks, which has imported the client.

    Args:
        environment: with the client. module: the client.
    """

    def __init__(self, environment: Path, module: str) -> None:
        words = environment / "bin" / "python", PROGRAMS / "serve.py", module
        self._server = Program(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(self._server.__exit__, None, None, None)

    def run(self, kind: str, arguments: list[str], folder: Path) -> tuple[int, str]:
        """Run a program to its end, or kill it after the limit.

        Return its exit code, and what it printed.
        """
        server = self._server
        assert server.stdin is not None and server.stdout is not None
        printed = folder / "printed"
        server.stdin.write(json.dumps((kind, arguments, str(printed))).encode() + b"\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], _LIMIT_S)[0]:
            for child in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        code = server.stdout.readline()
        assert code, server.text()
        return int(code), printed.read_text(errors="replace")


_programs_of: Final = cache(ClientPrograms)


def run_program(kind: str, program: object, port: int, folder: Path, *more: object) -> None:
    """Run a program with AirSim's client to its end."""
    _run(_programs_of(CLIENT, "airsim"), kind, program, port, folder, *more)


def run_cosys_program(kind: str, program: object, port: int, folder: Path) -> None:
    """Run a program with Cosys-AirSim's client in place of AirSim's; skips without it."""
    if not (COSYS_CLIENT / ".installed").exists():
        pytest.skip("Cosys-AirSim's client is missing: sh scripts/airsim_client.sh")
    _run(_programs_of(COSYS_CLIENT, "cosysairsim"), kind, program, port, folder)


def _run(
    programs: ClientPrograms, kind: str, program: object, port: int, folder: Path, *more: object
) -> None:
    code, printed = programs.run(
        kind, [str(word) for word in (program, port, folder, *more)], folder
    )
    assert code == 0, printed


class CallRefused(Exception):  # noqa: N818 - it says what happened
    """An answer with an error."""


class AirsimConnection:
    """A connection to a server; a call that is not answered fails."""

    def __init__(self, port: int) -> None:
        self._peer = socket.create_connection(("127.0.0.1", port), timeout=_LIMIT_S)
        self._unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 28)
        self._packer = msgpack.Packer()
        self._number = 0
        self._found: dict[int, tuple[str | None, Any]] = {}

    def close(self) -> None:
        """Close it."""
        self._peer.close()

    def send(self, method: str, *arguments: Any) -> int:
        """Send a request and return its number."""
        self._number += 1
        self._peer.sendall(self._packer.pack((0, self._number, method, arguments)))
        return self._number

    def answers(self, *numbers: int) -> list[tuple[str | None, Any]]:
        """Return error and result of requests, whatever their order.

        Forget all other answers that have come.
        """
        self.wait(*numbers)
        found = self._found
        self._found = {}
        return [found[number] for number in numbers]

    def wait(self, *numbers: int) -> None:
        """Wait for the answers of requests, and keep them for :meth:`answers`."""
        while not self._found.keys() >= set(numbers):
            for kind, number, error, result in self._unpacker:
                assert kind == 1
                self._found[number] = error, result
            if not self._found.keys() >= set(numbers):
                data = self._peer.recv(1 << 20)
                assert data, "the server closed the connection"
                self._unpacker.feed(data)

    def __call__(self, method: str, *arguments: Any) -> Any:
        """Call and return the result. Raises CallRefused: the server answers with an error."""
        ((error, result),) = self.answers(self.send(method, *arguments))
        if error is not None:
            raise CallRefused(error)
        return result
