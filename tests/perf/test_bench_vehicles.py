"""The bars of `vil-bridge bench vehicles`; run it alone on a quiet machine: `pytest tests/perf`."""

from __future__ import annotations

import pytest

from vil_bridge.bench.vehicles import bench_vehicles

pytestmark = [pytest.mark.perf, pytest.mark.timeout(300)]

_AT_MOST = {"single_step_us": 2.0, "warm_first_call_s": 1.0}
_AT_LEAST = {"kernel_over_numpy_150": 80.0}


def test_the_kernels_are_as_fast_as_promised() -> None:
    rows = {row.name: row.value for row in bench_vehicles()}
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
