"""The bridge and a strict stand-in of ArduPilot, both as processes.

A hover on all the parts that it reads, in wind.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sitl import counters, sitl_bridge, stand_in, wait_until
from vil_simulation.sitl.options import SitlOptions

pytestmark = pytest.mark.process

RATE_HZ = 400


def test_it_hovers_with_a_battery_a_pitot_tube_and_a_range_finder_in_wind(tmp_path: Path) -> None:
    options = SitlOptions(program="ardupilot", speed=50.0, rate_hz=RATE_HZ)
    parts: dict[str, object] = {name: {} for name in ("battery", "airspeed", "range_finder")}
    flight = (
        "--flight",
        "hover",
        "--seconds",
        14,
        "--rate",
        RATE_HZ,
        "--speedup",
        0,
        "--command-port",
        0,
    )
    with (
        sitl_bridge(tmp_path, options, **parts) as bridge,
        stand_in("ardupilot", bridge.port, *flight) as program,
    ):
        wait_until(lambda: bridge.height("ardupilot") > 0.5)
        wind = {"wind_world_mps": [2.0, 0.0, 0.0]}
        bridge.web.patch("/api/v1/vehicles/ardupilot/disturbance", json=wind).raise_for_status()
        found = counters(program)
    assert found["violation"] == ""
    assert found["altitude_m"][-1][1] == pytest.approx(1.5, abs=0.1)
