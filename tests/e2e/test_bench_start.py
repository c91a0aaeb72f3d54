"""``vil-bridge bench start`` on its own processes; the figures themselves are judged by nobody here."""

from __future__ import annotations

import pytest

from vil_bridge.tools.bench.start import bench_start

pytestmark = pytest.mark.process


def test_each_start_is_measured_once_more_than_the_caches_need() -> None:
    rows = {row.name: row for row in bench_start(repetitions=1, demo=False)}
    assert set(rows) == {"interpreter_s", "help_s", "run_to_first_pose_s", "gymnasium_make_and_step_s"}
    assert {row.samples for row in rows.values()} == {1}
    first_pose = rows["run_to_first_pose_s"].value
    assert first_pose is not None
    assert first_pose > (rows["interpreter_s"].value or 0.0) > 0.0, "the bridge imports numpy too"
