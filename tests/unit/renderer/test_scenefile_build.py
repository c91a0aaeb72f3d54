"""What a scene file says is in the scene: places, ids, beacons, gates, prefabs, splats."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.support.scenefile import (
    bare,
    points,
    problems,
    read,
    write_glb,
    write_obj,
    write_png,
    write_stl,
)
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_renderer.embedded.scene import (
    Beacon,
    Gate,
    Scene,
    SceneObject,
    collider_parts,
    static_triangles,
)
from vil_renderer.embedded.scenefile import load_scene
from vil_renderer.embedded.scenes import SCENES

SHAPES = """\
scene: shapes
objects:
  - {name: box, box: {size_m: [2, 4, 1]}, p_m: [10, 0, 0.5], yaw_deg: 90}
  - {name: plane, plane: {size_m: [6, 2]}}
  - {name: cylinder, cylinder: {radius_m: 0.5, height_m: 3}, p_m: [0, 5, 0]}
  - {name: sphere, sphere: {radius_m: 2}, p_m: [0, 0, 1], scale: [1, 1, 2]}
"""


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("box", (8, -1, 0.5), (12, 1, 1.5)),
        ("plane", (-3, -1, 0), (3, 1, 0)),
        ("cylinder", (-0.5, 4.5, 0), (0.5, 5.5, 3)),
        ("sphere", (-2, -2, 1), (2, 2, 9)),
    ],
)
def test_shapes_stand_where_they_are_put(
    tmp_path: Path, name: str, low: tuple[float], high: tuple[float]
) -> None:
    vertices = points(read(tmp_path, SHAPES), name)
    np.testing.assert_allclose(vertices.min(axis=0), low, atol=1e-6)
    np.testing.assert_allclose(vertices.max(axis=0), high, atol=1e-6)


def test_shapes_are_closed_and_their_triangles_face_outwards(tmp_path: Path) -> None:
    scene = read(tmp_path, SHAPES)
    volumes = {
        "box": 8.0,
        "cylinder": 3.0 * math.pi * 0.25,
        "sphere": 2.0 * 4.0 / 3.0 * math.pi * 8.0,
    }
    for thing in scene.objects:
        if thing.name not in volumes:
            continue
        part = thing.asset.nodes[0].primitives[0]
        a, b, c = (points(scene, thing.name)[part.triangles[:, k]] for k in range(3))
        volume = float((a * np.cross(b, c)).sum() / 6.0)
        assert volume == pytest.approx(volumes[thing.name], rel=0.02), thing.name
        faces = np.cross(part.p_m[part.triangles[:, 1]] - part.p_m[part.triangles[:, 0]],
                         part.p_m[part.triangles[:, 2]] - part.p_m[part.triangles[:,
                         0]])  # fmt: skip
        assert ((faces * part.normal[part.triangles[:, 0]]).sum(axis=1) > 0.0).all()


def test_large_surfaces_have_vertices_every_half_metre_and_huge_ones_stay_small(
    tmp_path: Path,
) -> None:
    text = (
        "scene: s\nobjects:\n  - {name: a, plane: {size_m: [10, 4]}}\n  - {name: b, plane: "
        "{size_m: [9000, 9000]}}\n"
    )
    scene = read(tmp_path, text)
    assert len(scene.objects[0].asset.nodes[0].primitives[0].triangles) == 2 * 20 * 8
    assert len(scene.objects[1].asset.nodes[0].primitives[0].triangles) == 2 * 64 * 64


@pytest.mark.parametrize(
    "rotation", ["yaw_deg: 90", "ypr_deg: [90, 0, 0]", "q_xyzw: [0, 0, 0.70710678, 0.70710678]"]
)
def test_the_three_ways_to_turn_agree(tmp_path: Path, rotation: str) -> None:
    text = (
        f"scene: s\nobjects:\n  - {{name: a, plane: {{size_m: [1, 1]}}, p_m: [1, 2, 3], "
        f"{rotation}, scale: 2}}\n"
    )
    expected = [[0, -2, 0, 1], [2, 0, 0, 2], [0, 0, 2, 3], [0, 0, 0, 1]]
    np.testing.assert_allclose(
        read(tmp_path, text).objects[0].world_from_asset, expected, atol=1e-7
    )


def test_positive_pitch_looks_down(tmp_path: Path) -> None:
    text = "scene: s\ngates:\n  - {name: g, ypr_deg: [0, 30, 0], width_m: 1, height_m: 1}\n"
    forward = read(tmp_path, text).gates[0].T_world_gate.apply(np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(forward, [math.cos(math.pi / 6), 0.0, -0.5], atol=1e-12)


def test_ids_are_unique_and_free_ones_are_given_in_order(tmp_path: Path) -> None:
    text = """\
scene: s
classes: {net: 100}
objects:
  - {name: a, plane: {size_m: [1, 1]}, class: floor}
  - {name: b, plane: {size_m: [1, 1]}, class: net, instance: 2}
  - {name: c, plane: {size_m: [1, 1]}}
gates:
  - {name: g, width_m: 1, height_m: 1, frame: {beacons: false}}
  - {name: open, width_m: 1, height_m: 1}
"""
    scene = read(tmp_path, text)
    assert [(o.name, o.semantic, o.instance) for o in scene.objects] == [
        ("a", 1, 1),
        ("b", 100, 2),
        ("c", 0, 3),
        ("g", 9, 4),
    ]
    assert scene.classes["net"] == 100
    assert scene.classes["human"] == 42
    assert scene.beacons == ()


def test_a_base_is_added_to(tmp_path: Path) -> None:
    shipped = SCENES["hall"]()
    text = """\
scene: mine
base: hall
objects:
  - {name: extra, sphere: {radius_m: 1}}
lights:
  - {name: l, p_m: [0, 0, 1]}
"""
    scene = read(tmp_path, text, {"hall": lambda: shipped})
    assert scene.name == "mine"
    assert scene.objects[: len(shipped.objects)] == shipped.objects
    assert scene.objects[-1].instance not in {thing.instance for thing in shipped.objects}
    assert scene.lamps[:-1] == shipped.lamps
    assert scene.gates == shipped.gates
    assert scene.environment.exposure == shipped.environment.exposure
    assert scene.environment.sun is shipped.environment.sun


def test_colliders_are_meshes_boxes_or_nothing(tmp_path: Path) -> None:
    text = """\
scene: s
objects:
  - {name: mesh, sphere: {radius_m: 1}}
  - {name: box, sphere: {radius_m: 1}, p_m: [5, 0, 0], collider: box}
  - {name: none, sphere: {radius_m: 1}, collider: none, casts_shadow: false, layer: net}
"""
    scene = read(tmp_path, text)
    mesh, box, none = scene.objects
    assert (mesh.solid, box.solid, none.solid) == (True, True, False)
    assert (none.casts_shadow, none.layer, mesh.layer) == (False, "net", "scene")
    ((corners, faces),) = collider_parts(box)
    assert (len(corners), len(faces)) == (8, 12)
    volume = (
        sum(float(np.dot(*(corners[f[0]], np.cross(corners[f[1]], corners[f[2]])))) for f in faces)
        / 6.0
    )
    assert volume == pytest.approx(8.0, rel=1e-5)
    solid = static_triangles(scene)
    assert np.bincount(solid.owner, minlength=3).tolist() == [960, 12, 0]
    np.testing.assert_allclose(
        solid.p_m[solid.triangles[solid.owner == 1]].max(axis=(0, 1)), [6, 1, 2], atol=1e-6
    )
    assert np.bincount(static_triangles(scene, solid_only=False).owner).tolist() == [960, 960, 960]


# --- beacons, gates, perturbations ----------------------------------------------------------------


def test_beacons_on_what_stands_still_are_fixed_and_the_others_travel(tmp_path: Path) -> None:
    text = """\
scene: s
objects:
  - {name: still, box: {size_m: [1, 1, 1]}, p_m: [1, 0, 0], yaw_deg: 90, scale: 3}
  - {name: mobile, box: {size_m: [1, 1, 1]}, movable: true, scale: 2}
beacons:
  - {name: a, p_m: [1, 2, 3]}
  - {name: b, p_m: [1, 0, 0.5], carrier: still}
  - {name: c, p_m: [1, 0, 0], carrier: mobile}
  - {name: d, p_m: [1, 0, 0], carrier: some actor}
  - {name: e, p_m: [0, 0, 1], carrier: g}
gates:
  - {name: g, p_m: [0, 7, 0], width_m: 1, height_m: 1}
"""
    found = {b.name: (b.carrier, b.p_m.round(9).tolist()) for b in read(tmp_path, text).beacons}
    assert found == {
        "a": ("", [1, 2, 3]),
        "b": ("", [1, 1, 0.5]),
        # In its own axes, which the scale stretches: 1 m from it in the world.
        "c": ("mobile", [0.5, 0, 0]),
        "d": ("some actor", [1, 0, 0]),
        "e": ("", [0, 7, 1]),
    }


def test_a_gates_frame_surrounds_its_opening_and_carries_beacons(tmp_path: Path) -> None:
    text = """\
scene: s
gates:
  - {name: Gate1, p_m: [4, 0, 2], yaw_deg: 90, width_m: 2, height_m: 1,
        frame: {bar_m: 0.2, legs: false}}
"""
    scene = read(tmp_path, text)
    (gate,) = scene.gates
    assert (gate.name, gate.width_m, gate.height_m) == ("Gate1", 2, 1)
    bars = gate.T_world_gate.inverse().apply(points(scene, "Gate1"))
    assert not ((np.abs(bars[:, 1]) < 0.99) & (np.abs(bars[:, 2]) < 0.49)).any()
    np.testing.assert_allclose(
        [bars[:, 1:].min(axis=0), bars[:, 1:].max(axis=0)], [[-1.2, -0.7], [1.2, 0.7]], atol=1e-3
    )
    assert [beacon.name for beacon in scene.beacons] == ["Gate1_1", "Gate1_2", "Gate1_3", "Gate1_4"]
    corners = gate.T_world_gate.inverse().apply(np.array([beacon.p_m for beacon in scene.beacons]))
    assert (corners[:, 0] < -0.1).all()
    # As the pilot sees it, y is left: top left first, then clockwise.
    assert np.sign(corners[:, 1]).tolist() == [1, -1, -1, 1]
    assert np.sign(corners[:, 2]).tolist() == [1, 1, -1, -1]


def test_legs_reach_the_floor_and_a_leaning_gate_has_none(tmp_path: Path) -> None:
    text = """\
scene: s
gates:
  - {name: a, p_m: [0, 0, 2], yaw_deg: 30, width_m: 1, height_m: 1, frame: {}}
  - {name: b, p_m: [0, 0, 2], ypr_deg: [0, 20, 0], width_m: 1, height_m: 1, frame: {}}
"""
    scene = read(tmp_path, text)
    assert points(scene, "a")[:, 2].min() == pytest.approx(0.0, abs=1e-6)
    assert points(scene, "b")[:, 2].min() > 1.0


def test_perturbations_are_north_west_and_clockwise(tmp_path: Path) -> None:
    (tmp_path / "moves.txt").write_text(
        "# today\nGate1: 1.0,2.0,90\n\nbox : 0,0,-45  # turns only\n"
    )
    text = """\
scene: s
objects:
  - {name: box, box: {size_m: [1, 1, 1]}, p_m: [3, 3, 0]}
gates:
  - {name: Gate1, p_m: [10, 20, 2], width_m: 1, height_m: 1, frame: {}}
  - {name: Gate11, p_m: [0, 0, 2], width_m: 1, height_m: 1, frame: {}}
beacons:
  - {name: mark, p_m: [1, 0, 0], carrier: box}
obstacle_perturbation: moves.txt
"""
    before = read(tmp_path, text.replace("obstacle_perturbation: moves.txt\n", ""))
    after = read(tmp_path, text)
    gate = after.gates[0].T_world_gate
    np.testing.assert_allclose(gate.p_m, [10 - 2, 20 + 1, 2], atol=1e-12)
    # A quarter turn clockwise from east looks south.
    np.testing.assert_allclose(gate.rotation()[:, 0], [0, -1, 0], atol=1e-12)
    frame = next(o for o in after.objects if o.name == "Gate1")
    np.testing.assert_allclose(frame.world_from_asset[:3, 3], gate.p_m, atol=1e-12)
    np.testing.assert_allclose(frame.world_from_asset[:3, :3], gate.rotation(), atol=1e-12)
    old = {b.name: b.p_m for b in before.beacons}
    new = {b.name: b.p_m for b in after.beacons}
    back = before.gates[0].T_world_gate.inverse()
    np.testing.assert_allclose(
        gate.inverse().apply(new["Gate1_2"]), back.apply(old["Gate1_2"]), atol=1e-12
    )
    np.testing.assert_array_equal(new["Gate11_1"], old["Gate11_1"])
    np.testing.assert_allclose(new["mark"], [3 + math.sqrt(0.5), 3 + math.sqrt(0.5), 0], atol=1e-12)


def test_a_bases_gates_are_perturbed_with_their_beacons(tmp_path: Path) -> None:
    shipped = SCENES["hall"]()
    name = shipped.gates[0].name
    (tmp_path / "moves.txt").write_text(f"{name}: 0.5,0,0\n")
    text = "scene: s\nbase: hall\nobstacle_perturbation: moves.txt\n"
    scene = read(tmp_path, text, {"hall": lambda: shipped})
    assert named(scene, name).world_from_asset[1, 3] == pytest.approx(
        named(shipped, name).world_from_asset[1, 3] + 0.5
    )
    moved = [
        b.name
        for a, b in zip(shipped.beacons, scene.beacons, strict=True)
        if not np.array_equal(a.p_m, b.p_m)
    ]
    assert moved == [f"{name}_{corner}" for corner in range(1, 5)]


def named(scene: Scene, name: str) -> SceneObject:
    return next(thing for thing in scene.objects if thing.name == name)


# --- files ----------------------------------------------------------------------------------------


def test_files_are_placed_scaled_and_turned(tmp_path: Path) -> None:
    write_obj(tmp_path / "y.obj")
    write_stl(tmp_path / "mm.stl")
    (tmp_path / "inner").mkdir()
    write_glb(tmp_path / "inner" / "t.glb", [{"mesh": 0}])
    text = """\
scene: s
objects:
  - {name: obj, file: y.obj, up: y}
  - {name: stl, file: mm.stl, unit_m: 0.001, p_m: [0, 0, 7]}
  - {name: glb, file: inner/t.glb}
  - {name: again, file: inner/t.glb, p_m: [0, 0, 1], class: wall}
"""
    scene = read(tmp_path, text)
    # y up as in glTF, whose x is our y and whose y is our z.
    np.testing.assert_allclose(points(scene, "obj").max(axis=0), [0, 1, 1], atol=1e-6)
    np.testing.assert_allclose(points(scene, "stl").max(axis=0), [1, 1, 7], atol=1e-6)
    np.testing.assert_allclose(points(scene, "glb").max(axis=0), [0, 1, 1], atol=1e-6)
    assert named(scene, "glb").asset is named(scene, "again").asset


def test_textures_come_from_pictures_or_from_the_shipped_surfaces(tmp_path: Path) -> None:
    write_png(tmp_path / "red.png")
    text = """\
scene: s
objects:
  - {name: a, plane: {size_m: [4, 2]}, material: {texture: red.png, tile_m: 0.5, roughness: 0.2}}
  - {name: b, plane: {size_m: [4, 2]}, material: {surface: crate, base_colour: [0.5, 0.5, 0.5]}}
  - {name: c, plane: {size_m: [4, 2]}, material: {emissive: [2, 0, 0], metallic: 1}}
"""
    a, b, c = (o.asset.nodes[0].primitives[0] for o in read(tmp_path, text).objects)
    assert a.material.base is not None
    assert a.material.base.texture.pixels.tolist() == [[[255, 0, 0]] * 2] * 2
    assert (a.material.base_colour, a.material.roughness) == ((1.0, 1.0, 1.0, 1.0), 0.2)
    assert np.ptp(a.uv, axis=0).tolist() == [8.0, 4.0]
    assert b.material.base is not None
    assert b.material.base_colour == (0.5, 0.5, 0.5, 1.0)
    assert c.material.base is None
    assert (c.material.emissive_light, c.material.metallic) == ((2.0, 0.0, 0.0), 1.0)


def test_prefabs_have_their_pose_in_body_axes(tmp_path: Path) -> None:
    write_glb(tmp_path / "quad.glb", [{"name": "body", "mesh": 0}, {"name": "rotor", "mesh": 0}])
    text = """\
scene: s
prefabs:
  quad: {file: quad.glb, p_m: [0, 0, -0.5], scale: 2, spin: {rotor: -80}, spin_axis: [0, 1, 0]}
  crate: {box: {size_m: [1, 1, 1]}, fit: size, class: prop}
"""
    prefabs = read(tmp_path, text).prefabs
    quad, crate = prefabs["quad"], prefabs["crate"]
    assert (quad.semantic, quad.fit, quad.spin, quad.spin_axis) == (
        41,
        "none",
        {"rotor": -80},
        (0.0, 1.0, 0.0),
    )
    assert (crate.semantic, crate.fit) == (40, "size")
    # The model's origin is half a metre below the body's, and one of its metres is two of the
    # body's.
    np.testing.assert_allclose(
        np.linalg.inv(quad.asset_from_body) @ [0, 0, 1, 1], [0, 0, 1.5, 1], atol=1e-12
    )


def test_splats_and_their_proxy_lie_in_the_same_axes(tmp_path: Path) -> None:
    (tmp_path / "hall.ply").write_bytes(b"ply\n")
    write_obj(tmp_path / "mesh.obj")
    text = """\
scene: s
splats: {file: hall.ply, proxy: mesh.obj, up: y, scale: 2, p_m: [1, 0, 0], yaw_deg: 90,
    class: building}
"""
    scene = read(tmp_path, text)
    assert scene.splats is not None
    assert (scene.splats.path, scene.splats.proxy) == (
        (tmp_path / "hall.ply").resolve(),
        ("splats",),
    )
    assert named(scene, "splats").semantic == 15
    corner = scene.splats.T_world_splats @ [0, 1, 0, 1]
    np.testing.assert_allclose(corner[:3], [1, 0, 2], atol=1e-6)
    np.testing.assert_allclose(points(scene, "splats")[2], corner[:3], atol=1e-6)


@pytest.mark.parametrize(
    ("file", "up", "ahead", "above"),
    [
        ("hall.spz", "-y", (0, 0, 1), (0, -1, 0)),
        ("hall.spz", "y", (0, 0, 1), (0, 1, 0)),
        ("hall.spz", None, (1, 0, 0), (0, 0, 1)),
        ("hall.glb", None, (0, 0, 1), (0, 1, 0)),
        ("hall.glb", "z", (1, 0, 0), (0, 0, 1)),
    ],
)
def test_splats_have_the_axes_that_the_file_or_its_format_names(
    tmp_path: Path, file: str, up: str | None, ahead: tuple[int, ...], above: tuple[int, ...]
) -> None:
    (tmp_path / file).write_bytes(b"")
    write_obj(tmp_path / "mesh.obj")
    scene = read(
        tmp_path,
        f"scene: s\nsplats: {{file: {file}, proxy: mesh.obj{f', up: {up}' if up else ''}}}\n",
    )
    assert scene.splats is not None
    turn = scene.splats.T_world_splats[:3, :3]
    np.testing.assert_allclose(turn @ ahead, [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(turn @ above, [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(points(scene, "splats")[2], turn @ [0, 1, 0], atol=1e-6)


def test_names_and_paths_are_told_apart(tmp_path: Path) -> None:
    made = bare()
    assert load_scene("bare", {"bare": lambda: made}) is made
    with pytest.raises(
        RendererError, match=r"no scene is named 'bar'; known: bare \(did you mean 'bare'\?\)"
    ):
        load_scene("bar", {"bare": bare})
    with pytest.raises(RendererError, match=r"bare\.yaml: cannot be read: No such file"):
        load_scene("bare.yaml", {"bare": bare})
    with pytest.raises(RendererError, match="cannot be read"):
        load_scene(tmp_path / "bare", {"bare": bare})


def test_names_of_a_base_are_taken(tmp_path: Path) -> None:
    base = Scene(
        "b",
        (),
        bare().environment,
        beacons=(Beacon("x", np.zeros(3)),),
        gates=(Gate("g", Transform.identity(), 1.0, 1.0),),
    )
    text = (
        "scene: s\nbase: b\ngates:\n  - {name: g, width_m: 1, height_m: 1}\nbeacons:\n  - "
        "{name: x, p_m: [0, 0, 0]}\n"
    )
    assert problems(tmp_path, text, {"b": lambda: base}) == [
        "test.yaml:4:6: gates.0.name: another gate is named 'g' already, in the base 'b'",
        "test.yaml:6:6: beacons.0.name: another beacon is named 'x' already, in the base 'b'",
    ]
