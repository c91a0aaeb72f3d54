"""Outputs of a third party that have bugs.

Each in another thread or place, all at once, again and again.

``python -m tests.attacks.output_bugs FILE``: the bugs are there while this file is fresh.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.attacks.attack import Attack, Status, Target, moments, program

PLACES: Final = ("run", "panic", "exit", "task", "callback", "offer", "send")
FRESH: Final = "bugs"
SEEN_WITHIN_S: Final = 5.0
_PLUGIN: Final = '''
import asyncio, pathlib, sys, time
from typing import Literal
from pydantic import Field
from vil_bridge.config.base import OutputConfigBase
from vil_bridge.outputs.sink_thread import SinkThread
from vil_bridge.runtime.supervisor import Status
from vil_bridge.registry import Plugin

class Panic(BaseException):
    """As a library in Rust raises it."""

class Config(OutputConfigBase):
    type: Literal["buggy"] = "buggy"
    place: str = Field(description="Where the bug is.")
    fresh: pathlib.Path = Field(description="The bug is there while this file is fresh.")

class Output:
    def __init__(self, name, config):
        self.name, self.status, self._config = name, Status(name), config

    def meet(self, place):
        if place != self._config.place or not self._config.fresh.exists():
            return
        if time.time() - self._config.fresh.stat().st_mtime < 0.3:
            raise {"panic": Panic, "exit": SystemExit}.get(place,
                ZeroDivisionError)(f"a bug in {place}")

    def frame_sink(self, camera):
        thread = SinkThread(self.name, {("rgb", "raw"), ("rgb", "compensated")}, self._send,
            self.status)
        offer = thread.offer
        def buggy(header, pixels):
            self.meet("offer")
            offer(header, pixels)
        thread.offer = buggy
        return thread

    def _send(self, header, pixels):
        self.meet("send")

    async def _task(self):
        self.meet("task")

    async def run(self, world):
        self.status.running()
        while True:
            for place in ("run", "panic", "exit"):
                self.meet(place)
            asyncio.get_running_loop().call_soon(self.meet, "callback")
            asyncio.create_task(self._task())
            await asyncio.sleep(0.02)

    def close(self):
        pass

plugin = Plugin("buggy_output:Config", "buggy_output:Output")
'''


def _configure(config: dict[str, Any], folder: Path) -> None:
    info = folder / "buggy_output-1.0.dist-info"
    info.mkdir()
    (folder / "buggy_output.py").write_text(_PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: buggy-output\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vil_bridge.outputs]\nbuggy = buggy_output:plugin\n")
    cameras, fresh = list(config["cameras"]), str(folder / FRESH)
    config["outputs"] = {
        place: {"type": "buggy", "cameras": cameras, "place": place, "fresh": fresh}
        for place in PLACES
    }


def _report(status: Status, place: str) -> dict[str, Any]:
    report: dict[str, Any] = status["outputs"][place]["report"]
    return report


def _counted(before: Status, after: Status) -> str:
    """Return how often each output failed by its own bug; empty unless all did."""
    grown = {p: _report(after, p)["retries"] - _report(before, p)["retries"] for p in PLACES}
    own = all(f"a bug in {p}" in str(_report(after, p)["last_error"]) for p in PLACES)
    return ", ".join(f"{p} +{n}" for p, n in grown.items()) if own and all(grown.values()) else ""


def _during(target: Target) -> list[str]:
    """Return the outputs that were not seen waiting for their next start, with their own bug as
    the reason.
    """
    unseen, deadline_s = set(PLACES), time.monotonic() + SEEN_WITHIN_S
    while unseen and time.monotonic() < deadline_s:
        status = target.get()
        reports = {place: _report(status, place) for place in unseen}
        unseen -= {
            p
            for p, r in reports.items()
            if r["state"] == "retrying" and f"a bug in {p}" in r["reason"]
        }
        time.sleep(0.05)
    return [
        f"output {place}: {reports[place]['state']} ({reports[place]['reason']})"
        for place in sorted(unseen)
    ]


ATTACK: Final = Attack(
    summary="7 outputs have bugs: in run, tasks, callbacks and two threads; one panics, one exits",
    commands=lambda target: [program("tests.attacks.output_bugs", target.folder / FRESH)],
    counted=_counted,
    configure=_configure,
    during=_during,
)


if __name__ == "__main__":
    for _ in moments(0.05):
        Path(sys.argv[1]).touch()
