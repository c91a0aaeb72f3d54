"""Cars: the Dubins car step by step as FlightGoggles makes it, the bicycle against an
integration of its equations.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.car import BicycleParameters, CreepNoise, DubinsCar, KinematicBicycle
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.fleet import Engine, Fleet
from vil_simulation.vehicles.model import Model

DT_S = 1.0 / 960.0


def _heading(x: FloatArray) -> FloatArray:
    return np.asarray(2.0 * np.arctan2(x[:, 8], x[:, 9]))


def test_dubins_car_steps_along_the_old_heading() -> None:
    """Reference, section 6: p += dt R(psi) v with the old psi, then psi += dt * yaw rate."""
    fleet = Fleet(DubinsCar(), 2)
    fleet.place(p_world_m=(1.0, 2.0, 0.4))
    fleet.command([(3.0, 0.7), (2.0, -0.3)])
    fleet.advance(1000)
    for car, (speed, rate) in enumerate(((3.0, 0.7), (2.0, -0.3))):
        headings = rate * DT_S * np.arange(1000)
        x, y = speed * DT_S * np.cos(headings).sum(), speed * DT_S * np.sin(headings).sum()
        np.testing.assert_allclose(fleet.x[car, :3], (1.0 + x, 2.0 + y, 0.4), rtol=1e-12)
        end = 1000 * rate * DT_S
        assert _heading(fleet.x)[car] == pytest.approx(end, rel=1e-11)
        np.testing.assert_allclose(
            fleet.x[car, 3:6], (speed * math.cos(end), speed * math.sin(end), 0), atol=1e-10
        )
        np.testing.assert_array_equal(fleet.x[car, 10:13], (0.0, 0.0, rate))


@pytest.mark.parametrize(
    ("asked", "driven"), [((9.0, 3.0), (5.0, 1.0)), ((-1.0, -2.0), (0.0, -1.0))]
)
def test_dubins_car_has_limits(asked: tuple[float, float], driven: tuple[float, float]) -> None:
    fleet = Fleet(DubinsCar())
    fleet.command(asked)
    fleet.advance()
    assert fleet.x[0, 0] == pytest.approx(driven[0] * DT_S)
    assert fleet.x[0, 12] == driven[1]


def test_dubins_car_noise_is_a_velocity_in_body_axes() -> None:
    """Variance of the velocity W / dt: a car that stands walks at random, W t, by its own axes."""
    noise = CreepNoise(15248, densities_m2ps=(0.001, 0.004))
    fleet = Fleet(DubinsCar(), 3000, disturbances=[noise])
    fleet.place(q_world_body=(0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)))  # facing north
    fleet.advance(24)
    assert fleet.x[:, 1].var() == pytest.approx(0.001 * 0.025, rel=0.08)
    assert fleet.x[:, 0].var() == pytest.approx(0.004 * 0.025, rel=0.08)
    assert abs(np.corrcoef(fleet.x[:, 0], fleet.x[:, 1])[0, 1]) < 0.05
    assert fleet.x[:, 2].any() == 0
    default = Fleet(DubinsCar(), 4000, disturbances=[CreepNoise(15248)])
    default.advance()
    assert default.x[:, :2].var() == pytest.approx(0.001 * DT_S, rel=0.05)


def test_truth_of_a_dubins_car() -> None:
    """It feels the centripetal force of its curve, and its weight."""
    fleet = Fleet(DubinsCar())
    fleet.command((4.0, 0.5))
    fleet.advance(700)
    truth = fleet.truth()
    np.testing.assert_allclose(truth.f_body_mps2, [[0.0, 2.0, 9.81]], atol=1e-10)
    np.testing.assert_allclose(truth.w_body_radps, [[0.0, 0.0, 0.5]])


def _oracle(
    p: BicycleParameters, start: FloatArray, command: tuple[float, float], t_s: float
) -> FloatArray:
    """x, y, heading, speed, steering after t_s."""
    wheelbase = p.front_m + p.rear_m

    def slope(_: float, s: FloatArray) -> list[float]:
        _, _, heading, speed, steering = s.tolist()
        slip = math.atan(p.rear_m / wheelbase * math.tan(steering))
        pull = min(
            max((command[0] - speed) / p.speed_time_s, -p.most_braking_mps2),
            p.most_acceleration_mps2,
        )
        rate = p.most_steering_rate_radps
        turn = min(max((command[1] - steering) / p.steering_time_s, -rate), rate)
        return [
            speed * math.cos(heading + slip),
            speed * math.sin(heading + slip),
            speed * math.cos(slip) * math.tan(steering) / wheelbase,
            pull,
            turn,
        ]

    end: FloatArray = solve_ivp(
        slope, (0, t_s), start, method="DOP853", rtol=1e-12, atol=1e-12, max_step=0.05
    ).y[:, -1]
    return end


def test_bicycle_against_its_equations() -> None:
    p = BicycleParameters()
    commands = [(8.0, 0.35), (-2.0, -0.5), (0.0, 0.6)]
    fleet = Fleet(KinematicBicycle(p), len(commands))
    fleet.place(speed_mps=5.0, steering_rad=-0.1)
    fleet.command(commands)
    fleet.advance(960)
    got = np.column_stack([fleet.x[:, 0:2], _heading(fleet.x), fleet.x[:, 13:15]])
    end = [_oracle(p, np.array([0, 0, 0, 5.0, -0.1]), command, 1.0) for command in commands]
    # Where a limit ends the equations have a corner: there RK4 is of first order for one step.
    np.testing.assert_allclose(got, end, rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(fleet.x[:, 2], 0.0)


def test_the_compiled_bicycle_is_the_reference() -> None:
    """Tilted, pushed, at its limits and not: both engines agree to the last digits."""
    flown = []
    engines: tuple[Engine, ...] = ("numpy", "auto")
    for engine in engines:
        fleet = Fleet(KinematicBicycle(), 3, engine=engine)
        fleet.place(
            speed_mps=[[5.0], [1.0], [0.0]],
            steering_rad=[[0.1], [-0.3], [0.0]],
            p_world_m=(1.0, 2.0, 0.4),
        )
        fleet.place(q_world_body=(0.1, -0.05, 0.3, 0.9))
        fleet.command([(8.0, 0.35), (-200.0, -0.5), (0.0, 6.0)])
        fleet.around[:, ENVIRONMENT["force_world_n"]] = [
            (10.0, 20.0, 5.0),
            (0.0, 0.0, 0.0),
            (-3.0, 1.0, 0.0),
        ]
        fleet.advance(700)
        flown.append(fleet.x)
    np.testing.assert_allclose(flown[1], flown[0], rtol=1e-12, atol=1e-12)


def test_bicycle_circles_with_its_turning_radius() -> None:
    """The centre of gravity's radius is sqrt(rear^2 + (wheelbase / tan steering)^2), its slip
    angle leads inwards.
    """
    p = BicycleParameters(front_m=0.13, rear_m=0.14)
    fleet = Fleet(KinematicBicycle(p))
    fleet.place(speed_mps=5.0, steering_rad=0.3)
    fleet.command((5.0, 0.3))
    radius = math.hypot(p.rear_m, (p.front_m + p.rear_m) / math.tan(0.3))
    fleet.advance(1)
    truth = fleet.truth()
    np.testing.assert_allclose(truth.w_body_radps, [[0.0, 0.0, 5.0 / radius]], rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(truth.a_world_mps2), 25.0 / radius, rtol=1e-12)
    slip = math.atan2(fleet.x[0, 4], fleet.x[0, 3]) - _heading(fleet.x)[0]
    assert slip == pytest.approx(
        math.atan(p.rear_m / (p.front_m + p.rear_m) * math.tan(0.3)), rel=1e-12
    )
    fleet.place(p_world_m=0.0, q_world_body=(0.0, 0.0, 0.0, 1.0))
    half = round(math.pi * radius / 5.0 / DT_S)
    fleet.advance(half)
    assert np.hypot(*fleet.x[0, :2]) == pytest.approx(2.0 * radius, rel=1e-5)


def test_bicycle_truth_is_its_motion_within_limits() -> None:
    fleet = Fleet(KinematicBicycle(), 2)
    fleet.place(speed_mps=[[10.0], [1.0]], steering_rad=[[-0.2], [0.1]])
    fleet.command([(100.0, 3.0), (-100.0, -3.0)])
    fleet.advance()
    before = fleet.truth()
    fleet.advance()
    after = fleet.truth()
    mean = 0.5 * (before.a_world_mps2 + after.a_world_mps2)
    np.testing.assert_allclose((after.v_world_mps - before.v_world_mps) / DT_S, mean, atol=1e-4)
    mean = 0.5 * (before.alpha_body_radps2 + after.alpha_body_radps2)
    np.testing.assert_allclose((after.w_body_radps - before.w_body_radps) / DT_S, mean, atol=1e-4)
    fleet.advance(958)  # 3 m/s^2; 0.8 rad/s until 0.08 rad are left, then the lag of 0.1 s
    np.testing.assert_allclose(fleet.x[0, 13:15], (13.0, 0.6 - 0.08 * math.exp(-1.0)), atol=1e-3)
    later = Fleet(KinematicBicycle(), 2, dt_s=Fraction(1, 100))
    later.command([(100.0, 3.0), (-100.0, -3.0)])
    later.advance(1000)
    np.testing.assert_allclose(later.x[:, 13:15], [(20.0, 0.6), (-3.0, -0.6)], atol=1e-3)


def test_a_push_makes_cars_creep_on_the_plane() -> None:
    around = ENVIRONMENT.pack({"force_world_n": (300.0, -200.0, 900.0)})
    for model in (DubinsCar(), KinematicBicycle()):
        moved = model.step(model.initial(1), model.neutral(1), around, 0.5)
        np.testing.assert_allclose(moved[0, :3], (0.15, -0.1, 0.0), atol=1e-15)


@pytest.mark.parametrize("model", [DubinsCar(), KinematicBicycle()])
def test_cars_have_the_same_bits_in_any_company(model: Model) -> None:
    rng = np.random.default_rng(4)
    commands, yaws = rng.uniform(-1.0, 6.0, (100, 2)), rng.uniform(-3.0, 3.0, 100)

    def drive(cars: list[int]) -> FloatArray:
        fleet = Fleet(model, len(cars), disturbances=[CreepNoise(3, vehicles=cars)])
        zero = np.zeros(len(cars))
        half = 0.5 * yaws[cars]
        fleet.place(q_world_body=np.column_stack((zero, zero, np.sin(half), np.cos(half))))
        fleet.command(commands[cars])
        fleet.advance(30)
        return fleet.x

    everyone = drive(list(range(100)))
    for n in (1, 2, 3, 5, 16, 17):
        np.testing.assert_array_equal(drive(list(range(n))), everyone[:n])
    mixed = rng.permutation(100).tolist()
    np.testing.assert_array_equal(drive(mixed), everyone[mixed])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rear_m", 0.0),
        ("steering_time_s", -1.0),
        ("most_steering_rad", 1.6),
        ("least_speed_mps", 1.0),
    ],
)
def test_parameters_out_of_range(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        BicycleParameters(**{name: value})
