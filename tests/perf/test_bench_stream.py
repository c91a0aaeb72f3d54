"""The bars of `vil-bridge bench stream`; run it alone on a quiet machine: `pytest tests/perf`."""

from __future__ import annotations

import pytest

from vil_bridge.bench.stream import bench_stream

pytestmark = [pytest.mark.perf, pytest.mark.timeout(300)]

_AT_MOST = {
    "warp_ratio_1024x768_rgb": 1.15,
    "depth_aware_ratio_1024x768_rgb": 2.0,
    "overload_age_ms_p95": 120.0,
}
_AT_LEAST = {
    "sustained_hz_1024x768_rgb_warp_jpeg": 60.0,
    "overload_age_ms_p95_plain_pub": 1000.0,
}


def test_the_image_path_costs_what_was_promised() -> None:
    rows = {row.name: row.value for row in bench_stream()}
    missed = {}
    for name, limit in _AT_MOST.items():
        value = rows[name]
        if value is None or value > limit:
            missed[name] = (value, limit)
    for name, limit in _AT_LEAST.items():
        value = rows[name]
        if value is None or value < limit:
            missed[name] = (value, limit)
    assert not missed
