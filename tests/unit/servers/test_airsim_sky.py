"""The sun over AirSim's RPC: the time of day, how fast it passes, and how often it moves."""

from __future__ import annotations

import pytest

from vil_bridge.core.clock import NS_PER_S, WallClock
from vil_bridge.core.geometry import Transform
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.world.world import World
from vil_simulation.airsim.sky_methods import SkyMethods
from vil_simulation.airsim.vehicles import ServedVehicles

NOON = "2026-06-01 12:30:36"


def vehicles() -> ServedVehicles:
    return ServedVehicles(
        [], VehicleCommandBus(), World({"sim": Transform.identity()}, []), WallClock.of_run()
    )


def hour_after(served: ServedVehicles, seconds: float) -> float:
    """Return the hour that a snapshot shows some time from now."""
    lighting_at = served.lighting_at
    assert lighting_at is not None
    hour = lighting_at(served.snapshot().t_ns + round(seconds * NS_PER_S)).time_of_day_h
    assert hour is not None
    return hour


@pytest.mark.parametrize(("dst", "hour"), [(False, 12.51), (True, 11.51)])
def test_the_hour_is_that_of_the_clock_without_summer_time(dst: bool, hour: float) -> None:
    served = vehicles()
    SkyMethods(served).set_time_of_day(True, NOON, dst, 0.0, 0.0)
    assert hour_after(served, 0.0) == pytest.approx(hour) and hour_after(
        served, 1e4
    ) == pytest.approx(hour)
    assert served.snapshot().lighting is not None


def test_the_sun_moves_as_fast_and_as_often_as_asked() -> None:
    served = vehicles()
    SkyMethods(served).set_time_of_day(True, NOON, False, 60.0, 60.0)
    assert hour_after(served, 30.0) == pytest.approx(12.51)
    assert hour_after(served, 90.0) == pytest.approx(13.51)
    assert hour_after(served, 12.0 * 60.0 + 30.0) == pytest.approx(0.51)
    SkyMethods(served).set_time_of_day(True, NOON, False, -60.0, 60.0)
    assert hour_after(served, 90.0) == pytest.approx(11.51)


@pytest.mark.parametrize("off", [(False, True), (True, False)])
def test_a_sun_that_does_not_move_is_the_scenes_own(off: tuple[bool, bool]) -> None:
    served = vehicles()
    SkyMethods(served).set_time_of_day(True, NOON, False, 1.0, 60.0)
    enabled, moves = off
    SkyMethods(served).set_time_of_day(enabled, NOON, False, 1.0, 60.0, moves)
    assert served.lighting_at is None


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        ("2026-06-01", "start_datetime must be written 2026-01-31 12:00:00"),
        ("12:00", "start_datetime must be written"),
    ],
)
def test_a_time_without_a_meaning_is_refused(start: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        SkyMethods(vehicles()).set_time_of_day(True, start, False, 1.0, 60.0)
