"""Programs of autopilots that end, or that ignore the request to end, and the bridge around
them.
"""

from __future__ import annotations

import json
import socket
import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.bridge_rig import running
from tests.support.common import wait_until
from tests.support.events import until
from tests.support.programs import VIL_BRIDGE, Program
from tests.support.stubborn_program import STUBBORN, is_gone, most_at_once, numbers_in
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.process

SOURCES = 6
LOAD_S = 300.0
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
        autopilot: {kind: px4, port: %d, folder: "%s", command: ["%s", "-c", %s]}
"""


async def test_programs_of_several_sources_are_gone_together(tmp_path: Path) -> None:
    """One source has a process of its own, the others have threads of the bridge."""
    folders = [tmp_path / str(i) for i in range(SOURCES)]
    outputs = [folder / "output.log" for folder in folders]
    ports = free_ports(SOURCES, socket.SOCK_STREAM)
    sources = [
        SOURCE
        % (i, str(i == 0).lower(), i, ports[i], folders[i], sys.executable, json.dumps(STUBBORN))
        for i in range(SOURCES)
    ]
    async with running(CONFIG + "".join(sources)):
        await until(lambda: all(map(numbers_in, outputs)), LOAD_S)
    ends = [numbers_in(output) for output in outputs]
    wait_until(lambda: all(is_gone(pid) for pid, *_ in ends))
    lives_ns = [times for _, *times in ends]
    assert most_at_once(lives_ns) >= SOURCES - 2, ends
    assert all(
        sum(min(b - a, 30 * NS_PER_MS) for a, b in pairwise(times)) < 1.5 * NS_PER_S
        for times in lives_ns
    )


@pytest.mark.parametrize("words", [(), ("--log-json",)])
def test_the_end_of_a_program_is_a_line_of_the_bridges_log(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Also where the program belongs to the source's own process."""
    (port,) = free_ports(1, socket.SOCK_STREAM)
    file = tmp_path / "bridge.yaml"
    source = SOURCE % (
        0,
        "true",
        0,
        port,
        tmp_path,
        sys.executable,
        json.dumps("raise SystemExit(3)"),
    )
    file.write_text(CONFIG + source, encoding="utf-8")
    with Program(*VIL_BRIDGE, "run", file, *words) as bridge:
        wait_until(lambda: "ended code=3" in bridge.text() or bridge.poll() is not None, LOAD_S)
        line = next(line for line in bridge.text().splitlines() if "ended code=3" in line)
    if words:
        found = json.loads(line)
        assert (found["level"], found["logger"]) == (
            "WARNING",
            "vil_simulation.source.program_process",
        )
        datetime.fromisoformat(found["time"])
    else:
        time, _, rest = line.partition(" WARNING ")
        datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").astimezone()
        assert rest.startswith("vil_simulation.source.program_process: program of quad_0 ended")
