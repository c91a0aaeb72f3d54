"""Ranges of lasers in weather against the closed forms of their model."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.types import Lighting, WorldSnapshot
from vil_bridge.core.weather import FINE, LIDAR_NM, Weather, extinction_per_m
from vil_bridge.interfaces.scene_queries import RayHits
from vil_bridge.interfaces.weather_returns import (
    LaserAir,
    WeatherReturns,
    hits_in,
    rays_in,
    returns_in,
    weather_at,
)

BEAMS = 200_000
REACH_M = 100.0
WEATHERS = [
    Weather(fog=0.4),
    Weather(fog=1.0),
    Weather(rain=1.0),
    Weather(snow=1.0),
    Weather(dust=0.7),
]


def returns(weather: Weather, range_m: float, seed: int = 1) -> WeatherReturns:
    return returns_in(weather, np.full(BEAMS, range_m), REACH_M, np.random.default_rng(seed))


@pytest.mark.parametrize("weather", WEATHERS)
def test_the_farthest_surface_sends_back_what_one_at_the_reach_does_in_clear_air(
    weather: Weather,
) -> None:
    air = LaserAir.of(weather, REACH_M)
    r = air.surface_m
    assert air.extinction == pytest.approx(sum(extinction_per_m(weather, LIDAR_NM)))
    assert math.exp(-2.0 * air.extinction * r) / r**2 == pytest.approx(1.0 / REACH_M**2, rel=1e-9)
    near, far = returns(weather, 0.999 * r), returns(weather, 1.001 * r)
    assert np.isfinite(near.range_m).all()
    assert np.array_equal(np.isinf(far.range_m), ~far.particle)  # nothing but particles


@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("range_m", [3.0, 12.0, math.inf])
def test_as_many_beams_meet_a_particle_first_as_beer_and_lambert_say(
    weather: Weather, range_m: float
) -> None:
    air, back = LaserAir.of(weather, REACH_M), returns(weather, range_m)
    share = 1.0 - math.exp(-air.extinction * min(range_m, air.particle_m))
    assert air.early_share(range_m) == pytest.approx(share)
    assert back.particle.mean() == pytest.approx(share, abs=4.0 * math.sqrt(share / BEAMS))
    met_m = back.range_m[back.particle]
    assert met_m.max() < min(range_m, air.particle_m)
    # Their places follow the exponential law that is cut there.
    half = -math.log(1.0 - 0.5 * share) / air.extinction
    assert (met_m < half).mean() == pytest.approx(0.5, abs=3.0 / math.sqrt(len(met_m)))


@pytest.mark.parametrize("weather", WEATHERS)
def test_particles_are_seen_as_far_as_their_backscatter_is_strong_enough(weather: Weather) -> None:
    air = LaserAir.of(weather, REACH_M)
    parts = extinction_per_m(weather, LIDAR_NM)
    backscatter = parts.fog / 18.8 + parts.rain / 18.8 + parts.snow / 25.0 + parts.dust / 50.0
    assert air.soft_reflectance == pytest.approx(math.pi * 0.75 * backscatter)
    r = air.particle_m
    assert air.soft_reflectance * math.exp(-2.0 * air.extinction * r) / r**2 == pytest.approx(
        0.1 / REACH_M**2
    )


def test_ranges_get_noisy_as_the_power_falls() -> None:
    weather = Weather(fog=0.3)
    air, back = LaserAir.of(weather, REACH_M), returns(weather, 50.0)
    surface = back.range_m[~back.particle]
    expected = 0.03 * (50.0 / REACH_M) ** 2 * math.sqrt(math.exp(4.0 * air.extinction * 50.0) - 1.0)
    assert surface.std() == pytest.approx(expected, rel=0.01)
    assert surface.mean() == pytest.approx(50.0, abs=5.0 * expected / math.sqrt(len(surface)))
    assert back.strength[~back.particle] == pytest.approx(math.exp(-2.0 * air.extinction * 50.0))
    # At the threshold.
    assert air.noise_m(np.array([air.surface_m]))[0] == pytest.approx(0.03, rel=0.1)


def test_clear_air_changes_nothing() -> None:
    true_m = np.array([1.0, 99.0, math.inf])
    back = returns_in(Weather(leaves=1.0), true_m, REACH_M, np.random.default_rng(0))
    assert (
        np.array_equal(back.range_m, true_m)
        and not back.particle.any()
        and np.all(back.strength == 1.0)
    )


def test_a_little_weather_changes_little() -> None:
    back = returns(Weather(fog=0.001), 99.0)
    assert back.particle.sum() < 30
    assert np.abs(back.range_m[~back.particle] - 99.0).max() < 0.01


def test_one_sensor_and_time_give_one_answer() -> None:
    hits = RayHits(
        np.full(500, 10.0), np.full(500, 7, np.uint32), np.tile([0.0, 0.0, 1.0], (500, 1))
    )
    hits.range_m[-1] = np.inf  # the ray up, to a roof
    snow = Weather(snow=1.0)
    first, again = (hits_in(snow, hits, REACH_M, "drone/lidar", 5) for _ in range(2))
    assert np.array_equal(first.range_m, again.range_m) and np.array_equal(
        first.instance, again.instance
    )
    early = first.range_m < 9.5
    assert (
        early.any()
        and np.all(first.instance[early] == 0)
        and np.all(first.normal_world[early] == 0.0)
    )
    assert np.all(first.instance[~early] == 7)
    for other in (
        hits_in(snow, hits, REACH_M, "drone/lidar", 6),
        hits_in(snow, hits, REACH_M, "drone/other", 5),
    ):
        assert not np.array_equal(first.range_m, other.range_m)
    assert hits_in(FINE, hits, REACH_M, "drone/lidar", 5) is hits


def test_the_weather_of_the_moment_replaces_that_of_the_scene() -> None:
    info = {"weather": {"fog": 0.5, "wind_mps": [1.0, 0.0, 0.0]}}
    assert weather_at(WorldSnapshot(0, ()), {}) == FINE
    assert weather_at(WorldSnapshot(0, (), Lighting(12.0)), info) == Weather(
        fog=0.5, wind_mps=(1.0, 0.0, 0.0)
    )
    assert weather_at(WorldSnapshot(0, (), Lighting(weather=FINE)), info) == FINE


def test_rain_and_snow_do_not_act_on_lasers_below_a_roof() -> None:
    origins, ahead = np.zeros((500, 3)), np.tile([1.0, 0.0, 0.0], (500, 1))
    snow = Weather(snow=1.0)
    more, up = rays_in(snow, origins, ahead)
    assert more.shape == up.shape == (501, 3) and up[-1].tolist() == [0.0, 0.0, 1.0]
    assert rays_in(Weather(fog=1.0), origins, ahead) == (origins, ahead)
    for roof_m, early in ((4.0, False), (math.inf, True)):
        ranges = np.append(np.full(500, 40.0), roof_m)
        hits = RayHits(ranges, np.full(501, 7, np.uint32), np.tile([-1.0, 0.0, 0.0], (501, 1)))
        back = hits_in(snow, hits, REACH_M, "drone/lidar", 5)
        assert len(back.range_m) == len(back.instance) == len(back.normal_world) == 500
        assert bool((back.range_m < 39.0).any()) is early
    assert Weather(rain=1.0, snow=0.5, leaves=0.1, fog=0.3).under_roof() == Weather(fog=0.3)
