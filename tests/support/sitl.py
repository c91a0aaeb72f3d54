"""A bridge whose vehicles autopilots' programs fly, as a process with free ports, and strict
stand-ins of them.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from tests.support import common
from tests.support.programs import VIL_BRIDGE, Program
from vil_simulation.demo.child_processes import free_ports
from vil_simulation.sitl.options import SitlOptions
from vil_simulation.sitl.world import sitl_data

STAND_IN: Final = (*VIL_BRIDGE, "lab", "autopilot")
wait_until: Final = partial(common.wait_until, period_s=0.05)
"""Wait for a condition of a bridge that steps as fast as it can.

Each question takes the time of some steps.
"""


class SitlBridge:
    """A running bridge.

    Attributes:
        web: client of its REST interface. port: of the first link. subjects: names of the vehicles.
        pid: of its process.
    """

    def __init__(self, web: httpx.Client, port: int, subjects: list[str], pid: int) -> None:
        self.web, self.port, self.subjects, self.pid = web, port, subjects, pid

    def link(self, subject: str) -> str:
        """Return the state of a vehicle's link, in words; empty before the first."""
        links = [report["facts"].get("autopilots", {}) for report in self._reports()]
        return next((str(link[subject]) for link in links if subject in link), "")

    def steps(self) -> int:
        """Return the steps that were made."""
        return self.counted()["steps"]

    def counted(self) -> dict[str, int]:
        """Return the steps that were made, and how many of them were late."""
        counters = self._reports()[0]["counters"]
        return {name: int(counters.get(name, 0)) for name in ("steps", "late")}

    def stands(self, seconds: float = 0.3) -> bool:
        """Return True if no step is made for some time, by default longer than a pose takes to
        be reported.
        """
        before = self.steps()
        time.sleep(seconds)
        return self.steps() == before

    def behind_ms(self) -> float:
        """Return the simulated time that was due, and not made, at the newest report."""
        return float(self._reports()[0]["facts"].get("behind_ms", 0.0))

    def processes(self) -> tuple[int, ...]:
        """Return its process and those that it started."""
        children = Path(f"/proc/{self.pid}/task").glob("*/children")
        return self.pid, *(int(pid) for found in children for pid in found.read_text().split())

    def problem(self) -> str:
        """Return what the source waits for."""
        return str(self._reports()[0]["reason"])

    def height(self, subject: str) -> float:
        """Return a vehicle's height in the world."""
        return float(self.vehicle(subject)["p_world_m"][2])

    def vehicle(self, subject: str) -> dict[str, Any]:
        """Return the state of a vehicle, as REST has it."""
        state: dict[str, Any] = (
            self.web.get(f"/api/v1/vehicles/{subject}").raise_for_status().json()
        )
        return state

    def _reports(self) -> list[dict[str, Any]]:
        sources = self.web.get("/api/v1/status").raise_for_status().json()["sources"]
        return [source["report"] for source in sources.values() if source["type"] == "simulated"]


@contextmanager
def sitl_bridge(
    folder: Path,
    options: SitlOptions,
    change: Callable[[dict[str, Any]], None] = lambda _: None,
    /,
    **autopilot: object,
) -> Iterator[SitlBridge]:
    """Run a bridge of ``vil-bridge sitl``.

    ``change``: of its configuration. ``autopilot``: further keys of every vehicle's autopilot.
    """
    http_port, port = free_ports(2, socket.SOCK_STREAM)
    data = sitl_data(options) | {
        "http": {"port": http_port},
        "stream": {"bind": "tcp://127.0.0.1:0"},
    }
    if options.program != "betaflight":  # which a step that is late disturbs
        data["realtime"] = {"fifo_priority": 0}
    vehicles = [v for source in data["sources"].values() for v in source["vehicles"].values()]
    for vehicle in vehicles:
        vehicle["autopilot"] |= (
            {} if options.program == "betaflight" else {"port": port}
        ) | autopilot
    change(data)
    file = folder / "sitl.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    subjects = [name for source in data["sources"].values() for name in source.get("vehicles", ())]
    with (
        Program(*VIL_BRIDGE, "run", file, cwd=folder) as bridge,
        httpx.Client(base_url=f"http://127.0.0.1:{http_port}", timeout=30.0) as web,
    ):
        running = SitlBridge(web, port, subjects, bridge.pid)

        def ready() -> bool:
            assert bridge.poll() is None, bridge.text()
            try:
                return "waits for" in running.problem() or "running" in running.link(subjects[0])
            except httpx.TransportError:
                return False

        wait_until(ready)
        yield running


def stand_in(kind: str, port: int, *options: object) -> Program:
    """Start a strict stand-in, without ports for pilots; it ends with 3 at the first violation."""
    quiet = ("--onboard-port", 0, "--gcs-port", 0) if kind == "px4" else ()
    return Program(*STAND_IN, kind, "--port", port, *quiet, *options)


def counters(program: Program) -> dict[str, Any]:
    """Return what a stand-in counted, once it has ended."""
    assert program.wait(300) in (0, 3), program.text()
    # A violation's sentence follows.
    lines = [line for line in program.text().splitlines() if line.startswith("{")]
    assert lines, program.text()
    found: dict[str, Any] = json.loads(lines[-1])
    return found
