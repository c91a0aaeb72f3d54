"""Poses of motion capture by each message, to stand-ins that compare them with the motion and
its frames.
"""

from __future__ import annotations

import pytest

from tests.support.sitl_flights import SitlFlight

pytestmark = pytest.mark.process

_SECONDS = 8


@pytest.mark.parametrize("kind", ["ODOMETRY", "VISION_POSITION_ESTIMATE", "GPS_INPUT"])
def test_ardupilot_takes_poses_on_its_mavlink_port(kind: str) -> None:
    flight = SitlFlight(
        "ardupilot", pose={"kind": kind, "rate_hz": 40, "delay_ms": 15, "position_m": 0.002}
    )
    found = flight.fly("--flight", "box", "--seconds", _SECONDS)
    assert found["violation"] == ""
    assert abs(found["poses"] - 40 * _SECONDS) <= 2
    assert found["altitude_m"][-1][1] == pytest.approx(1.5, abs=0.1)
    assert flight.simulation.groups[0].notes()[0].link == "ardupilot running"


def test_ardupilot_without_its_port_flies_and_the_status_says_it() -> None:
    flight = SitlFlight("ardupilot", pose={})
    flight.pilot_port = 0  # the stand-in opens none
    found = flight.fly("--seconds", 1)
    assert (found["violation"], found["poses"]) == ("", 0)
    assert (
        "ardupilot running, poses wait for its TCP port"
        in flight.simulation.groups[0].notes()[0].link
    )


def test_px4_flies_on_vision_position_estimates() -> None:
    flight = SitlFlight("px4", gps=None, pose={"kind": "VISION_POSITION_ESTIMATE", "delay_ms": 10})
    found = flight.fly("--flight", "box", "--seconds", 9)
    assert found["violation"] == ""
    assert found["altitude_m"][-1][1] == pytest.approx(1.5, abs=0.1)
