"""Programs of autopilots that end, or that ignore the request to end, and the bridge around them."""

from __future__ import annotations

import json
import socket
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.bridge_rig import running
from tests.support.common import free_ports, wait_until
from tests.support.events import until
from tests.support.programs import VIL_BRIDGE, Program
from vil_bridge.core.clock import NS_PER_S, machine_ns

pytestmark = pytest.mark.process

SOURCES = 6
LOAD_S = 300.0
STUBBORN = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print(os.getpid(), flush=True); time.sleep(600)"
)
CONFIG = """
version: 1
require_cameras: false
rooms: {hall: {}}
http: {port: 0}
stream: {bind: "tcp://127.0.0.1:0"}
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


@pytest.mark.parametrize("words", [(), ("--log-json",)])
def test_the_end_of_a_program_is_a_line_of_the_bridges_log(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Also where the program belongs to the source's own process."""
    (port,) = free_ports(1, socket.SOCK_STREAM)
    file = tmp_path / "bridge.yaml"
    source = SOURCE % (0, "true", 0, port, tmp_path, sys.executable, "raise SystemExit(3)")
    file.write_text(CONFIG + source, encoding="utf-8")
    with Program(*VIL_BRIDGE, "run", file, *words) as bridge:
        wait_until(lambda: "ended code=3" in bridge.text() or bridge.poll() is not None, LOAD_S)
        line = next(line for line in bridge.text().splitlines() if "ended code=3" in line)
    if words:
        found = json.loads(line)
        assert (found["level"], found["logger"]) == ("WARNING", "vil_adapters.simulated.program_process")
        datetime.fromisoformat(found["time"])
    else:
        time, _, rest = line.partition(" WARNING ")
        datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").astimezone()
        assert rest.startswith("vil_adapters.simulated.program_process: program of quad_0 ended")
