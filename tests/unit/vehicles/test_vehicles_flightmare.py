"""The Flightmare quadrotor.

Printed check values, flightlib's slips, conservation laws, commands, surroundings.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vil_bridge.core.geometry import q_rotate
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightmare.compat import original_substeps
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor, substeps
from vil_simulation.vehicles.flightmare.parameters import (
    AGILICIOUS,
    FLIGHTMARE,
    KINGFISHER,
    PRESETS,
    QUADROTOR_ENV,
    QuadrotorParameters,
    plate_inertia,
)


def test_hover_of_the_learning_vehicle() -> None:
    model = FlightmareQuadrotor(QUADROTOR_ENV)
    assert model.hover_thrust_n == pytest.approx(1.790, abs=5e-4)
    assert QUADROTOR_ENV.rotor_speed_radps(np.array(1.790)) == pytest.approx(738.6, abs=0.05)


def test_the_map_is_negative_below_404_radps_and_thrust_never() -> None:
    assert QUADROTOR_ENV.rotor_speed_radps(np.array(0.0)) == pytest.approx(404.0, abs=0.5)
    assert QUADROTOR_ENV.thrust_n(np.array(400.0)) < 0.0
    model = FlightmareQuadrotor(QUADROTOR_ENV)
    assert not model.wrench(np.full((1, 4), 400.0), model.calm(1)).any()


def test_inertia_is_that_of_a_plate() -> None:
    assert plate_inertia(0.73, 0.17) == pytest.approx((7.911e-3, 7.911e-3, 1.2307e-2), rel=1e-4)
    assert QUADROTOR_ENV.inertia_kgm2 == plate_inertia(0.73, 0.17)


def test_limits_follow_the_speed_limit_and_in_compat_they_do_not() -> None:
    assert FLIGHTMARE.thrust_limits_n[0] == 0.0
    assert FLIGHTMARE.thrust_limits_n[1] == pytest.approx(11.222, abs=5e-4)
    # flightlib's constructor computes its limit from its own map; parameters that come later leave
    # it there.
    constructed_n = float(FLIGHTMARE.thrust_n(np.array(2000.0)))
    for vehicle in PRESETS.values():
        original = FlightmareQuadrotor(vehicle, compat="flightmare")
        assert original.thrust_limits_n[1] == pytest.approx(constructed_n, rel=1e-15)
        full = original.wrench(np.full((1, 4), 4000.0), original.calm(1))
        assert full[0, 0] == pytest.approx(4 * 11.2225, abs=2e-4)
    right = FlightmareQuadrotor(QUADROTOR_ENV)
    assert right.thrust_limits_n[1] == pytest.approx(
        float(QUADROTOR_ENV.thrust_n(np.array(3000.0)))
    )
    assert KINGFISHER.thrust_limits_n[1] == pytest.approx(8.50, abs=5e-3)


def test_the_map_and_its_inverse() -> None:
    for p in (FLIGHTMARE, KINGFISHER, AGILICIOUS):
        f = np.linspace(0.1, p.thrust_limits_n[1], 20)
        np.testing.assert_allclose(p.thrust_n(p.rotor_speed_radps(f)), f, rtol=1e-12)


def test_allocation_of_section_1_1() -> None:
    s, k = 0.25 / np.sqrt(2.0), 0.016
    rows = [[1, 1, 1, 1], [s, -s, -s, s], [-s, -s, s, s], [k, -k, k, -k]]
    np.testing.assert_allclose(FLIGHTMARE.allocation(), rows, rtol=1e-15)
    k = 0.022
    assert KINGFISHER.allocation()[1].tolist() == [-0.10, 0.10, -0.10, 0.10]
    assert KINGFISHER.allocation()[2].tolist() == [-0.075, 0.075, 0.075, -0.075]
    assert KINGFISHER.allocation()[3].tolist() == [-k, -k, k, k]


def test_flightlib_makes_nine_substeps_of_20_ms_and_we_make_eight() -> None:
    lengths = original_substeps(0.02, 0.0025)
    assert len(lengths) == 9
    assert lengths[:8] == pytest.approx([0.0025] * 8) and lengths[8] == pytest.approx(
        1.9e-9, abs=5e-11
    )
    with pytest.raises(ValueError, match=r"never ends a step of 100000\.0 s"):
        original_substeps(1e5, 0.0025)
    assert substeps(0.02, 0.0025) == 8
    assert [substeps(dt_s, 0.0025) for dt_s in (1 / 960, 0.0025, 0.0026)] == [1, 1, 2]


def flying(model: FlightmareQuadrotor, n: int = 1, **fields: object) -> FloatArray:
    """States level at 10 m with rotors that carry the vehicle."""
    speed = model.parameters.rotor_speed_radps(np.array(model.hover_thrust_n))
    return model.state.pack(
        {
            "p_world_m": (0.0, 0.0, 10.0),
            "q_world_body": (0.0, 0.0, 0.0, 1.0),
            "rotors_radps": speed,
            **fields,
        },
        n,
    )


@pytest.mark.parametrize("p", [FLIGHTMARE, QUADROTOR_ENV, KINGFISHER, AGILICIOUS])
def test_hover_is_an_equilibrium(p: QuadrotorParameters) -> None:
    model = FlightmareQuadrotor(p)
    x = flying(model)
    u = np.full((1, 4), model.hover_thrust_n)
    assert np.abs(model.derivative(x, u, model.calm(1))).max() < 1e-10
    later = x
    for _ in range(50):
        later = model.step(later, u, model.calm(1), 0.02)
    np.testing.assert_allclose(later, x, atol=1e-9)
    truth = model.truth(0, x, u, model.calm(1))
    np.testing.assert_allclose(truth.f_body_mps2, [[0.0, 0.0, 9.81]], atol=1e-12)


def test_a_tumbling_vehicle_keeps_energy_and_angular_momentum() -> None:
    p = replace(FLIGHTMARE, inertia_kgm2=(0.01, 0.02, 0.025))
    model = FlightmareQuadrotor(p)
    x = model.state.pack(
        {
            "q_world_body": (0.0, 0.0, 0.0, 1.0),
            "v_world_mps": (3.0, -2.0, 8.0),
            "w_body_radps": (5.0, 0.3, 6.0),
        }
    )
    inertia = np.array(p.inertia_kgm2)

    def kept(x: FloatArray) -> FloatArray:
        v, w = x[0, 3:6], x[0, 10:13]
        energy = 0.5 * v @ v + 9.81 * x[0, 2] + 0.5 * (inertia * w) @ w
        return np.array([energy, *v[:2], *q_rotate(x[0, 6:10], inertia * w)])

    before = kept(x)
    for _ in range(50):
        x = model.step(x, np.zeros((1, 4)), model.calm(1), 0.02)
    np.testing.assert_allclose(kept(x), before, rtol=1e-7, atol=1e-9)
    assert np.linalg.norm(x[0, 6:10]) == pytest.approx(1.0, abs=1e-15)


def test_rates_are_followed_and_thrust_too() -> None:
    model = FlightmareQuadrotor(KINGFISHER, "rates")
    x, command = flying(model), np.array([[10.0, 0.5, -0.4, 0.3]])
    for _ in range(100):
        x = model.step(x, command, model.calm(1), 0.01)
    np.testing.assert_allclose(x[0, 10:13], (0.5, -0.4, 0.3), atol=0.01)
    wrench = model.wrench(x[:, 13:], model.calm(1))
    assert wrench[0, 0] / KINGFISHER.mass_kg == pytest.approx(10.0, abs=0.01)


def test_the_rate_controller_is_that_of_section_1_5() -> None:
    model = FlightmareQuadrotor(FLIGHTMARE, "rates")
    x = flying(model, w_body_radps=(0.3, -0.2, 0.5))
    thrusts = model.thrusts_commanded(x, np.array([[12.0, 0.5, 0.1, -9.0]]))
    J = np.diag(FLIGHTMARE.inertia_kgm2)
    w = x[0, 10:13]
    torque = J @ np.diag((16.6, 16.6, 5.0)) @ (np.array([0.5, 0.1, -6.0]) - w) + np.cross(w, J @ w)
    wanted = np.linalg.solve(FLIGHTMARE.allocation(), [12.0, *torque])
    np.testing.assert_allclose(thrusts[0], np.clip(wanted, *FLIGHTMARE.thrust_limits_n), rtol=1e-12)


def test_collective_thrust_is_limited_by_all_rotors_and_in_compat_by_one() -> None:
    command = np.array([[30.0, 0.0, 0.0, 0.0]])
    for compat, total in ((None, 30.0), ("flightmare", 11.222464820685833)):
        model = FlightmareQuadrotor(FLIGHTMARE, "rates", compat=compat)  # type: ignore[arg-type]
        assert model.thrusts_commanded(flying(model), command).sum() == pytest.approx(total)


def test_surroundings_act() -> None:
    """Each column by its own law; the oracle tests integrate them together."""
    model = FlightmareQuadrotor(KINGFISHER)
    x, u = flying(model), np.full((1, 4), model.hover_thrust_n)

    def pushed(**fields: float | tuple[float, float, float]) -> FloatArray:
        around = model.calm(1)
        for name, value in fields.items():
            around[:, ENVIRONMENT[name]] = value
        rates: FloatArray = model.derivative(x, u, around)[0]
        return rates

    m = KINGFISHER.mass_kg
    np.testing.assert_allclose(
        pushed(wind_world_mps=(2.0, 0.0, 0.0))[3:6], (0.52 / m, 0.0, 0.0), atol=1e-12
    )
    np.testing.assert_allclose(
        pushed(force_world_n=(1.0, 2.0, 3.0))[3:6], np.array((1.0, 2.0, 3.0)) / m, atol=1e-12
    )
    np.testing.assert_allclose(
        pushed(torque_body_nm=(0.01, 0.0, 0.0))[10:13], (4.0, 0.0, 0.0), atol=1e-12
    )
    assert pushed(density_kgpm3=0.5 * 1.225)[5] == pytest.approx(-0.5 * 9.81)
    assert pushed(gravity_mps2=1.0)[5] == pytest.approx(8.81)
    assert pushed(thrust_factor=1.5)[5] == pytest.approx(0.5 * 9.81)
    speeds, near = np.array([[900.0, 1000.0, 800.0, 1100.0]]), model.calm(1)
    near[:, ENVIRONMENT["thrust_factor"]] = 1.2
    ratio = model.wrench(speeds, near) / model.wrench(speeds, model.calm(1))
    np.testing.assert_allclose(ratio[0], (1.2, 1.2, 1.2, 1.0), rtol=1e-12)


def test_a_wind_that_carries_the_vehicle_is_not_felt() -> None:
    model = FlightmareQuadrotor(AGILICIOUS)
    u, wind, carried = np.full((1, 4), 2.6), np.array([3.0, -2.0, 1.0]), model.calm(1)
    carried[:, :3] = wind
    still, moving = (
        flying(model, w_body_radps=(0.5, 0.2, 0.1)),
        flying(model, w_body_radps=(0.5, 0.2, 0.1)),
    )
    moving[:, 3:6] += wind
    still = model.step(still, u, model.calm(1), 0.5)
    moving = model.step(moving, u, carried, 0.5)
    np.testing.assert_allclose(moving[0, :3] - 0.5 * wind, still[0, :3], atol=1e-12)
    np.testing.assert_allclose(moving[0, 6:], still[0, 6:], atol=1e-12)


def test_compat_walls_and_ceiling() -> None:
    box = ((-20.0, -20.0, 0.0), (20.0, 20.0, 20.0))
    model = FlightmareQuadrotor(QUADROTOR_ENV, compat="flightmare", world_box_m=box)
    u = np.full((1, 4), model.hover_thrust_n)
    beyond_wall = flying(model, p_world_m=(19.99, 0.0, 10.0), v_world_mps=(5.0, 1.0, 0.0))
    x = model.step(beyond_wall, u, model.calm(1), 0.02)
    assert x[0, 0] == 19.99 and x[0, 3] == 0.0 and x[0, 4] == pytest.approx(1.0)
    rising = flying(
        model,
        p_world_m=(0.0, 0.0, 19.99),
        v_world_mps=(1.0, 0.0, 5.0),
        w_body_radps=(0.1, 0.0, 0.0),
    )
    x = model.step(rising, u, model.calm(1), 0.02)
    assert x[0, 2] == 0.0, "through the ceiling lands on the floor"
    assert not x[0, 3:5].any() and not x[0, 10:13].any() and x[0, 5] > 4.9


def test_compat_never_normalises_and_we_always_do() -> None:
    for compat, length in ((None, 1.0), ("flightmare", 1.001)):
        model = FlightmareQuadrotor(FLIGHTMARE, compat=compat)  # type: ignore[arg-type]
        x = flying(model, q_world_body=(0.0, 0.0, 0.0, 1.001))
        x = model.step(x, np.zeros((1, 4)), model.calm(1), 0.02)
        assert np.linalg.norm(x[0, 6:10]) == pytest.approx(length, abs=1e-12)


def test_a_fleet_flies_it() -> None:
    model = FlightmareQuadrotor(KINGFISHER, "rates")
    fleet = Fleet(model, 3, engine="numpy")
    fleet.place(rotors_radps=model.parameters.rotor_speed_radps(np.array(model.hover_thrust_n)))
    fleet.command((9.81, 0.0, 0.0, 1.0))
    fleet.advance(96)
    truth = fleet.truth()
    assert truth.rotors_radps.shape == (3, 4) and truth.t_ns == 100_000_000
    assert (truth.w_body_radps[:, 2] > 0.2).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"mass_kg": 0.0}, "mass_kg must be positive"),
        ({"inertia_kgm2": (1.0, -1.0, 1.0)}, r"inertia_kgm2\[1\] must be positive"),
        ({"motor_time_s": float("nan")}, "motor_time_s must be positive"),
        ({"rotor_min_radps": 3000.0}, "rotor_min_radps must be at least 0 and less than"),
        ({"rotor_x_m": (0.1, 0.1, 0.1, 0.1)}, "rotor_x_m"),
    ],
)
def test_parameters_that_the_equations_cannot_take(change: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        replace(FLIGHTMARE, **change)  # type: ignore[arg-type]


def test_unknown_mode_and_bad_substep() -> None:
    with pytest.raises(ValueError, match="no mode named 'speeds'; known: thrusts, rates"):
        FlightmareQuadrotor(FLIGHTMARE, "speeds")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="longest_substep_s must be positive"):
        FlightmareQuadrotor(longest_substep_s=0.0)
