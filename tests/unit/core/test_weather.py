"""Extinction of light in weather against the formulas of the literature."""

from __future__ import annotations

import math

import pytest

from vil_bridge.core.weather import FINE, LIDAR_NM, Weather, extinction_per_m


@pytest.mark.parametrize(
    ("fog", "visibility_m"), [(1.0, 30.0), (0.5, 120.0), (0.3, 333.3), (0.1, 3000.0)]
)
def test_at_the_visibility_two_percent_of_the_contrast_are_left(
    fog: float, visibility_m: float
) -> None:
    assert math.exp(-extinction_per_m(Weather(fog=fog)).fog * visibility_m) == pytest.approx(
        0.02, rel=2e-3
    )


@pytest.mark.parametrize("rain", [0.1, 0.3, 1.0])
def test_rain_takes_the_light_that_its_rate_says(rain: float) -> None:
    per_km = 1000.0 * extinction_per_m(Weather(rain=rain)).rain
    assert per_km == pytest.approx(0.365 * (50.0 * rain) ** 0.63, rel=5e-3)  # 1.58 dB/km, in nepers


def test_snow_takes_more_than_rain_of_the_same_water() -> None:
    per_km = 1000.0 * extinction_per_m(Weather(snow=1.0)).snow
    assert per_km == pytest.approx((5.42e-5 * 550.0 + 5.4958776) * 5.0**1.38 / 4.343, rel=1e-3)
    assert per_km > 5.0 * 1000.0 * extinction_per_m(Weather(rain=0.1)).rain  # 5 mm/h, too


@pytest.mark.parametrize(
    ("fog", "ratio"),
    [
        (1.0, 1.0),  # below 500 m of visibility fog is gray
        (math.sqrt(0.030 / 0.8), (905 / 550) ** -0.3),  # 0.8 km
        (math.sqrt(0.030 / 2.0), (905 / 550) ** -0.66),  # 2 km
        (math.sqrt(0.030 / 10.0), (905 / 550) ** -1.3),
        (math.sqrt(0.030 / 60.0), (905 / 550) ** -1.6),
    ],
)
def test_infrared_light_passes_haze_as_kim_has_it(fog: float, ratio: float) -> None:
    weather = Weather(fog=fog)
    found = extinction_per_m(weather, LIDAR_NM).fog / extinction_per_m(weather).fog
    assert found == pytest.approx(ratio, rel=1e-3)


def test_fine_weather_takes_nothing() -> None:
    assert extinction_per_m(FINE) == (0.0, 0.0, 0.0, 0.0)
    assert (
        sum(extinction_per_m(Weather(leaves=1.0, ground_snow=1.0, wind_mps=(9.0, 0.0, 0.0)))) == 0.0
    )


@pytest.mark.parametrize("amounts", [{"fog": 1.1}, {"rain": -0.1}, {"ground_snow": math.nan}])
def test_amounts_beyond_0_and_1_are_refused(amounts: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        Weather(**amounts)  # type: ignore[arg-type]


def test_a_wind_must_be_finite() -> None:
    with pytest.raises(ValueError, match="wind_mps must have finite numbers"):
        Weather(wind_mps=(0.0, math.inf, 0.0))
