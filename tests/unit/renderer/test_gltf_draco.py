"""KHR_draco_mesh_compression: packed by DracoPy here, against the plain arrays.

And what is refused.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.gltf import GltfFile
from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.gltf import load_gltf
from vil_renderer.embedded.assets.gltf.draco import _counts

GRID = np.arange(25).reshape(5, 5)
PLACES = np.stack((GRID.ravel() % 5, GRID.ravel() // 5, GRID.ravel() % 3), axis=1).astype(float)
SEQUENTIAL = "445241434f02020100000002040100010200020301010009030000020001"
"""The head of two triangles of four vertices, in their order."""
EDGEBREAKER = "445241434f020201010000001920002003000aefd3ea53adea53d5aa1aff"
"""The head of 32 triangles of 25 vertices, by their edges."""

needs_draco = pytest.mark.skipif(
    importlib.util.find_spec("DracoPy") is None, reason="DracoPy (extra draco) is not installed"
)


def triangles() -> Any:
    a, b, c, d = (
        part.ravel() for part in (GRID[:-1, :-1], GRID[:-1, 1:], GRID[1:, :-1], GRID[1:, 1:])
    )
    return np.concatenate((np.stack((a, b, c), axis=1), np.stack((b, d, c), axis=1))).astype("u4")


def packed(data: bytes, attributes: dict[str, int], count: int = 25, corners: int = 96) -> GltfFile:
    """A file with one packed primitive; its accessors have no bytes of their own."""
    file = GltfFile()
    kinds = {"POSITION": ("VEC3", 5126), "TEXCOORD_0": ("VEC2", 5126), "COLOR_0": ("VEC4", 5121)}
    described = {
        name: {
            "componentType": kinds[name][1],
            "count": count,
            "type": kinds[name][0],
            "normalized": name == "COLOR_0",
        }
        for name in attributes
    }
    own = {name: file.add("accessors", item) for name, item in described.items()}
    indices = file.add("accessors", {"componentType": 5125, "count": corners, "type": "SCALAR"})
    packing = {"bufferView": file.view(data), "attributes": attributes}
    primitive = {
        "attributes": own,
        "indices": indices,
        "extensions": {"KHR_draco_mesh_compression": packing},
    }
    file.node(mesh=file.add("meshes", {"primitives": [primitive]}))
    file.json["extensionsRequired"] = ["KHR_draco_mesh_compression"]
    return file


def encoded(in_order: bool) -> tuple[bytes, dict[str, int]]:
    """A stream, and the numbers of its attributes."""
    import DracoPy  # type: ignore[import-not-found,unused-ignore]

    uv = PLACES[:, :2] / 4.0
    colours = np.stack((GRID.ravel() * 10, *[GRID.ravel()] * 3), axis=1).astype(np.uint8)
    data = DracoPy.encode(
        PLACES,
        triangles(),
        quantization_bits=14,
        preserve_order=in_order,
        tex_coord=uv,
        colors=colours,
    )
    names = {0: "POSITION", 2: "COLOR_0", 3: "TEXCOORD_0"}
    found = DracoPy.decode(data).attributes
    return data, {names[entry["attribute_type"]]: entry["unique_id"] for entry in found}


def by_place(asset: Any) -> Any:
    """Rows of place, texture coordinates and colour of all corners, sorted."""
    (part,) = asset.nodes[0].primitives
    rows = np.column_stack((part.p_m, part.uv, part.colour))[part.triangles].reshape(-1, 9)
    return rows[np.lexsort(np.round(rows, 2).T)]


@needs_draco
@pytest.mark.parametrize("in_order", [False, True])
def test_a_packed_mesh_is_the_plain_one(in_order: bool, tmp_path: Path) -> None:
    found = by_place(load_gltf(packed(*encoded(in_order)).write(tmp_path)))
    colours = np.stack((GRID.ravel() * 10, *[GRID.ravel()] * 3), axis=1)
    rows = np.column_stack((PLACES, PLACES[:, :2] / 4.0, colours))[triangles()].reshape(-1, 9)
    np.testing.assert_allclose(
        found, rows[np.lexsort(np.round(rows, 2).T)], atol=4.0 / 2**14 + 1e-6
    )


@needs_draco
def test_broken_streams_are_refused_in_words(tmp_path: Path) -> None:
    data, numbers = encoded(False)
    for file, said in (
        (packed(data[:40], numbers), "mesh 0 primitive 0: its Draco stream is broken"),
        (packed(b"nothing", numbers), "does not begin with a mesh"),
        (packed(data, {**numbers, "TEXCOORD_0": 77}), r"has no attribute 77 \(TEXCOORD_0\)"),
        (
            packed(data, numbers, count=24),
            "25 vertices and 32 triangles, more than its accessors say",
        ),
        (packed(data, numbers, corners=93), "more than its accessors say"),
        (packed(data, numbers, count=26), "its Draco stream, .* in its accessor"),
    ):
        with pytest.raises(AssetError, match=said):
            load_gltf(file.write(tmp_path))


def test_a_stream_says_its_size_before_it_is_decoded() -> None:
    assert _counts(bytes.fromhex(SEQUENTIAL)) == (2, 4)
    assert _counts(bytes.fromhex(EDGEBREAKER)) == (32, 25)
    assert _counts(b"DRACO") is None
    assert _counts(bytes.fromhex(SEQUENTIAL[:20] + "80" + SEQUENTIAL[22:])) is None
    huge = _counts(bytes.fromhex(SEQUENTIAL[:22] + "ffffffffffff"))
    assert huge is not None and huge[0] > 1e9


@pytest.mark.skipif(importlib.util.find_spec("DracoPy") is not None, reason="DracoPy is installed")
def test_without_the_library_the_cure_is_named(tmp_path: Path) -> None:
    file = packed(bytes.fromhex(EDGEBREAKER), {"POSITION": 0})
    with pytest.raises(
        AssetError, match=r"model\.glb: mesh 0 primitive 0: .*\.\[draco\].* without mesh comp"
    ):
        load_gltf(file.write(tmp_path))
