"""Trajectories: derivatives that belong together, shapes, ends, tables of many."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from vil_simulation.vehicles.trajectories import (
    Concatenated,
    Polynomials,
    Table,
    Trajectory,
    Transformed,
    circle,
    hover,
    lemniscate,
    line,
    minimum_jerk,
    minimum_snap,
    polyline,
    slowed,
)

GATES = (
    (0.0, 0.0, 1.5),
    (5.0, 2.0, 2.0),
    (10.0, 0.0, 1.5),
    (12.0, 5.0, 2.5),
    (6.0, 7.0, 1.5),
    (0.0, 5.0, 2.0),
)

KINDS: dict[str, Callable[[], Trajectory]] = {
    "circle": lambda: circle(2.0, 2.0, turns=1.5, center_m=(1.0, 2.0, 3.0), start_rad=0.4),
    "circle to the right": lambda: circle(2.0, -2.0, turns=1.5, facing="fixed"),
    "bernoulli": lambda: lemniscate(8.0, 3.0, turns=2.0, turn_rad=0.7),
    "gerono": lambda: lemniscate(8.0, 3.0, kind="gerono", turns=2.0),
    "minimum snap": lambda: minimum_snap(GATES, speed_mps=3.0, yaw_rad="along"),
    "minimum jerk": lambda: minimum_jerk(GATES, speed_mps=3.0, yaw_rad=np.linspace(0.0, 3.0, 6)),
    "trapezoid": lambda: line((0.0, 0.0, 1.0), (5.0, 1.0, 2.0), 2.0, 3.0),
    "s-curve": lambda: polyline(GATES, 2.0, 3.0, 10.0),
    "placed": lambda: Transformed(
        lemniscate(8.0, 3.0, kind="gerono", turns=2.0), (1.0, 2.0, 3.0), 0.5
    ),
    "slowed": lambda: slowed(circle(2.0, 2.0, turns=1.5), 1.7),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_every_derivative_is_that_of_the_one_before(make: Callable[[], Trajectory]) -> None:
    trajectory = make()
    h = 1e-4
    t = np.linspace(0.0, trajectory.duration_s, 301)[1:-1]
    t = t[np.abs(t[:, None] - trajectory.knots_s).min(axis=1) > 2.0 * h]
    before, here, after = (trajectory.derivatives(t + step) for step in (-h, 0.0, h))
    slopes = (after - before) / (2.0 * h)
    for order in range(4):
        channels = 4 if order < 2 else 3
        wanted = here[:, order + 1, :channels]
        assert np.abs(slopes[:, order, :channels] - wanted).max() <= 1e-6 * max(
            1.0, np.abs(wanted).max()
        )


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_begins_and_ends_at_rest_and_stays_there(make: Callable[[], Trajectory]) -> None:
    trajectory = make()
    ends = trajectory.derivatives(np.array([0.0, trajectory.duration_s]))
    assert np.abs(ends[:, 1]).max() < 1e-9
    outside = trajectory.at([-1.0, trajectory.duration_s + 1.0])
    np.testing.assert_allclose(outside.p_world_m, ends[:, 0, :3], atol=1e-12)
    assert all(not values.any() for values in (*outside[1:5], *outside[6:]))


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_as_polynomials_it_is_the_same_curve(make: Callable[[], Trajectory]) -> None:
    trajectory = make()
    t = np.linspace(0.0, trajectory.duration_s, 1001)[:-1]
    curve, table = trajectory.derivatives(t), trajectory.polynomials().derivatives(t)
    for order, bound in enumerate((1e-9, 1e-8, 1e-6, 1e-5, 1e-3)):
        assert np.abs(curve[:, order, :3] - table[:, order, :3]).max() < bound
    assert np.abs(curve[:, :2, 3] - table[:, :2, 3]).max() < 1e-4


def test_circle_keeps_its_radius_and_speed_and_looks_along() -> None:
    flown = circle(3.0, 2.0, turns=None, ramp_s=1.0, center_m=(1.0, 2.0, 3.0))
    t = np.linspace(1.0, flown.duration_s, 200)
    at = flown.at(t)
    arm = at.p_world_m - (1.0, 2.0, 3.0)
    np.testing.assert_allclose(np.linalg.norm(arm, axis=1), 3.0, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(at.v_world_mps, axis=1), 2.0, rtol=1e-12)
    np.testing.assert_allclose(at.a_world_mps2, -((2.0 / 3.0) ** 2) * arm, atol=1e-12)
    np.testing.assert_allclose(
        np.exp(1j * at.yaw_rad), (at.v_world_mps[:, 0] + 1j * at.v_world_mps[:, 1]) / 2.0
    )
    np.testing.assert_allclose(at.yaw_radps, 2.0 / 3.0, rtol=1e-12)
    assert np.cross(arm[0], at.v_world_mps[0])[2] > 0.0
    turn_s = 2.0 * math.pi * 3.0 / 2.0
    np.testing.assert_allclose(flown.at(t + 5 * turn_s).p_world_m, at.p_world_m, atol=1e-12)
    np.testing.assert_allclose(flown.at(t + 5 * turn_s).v_world_mps, at.v_world_mps, atol=1e-12)


@pytest.mark.parametrize("kind", ["bernoulli", "gerono"])
def test_lemniscates_satisfy_their_equations(kind: str) -> None:
    at = (
        lemniscate(8.0, 4.0, turns=3.0, ramp_s=1.0)
        if kind == "bernoulli"
        else lemniscate(8.0, 4.0, kind="gerono", turns=3.0, ramp_s=1.0)
    ).at(np.linspace(0.0, 15.0, 2000))
    x, y = at.p_world_m[:, 0] / 4.0, at.p_world_m[:, 1] / 4.0
    if kind == "bernoulli":
        np.testing.assert_allclose((x**2 + y**2) ** 2, x**2 - y**2, atol=1e-12)
    else:
        np.testing.assert_allclose(x**4, x**2 - y**2, atol=1e-12)
    speed = np.linalg.norm(at.v_world_mps, axis=1)
    assert speed.max() == pytest.approx(4.0, rel=1e-4)
    moving = speed > 1.0
    across = at.v_world_mps[:, 0] * np.sin(at.yaw_rad) - at.v_world_mps[:, 1] * np.cos(at.yaw_rad)
    along = at.v_world_mps[:, 0] * np.cos(at.yaw_rad) + at.v_world_mps[:, 1] * np.sin(at.yaw_rad)
    assert np.abs(across[moving]).max() < 1e-9 and along[moving].min() > 0.0
    assert np.abs(np.diff(at.yaw_rad)).max() < 0.1


@pytest.mark.parametrize(
    ("length", "seconds"),
    [
        (8.0, 8.0 / 2.0 + 2.0 / 4.0 + 4.0 / 20.0),  # speed and acceleration reached
        (0.6, 0.2 + math.sqrt(0.2**2 + 4.0 * 0.6 / 4.0)),  # acceleration alone
        (0.01, 4.0 * (0.01 / (2.0 * 20.0)) ** (1.0 / 3.0)),  # neither
    ],
)
def test_s_curves_take_the_time_of_the_closed_form(length: float, seconds: float) -> None:
    flown = line((0.0, 0.0, 0.0), (length, 0.0, 0.0), 2.0, 4.0, 20.0)
    assert flown.duration_s == pytest.approx(seconds, rel=1e-12)
    rows = flown.derivatives(np.linspace(0.0, flown.duration_s, 1000))
    for order, limit in ((1, 2.0), (2, 4.0), (3, 20.0)):
        assert np.abs(rows[:, order]).max() <= limit * (1.0 + 1e-9)


def test_trapezoids_take_the_time_of_the_closed_form() -> None:
    assert line((0, 0, 0), (8, 0, 0), 2.0, 4.0).duration_s == pytest.approx(
        8.0 / 2.0 + 2.0 / 4.0, rel=1e-14
    )
    assert line((0, 0, 0), (0.5, 0, 0), 2.0, 4.0).duration_s == pytest.approx(
        2.0 * math.sqrt(0.5 / 4.0), rel=1e-14
    )


@pytest.mark.parametrize("native", [False, True])
def test_a_table_gives_every_vehicle_its_own(native: bool) -> None:
    flown: list[Trajectory] = [make() for make in KINDS.values()]
    flown += [circle(2.0, 2.0, turns=None), hover((1.0, 2.0, 3.0), 0.3), flown[0]]
    table = Table(flown, native=native)
    for t in (-1.0, 0.0, 0.77, 3.21, 8.0, 20.1, 1000.0):
        each = [trajectory.at(t) for trajectory in flown]
        for name, bound in (
            ("p_world_m", 1e-9),
            ("v_world_mps", 1e-8),
            ("a_world_mps2", 1e-6),
            ("j_world_mps3", 1e-4),
            ("s_world_mps4", 1e-2),
            ("yaw_rad", 1e-4),
            ("yaw_radps", 1e-3),
            ("yaw_radps2", 1e-1),
        ):
            wanted = np.concatenate([getattr(reference, name) for reference in each])
            np.testing.assert_allclose(getattr(table.at(t), name), wanted, atol=bound)
    own = np.linspace(0.0, 20.0, len(flown))
    wanted = np.concatenate(
        [trajectory.at(t).p_world_m for trajectory, t in zip(flown, own, strict=True)]
    )
    np.testing.assert_allclose(table.at(own).p_world_m, wanted, atol=1e-9)


def test_joined_goes_on_where_the_last_ended() -> None:
    first = line((0.0, 0.0, 1.0), (2.0, 0.0, 1.0), 1.0, 1.0, yaw_rad=math.pi / 2)
    joined = Concatenated(first, circle(2.0, 1.0, turns=None, center_m=(0.0, 0.0, 1.0)))
    t = np.array([0.5, first.duration_s + 1.0, joined.duration_s + 4.0 * math.pi * 3.0 + 0.1])
    second = circle(2.0, 1.0, turns=None, center_m=(0.0, 0.0, 1.0))
    np.testing.assert_allclose(joined.at(t).p_world_m[0], first.at(0.5).p_world_m[0], atol=1e-12)
    np.testing.assert_allclose(
        joined.at(t).p_world_m[1:], second.at(t[1:] - first.duration_s).p_world_m, atol=1e-9
    )
    with pytest.raises(ValueError, match="part 1 ends at"):
        Concatenated(first, circle(2.0, 1.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: circle(0.0, 1.0), "radius above 0"),
        (lambda: circle(1.0, 10.0, turns=0.5), "more turns"),
        (lambda: lemniscate(1.0, 0.0), "width and a speed"),
        (lambda: line((0, 0, 0), (0, 0, 0), 1.0, 1.0), "two different points"),
        (lambda: minimum_snap([(0, 0, 0)]), "m >= 2"),
        (lambda: minimum_snap([(0, 0, 0), (0, 0, 0)]), "the same"),
        (lambda: minimum_snap(GATES, times_s=[0, 1, 2, 3, 4, 4]), "increase"),
        (lambda: minimum_snap(GATES, yaw_rad=[0.0, 1.0]), "one per waypoint"),
        (lambda: minimum_snap(GATES, velocities_mps={6: (0, 0, 0)}), "no waypoint 6"),
        (lambda: slowed(hover((0, 0, 0)), 0.0), "positive"),
        (lambda: Polynomials([0.0, 1.0], np.zeros((2, 3, 4))), "do not fit"),
        (lambda: Polynomials([0.0, 0.0], np.zeros((1, 3, 4))), "increase from 0"),
        (lambda: Table([]), "at least one"),
        (lambda: Concatenated(), "nothing to join"),
    ],
)
def test_bad_input_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
