"""``vil-bridge bench start`` on its own processes; the figures themselves are judged by nobody here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vil_bridge.tools.bench import start
from vil_bridge.tools.bench.start import bench_start

pytestmark = pytest.mark.process


def test_children_may_store_compiled_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "seldom.py").touch()
    assert start._run_s("-c", "import seldom") > 0.0
    assert list(tmp_path.glob("__pycache__/seldom.*.pyc"))


def test_each_start_is_measured_once_more_than_the_caches_need() -> None:
    rows = {row.name: row for row in bench_start(repetitions=1, demo=False)}
    assert set(rows) == {"interpreter_s", "help_s", "run_to_first_pose_s", "gymnasium_make_and_step_s"}
    assert {row.samples for row in rows.values()} == {1}
    first_pose = rows["run_to_first_pose_s"].value
    assert first_pose is not None
    assert first_pose > (rows["interpreter_s"].value or 0.0) > 0.0, "the bridge imports numpy too"
