"""Race courses in scenes: the AlphaPilot final, and any course in any scene."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.support.scenefile import problems, read
from tests.support.scenes import built, first_hits, owners
from vil_bridge.config.course import load_course
from vil_bridge.courses.variants import perturbed
from vil_renderer.embedded.scene import CLASSES, Scene

SHIPPED = {name: partial(built, name) for name in ("hall", "yard", "empty", "course", "alphapilot")}


def test_the_final_has_the_challenges_gates_and_beacons() -> None:
    scene, course = built("alphapilot"), load_course("alphapilot")
    assert [gate.name for gate in scene.gates] == [gate.name for gate in course.gates]
    beacons = {beacon.name: beacon.p_m for beacon in scene.beacons}
    assert len(beacons) == 44
    for gate, same in zip(scene.gates, course.gates, strict=True):
        assert gate.T_world_gate.matrix() == pytest.approx(same.T_world_gate.matrix())
        assert np.array([beacons[f"{gate.name}_{k}"] for k in (1, 2, 3, 4)]) == pytest.approx(
            same.corners_m
        )
    assert beacons["Gate2_1"] == pytest.approx([-27.868, 4.434, 4.160], abs=1e-3)


def test_the_finals_gates_are_open_and_their_beacons_seen() -> None:
    scene = built("alphapilot")
    for gate in scene.gates:
        forward = gate.T_world_gate.rotation()[:, 0]
        y, z = (np.linspace(-0.5, 0.5, 9) * (size - 0.16) for size in (gate.width_m, gate.height_m))
        opening = gate.T_world_gate.apply(
            np.stack(np.meshgrid([0.0], y, z), axis=-1).reshape(-1, 3)
        )
        for sign in (1.0, -1.0):
            _, distance = first_hits(
                "alphapilot", opening, np.tile(sign * forward, (len(opening), 1))
            )
            assert distance.min() > 3.0, gate.name
        corners = np.array([b.p_m for b in scene.beacons if b.name.rpartition("_")[0] == gate.name])
        pilot = gate.T_world_gate.apply(np.array([-3.0, 0.0, 0.0]))
        way = corners - pilot
        length = np.linalg.norm(way, axis=1, keepdims=True)
        _, distance = first_hits("alphapilot", np.tile(pilot, (4, 1)), way / length)
        assert (distance > length[:, 0] - 1e-4).all(), gate.name
        _, ahead = first_hits("alphapilot", corners, np.tile(forward, (4, 1)))
        assert ahead == pytest.approx(0.005, abs=2e-3), "just in front of the light"


@pytest.mark.parametrize("seed", [None, *range(0, 50, 5)])
def test_nothing_stands_on_the_way(seed: int | None) -> None:
    """Straight from gate to gate, through every perturbed course: only gates can be met."""
    course = load_course("alphapilot")
    course = course if seed is None else perturbed(course, seed)
    places = [course.start.p_m]
    for gate in course.gates:
        places += [gate.T_world_gate.apply(np.array([x, 0.0, 0.0])) for x in (-2.0, 2.0)]
    for before, after in pairwise(places):
        way = after - before
        length = float(np.linalg.norm(way))
        triangle, distance = first_hits("alphapilot", before[None], way[None] / length)
        if distance[0] < length:
            (name,) = owners("alphapilot", triangle)
            assert name.startswith("Gate"), name


@pytest.mark.parametrize("base", sorted(SHIPPED))
@pytest.mark.parametrize("course", ["slalom", "alphapilot"])
def test_any_course_stands_in_any_scene(base: str, course: str, tmp_path: Path) -> None:
    scene = read(tmp_path, f"scene: s\nbase: {base}\ncourse: {course}\n", SHIPPED)
    wanted = load_course(course)
    assert [gate.name for gate in scene.gates] == [gate.name for gate in wanted.gates]
    assert {thing.name for thing in scene.objects if thing.semantic == CLASSES["gate"]} == {
        gate.name for gate in wanted.gates
    }
    assert {b.name for b in scene.beacons} == {
        f"{gate.name}_{k}" for gate in wanted.gates for k in (1, 2, 3, 4)
    }
    assert_sound(scene)


def assert_sound(scene: Scene) -> None:
    assert len({thing.name for thing in scene.objects}) == len(scene.objects)
    gates = [thing.instance for thing in scene.objects if thing.semantic == CLASSES["gate"]]
    assert len(set(gates)) == len(gates)


def test_a_file_of_a_course_its_seed_and_its_poles(tmp_path: Path) -> None:
    (tmp_path / "yard.yaml").write_text(
        "course: yard\nstart: {}\ngates:\n"
        "  - {name: A, p_m: [3, 0, 1.5], ypr_deg: [90, 20, 0], width_m: 1.2, height_m: "
        "1, bar_m: 0,\n"
        "     spread: {low_m: [-1, 0, 0], high_m: [1, 0, 0]}}\n"
        "obstacles: [{name: pole, p_m: [1, 2, 1.5], radius_m: 0.1}]\n",
        encoding="utf-8",
    )
    text = "scene: s\nbase: hall\ncourse: yard.yaml\n"
    plain = read(tmp_path, text, SHIPPED)
    (gate,) = plain.gates
    assert gate.T_world_gate.p_m.tolist() == [3.0, 0.0, 1.5]
    (pole,) = [thing for thing in plain.objects if thing.name == "pole"]
    points = np.concatenate([part.p_m for node in pole.asset.nodes for part in node.primitives])
    points = points + pole.world_from_asset[:3, 3]
    assert points.min(axis=0) == pytest.approx([0.9, 1.9, 0.0], abs=1e-3)
    assert points.max(axis=0) == pytest.approx([1.1, 2.1, 1.5], abs=1e-3)
    moved = read(tmp_path, f"{text}course_seed: 2\n", SHIPPED).gates[0].T_world_gate.p_m
    assert 0.01 < abs(moved[0] - 3.0) <= 1.0
    assert moved[1:].tolist() == [0.0, 1.5]
    assert_sound(plain)


@pytest.mark.parametrize(
    ("text", "place", "cure"),
    [
        ("course: slalo\n", "3:1: course", "no course is named 'slalo'; known: alphapilot, "),
        ("course: none.yaml\n", "3:1: course", "none.yaml: cannot be read"),
        ("course_seed: 3\n", "1:1", "course_seed belongs to a course; name one"),
        (
            "course: oval\ngates: [{name: A, width_m: 1, height_m: 1}]\n",
            "1:1",
            "give gates or course, not both",
        ),
    ],
)
def test_mistakes_are_named(text: str, place: str, cure: str, tmp_path: Path) -> None:
    (line,) = problems(tmp_path, f"scene: s\nbase: hall\n{text}", SHIPPED)
    assert f":{place}: " in line
    assert cure in line
