"""Courses: when a gate is passed or hit; FlightGoggles' gates and its own score."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_bridge.vehicles.envs.alphapilot_race import (
    FINAL_ORDER,
    FLIGHTGOGGLES_COURSES,
    final_markers,
    original_score,
)
from vil_bridge.vehicles.envs.course import COURSES, Course

DIAGONAL = 0.25 * math.pi


def one_gate(yaw_rad: float = 0.0) -> Course:
    """An opening 2 m wide and 1 m high at (5, 0, 2), frame 0.3 m."""
    return Course(np.array([[5.0, 0.0, 2.0]]), np.array([yaw_rad]), np.array([[2.0, 1.0]]), np.zeros(3))


def way(x0: float, y0: float, z0: float, x1: float, y1: float, z1: float) -> tuple[FloatArray, FloatArray]:
    return np.array([[x0, y0, z0]]), np.array([[x1, y1, z1]])


@pytest.mark.parametrize(
    ("there", "passed", "hit"),
    [
        (way(4.9, 0.0, 2.0, 5.1, 0.0, 2.0), True, False),
        (way(-20.0, 0.9, 2.4, 30.0, 0.9, 2.4), True, False),  # far beyond it on both sides within one step
        (way(5.1, 0.0, 2.0, 4.9, 0.0, 2.0), False, False),  # backwards
        (way(4.9, 1.1, 2.0, 5.1, 1.1, 2.0), False, True),
        (way(5.1, 1.1, 2.0, 4.9, 1.1, 2.0), False, True),  # the frame is as hard from behind
        (way(4.9, 0.0, 2.7, 5.1, 0.0, 2.7), False, True),
        (way(4.9, 1.4, 2.0, 5.1, 1.4, 2.0), False, False),
        (way(4.9, 0.0, 1.1, 5.1, 0.0, 1.1), False, False),
        (way(4.0, -2.0, 2.0, 6.0, 2.0, 2.0), True, False),  # slanting, through the middle
        (way(4.0, 0.0, 2.0, 6.0, 2.2, 2.0), False, True),  # ends outside; at the plane 1.1 m from the middle
        (way(4.8, 0.0, 2.0, 4.9, 0.0, 2.0), False, False),  # inside FlightGoggles' box, not through
        (way(4.9, 0.0, 2.0, 5.0, 0.0, 2.0), True, False),  # a way that ends on the plane has crossed it,
        (way(5.0, 0.0, 2.0, 5.1, 0.0, 2.0), False, False),  # one that begins there has done so before
    ],
)
def test_the_way_decides(there: tuple[FloatArray, FloatArray], passed: bool, hit: bool) -> None:
    crossings = one_gate().crossings(*there)
    assert (crossings.passed.item(), crossings.hit.item()) == (passed, hit)


def test_gates_turn_and_tell_when_they_were_crossed() -> None:
    gate = one_gate(DIAGONAL)
    along, across = np.array([1.0, 1.0, 0.0]) / 2**0.5, np.array([-1.0, 1.0, 0.0]) / 2**0.5
    before = gate.centres_m - 0.25 * along + np.array([[0.0], [0.95], [1.05], [1.4]]) * across
    crossings = gate.crossings(before, before + along)
    assert crossings.passed[:, 0].tolist() == [True, True, False, False]
    assert crossings.hit[:, 0].tolist() == [False, False, True, False]
    assert crossings.fraction[:, 0] == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("name", [*COURSES, *FLIGHTGOGGLES_COURSES])
def test_a_course_can_be_flown_straight_from_gate_to_gate(name: str) -> None:
    course = (COURSES | FLIGHTGOGGLES_COURSES)[name]()
    places = np.vstack((course.start_m, course.centres_m))
    forward = course.axes[:, :, 0]
    approach = course.centres_m - places[:-1]
    assert ((approach * forward).sum(axis=1) > 0.0).all()
    through = course.crossings(course.centres_m - 0.2 * forward, course.centres_m + 0.2 * forward)
    assert np.diag(through.passed).all()
    assert not through.hit.any()
    low, high = course.room_m
    assert ((places > low) & (places < high)).all()
    assert low[2] == 0.02


def test_the_final_is_flightgoggles_in_our_axes() -> None:
    course = FLIGHTGOGGLES_COURSES["alphapilot"]()
    assert course.start_m == pytest.approx([23.0, 18.0, 5.3])
    by_gate = dict(
        zip(FINAL_ORDER, zip(course.centres_m, course.openings_m, course.yaws_rad, strict=True), strict=True)
    )
    centre, opening, yaw = by_gate[2]
    assert centre == pytest.approx([-27.868, 2.0895, 2.5465], abs=1e-9)  # north-west-up (x, y, z) is ENU (-y, x, z)
    assert opening == pytest.approx([4.689, 3.227], abs=1e-9)
    assert math.cos(yaw) == pytest.approx(1.0)  # from gate 21, 11.6 m west of it: eastwards
    assert by_gate[14][1] == pytest.approx([3.904 * 2**0.5, 3.227], abs=1e-9)
    assert math.sin(by_gate[22][2]) == pytest.approx(0.7071, abs=1e-3)
    assert math.cos(by_gate[22][2]) == pytest.approx(-0.7071, abs=1e-3)


def test_perturbed_gates_stay_upright_and_within_their_bounds() -> None:
    nominal = final_markers()
    moved = np.array([final_markers(seed) for seed in range(200)])
    shift = moved.mean(axis=2) - nominal.mean(axis=1)
    # Bounds north-west-up are (dx, dy); ours are (-dy, dx): gate 2 moves 1 m along our x at most, and never along y.
    gate_2, gate_13 = FINAL_ORDER.index(2), FINAL_ORDER.index(13)
    assert np.abs(shift[:, gate_2, 1]).max() < 1e-12
    assert 0.9 < np.abs(shift[:, gate_2, 0]).max() <= 1.0
    assert (np.abs(shift[:, gate_13, :2]).max(axis=0) > 2.3).all()
    assert np.abs(shift[:, gate_13]).max() <= 2.5
    assert np.abs(shift[:, :, 2]).max() < 1e-12
    edges = moved[:, gate_13, 1, :2] - moved[:, gate_13, 0, :2]
    turned = np.degrees(np.arctan2(edges[:, 1], edges[:, 0])) - 90.0
    assert 4.5 < np.abs(turned).max() <= 5.0
    assert (final_markers(7) == final_markers(7)).all()


def marked(x_m: float) -> FloatArray:
    """An upright gate at x, 2 m wide and high, markers not in a circle's order, (4, 3)."""
    return np.array([(x_m, -1.0, 1.0), (x_m, 1.0, 1.0), (x_m, -1.0, 3.0), (x_m, 1.0, 3.0)])


def flown(points: list[tuple[float, float]]) -> tuple[FloatArray, FloatArray]:
    """Times and positions at y = 0, z = 2 of (time, x)."""
    return np.array([t for t, _ in points]), np.array([(x, 0.0, 2.0) for _, x in points])


def test_the_originals_score() -> None:
    gates = np.array([marked(0.0), marked(5.0), marked(10.0)])
    whole = original_score(*flown([(0.0, -3.0), (1.0, 0.0), (2.0, 5.05), (3.5, 9.95), (9.0, 0.0)]), gates)
    assert (whole.passed, whole.finished, whole.last_s, whole.score) == ((True,) * 3, True, 3.5, 26.5)
    skipped = original_score(*flown([(1.0, 0.0), (2.0, 10.0), (3.0, 5.0)]), gates)
    assert (skipped.passed, skipped.finished, skipped.score) == ((True, False, True), True, 18.0)
    four = np.array([marked(0.0), marked(5.0), marked(10.0), marked(15.0)])
    back = original_score(*flown([(1.0, 0.0), (2.0, 10.0), (3.0, 5.0), (4.0, 15.0)]), four)
    assert (back.passed, back.last_s, back.score) == ((True, False, True, True), 4.0, 26.0)  # missed for good
    unfinished = original_score(*flown([(1.0, 0.0), (2.0, 5.0)]), gates)
    assert (unfinished.passed, unfinished.last_s, unfinished.score) == ((True, True, False), 2.0, 0.0)
    late = original_score(*flown([(1.0, 0.0), (2.0, 5.0), (300.5, 10.0)]), gates)
    assert (late.finished, late.score) == (False, 0.0)


def test_the_originals_defects_are_kept() -> None:
    """No sweep: what jumps over the box between samples is missed; no direction; 9 cm before a gate counts."""
    gates = np.array([marked(0.0)])
    assert not original_score(*flown([(1.0, -0.5), (2.0, 0.5)]), gates).finished
    assert original_score(*flown([(1.0, 0.5), (2.0, 0.0), (3.0, -0.5)]), gates).finished
    assert original_score(*flown([(1.0, -0.09)]), gates).finished
    assert not original_score(*flown([(1.0, -0.11)]), gates).finished  # the box is strict: 0.1 m
    assert not original_score(*flown([(1.0, -0.31)]), gates, inflation_m=1.0).finished  # and the plane 0.3 m


def test_bad_courses_and_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="centres"):
        Course(np.zeros((0, 3)), np.zeros(0), np.zeros((0, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="samples are"):
        original_score([1.0], np.zeros((2, 3)), np.zeros((1, 4, 3)))
