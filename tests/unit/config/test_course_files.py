"""Course files: what they say, what is wrong with them and where, and that a written file reads
back the same.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vil_bridge.config.course import load_course, write_course
from vil_bridge.config.courses import course_names
from vil_bridge.core.errors import ConfigError
from vil_bridge.courses.course import Course, CourseObstacle, PoseSpread, RaceRules
from vil_bridge.courses.variants import perturbed

COURSE = """\
course: yard
laps: 2
start: {p_m: [-1, 0, 1], yaw_deg: 30, spread: {low_m: [0, 0, 0], high_m: [0, 0, 0.02]}}
order: [B, A, B]
gates:
  - {name: A, p_m: [3, 0, 1.5], yaw_deg: 90, width_m: 1.2, height_m: 1, margin_m: 0.1, bar_m: 0.05}
  - {name: B, corners_m: [[0, 1, 2], [0, -1, 2], [0, -1, 1], [0, 1, 1]]}
obstacles:
  - {name: pole, p_m: [1, 1, 1.5], radius_m: 0.1}
bounds: {low_m: [-5, -5, 0], high_m: [5, 5, 4]}
rules: {clock: first_gate, missed: penalise, collision: ignore, penalty_s: 5, timeout_s: 60}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "yard.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def assert_same(one: Course, other: Course) -> None:
    assert (one.name, one.order, one.laps, one.rules) == (
        other.name,
        other.order,
        other.laps,
        other.rules,
    )
    for gate, again in zip(one.gates, other.gates, strict=True):
        assert (gate.name, gate.margin_m, gate.bar_m) == (again.name, again.margin_m, again.bar_m)
        assert gate.corners_m == pytest.approx(again.corners_m, abs=2e-6)
        spreads = [
            (*s.low_m, *s.high_m, *s.low_rpy_rad, *s.high_rpy_rad)
            for s in (gate.spread, again.spread)
        ]
        assert spreads[0] == pytest.approx(spreads[1], abs=1e-7)
    for pole, same in zip(one.obstacles, other.obstacles, strict=True):
        assert (pole.name, pole.radius_m, pole.top_m.tolist()) == (
            same.name,
            same.radius_m,
            same.top_m.tolist(),
        )
    assert one.start.matrix() == pytest.approx(other.start.matrix(), abs=1e-6)
    assert np.array(one.bounds_m or 0.0) == pytest.approx(np.array(other.bounds_m or 0.0))


def test_a_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    course = load_course(written(tmp_path, COURSE))
    assert (course.name, course.laps, course.order) == ("yard", 2, (1, 0, 1))
    a, b = course.gates
    assert (a.margin_m, a.bar_m, a.width_m, a.height_m) == (0.1, 0.05, 1.2, 1.0)
    assert a.T_world_gate.rotation()[:, 0] == pytest.approx([0.0, 1.0, 0.0], abs=1e-12)
    assert (b.width_m, b.height_m, b.bar_m) == (2.0, 1.0, 0.3)
    # Seen along +x: left is +y.
    assert b.T_world_gate.rotation() == pytest.approx(np.eye(3), abs=1e-12)
    assert course.rules == RaceRules("first_gate", "penalise", "ignore", 5.0, 60.0)
    assert course.spread.high_m == (0.0, 0.0, 0.02)
    assert course.bounds_m is not None
    assert course.room_m == course.bounds_m


@pytest.mark.parametrize("name", course_names())
def test_shipped_courses_survive_writing_and_reading(name: str, tmp_path: Path) -> None:
    course = load_course(name)
    assert course.name == name
    assert_same(load_course(written(tmp_path, write_course(course))), course)


def test_everything_that_a_course_holds_is_written(tmp_path: Path) -> None:
    course = load_course(written(tmp_path, COURSE))
    spread = PoseSpread((-0.1, 0.0, 0.0), (0.2, 0.0, 0.0), (0.0, -0.3, 0.0), (0.0, 0.3, 0.1))
    full = replace(
        course,
        gates=tuple(replace(gate, spread=spread) for gate in course.gates),
        obstacles=(CourseObstacle("pole", np.array([1.0, 2.0, 3.0]), 0.1, spread),),
    )
    again = load_course(written(tmp_path, write_course(full)))
    assert_same(again, full)
    assert again.obstacles[0].spread.low_rpy_rad == pytest.approx(spread.low_rpy_rad)


@pytest.mark.parametrize(
    ("old", "new", "place", "cure"),
    [
        ("width_m: 1.2", "width: 1.2", "6:46: gates.0.width", "did you mean 'width_m'?"),
        ("order: [B, A, B]", "order: [B, C]", "4:12: order.1", "no gate is named 'C'; known: A, B"),
        (
            "gates:\n",
            "gates:\n  - {name: A, width_m: 1, height_m: 1}\n",
            "7:6: gates.1.name",
            "'A' is named twice",
        ),
        (
            "[0, -1, 1], [0, 1, 1]",
            "[0, 1, 1], [0, -1, 1]",
            "7:5: gates.1",
            "Give top left, top right, bottom right",
        ),
        (
            "margin_m: 0.1",
            "margin_m: 0.5",
            "6:5: gates.0",
            "leaves nothing of an opening of 1.2 x 1 m",
        ),
        ("high_m: [5, 5, 4]", "high_m: [5, 5, -4]", "10:1: bounds", "swap them"),
        ("laps: 2", "laps: 0", "2:1: laps", "greater than or equal to 1"),
        ("missed: penalise", "missed: penalize", "11:28: rules.missed", "did you mean 'penalise'?"),
        (
            "bounds: {low_m: [-5, -5, 0], high_m: [5, 5, 4]}",
            "layout: random",
            "1:1",
            "random layout needs bounds",
        ),
        ("width_m: 1.2, ", "", "6:5: gates.0", "give width_m and height_m, or corners_m"),
        ("{name: B, ", "{name: B, width_m: 2, ", "7:5: gates.1", "leave width_m out"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_cure(
    old: str, new: str, place: str, cure: str, tmp_path: Path
) -> None:
    assert old in COURSE
    path = written(tmp_path, COURSE.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_course(path)
    (line,) = caught.value.problems
    assert line.startswith(f"{path}:{place}: ")
    assert cure in line


def test_unknown_courses_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no course is named 'alphapilo'; known: .*did you mean 'alphapilot'"
    ):
        load_course("alphapilo")
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read"):
        load_course(tmp_path / "none.yaml")


def test_a_seed_moves_gates_within_their_spreads_and_no_farther() -> None:
    nominal = load_course("alphapilot")
    index = {gate.name: number for number, gate in enumerate(nominal.gates)}
    courses = [perturbed(nominal, seed) for seed in range(200)]
    shift = np.array([course.centres_m for course in courses]) - nominal.centres_m
    turned = np.array([course.axes[:, 1, 0] for course in courses])
    # The challenge's bounds are dx north and dy west: gate 2 moves 1 m along our x at most, and
    # never along y.
    assert np.abs(shift[:, index["Gate2"], 1]).max() < 1e-12
    assert 0.9 < np.abs(shift[:, index["Gate2"], 0]).max() <= 1.0
    assert (np.abs(shift[:, index["Gate13"], :2]).max(axis=0) > 2.3).all()
    assert np.abs(shift[:, index["Gate13"]]).max() <= 2.5
    assert np.abs(shift[:, :, 2]).max() < 1e-12
    degrees = np.degrees(np.arcsin(turned[:, index["Gate13"]]))  # its nominal yaw is 0
    assert 4.5 < np.abs(degrees).max() <= 5.0
    assert_same(perturbed(nominal, 7), perturbed(nominal, 7))
    assert np.abs(perturbed(nominal, 7).centres_m - perturbed(nominal, 8).centres_m).max() > 0.5


def test_obstacles_and_starts_are_moved_too(tmp_path: Path) -> None:
    course = load_course(written(tmp_path, COURSE))
    spread = PoseSpread((-0.15, 0.0, 0.0), (0.15, 0.1, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.1))
    pole = replace(course.obstacles[0], spread=spread)
    made = [
        perturbed(replace(course, obstacles=(pole,), spread=spread), seed) for seed in range(50)
    ]
    away = np.array([one.obstacles[0].top_m for one in made]) - pole.top_m
    assert np.abs(away[:, 0]).max() > 0.13
    assert (away[:, 1] >= 0.0).all()
    assert not away[:, 2].any()
    starts = np.array([one.start.p_m for one in made]) - course.start.p_m
    assert not np.allclose(starts, away)
    assert {one.spread for one in made} == {PoseSpread()}
