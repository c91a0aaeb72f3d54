"""Weather over AirSim's RPC: the nine parameters, what is remembered, and the wind."""

from __future__ import annotations

import pytest

from vil_bridge.core.clock import WallClock
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import Lighting
from vil_bridge.core.weather import FINE, Weather
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.world.world import World
from vil_simulation.airsim.sky_methods import SkyMethods
from vil_simulation.airsim.vehicles import ServedVehicles
from vil_simulation.airsim.weather_methods import WeatherMethods


def vehicles(lighting: Lighting | None = None) -> ServedVehicles:
    world = World({"sim": Transform.identity()}, [])
    world.lighting = lighting
    return ServedVehicles([], VehicleCommandBus(), world, WallClock.of_run())


def shown(served: ServedVehicles) -> Weather | None:
    lighting = served.snapshot().lighting
    return None if lighting is None else lighting.weather


def test_each_number_is_the_amount_that_airsim_names() -> None:
    served = vehicles()
    methods = WeatherMethods(served)
    methods.enable_weather(True)
    assert shown(served) == FINE
    for number in range(8):
        methods.set_weather(number, 0.1 * (number + 1))
    found = shown(served)
    assert found is not None
    named = [found.rain, found.ground_wetness, found.snow, found.ground_snow]
    named += [found.leaves, found.ground_leaves, found.dust, found.fog]
    assert named == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])


def test_amounts_are_remembered_while_the_weather_is_off() -> None:
    served = vehicles()
    methods = WeatherMethods(served)
    methods.set_weather(7, 0.4)
    assert shown(served) is None
    methods.set_weather(8, 1.0)  # WeatherParameter.Enabled
    assert shown(served) == Weather(fog=0.4)
    methods.set_weather(8, 0.0)
    assert shown(served) is None
    methods.enable_weather(True)
    assert shown(served) == Weather(fog=0.4)


def test_weather_and_hour_go_together_and_the_wind_blows() -> None:
    served = vehicles(Lighting(5.0))
    methods = WeatherMethods(served)
    methods.enable_weather(True)
    methods.set_weather(2, 3.0)
    served.wind_mps = (1.0, 2.0, 0.0)
    assert served.snapshot().lighting == Lighting(
        5.0, weather=Weather(snow=1.0, wind_mps=(1.0, 2.0, 0.0))
    )
    SkyMethods(served).set_time_of_day(True, "2026-06-01 12:00:00", False, 0.0, 0.0)
    lighting = served.snapshot().lighting
    assert lighting is not None and lighting.time_of_day_h == 12.0 and lighting.weather is not None


@pytest.mark.parametrize("param", [-1, 9])
def test_what_is_no_amount_is_refused(param: int) -> None:
    with pytest.raises(ValueError, match="param must be from 0 to 8, not"):
        WeatherMethods(vehicles()).set_weather(param, 0.5)
