"""``vil-bridge bench plan``: its rows, on a few queries."""

from __future__ import annotations

import pytest

from vil_benchmarks.plan import bench_plan

pytest.importorskip("ompl", reason="the package is not installed (extra plan)")


@pytest.mark.long
def test_flights_through_the_forest_are_planned_and_flown_free() -> None:
    rows = {row.name: row.value for row in bench_plan(3)}
    assert rows["forest_flown_free"] == 3.0
    speed, path_m, voxels = (
        rows[f"forest_{name}"] for name in ("mean_speed_mps", "path_m", "map_voxels")
    )
    assert speed is not None and 1.0 < speed < 5.0
    assert path_m is not None and path_m > 60.0
    assert voxels is not None and voxels > 5e6
