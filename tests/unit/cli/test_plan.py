"""``vil-bridge plan``: flights through scenes and maps, and the files it writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from vil_bridge.cli.main import app
from vil_bridge.core.errors import ConfigError
from vil_simulation.planning.flight_file import COLUMNS

ENDS = ("--from=-6.6,0.1,1.1", "--to=4.1,-2.9,1.1", "--speed", "3")


def plan(*words: object) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, words)])


def test_a_scene_is_mapped_planned_and_flown(tmp_path: Path) -> None:
    pytest.importorskip("ompl", reason="the package is not installed (extra plan)")
    csv, octomap = tmp_path / "flight.csv", tmp_path / "hall.bt"
    done = plan(*ENDS, "--scene", "hall", "--fly", "--out", csv, "--map-out", octomap)
    assert done.exit_code == 0, done.output
    assert "minimum snap:" in done.output and "the simulated flight touched nothing" in done.output
    header, *lines = csv.read_text().splitlines()
    assert tuple(header.split(",")) == COLUMNS
    rows = np.array([line.split(",") for line in lines], np.float64)
    assert np.allclose(rows[[0, -1], 1:4], [[-6.6, 0.1, 1.1], [4.1, -2.9, 1.1]], atol=1e-4)
    speed = np.linalg.norm(rows[:, 4:7], axis=1)
    assert 2.0 < speed.max() <= 3.001

    unknown = plan(*ENDS, "--map", octomap)
    assert isinstance(unknown.exception, ConfigError) and "no 0.40 m of room" in str(
        unknown.exception
    )
    waypoints = tmp_path / "flight.json"
    again = plan(*ENDS, "--map", octomap, "--through-unknown", "--out", waypoints)
    assert again.exit_code == 0, again.output
    found = json.loads(waypoints.read_text())
    assert found["frame"] == "ENU" and found["columns"] == list(COLUMNS)
    assert np.allclose(found["waypoints_m"][0], [-6.6, 0.1, 1.1])
    assert found["samples"][-1][0] == pytest.approx(found["duration_s"], abs=1e-6)


def test_a_flight_looks_at_a_landmark(tmp_path: Path) -> None:
    pytest.importorskip("ompl", reason="the package is not installed (extra plan)")
    csv, landmark = tmp_path / "flight.csv", np.array([0.0, 0.5, 1.5])
    done = plan(*ENDS, "--scene", "hall", "--look-at=0,0.5,1.5", "--out", csv)
    assert done.exit_code == 0 and "the landmark is in view for" in done.output, done.output
    rows = np.array([line.split(",") for line in csv.read_text().splitlines()[1:]], np.float64)
    x, y, _ = (landmark - rows[0, 1:4]).T
    assert rows[0, 10] == pytest.approx(np.arctan2(y, x), abs=0.02)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from=1,2", "--to=1,2,3"), "'1,2' is not a place: write X,Y,Z"),
        (("--from=1,2,x", "--to=1,2,3"), "is not a place"),
        (("--from=1,2,nan", "--to=1,2,3"), "is not a place"),
        (("--from=1,2,3",), "Missing option '--to'"),
        (("--from=1,2,3", "--to=4,5,6", "--map", __file__), "give one of --scene and --map"),
    ],
)
def test_a_query_is_two_places_and_one_scene(words: tuple[str, ...], message: str) -> None:
    done = plan(*words, "--scene", "empty")
    assert done.exit_code == 2 and message in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "flight.txt"), "a flight is written as .csv or .json"),
        (("--map-out", "map.pcd"), "a map is written as .ot, .bt or .ply"),
        (("--map", __file__), "not an OctoMap file"),
    ],
)
def test_files_that_are_not_written_are_refused_first(words: tuple[str, ...], message: str) -> None:
    done = plan(
        "--from=1,2,3", "--to=4,5,6", *words, *(() if "--map" in words else ("--scene", "empty"))
    )
    assert isinstance(done.exception, ConfigError) and message in str(done.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--look-at=1,2,3", "--fov", "wide"),
            "'wide' is not a field of view: write H,V in degrees",
        ),
        (("--send", "drone"), "write BRIDGE/ACTOR, such as http://127.0.0.1:8080/drone"),
        (("--live-map", "hall"), "it goes with --to and --send, and without another map"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: tuple[str, ...], message: str) -> None:
    done = plan("--from=1,2,3", "--to=4,5,6", "--scene", "empty", *words)
    assert done.exit_code == 2 and message in " ".join(done.output.split())


def test_a_map_has_no_surfaces_to_fly_by() -> None:
    done = plan("--from=1,2,3", "--to=4,5,6", "--map", __file__, "--fly")
    assert done.exit_code == 2 and "give --scene" in done.output


def test_without_ompl_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ompl", None)
    done = plan(*ENDS, "--scene", "hall", "--resolution", "0.2")
    assert isinstance(done.exception, ConfigError)
    assert "pip install '.[plan]'" in str(done.exception)
