"""Trajectories that are the best of their kind: least snap, least time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.control.airframe import RotorAirframe
from vil_simulation.vehicles.control.limits import Limits, fastest, sampled, usage
from vil_simulation.vehicles.control.optimal import time_optimal
from vil_simulation.vehicles.trajectories import (
    Concatenated,
    Polynomials,
    Reference,
    Trajectory,
    circle,
    hover,
    lemniscate,
    line,
    minimum_jerk,
    minimum_snap,
    polyline,
)

GATES = (
    (0.0, 0.0, 1.5),
    (5.0, 2.0, 2.0),
    (10.0, 0.0, 1.5),
    (12.0, 5.0, 2.5),
    (6.0, 7.0, 1.5),
    (0.0, 5.0, 2.0),
)
QUAD = RotorAirframe(
    1.0,
    np.diag([0.0049, 0.0049, 0.0069]),
    np.array(
        [
            [1.0] * 4,
            [0.08, 0.08, -0.08, -0.08],
            [-0.08, 0.08, 0.08, -0.08],
            [-0.14, 0.14, -0.14, 0.14],
        ]
    ),
    0.0,
    9.0,
)


def cost(flown: Polynomials, order: int) -> float:
    """Integral of the squared derivative, by Gauss and Legendre: exact for these degrees."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    total = 0.0
    for begin, length in zip(flown.knots_s, flown.lengths_s, strict=False):
        rows = flown.derivatives(begin + 0.5 * length * (nodes + 1.0))
        total += 0.5 * length * float(weights @ (rows[:, order, :3] ** 2).sum(axis=1))
    return total


def slopes_at(coefficients: FloatArray, length: float, tau: float, order: int) -> FloatArray:
    polynomial = np.polynomial.Polynomial
    return np.array([polynomial(c).deriv(order)(tau) for c in coefficients.T]) / length**order


@pytest.mark.parametrize(("plan", "order"), [(minimum_snap, 4), (minimum_jerk, 3)])
def test_least_integral_is_recognised_by_its_smoothness(
    plan: Callable[..., Polynomials], order: int
) -> None:
    # The minimum is the spline of degree 2 r - 1 with continuous derivatives to 2 r - 2 (Holladay's
    # theorem).
    flown = plan(GATES, speed_mps=3.0, yaw_rad=np.linspace(0.0, 2.0, 6))
    assert flown.coefficients.shape == (5, 2 * order, 4)
    np.testing.assert_allclose(flown.derivatives(flown.knots_s)[:, 0, :3], GATES, atol=1e-11)
    for piece in range(4):
        for rank in range(2 * order - 1):
            left = slopes_at(flown.coefficients[piece], flown.lengths_s[piece], 1.0, rank)
            right = slopes_at(flown.coefficients[piece + 1], flown.lengths_s[piece + 1], 0.0, rank)
            np.testing.assert_allclose(left, right, atol=1e-7 * max(1.0, np.abs(left).max()))


def test_from_rest_to_rest_it_is_the_smooth_step() -> None:
    flown = minimum_snap([(0, 0, 0), (1, 0, 0)], times_s=[0.0, 2.0])
    np.testing.assert_allclose(
        flown.coefficients[0, :, 0], [0, 0, 0, 0, 35, -84, 70, -20], atol=1e-11
    )


def test_given_velocities_are_flown() -> None:
    flown = minimum_snap(
        GATES,
        velocities_mps={2: (3.0, 1.0, 0.0), -1: (1.0, 0.0, 0.0)},
        accelerations_mps2={2: (0, 0, 0)},
    )
    rows = flown.derivatives(flown.knots_s)
    np.testing.assert_allclose(rows[2, 1, :3], (3.0, 1.0, 0.0), atol=1e-11)
    np.testing.assert_allclose(rows[2, 2, :3], 0.0, atol=1e-10)
    np.testing.assert_allclose(rows[-1, 1, :3], (1.0, 0.0, 0.0), atol=1e-11)


@pytest.mark.parametrize(("plan", "order"), [(minimum_snap, 4), (minimum_jerk, 3)])
def test_no_other_times_of_the_same_sum_are_better(
    plan: Callable[..., Polynomials], order: int
) -> None:
    best = plan(GATES, speed_mps=3.0)
    least = cost(best, order)
    chords = plan(GATES, times_s=best.duration_s * np.cumsum([0.0, *chord_shares()]))
    assert least < 0.9 * cost(chords, order)
    for piece in range(5):
        for change in (-0.02, 0.02):
            lengths = best.lengths_s.copy()
            lengths[piece] *= 1.0 + change
            times = np.concatenate(([0.0], np.cumsum(lengths))) * best.duration_s / lengths.sum()
            assert cost(plan(GATES, times_s=times), order) > least


def chord_shares() -> FloatArray:
    chords = np.linalg.norm(np.diff(np.array(GATES), axis=0), axis=1)
    shares: FloatArray = chords / chords.sum()
    return shares


def test_many_waypoints_stay_well_conditioned() -> None:
    turns = np.linspace(0.0, 12.0 * math.pi, 60)
    points = np.column_stack((5.0 * np.cos(turns), 5.0 * np.sin(turns), 1.0 + 0.1 * turns))
    flown = minimum_snap(points, times_s=turns, yaw_rad="along")
    np.testing.assert_allclose(flown.derivatives(flown.knots_s)[:, 0, :3], points, atol=1e-9)
    middle = flown.derivatives(np.linspace(0.3, 0.7, 500) * flown.duration_s)
    np.testing.assert_allclose(np.linalg.norm(middle[:, 0, :2], axis=1), 5.0, atol=0.01)


ALL_LIMITS = Limits(
    speed_mps=6.0, acceleration_mps2=9.0, rates_radps=(4.0, 4.0, 2.0), airframe=QUAD
)


@pytest.mark.parametrize(
    "limits", [Limits(speed_mps=3.0), Limits(thrust_mps2=(5.0, 16.0)), ALL_LIMITS]
)
def test_fastest_uniform_pace_touches_a_limit_and_exceeds_none(limits: Limits) -> None:
    for flown in (
        circle(3.0, 2.0, turns=2.0),
        minimum_snap(GATES),
        lemniscate(8.0, 2.0, turns=2.0),
    ):
        scaled = fastest(flown, limits)
        used = usage(Reference.of(sampled(scaled, 3001)), limits).max()
        assert 0.999 < used < 1.0005
        at, before = scaled.at(0.4 * scaled.duration_s), flown.at(0.4 * flown.duration_s)
        np.testing.assert_allclose(at.p_world_m, before.p_world_m, atol=1e-9)


def test_hopeless_limits_are_named() -> None:
    weak = RotorAirframe(2.0, QUAD.inertia_kgm2, QUAD.effects, 0.0, 4.0)
    with pytest.raises(ValueError, match="does the airframe hover"):
        fastest(circle(3.0, 2.0, turns=2.0), Limits(airframe=weak))
    with pytest.raises(ValueError, match="nothing limits"):
        fastest(circle(3.0, 2.0, turns=2.0), Limits())
    with pytest.raises(ValueError, match="drag_1pm must be finite"):
        Limits(drag_1pm=-0.1)
    with pytest.raises(ValueError, match="hovering"):
        Limits(thrust_mps2=(0.0, 9.0))
    with pytest.raises(ValueError, match="need an airframe"):
        Limits(rates_radps=(1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="set acceleration_mps2"):
        time_optimal(circle(3.0, 2.0, turns=2.0), Limits(speed_mps=1.0))
    with pytest.raises(ValueError, match="leave such pauses out"):
        time_optimal(hover((0.0, 0.0, 0.0)), Limits(acceleration_mps2=1.0))
    with pytest.raises(ValueError, match="give thrust_mps2"):
        time_optimal(circle(3.0, 2.0, turns=2.0), ALL_LIMITS)


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        (Limits(speed_mps=2.0, acceleration_mps2=4.0), 8.0 / 2.0 + 2.0 / 4.0),  # bang, coast, bang
        (Limits(acceleration_mps2=4.0), 2.0 * math.sqrt(8.0 / 4.0)),  # bang, bang
        (Limits(thrust_mps2=(0.0, 12.0)), 2.0 * math.sqrt(8.0 / math.sqrt(12.0**2 - 9.81**2))),
    ],
)
def test_time_optimal_lines_take_the_time_of_the_closed_form(
    limits: Limits, seconds: float
) -> None:
    flown = time_optimal(line((0, 0, 1), (8, 0, 1), 1.0, 1.0, 3.0), limits, intervals=200)
    assert flown.duration_s == pytest.approx(seconds, rel=1e-3)


def test_time_optimal_flight_rests_where_the_trajectory_does() -> None:
    there = minimum_snap([(0, 0, 1), (4, 0, 1)])
    back = minimum_snap([(4, 0, 1), (4, 3, 1)])
    flown = time_optimal(Concatenated(there, back), Limits(acceleration_mps2=4.0), intervals=200)
    first, second = 2.0 * math.sqrt(4.0 / 4.0), 2.0 * math.sqrt(3.0 / 4.0)
    assert flown.duration_s == pytest.approx(first + second, rel=1e-3)
    assert np.linalg.norm(flown.at(first).v_world_mps) < 0.01


def test_time_optimal_climb_brakes_by_its_weight_and_not_upside_down() -> None:
    climb = time_optimal(
        line((0, 0, 1), (0, 0, 9), 1.0, 1.0), Limits(thrust_mps2=(0.0, 15.0)), intervals=200
    )
    up, down = 15.0 - 9.81, 9.81
    assert climb.duration_s == pytest.approx(
        math.sqrt(2.0 * 8.0 * (1.0 / up + 1.0 / down)), rel=1e-3
    )


def test_time_optimal_flight_with_drag_takes_the_time_of_the_closed_form() -> None:
    # v' = a - d v^2 from rest over 8 m, then -a - d v^2 to rest; a = horizontal part of the thrust.
    a, d = math.sqrt(20.0**2 - 9.81**2), 0.1
    flown = time_optimal(
        line((0, 0, 1), (8, 0, 1), 1.0, 1.0, 3.0),
        Limits(thrust_mps2=(0.0, 20.0), drag_1pm=d),
        intervals=400,
    )
    # Distances ln(a / (a - d v^2)) / 2d and ln((a + d v^2) / a) / 2d of both parts give the top
    # speed.
    grown = math.exp(2.0 * d * 8.0)
    top = math.sqrt(a / d * (grown - 1.0) / (grown + 1.0))
    root = math.sqrt(d / a) * top
    wanted = (math.atanh(root) + math.atan(root)) / math.sqrt(a * d)
    assert flown.duration_s == pytest.approx(wanted, rel=2e-3)


@pytest.mark.parametrize(
    ("flown", "limits", "at_limit"),
    [
        (minimum_snap(GATES, speed_mps=3.0), Limits(speed_mps=6.0, acceleration_mps2=8.0), 0.95),
        (minimum_snap(GATES, speed_mps=3.0), Limits(thrust_mps2=(0.0, 20.0)), 0.9),
        (minimum_snap(GATES, speed_mps=3.0), Limits(thrust_mps2=(0.0, 20.0), drag_1pm=0.1), 0.9),
        (circle(3.0, 2.0, turns=2.0), Limits(speed_mps=4.0, acceleration_mps2=8.0), 0.95),
        (polyline(GATES, 2.0, 3.0), Limits(speed_mps=4.0, acceleration_mps2=8.0), 0.99),
    ],
)
def test_time_optimal_flight_is_at_a_limit_nearly_everywhere(
    flown: Trajectory, limits: Limits, at_limit: float
) -> None:
    best, uniform = time_optimal(flown, limits), fastest(flown, limits)
    used = usage(best.at(np.linspace(0.0, best.duration_s, 5000, endpoint=False)), limits)
    assert used.max() < 1.001
    assert (used > 0.99).mean() > at_limit
    assert best.duration_s < 0.95 * uniform.duration_s
    # It is the same curve: no point of it is away from the first.
    there = flown.at(np.linspace(0.0, flown.duration_s, 20001)).p_world_m
    for point in best.at(np.linspace(0.0, best.duration_s, 50)).p_world_m:
        assert np.linalg.norm(there - point, axis=1).min() < 2e-3


def test_time_optimal_flight_shows_the_heading_of_the_place() -> None:
    flown = circle(3.0, 2.0, turns=2.0)
    best = time_optimal(flown, Limits(speed_mps=4.0, acceleration_mps2=8.0))
    at = best.at(np.linspace(0.1, best.duration_s - 0.1, 400))
    np.testing.assert_allclose(
        np.exp(1j * at.yaw_rad),
        1j * (at.p_world_m[:, 0] + 1j * at.p_world_m[:, 1]) / 3.0,
        atol=1e-6,
    )
