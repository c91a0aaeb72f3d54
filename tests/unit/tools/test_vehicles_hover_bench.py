"""`vil-bridge bench vehicles`: its rows and their units, with tiny budgets."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from vil_benchmarks.vehicles import SIZES, bench_vehicles

pytestmark = pytest.mark.process


def test_rows() -> None:
    found = bench_vehicles(sizes=(1, 150), repetitions=2, block_s=0.002, processes=1, peer_sizes=())
    rows = {row.name: row for row in found}
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
        "truth_us",
        "truth_imu_mag_baro_us",
        "truth_over_step",
        "truth_imu_mag_baro_over_step",
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


def test_crazyflow_flies_beside_where_it_is_installed() -> None:
    if find_spec("crazyflow") is None:
        pytest.skip("crazyflow is absent: pip install '.[bench]'")
    found = bench_vehicles(sizes=(), repetitions=2, block_s=0.01, processes=1, peer_sizes=(64,))
    rows = {row.name: row.value for row in found if row.name.endswith("/64")}
    ours, theirs = (
        rows["physics_steps_per_cpu_s/kernel/64"],
        rows["physics_steps_per_cpu_s/crazyflow/64"],
    )
    ratio = rows["kernel_over_crazyflow/64"]
    assert ours is not None and theirs is not None and theirs > 0.0
    assert ratio == pytest.approx(ours / theirs)
