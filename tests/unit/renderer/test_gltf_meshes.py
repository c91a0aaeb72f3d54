"""glTF meshes: every way to write vertices and triangles, against values known beforehand."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gltf import SQUARE, SQUARE_INDICES, SQUARE_UV, GltfFile
from vil_renderer.embedded.assets.gltf import load_gltf
from vil_renderer.embedded.assets.model import Asset, Primitive


def only(asset: Asset) -> Primitive:
    (part,) = (part for node in asset.nodes for part in node.primitives)
    return part


def shown(file: GltfFile, mesh: int, folder: Path) -> Primitive:
    file.node(mesh=mesh)
    return only(load_gltf(file.write(folder)))


def corners(part: Primitive) -> list[list[list[float]]]:
    """Corner positions of each triangle, begun at its least corner, sorted.

    What does not depend on numbering.
    """
    found = []
    for triangle in part.p_m[part.triangles].tolist():
        start = triangle.index(min(triangle))
        found.append(triangle[start:] + triangle[:start])
    return sorted(found)


UP = np.tile(np.array([0, 0, 1], "f4"), (4, 1))
TWO = [[[0, 0, 0], [1, 0, 0], [1, 1, 0]], [[0, 0, 0], [1, 1, 0], [0, 1, 0]]]


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
def test_indices_of_every_type(tmp_path: Path, dtype: str) -> None:
    file = GltfFile()
    part = shown(
        file, file.mesh(SQUARE, SQUARE_INDICES.astype(dtype), NORMAL=file.accessor(UP)), tmp_path
    )
    assert part.triangles.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert part.triangles.dtype == np.uint32
    np.testing.assert_array_equal(part.p_m, SQUARE)
    np.testing.assert_array_equal(part.normal, UP)
    assert part.tangent is None
    assert part.colour is None


def test_without_indices_vertices_come_as_they_stand(tmp_path: Path) -> None:
    file = GltfFile()
    part = shown(file, file.mesh(SQUARE[SQUARE_INDICES]), tmp_path)
    assert corners(part) == sorted(TWO)


def test_strip_keeps_one_side_outside_and_drops_jumps(tmp_path: Path) -> None:
    strip = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 2, 0]], "f4")
    file = GltfFile()
    indices = np.array([0, 1, 2, 3, 4, 4, 0], "u2")
    part = shown(file, file.mesh(strip, indices, mode=5), tmp_path)
    assert len(part.triangles) == 3
    np.testing.assert_allclose(part.normal, np.tile([0, 0, 1], (len(part.p_m), 1)))


def test_fan(tmp_path: Path) -> None:
    file = GltfFile()
    part = shown(file, file.mesh(SQUARE, mode=6), tmp_path)
    assert corners(part) == sorted(TWO)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_points_and_lines_are_left_out_with_a_warning(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    file = GltfFile()
    file.node(mesh=file.mesh(SQUARE, mode=mode))
    with caplog.at_level(logging.WARNING):
        assert load_gltf(file.write(tmp_path)).nodes[0].primitives == ()
    assert "model.glb: mesh 0 primitive 0" in caplog.text


def test_missing_normals_are_flat_and_shared_within_a_plane(tmp_path: Path) -> None:
    # Two squares at a right angle that share an edge.
    roof = np.vstack((SQUARE, np.array([[0, 0, -1], [1, 0, -1]], "f4")))
    indices = np.array([*SQUARE_INDICES, 0, 4, 5, 0, 5, 1], "u2")
    file = GltfFile()
    part = shown(file, file.mesh(roof, indices), tmp_path)
    assert len(part.p_m) == 8
    faces = part.normal[part.triangles]
    np.testing.assert_array_equal(faces[:, 0], faces[:, 1])
    np.testing.assert_allclose(faces[:2, 0], [[0, 0, 1]] * 2)
    np.testing.assert_allclose(faces[2:, 0], [[0, -1, 0]] * 2)


def test_normals_are_made_unit_and_those_without_length_repaired(tmp_path: Path) -> None:
    normals = np.array([[0, 0, 3], [0, 2, 0], [0, 0, 0], [0, 0, 1]], "f4")
    file = GltfFile()
    part = shown(file, file.mesh(SQUARE, SQUARE_INDICES, NORMAL=file.accessor(normals)), tmp_path)
    np.testing.assert_allclose(part.normal, [[0, 0, 1], [0, 1, 0], [0, 0, 1], [0, 0, 1]])


@pytest.mark.parametrize(
    ("dtype", "largest"), [("i1", 127), ("u1", 255), ("i2", 32767), ("u2", 65535)]
)
def test_quantised_attributes(tmp_path: Path, dtype: str, largest: int) -> None:
    """KHR_mesh_quantization: integers as they are, or as parts of the largest."""
    file = GltfFile()
    plain = file.accessor(np.array([[0, 0, 0], [2, 0, 0], [0, 3, 0]], dtype))
    scaled = np.array([[0, 0], [largest, 0], [0, largest // 2]], dtype)
    mesh = file.mesh(SQUARE[:3], TEXCOORD_0=file.accessor(scaled, normalized=True))
    file.json["meshes"][mesh]["primitives"][0]["attributes"]["POSITION"] = plain
    file.json["extensionsRequired"] = ["KHR_mesh_quantization"]
    part = shown(file, mesh, tmp_path)
    np.testing.assert_array_equal(part.p_m, [[0, 0, 0], [2, 0, 0], [0, 3, 0]])
    np.testing.assert_allclose(
        part.uv, np.array([[0, 0], [1, 0], [0, largest // 2 / largest]]), atol=1e-6
    )


def test_signed_integers_reach_minus_one_and_no_further(tmp_path: Path) -> None:
    file = GltfFile()
    normals = np.array([[-128, 0, 0], [-127, 0, 0], [0, 0, 127]], "i1")
    mesh = file.mesh(SQUARE[:3], TEXCOORD_0=file.accessor(normals[:, :2].copy(), normalized=True))
    np.testing.assert_allclose(shown(file, mesh, tmp_path).uv[:2], [[-1, 0], [-1, 0]])


def test_interleaved_vertices(tmp_path: Path) -> None:
    rows = np.zeros((4, 8), "f4")
    rows[:, :3], rows[:, 3:6], rows[:, 6:] = SQUARE, UP, SQUARE_UV
    file = GltfFile()
    view = file.view(b"head" + rows.tobytes(), byteStride=32)
    attributes = {}
    for name, offset, kind in (
        ("POSITION", 4, "VEC3"),
        ("NORMAL", 16, "VEC3"),
        ("TEXCOORD_0", 28, "VEC2"),
    ):
        place = {
            "bufferView": view,
            "byteOffset": offset,
            "componentType": 5126,
            "count": 4,
            "type": kind,
        }
        attributes[name] = file.add("accessors", place)
    indices = file.accessor(SQUARE_INDICES)
    file.add("meshes", {"primitives": [{"attributes": attributes, "indices": indices}]})
    part = shown(file, 0, tmp_path)
    np.testing.assert_array_equal(part.p_m, SQUARE)
    np.testing.assert_array_equal(part.normal, UP)
    np.testing.assert_array_equal(part.uv, SQUARE_UV)


@pytest.mark.parametrize("based", [True, False])
def test_sparse_accessors(tmp_path: Path, based: bool) -> None:
    file = GltfFile()
    where = file.view(np.array([1, 3], "u2").tobytes())
    values = file.view(np.array([[5, 0, 0], [0, 7, 0]], "f4").tobytes())
    mesh = file.mesh(SQUARE, SQUARE_INDICES, NORMAL=file.accessor(UP))
    accessor = file.json["accessors"][
        file.json["meshes"][0]["primitives"][0]["attributes"]["POSITION"]
    ]
    if not based:
        del accessor["bufferView"]
    indices = {"bufferView": where, "componentType": 5123}
    accessor["sparse"] = {"count": 2, "indices": indices, "values": {"bufferView": values}}
    part = shown(file, mesh, tmp_path)
    expected = SQUARE.copy() if based else np.zeros((4, 3), "f4")
    expected[[1, 3]] = [[5, 0, 0], [0, 7, 0]]
    np.testing.assert_array_equal(part.p_m, expected)


@pytest.mark.parametrize(
    ("values", "more", "expected"),
    [
        (np.array([[0.5, 0, 1]] * 4, "f4"), {}, [128, 0, 255, 255]),
        (np.array([[0.5, 0, 2, 0.25]] * 4, "f4"), {}, [128, 0, 255, 64]),
        (np.array([[9, 8, 7]] * 4, "u1"), {"normalized": True}, [9, 8, 7, 255]),
        (np.array([[65535, 0, 257, 32896]] * 4, "u2"), {"normalized": True}, [255, 0, 1, 128]),
    ],
)
def test_colours(tmp_path: Path, values: Any, more: dict[str, Any], expected: list[int]) -> None:
    file = GltfFile()
    part = shown(
        file, file.mesh(SQUARE, SQUARE_INDICES, COLOR_0=file.accessor(values, **more)), tmp_path
    )
    assert part.colour is not None
    assert part.colour.tolist() == [expected] * 4


def test_second_texture_coordinates(tmp_path: Path) -> None:
    file = GltfFile()
    second = file.accessor(SQUARE_UV * 3)
    part = shown(
        file, file.mesh(SQUARE, NORMAL=file.accessor(UP), TEXCOORD_1=second, mode=6), tmp_path
    )
    assert part.uv1 is not None
    np.testing.assert_array_equal(part.uv1, SQUARE_UV * 3)
    np.testing.assert_array_equal(part.uv, np.zeros((4, 2)))


def normal_mapped(file: GltfFile, **more: Any) -> int:
    texture = file.add("textures", {"source": file.image(np.full((2, 2, 3), 128))})
    return file.add("materials", {"normalTexture": {"index": texture, **more}})


@pytest.mark.parametrize(
    ("uv", "expected"),
    [
        # u to the right, v down: along x, and cross(n, t) is up, against v.
        (SQUARE_UV, [1, 0, 0, 1]),
        # Mirrored picture.
        (SQUARE_UV * [-1, 1], [-1, 0, 0, -1]),
        # Turned by a quarter: u grows along y.
        (SQUARE_UV[:, ::-1] * [-1, 1], [0, 1, 0, 1]),
    ],
)
def test_tangents_follow_the_picture(tmp_path: Path, uv: Any, expected: list[float]) -> None:
    file = GltfFile()
    place = file.accessor(np.asarray(uv, "f4"))
    mesh = file.mesh(SQUARE, SQUARE_INDICES, TEXCOORD_0=place, material=normal_mapped(file))
    part = shown(file, mesh, tmp_path)
    assert part.tangent is not None
    np.testing.assert_allclose(part.tangent, [expected] * len(part.p_m), atol=1e-6)


def test_tangents_of_a_turned_texture_and_without_coordinates(tmp_path: Path) -> None:
    file = GltfFile()
    turn = {"extensions": {"KHR_texture_transform": {"rotation": np.pi / 2}}}
    mesh = file.mesh(
        SQUARE, mode=6, TEXCOORD_0=file.accessor(SQUARE_UV), material=normal_mapped(file, **turn)
    )
    part = shown(file, mesh, tmp_path)
    assert part.tangent is not None
    # u' = v, and v falls along y.
    np.testing.assert_allclose(part.tangent, [[0, -1, 0, 1]] * 4, atol=1e-6)
    bare = GltfFile()
    part = shown(bare, bare.mesh(SQUARE, mode=6, material=normal_mapped(bare)), tmp_path)
    assert part.tangent is not None
    np.testing.assert_allclose(np.linalg.norm(part.tangent[:, :3], axis=1), 1.0)
    np.testing.assert_allclose((part.tangent[:, :3] * part.normal).sum(axis=1), 0.0, atol=1e-6)


def test_tangents_of_the_file_are_kept(tmp_path: Path) -> None:
    file = GltfFile()
    given = np.tile(np.array([0, 1, 0, -1], "f4"), (4, 1))
    attributes = {
        "NORMAL": file.accessor(UP),
        "TANGENT": file.accessor(given),
        "material": normal_mapped(file),
    }
    part = shown(file, file.mesh(SQUARE, mode=6, **attributes), tmp_path)
    assert part.tangent is not None
    np.testing.assert_array_equal(part.tangent, given)


def test_a_mirrored_node_shows_the_outside(tmp_path: Path) -> None:
    file = GltfFile()
    mesh = file.mesh(SQUARE, SQUARE_INDICES, NORMAL=file.accessor(UP))
    file.node(mesh=mesh)
    file.node(mesh=mesh, scale=[-1, 1, 1])
    asset = load_gltf(file.write(tmp_path))
    for node, matrix in zip(asset.nodes, asset.asset_from_node(), strict=True):
        (part,) = node.primitives
        a, b, c = (part.p_m @ matrix[:3, :3].T)[part.triangles[0]]
        np.testing.assert_allclose(np.cross(b - a, c - a), [1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("scale", [[1, 1, 1], [-1, 1, 1], [1, -1, 1], [-2, 3, 1]])
def test_the_picture_of_a_mirrored_node_rises_against_v(tmp_path: Path, scale: list[float]) -> None:
    """u grows along the x axis of the square, v falls along its y axis, wherever the node puts
    them.
    """
    file = GltfFile()
    place = file.accessor(SQUARE_UV)
    mesh = file.mesh(SQUARE, SQUARE_INDICES, TEXCOORD_0=place, material=normal_mapped(file))
    file.node(mesh=mesh, scale=scale)
    asset = load_gltf(file.write(tmp_path))
    (matrix,) = asset.asset_from_node()[:, :3, :3]
    part = only(asset)
    assert part.tangent is not None
    along_u = matrix @ (1.0, 0.0, 0.0)
    rises = matrix @ (0.0, 1.0, 0.0)
    normal = part.normal @ np.linalg.inv(matrix)
    along = part.tangent[:, :3] @ matrix.T
    np.testing.assert_allclose(along, [along_u] * len(along), atol=1e-6)
    found = np.cross(normal, along) * part.tangent[:, 3:]
    np.testing.assert_allclose(
        found / np.linalg.norm(found[0]), [rises / np.linalg.norm(rises)] * len(found), atol=1e-6
    )


def test_meshes_are_shared_between_nodes(tmp_path: Path) -> None:
    file = GltfFile()
    mesh = file.mesh()
    for _ in range(3):
        file.node(mesh=mesh)
    first, second, third = load_gltf(file.write(tmp_path)).nodes
    assert first.primitives[0] is second.primitives[0] is third.primitives[0]


def test_buffers_in_files_and_in_the_text(tmp_path: Path) -> None:
    import base64

    file = GltfFile()
    file.node(mesh=file.mesh(SQUARE, SQUARE_INDICES, NORMAL=file.accessor(UP)))
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "sub dir" / "data.bin").write_bytes(bytes(file.binary))
    length = len(file.binary)
    inline = "data:application/octet-stream;base64," + base64.b64encode(bytes(file.binary)).decode()
    for uri in ("sub%20dir/data.bin", "sub dir/../sub dir/data.bin", inline):
        described = {**file.json, "buffers": [{"byteLength": length, "uri": uri}]}
        path = tmp_path / "model.gltf"
        path.write_text(json.dumps(described))
        np.testing.assert_array_equal(only(load_gltf(path)).p_m, SQUARE)


def morphed(folder: Path, **node: Any) -> Primitive:
    """A square whose two targets raise it and turn its normals.

    Its mesh weighs the first by a half.
    """
    file = GltfFile()
    raised, turned = (
        np.tile(np.array([0, 0, 2], "f4"), (4, 1)),
        np.tile(np.array([1, 0, -1], "f4"), (4, 1)),
    )
    mesh = file.mesh(
        SQUARE, SQUARE_INDICES, NORMAL=file.accessor(np.tile(np.array([0, 0, 1], "f4"), (4, 1)))
    )
    targets = [{"POSITION": file.accessor(raised)}, {"NORMAL": file.accessor(turned)}]
    file.json["meshes"][mesh]["primitives"][0]["targets"] = targets
    file.json["meshes"][mesh]["weights"] = [0.5, 0.0]
    file.node(mesh=mesh, **node)
    return only(load_gltf(file.write(folder)))


def test_morph_targets_are_applied_at_rest(tmp_path: Path) -> None:
    part = morphed(tmp_path)
    np.testing.assert_allclose(part.p_m, np.asarray(SQUARE) + np.array([0, 0, 1]))
    np.testing.assert_allclose(part.normal, [[0, 0, 1]] * 4)
    part = morphed(tmp_path, weights=[-1.0, 1.0])
    np.testing.assert_allclose(part.p_m, np.asarray(SQUARE) - np.array([0, 0, 2]))
    np.testing.assert_allclose(part.normal, [[1, 0, 0]] * 4, atol=1e-6)
