"""glTF nodes, lights, skins and animations against closed forms."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gltf import SQUARE, SQUARE_INDICES, GltfFile, textured_square
from vil_bridge.core.geometry import q_exp, q_to_matrix
from vil_renderer.embedded.assets.animation import sample
from vil_renderer.embedded.assets.gltf import load_gltf
from vil_renderer.embedded.assets.model import Asset, Node

HALF = float(np.sqrt(0.5))


def by_name(asset: Asset) -> dict[str, Node]:
    return {node.name: node for node in asset.nodes}


# --- nodes -------------------------------------------------------------------------------------


def test_our_axes_from_the_files(tmp_path: Path) -> None:
    """Its z is forward, its x is left, its y is up."""
    file = GltfFile()
    file.node(translation=[1, 2, 3])
    asset = load_gltf(file.write(tmp_path, "thing.glb"))
    np.testing.assert_array_equal(asset.asset_from_node()[0, :3, 3], [3, 1, 2])
    assert np.linalg.det(asset.root) == pytest.approx(1.0)
    assert (asset.name, asset.origin, asset.nodes[0].name) == ("thing", "thing.glb", "node 0")


def test_parents_come_first_and_their_transforms_apply(tmp_path: Path) -> None:
    file = GltfFile()
    file.node(name="tip", translation=[0, 0, 1])
    file.node(name="arm", children=[0], rotation=[0, HALF, 0, HALF], scale=[2, 2, 2])
    file.node(name="base", children=[1], translation=[10, 0, 0])
    asset = load_gltf(file.write(tmp_path))
    assert [(node.name, node.parent) for node in asset.nodes] == [
        ("base", -1),
        ("arm", 0),
        ("tip", 1),
    ]
    # z is turned to x, doubled, and 10 along x: 12 along the file's x, our y.
    np.testing.assert_allclose(asset.asset_from_node()[2, :3, 3], [0, 12, 0], atol=1e-12)


@pytest.mark.parametrize("scale", [(1, 1, 1), (2, 3, 0.5), (-1, 1, 1), (1, -2, 3), (-1, -2, -3)])
def test_matrices_become_translation_rotation_scale(
    tmp_path: Path, scale: tuple[float, float, float]
) -> None:
    matrix = np.eye(4)
    matrix[:3, :3] = q_to_matrix(q_exp(np.array([0.3, -1.2, 0.7]))) * scale
    matrix[:3, 3] = (4, 5, 6)
    file = GltfFile()
    file.node(matrix=matrix.T.reshape(-1).tolist())
    asset = load_gltf(file.write(tmp_path))
    np.testing.assert_allclose(asset.rest_local()[0], matrix, atol=1e-9)


@pytest.mark.parametrize(
    ("scenes", "expected"),
    [
        ({}, ["a", "b", "c"]),
        ({"scenes": [{"nodes": [0]}, {"nodes": [1]}]}, ["a"]),
        ({"scenes": [{"nodes": [0]}, {"nodes": [2, 1]}], "scene": 1}, ["c", "b"]),
    ],
)
def test_only_the_default_scene_is_read(
    tmp_path: Path, scenes: dict[str, Any], expected: list[str]
) -> None:
    file = GltfFile()
    for name in "abc":
        file.node(name=name)
    file.json.update(scenes)
    assert [node.name for node in load_gltf(file.write(tmp_path)).nodes] == expected


def test_lights(tmp_path: Path) -> None:
    spot = {"type": "spot", "spot": {"innerConeAngle": 0.2, "outerConeAngle": 0.6}, "name": "beam"}
    lights = [
        {**spot, "color": [1, 0.5, 0], "intensity": 40, "range": 9},
        {"type": "directional"},
        {"type": "point"},
    ]
    file = GltfFile()
    file.json["extensions"] = {"KHR_lights_punctual": {"lights": lights}}
    for index in range(3):
        file.node(extensions={"KHR_lights_punctual": {"light": index}})
    first, second, third = (node.light for node in load_gltf(file.write(tmp_path)).nodes)
    assert first is not None and second is not None and third is not None
    assert (first.kind, first.colour, first.intensity, first.range_m) == (
        "spot",
        (1.0, 0.5, 0.0),
        40.0,
        9.0,
    )
    assert (first.cone_rad, first.name) == ((0.2, 0.6), "beam")
    assert (second.kind, third.kind, third.range_m, third.intensity) == (
        "directional",
        "point",
        0.0,
        1.0,
    )
    assert third.cone_rad == pytest.approx((0.0, np.pi / 4))


# --- skins -------------------------------------------------------------------------------------


def test_skin_follows_the_reordered_nodes(tmp_path: Path) -> None:
    asset = load_gltf(textured_square().write(tmp_path))
    nodes = by_name(asset)
    skin = nodes["square"].skin
    assert skin is not None
    assert [asset.nodes[joint].name for joint in skin.joints] == ["lower", "upper"]
    (part,) = nodes["square"].primitives
    assert part.joints is not None and part.weights is not None
    assert part.joints.dtype == np.uint16
    np.testing.assert_array_equal(part.weights, [[0.5, 0.5, 0, 0]] * len(part.p_m))


def skinned(
    file: GltfFile, joints: int, inverse_bind: int | None = None, **attributes: int
) -> None:
    for _ in range(joints):
        file.node()
    skin: dict[str, Any] = {"joints": list(range(joints))}
    if inverse_bind is not None:
        skin["inverseBindMatrices"] = inverse_bind
    file.node(
        name="skinned",
        mesh=file.mesh(SQUARE, SQUARE_INDICES, **attributes),
        skin=file.add("skins", skin),
    )


def rows(*row: float, dtype: str = "f4") -> Any:
    return np.tile(np.array(row, dtype), (4, 1))


def test_eight_weights_become_the_best_four(tmp_path: Path) -> None:
    file = GltfFile()
    skinned(
        file,
        8,
        JOINTS_0=file.accessor(rows(0, 1, 2, 3, dtype="u1")),
        WEIGHTS_0=file.accessor(rows(0.05, 0.1, 0.15, 0.2)),
        JOINTS_1=file.accessor(rows(4, 5, 6, 7, dtype="u2")),
        WEIGHTS_1=file.accessor(rows(0.0, 0.3, 0.2, 0.0)),
        NORMAL=file.accessor(rows(0, 0, 1)),
    )
    (part,) = by_name(load_gltf(file.write(tmp_path)))["skinned"].primitives
    assert part.joints is not None and part.weights is not None
    np.testing.assert_array_equal(part.joints, rows(5, 3, 6, 2))
    np.testing.assert_allclose(part.weights, rows(0.3, 0.2, 0.2, 0.15) / 0.85, rtol=1e-6)


@pytest.mark.parametrize(
    ("weights", "more", "expected"),
    [
        (rows(2, 6, 0, 0), {}, [0.25, 0.75, 0, 0]),
        (rows(51, 204, 0, 0, dtype="u1"), {"normalized": True}, [0.2, 0.8, 0, 0]),
        (rows(0, 0, 0, 0), {}, [1, 0, 0, 0]),
    ],
)
def test_weights_are_normalised(
    tmp_path: Path, weights: Any, more: dict[str, Any], expected: list[float]
) -> None:
    file = GltfFile()
    place = {
        "JOINTS_0": file.accessor(rows(0, 1, 99, 99, dtype="u1")),
        "WEIGHTS_0": file.accessor(weights, **more),
    }
    skinned(file, 2, **place)
    node = by_name(load_gltf(file.write(tmp_path)))["skinned"]
    (part,) = node.primitives
    assert part.weights is not None and part.joints is not None and node.skin is not None
    np.testing.assert_allclose(part.weights, [expected] * 4, atol=1e-6)
    assert part.joints.max() <= 1, "slots without weight refer to joints that do not exist"
    np.testing.assert_array_equal(node.skin.inverse_bind, np.tile(np.eye(4), (2, 1, 1)))


def test_inverse_bind_matrices_are_written_by_columns(tmp_path: Path) -> None:
    matrix = np.eye(4, dtype="f4")
    matrix[:3, 3] = (1, 2, 3)
    file = GltfFile()
    place = {
        "JOINTS_0": file.accessor(rows(0, 0, 0, 0, dtype="u1")),
        "WEIGHTS_0": file.accessor(rows(1, 0, 0, 0)),
    }
    skinned(file, 1, file.accessor(matrix.T.reshape(1, 16).copy()), **place)
    skin = by_name(load_gltf(file.write(tmp_path)))["skinned"].skin
    assert skin is not None
    np.testing.assert_array_equal(skin.inverse_bind[0], matrix)


def test_the_same_mesh_without_a_skin_is_rigid(tmp_path: Path) -> None:
    file = textured_square()
    file.json["nodes"].append({"name": "rigid", "mesh": 0})
    file.json["scenes"][0]["nodes"].append(3)
    nodes = by_name(load_gltf(file.write(tmp_path)))
    assert nodes["rigid"].primitives[0].joints is None
    assert nodes["square"].primitives[0].joints is not None


# --- animations --------------------------------------------------------------------------------


def animated(folder: Path, path: str, kind: str, times: Any, values: Any) -> Asset:
    file = GltfFile()
    file.node(translation=[9, 9, 9])
    sampler = {
        "input": file.accessor(np.array(times, "f4")),
        "output": file.accessor(np.array(values, "f4")),
        "interpolation": kind,
    }
    channel = {"sampler": 0, "target": {"node": 0, "path": path}}
    file.add("animations", {"name": "clip", "samplers": [sampler], "channels": [channel]})
    return load_gltf(file.write(folder))


def at(asset: Asset, t_s: float, loop: bool = False) -> Any:
    return sample(asset, asset.animations["clip"], t_s, loop)[0]


def test_linear_translation(tmp_path: Path) -> None:
    asset = animated(
        tmp_path, "translation", "LINEAR", [1, 2, 4], [[0, 0, 0], [1, 2, 3], [5, 2, 3]]
    )
    assert asset.animations["clip"].duration_s == 4.0
    for t_s, x in ((0, 0), (1, 0), (1.25, 0.25), (2, 1), (3, 3), (4, 5), (9, 5)):
        assert at(asset, t_s)[0, 3] == pytest.approx(x)
    for t_s, x in ((4.0, 0), (5.25, 0.25), (7, 3), (-1, 3)):
        assert at(asset, t_s, loop=True)[0, 3] == pytest.approx(x)


def test_step_holds_until_the_next_key(tmp_path: Path) -> None:
    asset = animated(tmp_path, "scale", "STEP", [0, 1, 2], [[1, 1, 1], [2, 2, 2], [3, 3, 3]])
    for t_s, size in ((0, 1), (0.99, 1), (1, 2), (1.99, 2), (2, 3), (5, 3)):
        assert at(asset, t_s)[0, 0] == pytest.approx(size)


def test_rotation_turns_evenly_the_short_way(tmp_path: Path) -> None:
    # A quarter turn about z, its quaternion with the other sign.
    asset = animated(tmp_path, "rotation", "LINEAR", [0, 1], [[0, 0, 0, 1], [0, 0, -HALF, -HALF]])
    for t_s in (0.0, 0.25, 0.5, 1.0):
        expected = np.eye(4)
        expected[:3, :3] = q_to_matrix(q_exp(np.array([0, 0, t_s * np.pi / 2])))
        expected[:3, 3] = 9
        np.testing.assert_allclose(at(asset, t_s), expected, atol=1e-6)


def test_cubic_spline_reproduces_a_cubic(tmp_path: Path) -> None:
    """Keys of x(t) = t^3 - t with its own slopes: in-tangent, value, out-tangent."""

    def x(t: float) -> float:
        return t**3 - t

    keys = [0.0, 0.5, 2.0]
    values = [[v, 0, 0] for t in keys for v in (3 * t * t - 1, x(t), 3 * t * t - 1)]
    asset = animated(tmp_path, "translation", "CUBICSPLINE", keys, values)
    for t_s in (0.0, 0.1, 0.4, 0.5, 1.0, 1.9, 2.0, 3.0):
        assert at(asset, t_s)[0, 3] == pytest.approx(x(min(t_s, 2.0)), abs=1e-6)


def test_cubic_rotations_stay_rotations(tmp_path: Path) -> None:
    still = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    turned = [[0, 0, 0, 0], [0, 0, HALF, HALF], [0, 0, 0, 0]]
    asset = animated(tmp_path, "rotation", "CUBICSPLINE", [0, 1], [*still, *turned])
    middle = at(asset, 0.5)[:3, :3]
    np.testing.assert_allclose(middle, q_to_matrix(q_exp(np.array([0, 0, np.pi / 4]))), atol=1e-6)


def test_one_key_and_nodes_left_alone(tmp_path: Path) -> None:
    asset = animated(tmp_path, "scale", "LINEAR", [0], [[2, 2, 2]])
    np.testing.assert_allclose(
        at(asset, 0.7, loop=True), [[2, 0, 0, 9], [0, 2, 0, 9], [0, 0, 2, 9], [0, 0, 0, 1]]
    )


def test_names_of_clips_and_what_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = textured_square()
    first = file.json["animations"][0]
    weights = {"sampler": 0, "target": {"node": 2, "path": "weights"}}
    nobody = {"sampler": 0, "target": {"path": "rotation"}}
    file.json["animations"] += [{**first, "name": ""}, {**first, "channels": [weights, nobody]}]
    with caplog.at_level(logging.WARNING):
        clips = load_gltf(file.write(tmp_path)).animations
    assert {name: len(clip.channels) for name, clip in clips.items()} == {
        "turn": 1,
        "animation 1": 1,
        "turn (2)": 0,
    }
    assert "model.glb: animation 2: channels of weights" in caplog.text
    assert clips["turn (2)"].duration_s == 0.0


def test_a_scene_without_nodes_is_nothing_at_all(tmp_path: Path) -> None:
    file = textured_square()
    file.json["scenes"][0]["nodes"] = []
    asset = load_gltf(file.write(tmp_path))
    assert asset.nodes == ()
    assert sample(asset, asset.animations["turn"], 0.5).shape == (0, 4, 4)


def test_channels_of_nodes_outside_the_scene_are_left_out(tmp_path: Path) -> None:
    file = textured_square()
    file.json["nodes"].append({"name": "elsewhere"})
    file.json["animations"][0]["channels"].append(
        {"sampler": 0, "target": {"node": 3, "path": "rotation"}}
    )
    asset = load_gltf(file.write(tmp_path))
    (channel,) = asset.animations["turn"].channels
    assert asset.nodes[channel.node].name == "upper"


def test_nodes_below_others_that_a_scene_lists_are_drawn_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As exporters of game assets write it: every node in the list."""
    file = GltfFile()
    file.node(name="wheel", translation=[1, 0, 0], mesh=file.mesh())
    file.node(name="car", translation=[0, 5, 0], children=[0])
    file.node(name="lost", translation=[0, 0, 7], children=[3])
    file.node(name="hat", translation=[0, 0, 1])
    file.add("scenes", {"nodes": [0, 1, 3]})
    asset = load_gltf(file.write(tmp_path))
    places = {
        node.name: matrix[:3, 3].tolist()
        for node, matrix in zip(
            asset.nodes, np.linalg.inv(asset.root) @ asset.asset_from_node(), strict=True
        )
    }
    assert places == {"car": [0, 5, 0], "wheel": [1, 5, 0], "hat": [0, 0, 1]}
    assert [record.getMessage() for record in caplog.records] == [
        "model.glb: scene 0 lists node 0 (wheel), which is not a root: its place below "
        "its parent is taken",
        "model.glb: scene 0 lists node 3 (hat), which is not a root: it is taken for a root",
    ]
