"""Pilots of others: policies from files, and plug-ins by their entry points."""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from vil_bridge.cli.main import app
from vil_bridge.config.course import load_course, write_course
from vil_bridge.core.errors import ConfigError
from vil_bridge.courses.course import Course, RaceRules
from vil_simulation.race import pilots
from vil_simulation.race.pilots import pilot_factory, pilot_names
from vil_simulation.race.policies import LearnedPilots, PolicyNetwork, read_policy, write_policy
from vil_simulation.race.simulated_race import race
from vil_simulation.vehicles.envs.race import RaceTask, race_model

SMALL = 0.02


def gates_ahead() -> Course:
    """Return a course of three gates of 1.5 m."""
    centres = np.array([(4.0, 0.0, 2.0), (8.0, 0.6, 2.3), (12.0, 0.0, 2.0)])
    made = Course.upright(centres, np.zeros(3), np.full((3, 2), 1.5), np.array([0.0, 0.0, 2.0]))
    return replace(made, name="ahead", rules=RaceRules("signal", "penalise", "stop", 10.0, 30.0))


def steering() -> PolicyNetwork:
    """Return a network that steers towards the next gate by velocity, attitude and rates,
    without any training.
    """
    places = race_model().rotor_places()[0]
    hidden = np.zeros((18, 15))
    hidden[:3, :3] = 0.5 * np.eye(3)  # bounded distances to the gate
    used = [3, 4, 5, 9, 10, 11, 12, 13, 14, 15, 16, 17]
    hidden[used, np.arange(3, 15)] = SMALL  # the others, hardly bent
    bounded, direction, up, v, w = (
        np.eye(15)[:3],
        *(np.eye(15)[k : k + 3] / SMALL for k in (3, 6, 9, 12)),
    )
    wanted = 1.5 * bounded + 1.5 * direction - v  # change of velocity, body axes
    roll = 0.26 * (-0.15 * wanted[1] - up[1]) - 0.05 * w[0]
    pitch = 0.26 * (0.15 * wanted[0] + up[0]) - 0.05 * w[1]
    actions = [0.3 * wanted[2] + np.sign(y) * roll - np.sign(x) * pitch for x, y, _ in places]
    return PolicyNetwork([(hidden, np.zeros(15)), (np.column_stack(actions), np.zeros(4))])


def test_a_policy_from_a_file_flies_the_race_and_the_task_alike(tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    write_policy(steering(), path)
    policy = read_policy(path)
    (episode,) = race(gates_ahead(), "learned", LearnedPilots(policy), [0]).episodes
    assert (episode.ended, episode.passed, episode.what) == ("finished", 3, "")
    task = RaceTask(1, course=gates_ahead(), autoreset="next_step", time_limit_s=20.0)
    observations, ended = task.reset(), False
    while not ended:
        result = task.step(policy(np.asarray(observations, np.float64)))
        observations, ended = result.obs, bool(result.terminated[0] or result.truncated[0])
    assert task.passed[0] == 3
    assert task.last_s[0] == pytest.approx(episode.time_s, abs=0.5)  # its start is up to 0.3 m away


def test_the_verb_flies_a_policy(tmp_path: Path) -> None:
    write_policy(steering(), tmp_path / "policy.npz")
    course = written(tmp_path)
    done = run(course, "--pilot", "learned", "--policy", tmp_path / "policy.npz", "--episodes", 2)
    assert done.exit_code == 0 and "ahead, learned: completed 2 of 2" in done.output
    assert run(course, "--pilot", "learned").exit_code == 2
    assert run(course, "--policy", tmp_path / "policy.npz").exit_code == 2


class Trap:
    """Object whose unpickling would be seen."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('unpickled')",))


def stored(path: Path, **arrays: Any) -> Path:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=True, **arrays)
    return path


def test_files_that_are_no_policies_are_refused_and_nothing_is_unpickled(tmp_path: Path) -> None:
    good = {"mean": np.zeros(18), "std": np.ones(18), "w0": np.zeros((18, 4)), "b0": np.zeros(4)}
    trap = np.array([Trap()], dtype=object)
    pickled = tmp_path / "policy.pkl"
    pickled.write_bytes(pickle.dumps(Trap()))
    stable = tmp_path / "policy.zip"
    with zipfile.ZipFile(stable, "w") as file:
        file.writestr("data", json.dumps({}))
    np.savez_compressed(tmp_path / "bomb.npz", w0=np.zeros((1 << 20, 9)))
    files = {
        "more than 128 arrays or 67108864 bytes": tmp_path / "bomb.npz",
        "Object arrays cannot be loaded": stored(tmp_path / "trap.npz", **(good | {"w0": trap})),
        "not a zip file": pickled,
        "is not a policy: .*mean": stable,
        "layer 0 has weights": stored(
            tmp_path / "narrow.npz", **(good | {"w0": np.zeros((17, 4))})
        ),
        "the last layer has 3 outputs": stored(
            tmp_path / "three.npz", **(good | {"w0": np.zeros((18, 3)), "b0": np.zeros(3)})
        ),
        "finite": stored(tmp_path / "nan.npz", **(good | {"b0": np.full(4, np.nan)})),
        "cannot be read": tmp_path / "none.npz",
    }
    for problem, path in files.items():
        with pytest.raises(ConfigError, match=problem):
            read_policy(path)


PLUGIN = """
from vil_simulation.race.pilots import minimum_snap_pilot
made = []
def careful(courses, model):
    made.append((len(courses), type(model).__name__))
    return minimum_snap_pilot(courses, model)
number = 3
"""


def test_a_plug_ins_pilot_flies_by_the_name_of_its_entry_point(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "careful_pilots.py").write_text(PLUGIN)
    info = tmp_path / "careful_pilots-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: careful_pilots\nVersion: 1.0\n")
    lines = {
        "careful": "careful_pilots:careful",
        "absent": "careful_pilots:nobody",
        "odd": "careful_pilots:number",
    }
    entries = "".join(f"{name} = {place}\n" for name, place in lines.items())
    (info / "entry_points.txt").write_text(f"[vil_bridge.pilots]\n{entries}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "careful_pilots", raising=False)
    assert {"absent", "careful", "odd", "minimum-snap", "time-optimal"} <= set(pilot_names())
    done = run(written(tmp_path), "--pilot", "careful", "--episodes", 1)
    assert done.exit_code == 0 and "ahead, careful: completed 1 of 1" in done.output
    assert sys.modules["careful_pilots"].made == [(1, "FlightGogglesMulticopter")]
    for name, problem in (
        ("absent", "cannot be imported"),
        ("odd", "not a function"),
        ("none", "known: absent, "),
    ):
        with pytest.raises(ValueError, match=problem):
            pilot_factory(name)


def written(folder: Path) -> Path:
    path = folder / "ahead.yaml"
    path.write_text(write_course(gates_ahead()), encoding="utf-8")
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["race", *map(str, words)])


def test_a_race_that_no_rehearsal_finishes_is_flown_and_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shares of its curve's pieces differ so much that the integral is lost in rounding."""
    monkeypatch.setattr(pilots, "_SHARES", (pilots._SHARES[0], pilots._SHARES[-1]))
    course = load_course("alphapilot")
    hurried = replace(course, rules=replace(course.rules, timeout_s=5.0))
    (episode,) = race(hurried, "time-optimal", pilot_factory("time-optimal"), [0]).episodes
    assert (episode.ended, episode.passed) == ("timed_out", 1)
