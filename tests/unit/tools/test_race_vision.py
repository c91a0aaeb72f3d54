"""The vision pilot: openings in drawn pictures, sensors, and whole races."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from vil_bridge.cli.main import app
from vil_bridge.config.course import load_course, write_course
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course, PoseSpread, RaceRules
from vil_bridge.courses.variants import perturbed
from vil_simulation.race.results import RaceEpisode
from vil_simulation.race.vision import gate_detector
from vil_simulation.race.vision.gate_detector import ExpectedOpening, SeenOpening, find_openings
from vil_simulation.race.vision.gate_filter import GateFilter, SideView
from vil_simulation.race.vision.gate_map import GateMap
from vil_simulation.race.vision.readings import PilotEquipment, PilotReadings
from vil_simulation.race.vision_race import SensorRig, race_by_vision
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter

pytestmark = pytest.mark.gl

DRAWN = perturbed(load_course("alphapilot"), 3)
GATES = GateMap.of(DRAWN)
EQUIPMENT = PilotEquipment()
MODEL = FlightGogglesMulticopter()


@pytest.fixture(scope="module")
def rig() -> Iterator[SensorRig]:
    with SensorRig(DRAWN, MODEL, replace(EQUIPMENT, picture_hz=1000.0), 0) as made:
        yield made


def readings_at(rig: SensorRig, t_ns: int, pose: Transform) -> PilotReadings:
    x = MODEL.initial(1)
    x[0, 0:3], x[0, 6:10] = pose.p_m, pose.q_xyzw
    return rig.read(t_ns, x, MODEL.neutral(1))


def before_gate(
    gate: int, away_m: float, aside_rad: float, yaw_rad: float, tilt_rad: float
) -> Transform:
    """Return a pose in front of a gate that looks at it, but for some yaw and roll."""
    T = DRAWN.gates[gate].T_world_gate
    p_m = T.apply(np.array([-away_m * math.cos(aside_rad), -away_m * math.sin(aside_rad), 0.2]))
    way = T.p_m - p_m
    return Transform(p_m, q_from_euler_zyx(math.atan2(way[1], way[0]) + yaw_rad, 0.05, tilt_rad))


def look(
    rig: SensorRig, number: int, gate: int, pose: Transform, error_px: FloatArray, reach_px: float
) -> tuple[SideView, list[SeenOpening]]:
    """Return the true sides of an opening, and those found where it is expected in a wrong
    place.
    """
    truth = GateFilter(GATES, pose, np.zeros(3), EQUIPMENT.camera, EQUIPMENT.T_body_camera).sides(
        gate
    )
    picture = readings_at(rig, 1_000_000_000 * number, pose).picture
    assert picture is not None
    height_px = float(np.linalg.norm(truth.corners_px[0] - truth.corners_px[3]))
    bar_px = float(GATES.bars_m[gate] / GATES.openings_m[gate, 1]) * height_px
    expected = ExpectedOpening(
        truth.corners_px + error_px, reach_px, bar_px, bool(GATES.blue[gate])
    )
    return truth, find_openings(picture, expected)


def test_rays_beyond_the_picture_meet_nothing() -> None:
    """Whatever the memory held before: a race with the same seed is the same race."""
    mask = np.zeros((40, 60), np.uint8)
    for _ in range(10):
        held = [
            np.tile(np.array([0, 255], np.uint8), 240 * 150).reshape(240, 300) for _ in range(8)
        ]
        del held
        points, angles = gate_detector._edge_points(mask, np.array([5.0, 5.0]), 300.0)
        assert (len(points), len(angles)) == (0, 0)


def test_sides_of_openings_are_found_within_a_pixel(rig: SensorRig) -> None:
    rng = np.random.default_rng(5)
    errors: list[float] = []
    found = 0
    cases = [(gate, away) for gate in (0, 3, 4, 6, 8, 9) for away in (6.0, 10.0, 15.0)]
    for number, (gate, away_m) in enumerate(cases):
        pose = before_gate(gate, away_m, *rng.uniform(-0.25, 0.25, 3))
        truth, openings = look(rig, number, gate, pose, rng.uniform(-2.0, 2.0, 2), 4.0)
        if not openings:
            continue
        found += 1
        for line, ends in zip(truth.lines, openings[0].segments_px, strict=True):
            errors += [
                abs(float(line @ np.append(end, 1.0))) for end in ends if np.isfinite(end).all()
            ]
    assert found >= 0.85 * len(cases)
    assert np.median(errors) < 0.6
    assert np.quantile(errors, 0.8) < 1.5


def test_an_opening_is_found_far_from_where_it_is_expected(rig: SensorRig) -> None:
    pose = before_gate(0, 16.0, 0.1, 0.1, 0.05)
    truth, openings = look(rig, 100, 0, pose, np.array([35.0, 3.0]), 50.0)
    assert openings[0].corners_px == pytest.approx(truth.corners_px, abs=2.5)


def test_nothing_is_found_where_no_gate_stands(rig: SensorRig) -> None:
    pose = before_gate(0, 16.0, 0.1, 0.1, 0.05)
    assert look(rig, 101, 0, pose, np.array([120.0, 60.0]), 10.0)[1] == []
    assert look(rig, 102, 0, pose, np.array([-2000.0, 0.0]), 10.0)[1] == []


def test_readings_come_at_their_rates_and_hold_no_true_state() -> None:
    assert PilotReadings._fields == ("t_ns", "w_radps", "f_mps2", "range_m", "picture")
    with SensorRig(DRAWN, MODEL, EQUIPMENT, 0) as made:
        pose = Transform(np.array([20.0, 18.0, 5.0]), DRAWN.start.q_xyzw)
        read = [readings_at(made, round(1e9 * k / 240.0), pose) for k in range(240)]
    assert sum(one.picture is not None for one in read) == 30
    ranges = [one.range_m for one in read if one.range_m is not None]
    assert len(ranges) == 60 and np.mean(ranges) == pytest.approx(5.0, abs=0.05)
    assert np.std([one.w_radps for one in read]) > 0.01


def short_course() -> Course:
    """Return a course of three gates that a seed moves by up to 0.5 m."""
    centres = np.array([(8.0, 0.0, 2.0), (18.0, 1.0, 2.5), (27.0, 0.0, 2.0)])
    made = Course.upright(centres, np.zeros(3), np.full((3, 2), 1.8), np.array([0.0, 0.0, 2.0]))
    spread = PoseSpread((-0.5, -0.5, 0.0), (0.5, 0.5, 0.0), (0.0, 0.0, -0.08), (0.0, 0.0, 0.08))
    gates = tuple(replace(gate, spread=spread) for gate in made.gates)
    return replace(
        made, name="short", gates=gates, rules=RaceRules("signal", "penalise", "stop", 10.0)
    )


@pytest.mark.long
def test_a_short_course_is_completed_by_sensors_alone() -> None:
    reported: list[RaceEpisode] = []
    result = race_by_vision(short_course(), [1], reported.append)
    (one,) = result.episodes
    assert (one.ended, one.passed, one.what) == ("finished", 3, "")
    assert reported == [one] and result.pilot == "vision"


@pytest.mark.long
def test_the_verb_reports_each_race(tmp_path: Path) -> None:
    course, results = tmp_path / "short.yaml", tmp_path / "results.json"
    course.write_text(write_course(short_course()), encoding="utf-8")
    words = [
        "race",
        str(course),
        "--pilot",
        "vision",
        "--episodes",
        "1",
        "--seed",
        "2",
        "--json",
        str(results),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = json.loads(results.read_text())
    assert found["pilot"] == "vision" and found["completed"] == 1
    assert "completed 1 of 1" in done.stdout and "finished" in done.stderr


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_alphapilot_is_completed_from_pictures() -> None:
    (one,) = race_by_vision(load_course("alphapilot"), [0]).episodes
    assert (one.ended, one.passed) == ("finished", 11)
    assert one.time_s == pytest.approx(55.3, abs=0.5)
