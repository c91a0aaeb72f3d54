"""Bad scene files: every problem at once, with its place, what is wrong and the cure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.scenefile import bare, problems, write_glb, write_obj, write_png
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scene import SceneObject
from vil_renderer.embedded.scenefile import schema
from vil_renderer.embedded.scenefile.models import SceneFile

MANY = """\
scene: bad
base: bar
environment: {time_of_day: 9, exposure: -1, sun: {elevation_deg: 100}}
classes: {Desk: 100, desk: 3, floor: 77, net: 50, grid: 50}
objects:
  - {name: floor, plane: {size_m: [20, -10]}, class: flor, material: {surfce: crate, \
texture: x.png}}
  - {name: floor, box: {size_m: [1, 2, .nan]}, p_m: [3, 0], yaw_deg: 30, instance: 4}
  - {name: m, file: b.yml, instance: 4, scale: big, clas: desk}
  - {name: m2, file: gome.glb, collider: meshes, instance: 40000}
  - {file: home.glb, unit_m: true}
  - {name: m3, sphere: {radius_m: 1}, material: {surface: crates}}
lights:
  - {name: s, kind: spot, p_m: [0, 0, 3], direction: [0, 0, 0]}
  - {name: s, kind: directonal}
beacons:
  - {name: G_1, p_m: [0, 0, .inf]}
  - {name: " x ", p_m: [0, 0, 0]}
gates:
  - {name: G, p_m: [5, 0, 2], width_m: 0, height_m: 1.5, frame: {}}
  - {name: floor, width_m: 1, height_m: 1, frame: {}}
obstacle_perturbation: none.txt
prefabs:
  quad: {file: home.glb, class: vehicel, spin: {a: fast}}
splats: {file: scan.ksplat, up: x}
width: red
"""

TOLD = """\
test.yaml:2:1: base: no shipped scene is named 'bar'; known: bare (did you mean 'bare'?)
test.yaml:3:15: environment.time_of_day: unknown key (did you mean 'time_of_day_h'?)
test.yaml:3:31: environment.exposure: should be greater than 0, got '-1'
test.yaml:3:45: environment.sun.azimuth_deg: required key is missing
test.yaml:3:51: environment.sun.elevation_deg: should be less than or equal to 90, got '100'
test.yaml:4:11: classes.Desk: a name has lower-case letters, digits, _ and -, begins with a \
letter and has at most 64 \
characters
test.yaml:4:22: classes.desk: should be greater than or equal to 43, got '3'
test.yaml:4:31: classes.floor: 'floor' is built in with id 1; choose another name
test.yaml:4:51: classes.grid: 50 is the id of 'net' already
test.yaml:6:40: objects.0.plane.size_m.1: should be greater than 0, got '-10'
test.yaml:6:47: objects.0.class: no class is named 'flor' (did you mean 'floor'?)
test.yaml:6:71: objects.0.material.surfce: unknown key (did you mean 'surface'?)
test.yaml:6:86: objects.0.material.texture: there is no file 'x.png'
test.yaml:7:6: objects.1.name: another object is named 'floor' already, in objects.0
test.yaml:7:40: objects.1.box.size_m.2: should be a finite number, got 'nan'
test.yaml:7:48: objects.1.p_m: has 2 of 3 values
test.yaml:8:15: objects.2.file: 'b.yml' is of no kind that is read here; known: .glb .gltf .obj \
.ply .stl .dae
test.yaml:8:28: objects.2.instance: 4 is the instance of objects.1 already; leave it out for a \
free one
test.yaml:8:41: objects.2.scale: should be a valid number, got 'big' or should be a list: [a, b]
test.yaml:8:53: objects.2.clas: unknown key (did you mean 'class'?)
test.yaml:9:16: objects.3.file: there is no file 'gome.glb' (did you mean 'home.glb'?)
test.yaml:9:32: objects.3.collider: should be 'mesh', 'box' or 'none', got 'meshes' (did you mean \
'mesh'?)
test.yaml:9:50: objects.3.instance: should be less than or equal to 32767, got '40000'
test.yaml:10:5: objects.4.name: required key is missing
test.yaml:10:22: objects.4.unit_m: should be a number, got true
test.yaml:11:50: objects.5.material.surface: no surface is named 'crates' (did you mean 'crate'?)
test.yaml:13:43: lights.0.direction: a direction must not be zero
test.yaml:14:6: lights.1.name: another light is named 's' already, in lights.0
test.yaml:14:15: lights.1.kind: should be 'point', 'spot' or 'directional', got 'directonal' (did \
you mean \
'directional'?)
test.yaml:16:29: beacons.0.p_m.2: should be a finite number, got 'inf'
test.yaml:17:6: beacons.1.name: a name has 1 to 64 printable characters and no blanks around it
test.yaml:19:6: gates.0.name: another beacon is named 'G_1' already, in beacons.0
test.yaml:19:31: gates.0.width_m: should be greater than 0, got '0'
test.yaml:20:6: gates.1.name: another object is named 'floor' already, in objects.0
test.yaml:21:1: obstacle_perturbation: there is no file 'none.txt'
test.yaml:23:26: prefabs.quad.class: no class is named 'vehicel' (did you mean 'vehicle'?)
test.yaml:23:49: prefabs.quad.spin.a: should be a valid number, got 'fast'
test.yaml:24:10: splats.file: 'scan.ksplat' is of no kind that is read here; known: .ply .spz \
.sog .json .glb .gltf \
.splat
test.yaml:24:29: splats.up: should be 'y', 'z' or '-y', got 'x'
test.yaml:25:1: width: unknown key; known: scene, base, environment, classes, objects, lights, \
beacons, gates, \
course, course_seed, obstacle_perturbation, prefabs, splats, weather
"""


def test_all_problems_of_a_broken_file_at_once(tmp_path: Path) -> None:
    write_glb(tmp_path / "home.glb", [{"mesh": 0}])
    assert problems(tmp_path, MANY) == TOLD.splitlines()


def thing(keys: str) -> str:
    return f"scene: s\nobjects:\n  - {{name: a, {keys}}}\n"


BOX = "box: {size_m: [1, 1, 1]}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "test.yaml:1:1: the file is empty; `scene: NAME` and `objects:` make a scene "
             "(docs/guides/scenes.md)"),
        ("objects: []", "test.yaml:1:1: scene: required key is missing"),
        ("scene: [a", "test.yaml:1:10: not readable as YAML"),
        ("scene: s\nobjects: &a [*a]", "nested deeper than 32 levels"),
        ("scene: s\nscene: t", "test.yaml:2:1: scene: duplicate key, first given at test.yaml:1:1"),
        (thing("file: a.glb, material: {}"),
        "test.yaml:3:5: objects.0: material belongs to shapes; a file brings"),
        (thing("p_m: [0, 0, 0]"), "objects.0: give exactly one of file, box, cylinder, sphere, "
                                  "plane; there is none"),
        (thing(f"{BOX}, file: a.glb"), "plane; there is both file and box"),
        (thing(f"{BOX}, up: y"), "objects.0: unit_m and up belong to a file; a shape is in "
                                 "metres, z up"),
        (thing("file: t.glb, up: y"), "objects.0: a .glb says itself which axis points up; leave "
                                      "`up` out"),
        (thing(f"{BOX}, yaw_deg: 1, q_xyzw: [0, 0, 0, 1]"),
        "objects.0: give only one of yaw_deg, ypr_deg and q_xyzw"),
        (thing(f"{BOX}, q_xyzw: [0, 0, 0, 0]"),
        "objects.0: q_xyzw has length 0; a rotation has length 1"),
        (thing(f"{BOX}, p_m: [0, 0, 1.0e+6]"),
        "objects.0.p_m.2: should be less than or equal to 100000"),
        (thing(f"{BOX}, scale: 0"), "objects.0.scale: should be greater than 0, got '0'"),
        (thing("box: {size_m: [1, 1, 20000]}"),
        "objects.0.box.size_m.2: should be less than or equal to 10000"),
        (thing(f"{BOX}, material: {{surface: crate, texture: t.png}}"),
        "material: give surface or texture, not both"),
        ("scene: s\nlights: [{name: a}]", "test.yaml:2:10: lights.0: a point light needs p_m"),
        ("scene: s\nlights: [{name: a, kind: spot, p_m: [0, 0, 0]}]",
        "lights.0: a spot light needs a direction"),
        (
            "scene: s\nlights: [{name: a, kind: directional, p_m: [0, 0, 1], direction: "
            "[0, 0, -1]}]",
            "lights.0: a directional light has no p_m: it is everywhere",
        ),
        ("scene: s\nlights: [{name: a, p_m: [0, 0, 0], cone_deg: [40, 30]}]",
        "lights.0: cone_deg must grow"),
        (
            "scene: s\nenvironment: {sun: {azimuth_deg: 0, elevation_deg: 9}}\n"
            "lights: [{name: a, kind: directional, direction: [0, 0, -1]}]",
            "test.yaml:3:10: lights.0: environment.sun is there already; a scene has one "
            "light from far away",
        ),
        (
            "scene: s\nlights:\n- {name: a, kind: directional, direction: [0, 0, -1]}\n"
            "- {name: b, kind: directional, direction: [0, 0, -1]}",
            "test.yaml:4:3: lights.1: lights.0 is directional already",
        ),
        (
            "scene: s\nsplats: {file: h.ply, proxy: h.obj}\nobjects: [{name: splats, "
            "sphere: {radius_m: 1}}]",
            "test.yaml:3:12: objects.0.name: another object is named 'splats' already, in splats",
        ),
        ("scene: s\nprefabs: {' ': {sphere: {radius_m: 1}}}",
        "test.yaml:2:11: prefabs. : a name has 1 to 64"),
        (thing("file: \"a\\0b.glb\""), r"objects.0.file: there is no file 'a\x00b.glb'"),
        (thing(f"file: {'a' * 300}.glb"), "objects.0.file: cannot look for '"),
    ],
)  # fmt: skip
def test_what_is_no_scene_is_refused_with_a_reason(tmp_path: Path, text: str, told: str) -> None:
    for name in ("h.ply", "h.obj", "t.glb", "a.glb", "t.png"):
        (tmp_path / name).write_bytes(b"")
    assert told in "\n".join(problems(tmp_path, text))


def test_a_folder_and_a_missing_folder_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.glb").mkdir()
    text = (
        "scene: s\nobjects:\n  - {name: a, file: folder.glb}\n  - {name: b, file: ../none/x.glb}\n"
    )
    assert problems(tmp_path, text) == [
        "test.yaml:3:15: objects.0.file: there is no file 'folder.glb'",
        "test.yaml:4:15: objects.1.file: there is no file '../none/x.glb'",
    ]


def test_aliases_cannot_multiply_without_bound(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert any(
        "the file expands to more than 20000 values" in line
        for line in problems(tmp_path, "\n".join(lines))
    )


def test_problems_inside_files_are_told_together_where_the_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "cut.glb").write_bytes(b"glTF\x02\0\0\0")
    (tmp_path / "no.png").write_bytes(b"no picture")
    write_obj(tmp_path / "good.obj")
    write_png(tmp_path / "good.png")
    write_glb(tmp_path / "quad.glb", [{"name": "rotor_1", "mesh": 0}])
    (tmp_path / "moves.txt").write_text(
        "b: 0,0\nB: 0,0,0\nc: 0,0,nan\nb: 1,2,3\nb: 1,2,3\n: 1,2,3\n"
    )
    text = """\
scene: s
objects:
  - {name: a, file: cut.glb}
  - {name: b, file: good.obj}
  - {name: c, plane: {size_m: [1, 1]}, material: {texture: no.png}}
  - {name: d, plane: {size_m: [1, 1]}, material: {texture: good.png}}
prefabs:
  quad: {file: quad.glb, spin: {rotor1: 3}}
obstacle_perturbation: moves.txt
"""
    told = problems(tmp_path, text)
    assert told[0].startswith(
        "test.yaml:3:15: objects.0.file: cut.glb: GLB header: cut short at 8 of 12 bytes"
    )
    assert told[1].startswith("test.yaml:5:51: objects.2.material.texture: ")
    assert told[2:] == [
        "test.yaml:8:33: prefabs.quad.spin.rotor1: the model has no node 'rotor1' (did "
        "you mean 'rotor_1'?)",
        "moves.txt:1: must be written `Name: dx,dy,dyaw` (metres north, metres west, "
        "degrees), got 'b: 0,0'",
        "moves.txt:3: must be written `Name: dx,dy,dyaw` (metres north, metres west, "
        "degrees), got 'c: 0,0,nan'",
        "moves.txt:5: 'b' is moved already, at moves.txt:4",
        "moves.txt:6: must be written `Name: dx,dy,dyaw` (metres north, metres west, "
        "degrees), got ': 1,2,3'",
        "moves.txt:2: no gate or object is named 'B' (did you mean 'b'?)",
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfe", "is not UTF-8 text (byte 0)"),
        (b"#" * ((1 << 20) + 1), "this moves no obstacles"),
    ],
)
def test_what_is_no_perturbation_file_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "moves.txt").write_bytes(content)
    (line,) = problems(tmp_path, "scene: s\nobstacle_perturbation: moves.txt\n")
    assert line.startswith("moves.txt: ")
    assert told in line


def test_instances_run_out_only_after_32767(tmp_path: Path) -> None:
    nothing, still = Asset("x", ()), np.eye(4)
    full = tuple(SceneObject(f"x{i}", nothing, still, instance=i) for i in range(1, 32767))
    text = (
        "scene: s\nbase: full\nobjects: [{name: a, sphere: {radius_m: 1}}, {name: b, sphere: "
        "{radius_m: 1}}]\n"
    )
    told = problems(tmp_path, text, {"full": lambda: replace(bare(), objects=full)})
    assert told == [
        "test.yaml:3:45: objects.1: there are more objects than instance ids, 1 to 32767"
    ]


def test_the_schema_describes_every_key() -> None:
    made = schema()
    assert set(made["properties"]) == set(SceneFile.model_fields)
    assert made["additionalProperties"] is False
    assert "hall" in made["properties"]["base"]["anyOf"][0]["enum"]
    assert {"class", "p_m", "file"} <= set(made["$defs"]["ObjectConfig"]["properties"])
    for definition in [made, *made["$defs"].values()]:
        for key, value in definition["properties"].items():
            assert value.get("description"), key
