"""For how long a scenario's vehicle is not tracked on purpose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vil_adapters.lab.motions import VEHICLE_SUBJECT, Scenario
from vil_adapters.motions.drone import DroneMotion
from vil_bridge.core.geometry import Transform

S = 1_000_000_000
MS = 1_000_000


class CountedMotion(DroneMotion):
    asked = 0

    def truth(self, t_ns: int) -> Transform:
        self.asked += 1
        return super().truth(t_ns)


def test_a_simulated_drone_is_always_tracked_and_not_asked_about_the_whole_run() -> None:
    vehicle = CountedMotion(VEHICLE_SUBJECT, imu_rate_hz=250)
    scenario = replace(Scenario.simulated(), vehicle=vehicle)
    assert scenario.untracked_s(0, 2 * S) == 0.0
    assert vehicle.asked == 0


def test_a_recording_is_not_tracked_in_its_gaps(tmp_path: Path) -> None:
    poses = [
        f"{t * MS},0.0,0.0,1.0,1.0,0.0,0.0,0.0\n"
        for t in (*range(0, 401, 10), *range(600, 1001, 10))
    ]
    samples = [f"{t * MS},0.0,0.0,0.0,0.0,0.0,9.81\n" for t in range(0, 1001, 5)]
    for name, rows in (("mocap0", poses), ("imu0", samples)):
        folder = tmp_path / "mav0" / name
        folder.mkdir(parents=True)
        (folder / "data.csv").write_text("#timestamp [ns]\n" + "".join(rows))
    scenario = Scenario.recorded(tmp_path, 0.0)
    assert scenario.untracked_s(0, S) == pytest.approx(0.19)
    assert scenario.untracked_s(450 * MS, 550 * MS) == pytest.approx(0.1)
