"""The daemon's own illnesses, in a real process under somebody who plays systemd.

A hung loop, a bug in a callback.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.common import ROOT, wait_until
from tests.support.programs import VIL_BRIDGE, Program

pytestmark = pytest.mark.process


LIMIT_S: Final = 180.0
WATCHDOG_S: Final = 1.0

# A third party's source: does to the realtime loop what a file of its folder is named after.
PLUGIN: Final = """
import asyncio, pathlib, time
from typing import Literal
from pydantic import Field
from vil_bridge.config.base import PluginConfig
from vil_bridge.registry import Plugin

class Config(PluginConfig):
    type: Literal["illness"] = "illness"
    folder: pathlib.Path = Field(description="Where its orders are.")

def bug():
    raise ZeroDivisionError("a bug in a callback")

def trouble():
    raise ConnectionResetError("a peer's trouble")

class Source:
    def __init__(self, name, config):
        self.name, self._folder = name, config.folder

    async def run(self, emit, status, context):
        status.running()
        while True:
            await asyncio.sleep(0.02)
            for order in self._folder.glob("*.order"):
                order.unlink()
                if order.stem == "hang":
                    while not (self._folder / "go on").exists():
                        time.sleep(0.01)
                else:
                    asyncio.get_running_loop().call_soon({"bug": bug,
                        "trouble": trouble}[order.stem])

plugin = Plugin("illness_plugin:Config", "illness_plugin:Source")
"""


class Patient:
    """A bridge with that source.

    Attributes:
        heard: what the service manager was told so far, with the seconds.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        info = folder / "illness_plugin-1.0.dist-info"
        info.mkdir()
        (folder / "illness_plugin.py").write_text(PLUGIN)
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: illness-plugin\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(
            "[vil_bridge.sources]\nillness = illness_plugin:plugin\n"
        )
        config = {
            "version": 1,
            "sources": {"ill": {"type": "illness", "folder": str(folder)}},
            "require_cameras": False,
            "stream": {"bind": "tcp://127.0.0.1:0"},
            "http": {"port": 0},
            "realtime": {"fifo_priority": 0},
        }
        (folder / "lab.yaml").write_text(json.dumps(config))  # YAML holds JSON
        self._ears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ears.bind(str(folder / "notify"))
        self.heard: list[tuple[float, str]] = []
        paths = [str(folder), str(ROOT), str(ROOT / "adapters"), str(ROOT / "renderer")]
        systemd = {
            "NOTIFY_SOCKET": str(folder / "notify"),
            "WATCHDOG_USEC": str(round(1e6 * WATCHDOG_S)),
        }
        environment = {"PYTHONPATH": os.pathsep.join(paths), **systemd}
        self.process = Program(*VIL_BRIDGE, "run", folder / "lab.yaml", env=environment)
        self.process.await_that(lambda: self.said("READY=1"), "READY=1")
        self.url = self.process.await_text(r"status page (http\S+)\s")[1]

    def order(self, name: str) -> None:
        """Let it happen."""
        (self.folder / f"{name}.order").touch()

    def said(self, word: str, since_s: float = 0.0) -> bool:
        """Whether the service manager was told so."""
        while select.select([self._ears], [], [], 0.0)[0]:
            self.heard.append((time.monotonic(), self._ears.recv(4096).decode()))
        return any(t_s > since_s and text.startswith(word) for t_s, text in self.heard)

    def get(self) -> dict[str, Any]:
        """The status, by a thread that the loop cannot hang."""
        with urllib.request.urlopen(f"{self.url}api/v1/status", timeout=60.0) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def end(self, number: signal.Signals | None = signal.SIGTERM) -> int:
        """Its exit code; without a signal, once it ends by itself."""
        return self.process.wait(LIMIT_S) if number is None else self.process.end(number, LIMIT_S)

    def close(self) -> None:
        self.process.kill()
        self._ears.close()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Patient]:
    made = Patient(tmp_path)
    yield made
    made.close()


def test_a_hung_loop_is_said_by_the_status_and_not_hidden_from_the_watchdog(
    patient: Patient,
) -> None:
    begun_s = time.monotonic()
    wait_until(
        lambda: patient.said("WATCHDOG=1", begun_s) and patient.said("STATUS=ready", begun_s),
        LIMIT_S,
    )
    wait_until(lambda: patient.get()["ready"], LIMIT_S, patient.get)

    patient.order("hang")
    words = "the realtime loop has not turned for"
    wait_until(
        lambda: any(words in why for why in patient.get()["not_ready_because"]),
        LIMIT_S,
        patient.get,
    )
    patient.said("")  # what it was told until now
    hung_s = time.monotonic()
    wait_until(lambda: time.monotonic() - hung_s > 2.0 * WATCHDOG_S, LIMIT_S)
    assert not patient.said("WATCHDOG=1", hung_s), "systemd would not have ended it"
    status = patient.get()
    assert not status["ready"] and status["process"]["pid"] == patient.process.pid

    (patient.folder / "go on").touch()
    wait_until(lambda: patient.get()["ready"], LIMIT_S, patient.get)
    wait_until(lambda: patient.said("WATCHDOG=1", hung_s), LIMIT_S)
    assert patient.end() == 0
    assert patient.said("STOPPING=1")


def test_a_bug_in_a_callback_ends_the_process_and_a_peers_trouble_does_not(
    patient: Patient,
) -> None:
    patient.order("trouble")
    wait_until(
        lambda: patient.get()["faults"]["loop"] == {"ConnectionResetError": 1}, LIMIT_S, patient.get
    )
    wait_until(lambda: patient.get()["ready"], LIMIT_S, patient.get)
    patient.order("bug")
    assert patient.end(None) == 1
    assert "ZeroDivisionError: a bug in a callback" in patient.process.text()
