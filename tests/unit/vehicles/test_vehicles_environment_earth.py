"""Places on Earth and its magnetic field."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from vil_bridge.core.sensor_readings import GeoPlace
from vil_simulation.vehicles.environment.geodesy import (
    GeoOrigin,
    ecef_to_geodetic,
    enu_axes,
    enu_to_ned,
    geodetic_to_ecef,
)
from vil_simulation.vehicles.environment.geomagnetism import (
    LocalField,
    WorldMagneticModel,
    airsim_dipole_ned_t,
    angles_deg,
    dipole_ned_t,
)
from vil_simulation.vehicles.environment.local import environment_at

A, B = 6378137.0, 6356752.314245
RNG = np.random.default_rng(6)


def test_the_ellipsoid_and_its_normals() -> None:
    lat, lon = RNG.uniform(-90.0, 90.0, 500), RNG.uniform(-180.0, 180.0, 500)
    foot = geodetic_to_ecef(lat, lon, 0.0)
    axes = np.array([A, A, B])
    assert np.sum((foot / axes) ** 2, axis=1) == pytest.approx(1.0, abs=1e-12)
    normal = foot / axes**2
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    assert geodetic_to_ecef(lat, lon, 1234.5) == pytest.approx(foot + 1234.5 * normal, abs=1e-8)
    assert enu_axes(lat, lon)[:, 2] == pytest.approx(normal, abs=1e-12)


def test_known_points_and_the_length_of_a_meridian() -> None:
    assert geodetic_to_ecef(0.0, 0.0, 0.0) == pytest.approx([A, 0.0, 0.0])
    assert geodetic_to_ecef(0.0, 90.0, 10.0) == pytest.approx([0.0, A + 10.0, 0.0], abs=1e-8)
    assert geodetic_to_ecef(-90.0, 33.0, 0.0) == pytest.approx([0.0, 0.0, -B], abs=1e-6)
    quarter = geodetic_to_ecef(np.linspace(0.0, 90.0, 100_001), 0.0, 0.0)
    assert np.linalg.norm(np.diff(quarter, axis=0), axis=1).sum() == pytest.approx(
        10_001_965.729, abs=2e-3
    )


def test_places_come_back() -> None:
    lat, lon = RNG.uniform(-90.0, 90.0, 5000), RNG.uniform(-180.0, 180.0, 5000)
    h = RNG.uniform(-11e3, 1e6, 5000)
    lat[:4] = 90.0, -90.0, 0.0, 1e-9
    back = ecef_to_geodetic(geodetic_to_ecef(lat, lon, h))
    assert back[0] == pytest.approx(lat, abs=1e-9)
    assert back[1][2:] == pytest.approx(lon[2:], abs=1e-9)
    assert back[2] == pytest.approx(h, abs=1e-6)


def test_the_environment_of_a_place_in_a_world() -> None:
    found = environment_at((0.0, 0.0, 500.0), GeoPlace(47.637, -122.147, 500.0))
    assert (found.geo.latitude_deg, found.geo.longitude_deg) == pytest.approx((47.637, -122.147))
    assert found.geo.altitude_m == pytest.approx(1000.0)
    assert (found.temperature_k, found.pressure_pa, found.density_kgpm3) == pytest.approx(
        (281.651, 89876.3, 1.11166), rel=1e-5
    )
    assert found.gravity_world_mps2 == pytest.approx((0.0, 0.0, -9.80357), abs=1e-5)


def test_a_world_on_earth() -> None:
    home = GeoOrigin(47.641468, -122.140165, 122.0)
    lat, lon, h = home.to_geodetic(
        [[0.0, 0.0, 0.0], [0.0, 100.0, 0.0], [100.0, 0.0, 0.0], [0.0, 0.0, 100.0]]
    )
    assert [lat[0], lon[0], h[0]] == pytest.approx([47.641468, -122.140165, 122.0], abs=1e-9)
    # Radii of curvature from the ellipsoid: meridian 6.37026e6 m, prime vertical 6.38984e6 m at
    # this latitude.
    e2 = 1.0 - (B / A) ** 2
    across = A / np.sqrt(1.0 - e2 * np.sin(np.deg2rad(lat[0])) ** 2)
    along = across**3 * (1.0 - e2) / A**2
    assert np.deg2rad(lat[1] - lat[0]) == pytest.approx(100.0 / (along + 122.0), rel=1e-5)
    east = 100.0 / ((across + 122.0) * np.cos(np.deg2rad(lat[0])))
    assert np.deg2rad(lon[2] - lon[0]) == pytest.approx(east, rel=1e-5)
    assert h[3] == pytest.approx(222.0, abs=1e-6)
    points = RNG.uniform(-20e3, 20e3, (300, 3))
    assert home.to_world(*home.to_geodetic(points)) == pytest.approx(points, abs=1e-6)


def test_the_cheap_height_is_good_near_home() -> None:
    home = GeoOrigin(47.0, 8.0, 400.0)
    angle = RNG.uniform(0.0, 2.0 * np.pi, 200)
    points = np.stack(
        (10e3 * np.cos(angle), 10e3 * np.sin(angle), RNG.uniform(0.0, 3e3, 200)), axis=1
    )
    assert home.height_m(points) == pytest.approx(home.to_geodetic(points)[2], abs=0.05)


def test_axes_turn_with_the_place() -> None:
    assert enu_to_ned(np.array([1.0, 2.0, 3.0])) == pytest.approx([2.0, 1.0, -3.0])
    quarter_round = GeoOrigin(0.0, 0.0).turned(
        np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), [0.0, 0.0], [90.0, 90.0]
    )
    assert quarter_round == pytest.approx(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), abs=1e-12)


@pytest.mark.parametrize("place", [(91.0, 0.0, 0.0), (0.0, 400.0, 0.0), (0.0, 0.0, float("nan"))])
def test_no_such_place(place: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="no such place"):
        GeoOrigin(*place)


# Place; then north, east, down in microtesla, declination and inclination in degrees.
REDMOND, HILL = (47.641468, -122.140165, 122.0), (47.637, -122.147, 622.0)
ZURICH, SYDNEY, NOWHERE = (47.37, 8.54, 400.0), (-33.87, 151.20, 0.0), (0.0, 0.0, 0.0)
AIRSIM_ROWS = [
    (REDMOND, (25.043, 3.409, 36.581), (7.75, 55.36)),
    (HILL, (25.039, 3.408, 36.567), (7.75, 55.35)),
    (ZURICH, (30.380, 0.807, 14.065), (1.52, 24.84)),
    (SYDNEY, (26.085, -3.636, 33.454), (-7.94, 51.79)),
    (NOWHERE, (30.344, 5.012, 10.503), (9.38, 18.86)),
]
DIPOLE_ROWS = [
    (REDMOND, (18.201, 3.994, 50.043), (12.38, 69.58)),
    (HILL, (18.199, 3.994, 50.028), (12.38, 69.57)),
    (ZURICH, (20.232, -5.188, 46.340), (-14.38, 65.74)),
    (SYDNEY, (23.424, 3.636, -40.572), (8.82, -59.70)),
    (NOWHERE, (30.755, -5.012, 3.137), (-9.26, 5.75)),
]
Row = tuple[tuple[float, float, float], tuple[float, float, float], tuple[float, float]]


@pytest.mark.parametrize("row", AIRSIM_ROWS)
def test_airsims_dipole_to_every_printed_digit(row: Row) -> None:
    place, microtesla, angles = row
    field = airsim_dipole_ned_t(*place)
    assert 1e6 * field == pytest.approx(microtesla, abs=5.01e-4)
    assert angles_deg(field) == pytest.approx(angles, abs=5.01e-3)


@pytest.mark.parametrize("row", DIPOLE_ROWS)
def test_the_dipole_to_every_printed_digit(row: Row) -> None:
    place, microtesla, angles = row
    field = dipole_ned_t(*place)
    assert 1e6 * field == pytest.approx(microtesla, abs=5.01e-4)
    assert angles_deg(field) == pytest.approx(angles, abs=5.01e-3)


def test_the_dipole_at_its_pole_and_equator() -> None:
    pole = dipole_ned_t(80.31, -72.62, 0.0)
    assert pole == pytest.approx([0.0, 0.0, 6.24e-5], abs=1e-12)
    equator = dipole_ned_t(80.31 - 90.0, -72.62, 0.0)
    assert equator == pytest.approx([3.12e-5, 0.0, 0.0], abs=1e-12)
    assert dipole_ned_t(80.31, -72.62, 6378137.0) == pytest.approx(pole / 8.0, rel=1e-12, abs=1e-15)
    assert np.isfinite(airsim_dipole_ned_t(80.31, -72.62, 0.0)).all()
    assert dipole_ned_t(np.zeros((4, 1)), 2.0, np.zeros(5)).shape == (4, 5, 3)


# Year, height km, latitude, longitude; north, east, down nT. First: report of WMM2025, table 3b;
# then test values that come with the coefficients of WMM2020.
WMM_ROWS = [
    (2027.5, 100.0, -80.0, 240.0, (5983.9760496, 14760.1359758, -49317.6706154), 1e-5),
    (2020.0, 66.0, 14.0, 143.0, (34916.8, 70.2, 8114.9), 0.05),
    (2020.0, 18.0, 0.0, 21.0, (29311.2, 536.0, -14589.0), 0.05),
    (2020.5, 6.0, -36.0, -137.0, (23948.6, 8791.9, -32897.6), 0.05),
    (2020.5, 63.0, 26.0, 81.0, (34737.7, 259.2, 30023.4), 0.05),
]


@pytest.mark.parametrize(("year", "h_km", "lat", "lon", "ned_nt", "error_nt"), WMM_ROWS)
def test_the_world_magnetic_models_test_values(
    year: float, h_km: float, lat: float, lon: float, ned_nt: tuple[float, ...], error_nt: float
) -> None:
    field = WorldMagneticModel(year).ned_t(lat, lon, 1e3 * h_km)
    assert 1e9 * field == pytest.approx(ned_nt, abs=error_nt + 1e-3)


def test_what_airsim_quotes_from_wmm2015() -> None:
    """18.35 5.20 50.16 uT, D 15.82, I 69.18, without a date: the first edition at 2017.1.

    Ours is the second edition of that model (WMM2015v2): 17 nT and 0.05 degrees away, a tenth of
    what either claims.
    """
    field = WorldMagneticModel(2017.1).ned_t(*HILL)
    assert 1e6 * field == pytest.approx([18.35, 5.20, 50.16], abs=0.025)
    assert angles_deg(field) == pytest.approx((15.82, 69.18), abs=0.055)
    assert np.linalg.norm(dipole_ned_t(*HILL) - field) == pytest.approx(1.24e-6, abs=5e-9)


def test_the_model_takes_arrays_and_refuses_years() -> None:
    model = WorldMagneticModel(2026.5)
    fields = model.ned_t([[65.0], [-20.0]], [85.0, 10.0, 0.0], 0.0)
    assert fields.shape == (2, 3, 3)
    assert fields[1, 2] == pytest.approx(model.ned_t(-20.0, 0.0, 0.0), rel=1e-15)
    assert model.ned_t(65.0, 85.0, 0.0).shape == (3,)
    for year in (2009.9, 2030.0, float("nan")):
        with pytest.raises(ValueError, match="2010 to 2030"):
            WorldMagneticModel(year)


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygeomag", None)
    with pytest.raises(ModuleNotFoundError, match=r"\.\[sim\]"):
        WorldMagneticModel(2026.0)


@pytest.mark.parametrize("model", ["dipole", "wmm"])
def test_a_local_field_is_the_field_around_home(model: str) -> None:
    field = dipole_ned_t if model == "dipole" else WorldMagneticModel(2026.0).ned_t
    home = GeoOrigin(47.6, -122.0, 100.0)
    points = RNG.uniform(-1.0, 1.0, (100, 3))
    points *= 10e3 / np.linalg.norm(points, axis=1, keepdims=True)
    lat, lon, h = home.to_geodetic(points)
    expected = home.turned(enu_to_ned(field(lat, lon, h)), lat, lon)
    local = LocalField(home, field)
    assert local.enu_t(points) == pytest.approx(expected, abs=2e-9)
    assert local.enu_t(np.zeros((1, 3)))[0] == pytest.approx(
        enu_to_ned(field(47.6, -122.0, 100.0)), abs=1e-14
    )
    # Worth its gradient: the value at home alone is 100 nT and more away.
    assert np.abs(expected - local.enu_t(np.zeros(3))).max() > 1e-7
