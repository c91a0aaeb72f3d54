"""Barometer, magnetometer, GPS and range finder against the figures of AirSim's and
FlightGoggles's originals.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.sensors import at_rest
from vil_bridge.core.geometry import q_exp
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.environment.geomagnetism import LocalField, dipole_ned_t
from vil_simulation.vehicles.sensors.barometer import Barometer, BarometerParameters
from vil_simulation.vehicles.sensors.gps import Fix, Gps, GpsParameters
from vil_simulation.vehicles.sensors.magnetometer import Magnetometer, MagnetometerParameters
from vil_simulation.vehicles.sensors.rangefinder import (
    DOWNWARDS,
    RangeParameters,
    RangeSensor,
    to_floor,
)

_SEA = GeoOrigin(47.37, 8.54, 0.0)
_MS = 1_000_000

_STILL = BarometerParameters(drift=0.0, noise_pa=0.0)


def _pressure_and_altitude(
    height_m: float, compat: Any, parameters: BarometerParameters = _STILL
) -> tuple[float, float]:
    barometer = Barometer(1, GeoOrigin(47.37, 8.54, height_m), parameters, compat=compat)
    readings = [barometer.sample(at_rest(1, t * _MS)) for t in range(21)]
    reading = next(r for r in readings if r is not None)
    return float(reading.pressure_pa[0]), float(reading.altitude_m[0])


@pytest.mark.parametrize("compat", [None, "airsim"])
def test_a_lift_of_178_cm_at_sea_level_takes_21_38_pa(compat: Any) -> None:
    low, high = _pressure_and_altitude(0.0, compat)[0], _pressure_and_altitude(1.78, compat)[0]
    assert low - high == pytest.approx(21.38, abs=0.005)
    assert low == pytest.approx(101325.0, abs=1e-6)


@pytest.mark.parametrize(
    ("height_m", "error_m", "digits_m"),
    [(122.0, -0.05, 0.005), (1e3, -0.57, 0.005), (5e3, -6.0, 0.05), (1e4, -19.9, 0.05)],
)
def test_the_altimeter_is_right_and_the_originals_is_off_by_what_is_printed(
    height_m: float, error_m: float, digits_m: float
) -> None:
    assert _pressure_and_altitude(height_m, "airsim")[1] - height_m == pytest.approx(
        error_m, abs=digits_m
    )
    assert _pressure_and_altitude(height_m, None)[1] == pytest.approx(height_m, abs=1e-6)


def test_the_sea_levels_pressure_of_the_day_shifts_what_is_reported() -> None:
    today = BarometerParameters(drift=0.0, noise_pa=0.0, qnh_hpa=1003.25)
    assert _pressure_and_altitude(0.0, None)[0] - _pressure_and_altitude(0.0, None, today)[
        0
    ] == pytest.approx(1000.0)


def _pressures(compat: Any, n: int, samples: int) -> FloatArray:
    barometer = Barometer(n, _SEA, seed=3, compat=compat)
    found = [barometer.sample(at_rest(n, t * 20 * _MS)) for t in range(samples + 1)]
    return np.array([r.pressure_pa for r in found if r is not None])


def test_pressures_scatter_by_2_7_pa_and_drift_by_185_pa() -> None:
    right = _pressures(None, 2000, 10)
    assert np.diff(right, axis=0).std() / math.sqrt(2.0) == pytest.approx(2.7, rel=0.02)
    assert right.mean(axis=0).std() == pytest.approx(0.001825 * 101325.0, rel=0.04)
    assert _pressures("airsim", 2000, 10).std() == pytest.approx(2.7, rel=0.02)


def test_four_quarter_turns_turn_the_field_on_the_level() -> None:
    field = LocalField(_SEA, dipole_ned_t).enu_t
    x, y, z = field(np.zeros((1, 3)))[0]
    magnetometer = Magnetometer(500, field, seed=1)
    seen = []
    for quarter in range(4):
        q = q_exp(np.array([0.0, 0.0, quarter * math.pi / 2.0]))
        reading = magnetometer.sample(at_rest(500, quarter * 20 * _MS, q_world_body=q))
        assert reading is not None
        seen.append(reading.field_sensor_t)
    expected = np.array([(x, y, z), (y, -x, z), (-x, -y, z), (-y, x, z)])
    np.testing.assert_allclose(np.mean(seen, axis=1), expected, atol=4.0 * 5e-7 / math.sqrt(500.0))
    assert (np.array(seen) - expected[:, None]).std() == pytest.approx(0.005 * 1e-4, rel=0.02)


def test_a_magnetometers_constant_error_is_even_within_its_bounds_and_constant() -> None:
    parameters = MagnetometerParameters(noise_t=0.0, bias_t=3e-6, scale=1.1)
    magnetometer = Magnetometer(2000, lambda p: np.full((len(p), 3), 2e-5), parameters, seed=2)
    first, second = (
        magnetometer.sample(at_rest(2000, 0)),
        magnetometer.sample(at_rest(2000, 20 * _MS)),
    )
    assert first is not None
    assert second is not None
    error = first.field_sensor_t - 2.2e-5
    np.testing.assert_array_equal(first.field_sensor_t, second.field_sensor_t)
    assert 2.99e-6 < np.abs(error).max() <= 3e-6
    assert error.std() == pytest.approx(3e-6 / math.sqrt(3.0), rel=0.02)


def _first_fixes(gps: Gps, steps_ms: int = 1) -> dict[Fix, tuple[float, float]]:
    """When each fix was first measured, and when it came out, seconds."""
    found: dict[Fix, tuple[float, float]] = {}
    for t in range(0, 4000, steps_ms):
        reading = gps.sample(at_rest(1, t * _MS))
        if reading is not None:
            found.setdefault(reading.fix, (reading.t_ns * 1e-9, t * 1e-3))
    return found


def test_fixes_come_at_2_92_and_3_19_s_and_are_seen_a_fifth_of_a_second_later() -> None:
    always = _first_fixes(Gps(1, _SEA, GpsParameters(rate_hz=None)))
    assert round(always[Fix.FIX_2D][0], 2) == 2.92
    assert round(always[Fix.FIX_3D][0], 2) == 3.19
    usual = _first_fixes(Gps(1, _SEA))
    assert usual[Fix.NONE] == pytest.approx((1.0, 1.2))
    assert usual[Fix.FIX_2D] == pytest.approx((2.92, 3.12))
    assert usual[Fix.FIX_3D] == pytest.approx((3.2, 3.4))
    for measured, seen in always.values():
        assert seen - measured == pytest.approx(0.2)


def test_reported_accuracies_decay_to_their_end() -> None:
    gps = Gps(1, _SEA)
    assert gps.accuracy_m(0.0) == 100.0
    assert gps.accuracy_m(0.9) == pytest.approx(0.1 + 99.9 / math.e)
    assert gps.accuracy_m(60.0) == pytest.approx(0.1)


def test_a_gps_says_where_it_was_and_scatters_only_if_told() -> None:
    p_world_m = np.array([100.0, 200.0, 30.0])
    exact = Gps(1, _SEA, GpsParameters(rate_hz=None, latency_s=0.0, startup_s=0.0)).sample(
        at_rest(1, 0, p_world_m)
    )
    assert exact is not None
    np.testing.assert_allclose(
        _SEA.to_world(exact.lat_deg, exact.lon_deg, exact.h_m)[0], p_world_m, atol=1e-6
    )
    noisy = GpsParameters(
        latency_s=0.0, startup_s=0.0, noise_horizontal_m=1.5, noise_vertical_m=3.0, noise_mps=0.2
    )
    reading = Gps(5000, _SEA, noisy, seed=8).sample(at_rest(5000, 0, p_world_m))
    assert reading is not None
    error = _SEA.to_world(reading.lat_deg, reading.lon_deg, reading.h_m) - p_world_m
    np.testing.assert_allclose(error.std(axis=0), [1.5, 1.5, 3.0], rtol=0.04)
    np.testing.assert_allclose(reading.v_world_mps.std(axis=0), 0.2, rtol=0.04)


def _ranges(height_m: float, compat: Any, tilt_rad: float = 0.0) -> tuple[FloatArray, bool]:
    finder = RangeSensor(4000, to_floor, RangeParameters(mounting=DOWNWARDS), seed=6, compat=compat)
    q = q_exp(np.array([tilt_rad, 0.0, 0.0]))
    readings = [finder.sample(at_rest(4000, t * _MS, (0.0, 0.0, height_m), q)) for t in range(21)]
    reading = next(r for r in readings if r is not None)
    return reading.distance_m, bool(reading.hit.all())


def test_a_range_finder_measures_along_its_axis_with_its_noise() -> None:
    distance, hit = _ranges(10.0, None, tilt_rad=0.5)
    assert hit
    assert distance.mean() == pytest.approx(10.0 / math.cos(0.5), abs=0.015)
    assert distance.std() == pytest.approx(0.2, rel=0.03)


def test_the_right_finder_keeps_its_bounds_and_the_originals_do_not() -> None:
    near, far = _ranges(0.2, None)[0], _ranges(50.0, None)
    assert near.min() == 0.2
    assert (far[0] == 40.0).all()
    assert not far[1]
    airsim = _ranges(50.0, "airsim")[0]
    assert airsim.mean() == pytest.approx(40.0, abs=0.015)
    assert airsim.max() > 40.5
    assert _ranges(0.2, "airsim")[0].min() < 0.0
    flightgoggles = _ranges(50.0, "flightgoggles")[0]
    assert flightgoggles.mean() == pytest.approx(-41.0, abs=0.015)
    assert flightgoggles.std() == pytest.approx(0.2, rel=0.03)
    assert _ranges(5.0, "flightgoggles")[0].mean() == pytest.approx(-5.0, abs=0.015)


def test_the_floor_is_met_from_above_only() -> None:
    p = np.array([[0.0, 0.0, 2.0], [0.0, 0.0, 2.0], [0.0, 0.0, -1.0], [0.0, 0.0, 2.0]])
    d = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [0.6, 0.0, -0.8]])
    np.testing.assert_allclose(to_floor(p, d), [2.0, math.inf, math.inf, 2.5])
