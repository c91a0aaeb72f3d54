"""A hundred simulated and two recorded vehicles in one world.

No step is lost, however late it came.
"""

from __future__ import annotations

import pytest

from tests.support.common import data_dir
from vil_benchmarks.fleet import measure_fleet

pytestmark = pytest.mark.process


@pytest.mark.long
def test_every_vehicle_makes_exactly_its_steps() -> None:
    recorded = {
        "slow": data_dir("broad_12_slow_translation"),
        "fast": data_dir("broad_07_fast_rotation"),
    }
    rows = {row.name: row for row in measure_fleet(recorded, vehicles=100, seconds=5)}
    assert rows["fleet_steps_per_vehicle"].value == 5 * 960
    assert rows["fleet_poses_in_world"].value is not None
    assert rows["fleet_poses_in_world"].value > 1000 + 200
    assert rows["fleet_late_us_p50"].samples == 1000
    assert rows["empty_late_us_p50"].samples > 1000
