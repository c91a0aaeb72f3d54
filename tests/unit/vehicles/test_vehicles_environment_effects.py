"""Ground effect, downwash, air by altitude: what they write into the surroundings."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT, Disturbance, calm
from vil_simulation.vehicles.environment.atmosphere import density_kgpm3
from vil_simulation.vehicles.environment.effects import Downwash, GroundEffect, StandardAir
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.environment.gravity import gravity_mps2

R = 0.1


def bodies(p_world_m: object) -> FloatArray:
    p = np.atleast_2d(np.asarray(p_world_m, dtype=np.float64))
    x = np.zeros((len(p), 17))
    x[:, :3] = p
    x[:, 9] = 1.0
    return x


def after(disturbance: Disturbance, x: FloatArray) -> dict[str, FloatArray]:
    around = calm(len(x), 9.81)
    before = x.copy()
    disturbance.apply(0, 1e-3, x, around)
    assert np.array_equal(x, before, equal_nan=True)
    return ENVIRONMENT.split(around)


def at_heights(*z: float) -> FloatArray:
    return bodies([(0.0, 0.0, height) for height in z])


def test_cheeseman_and_bennett() -> None:
    factor = after(GroundEffect(R), at_heights(R, 2.0 * R, 10.0))["thrust_factor"][:, 0]
    assert factor == pytest.approx(
        [16.0 / 15.0, 64.0 / 63.0, 1.0 / (1.0 - (0.1 / 40.0) ** 2)], rel=1e-14
    )


def test_ground_effect_ends_where_its_theory_does() -> None:
    factor = after(GroundEffect(R), at_heights(0.5 * R, 0.0, -3.0))["thrust_factor"][:, 0]
    assert factor == pytest.approx([4.0 / 3.0] * 3, rel=1e-14)


def test_ground_effect_counts_from_the_rotors_to_the_ground() -> None:
    factor = after(GroundEffect(R, rotor_height_m=0.05, ground_z_m=1.0), at_heights(1.15))[
        "thrust_factor"
    ]
    assert factor[0, 0] == pytest.approx(1.0 / (1.0 - (0.1 / 0.8) ** 2), rel=1e-14)


def test_the_fitted_ground_effect_of_a_crazyflie() -> None:
    r = 2.31348e-2
    effect = GroundEffect(r, form="fitted")
    factor = after(effect, at_heights(0.1, 0.05, 0.0377, 0.01))["thrust_factor"][:, 0]
    assert factor[:2] == pytest.approx(
        [1.0 + 11.36859 * (r / 0.4) ** 2, 1.0 + 11.36859 * (r / 0.2) ** 2], rel=1e-14
    )
    # gym-pybullet-drones clips the height at 0.25 r sqrt(15 rpm_max^2 kf G / thrust_max), 38 mm for
    # its Crazyflie.
    assert factor[2:] == pytest.approx([19.0 / 15.0] * 2, rel=1e-14)


def test_no_ground_effect_upside_down() -> None:
    x = at_heights(R, R, R)
    x[0, 6:10] = 1.0, 0.0, 0.0, 0.0
    x[1, 6:10] = math.sin(0.8), 0.0, 0.0, math.cos(0.8)
    x[2, 6:10] = 0.0, 0.0, 1.0, 0.0
    assert after(GroundEffect(R), x)["thrust_factor"][:, 0] == pytest.approx(
        [1.0, 1.0, 16.0 / 15.0]
    )


def test_ground_effect_refuses_no_rotor() -> None:
    with pytest.raises(ValueError, match="positive"):
        GroundEffect(0.0)
    with pytest.raises(ValueError, match="positive"):
        GroundEffect(R, form="fitted", fitted_gain=-1.0)


def one_wash(dz: float, d: float) -> float:
    """The formula of gym-pybullet-drones, with its figures for the Crazyflie."""
    return 2267.18 * (2.31348e-2 / (4.0 * dz)) ** 2 * math.exp(-0.5 * (d / (0.16 * dz - 0.11)) ** 2)


def test_downwash_of_one_on_one() -> None:
    fields = after(Downwash(), bodies([(0.0, 0.0, 2.0), (0.02, -0.01, 1.0)]))
    assert fields["force_world_n"][0] == pytest.approx(0.0)
    assert fields["force_world_n"][1] == pytest.approx(
        [0.0, 0.0, -one_wash(1.0, math.hypot(0.02, 0.01))], rel=1e-12
    )
    assert one_wash(1.0, 0.0) == pytest.approx(0.0758, abs=5e-5)
    for name in ("wind_world_mps", "torque_body_nm"):
        assert not fields[name].any()


@pytest.mark.parametrize("n", [2, 100, 300])
def test_downwash_is_the_sum_over_all_pairs(n: int) -> None:
    rng = np.random.default_rng(n)
    p = rng.uniform((-0.5, -0.5, 0.0), (0.5, 0.5, 12.0), (n, 3))
    p[: n // 4, 2] = 1.0  # some side by side
    nearest = (2.31348e-2 + 0.11) / 0.16
    expected = np.zeros(n)
    for low in range(n):
        for high in range(n):
            dz = float(p[high, 2] - p[low, 2])
            if dz > 0.0:
                d = math.hypot(*(p[high, :2] - p[low, :2]))
                expected[low] -= one_wash(max(dz, nearest), d)
    force = after(Downwash(), bodies(p))["force_world_n"]
    assert force[:, 2] == pytest.approx(expected, rel=1e-11, abs=1e-300)
    assert not force[:, :2].any()


def test_downwash_stays_finite_however_near() -> None:
    gaps = (1e-9, 0.3, 0.6875, 0.83)  # at 0.6875 m the column of the original has no width
    force = [
        after(Downwash(), bodies([(0.0, 0.0, 1.0 + gap), (0.0, 0.0, 1.0)]))["force_world_n"][1, 2]
        for gap in gaps
    ]
    assert force == pytest.approx([-one_wash((2.31348e-2 + 0.11) / 0.16, 0.0)] * 4, rel=1e-12)
    assert not after(Downwash(), bodies([(0.0, 0.0, 1.0)] * 3))["force_world_n"].any()


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("ways", [(1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)])
def test_a_lost_vehicle_pushes_nobody(lost: float, ways: tuple[float, float, float]) -> None:
    two = [(0.0, 0.0, 2.0), (0.0, 0.0, 1.0)]
    x, y, z = (lost if way else 5.0 for way in ways)
    force = after(Downwash(), bodies([*two, (x, y, z)]))["force_world_n"][:2]
    expected = after(Downwash(), bodies(two))["force_world_n"]
    assert force == pytest.approx(expected, abs=1e-30)


def test_downwash_refuses_a_column_without_width() -> None:
    with pytest.raises(ValueError, match="offset_m"):
        Downwash(0.02, offset_m=0.02)
    with pytest.raises(ValueError, match="positive"):
        Downwash(spread=0.0)


def test_air_and_gravity_by_altitude() -> None:
    x = bodies([(0.0, 0.0, 0.0), (0.0, 0.0, 1600.0), (10e3, 0.0, 0.0)])
    fields = after(StandardAir(GeoOrigin(47.4, 8.5, 400.0)), x)
    heights = np.array([400.0, 2000.0, 407.84])
    assert fields["density_kgpm3"][:, 0] == pytest.approx(density_kgpm3(heights), rel=1e-7)
    assert fields["gravity_mps2"][:, 0] == pytest.approx(gravity_mps2(heights), rel=1e-8)
    assert fields["density_kgpm3"][1, 0] == pytest.approx(1.0066, abs=5e-5)


def test_airsims_air_and_gravity_by_altitude() -> None:
    fields = after(StandardAir(GeoOrigin(0.0, 0.0), "airsim"), at_heights(0.0, 20e3))
    assert fields["gravity_mps2"][:, 0] == pytest.approx(
        [9.80665, 9.80665 * (1.0 - 40e3 / 6378137.0)]
    )
    assert fields["density_kgpm3"][1, 0] == pytest.approx(0.0888978, abs=5e-8)
