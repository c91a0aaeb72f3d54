"""Broken glTF files.

Each names itself and the element that is wrong, in bounded time and memory.
"""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gltf import SQUARE, SQUARE_INDICES, GltfFile, textured_square
from vil_bridge.core.errors import AssetError, RendererError
from vil_renderer.embedded.assets.gltf import container, load_gltf

Change = Callable[[GltfFile], object]


def refused(folder: Path, file: GltfFile) -> str:
    with pytest.raises(AssetError) as caught:
        load_gltf(file.write(folder))
    message = str(caught.value)
    assert message.startswith("model.glb: ")
    return message


def put(path: str, value: Any) -> Change:
    """Set ``a.0.b`` of the JSON."""

    def change(file: GltfFile) -> None:
        *parents, last = (int(key) if key.isdecimal() else key for key in path.split("."))
        target: Any = file.json
        for key in parents:
            target = target[key]
        target[last] = value

    return change


def numbers(accessor: int, values: Any) -> Change:
    """Write over an accessor's bytes."""

    def change(file: GltfFile) -> None:
        data = np.asarray(values).tobytes()
        start = file.json["bufferViews"][file.json["accessors"][accessor]["bufferView"]][
            "byteOffset"
        ]
        file.binary[start : start + len(data)] = data

    return change


# Accessors of the file: coordinates 0, joints 1, weights 2, positions 3, indices 4, inverse bind 5,
# times 6, turns 7.
P, INDICES, SHOWN = (
    "meshes.0.primitives.0.attributes",
    "meshes.0.primitives.0.indices",
    "node 2 (square)",
)
NAN = float("nan")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            put("accessors.3.count", 10**9),
            "accessor 3: 1,000,000,000 elements of 12 bytes exceed the 48 bytes of buffer",
        ),
        (
            put("accessors.3", {"componentType": 5126, "type": "VEC3", "count": 10**9}),
            "accessor 3: the file decodes to",
        ),
        (
            put("accessors.3.count", 3),
            "mesh 0 primitive 0: attributes differ in length: {'p_m': 3, 'uv': 4}",
        ),
        (put("accessors.3.count", 0), "$.accessors[3].count"),
        (put("accessors.3.count", -1), "$.accessors[3].count"),
        (put("accessors.3.count", "four"), "$.accessors[3].count"),
        (put("accessors.3.count", 2.5), "$.accessors[3].count"),
        (put("accessors.3.componentType", 5127), "$.accessors[3].componentType"),
        (put("accessors.3.type", "VEC5"), "$.accessors[3].type"),
        (
            put("accessors.3.type", "VEC2"),
            "accessor 3: (mesh 0 primitive 0 POSITION) holds VEC2, VEC3 belongs there",
        ),
        (put("accessors.3.byteOffset", 4), "accessor 3: 4 elements of 12 bytes exceed"),
        (
            put("accessors.3.bufferView", 99),
            "accessor 3: refers to buffer view 99, but there are 9",
        ),
        (put("bufferViews.4.buffer", 1), "buffer view 4: refers to buffer 1, but there are 1"),
        (put("bufferViews.4.byteLength", 10**6), "buffer view 4: bytes"),
        (
            put("bufferViews.4.byteStride", 4),
            "accessor 3: stride 4 of buffer view 4 is less than an element's 12 bytes",
        ),
        (put("bufferViews.4.byteStride", 0), "$.bufferViews[4].byteStride"),
        (put("accessors.3.sparse", {"count": 1, "indices": {}}), "$.accessors[3].sparse"),
        (
            numbers(3, np.array([0, NAN], "f4")),
            "accessor 3: (mesh 0 primitive 0 POSITION) holds values that are not finite",
        ),
        (numbers(3, np.array([0, np.inf], "f4")), "accessor 3"),
        (numbers(3, np.array([0, 1e30], "f4")), "accessor 3"),
        (numbers(0, np.array([NAN], "f4")), "accessor 0: (mesh 0 primitive 0 TEXCOORD_0)"),
        (
            numbers(4, np.array([4], "u2")),
            "accessor 4: (mesh 0 primitive 0 indices) refers to vertex 4, but there are 4",
        ),
        (put(P, {}), "mesh 0 primitive 0: has no POSITION"),
        (
            put(P + ".POSITION", 99),
            "mesh 0 primitive 0 POSITION: refers to accessor 99, but there are 8",
        ),
        (put(INDICES, 3), "accessor 3: (mesh 0 primitive 0 indices) holds VEC3"),
        (put(INDICES, 6), "accessor 6: (mesh 0 primitive 0 indices) holds no unsigned integers"),
        (put("meshes.0.primitives.0.mode", 7), "$.meshes[0].primitives[0].mode"),
        (
            put("meshes.0.primitives.0.material", 5),
            "mesh 0 primitive 0: refers to material 5, but there are 1",
        ),
        (
            put("materials.0.normalTexture", {"index": 7}),
            "material 0: refers to texture 7, but there are 1",
        ),
        (put("textures.0.source", 4), "texture 0: refers to image 4, but there are 1"),
        (put("textures.0.sampler", 4), "texture 0: refers to sampler 4, but there are 1"),
        (put("images.0", {}), "image 0: names neither a file nor a buffer view"),
        (put("images.0.bufferView", 4), "image 0: no PNG or JPEG"),
        (put("images.0", {"uri": "paint.png"}), "image 0: paint.png: there is no such file"),
        (put("images.0", {"uri": "data:image/png,abc"}), "image 0: its data URI is not in base64"),
        (put("images.0", {"uri": "data:image/png;base64,***"}), "image 0: its data URI is broken"),
        (
            put("images.0", {"uri": "/etc/hostname"}),
            "image 0: refers to '/etc/hostname': only files next to",
        ),
        (
            put("images.0", {"uri": "http://host/a.png"}),
            "image 0: refers to 'http://host/a.png': only files next to",
        ),
        (put("images.0", {"uri": "C:\\a.png"}), "image 0: refers to"),
        (
            put("images.0", {"uri": "../a.png"}),
            "image 0: refers to '../a.png', which is outside the file's folder",
        ),
        (put("images.0", {"uri": "x/%2e%2e/../a.png"}), "which is outside the file's folder"),
        (put("images.0", {"uri": "a\0b"}), "image 0"),
        (put("images.0", {"uri": "a" * 5000}), "image 0"),
        (put("images.0", {"uri": "."}), "image 0: .: not a file"),
        (put("nodes.2.mesh", 8), SHOWN + ": refers to mesh 8, but there are 1"),
        (put("nodes.2.skin", 8), SHOWN + ": refers to skin 8, but there are 1"),
        (put("skins.0.joints", [1, 9]), "skin 0: refers to node 9, but there are 3"),
        (put("skins.0.joints", [1]), "mesh 0 primitive 0: refers to joint 1, but the skin has 1"),
        (put("skins.0.joints", [1, 0, 2]), "skin 0: 3 joints, but 2 inverse bind matrices"),
        (put("skins.0.joints", []), "$.skins[0].joints"),
        (put("scenes.0.nodes", [2]), "skin 0: its joint, node 1 (lower), is not in the scene"),
        (put(P, {"POSITION": 3}), "mesh 0 primitive 0: has no JOINTS_0 and WEIGHTS_0"),
        (put(P + ".JOINTS_0", 2), "mesh 0 primitive 0: JOINTS_0 holds no unsigned integers"),
        (
            put("accessors.1.count", 3),
            "mesh 0 primitive 0: attributes differ in length: {'JOINTS_0': 3",
        ),
        (put("nodes.0.children", [1]), "node 0 (upper): is its own ancestor"),
        (put("nodes.0.children", [0]), "node 0 (upper): has two parents, nodes 0 and 1"),
        (put("nodes.2.children", [0]), "node 0 (upper): has two parents, nodes 1 and 2"),
        (put("nodes.1.children", [0, 0]), "node 0 (upper): has two parents, nodes 1 and 1"),
        (put("nodes.1.children", [77]), "node 1 (lower): refers to node 77, but there are 3"),
        (
            put("nodes.0.rotation", [0, 0, 0, 0]),
            "node 0 (upper): rotation (0.0, 0.0, 0.0, 0.0) has no length",
        ),
        (put("nodes.0.translation", [0, 1]), "$.nodes[0].translation"),
        (put("nodes.0.translation", [1e300, 0, 0]), "$.nodes[0].translation"),
        (
            put("nodes.0.matrix", [1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]),
            "node 0 (upper): its matrix shears",
        ),
        (put("nodes.0.matrix", [0] * 16), "node 0 (upper): its matrix shears or flattens"),
        (put("nodes.0.matrix", [1] * 15), "$.nodes[0].matrix"),
        (
            put("nodes.0.extensions", {"KHR_lights_punctual": {"light": 0}}),
            "node 0 (upper): refers to light 0",
        ),
        (put("scene", 3), "scene: refers to scene 3, but there are 1"),
        (put("scenes.0.nodes", [9]), "scene 0: refers to node 9, but there are 3"),
        (put("meshes.0.weights", [1.0]), "mesh 0 primitive 0: has 0 morph targets, but 1 weights"),
        (put("nodes.2.weights", [0.0]), "mesh 0 primitive 0: has 0 morph targets, but 1 weights"),
        (put("scenes.0.nodes", [1, 1]), "scene 0: lists a node twice"),
        (
            numbers(6, np.array([1, 0], "f4")),
            "accessor 6: (animation 0 channel 0 times) is negative or decreases",
        ),
        (numbers(6, np.array([-1], "f4")), "accessor 6"),
        (
            put("animations.0.samplers.0.output", 0),
            "accessor 0: (animation 0 channel 0 values) holds VEC2",
        ),
        (
            put("animations.0.samplers.0.output", 2),
            "animation 0 channel 0: 4 values do not fit 2 times",
        ),
        (
            put("animations.0.samplers.0.interpolation", "CUBICSPLINE"),
            "animation 0 channel 0: 2 values do not fit",
        ),
        (
            put("animations.0.channels.0.sampler", 5),
            "animation 0 channel 0: refers to sampler 5, but there are 1",
        ),
        (
            put("animations.0.channels.0.target.node", 5),
            "animation 0 channel 0: refers to node 5, but there are 3",
        ),
        (put("asset.version", "1.0"), "asset: glTF 1.0, only 2.x is read"),
        (put("asset", {}), "`version`"),
        (put("nodes", {"0": {}}), "$.nodes"),
        (put("nodes.0", None), "$.nodes[0]"),
    ],
)
def test_every_broken_element_is_named(tmp_path: Path, change: Change, said: str) -> None:
    file = textured_square()
    change(file)
    assert said in refused(tmp_path, file)


def test_the_whole_file_is_good_before_it_is_broken(tmp_path: Path) -> None:
    asset = load_gltf(textured_square().write(tmp_path))
    assert len(asset.nodes) == 3 and len(asset.animations) == 1
    assert issubclass(AssetError, RendererError)


def test_scales_that_multiply_beyond_all_bounds(tmp_path: Path) -> None:
    file = textured_square()
    for index in (0, 1):
        file.json["nodes"][index]["scale"] = [1e11, 1.0, 1e11]
    assert "node 0 (upper): its place in the scene is beyond all bounds" in refused(tmp_path, file)


@pytest.mark.parametrize(
    ("extension", "cure"),
    [
        ("KHR_meshopt_compression", "gltfpack -c"),
        ("KHR_texture_basisu", "PNG or JPEG"),
        ("KHR_animation_pointer", "animate nodes"),
        ("VENDOR_something", "without that extension"),
    ],
)
def test_required_extensions_are_named_with_their_cure(
    tmp_path: Path, extension: str, cure: str
) -> None:
    file = textured_square()
    file.json["extensionsRequired"] = [extension]
    message = refused(tmp_path, file)
    assert extension in message
    assert cure in message


def test_sparse_indices_beyond_the_elements(tmp_path: Path) -> None:
    file = GltfFile()
    file.node(mesh=file.mesh(SQUARE, SQUARE_INDICES))
    where, values = file.view(np.array([4], "u1").tobytes()), file.view(bytes(12))
    indices = {"bufferView": where, "componentType": 5121}
    file.json["accessors"][0]["sparse"] = {
        "count": 1,
        "indices": indices,
        "values": {"bufferView": values},
    }
    assert "accessor 0 sparse indices: 4 is beyond the 4 elements" in refused(tmp_path, file)
    file.json["accessors"][0]["sparse"]["count"] = 10**9
    assert "accessor 0 sparse indices: 1,000,000,000 elements" in refused(tmp_path, file)


def test_a_missing_buffer_file(tmp_path: Path) -> None:
    file = textured_square()
    path = tmp_path / "model.gltf"
    path.write_text(json.dumps({**file.json, "buffers": [{"byteLength": 10, "uri": "data.bin"}]}))
    with pytest.raises(
        AssetError, match=r"model\.gltf: buffer 0: data\.bin: there is no such file"
    ):
        load_gltf(path)
    (tmp_path / "data.bin").write_bytes(b"short")
    with pytest.raises(AssetError, match=r"model\.gltf: buffer 0: 10 bytes, but only 5 are there"):
        load_gltf(path)
    path.write_text(json.dumps({**file.json, "buffers": [{"byteLength": 10}]}))
    with pytest.raises(AssetError, match=r"model\.gltf: buffer 0: names no file"):
        load_gltf(path)


def test_links_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "data.bin").symlink_to(tmp_path / "secret.bin")
    path = folder / "model.gltf"
    path.write_text(
        json.dumps({**textured_square().json, "buffers": [{"byteLength": 10, "uri": "data.bin"}]})
    )
    with pytest.raises(AssetError, match="outside the file's folder"):
        load_gltf(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.glb")
    with pytest.raises(AssetError, match=r"model\.glb: not a file"):
        load_gltf(tmp_path / "model.glb")


def test_chains_of_nodes(tmp_path: Path) -> None:
    file = GltfFile()
    for index in range(512):
        file.node(children=[index + 1])
    file.node()
    assert "node 512: is nested deeper than 512 nodes" in refused(tmp_path, file)
    file.json["nodes"][510] = {}
    assert len(load_gltf(file.write(tmp_path)).nodes) == 513
    circle = GltfFile()
    for index in range(5000):
        circle.node(children=[(index + 1) % 5000])
    assert "node 0: is its own ancestor" in refused(tmp_path, circle)


def glb_of(text: bytes) -> bytes:
    text += b" " * (-len(text) % 4)
    return struct.pack("<4sIIII", b"glTF", 2, 20 + len(text), len(text), 0x4E4F534A) + text


HEAD = b'{"asset":{"version":"2.0"},'


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "JSON: "),
        (b"glTF", "GLB header: cut short at 4 of 12 bytes"),
        (struct.pack("<4sII", b"glTF", 1, 12), "GLB header: version 1"),
        (struct.pack("<4sII", b"glTF", 2, 12), "GLB chunk 0: no JSON"),
        (
            struct.pack("<4sII", b"glTF", 2, 99),
            "GLB header: 99 bytes, but the file has 12: it is cut short",
        ),
        (
            struct.pack("<4sIIII", b"glTF", 2, 20, 7, 0x4E4F534A),
            "GLB chunk 0: 7 bytes exceed the 0 left",
        ),
        (glb_of(b"{}"), "JSON: Object missing required field `asset`"),
        (glb_of(b"\xff\xfe{"), "JSON: "),
        (glb_of(HEAD + b'"extras":' + b"[" * 100_000), "JSON: nested too deeply"),
        (
            glb_of(HEAD + b'"nodes":[' + b"{}," * 2_000_000 + b"{}]}"),
            "JSON: more than 2,000,000 values",
        ),
        (glb_of(HEAD + b'"nodes":[{"translation":[1e999,0,0]}]}'), "JSON: "),
        (glb_of(HEAD + b'"nodes":[{"children":[' + b"9" * 400 + b"]}]}"), "$.nodes[0].children[0]"),
    ],
)
def test_broken_containers(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "model.glb"
    path.write_bytes(data)
    with pytest.raises(AssetError) as caught:
        load_gltf(path)
    assert str(caught.value).startswith("model.glb: ")
    assert said in str(caught.value)


def test_many_uses_of_few_bytes_stay_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each primitive alone is small; together they would be hundreds of gigabytes."""
    monkeypatch.setattr(container, "MAX_DECODED_BYTES", 1 << 26)
    file = GltfFile()
    primitive = {
        "attributes": {"POSITION": file.accessor(SQUARE)},
        "indices": file.accessor(np.zeros(300_000, "u1")),
    }
    file.add("meshes", {"primitives": [primitive] * 20_000})
    file.node(mesh=0)
    tracemalloc.start()
    try:
        assert "the file decodes to more than 64 MiB" in refused(tmp_path, file)
        assert tracemalloc.get_traced_memory()[1] < 1 << 28
    finally:
        tracemalloc.stop()
