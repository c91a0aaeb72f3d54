"""Kernels on disk.

Stale ones are dropped with their code, and where nothing can be written they compile again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from vil_bridge.core import compile as kernels

caching = pytest.importorskip("numba.core.caching")


def test_kernels_compile_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])

    def double(a: float) -> float:
        return 2.0 * a

    compiled: Any = kernels.compiled()(double)
    assert compiled is not double
    assert compiled(4.0) == 8.0


def test_what_is_older_than_the_newest_source_goes_index_and_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "airsim"
    cache = room / "__pycache__"
    cache.mkdir(parents=True)
    times = {
        "kernel.py": 100,
        "kernel_control.py": 200,
        "model.py": 300,
        "a.nbi": 150,
        "a.1.nbc": 150,
        "b.nbi": 250,
        "b.1.nbc": 250,
        "c.pyc": 50,
    }
    for name, time in times.items():
        path = {"kernel.py": tmp_path, "model.py": room, "kernel_control.py": room}.get(
            name, cache
        ) / name
        path.touch()
        os.utime(path, (time, time))
    monkeypatch.setattr(kernels, "_FOLDER", tmp_path)
    kernels._drop_stale.__wrapped__("vil_bridge")
    assert {path.name for path in cache.iterdir()} == {"b.nbi", "b.1.nbc", "c.pyc"}
