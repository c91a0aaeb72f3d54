"""Ending of a bridge whose autopilots' programs ignore the request to end."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.support.bridge_rig import running
from tests.support.common import free_ports, wait_until
from tests.support.events import until
from vil_bridge.core.clock import NS_PER_S, machine_ns

pytestmark = pytest.mark.process

SOURCES = 6
LOAD_S = 100.0
STUBBORN = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print(os.getpid(), flush=True); time.sleep(600)"
)
CONFIG = """
version: 1
require_cameras: false
rooms: {hall: {}}
http: {port: 0}
realtime: {fifo_priority: 0}
sources:
"""
SOURCE = """
  sim_%d:
    type: simulated
    room: hall
    step_hz: 1000
    process: %s
    vehicles:
      quad_%d:
        model: flightgoggles
        autopilot: {kind: px4, port: %d, folder: "%s", command: ["%s", "-c", "%s"]}
"""


def pid_in(folder: Path) -> int | None:
    output = folder / "output.log"
    text = output.read_text(encoding="ascii") if output.exists() else ""
    return int(text) if text.endswith("\n") else None


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_programs_of_several_sources_are_gone_together(tmp_path: Path) -> None:
    """One source has a process of its own, the others have threads of the bridge."""
    folders = [tmp_path / str(i) for i in range(SOURCES)]
    ports = free_ports(SOURCES, socket.SOCK_STREAM)
    sources = [
        SOURCE % (i, str(i == 0).lower(), i, ports[i], folders[i], sys.executable, STUBBORN) for i in range(SOURCES)
    ]
    async with running(CONFIG + "".join(sources)):
        await until(lambda: all(pid_in(folder) for folder in folders), LOAD_S)
        begun_ns = machine_ns()
    ended_s = (machine_ns() - begun_ns) / NS_PER_S
    pids = [pid_in(folder) for folder in folders]
    wait_until(lambda: not any(is_there(pid) for pid in pids if pid is not None))
    assert ended_s < 3.0  # one after another they take 4.2 s
