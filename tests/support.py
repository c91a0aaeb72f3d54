"""Shared helpers of the tests."""

from __future__ import annotations

import ctypes.util
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """Folder of real recordings; skips the test where it is absent."""
    base = Path(os.environ.get("VIL_TEST_DATA", ROOT.parent / "shared" / "data"))
    path = base / name
    if not path.exists():
        pytest.skip(f"recordings are absent: {path.name} (set VIL_TEST_DATA to the folder that holds it)")
    return path


def needs_gl() -> None:
    """Skip where the system has no OpenGL; where it has, one thread draws."""
    if not (ctypes.util.find_library("EGL") and ctypes.util.find_library("GL")):
        pytest.skip("no OpenGL: apt-get install libegl1 libgl1")
    os.environ.setdefault("LP_NUM_THREADS", "1")


def wait_until(
    condition: Callable[[], object],
    timeout_s: float = 10.0,
    what: str | Callable[[], object] = "that for which the test waited",
    period_s: float = 0.01,
) -> float:
    """Seconds until the condition held; fails after the time-out, saying ``what`` was awaited or is wrong."""
    begun_s = time.monotonic()
    pause = threading.Event()
    while not condition():
        assert time.monotonic() - begun_s < timeout_s, f"in {timeout_s} s not: {what() if callable(what) else what}"
        pause.wait(period_s)
    return time.monotonic() - begun_s
