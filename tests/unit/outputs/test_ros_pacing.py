"""Poses at their rate, all else at every look, over ROS."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("rosbags")

from tests.support.outputs import Flight
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.outputs.ros.config import RosBagConfig
from vil_bridge.outputs.ros.topics import RosFeed
from vil_bridge.runtime import pacing
from vil_bridge.runtime.supervisor import Status


def emitted(path: Path, rate_hz: float) -> tuple[float, Counter[str]]:
    """Looks a second, and messages of five looks by topic.

    At each there is a new pose and a new sample.
    """
    flight, found = Flight(), Counter[str]()
    config = RosBagConfig(path=path, actors=("drone",), rate_hz=rate_hz, clock=True)
    feed = RosFeed(
        config, "jazzy", lambda topic, _message: found.update([topic.name]), Status("ros")
    )
    look = feed.watch(flight.world)
    for _ in range(5):
        flight.film()
        flight.feel()
        look()
    return feed.pacing.looks_hz, found


def test_inertial_samples_do_not_wait_for_slow_poses(tmp_path: Path) -> None:
    looks_hz, found = emitted(tmp_path / "bag", 1e-3)
    assert looks_hz == 100.0
    assert found == {"/vil/drone/imu/data_raw": 5, "/vil/drone/odom": 1, "/tf": 1, "/clock": 1}


@pytest.mark.parametrize("rate_hz", [100.0, 250.0])
def test_poses_go_out_at_every_look_at_its_rate_and_above(
    tmp_path: Path, rate_hz: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "machine_ns", lambda: 0)  # no look is late
    looks_hz, found = emitted(tmp_path / "bag", rate_hz)
    assert looks_hz == rate_hz
    assert found["/vil/drone/odom"] == found["/vil/drone/imu/data_raw"] == 5


def test_a_clock_that_stands_is_not_repeated(tmp_path: Path) -> None:
    time = BridgeTime()
    with time.in_force():
        time.run(0.0)
        found = emitted(tmp_path / "bag", 1000.0)[1]
    assert found["/clock"] == 1
