"""The race clock's rules.

Order, laps, splits, missed gates, penalties, collisions, bounds, time-out, hovering.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pytest

from vil_bridge.config.course import load_course
from vil_bridge.config.courses import course_names
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course, CourseObstacle, RaceRules
from vil_bridge.world.race.clock import RaceClock
from vil_bridge.world.race.events import (
    GateMissed,
    GatePassed,
    LapDone,
    RaceCollision,
    RaceEnded,
    RaceEvent,
    RaceStarted,
)

Kind = TypeVar("Kind")
Stop = tuple[float, float, float, float]
"""Time and place."""


def square(laps: int = 1, rules: RaceRules = RaceRules()) -> Course:  # noqa: B008
    """Four gates of 1 m on the sides of a square of 10 m, flown counter-clockwise, frames of 0.2
    m.
    """
    centres = np.array([(5.0, 0.0, 2.0), (10.0, 5.0, 2.0), (5.0, 10.0, 2.0), (0.0, 5.0, 2.0)])
    course = Course.upright(
        centres,
        np.radians([0.0, 90.0, 180.0, -90.0]),
        np.ones((4, 2)),
        np.array([0.0, 0.0, 2.0]),
        bar_m=0.2,
    )
    return replace(course, laps=laps, rules=rules)


def corners(laps: int, speed_mps: float = 5.0, start_s: float = 1.0) -> list[Stop]:
    """Rounds of the square from (0, 0), with a rest of ``start_s`` before."""
    places = [(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)]
    stops = [(0.0, 0.0, 0.0, 2.0)]
    for k in range(4 * laps + 1):
        stops.append((start_s + k * 10.0 / speed_mps, *places[k % 4], 2.0))
    return stops


def samples(stops: Sequence[Stop], rate_hz: float = 100.0) -> tuple[FloatArray, FloatArray]:
    table = np.array(stops)
    t_s = np.arange(table[0, 0], table[-1, 0] + 1e-9, 1.0 / rate_hz)
    return t_s, np.stack([np.interp(t_s, table[:, 0], table[:, i]) for i in (1, 2, 3)], axis=1)


def race(
    course: Course,
    stops: Sequence[Stop],
    *,
    signal_s: float = 0.0,
    radius_m: float = 0.0,
    rate_hz: float = 100.0,
) -> list[RaceEvent]:
    clock = RaceClock(course, radius_m=radius_m)
    clock.signal(round(1e9 * signal_s))
    events: list[RaceEvent] = []
    for t, p_m in zip(*samples(stops, rate_hz), strict=True):
        events += clock.feed(round(1e9 * t), p_m)
    return events + clock.flush()


def of(kind: type[Kind], events: Sequence[RaceEvent]) -> list[Kind]:
    return [event for event in events if isinstance(event, kind)]


def test_a_race_from_the_signal() -> None:
    events = race(square(laps=2), corners(2), signal_s=0.5)
    assert isinstance(events[0], RaceStarted)
    assert events[0].t_ns == 500_000_000
    passed = of(GatePassed, events)
    assert [(one.gate, one.number, one.lap) for one in passed] == [
        (f"Gate{k % 4 + 1}", k, k // 4 + 1) for k in range(8)
    ]
    assert [one.race_s for one in passed] == pytest.approx(
        [1.5 + 2.0 * k for k in range(8)], abs=1e-6
    )
    assert [one.split_s for one in passed] == pytest.approx([1.5] + 7 * [2.0], abs=1e-6)
    assert [one.speed_mps for one in passed] == pytest.approx(8 * [5.0])
    laps = of(LapDone, events)
    assert [one.lap for one in laps] == [1, 2]
    assert [one.lap_s for one in laps] == pytest.approx([7.5, 8.0])
    assert events[-1] == RaceEnded(passed[-1].t_ns, "finished", passed[-1].race_s, 0.0, 8)
    times = [event.t_ns for event in events]
    assert times == sorted(times)


def test_a_race_from_the_first_motion() -> None:
    events = race(square(rules=RaceRules("motion")), corners(1), signal_s=0.2)
    assert events[0].t_ns == pytest.approx(1.02e9, abs=1e6)  # 0.1 m at 5 m/s after the rest of 1 s
    assert of(LapDone, events)[0].lap_s == pytest.approx(6.98, abs=1e-3)


def test_a_race_from_the_first_gate_ends_at_the_first_gate() -> None:
    events = race(square(laps=2, rules=RaceRules("first_gate")), corners(3))
    assert [one.lap_s for one in of(LapDone, events)] == pytest.approx([8.0, 8.0])
    passed = of(GatePassed, events)
    assert (passed[0].race_s, passed[0].split_s) == (0.0, 0.0)
    assert [one.lap for one in passed] == [1, 1, 1, 1, 2, 2, 2, 2, 2]
    assert passed[-1].gate == "Gate1"
    (end,) = of(RaceEnded, events)
    assert end.outcome == "finished"
    assert end.race_s == pytest.approx(16.0)


def test_what_happens_before_the_signal_does_not_count() -> None:
    events = race(square(), corners(2), signal_s=4.0)  # gates 1 and 2 were passed by then
    assert [one.number for one in of(GatePassed, events)] == [0, 1, 2, 3]
    assert of(GatePassed, events)[0].race_s == pytest.approx(6.0)
    assert not race(square(), corners(1), signal_s=50.0)


def test_the_signal_parts_what_happens_between_two_poses() -> None:
    """Ten poses a second at 5 m/s.

    Gate 1 is crossed at 2.04 s, between the poses of 2.0 s and 2.1 s.
    """
    stops = [(0.0, 0.0, 0.0, 2.0), (1.04, 0.0, 0.0, 2.0), (3.04, 10.0, 0.0, 2.0)]
    before = race(square(), stops, signal_s=2.03, rate_hz=10.0)
    assert [one.race_s for one in of(GatePassed, before)] == pytest.approx([0.01], abs=1e-6)
    assert not of(GatePassed, race(square(), stops, signal_s=2.05, rate_hz=10.0))


@pytest.mark.parametrize(("after_ns", "collisions"), [(-1, 0), (0, 1), (1, 1)])
def test_a_collision_counts_from_the_signal_on(after_ns: int, collisions: int) -> None:
    clock = RaceClock(square())
    clock.signal(500_000_000)
    clock.collide(500_000_000 + after_ns, "drone_2")
    events = [
        event
        for t_ms in range(0, 1000, 10)
        for event in clock.feed(t_ms * 1_000_000, np.array([0.0, 0.0, 2.0]))
    ]
    assert len(of(RaceCollision, events)) == collisions


def test_motion_is_that_from_the_place_of_the_signal() -> None:
    """Carried to the start and set down before it, at 5 m/s away from there after 4 s.

    0.1 m take 20 ms.
    """
    carried = [
        (0.0, -3.0, 0.0, 2.0),
        (1.0, -3.0, 0.0, 2.0),
        (2.0, 0.0, 0.0, 2.0),
        (4.0, 0.0, 0.0, 2.0),
    ]
    flown = [*carried, (6.0, 10.0, 0.0, 2.0)]
    for signal_s in (3.0, 3.005):  # at a pose, and between two
        events = race(square(rules=RaceRules("motion")), flown, signal_s=signal_s)
        assert [one.t_ns for one in of(RaceStarted, events)] == pytest.approx([4.02e9], abs=1e6)
    # Its first pose after that is of 4.51 s.
    moving = race(square(rules=RaceRules("motion")), flown, signal_s=4.505)
    assert [one.t_ns for one in of(RaceStarted, moving)] == pytest.approx([4.53e9], abs=1e6)
    at_once = race(square(rules=RaceRules("motion")), [(0.0, 0.0, 0.0, 2.0), (2.0, 10.0, 0.0, 2.0)])
    assert [one.t_ns for one in of(RaceStarted, at_once)] == pytest.approx([20_000_000], abs=1e6)


def test_a_racer_out_of_bounds_at_the_signal_is_out() -> None:
    course = replace(square(), bounds_m=(np.array([-1.0, -1.0, 0.0]), np.array([9.0, 11.0, 4.0])))
    outside = [
        (0.0, 9.5, 0.0, 2.0),
        (1.0, 9.5, 0.0, 2.0),
        (1.01, 8.5, 0.0, 2.0),
        (2.0, 8.5, 0.0, 2.0),
    ]
    assert [one.t_ns for one in of(RaceEnded, race(course, outside, signal_s=1.0))] == [
        1_000_000_000
    ]
    assert not of(RaceEnded, race(course, outside, signal_s=1.001))


SHORT_CUT: list[Stop] = [
    (0.0, 0.0, 0.0, 2.0), (1.0, 8.0, 0.0, 2.0), (2.0, 8.0, 10.0, 2.0), (3.0, 0.0, 10.0, 2.0),
    (4.0, 0.0, 0.0, 2.0)
]  # fmt: skip
"""Past gate 2 on its left, through all others."""


def test_a_gate_that_is_left_out() -> None:
    ignored = race(square(), SHORT_CUT)
    assert [one.number for one in of(GatePassed, ignored)] == [0]
    assert not of(RaceEnded, ignored)
    stopped = race(square(rules=RaceRules(missed="stop")), SHORT_CUT)
    assert [type(one) for one in stopped] == [RaceStarted, GatePassed, GateMissed, RaceEnded]
    assert of(RaceEnded, stopped)[0].outcome == "missed"
    fined = race(square(rules=RaceRules(missed="penalise", penalty_s=10.0)), SHORT_CUT)
    assert [one.number for one in of(GatePassed, fined)] == [0, 2, 3]
    assert [(one.gate, one.penalty_s) for one in of(GateMissed, fined)] == [("Gate2", 10.0)]
    (end,) = of(RaceEnded, fined)
    assert (end.outcome, end.penalty_s, end.passed) == ("finished", 10.0, 3)
    assert end.race_s == pytest.approx(3.5, abs=1e-6)


def test_the_last_gate_of_a_lap_is_left_out_by_the_first_of_the_next() -> None:
    stops = [*corners(1)[:-1], (8.0, 2.0, 10.0, 2.0), (10.0, 2.0, 0.0, 2.0), *[
        (t + 8.0, x, y, z) for t, x, y, z in corners(1)[2:]
    ]]  # fmt: skip
    events = race(square(laps=2, rules=RaceRules(missed="penalise", penalty_s=1.0)), stops)
    assert [one.number for one in of(GateMissed, events)] == [3]
    assert [one.number for one in of(GatePassed, events)] == [0, 1, 2, 4, 5, 6, 7]
    assert not of(LapDone, events)  # neither lap has both of its ends
    assert of(RaceEnded, events)[0].outcome == "finished"


def test_gates_of_another_lap_and_backwards_do_not_count() -> None:
    back = [(0.0, 0.0, 0.0, 2.0), (2.0, 8.0, 0.0, 2.0), (4.0, 0.0, 0.0, 2.0), (6.0, 8.0, 0.0, 2.0)]
    events = race(square(laps=3, rules=RaceRules(missed="penalise")), back)
    assert [one.number for one in of(GatePassed, events)] == [0]
    assert not of(GateMissed, events)


@pytest.mark.parametrize("noise_m", [0.0, 2e-3])
def test_hovering_in_a_gate_counts_once(noise_m: float) -> None:
    """One gate, many laps: 4 s in its plane, 2 cm to and fro, then on, back and through again."""
    rng = np.random.default_rng(1)
    course = replace(square(laps=5), order=(0,))
    clock = RaceClock(course)
    clock.signal(0)
    t_s = np.arange(0.0, 10.0, 0.01)
    x_m = np.interp(t_s, [0.0, 2.0, 6.0, 7.0, 8.0, 9.0], [0.0, 5.0, 5.0, 6.0, 4.0, 6.0])
    x_m += np.where((t_s > 2.0) & (t_s < 6.0), 0.02 * np.sin(20.0 * (t_s - 2.0)), 0.0) + rng.normal(
        0, noise_m, 1000
    )
    events: list[RaceEvent] = []
    for t, x in zip(t_s.tolist(), x_m.tolist(), strict=True):
        events += clock.feed(round(1e9 * t), np.array((x, 0.0, 2.0)))
    passed = of(GatePassed, events)
    assert [one.number for one in passed] == [0, 1]
    assert 5.5 < passed[0].race_s < 6.1  # the last crossing, after which it goes on
    assert passed[1].race_s == pytest.approx(8.5, abs=0.01)


def test_frames_and_poles_are_hit_once() -> None:
    beside = [(0.0, 0.0, 0.6, 2.0), (2.0, 10.0, 0.6, 2.0)]  # 0.1 m beyond the opening, in the frame
    stopped = race(square(), beside)
    assert [type(one) for one in stopped] == [RaceStarted, RaceCollision, RaceEnded]
    assert of(RaceCollision, stopped)[0].what == "Gate1"
    assert of(RaceCollision, stopped)[0].t_ns == pytest.approx(1e9, abs=1e3)
    past = [(0.0, 0.0, 0.8, 2.0), (2.0, 10.0, 0.8, 2.0)]
    assert not of(RaceCollision, race(square(), past))
    assert of(RaceCollision, race(square(), past, radius_m=0.15))
    pole = replace(
        square(rules=RaceRules(collision="penalise", penalty_s=3.0)),
        obstacles=(CourseObstacle("pole", np.array([2.0, 0.1, 2.5]), 0.05),),
    )
    hit = race(pole, [(0.0, 0.0, 0.0, 2.0), (2.0, 10.0, 0.0, 2.0)], radius_m=0.1)
    assert [(one.what, one.penalty_s) for one in of(RaceCollision, hit)] == [("pole", 3.0)]
    assert [one.number for one in of(GatePassed, hit)] == [0]
    over = [(0.0, 0.0, 0.0, 2.7), (2.0, 10.0, 0.0, 2.7)]
    assert not of(RaceCollision, race(pole, over, radius_m=0.1)[:1])


def test_reported_collisions_take_their_place_in_time_and_count_once_a_second() -> None:
    clock = RaceClock(square(rules=RaceRules(collision="penalise", penalty_s=3.0)))
    clock.signal(0)
    events: list[RaceEvent] = []
    for t, p_m in zip(*samples(corners(1)), strict=True):
        events += clock.feed(round(1e9 * t), p_m)
        if round(100 * t) in (150, 180, 300):
            clock.collide(round(1e9 * t), "drone_2")
    collisions = of(RaceCollision, events)
    assert [(one.t_ns, one.what) for one in collisions] == [
        (1_500_000_000, "drone_2"),
        (3_000_000_000, "drone_2"),
    ]
    assert of(RaceEnded, events)[0].penalty_s == 6.0
    assert all(a.t_ns <= b.t_ns for a, b in pairwise(events))


def test_bounds_and_time_end_a_race() -> None:
    bounds = np.array([-1.0, -1.0, 0.0]), np.array([9.0, 11.0, 4.0])
    left = race(replace(square(), bounds_m=bounds), corners(1))
    (end,) = of(RaceEnded, left)
    assert (end.outcome, end.passed) == ("out_of_bounds", 1)
    assert end.race_s == pytest.approx(2.81, abs=0.011)
    late = race(square(laps=2, rules=RaceRules(timeout_s=5.0)), corners(2))
    (end,) = of(RaceEnded, late)
    assert (end.outcome, end.race_s, end.passed) == ("timed_out", 5.0, 2)
    assert late[-1] is end
    just = race(square(rules=RaceRules(timeout_s=8.001)), corners(1))
    assert of(RaceEnded, just)[0].outcome == "finished"


def test_a_long_gap_says_nothing() -> None:
    clock = RaceClock(square())
    clock.signal(0)
    events: list[RaceEvent] = []
    for t, p_m in zip(*samples(corners(1)), strict=True):
        if not 1.7 < t < 2.3:  # gate 1 is passed at 2 s
            events += clock.feed(round(1e9 * t), p_m)
    assert not of(GatePassed, events)


def test_events_do_not_depend_on_when_they_are_asked_for_and_poses_come_in_order() -> None:
    one = race(square(laps=2), corners(2))
    assert one == race(square(laps=2), corners(2))
    clock = RaceClock(square())
    clock.signal(0)
    clock.feed(10, np.zeros(3))
    with pytest.raises(ValueError, match="poses come in time order: 10 ns follows 10 ns"):
        clock.feed(10, np.zeros(3))


@pytest.mark.parametrize("name", course_names())
def test_every_shipped_course_can_be_raced(name: str) -> None:
    """Straight from gate to gate at 6 m/s, 0.8 m before and behind each.

    All gates, no frame, in bounds and in time.
    """
    course = load_course(name)
    flying = course.rules.clock == "first_gate"
    places = [course.start.p_m]
    for index in course.order * course.laps + (course.order[:1] if flying else ()):
        places += [
            course.gates[index].T_world_gate.apply(np.array([x, 0.0, 0.0])) for x in (-0.8, 0.8)
        ]
    times = np.cumsum([0.0, *(np.linalg.norm(np.diff(places, axis=0), axis=1) / 6.0)])
    stops = [(float(t), *place.tolist()) for t, place in zip(times, places, strict=True)]
    events = race(course, stops, radius_m=0.15)
    (end,) = of(RaceEnded, events)
    assert (end.outcome, end.penalty_s) == ("finished", 0.0)
    assert end.passed == len(course.order) * course.laps + flying
    assert len(of(LapDone, events)) == course.laps


@pytest.mark.parametrize(("kind", "count"), [("arcade_ground", 5), ("arcade_basement", 2)])
def test_arcades_courses_lie_within_their_bounds_and_differ(kind: str, count: int) -> None:
    courses = [load_course(name) for name in course_names() if name.startswith(kind)]
    assert len(courses) == count
    for course in courses:
        low, high = course.room_m
        outer = np.array([gate.corners_m for gate in course.gates]).reshape(-1, 3)
        assert ((outer > low + 0.2) & (outer < high - 0.2)).all()
    assert len({course.centres_m.tobytes() for course in courses}) == count
