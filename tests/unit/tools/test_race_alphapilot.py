"""AlphaPilot challenges: FlightGoggles' files read and written, and its own score."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vil_bridge.config.course import load_course
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course, RaceRules
from vil_bridge.courses.variants import perturbed
from vil_simulation.race.alphapilot import (
    HIDDEN_SEEDS,
    PUBLIC_SEEDS,
    AlphaPilotChallenge,
    read_challenge,
    write_challenge,
)
from vil_simulation.race.alphapilot_score import alphapilot_score, read_results, write_results

TO_ENU = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])

GATES = """\
Gate2:
  nominal_location: [[-0.255, 27.868, 4.160], [4.434, 27.868, 4.160], [4.434, 27.868, 0.933],
      [-0.255, 27.868, 0.933]]
  perturbation_bound: [0, 1, 5]
Gate10:
  location: [[18.151, 3.631, 7.229], [16.351, 3.632, 7.229], [18.151, 3.631, 5.383],
      [16.351, 3.632, 5.383]]
Gate21:
  location: [[15.154, 37.634, 8.376], [18.430, 41.250, 8.376], [18.430, 41.250, 5.149],
      [15.154, 37.634, 5.149]]
"""
CHALLENGE = """\
challenge_name: short
timeout: 300
gate_names: [Gate10, Gate21, Gate2]
gate_width: 0.3
init_pose: [18.0, -23.0, 5.3, 0, 0, 0.7071068, 0.7071068]
"""


def files(tmp_path: Path, gates: str = GATES, challenge: str = CHALLENGE) -> tuple[Path, Path]:
    paths = tmp_path / "gate_locations.yaml", tmp_path / "challenge.yaml"
    for path, text in zip(paths, (gates, challenge), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_a_challenge_is_read_in_our_axes(tmp_path: Path) -> None:
    challenge = read_challenge(*files(tmp_path))
    course = challenge.course
    assert [course.gates[index].name for index in course.order] == ["Gate10", "Gate21", "Gate2"]
    assert course.start.p_m == pytest.approx([23.0, 18.0, 5.3])
    # It looks west.
    assert course.start.rotation()[:, 0] == pytest.approx([-1.0, 0.0, 0.0], abs=1e-6)
    gate = course.gates[0]
    # (x, y, z) of the file is our (-y, x, z).
    assert gate.T_world_gate.p_m == pytest.approx([-27.868, 2.0895, 2.5465])
    assert (gate.width_m, gate.height_m) == pytest.approx((4.689, 3.227))
    # Gate 21 is west of it: eastwards.
    assert gate.T_world_gate.rotation()[:, 0] == pytest.approx([1.0, 0.0, 0.0])
    assert gate.spread.high_m == (1.0, 0.0, 0.0)
    assert gate.spread.high_rpy_rad == pytest.approx((0.0, 0.0, math.radians(5.0)))
    assert challenge.markers_m[2] == pytest.approx(np.array([
        (-0.255, 27.868, 4.160), (4.434, 27.868, 4.160), (4.434, 27.868, 0.933),
        (-0.255, 27.868, 0.933),
    ]) @ TO_ENU.T)  # fmt: skip
    assert (course.rules.timeout_s, challenge.gate_width_m) == (300.0, 0.3)


def test_the_shipped_course_is_the_challenges(tmp_path: Path) -> None:
    shipped = load_course("alphapilot")
    read = read_challenge(*files(tmp_path)).course
    for gate in read.gates:
        (same,) = [one for one in shipped.gates if one.name == gate.name]
        assert same.corners_m == pytest.approx(gate.corners_m, abs=1e-3)
    assert len(shipped.gates) == 11


def test_the_shipped_courses_gates_face_along_the_race() -> None:
    course = load_course("alphapilot")
    yaw = {
        gate.name: math.degrees(math.atan2(*gate.T_world_gate.rotation()[1::-1, 0]))
        for gate in course.gates
    }
    assert yaw["Gate22"] == pytest.approx(135.0, abs=0.1)
    assert yaw["Gate14"] == pytest.approx(45.0, abs=0.1)
    assert course.gates[5].width_m == pytest.approx(3.904 * 2**0.5, abs=1e-3)


@pytest.mark.parametrize("seed", [None, 0, 31])
def test_a_written_challenge_reads_back(seed: int | None, tmp_path: Path) -> None:
    course = load_course("alphapilot")
    challenge = AlphaPilotChallenge.of(course if seed is None else perturbed(course, seed))
    paths = files(tmp_path)
    write_challenge(challenge, *paths)
    again = read_challenge(*paths)
    assert again.markers_m == pytest.approx(challenge.markers_m, abs=2e-6)
    assert again.course.rules == challenge.course.rules
    assert again.course.start.matrix() == pytest.approx(challenge.course.start.matrix(), abs=1e-5)
    for gate, same in zip(again.course.gates, challenge.course.gates, strict=True):
        assert gate.corners_m == pytest.approx(same.corners_m, abs=2e-6)
        assert gate.spread.high_m == same.spread.high_m
    assert ("nominal_location" in paths[0].read_text(encoding="utf-8")) == (seed is None)


@pytest.mark.parametrize(
    ("gates", "challenge", "expected"),
    [
        (GATES, CHALLENGE.replace("Gate21, ", "Gate12, "), "no gate of .* is named 'Gate12'"),
        (
            GATES.replace("location: [[18.151", "place: [[18.151"),
            CHALLENGE,
            "Gate10.place: unknown key",
        ),
        (GATES.replace("[18.151, 3.631, 7.229], ", ""), CHALLENGE, "Gate10.location"),
        (
            GATES,
            CHALLENGE.replace("timeout: 300", "timeout: soon"),
            r"challenge.yaml:2:1: timeout: .*number",
        ),
        (
            GATES.replace("1.134", "3.072")
            .replace("[15.154, 37.634, 5.149]", "[15.154, 37.634, 8.376]")
            .replace("[18.430, 41.250, 5.149]", "[18.430, 41.250, 8.376]"),
            CHALLENGE,
            "Gate21: .*not the corners of one opening",
        ),
        (
            GATES,
            CHALLENGE.replace("0.7071068, 0.7", "7, 0.7"),
            "quaternion of init_pose has length 7.04",
        ),
        ("", CHALLENGE, "the file is empty"),
    ],
)
def test_mistakes_in_challenges_are_named(
    gates: str, challenge: str, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=expected):
        read_challenge(*files(tmp_path, gates, challenge))


# --- score ----------------------------------------------------------------------------------------


def marked(x_m: float) -> FloatArray:
    """Markers of an upright gate at x, 2 m wide and high, not in a circle's order, (4, 3)."""
    return np.array([(x_m, -1.0, 1.0), (x_m, 1.0, 1.0), (x_m, -1.0, 3.0), (x_m, 1.0, 3.0)])


def row_of(*places_m: float) -> AlphaPilotChallenge:
    """Gates across x."""
    g = len(places_m)
    centres = np.array([(x, 0.0, 2.0) for x in places_m])
    course = Course.upright(centres, np.zeros(g), np.full((g, 2), 2.0), np.array([-5.0, 0.0, 2.0]))
    return AlphaPilotChallenge(
        replace(course, rules=RaceRules(timeout_s=300.0)), np.array([marked(x) for x in places_m])
    )


def flown(points: list[tuple[float, float]]) -> tuple[FloatArray, FloatArray]:
    """Times and positions at y = 0, z = 2 of (time, x)."""
    return np.array([t for t, _ in points]), np.array([(x, 0.0, 2.0) for _, x in points])


def test_the_challenges_score_by_hand() -> None:
    gates = row_of(0.0, 5.0, 10.0)
    whole = alphapilot_score(
        *flown([(0.0, -3.0), (1.0, 0.0), (2.0, 5.05), (3.5, 9.95), (9.0, 0.0)]), gates
    )
    assert (whole.times_s, whole.outcome) == ((1.0, 2.0, 3.5), "Challenge Completed")
    assert (whole.last_s, whole.score) == (3.5, 26.5)
    skipped = alphapilot_score(*flown([(1.0, 0.0), (2.0, 10.0), (3.0, 5.0)]), gates)
    assert (skipped.passed, skipped.outcome, skipped.score) == (
        (True, False, True),
        "Challenge Completed",
        18.0,
    )
    four = row_of(0.0, 5.0, 10.0, 15.0)
    back = alphapilot_score(*flown([(1.0, 0.0), (2.0, 10.0), (3.0, 5.0), (4.0, 15.0)]), four)
    # Missed for good.
    assert (back.passed, back.last_s, back.score) == ((True, False, True, True), 4.0, 26.0)
    unfinished = alphapilot_score(*flown([(1.0, 0.0), (2.0, 5.0)]), gates)
    assert (unfinished.passed, unfinished.last_s, unfinished.score) == (
        (True, True, False),
        2.0,
        0.0,
    )
    assert unfinished.outcome == "Interrupted"
    late = alphapilot_score(*flown([(1.0, 0.0), (2.0, 5.0), (300.5, 10.0)]), gates)
    assert (late.outcome, late.score) == ("Timed out", 0.0)
    crashed = alphapilot_score(
        *flown([(1.0, 0.0), (2.0, 5.0), (3.0, 10.0)]), gates, collision_s=2.5
    )
    assert (crashed.outcome, crashed.passed, crashed.score) == (
        "Collision",
        (True, True, False),
        0.0,
    )
    after = alphapilot_score(*flown([(1.0, 0.0), (2.0, 5.0), (3.0, 10.0)]), gates, collision_s=3.5)
    assert (after.outcome, after.score) == ("Challenge Completed", 27.0)


def test_the_challenges_defects_are_its_rules() -> None:
    """No sweep: a jump over the box between samples is a miss; no direction.

    9 cm before a gate counts.
    """
    gate = row_of(0.0)
    assert not alphapilot_score(*flown([(1.0, -0.5), (2.0, 0.5)]), gate).passed[0]
    assert alphapilot_score(*flown([(1.0, 0.5), (2.0, 0.0), (3.0, -0.5)]), gate).passed[0]
    assert alphapilot_score(*flown([(1.0, -0.09)]), gate).passed[0]
    assert not alphapilot_score(*flown([(1.0, -0.11)]), gate).passed[0]  # the box is strict: 0.1 m
    # And the plane 0.3 m.
    assert not alphapilot_score(*flown([(1.0, -0.31)]), replace(gate, inflation_m=1.0)).passed[0]


def test_the_diagonal_gates_box_is_wider_than_its_opening(tmp_path: Path) -> None:
    """Values computed with the challenge's own reporter for gate 21."""
    only = CHALLENGE.replace("[Gate10, Gate21, Gate2]", "[Gate21]")
    challenge = read_challenge(*files(tmp_path, challenge=only))
    centre = np.array([16.792, 39.442, 6.7625])
    normal = challenge.course.axes[2, :, 0] @ TO_ENU
    for point, passes in (
        (centre, True),
        (centre + 0.29 * normal, True),
        (centre + 0.31 * normal, False),
        (np.array([15.06, 37.54, 6.0]), True),  # next to the post
        (np.array([15.05, 37.54, 6.0]), False),  # the edge of the box
    ):
        assert alphapilot_score([1.0], (point @ TO_ENU.T)[None], challenge).passed == (passes,)


def reporter(times: FloatArray, points: FloatArray, challenge: AlphaPilotChallenge) -> float:
    """Return the challenge's score by its rules, one sample and one gate after the other."""
    boxes, planes = [], []
    for markers in challenge.markers_m:
        boxes.append(
            [
                (low - 0.1, high + 0.1)
                for low, high in zip(markers.min(axis=0), markers.max(axis=0), strict=True)
            ]
        )
        n = np.cross(markers[1] - markers[0], markers[2] - markers[0])
        planes.append(
            (*(n / np.linalg.norm(n)).tolist(), float(markers[0] @ n / np.linalg.norm(n)))
        )
    hits, first = 0, 0
    for t, (x, y, z) in zip(times.tolist(), points.tolist(), strict=True):
        for k in range(first, len(boxes)):
            (x0, x1), (y0, y1), (z0, z1) = boxes[k]
            nx, ny, nz, d = planes[k]
            in_box = x0 < x < x1 and y0 < y < y1 and z0 < z < z1
            if in_box and abs(nx * x + ny * y + nz * z - d) < challenge.gate_width_m:
                hits, first = hits + 1, k + 1
        if first == len(boxes):
            return 10.0 * hits - t if t <= 300.0 else 0.0
    return 0.0


@pytest.mark.parametrize("seed", [*PUBLIC_SEEDS, *HIDDEN_SEEDS])
def test_flights_of_every_perturbed_course_have_the_challenges_score(seed: int) -> None:
    """150 Hz samples through the gates of each of the 25 + 25 courses.

    Every fourth flight leaves a gate out.
    """
    challenge = AlphaPilotChallenge.of(perturbed(load_course("alphapilot"), seed))
    rng = np.random.default_rng(seed)
    course = challenge.course
    knots = [course.start.p_m]
    for k, (centre, axes) in enumerate(zip(course.centres_m, course.axes, strict=True)):
        aside = 6.0 if seed % 4 == 0 and k == 4 else rng.uniform(-0.6, 0.6)
        knots += [
            centre - 1.5 * axes[:, 0] + aside * axes[:, 1],
            centre + 1.5 * axes[:, 0] + aside * axes[:, 1],
        ]
    ways = np.cumsum([0.0, *np.linalg.norm(np.diff(knots, axis=0), axis=1)])
    times = np.arange(0.0, ways[-1] / 9.0, 1.0 / 150.0)
    points = np.stack(
        [np.interp(9.0 * times, ways, np.array(knots)[:, i]) for i in range(3)], axis=1
    )
    score = alphapilot_score(times, points, challenge)
    assert score.outcome == "Challenge Completed"
    assert sum(score.passed) == 11 - (seed % 4 == 0)
    assert score.score == pytest.approx(reporter(times, points, challenge), abs=1e-3)
    assert score.score > 60.0


def test_samples_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="samples are"):
        alphapilot_score([1.0], np.zeros((2, 3)), row_of(0.0))


# --- logs and the files that the project ships ----------------------------------------------------


def test_the_projects_own_forms_are_read(tmp_path: Path) -> None:
    """The pose inside the dynamics' section, ``perturbation`` next to ``location``, and a gate
    that lies flat.
    """
    flat = (
        "Gate12:\n  location: [[18.408, 13.606, 9.143], [16.334, 14.092, 9.144], "
        "[18.907, 15.733, 9.143], "
        "[16.833, 16.219, 9.143]]\n  perturbation: [2.0, 1.0, 5.0]\n"
    )
    pose = "init_pose: [18.0, -23.0, 5.3, 0, 0, 0.7071068, 0.7071068]"
    nested = (
        CHALLENGE.replace(pose, f"flightgoggles_uav_dynamics:\n  {pose}")
        + 'results_location: "results.yaml"\n'
    )
    course = read_challenge(*files(tmp_path, GATES + flat, nested)).course
    assert course.start.p_m == pytest.approx([23.0, 18.0, 5.3])
    gate = course.gates[3]
    assert gate.spread.high_m == (1.0, 2.0, 0.0)
    assert (gate.width_m, gate.height_m) == pytest.approx((2.18, 2.13), abs=0.06)
    assert abs(gate.T_world_gate.rotation()[2, 0]) == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(ConfigError, match="give init_pose"):
        read_challenge(*files(tmp_path, GATES, CHALLENGE.replace(pose, "")))


LOG = """\
Gate0: {Location: [17.2, 3.6, 6.3], Name: Gate10, Success: 'True', Time: 4.25}
Gate1: {Name: Gate21, Success: 'False'}
Gate2: {Location: [2.1, 27.9, 2.5], Name: Gate2, Success: 'True', Time: 11.5}
Result: Challenge Completed
"""


def test_a_log_has_the_challenges_score(tmp_path: Path) -> None:
    path = tmp_path / "results.yaml"
    path.write_text(LOG, encoding="utf-8")
    score = read_results(path, 3)
    assert (score.times_s, score.outcome, score.score) == (
        (4.25, None, 11.5),
        "Challenge Completed",
        8.5,
    )
    path.write_text(LOG.replace("Challenge Completed", "Collision"), encoding="utf-8")
    assert read_results(path, 3).score == 0.0
    path.write_text(LOG.replace(", Time: 4.25", ""), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"Gate0.*has a Time"):
        read_results(path, 3)


@pytest.mark.parametrize(
    "flight", [[(1.0, 0.0), (2.0, 10.0)], [(1.0, 0.0), (2.0, 5.0)], [(1.0, -9.0)]]
)
def test_a_written_log_reads_back(flight: list[tuple[float, float]], tmp_path: Path) -> None:
    challenge = row_of(0.0, 5.0, 10.0)
    score = alphapilot_score(*flown(flight), challenge)
    write_results(score, challenge, tmp_path / "results.yaml")
    assert read_results(tmp_path / "results.yaml", 3) == score
