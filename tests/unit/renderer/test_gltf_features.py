"""Features of glTF that change shapes: each against an equivalent plain file or a closed form."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, features

from tests.support.common import ROOT
from tests.support.gltf import SQUARE, SQUARE_INDICES, GltfFile
from vil_bridge.core.errors import AssetError
from vil_bridge.core.geometry import q_exp, q_to_matrix
from vil_renderer.embedded.assets.gltf import clips, extensions, instances, load_gltf
from vil_renderer.embedded.assets.model import Asset, Primitive
from vil_renderer.embedded.assets.skins import resting
from vil_renderer.embedded.engine.shader_frame import MAX_JOINTS

UP = np.tile(np.array([0, 0, 1], "f4"), (4, 1))
WAVE = np.stack((np.arange(9) % 3, np.arange(9) // 3, np.sin(np.arange(9))), axis=1).astype("f4")
"""A grid of 3 x 3 vertices."""


def parts(asset: Asset) -> list[Primitive]:
    return [part for node in asset.nodes for part in node.primitives]


def corners(asset: Asset) -> Any:
    """Corners of all triangles in the asset's axes, (m, 3, 3)."""
    found = [
        (part.p_m @ m[:3, :3].T + m[:3, 3])[part.triangles]
        for node, m in zip(asset.nodes, asset.asset_from_node(), strict=True)
        for part in node.primitives
    ]
    return np.concatenate(found)


def grid_strip() -> Any:
    """The triangles of WAVE's grid as a list and as a strip that jumps between its rows."""
    strip = [0, 3, 1, 4, 2, 5, 5, 3, 3, 6, 4, 7, 5, 8]
    triangles = []
    for k, (a, b, c) in enumerate(zip(strip, strip[1:], strip[2:], strict=False)):
        if len({a, b, c}) == 3:
            triangles.append((a, c, b) if k % 2 else (a, b, c))
    return triangles, strip


# --- vertices ----------------------------------------------------------------------------------


def test_a_strip_is_its_list(tmp_path: Path) -> None:
    triangles, strip = grid_strip()
    found = []
    for indices, mode in ((np.array(triangles).ravel(), 4), (np.array(strip), 5)):
        file = GltfFile()
        file.node(mesh=file.mesh(WAVE, indices.astype("u2"), mode=mode))
        found.append(corners(load_gltf(file.write(tmp_path))))
    np.testing.assert_array_equal(
        np.sort(found[0].reshape(-1, 9), axis=0), np.sort(found[1].reshape(-1, 9), axis=0)
    )


def test_quantised_places_are_within_the_quantum(tmp_path: Path) -> None:
    """As gltfpack writes them: normalised integers, and a node that scales and moves them back."""
    triangles = np.array(grid_strip()[0], "u2").ravel()
    low, size = WAVE.min(axis=0), np.ptp(WAVE, axis=0)
    file = GltfFile()
    mesh = file.mesh(WAVE, triangles)
    stored = np.rint((WAVE - low) / size * 65535).astype("<u2")
    place = {"bufferView": file.view(np.pad(stored, ((0, 0), (0, 1))).tobytes(), byteStride=8)}
    described = {"componentType": 5123, "count": 9, "type": "VEC3", "normalized": True}
    file.json["meshes"][mesh]["primitives"][0]["attributes"]["POSITION"] = file.add(
        "accessors", place | described
    )
    file.json["extensionsRequired"] = ["KHR_mesh_quantization"]
    file.node(mesh=mesh, translation=low.tolist(), scale=size.tolist())
    plain = GltfFile()
    plain.node(mesh=plain.mesh(WAVE, triangles))
    found, expected = (corners(load_gltf(f.write(tmp_path))) for f in (file, plain))
    assert np.abs(found - expected).max() <= 0.51 * size.max() / 65535 + 1e-6


def test_sparse_is_dense(tmp_path: Path) -> None:
    changed = WAVE.copy()
    changed[[2, 7]] += (0, 0, 3)
    triangles = np.array(grid_strip()[0], "u2").ravel()
    sparse, dense = GltfFile(), GltfFile()
    mesh = sparse.mesh(WAVE, triangles)
    accessor = sparse.json["accessors"][
        sparse.json["meshes"][mesh]["primitives"][0]["attributes"]["POSITION"]
    ]
    indices = {"bufferView": sparse.view(np.array([2, 7], "u1").tobytes()), "componentType": 5121}
    values = {"bufferView": sparse.view(changed[[2, 7]].tobytes())}
    accessor["sparse"] = {"count": 2, "indices": indices, "values": values}
    sparse.node(mesh=mesh)
    dense.node(mesh=dense.mesh(changed, triangles))
    found, expected = (corners(load_gltf(f.write(tmp_path))) for f in (sparse, dense))
    np.testing.assert_array_equal(found, expected)


def test_a_texture_without_its_coordinates_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = GltfFile()
    texture = file.add("textures", {"source": file.image(np.zeros((2, 2, 3)))})
    look = file.add("materials", {"emissiveTexture": {"index": texture, "texCoord": 1}})
    file.node(mesh=file.mesh(material=look))
    with caplog.at_level(logging.WARNING):
        load_gltf(file.write(tmp_path))
    assert "model.glb: mesh 0 primitive 0: has no TEXCOORD_1" in caplog.text


# --- nodes -------------------------------------------------------------------------------------


def test_instances_are_nodes(tmp_path: Path) -> None:
    p = np.array([[0, 0, 0], [2, 0, 0], [0, 3, 1]], "f4")
    q = np.array([q_exp(np.array(v)) for v in ((0, 0, 0), (0, 0, 1.0), (0.3, -0.5, 0.2))])
    scale = np.array([[1, 1, 1], [2, 1, 0.5], [-1, 1, 1]], "f4")
    file, plain = GltfFile(), GltfFile()
    attributes = {"TRANSLATION": file.accessor(p), "SCALE": file.accessor(scale)}
    attributes["ROTATION"] = file.accessor(np.rint(q * 32767).astype("<i2"), normalized=True)
    mesh = file.mesh(SQUARE, SQUARE_INDICES, NORMAL=file.accessor(UP))
    own = {"EXT_mesh_gpu_instancing": {"attributes": attributes}}
    below = file.node(
        mesh=mesh, translation=[0, 0, 5], scale=[1, -1, 1], extensions=own, name="tree"
    )
    file.node(children=[below], translation=[1, 0, 0])
    file.json["extensionsRequired"] = ["EXT_mesh_gpu_instancing"]
    mesh = plain.mesh(SQUARE, SQUARE_INDICES, NORMAL=plain.accessor(UP))
    for k in range(3):
        plain.node(
            mesh=mesh, translation=p[k].tolist(), rotation=q[k].tolist(), scale=scale[k].tolist()
        )
    plain.node(children=[0, 1, 2], translation=[0, 0, 5], scale=[1, -1, 1])
    plain.node(children=[3], translation=[1, 0, 0])
    found, expected = (load_gltf(f.write(tmp_path)) for f in (file, plain))
    np.testing.assert_allclose(corners(found), corners(expected), atol=3e-4)
    assert [node.name for node in found.nodes if node.primitives] == ["tree 0", "tree 1", "tree 2"]


def test_instances_are_checked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def instanced(**attributes: Any) -> GltfFile:
        file = GltfFile()
        own = {name: file.accessor(np.asarray(values)) for name, values in attributes.items()}
        file.node(mesh=file.mesh(), extensions={"EXT_mesh_gpu_instancing": {"attributes": own}})
        return file

    three, two = np.zeros((3, 3), "f4"), np.ones((2, 3), "f4")
    for file, said in (
        (
            instanced(TRANSLATION=three, SCALE=two),
            r"node 0: attributes of its instances differ in length",
        ),
        (instanced(TRANSLATION=np.zeros((3, 2), "f4")), "holds VEC2, VEC3 belongs there"),
        (instanced(ROTATION=np.zeros((3, 4), "f4")), "a rotation of its instances has no length"),
        (instanced(_ID=three), "are absent"),
    ):
        with pytest.raises(AssetError, match=said):
            load_gltf(file.write(tmp_path))
    with caplog.at_level(logging.WARNING):
        load_gltf(instanced(TRANSLATION=three, _ID=three).write(tmp_path))
    assert "attributes _ID of its instances are left out" in caplog.text
    monkeypatch.setattr(instances, "MOST_INSTANCES", 2)
    with pytest.raises(AssetError, match="more than 2 instances"):
        load_gltf(instanced(TRANSLATION=three).write(tmp_path))


def test_hidden_nodes_hide_what_is_below_them(tmp_path: Path) -> None:
    file = GltfFile()
    mesh = file.mesh()
    file.node(mesh=mesh, name="leaf")
    hidden = {"KHR_node_visibility": {"visible": False}}
    file.node(mesh=mesh, children=[0], extensions=hidden, name="branch")
    file.node(mesh=mesh, children=[1], name="root")
    file.json["extensionsRequired"] = ["KHR_node_visibility"]
    asset = load_gltf(file.write(tmp_path))
    assert [node.name for node in asset.nodes if node.primitives] == ["root"]
    assert len(asset.nodes) == 3


def test_a_skin_at_rest_is_where_its_joints_are(tmp_path: Path) -> None:
    """Joints turned, moved and scaled; the node's own place does not matter."""
    file = GltfFile()
    q = q_exp(np.array([0.4, 0.1, -0.8]))
    file.node(name="joint", translation=[1, 2, 3], rotation=q.tolist(), scale=[2, 1, 0.5])
    skin = file.add("skins", {"joints": [0]})
    mesh = file.mesh(
        SQUARE,
        SQUARE_INDICES,
        NORMAL=file.accessor(np.tile(np.array([0.6, 0, 0.8], "f4"), (4, 1))),
        JOINTS_0=file.accessor(np.zeros((4, 4), "u1")),
        WEIGHTS_0=file.accessor(np.tile(np.array([1, 0, 0, 0], "f4"), (4, 1))),
    )
    file.node(mesh=mesh, skin=skin, translation=[50, 0, 0])
    asset = load_gltf(file.write(tmp_path))
    fixed = resting(asset)
    m = asset.root[:3, :3] @ q_to_matrix(q) * [2, 1, 0.5]
    expected = SQUARE @ m.T + asset.root[:3, :3] @ [1, 2, 3]
    np.testing.assert_allclose(corners(fixed), expected[SQUARE_INDICES].reshape(2, 3, 3), atol=1e-5)
    (part,) = parts(fixed)
    turned = asset.root[:3, :3].T @ np.linalg.inv(m).T @ [0.6, 0, 0.8]
    np.testing.assert_allclose(part.normal, [turned / np.linalg.norm(turned)] * 4, atol=1e-5)
    assert part.joints is None and all(node.skin is None for node in fixed.nodes)


# --- claims ------------------------------------------------------------------------------------


def test_what_a_file_uses_and_we_leave_out_is_said_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = GltfFile()
    file.node(mesh=file.mesh())
    file.json["extensionsUsed"] = [
        "KHR_materials_iridescence",
        "VENDOR_secret",
        "KHR_materials_clearcoat",
    ]
    with caplog.at_level(logging.WARNING):
        load_gltf(file.write(tmp_path))
    assert [record.getMessage() for record in caplog.records] == [
        "model.glb: extensionsUsed: KHR_materials_iridescence is not supported: thin "
        "films have no colours",
        "model.glb: extensionsUsed: VENDOR_secret is not supported: what it describes is left out",
    ]


def test_a_file_that_needs_a_later_reader_is_refused(tmp_path: Path) -> None:
    file = GltfFile()
    file.json["asset"] = {"version": "2.1", "minVersion": "2.1"}
    with pytest.raises(AssetError, match=r"asset: needs a reader of glTF 2\.1"):
        load_gltf(file.write(tmp_path))
    file.json["asset"]["minVersion"] = "2.0"
    load_gltf(file.write(tmp_path))


def test_the_page_lists_what_is_read() -> None:
    page = (ROOT / "docs/reference/gltf.md").read_text()
    table = page[page.index("## Extensions") :]
    listed = re.findall(r"^\| `([A-Z]+_\w+)` \|", table, re.M)
    assert listed == sorted(extensions.READ)
    for number in (instances.MOST_INSTANCES, clips.MOST_TARGETS, MAX_JOINTS):
        assert f"{number:,}" in page


def test_pictures_of_other_formats(tmp_path: Path) -> None:
    colour = np.full((8, 8, 3), (200, 100, 50), np.uint8)
    for kind in ("WEBP", "AVIF"):
        if kind == "AVIF" and not features.check("avif"):
            continue
        file = GltfFile()
        Image.fromarray(colour).save(tmp_path / "look.bin", kind, quality=95)
        named = {f"EXT_texture_{kind.lower()}": {"source": file.add("images", {"uri": "look.bin"})}}
        texture = file.add(
            "textures", {"extensions": named, "source": file.image(np.zeros((2, 2, 3)))}
        )
        look = {"pbrMetallicRoughness": {"baseColorTexture": {"index": texture}}}
        file.node(mesh=file.mesh(material=file.add("materials", look)))
        file.json["extensionsRequired"] = list(named)
        (part,) = parts(load_gltf(file.write(tmp_path)))
        assert part.material.base is not None
        np.testing.assert_allclose(
            part.material.base.texture.pixels.astype(int)[4, 4], (200, 100, 50), atol=8
        )


def test_ktx2_is_refused_in_words(tmp_path: Path) -> None:
    file = GltfFile()
    (tmp_path / "look.ktx2").write_bytes(b"\xabKTX 20\xbb\r\n\x1a\n" + bytes(100))
    texture = file.add("textures", {"source": file.add("images", {"uri": "look.ktx2"})})
    file.node(mesh=file.mesh(material=file.add("materials", {"normalTexture": {"index": texture}})))
    with pytest.raises(
        AssetError, match=r"image 0: a KTX2 texture is not read\. Convert it to PNG or JPEG"
    ):
        load_gltf(file.write(tmp_path))
