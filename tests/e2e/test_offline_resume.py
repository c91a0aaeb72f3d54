"""Data sets that were interrupted at bad moments, or whose files changed since, go on rightly or
not at all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.common import needs_gl
from tests.support.offline import room_file
from tests.support.programs import Program, run
from vil_bridge.core.errors import ConfigError
from vil_bridge.offline.files import SUMS
from vil_simulation.dataset.dataset import DatasetSummary, inputs_of, render_dataset
from vil_simulation.dataset.plan import DatasetPlan, load_plan

pytestmark = [pytest.mark.process, pytest.mark.gl]

CAMERA: Final = {"width_px": 48, "height_px": 36, "modalities": ["gray"]}


class EnoughSeenError(Exception):
    """Ends a call after its first shard."""


def fly(folder: Path, rows: int) -> Path:
    """A recording with so many rows, 100 a second."""
    path = folder / "flight.txt"
    path.write_text(
        "".join(f"{1.5 + 0.01 * k:.3f} {-1 + 0.002 * k:.4f} 0 1.2 0 0 0 1\n" for k in range(rows))
    )
    return path


def plan_in(folder: Path, rows: int = 60, **more: Any) -> DatasetPlan:
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "scenes": [str(room_file(folder))],
        "trajectory": {"recorded": {"file": fly(folder, rows)}},
        "cameras": {"front": CAMERA},
    }
    return DatasetPlan.model_validate(told | more)


def begin(plan: DatasetPlan, out: Path) -> None:
    """Draw the first shard, of two frames."""
    needs_gl()

    def stop(done: int, _whole: int) -> None:
        if done:
            raise EnoughSeenError

    with pytest.raises(EnoughSeenError):
        render_dataset(plan, out, shard_frames=2, on_progress=stop)
    assert not (out / SUMS).exists()


def go_on(plan: DatasetPlan, out: Path, **how: Any) -> DatasetSummary:
    return render_dataset(plan, out, shard_frames=2, **how)


@pytest.mark.long
def test_killed_while_imu_and_truth_are_written_it_goes_on(tmp_path: Path) -> None:
    needs_gl()
    slow: dict[str, Any] = {
        "trajectory": {"circle": {}},
        "rate_hz": 0.5,
        "frames": 5,
        "imu": {"preset": "mpu6000", "rate_hz": 1500},
    }
    plan, target = plan_in(tmp_path, **slow), tmp_path / "set"
    (tmp_path / "plan.json").write_text(plan.model_dump_json())  # JSON is YAML
    program = (
        "import sys; from pathlib import Path; from vil_simulation.dataset.dataset "
        "import render_dataset;"
        "from vil_simulation.dataset.plan import load_plan;"
        "render_dataset(load_plan(Path(sys.argv[1])), Path(sys.argv[2]), shard_frames=2)"
    )
    with Program(sys.executable, "-c", program, tmp_path / "plan.json", target) as running:
        running.await_that(
            lambda: list(target.glob("room/.*.part/mav0/imu0/*.csv")), "samples", 100.0
        )
        running.kill()
    assert list(target.glob("room/.*.part")), "it was killed while it wrote"
    resumed = go_on(plan, target)
    assert resumed.sha256 == go_on(plan, tmp_path / "whole").sha256
    assert not list(target.rglob(".*"))


@pytest.mark.parametrize("name", ["flight.txt", "room.yaml"])
def test_what_changed_since_it_was_begun_is_named(tmp_path: Path, name: str) -> None:
    plan, out = plan_in(tmp_path), tmp_path / "set"
    begin(plan, out)
    before = (tmp_path / name).read_bytes()
    if name == "flight.txt":
        fly(tmp_path, 75)  # as if it had been recorded on
    else:
        (tmp_path / name).write_bytes(before + b"classes: {slope: 100}\n")
    with pytest.raises(
        ConfigError,
        match=rf"{name} changed since the data set in .* was begun: choose a new folder",
    ):
        go_on(plan, out)
    assert not (out / SUMS).exists()
    (tmp_path / name).write_bytes(before)
    assert go_on(plan, out).drawn > 0
    assert go_on(plan, out).drawn == 0, "complete is complete"
    (tmp_path / name).write_bytes(before + b"\n# more\n")
    with pytest.raises(ConfigError, match=f"{name} changed since"):
        go_on(plan, out)


def test_a_file_that_changes_while_it_is_drawn_is_noticed(tmp_path: Path) -> None:
    needs_gl()
    plan = plan_in(tmp_path)

    def record_on(done: int, whole: int) -> None:
        fly(tmp_path, 75 if done == whole else 60)

    with pytest.raises(ConfigError, match=r"flight\.txt changed since"):
        go_on(plan, tmp_path / "set", on_progress=record_on)
    assert not (tmp_path / "set" / SUMS).exists()


@pytest.mark.long
def test_the_same_files_make_the_same_bytes_anywhere(tmp_path: Path) -> None:
    needs_gl()
    here, there = plan_in(tmp_path / "here"), plan_in(tmp_path / "there" / "deep")
    one, two = go_on(here, tmp_path / "one"), go_on(there, tmp_path / "two", workers=2)
    assert one.sha256 == two.sha256
    about = (tmp_path / "one/dataset.json").read_text()
    assert str(tmp_path) not in about and sorted(json.loads(about)["inputs"]) == [
        "scenes/room.yaml",
        "trajectory/flight.txt",
    ]
    assert go_on(there, tmp_path / "one").drawn == 0, "the same files elsewhere"


def test_what_a_scene_names_is_of_the_data_set_too(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models/thing.obj").write_text("v 0 0 0\n")
    scene = tmp_path / "room.yaml"
    thing, long = "{name: thing, file: models/thing.obj, class: box}", "x" * 5000 + ".obj"
    moves, far = tmp_path / "models/moves", tmp_path / "far" / "away" / "b.obj"
    far.parent.mkdir(parents=True)
    for file in (moves, far):
        file.write_text("1\n")
    rest = f"obstacle_perturbation: models/moves\nsplats: {far}\n"
    scene.write_text(f"scene: {long}\nobjects: [{thing}]\n{rest}")
    before = inputs_of(plan)
    assert {"scenes/room/models/moves", "scenes/room/away/b.obj"} < set(before)
    (tmp_path / "models/thing.obj").write_text("v 1 0 0\n")
    changed = {name for name, digest in inputs_of(plan).items() if digest != before[name]}
    assert changed == {"scenes/room/models/thing.obj"}


def test_a_folder_of_euroc_is_read_by_its_poses(tmp_path: Path) -> None:
    rows = tmp_path / "take/mav0/state_groundtruth_estimate0/data.csv"
    rows.parent.mkdir(parents=True)
    rows.write_text("#t,x,y,z,w,x,y,z\n1,0,0,1,1,0,0,0\n")
    (tmp_path / "take/mav0/cam0").mkdir()
    (tmp_path / "take/mav0/cam0/data.csv").write_text("#t,file\n")
    plan = DatasetPlan.model_validate({"trajectory": {"recorded": {"file": tmp_path / "take"}}})
    assert list(inputs_of(plan)) == ["trajectory/take/mav0/state_groundtruth_estimate0/data.csv"]


def test_stopped_before_its_first_file_was_whole_it_begins(tmp_path: Path) -> None:
    needs_gl()
    plan, out = plan_in(tmp_path / "in", frames=2), tmp_path / "set"
    limited = f"ulimit -f 0; exec {sys.executable} -m vil_bridge dataset {out} --plan plan.json"
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    full = run("bash", "-c", f"trap '' XFSZ; {limited}", limit_s=100, cwd=tmp_path)
    assert full.returncode == 3 and "the same command continues the data set" in full.stderr
    assert [path.name for path in out.iterdir()] == [".work"], "nothing could be written"
    (out / ".work/.begun.json.0123.part").write_bytes(b'{"ver')  # as a kill in the middle leaves it
    assert render_dataset(load_plan(tmp_path / "plan.json"), out).drawn == 2
    assert not list(out.rglob(".*"))


def test_somebody_else_s_hidden_folder_is_left_alone(tmp_path: Path) -> None:
    plan, out = plan_in(tmp_path / "in", frames=2), tmp_path / "set"
    (out / ".work").mkdir(parents=True)
    (out / ".work/notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        render_dataset(plan, out)
    assert (out / ".work/notes.txt").read_text() == "mine"
