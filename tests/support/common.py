"""Shared helpers of the tests."""

from __future__ import annotations

import contextlib
import ctypes.util
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from vil_bridge.core.bridge_time import bridge_clock
from vil_simulation.demo.child_processes import free_ports

PATIENCE_S: Final = 180.0
"""Limit for what must come on a busy machine, where the test is not about the time that it
takes.
"""
ROOT = Path(__file__).resolve().parents[2]


def data_dir(name: str) -> Path:
    """Folder of real recordings; skips the test where it is absent."""
    base = Path(os.environ.get("VIL_TEST_DATA", ROOT.parent / "shared" / "data"))
    path = base / name
    if not path.exists():
        pytest.skip(
            f"recordings are absent: {path.name} (set VIL_TEST_DATA to the folder that holds it)"
        )
    return path


def needs_gl() -> None:
    """Skip where the system has no OpenGL; where it has, one thread draws."""
    if not (ctypes.util.find_library("EGL") and ctypes.util.find_library("GL")):
        pytest.skip("no OpenGL: apt-get install libegl1 libgl1")
    os.environ.setdefault("LP_NUM_THREADS", "1")


def needs_program(name: str, package: str) -> str:
    """Return the path of a program, of this environment too, or skip and name Debian's package."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is missing: apt-get install {package}")
    return found


def free_port(kind: socket.SocketKind, *above: int) -> int:
    """Return a free port of loopback, with which those so much above it are free."""
    while True:
        (port,) = free_ports(1, kind)
        with contextlib.suppress(OSError), contextlib.ExitStack() as probes:
            for more in above:
                probes.enter_context(socket.socket(socket.AF_INET, kind)).bind(
                    ("127.0.0.1", port + more)
                )
            return port


def wait_until(
    condition: Callable[[], object],
    timeout_s: float = PATIENCE_S,
    what: str | Callable[[], object] = "that for which the test waited",
    period_s: float = 0.01,
) -> float:
    """Wait for a condition; fails after the time-out, saying ``what`` was awaited or is wrong.

    Returns:
        The seconds that it took, by a :class:`Stopwatch`.
    """
    stopwatch, begun_s, pause = Stopwatch(), time.monotonic(), threading.Event()
    while not condition():
        assert time.monotonic() - begun_s < timeout_s, (
            f"in {timeout_s} s not: {what() if callable(what) else what}"
        )
        pause.wait(period_s)
        stopwatch.turn()
    return stopwatch.seconds


def wait_until_most(holds: Callable[[], bool], at_least: int = 10) -> None:
    """Try until something held in 8 of the last 10 trials, as what a clock's uncertainty covers.

    95 of 100.

    Errors of trials in a row are alike: the first ones may be beyond.
    """
    trials: list[bool] = []

    def met() -> bool:
        trials.append(holds())
        return len(trials) >= at_least and sum(trials[-10:]) >= 8

    wait_until(met)


class Stopwatch:
    """Time in which the test ran.

    A turn counts for a bounded time, however long the machine stood still.

    Args:
        longest_s: for which a turn counts at most.

    Attributes:
        seconds: from the first to the last turn.
    """

    def __init__(self, longest_s: float = 0.1) -> None:
        self.seconds = 0.0
        self._longest_s = longest_s
        self._last_s = time.monotonic()

    def turn(self) -> None:
        """Count the time since the last turn."""
        now_s = time.monotonic()
        self.seconds += min(now_s - self._last_s, self._longest_s)
        self._last_s = now_s


@contextlib.contextmanager
def simulated_time(rate: float) -> Iterator[None]:
    """Run the bridge's clock in simulated time at a rate."""
    bridge_clock().run(rate)
    try:
        yield
    finally:
        bridge_clock().real()
