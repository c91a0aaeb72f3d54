"""The bars of `vil-bridge bench path`; run it alone on a quiet machine: `pytest tests/perf`."""

from __future__ import annotations

import pytest

from vil_bridge.bench.path import bench_path

pytestmark = [pytest.mark.perf, pytest.mark.timeout(300)]

_AT_MOST = {
    "pose_added_ms_p50_20_bodies": 0.5,
    "image_added_ratio_1024x768_rgb": 1.3,
    "image_cpu_ratio_1024x768_rgb": 1.3,
    "overload_age_ms_p95": 80.0,
}


def test_what_the_bridge_adds_stays_below_the_bars() -> None:
    rows = {row.name: row.value for row in bench_path()}
    missed = {}
    for name, limit in _AT_MOST.items():
        value = rows[name]
        if value is None or value > limit:
            missed[name] = (value, limit)
    assert not missed
