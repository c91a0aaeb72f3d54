"""Courses: when a gate is passed or hit, and the shape of the shipped ones."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from vil_bridge.config.course import load_course
from vil_bridge.config.courses import course_names
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course, CourseGate

DIAGONAL = 0.25 * math.pi


def one_gate(yaw_rad: float = 0.0) -> Course:
    """An opening 2 m wide and 1 m high at (5, 0, 2), frame 0.3 m."""
    return Course.upright(
        np.array([[5.0, 0.0, 2.0]]), np.array([yaw_rad]), np.array([[2.0, 1.0]]), np.zeros(3)
    )


def way(
    x0: float, y0: float, z0: float, x1: float, y1: float, z1: float
) -> tuple[FloatArray, FloatArray]:
    return np.array([[x0, y0, z0]]), np.array([[x1, y1, z1]])


@pytest.mark.parametrize(
    ("there", "passed", "hit"),
    [
        (way(4.9, 0.0, 2.0, 5.1, 0.0, 2.0), True, False),
        # Far beyond it on both sides within one step.
        (way(-20.0, 0.9, 2.4, 30.0, 0.9, 2.4), True, False),
        (way(5.1, 0.0, 2.0, 4.9, 0.0, 2.0), False, False),  # backwards
        (way(4.9, 1.1, 2.0, 5.1, 1.1, 2.0), False, True),
        (way(5.1, 1.1, 2.0, 4.9, 1.1, 2.0), False, True),  # the frame is as hard from behind
        (way(4.9, 0.0, 2.7, 5.1, 0.0, 2.7), False, True),
        (way(4.9, 1.4, 2.0, 5.1, 1.4, 2.0), False, False),
        (way(4.9, 0.0, 1.1, 5.1, 0.0, 1.1), False, False),
        (way(4.0, -2.0, 2.0, 6.0, 2.0, 2.0), True, False),  # slanting, through the middle
        # Ends outside; at the plane 1.1 m from the middle.
        (way(4.0, 0.0, 2.0, 6.0, 2.2, 2.0), False, True),
        (way(4.8, 0.0, 2.0, 4.9, 0.0, 2.0), False, False),  # inside FlightGoggles' box, not through
        # A way that ends on the plane has crossed it,.
        (way(4.9, 0.0, 2.0, 5.0, 0.0, 2.0), True, False),
        # One that begins there has done so before.
        (way(5.0, 0.0, 2.0, 5.1, 0.0, 2.0), False, False),
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


@pytest.mark.parametrize("name", course_names())
def test_a_course_can_be_flown_straight_from_gate_to_gate(name: str) -> None:
    course = load_course(name)
    order = np.array(course.order)
    places = np.vstack((course.start.p_m, course.centres_m[order]))
    forward = course.axes[:, :, 0]
    approach = course.centres_m[order] - places[:-1]
    assert ((approach * forward[order]).sum(axis=1) > 0.0).all()
    through = course.crossings(course.centres_m - 0.2 * forward, course.centres_m + 0.2 * forward)
    assert np.diag(through.passed).all()
    assert not through.hit.any()
    low, high = course.room_m
    assert ((places > low) & (places < high)).all()


def test_corners_give_the_gate_and_the_gate_its_corners() -> None:
    tilted = CourseGate(
        "Gate1", Transform.of((1.0, 2.0, 3.0), q_from_euler_zyx(0.7, -0.3, 0.2)), 1.4, 0.9
    )
    again = CourseGate.of_corners("Gate1", tilted.corners_m)
    assert again.T_world_gate.matrix() == pytest.approx(tilted.T_world_gate.matrix(), abs=1e-12)
    assert (again.width_m, again.height_m) == pytest.approx((1.4, 0.9))
    top_left = tilted.T_world_gate.inverse().apply(tilted.corners_m)[0]
    assert top_left == pytest.approx([0.0, 0.7, 0.45], abs=1e-12)  # y is left, z is up


@pytest.mark.parametrize(
    ("margin_m", "y_m", "passed"), [(0.2, 0.79, True), (0.2, 0.81, False), (-0.2, 1.19, True)]
)
def test_a_margin_narrows_the_opening_and_a_negative_one_widens_it(
    margin_m: float, y_m: float, passed: bool
) -> None:
    course = replace(one_gate(), gates=(replace(one_gate().gates[0], margin_m=margin_m),))
    crossings = course.crossings(*way(4.9, y_m, 2.0, 5.1, y_m, 2.0))
    assert (crossings.passed.item(), crossings.hit.item()) == (passed, not passed)


def test_bad_courses_and_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="centres"):
        Course.upright(np.zeros((0, 3)), np.zeros(0), np.zeros((0, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="at least one gate and one lap, not 1 and 0"):
        replace(one_gate(), laps=0)
    with pytest.raises(ValueError, match="names gates 0 to 0, got"):
        replace(one_gate(), order=(0, 1))
    with pytest.raises(ValueError, match="span no opening"):
        CourseGate.of_corners("Gate1", np.zeros((4, 3)))
