"""Air and gravity by altitude, against the published tables and the equations they were made
from.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from vil_simulation.vehicles.environment import atmosphere
from vil_simulation.vehicles.environment.gravity import gravity_mps2

# Geometric height m; temperature K, pressure Pa, density kg/m^3 of AirSim's table of layers.
AIRSIM = [
    (1e3, "281.651", "89876.3", "1.11166"),
    (5e3, "255.675", "54048.2", "0.736427"),
    (10e3, "223.252", "26499.7", "0.413508"),
    (20e3, "216.65", "5528.56", "0.0888978"),
    (32e3, "228.490", "888.994", "0.0135540"),
    (51e3, "270.65", "70.4527", "9.06834e-4"),
    (60e3, "247.016", "21.9531", "3.09606e-4"),
    (71e3, "216.839", "4.47777", "7.19388e-5"),
    (80e3, "198.632", "1.05188", "1.84482e-5"),
]

# U.S. Standard Atmosphere, 1976, table 1: geometric height m; K, Pa, kg/m^3, m/s.
STANDARD = [
    (0.0, "288.150", "1.01325e5", "1.2250", "340.29"),
    (1e3, "281.651", "8.9876e4", "1.1117", "336.43"),
    (5e3, "255.676", "5.4048e4", "7.3643e-1", "320.55"),
    (10e3, "223.252", "2.6499e4", "4.1351e-1", "299.53"),
    (20e3, "216.650", "5.5293e3", "8.8910e-2", "295.07"),
    (30e3, "226.509", "1.1970e3", "1.8410e-2", "301.71"),
    (40e3, "250.350", "2.8714e2", "3.9957e-3", "317.19"),
    (50e3, "270.650", "7.9779e1", "1.0269e-3", "329.80"),
    (60e3, "247.021", "2.1958e1", "3.0968e-4", "315.07"),
    (70e3, "219.585", "5.2209", "8.2829e-5", "297.06"),
    (80e3, "198.639", "1.0524", "1.8458e-5", "282.54"),
]

# Geopotential height of a layer's base m, pressure there Pa.
BASES = [
    (11e3, "22632.06"),
    (20e3, "5474.889"),
    (32e3, "868.0187"),
    (47e3, "110.9063"),
    (51e3, "66.93887"),
    (71e3, "3.956420"),
    (84852.0, "0.37338"),
]


def last_digit(printed: str) -> float:
    """What one unit of a printed number's last digit is worth."""
    mantissa, _, exponent = printed.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def agrees(value: object, printed: str, units: float = 0.5) -> bool:
    return abs(float(np.asarray(value)) - float(printed)) <= 1.001 * units * last_digit(printed)


@pytest.mark.parametrize(("h_m", "t_k", "p_pa", "density"), AIRSIM)
def test_airsims_air_to_every_printed_digit(h_m: float, t_k: str, p_pa: str, density: str) -> None:
    assert agrees(atmosphere.temperature_k(h_m, "airsim"), t_k)
    assert agrees(atmosphere.pressure_pa(h_m, "airsim"), p_pa)
    assert agrees(atmosphere.density_kgpm3(h_m, "airsim"), density)


@pytest.mark.parametrize(("h_m", "t_k", "p_pa", "density", "sound"), STANDARD)
def test_the_standards_own_table(h_m: float, t_k: str, p_pa: str, density: str, sound: str) -> None:
    # A unit, not half of one: the standard's table is cut off in places, not rounded.
    assert agrees(atmosphere.temperature_k(h_m), t_k, 1.0)
    assert agrees(atmosphere.pressure_pa(h_m), p_pa, 1.0)
    assert agrees(atmosphere.density_kgpm3(h_m), density, 1.0)
    assert agrees(atmosphere.speed_of_sound_mps(h_m), sound, 1.0)


def geometric_m(geopotential_m: float) -> float:
    return 6356766.0 * geopotential_m / (6356766.0 - geopotential_m)


@pytest.mark.parametrize(("base_m", "p_pa"), BASES)
def test_pressures_where_layers_meet(base_m: float, p_pa: str) -> None:
    assert agrees(atmosphere.pressure_pa(geometric_m(base_m)), p_pa)


def test_layers_meet_without_a_jump_and_airsims_with_a_small_one() -> None:
    for base_m, _ in BASES[:-1]:
        border = geometric_m(base_m)
        below, above = border * (1.0 - 1e-12), border * (1.0 + 1e-12)
        for law in (atmosphere.pressure_pa, atmosphere.temperature_k, atmosphere.density_kgpm3):
            assert law(above) == pytest.approx(law(below), rel=1e-9)
        border = 6378137.0 * base_m / (6378137.0 - base_m)
        below, above = border * (1.0 - 1e-12), border * (1.0 + 1e-12)
        jump = (
            atmosphere.pressure_pa(above, "airsim") / atmosphere.pressure_pa(below, "airsim") - 1.0
        )
        assert abs(jump) < 1.1e-4


def test_air_rests_on_the_air_below() -> None:
    """dp/dh = -density gravity over geometric heights, layer by layer up to 86 km."""
    bases = np.array([0.0, *(base for base, _ in BASES)])
    kelvins = [288.15, 216.65, 216.65, 228.65, 270.65, 270.65, 214.65, 186.946]

    def fall(h: float, p: np.ndarray) -> np.ndarray:
        kelvin = np.interp(6356766.0 * h / (6356766.0 + h), bases, kelvins)
        return -p * 28.9644 / (8314.32 * kelvin) * 9.80665 * (6356766.0 / (6356766.0 + h)) ** 2

    p = 101325.0
    for low, high in pairwise(geometric_m(base) for base in bases):
        heights = np.linspace(low, high, 8)
        solved = solve_ivp(
            fall, (low, high), [p], "DOP853", t_eval=heights, rtol=1e-12, atol=1e-12
        ).y[0]
        assert atmosphere.pressure_pa(heights) == pytest.approx(solved, rel=1e-9)
        density = -np.array([fall(h, p)[0] for h, p in zip(heights, solved[:, None], strict=True)])
        assert atmosphere.density_kgpm3(heights) * gravity_mps2(heights) == pytest.approx(
            density, rel=1e-9
        )
        p = solved[-1]
    assert p == pytest.approx(0.37338, abs=5e-6)


def test_above_the_standard_the_air_thins_out_and_airsims_is_arbitrary() -> None:
    assert atmosphere.temperature_k([90e3, 500e3]) == pytest.approx(186.946, abs=1e-9)
    p = atmosphere.pressure_pa([86e3, 90e3, 100e3, 500e3])
    assert (np.diff(p) < 0.0).all()
    # The standard at 90 km, with its own lighter air.
    assert p[1] == pytest.approx(0.1836, rel=0.02)
    assert atmosphere.temperature_k(90e3, "airsim") == 3.0
    assert atmosphere.pressure_pa(90e3, "airsim") == 0.001


def test_any_height_has_air() -> None:
    heights = [-1e9, -5e3, 1e6, 1e12]
    for law in (atmosphere.temperature_k, atmosphere.pressure_pa, atmosphere.density_kgpm3):
        for compat in (None, "airsim"):
            values = law(heights, compat)
            assert np.isfinite(values).all()
            assert values[0] == values[1]
            assert values[2] == values[3]
            assert np.isnan(law(np.nan, compat))
    assert atmosphere.height_m([1e9, -1.0]) == pytest.approx([-5e3, 1e6])


def test_shapes_are_kept() -> None:
    heights = np.linspace(0.0, 90e3, 12).reshape(3, 4)
    for compat in (None, "airsim"):
        pressures = atmosphere.pressure_pa(heights, compat)
        assert pressures.shape == (3, 4)
        assert pressures[1, 2] == atmosphere.pressure_pa(heights[1, 2], compat)


def test_the_altimeter_inverts_the_air() -> None:
    heights = np.concatenate((np.linspace(-5e3, 86e3, 2001), np.linspace(86e3, 1e6, 101)))
    assert atmosphere.height_m(atmosphere.pressure_pa(heights)) == pytest.approx(heights, abs=1e-7)


@pytest.mark.parametrize(
    ("h_m", "error_m"), [(122.0, "-0.05"), (1e3, "-0.57"), (5e3, "-6.0"), (10e3, "-19.9")]
)
def test_airsims_altimeter_reads_low(h_m: float, error_m: str) -> None:
    read = atmosphere.height_m(atmosphere.pressure_pa(h_m, "airsim"), "airsim")
    assert agrees(read - h_m, error_m)


def test_airsims_altimeter_survives_what_no_air_has() -> None:
    assert atmosphere.height_m(-5.0, "airsim") == pytest.approx(145366.45 * 0.3048)


def test_airsims_speed_of_sound_takes_metres_for_kilometres() -> None:
    assert atmosphere.speed_of_sound_mps(0.0, "airsim") == pytest.approx(340.29, abs=5e-3)
    assert atmosphere.speed_of_sound_mps(10.0, "airsim") == pytest.approx(
        np.sqrt(1.4 * 287.053 * 223.15), rel=1e-12
    )


@pytest.mark.parametrize(
    ("h_m", "printed"),
    [(0.0, "9.8066"), (1e3, "9.8036"), (10e3, "9.7759"), (50e3, "9.6542"), (80e3, "9.5644")],
)
def test_gravity_of_the_standard(h_m: float, printed: str) -> None:
    assert agrees(gravity_mps2(h_m), printed, 1.0)


def test_airsims_gravity_in_its_three_pieces() -> None:
    g0, radius = 9.80665, 6378137.0
    heights = np.array([-9999.0, 0.0, 9999.0, 10e3, 99e3, 100e3, 400e3])
    linear = g0 * (1.0 - 2.0 * heights / radius)
    square = g0 / (1.0 + heights / radius) ** 2
    expected = np.array([g0, g0, g0, *linear[3:5], *square[5:]])
    assert gravity_mps2(heights, "airsim") == pytest.approx(expected, rel=1e-15)
    # What the pieces cost: a step of 0.03 m/s^2 at 10 km, where the right law has none.
    assert gravity_mps2(9999.9, "airsim") - gravity_mps2(10e3, "airsim") == pytest.approx(
        0.03075, abs=1e-5
    )
