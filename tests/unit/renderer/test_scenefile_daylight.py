"""Daylight against the closed forms of an equinox, and light changed at run time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from vil_bridge.core.types import LampState, Lighting
from vil_renderer.embedded.lighting.daylight import daylight, lit, sun_at, sun_direction, to_sun
from vil_renderer.embedded.scene import Lamp

EAST, NORTH, UP = np.eye(3)


@pytest.mark.parametrize("latitude_deg", [-60.0, -33.9, 0.0, 23.5, 47.4, 89.0])
def test_at_noon_the_sun_stands_at_90_degrees_minus_the_latitude_towards_the_equator(
    latitude_deg: float,
) -> None:
    sun = sun_at(12.0, latitude_deg)
    assert sun is not None
    assert math.degrees(math.asin(sun.to_sun[2])) == pytest.approx(
        90.0 - abs(latitude_deg), abs=1e-6
    )
    assert sun.to_sun[0] == pytest.approx(0.0, abs=1e-12)
    assert np.sign(round(float(sun.to_sun[1]), 9)) == -np.sign(latitude_deg)


@pytest.mark.parametrize("latitude_deg", [-50.0, 0.0, 47.4])
def test_it_rises_in_the_east_at_six_and_sets_in_the_west_at_eighteen(latitude_deg: float) -> None:
    np.testing.assert_allclose(sun_direction(6.0, latitude_deg), EAST, atol=1e-12)
    np.testing.assert_allclose(sun_direction(18.0, latitude_deg), -EAST, atol=1e-12)
    assert sun_at(5.99, latitude_deg) is None
    assert sun_at(6.01, latitude_deg) is not None
    assert sun_at(18.01, latitude_deg) is None


def test_its_height_follows_the_hour_angle() -> None:
    for hour in np.linspace(0.0, 24.0, 25):
        direction = sun_direction(hour, 47.4)
        expected = math.cos(math.radians(47.4)) * math.cos(math.radians(15.0 * (hour - 12.0)))
        assert direction[2] == pytest.approx(expected, abs=1e-12)
        assert np.linalg.norm(direction) == pytest.approx(1.0)
    np.testing.assert_allclose(sun_direction(0.0, 47.4), sun_direction(24.0, 47.4), atol=1e-12)


def test_a_bearing_is_that_of_a_compass() -> None:
    for azimuth_deg, expected in ((0.0, NORTH), (90.0, EAST), (180.0, -NORTH), (270.0, -EAST)):
        np.testing.assert_allclose(to_sun(azimuth_deg, 0.0), expected, atol=1e-12)
    np.testing.assert_allclose(
        to_sun(90.0, 30.0), math.cos(math.pi / 6) * EAST + 0.5 * UP, atol=1e-12
    )


def test_low_light_is_dimmer_and_redder_and_air_masses_are_the_published_ones() -> None:
    high, low = sun_at(12.0, 0.0), sun_at(6.4, 0.0)
    assert high is not None
    assert low is not None
    assert (low.light < high.light).all()
    assert low.light[0] / low.light[2] > 2.0 * high.light[0] / high.light[2]
    # Kasten and Young give 5.5841 at 10 degrees; the difference of the logarithms is the depth
    # times that.
    ten = sun_at(6.0 + 10.0 / 15.0, 0.0)
    assert ten is not None
    depth = np.log(high.light / ten.light)
    np.testing.assert_allclose(depth / depth[0], np.array([0.13, 0.19, 0.32]) / 0.13, rtol=1e-6)
    assert depth[0] / 0.13 == pytest.approx(5.5841 - 0.9997, abs=0.02)


def test_ambient_light_grows_through_the_morning_and_never_jumps() -> None:
    hours = np.linspace(0.0, 12.0, 721)
    sky = np.array([daylight(hour, 47.4).sky for hour in hours])
    assert (np.diff(sky, axis=0) >= 0.0).all()
    assert np.diff(sky, axis=0).max() < 0.01
    assert sky[-1].min() > 10.0 * sky[0].max()
    dusk, noon = daylight(18.0, 47.4), daylight(12.0, 47.4)
    assert dusk.horizon[0] > dusk.horizon[2]
    assert noon.horizon[2] > noon.horizon[0]


LAMPS = (
    Lamp("a", np.zeros(3), np.array([2.0, 2.0, 2.0])),
    Lamp("b", np.ones(3), np.array([1.0, 2.0, 4.0])),
    Lamp("c", np.ones(3), np.array([3.0, 3.0, 3.0])),
)


def test_lamps_are_dimmed_coloured_and_switched_off_by_name() -> None:
    environment = daylight(9.0, 40.0)
    lighting = Lighting(
        lamps={"b": LampState(0.5, (1.0, 0.5, 0.0)), "c": LampState(0.0), "nobody": LampState(9.0)}
    )
    same, lamps = lit(environment, LAMPS, lighting)
    assert same is environment
    assert [lamp.name for lamp in lamps] == ["a", "b"]
    assert lamps[0] is LAMPS[0]
    np.testing.assert_allclose(lamps[1].light, [0.5, 0.5, 0.0])


def test_an_hour_moves_the_sun_and_keeps_exposure_and_latitude() -> None:
    environment = replace(daylight(9.0, -35.0), exposure=1.7)
    later, lamps = lit(environment, LAMPS, Lighting(time_of_day_h=12.0))
    assert lamps == LAMPS
    assert (later.exposure, later.latitude_deg) == (1.7, -35.0)
    assert later.sun is not None
    np.testing.assert_allclose(
        later.sun.to_sun, [0.0, math.sin(math.radians(35)), math.cos(math.radians(35))]
    )
    assert lit(environment, LAMPS, Lighting(time_of_day_h=0.0))[0].sun is None
    assert lit(environment, LAMPS, None) == (environment, LAMPS)
