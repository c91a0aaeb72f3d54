"""`vil-bridge airsim` as a child process, and calls of its RPC without AirSim's client."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgpack
import pytest

from tests.support.common import ROOT, needs_gl
from tests.support.programs import VIL_BRIDGE, Program, run

CLIENT: Final = ROOT / ".venv" / "airsim-client"
"""Environment of AirSim's own client."""
COSYS_CLIENT: Final = ROOT / ".venv" / "cosys-client"
"""Environment of Cosys-AirSim's client."""
_AS_COSYS: Final = """
import os, runpy, sys
import cosysairsim
sys.modules["airsim"] = cosysairsim
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
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
    """Run a server that records into a folder, and yield its port; an exception in its log fails."""
    needs_gl()
    path = folder / "settings.json"
    path.write_text(json.dumps({"Recording": {"Folder": str(folder)}, **settings}))
    with Program(*VIL_BRIDGE, "airsim", path, "--port", 0, *options, log=folder / "log") as bridge:
        yield int(bridge.await_text(r"AirSim programs connect to 127\.0\.0\.1 port (\d+)", _START_S)[1])
        assert "Traceback" not in bridge.text() and "RuntimeWarning" not in bridge.text(), bridge.text()
        assert bridge.end() == 0


@contextmanager
def serving_programs(settings: dict[str, Any], folder: Path) -> Iterator[int]:
    """Run a server for programs and yield its port; skips without AirSim's client."""
    if not (CLIENT / ".installed").exists():
        pytest.skip("AirSim's client is missing: sh scripts/airsim_client.sh")
    with serving(settings, folder) as port:
        yield port


def run_program(kind: str, program: object, port: int, folder: Path, *more: object) -> None:
    """Run a program with AirSim's client to its end."""
    _run([CLIENT / "bin" / "python"], kind, program, port, folder, *more)


def run_cosys_program(kind: str, program: object, port: int, folder: Path) -> None:
    """Run a program with Cosys-AirSim's client in place of AirSim's; skips without it."""
    if not (COSYS_CLIENT / ".installed").exists():
        pytest.skip("Cosys-AirSim's client is missing: sh scripts/airsim_client.sh")
    _run([COSYS_CLIENT / "bin" / "python", "-c", _AS_COSYS], kind, program, port, folder)


def _run(python: list[object], kind: str, *arguments: object) -> None:
    done = run(*python, PROGRAMS / f"{kind}.py", *arguments, limit_s=_LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr


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
        """Return error and result of requests, whatever their order; forget all other answers that have come."""
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
