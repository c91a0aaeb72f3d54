"""`vil-bridge bench vehicles`: its rows and their units, with tiny budgets."""

from __future__ import annotations

import pytest

from vil_bridge.tools.bench.vehicles import SIZES, bench_vehicles

pytestmark = pytest.mark.process


def test_rows() -> None:
    rows = {row.name: row for row in bench_vehicles(sizes=(1, 150), repetitions=2, block_s=0.002, processes=1)}
    assert set(rows) == {
        "env_steps_per_cpu_s/kernel/1",
        "env_steps_per_cpu_s/numpy/1",
        "env_steps_per_cpu_s/gymnasium/1",
        "env_steps_per_cpu_s/kernel/150",
        "env_steps_per_cpu_s/numpy/150",
        "env_steps_per_cpu_s/gymnasium/150",
        "kernel_over_numpy_150",
        "hover_over_fresh_steps",
        "single_step_us",
        "flightgoggles_euler_steps_per_s",
        "bytes_per_vehicle",
        "warm_first_call_s",
    }
    assert all(row.value is not None and row.value > 0.0 for row in rows.values())
    ratio = rows["kernel_over_numpy_150"].value
    assert ratio is not None and ratio > 5.0, "compiled is faster, by whatever machine"
    held = rows["bytes_per_vehicle"].value
    assert held is not None and 300.0 < held < 600.0
    assert SIZES == (1, 10, 50, 150, 500, 1000)
