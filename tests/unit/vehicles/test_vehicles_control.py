"""Flatness against the rigid body's equations; the rotors' shares.

The compiled controller against NumPy.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.control.airframe import RotorAirframe
from vil_simulation.vehicles.control.flatness import flat
from vil_simulation.vehicles.control.geometric import Demand, Gains, TrackingController, demand
from vil_simulation.vehicles.trajectories import (
    Reference,
    Trajectory,
    circle,
    hover,
    lemniscate,
    minimum_snap,
)

INERTIA = np.array([[0.0049, 0.0002, 0.0], [0.0002, 0.0053, 0.0001], [0.0, 0.0001, 0.0069]])
EFFECTS = np.array(
    [[1.0] * 4, [0.08, 0.08, -0.08, -0.08], [-0.08, 0.08, 0.08, -0.08], [-0.14, 0.14, -0.14, 0.14]]
)
LINEAR, QUADRATIC = np.array([0.26, 0.28, 0.42]), 0.1
FRAME = RotorAirframe(
    1.2, INERTIA, EFFECTS, 0.2, 9.0, drag_linear_nspm=LINEAR, drag_quadratic_ns2pm2=QUADRATIC
)
GATES = (
    (0.0, 0.0, 1.5),
    (5.0, 2.0, 2.0),
    (10.0, 0.0, 1.5),
    (12.0, 5.0, 2.5),
    (6.0, 7.0, 1.5),
    (0.0, 5.0, 2.0),
)


def open_loop(trajectory: Trajectory, end_s: float) -> tuple[FloatArray, Rotation, FloatArray]:
    """Position and velocity, attitude, rates of Newton's and Euler's equations under the flat
    thrust and torque.
    """

    def slopes(t: float, y: FloatArray) -> FloatArray:
        wanted = flat(FRAME, trajectory.at(t))
        v, w = y[3:6], y[10:]
        R = Rotation.from_quat(y[6:10])
        drag = R.apply(LINEAR * R.inv().apply(v)) + QUADRATIC * np.linalg.norm(v) * v
        force = R.apply([0.0, 0.0, wanted.thrust_n[0]]) - drag
        x, i, j, k = y[9], *y[6:9]
        spin = 0.5 * np.array(
            [
                x * w[0] + j * w[2] - k * w[1],
                x * w[1] + k * w[0] - i * w[2],
                x * w[2] + i * w[1] - j * w[0],
                -i * w[0] - j * w[1] - k * w[2],
            ]
        )
        turning = np.linalg.solve(INERTIA, wanted.torque_body_nm[0] - np.cross(w, INERTIA @ w))
        return np.concatenate((v, force / 1.2 - (0.0, 0.0, 9.81), spin, turning))

    start, wanted = trajectory.at(0.0), flat(FRAME, trajectory.at(0.0))
    q = Rotation.from_matrix(wanted.R_world_body[0]).as_quat()
    y = np.concatenate((start.p_world_m[0], start.v_world_mps[0], q, wanted.w_body_radps[0]))
    knots = [*trajectory.knots_s[trajectory.knots_s < end_s], end_s]
    for a, b in pairwise(knots):
        y = solve_ivp(slopes, (a, b), y, method="DOP853", rtol=1e-9, atol=1e-11).y[:, -1]
    return y[:6], Rotation.from_quat(y[6:10]), y[10:]


@pytest.mark.parametrize(
    ("trajectory", "end_s"),
    [
        (circle(2.0, 3.0, turns=4.0), 3.0),
        (lemniscate(10.0, 4.0, kind="gerono", turns=2.0, turn_rad=0.5), 3.0),
        (minimum_snap(GATES, speed_mps=4.0, yaw_rad="along"), 2.5),
    ],
)
def test_thrust_and_torque_of_flatness_fly_the_trajectory_open_loop(
    trajectory: Trajectory, end_s: float
) -> None:
    motion, attitude, rates = open_loop(trajectory, end_s)
    at = trajectory.at(end_s)
    wanted = flat(FRAME, at)
    np.testing.assert_allclose(motion[:3], at.p_world_m[0], atol=1e-6)
    np.testing.assert_allclose(motion[3:], at.v_world_mps[0], atol=1e-6)
    np.testing.assert_allclose(attitude.as_matrix(), wanted.R_world_body[0], atol=1e-6)
    np.testing.assert_allclose(rates, wanted.w_body_radps[0], atol=1e-6)


def test_hovering_needs_the_weight_and_looks_where_it_shall() -> None:
    wanted = flat(FRAME, hover((1.0, 2.0, 3.0), 0.7).at(0.0))
    np.testing.assert_allclose(wanted.thrust_n, 1.2 * 9.81)
    np.testing.assert_allclose(
        Rotation.from_quat(wanted.q_world_body).as_rotvec(), [[0.0, 0.0, 0.7]], atol=1e-12
    )
    assert not wanted.torque_body_nm.any()


def test_rotors_within_their_limits_make_what_is_wanted() -> None:
    rng = np.random.default_rng(1)
    thrust, torque = rng.uniform(10.0, 20.0, 50), rng.uniform(-0.1, 0.1, (50, 3))
    rotors = FRAME.within_limits(thrust, torque)
    np.testing.assert_allclose(rotors @ EFFECTS.T, np.column_stack((thrust, torque)), atol=1e-12)
    np.testing.assert_allclose(rotors, FRAME.thrusts(thrust, torque), atol=1e-12)


def test_beyond_the_limits_yaw_gives_way_first_then_thrust() -> None:
    rng = np.random.default_rng(2)
    thrust = np.concatenate((np.zeros(50), np.full(50, 60.0), rng.uniform(0.0, 40.0, 100)))
    torque = rng.uniform(-0.8, 0.8, (200, 3)) * (1.0, 1.0, 3.0)
    rotors = FRAME.within_limits(thrust, torque)
    assert rotors.min() >= 0.2 - 1e-12 and rotors.max() <= 9.0 + 1e-12
    made = rotors @ EFFECTS.T
    possible = np.ptp(torque[:, :2] @ FRAME.shares[:, 1:3].T, axis=1) <= 8.8
    assert 100 < possible.sum() <= 200
    np.testing.assert_allclose(made[possible, 1:3], torque[possible, :2], atol=1e-12)
    assert (np.abs(made[:, 3]) <= np.abs(torque[:, 2]) + 1e-12).all()
    gentle = np.ptp(torque[:, :2] @ FRAME.shares[:, 1:3].T, axis=1) < 4.0
    enough = gentle & (thrust > 8.0) & (thrust < 28.0)
    assert enough.sum() > 5
    np.testing.assert_allclose(made[enough, 0], thrust[enough], rtol=1e-12)


def test_the_compiled_controller_is_the_other_one() -> None:
    rng = np.random.default_rng(3)
    n = 300
    reference = Reference(
        *(rng.normal(size=(n, 3)) for _ in range(5)), *(rng.normal(size=n) for _ in range(3))
    )
    x = rng.normal(size=(n, 17))
    x[:, 6:10] /= np.linalg.norm(x[:, 6:10], axis=1, keepdims=True)
    gains = Gains(rate_lag_s=(0.1, 0.2, 0.3), most_feedback_mps2=5.0)
    seen: list[Demand] = []

    def remember(wanted: Demand) -> FloatArray:
        seen.append(wanted)
        return wanted.w_body_radps

    TrackingController(FRAME, hover((0.0, 0.0, 0.0)), remember, gains).follow(reference, x)
    for compiled, plain in zip(seen[0], demand(FRAME, gains, reference, x), strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-9, atol=1e-11)


def test_on_the_reference_the_demand_is_the_flat_one() -> None:
    at = minimum_snap(GATES, speed_mps=3.0, yaw_rad="along").at(np.linspace(0.5, 9.0, 40))
    wanted = flat(FRAME, at)
    x = np.column_stack((at.p_world_m, at.v_world_mps, wanted.q_world_body, wanted.w_body_radps))
    # The heading then defines the attitude exactly.
    frame = RotorAirframe(1.2, INERTIA, EFFECTS, 0.2, 9.0)
    plain = flat(frame, at)
    x[:, 6:10], x[:, 10:] = plain.q_world_body, plain.w_body_radps
    told = demand(frame, Gains(), at, x)
    np.testing.assert_allclose(told.thrust_n, plain.thrust_n, rtol=1e-9)
    np.testing.assert_allclose(told.torque_body_nm, plain.torque_body_nm, atol=1e-9)
    np.testing.assert_allclose(told.w_body_radps, plain.w_body_radps, atol=1e-9)


def test_bad_airframes_and_fleets_are_named() -> None:
    with pytest.raises(ValueError, match="independently"):
        RotorAirframe(1.0, INERTIA, EFFECTS[:, :3], 0.0, 9.0)
    with pytest.raises(ValueError, match="wanted inertia"):
        RotorAirframe(1.0, INERTIA, EFFECTS[:3], 0.0, 9.0)
    with pytest.raises(ValueError, match="position_per_s2 must be positive"):
        Gains(position_per_s2=0.0)
    controller = TrackingController(
        FRAME, hover((0.0, 0.0, 0.0)), lambda wanted: wanted.torque_body_nm
    )
    with pytest.raises(ValueError, match="2 vehicles, but trajectories for 1"):
        controller(0.0, np.zeros((2, 13)))
