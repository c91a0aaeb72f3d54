"""The Flightmare quadrotor against SciPy's DOP853 at rtol 1e-12, written from the equations of
the paper.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.flightmare.parameters import (
    FLIGHTMARE,
    KINGFISHER,
    QUADROTOR_ENV,
    QuadrotorParameters,
)

DRAGGED = replace(FLIGHTMARE, drag_linear_nspm=(0.26, 0.28, 0.42))
DURATION_S = 0.4


def slope(
    _t: float,
    y: Any,
    p: QuadrotorParameters,
    thrusts: Any,
    wind: Any,
    force: Any,
    torque: Any,
    density: float,
    gravity: float,
    factor: float,
) -> Any:
    """p' = v, m v' = R (f e3 - drag) + F - m g e3, q' = q (0, w) / 2, J w' = tau - w x J w."""
    v, w, speeds = y[3:6], y[10:13], y[13:17]
    i, j, k, r = y[6:10] / np.linalg.norm(y[6:10])
    R = np.array(
        [
            [1 - 2 * (j * j + k * k), 2 * (i * j - k * r), 2 * (i * k + j * r)],
            [2 * (i * j + k * r), 1 - 2 * (i * i + k * k), 2 * (j * k - i * r)],
            [2 * (i * k - j * r), 2 * (j * k + i * r), 1 - 2 * (i * i + j * j)],
        ]
    )
    c2, c1, c0 = p.thrust_map
    ratio = density / 1.225
    slowest_radps = p.nominal_of("rotor_min_radps")
    least, most = max(0.0, c2 * slowest_radps**2 + c1 * slowest_radps + c0), np.inf
    f = ratio * factor * np.clip(c2 * speeds**2 + c1 * speeds + c0, least, most)
    u = R.T @ (v - wind)
    drag = ratio * (np.array(p.drag_linear_nspm) * u + np.array(p.drag_cubic_ns3pm3) * u**3)
    drag += 0.5 * density * np.array(p.drag_area_m2) * np.abs(u) * u
    drag[2] -= ratio * p.lift_ns2pm2 * (u[0] ** 2 + u[1] ** 2)
    tau = np.array(torque)
    for x_m, y_m, turn, thrust in zip(p.rotor_x_m, p.rotor_y_m, p.rotor_turn, f, strict=True):
        tau += np.cross([x_m, y_m, 0.0], [0.0, 0.0, thrust])
        tau[2] += turn * p.nominal_of("torque_per_thrust_m") * thrust / factor
    J = np.diag(p.inertia_kgm2)
    target = (-c1 + np.sqrt(c1**2 - 4 * c2 * (c0 - thrusts))) / (2 * c2)
    target = np.clip(target, p.rotor_min_radps, p.rotor_max_radps)
    a = (R @ (np.array([0.0, 0.0, f.sum()]) - drag) + force) / p.mass_kg - np.array(
        [0.0, 0.0, gravity]
    )
    turned = 0.5 * np.array(
        [
            r * w[0] + j * w[2] - k * w[1],
            r * w[1] + k * w[0] - i * w[2],
            r * w[2] + i * w[1] - j * w[0],
            -i * w[0] - j * w[1] - k * w[2],
        ]
    )
    alpha = np.linalg.solve(J, tau - np.cross(w, J @ w))
    return np.concatenate((v, a, turned, alpha, (target - speeds) / p.motor_time_s))


def solved(
    p: QuadrotorParameters, x: FloatArray, u: FloatArray, around: FloatArray, seconds: float
) -> FloatArray:
    """States (n, 17) after constant thrusts."""
    rows = []
    for first, thrusts, row in zip(x, u, around, strict=True):
        arguments = (p, thrusts, row[0:3], row[3:6], row[6:9], row[9], row[10], row[11])
        found = solve_ivp(
            slope, (0.0, seconds), first, method="DOP853", rtol=1e-12, atol=1e-13, args=arguments
        )
        rows.append(found.y[:, -1])
    return np.array(rows)


def manoeuvres(model: FlightmareQuadrotor, n: int = 12) -> tuple[FloatArray, FloatArray]:
    """Random states in flight and thrusts, none so small or large that a rotor's thrust would
    reach its limits.
    """
    rng = np.random.default_rng(0)
    share = model.hover_thrust_n / 2.4525
    u = share * rng.uniform(0.5, 8.0, (n, 4))
    x = model.initial(n)
    q = rng.standard_normal((n, 4))
    x[:, 6:10] = q / np.linalg.norm(q, axis=1, keepdims=True)
    x[:, 3:6] = 2.0 * rng.standard_normal((n, 3))
    x[:, 10:13] = rng.standard_normal((n, 3))
    first = np.minimum(share * rng.uniform(1.0, 7.0, (n, 4)), 0.95 * model.thrust_limits_n[1])
    x[:, 13:17] = model.parameters.rotor_speed_radps(first)
    return x, u


def surrounded(model: FlightmareQuadrotor, n: int) -> FloatArray:
    """Every column of the surroundings away from calm."""
    rng = np.random.default_rng(5)
    around = model.calm(n)
    around[:, 0:3] = 4.0 * rng.standard_normal((n, 3))
    around[:, 3:6] = rng.standard_normal((n, 3))
    around[:, 6:9] = 0.01 * rng.standard_normal((n, 3))
    around[:, 9] = rng.uniform(0.8, 1.3, n)
    around[:, 10] = rng.uniform(9.0, 10.0, n)
    around[:, 11] = rng.uniform(0.9, 1.2, n)
    return around


def worst(x: FloatArray, reference: FloatArray) -> FloatArray:
    """Largest errors of position, velocity and body rates."""
    gap = np.abs(x - reference)
    return np.array(
        [gap[:, columns].max() for columns in (slice(0, 3), slice(3, 6), slice(10, 13))]
    )


def held(model: FlightmareQuadrotor, x: FloatArray, u: FloatArray, h_s: float) -> FloatArray:
    """Flightmare's motor scheme with the attitude taken at the stages.

    Thrust and torque of a sub-step's start.
    """
    around, target = model.calm(len(x)), model.speeds_commanded(x, u)
    for _ in range(round(DURATION_S / h_s)):
        body, wrench = x[:, :13], model.wrench(x[:, 13:], around)
        k1 = model.motion(body, wrench, around)
        k2 = model.motion(body + 0.5 * h_s * k1, wrench, around)
        k3 = model.motion(body + 0.5 * h_s * k2, wrench, around)
        k4 = model.motion(body + h_s * k3, wrench, around)
        speeds = target + np.exp(-h_s / model.parameters.nominal_of("motor_time_s")) * (
            x[:, 13:] - target
        )
        x = np.concatenate((body + h_s / 6.0 * (k1 + 2.0 * (k2 + k3) + k4), speeds), axis=1)
    return x


@pytest.fixture(scope="module")
def hard() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Twelve random manoeuvres of 0.4 s with drag: first states, thrusts, exact last states."""
    model = FlightmareQuadrotor(DRAGGED)
    x, u = manoeuvres(model)
    return x, u, solved(DRAGGED, x, u, model.calm(len(x)), DURATION_S)


PRINTED = {
    2.5e-3: (8.3e-9, 1.2e-7, 2.7e-8),
    10e-3: (1.9e-6, 2.9e-5, 6.8e-6),
    20e-3: (2.7e-5, 4.2e-4, 1.1e-4),
}
PRINTED_HELD = {2.5e-3: (1.0e-2, 4.7e-2, 1.3e-1), 20e-3: (7.5e-2, 3.4e-1, 9.4e-1)}


@pytest.mark.parametrize("h_s", PRINTED)
def test_motors_at_stage_times_err_no_more_than_printed(
    h_s: float, hard: tuple[FloatArray, ...]
) -> None:
    x, u, exact = hard
    model = FlightmareQuadrotor(DRAGGED, longest_substep_s=h_s)
    errors = worst(model.step(x, u, model.calm(len(x)), DURATION_S), exact)
    assert (errors <= np.array(PRINTED[h_s])).all(), errors


@pytest.mark.parametrize("h_s", PRINTED_HELD)
def test_held_thrusts_err_as_printed(h_s: float, hard: tuple[FloatArray, ...]) -> None:
    x, u, exact = hard
    ratios = worst(held(FlightmareQuadrotor(DRAGGED), x, u, h_s), exact) / PRINTED_HELD[h_s]
    assert ((ratios > 0.5) & (ratios < 2.0)).all(), ratios


def test_one_step_of_20_ms_is_hundreds_of_times_closer_than_eight_with_held_thrusts(
    hard: tuple[FloatArray, ...],
) -> None:
    x, u, exact = hard
    model = FlightmareQuadrotor(DRAGGED, longest_substep_s=0.02)
    ours = worst(model.step(x, u, model.calm(len(x)), DURATION_S), exact)
    assert (worst(held(model, x, u, 0.0025), exact) / ours)[0] > 370.0


def test_the_order_of_convergence_is_four(hard: tuple[FloatArray, ...]) -> None:
    x, u, exact = hard
    errors = []
    for h_s in (0.02, 0.01, 0.005):
        model = FlightmareQuadrotor(DRAGGED, longest_substep_s=h_s)
        errors.append(worst(model.step(x, u, model.calm(len(x)), DURATION_S), exact))
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert (orders > 3.8).all() and (orders < 4.3).all(), orders


ALL_DRAGS = replace(
    KINGFISHER,
    drag_cubic_ns3pm3=(0.01, 0.02, 0.03),
    lift_ns2pm2=0.01,
    drag_area_m2=(0.015, 0.016, 0.03),
)


@pytest.mark.parametrize("p", [FLIGHTMARE, ALL_DRAGS], ids=["flightmare", "all drags"])
def test_every_term_in_any_surroundings(p: QuadrotorParameters) -> None:
    model = FlightmareQuadrotor(p, longest_substep_s=0.001)
    x, u = manoeuvres(model, 2)
    around = surrounded(model, 2)
    exact = solved(p, x, u, around, 0.2)
    assert np.abs(model.step(x, u, around, 0.2) - exact).max() < 2e-8
    native = model.native()
    assert native is not None
    native(x, u, around, 0.2, 1)
    assert np.abs(x - exact).max() < 2e-8


def test_motors_two_hundred_times_faster_than_the_step_do_no_harm() -> None:
    """quadrotor_env.yaml: tau 0.1 ms.

    Taken at stage times alone they would cost a sixth of a step of thrust.
    """
    model = FlightmareQuadrotor(QUADROTOR_ENV, longest_substep_s=0.02)
    x, u = manoeuvres(model, 2)
    exact = solved(QUADROTOR_ENV, x, u, model.calm(2), 0.02)
    errors = worst(model.step(x, u, model.calm(2), 0.02), exact)
    assert (errors < (5e-6, 2e-4, 2e-3)).all(), errors


def test_flightlibs_stepping_strays_as_printed() -> None:
    """2.3 mm and 19 mm/s after 0.3 s of random actions, from holding the acceleration.

    Attitudes alike.
    """
    model = FlightmareQuadrotor(QUADROTOR_ENV, compat="flightmare")
    n = 100
    around, rng = model.calm(n), np.random.default_rng(0)
    x = model.initial(n)
    x[:, 13:17] = model.parameters.rotor_speed_radps(np.array(model.hover_thrust_n))
    y = x.copy()
    for _ in range(15):
        u = np.maximum(
            4.0 * model.hover_thrust_n * (0.25 + 0.5 * rng.uniform(-1.0, 1.0, (n, 4))), 0.0
        )
        x = model.step(x, u, around, 0.02)
        y = stages_taken(model, y, u, around, 0.02)
    strayed_m = np.median(np.linalg.norm(x[:, 0:3] - y[:, 0:3], axis=1))
    strayed_mps = np.median(np.linalg.norm(x[:, 3:6] - y[:, 3:6], axis=1))
    assert 2.3e-3 / 2 < strayed_m < 2.3e-3 * 2 and 19e-3 / 2 < strayed_mps < 19e-3 * 2
    assert np.degrees(2.0 * np.abs(x[:, 6:10] - y[:, 6:10]).max()) < 1e-4


def stages_taken(
    model: FlightmareQuadrotor, y: FloatArray, u: FloatArray, around: FloatArray, dt_s: float
) -> FloatArray:
    """flightlib's motors, held over each of eight sub-steps, with an RK4 that takes the attitude
    at its stages.
    """
    h_s = dt_s / 8
    for _ in range(8):
        target = model.speeds_commanded(y, u)
        speeds = target + np.exp(-h_s / model.parameters.nominal_of("motor_time_s")) * (
            y[:, 13:] - target
        )
        body, wrench = y[:, :13], model.wrench(speeds, around)
        k1 = model.motion(body, wrench, around)
        k2 = model.motion(body + 0.5 * h_s * k1, wrench, around)
        k3 = model.motion(body + 0.5 * h_s * k2, wrench, around)
        k4 = model.motion(body + h_s * k3, wrench, around)
        y = np.concatenate((body + h_s / 6.0 * (k1 + 2.0 * (k2 + k3) + k4), speeds), axis=1)
    return y
