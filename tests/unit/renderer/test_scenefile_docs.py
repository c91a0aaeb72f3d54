"""The page about scenes and the example files are true; the verbs that check scenes."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.common import ROOT
from tests.support.programs import run
from tests.support.scenefile import write_glb, write_obj, write_stl
from vil_bridge.cli.main import app
from vil_bridge.core.errors import RendererError
from vil_renderer.cli.scene import scene as verbs
from vil_renderer.embedded.scene import CLASSES
from vil_renderer.embedded.scenefile import check_scene, load_scene, scene_names, schema

PAGE = (ROOT / "docs" / "guides" / "scenes.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
SCENES = ROOT / "configs" / "scenes"


def test_the_pages_examples_are_good(tmp_path: Path) -> None:
    assert len(EXAMPLES) == 2
    for number, text in enumerate(EXAMPLES):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        scene = load_scene(path)
        assert scene.gates
        assert scene.objects


def test_the_page_explains_every_key_and_class() -> None:
    made = schema()
    for definition in [made, *made["$defs"].values()]:
        for key in definition["properties"]:
            assert f"`{key}`" in PAGE or f".{key}`" in PAGE, key
    for name, number in CLASSES.items():
        assert re.search(rf"\b{number}\s+`{name}`", PAGE), name


def test_two_rooms_with_gates_is_good() -> None:
    scene = load_scene(SCENES / "two_rooms_gates.yaml")
    assert [gate.name for gate in scene.gates] == ["Gate1", "Passage", "Gate2"]
    assert [beacon.carrier for beacon in scene.beacons if beacon.carrier] == ["ball"]
    assert len({thing.instance for thing in scene.objects}) == len(scene.objects)


def test_a_scanned_hall_is_good_once_its_files_are_there(tmp_path: Path) -> None:
    path = Path(shutil.copy(SCENES / "scanned_hall.yaml", tmp_path))
    with pytest.raises(RendererError) as caught:
        load_scene(path)
    missing = re.findall(
        r"scanned_hall\.yaml:\d+:\d+: ([\w.]+): there is no file '\S+/(\S+)'", str(caught.value)
    )
    assert missing == [
        ("splats.file", "hall.ply"),
        ("splats.proxy", "hall_mesh.obj"),
        ("objects.0.file", "table.glb"),
        ("objects.1.file", "cage.stl"),
        ("obstacle_perturbation", "today.txt"),
        ("prefabs.our_quad.file", "quad.glb"),
    ]
    (tmp_path / "hall.ply").write_bytes(b"ply\n")
    (tmp_path / "today.txt").write_text("Gate1: 0.2,-0.1,5\n")
    write_obj(tmp_path / "hall_mesh.obj")
    write_stl(tmp_path / "cage.stl")
    write_glb(tmp_path / "table.glb", [{"mesh": 0}])
    write_glb(tmp_path / "quad.glb", [{"name": f"propeller_{i}", "mesh": 0} for i in (1, 2)])
    scene = load_scene(path)
    # What the page says of that line.
    assert scene.gates[0].T_world_gate.p_m.round(9).tolist() == [3.1, 0.2, 1.5]
    assert scene.splats is not None
    assert scene.splats.proxy == ("splats",)


def test_scene_check_tells_what_is_in_a_scene() -> None:
    done = CliRunner().invoke(verbs, ["check", str(SCENES / "two_rooms_gates.yaml")])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].endswith("two_rooms_gates.yaml is good")
    assert lines[1:] == [f"  {line}" for line in check_scene(SCENES / "two_rooms_gates.yaml")]
    text = "\n".join(lines)
    assert "objects: 13 (movable: ball)" in text
    assert "lights: 3 lamps, a sun" in text
    assert "gates: Gate1, Passage, Gate2" in text
    assert "its own: partition (100)" in text


def test_scene_list_names_the_shipped_scenes() -> None:
    done = CliRunner().invoke(app, ["scene", "list"])
    assert done.output.split() == scene_names()
    assert {"hall", "lab", "empty"} <= set(scene_names())


@pytest.mark.process
def test_a_bad_scene_is_exit_code_2_with_the_problems_on_the_error_output(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("scene: s\nobjets: []\n")
    command = [sys.executable, "-m", "vil_bridge", "scene", "check", str(path)]
    done = run(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{path}:2:1: objets: unknown key (did you mean 'objects'?)\n"
