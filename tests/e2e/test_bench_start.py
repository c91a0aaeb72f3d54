"""``vil-bridge bench start`` on its own processes; the figures themselves are not judged here."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from vil_benchmarks import start
from vil_benchmarks.start import bench_start

pytestmark = pytest.mark.process


def test_children_may_store_compiled_modules(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "seldom.py").touch()
    assert start._run_s("-c", "import seldom") > 0.0
    assert list(tmp_path.glob("__pycache__/seldom.*.pyc"))


def test_each_start_is_measured_once_more_than_the_caches_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock moves by a second with each look at it.

    At the beginning and at the end of each start.
    """
    looks = itertools.count()
    monkeypatch.setattr(start, "time", SimpleNamespace(perf_counter=lambda: float(next(looks))))
    rows = {row.name: row for row in bench_start(repetitions=1, demo=False)}
    assert set(rows) == {
        "interpreter_s",
        "help_s",
        "run_to_first_pose_s",
        "gymnasium_make_and_step_s",
    }
    assert {(row.value, row.samples) for row in rows.values()} == {(1.0, 1)}
    assert next(looks) == 2 * 2 * len(rows)
