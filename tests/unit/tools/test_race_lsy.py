"""Levels of lsy_drone_racing.

Read as courses, written again, their pass test and their random layouts.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.lsy_levels import GATES, POLES, level_file, level_text
from vil_bridge.config.course import load_course, write_course
from vil_bridge.core.errors import ConfigError
from vil_bridge.courses.course import CourseObstacle, PoseSpread
from vil_bridge.courses.variants import perturbed
from vil_simulation.race.lsy import read_lsy, write_lsy
from vil_simulation.race.toml_text import toml_text


def test_a_level_is_a_course(tmp_path: Path) -> None:
    course = read_lsy(level_file(tmp_path)).course
    assert course.name == "level2"
    assert [gate.name for gate in course.gates] == ["gate1", "gate2", "gate3", "gate4"]
    for gate, (p_m, yaw) in zip(course.gates, GATES, strict=True):
        assert gate.T_world_gate.p_m.tolist() == list(p_m)
        assert gate.T_world_gate.rotation()[:, 0] == pytest.approx(
            [math.cos(yaw), math.sin(yaw), 0.0]
        )
        assert (gate.width_m, gate.height_m, gate.margin_m, gate.bar_m) == (0.4, 0.4, -0.025, 0.16)
        assert gate.spread == PoseSpread(
            (-0.15, -0.15, -0.1), (0.15, 0.15, 0.1), (-0.05, -0.1, -0.2), (0.05, 0.1, 0.2)
        )
    assert [one.top_m.tolist() for one in course.obstacles] == [list(p_m) for p_m in POLES]
    assert course.start.p_m.tolist() == [-1.5, 0.75, 0.01]
    assert course.spread.high_m == (0.1, 0.1, 0.02)
    assert course.bounds_m is not None
    assert course.bounds_m[0].tolist() == [-2.5, -1.5, -0.001]
    assert course.rules.timeout_s == 30.0
    assert course.rules.collision == "stop"


@pytest.mark.parametrize(
    ("before", "after", "at_plane"),
    [
        ((0.40, 0.35, 0.70), (0.62, 0.14, 0.72), (0.465058, 0.003289, 0.009301)),
        ((0.62, 0.14, 0.72), (0.40, 0.35, 0.70), None),  # direction
        ((0.40, 0.65, 0.70), (0.72, 0.45, 0.70), None),  # outside
        ((0.30, 0.20, 0.70), (0.55, 0.45, 0.70), None),  # parallel
    ],
)
def test_passes_are_those_of_the_original(
    before: tuple[float, ...],
    after: tuple[float, ...],
    at_plane: tuple[float, ...] | None,
    tmp_path: Path,
) -> None:
    """Values computed with the project's own gate_passed, first gate."""
    course = read_lsy(level_file(tmp_path)).course
    ends = np.array([before]), np.array([after])
    crossings = course.crossings(*ends)
    assert crossings.passed[0, 0] == (at_plane is not None)
    if at_plane is not None:
        share = crossings.fraction[0, 0]
        _, y, z = course.from_gates(ends[0] + share * (ends[1] - ends[0]))[0, 0]
        assert (share, y, z) == pytest.approx(at_plane, abs=1e-6)


@pytest.mark.parametrize(("y_m", "passed"), [(0.22, True), (0.224, True), (0.226, False)])
def test_the_box_of_a_pass_is_larger_than_the_opening(
    y_m: float, passed: bool, tmp_path: Path
) -> None:
    course = read_lsy(level_file(tmp_path)).course
    gate = course.gates[3].T_world_gate
    ends = (gate.apply(np.array([[x, y_m, 0.0]])) for x in (-0.1, 0.1))
    assert course.crossings(*ends).passed[0, 3] == passed


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_levels_survive_writing_and_reading(level: int, tmp_path: Path) -> None:
    read = read_lsy(level_file(tmp_path, level))
    path = tmp_path / "again.toml"
    write_lsy(read.course, path, read.document)
    original, again = (
        tomllib.loads(text) for text in (level_text(level), path.read_text(encoding="utf-8"))
    )
    original["env"].setdefault("randomizations", {})
    assert_close(again, original)


def assert_close(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_close(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_close(a, b)
    else:
        assert one == (pytest.approx(other, abs=1e-8) if isinstance(one, float) else other)


def load_track(path: Path) -> dict[str, Any]:
    """Return the track as the project's loader takes it.

    Every key that it asks for must be there.
    """
    env = tomllib.loads(path.read_text(encoding="utf-8"))["env"]
    track = env["track"]
    assert {
        "id",
        "seed",
        "freq",
        "sensor_range",
        "control_mode",
        "disturbances",
        "randomizations",
    } <= env.keys()
    assert {"pos_limit_low", "pos_limit_high"} == track["safety_limits"].keys()
    order = np.asarray(track["gate_order"], np.int32)
    assert (
        order.ndim == 1
        and order.size > 0
        and (np.abs(order) <= len(track["gates"])).all()
        and (order != 0).all()
    )
    return {
        "gate_order": np.abs(order) - 1,
        "gate_pos": np.array([gate["pos"] for gate in track["gates"]], np.float32),
        "gate_rpy": np.array([gate["rpy"] for gate in track["gates"]], np.float32),
        "obstacle_pos": np.array([one["pos"] for one in track["obstacles"]], np.float32),
        "drones": {
            key: np.array([one.get(key) for one in track["drones"]]) for key in track["drones"][0]
        },
    }


def test_a_course_of_ours_is_a_level_there(tmp_path: Path) -> None:
    ours = load_course("slalom")
    small = tuple(replace(gate, width_m=0.4, height_m=0.4, margin_m=-0.025) for gate in ours.gates)
    pole = CourseObstacle("pole", np.array([1.0, 2.0, 1.5]), 0.015)
    course = replace(ours, gates=small, order=(1, 0, 2, 3, 4), obstacles=(pole,))
    path = tmp_path / "slalom.toml"
    write_lsy(course, path)
    track = load_track(path)
    assert track["gate_pos"][0].tolist() == [8.0, -1.0, 2.5]
    assert track["gate_order"].tolist() == [0, 1, 2, 3, 4]
    assert track["gate_rpy"][0] == pytest.approx([0.0, 0.0, -0.3])
    assert track["drones"].keys() == {"pos", "rpy", "vel", "ang_vel"}
    again = read_lsy(path).course
    assert again.centres_m == pytest.approx(course.centres_m[list(course.order)])
    assert again.room_m[0] == pytest.approx(course.room_m[0])


def test_an_order_of_gates_is_written_and_read(tmp_path: Path) -> None:
    ours = load_course("slalom")
    small = tuple(replace(gate, width_m=0.4, height_m=0.4, margin_m=-0.025) for gate in ours.gates)
    path = tmp_path / "laps.toml"
    write_lsy(replace(ours, gates=small, order=(2, 0, 2), laps=2), path)
    track = load_track(path)
    assert track["gate_order"].tolist() == [2, 0, 2, 2, 0, 2]
    assert track["gate_pos"] == pytest.approx(ours.centres_m)
    again = read_lsy(path).course
    assert (again.order, again.laps) == ((2, 0, 2, 2, 0, 2), 1)
    older = level_file(tmp_path, 2, "gate_order = [1, 2, 3, 4]\n", "")
    assert read_lsy(older).course.order == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, "gate 'Gate1' is 1.2 x 1.2 m, and there all are 0.4 m"),
    ],
)
def test_what_a_level_cannot_express_is_refused(
    change: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem):
        write_lsy(replace(load_course("slalom"), **change), tmp_path / "level.toml")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "pos = [0.5, 0.25, 0.7]",
            "pos = [0.5, 0.25]",
            r"env.track.gates.0.pos: has 2 of 3 values",
        ),
        ("rpy = [0.0, 0.0, -0.78]\n", "", r"env.track.gates.0.rpy: required key is missing"),
        (
            'fn = "uniform"',
            'fn = "normal"',
            r"env.randomizations.drone_pos.fn: should be 'uniform', got 'normal'",
        ),
        ("[controller]", f"deep = {20_000 * '['}", r"is not TOML: .*Correct that place"),
        (
            "[env.track.safety_limits]",
            "[env.limits]",
            r"env.track: randomize = true needs safety_limits",
        ),
        (
            "[1, 2, 3, 4]",
            "[1, -2]",
            r"env.track.gate_order: has -2: gates are flown forwards here. Turn that gate",
        ),
        ("[1, 2, 3, 4]", "[1, 5]", r"gate_order has 5: there are gates 1 to 4"),
        ("[controller]", "[controller", r"is not TOML: .*line 2.*Correct that place"),
    ],
)
def test_mistakes_in_levels_are_named(old: str, new: str, problem: str, tmp_path: Path) -> None:
    path = level_file(tmp_path, 3, old, new)
    with pytest.raises(ConfigError, match=problem):
        read_lsy(path)
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        read_lsy(tmp_path / "none.toml")


def test_level_3_places_everything_by_a_seed(tmp_path: Path) -> None:
    nominal = read_lsy(level_file(tmp_path, 3)).course
    assert nominal.layout == "random"
    plain = replace(
        nominal,
        gates=tuple(replace(gate, spread=PoseSpread()) for gate in nominal.gates),
        obstacles=tuple(replace(one, spread=PoseSpread()) for one in nominal.obstacles),
        spread=PoseSpread(),
    )
    nearest = []
    for seed in range(60):
        course = perturbed(plain, seed)
        assert course.layout == "fixed"
        assert (course.centres_m[:, 2] == plain.centres_m[:, 2]).all()
        assert (np.abs(course.centres_m[:, :2]) <= np.array([2.05, 1.05])).all()
        places = np.vstack((course.start.p_m[:2], course.centres_m[:, :2]))
        ways = np.diff(places, axis=0)
        off = np.arctan2(ways[:, 1], ways[:, 0]) - np.arctan2(
            course.axes[:, 1, 0], course.axes[:, 0, 0]
        )
        assert np.abs((off + np.pi) % (2.0 * np.pi) - np.pi).max() <= 0.75 + 1e-9
        nearest.append(min(np.linalg.norm(a - b) for k, a in enumerate(places) for b in places[:k]))
    assert np.mean(np.array(nearest) > 0.9) > 0.8  # where the hall has room for it
    assert write_course(perturbed(plain, 4)) == write_course(perturbed(plain, 4))
    assert write_course(perturbed(plain, 4)) != write_course(perturbed(plain, 5))


def test_toml_is_written_as_it_reads() -> None:
    document = {
        "a": 1,
        "text": 'say "hö"',
        "list": [1.5, -2e-9],
        "no": False,
        "t": {"x y": [], "u": {"v": "w"}},
        "m": [{"a": 1}, {"b": {"c": 2}}],
    }
    assert tomllib.loads(toml_text(document)) == document
    with pytest.raises(TypeError, match="no value like None"):
        toml_text({"a": None})
