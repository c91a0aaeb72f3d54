"""Waiting for child processes.

As long as they make progress, in words, with the end of their logs.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from vil_bridge.core.errors import VilBridgeError
from vil_simulation.demo import child_processes as processes
from vil_simulation.demo.child_processes import ProcessGroup

pytestmark = pytest.mark.process


BUSY = """
import time
while True:
    end_s = time.thread_time() + 0.02
    while time.thread_time() < end_s: pass
    time.sleep(0.04)
"""
IDLE = "print('loaded the hall', flush=True); import time; time.sleep(60)"
TALKING = "import time\nfor i in range(600): print(i, flush=True); time.sleep(0.1)"


class Programs(ProcessGroup):
    """Python programs instead of our verbs; gives up soon."""

    program = (sys.executable, "-c")
    idle_limit_s = 1.0
    limit_s = 60.0


def test_free_ports_are_none_that_the_system_assigns() -> None:
    """A port that the system assigned may be taken between its choice and the start of its
    owner.
    """
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        ports = processes.free_ports(200, kind)
        assert len(set(ports)) == 200
        assert not any(first <= port <= last for port in ports)
        for port in ports:
            with socket.socket(socket.AF_INET, kind) as owner:
                owner.bind(("127.0.0.1", port))


def after(seconds: float) -> Callable[[], bool | None]:
    end_s = time.monotonic() + seconds
    return lambda: time.monotonic() > end_s or None


@pytest.mark.parametrize("code", [BUSY, TALKING], ids=["computing", "talking"])
def test_waits_beyond_the_idle_limit_for_a_child_that_makes_progress(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_SAY_EVERY_S", 0.5)
    said: list[str] = []
    with Programs(tmp_path) as group:
        group.start("worker", code)
        assert group.wait("the hall", after(2.0), ("worker",), said.append)
    assert said and "waiting for the hall" in said[0] and str(tmp_path / "worker.log") in said[0]


def test_an_idle_child_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    with Programs(tmp_path) as group:
        group.start("worker", IDLE)
        with pytest.raises(VilBridgeError) as wrong:
            group.wait("the hall", after(60.0), ("worker",), lambda _: None)
    assert re.match(
        r"waited \d+ s for the hall; worker made no progress for \d+ s\.", str(wrong.value)
    )
    assert f"The end of {tmp_path / 'worker.log'}:\nloaded the hall" in str(wrong.value)


def test_a_stopped_child_makes_no_progress(tmp_path: Path) -> None:
    with Programs(tmp_path) as group:
        group.start("worker", "import os; print(os.getpid(), flush=True)\n" + BUSY)
        log = tmp_path / "worker.log"
        group.wait(
            "its number",
            lambda: log.read_text().endswith("\n") or None,
            ("worker",),
            lambda _: None,
        )
        pid = int(log.read_text())
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(VilBridgeError, match="worker made no progress"):
            group.wait("the hall", after(60.0), ("worker",), lambda _: None)
        os.kill(pid, signal.SIGCONT)


def test_one_of_several_children_is_enough(tmp_path: Path) -> None:
    with Programs(tmp_path) as group:
        group.start("bridge", IDLE)
        group.start("renderer", BUSY)
        assert group.wait("the first picture", after(2.0), ("bridge", "renderer"), lambda _: None)


def test_there_is_a_limit_for_busy_children_too(tmp_path: Path) -> None:
    class Short(Programs):
        limit_s = 1.0

    with Short(tmp_path) as group:
        group.start("worker", BUSY)
        with pytest.raises(
            VilBridgeError, match=r"waited \d+ s for the hall\. The end of .*\n\(empty\)"
        ):
            group.wait("the hall", after(60.0), ("worker",), lambda _: None)


def test_a_child_that_dies_is_told_with_its_code(tmp_path: Path) -> None:
    with Programs(tmp_path) as group:
        group.start("worker", "raise SystemExit('no such scene')")
        with pytest.raises(
            VilBridgeError,
            match=r"worker ended with code 1; the end of .*worker\.log:\nno such scene",
        ):
            group.wait("the hall", after(60.0), ("worker",), lambda _: None)


def test_a_killed_child_is_started_again_and_that_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    killed: list[int] = []
    log = tmp_path / "worker.log"

    def look() -> bool | None:
        pids = [int(line) for line in log.read_text().split()]
        if pids and not killed:
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])
        return len(pids) == 2 or None

    with Programs(tmp_path) as group:
        group.start("worker", "import os; print(os.getpid(), flush=True)\n" + BUSY)
        assert group.wait("its second life", look, ("worker",), said.append, revivable=("worker",))
    assert said == ["worker was killed: started again"]
