"""The bridge of a person's race: its configuration, and mistakes with their cures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from vil_bridge.cli.main import app
from vil_bridge.config.course import load_course, write_course
from vil_bridge.config.load import load_text
from vil_bridge.core.errors import ConfigError
from vil_bridge.courses.course import Course
from vil_bridge.courses.variants import perturbed
from vil_bridge.registry import resolve
from vil_bridge.services.race.config import MOST_GATES
from vil_simulation.race.arcade import arcade_bridge, arcade_data

CONFIG = """
version: 1
rooms: {hall: {}}
sources: {sim: {type: simulated, room: hall, vehicles: {drone: {model: flightgoggles}}}}
actors: {drone: {kind: vehicle, source: sim, subject: drone}}
race: {course: %s, racers: [drone], arcade: %s}
"""


def crowded(path: Path) -> Path:
    """Write a course of one gate more than an arcade shows."""
    g = MOST_GATES + 1
    centres = np.column_stack((3.0 * np.arange(g), np.zeros(g), np.ones(g))).astype(np.float64)
    path.write_text(
        write_course(
            Course.upright(centres, np.zeros(g), np.ones((g, 2)), np.array((-3.0, 0.0, 1.0)))
        )
    )
    return path


def test_the_vehicle_begins_at_the_start_of_the_course() -> None:
    config = arcade_bridge("alphapilot", None, (1, 2), 3)
    start, vehicle = (
        load_course("alphapilot").start,
        arcade_data("alphapilot", None, (1, 2), 3)["sources"]["sim"],
    )
    assert vehicle["vehicles"]["drone"]["p_m"] == start.p_m.tolist()
    assert vehicle["vehicles"]["drone"]["yaw_deg"] == pytest.approx(180.0)
    race = config.section("race")
    assert race.arcade and race.seed is None
    assert (config.http.port, config.every_camera()["front"].actor) == (3, "drone")


def test_a_seed_moves_the_course() -> None:
    config = arcade_bridge("alphapilot", 3, (1, 2), 3)
    assert config.section("race").seed == 3
    assert arcade_data("alphapilot", 3, (1, 2), 3)["race"]["course"] == "alphapilot"
    moved = perturbed(load_course("alphapilot"), 3).start.p_m.tolist()
    assert (
        arcade_data("alphapilot", 3, (1, 2), 3)["sources"]["sim"]["vehicles"]["drone"]["p_m"]
        == moved
    )


@pytest.mark.wire
def test_mistakes_have_a_cure(tmp_path: Path) -> None:
    unknown = CliRunner().invoke(app, ["race", "alphapilt", "--pilot", "keyboard"])
    assert isinstance(unknown.exception, ConfigError) and "no course is named 'alphapilt'" in str(
        unknown.exception
    )
    course = crowded(tmp_path / "crowded.yaml")
    with pytest.raises(
        ConfigError, match=f"shows {MOST_GATES} gates and poles, this course has {MOST_GATES + 1}"
    ):
        load_text(CONFIG % (course, "true"), "bridge.yaml", resolve=resolve)
    fixed = load_text(CONFIG % (course, "false"), "bridge.yaml", resolve=resolve)
    assert fixed.section("race") is not None
