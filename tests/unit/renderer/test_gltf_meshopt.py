"""EXT_meshopt_compression: streams that meshoptimizer packed, against the values that went in, and
broken ones.

The streams were made once with meshoptimizer from the formulas below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.gltf import SQUARE, SQUARE_INDICES, GltfFile
from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.gltf import container, load_gltf
from vil_renderer.embedded.assets.gltf.meshopt import decode_view
from vil_renderer.embedded.assets.gltf.schema import Meshopt

ATTRIBUTES = (
    "a000152aaaaaaaaaaaaaaaaaaa00001f0002060a0e12161a1e22262a2e32363a4842464a4e5256645e62"
    "666a7872767affff"
    "00008882868a989296a4150204204204204204204200002a055555555555555555555555555555555555"
    "5555000000001f00"
    "c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2ffff0000c2c2c2c2c2c2c2"
    "c215300003c01211"
    "12000f000011123c00000011120400800000000000000000000000000000000000000000000000000000"
    "07000000c800fa00"
)
TRIANGLES = (
    "e1fe1e001e001e9e0e041e031e9e0e031e031efffefff008afea0dd8b70800ff020101007687566778a98"
    "66589689801690000"
)
INDICES = "d100040404910305040504a988110400000000"
OCTAHEDRAL_4 = (
    "a0070059332d313b2d2d4115261a1cfa1e1ac00000001e0700341e1a1c0f191925533f2f2d19342cc000"
    "0000360000000000"
    "000000000000000000000000000000000000000000000000007f007f7f"
)
OCTAHEDRAL_8 = (
    "a0070060a6d3ca4ee7f71fa6584f552b2d5fc000000013060331331331402f2210800000000700c7175f"
    "2bfd584c5bc417f5"
    "e964cdd4c0000000a1060222211033331142c00000000400000000000000000000000000000000000000"
    "0000000000000000"
    "00ff070000ff07ff7f"
)
QUATERNION = (
    "a007005dfa4c5a80fecca6059ab45c9975e4c0000000f3053edfff6f121204530e1414120e034bc00000"
    "00120700f21ccf09"
    "dcce371baf294f07d60806c00000003007001412021f2115101416141015211f02c0000000120700496b"
    "a78d1ecb29ec05e2"
    "3b7b416e76c00000005b060eef61fcffecf25f14571010124dc00000000e01030c00c303040304000000"
    "0000000000000000"
    "0000000000000000000000000000000000000000ff1f"
)
EXPONENTIAL = (
    "a007000000ffff80803fbfbfbfbfbfbf80a0c0000000a0060f0fffffa8a8aaf44a242312122d37c00000"
    "0006000138820008"
    "d40700bd005d5e2d2f761717151717178e0bc00000000b011000000001100000000138820008d4000000"
    "0138820008d40000"
    "0000000000000000000000000000000000000000008e0000008e0000008e"
)
VERSION_1 = (
    "a1769f012aaa00000002060a0e12161a0048000201000505050505050500c2c2c2c2c2c2c20002001200"
    "0000000000000000"
    "000000000007000000c800fa000000"
)

ANGLES = np.arange(17) * 0.37


def unpacked(
    packed: str | bytes, count: int, stride: int, mode: Any, change: Any = "NONE"
) -> bytes:
    data = bytes.fromhex(packed) if isinstance(packed, str) else packed
    return decode_view(Meshopt(0, len(data), stride, count, mode, 0, change), data)


def bytewise() -> npt.NDArray[np.uint8]:
    """40 elements of 8 bytes.

    Constant, counting, squares, alternating, falling, wild, spikes, one step.
    """
    i = np.arange(40)
    columns = (
        0 * i + 7,
        i,
        i * i % 251,
        i // 3 % 2,
        200 - 3 * i,
        i * 97 % 256,
        np.where(i % 11 == 0, 250, 3),
        i // 20,
    )
    return np.stack(columns, axis=1).astype(np.uint8)


def triangles() -> npt.NDArray[np.uint32]:
    """A grid of 4 x 4 vertices, and three triangles far from it."""
    grid = np.arange(16).reshape(4, 4)
    a, b, c, d = (
        part.ravel() for part in (grid[:-1, :-1], grid[:-1, 1:], grid[1:, :-1], grid[1:, 1:])
    )
    pairs = np.stack((np.stack((a, c, b), axis=1), np.stack((b, c, d), axis=1)), axis=1).reshape(
        -1, 3
    )
    return np.concatenate((pairs, [[900, 3, 70000], [0, 1, 2], [70001, 70000, 69999]])).astype(
        np.uint32
    )


def turned(corners: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Triangles that begin at their least corner: a stream may turn them."""
    corners = corners.reshape(-1, 3)
    order = (corners.argmin(axis=1)[:, None] + np.arange(3)) % 3
    return np.take_along_axis(corners, order, axis=1)


def test_attributes() -> None:
    assert unpacked(ATTRIBUTES, 40, 8, "ATTRIBUTES") == bytewise().tobytes()


def test_the_example_of_the_specification() -> None:
    """16 deltas of 4 bits, two of them as bytes, in the first byte of 4."""
    group = "175ff0bc77a9210034b5"
    # Bytes 2 to 4 are zero: a header each, and nothing else; then the tail.
    stream = "a0" + "02" + group + "00" * 3 + "00" * 32
    found = np.frombuffer(unpacked(stream, 16, 4, "ATTRIBUTES"), np.uint8).reshape(16, 4)
    deltas = [-1, -4, -3, 26, -91, 0, -6, 6, -4, -4, 5, -5, 1, -1, 0, 0]
    np.testing.assert_array_equal(found[:, 0], np.cumsum(deltas) % 256)
    assert not found[:, 1:].any()


@pytest.mark.parametrize("stride", [4, 2])
def test_triangles_and_indices(stride: int) -> None:
    expected = triangles()
    dtype = "<u4" if stride == 4 else "<u2"
    found = np.frombuffer(unpacked(TRIANGLES, expected.size, stride, "TRIANGLES"), dtype)
    if stride == 4:
        np.testing.assert_array_equal(turned(found), turned(expected))
    else:
        np.testing.assert_array_equal(turned(found)[:18], turned(expected)[:18])
    steps = np.array([0, 1, 2, 3, 100, 101, 4, 102, 5, 70000, 6])
    found = np.frombuffer(unpacked(INDICES, 11, stride, "INDICES"), dtype)
    np.testing.assert_array_equal(found, steps.astype(dtype))


def test_octahedral_vectors() -> None:
    vectors = np.stack((np.cos(ANGLES), 0.8 * np.sin(ANGLES), 0.6 * np.sin(ANGLES)), axis=1)
    for packed, stride, dtype, error in (
        (OCTAHEDRAL_4, 4, "i1", 0.02),
        (OCTAHEDRAL_8, 8, "<i2", 0.001),
    ):
        found = np.frombuffer(
            unpacked(packed, 17, stride, "ATTRIBUTES", "OCTAHEDRAL"), dtype
        ).reshape(17, 4)
        np.testing.assert_allclose(found[:, :3] / np.iinfo(dtype).max, vectors, atol=error)
        assert (found[:, 3] > 0).all(), "the fourth component is as it was"


def test_quaternions() -> None:
    s = np.sin(ANGLES)
    rotations = np.stack((0.6 * s, 0.64 * s, 0.48 * s, np.cos(ANGLES)), axis=1)
    found = (
        np.frombuffer(unpacked(QUATERNION, 17, 8, "ATTRIBUTES", "QUATERNION"), "<i2").reshape(17, 4)
        / 32767.0
    )
    np.testing.assert_allclose(np.abs((found * rotations).sum(axis=1)), 1.0, atol=1e-4)


def test_exponents() -> None:
    found = np.frombuffer(
        unpacked(EXPONENTIAL, 17, 12, "ATTRIBUTES", "EXPONENTIAL"), "<f4"
    ).reshape(17, 3)
    np.testing.assert_allclose(found[:, 0], 100 * ANGLES, rtol=2.0**-13)
    # One exponent for the three.
    np.testing.assert_allclose(found[:, 1], -ANGLES, atol=(100 * ANGLES).max() * 2.0**-13)
    assert not found[:, 2].any()


@pytest.mark.parametrize("name", ["ATTRIBUTES", "TRIANGLES", "INDICES"])
def test_cut_and_changed_streams_are_refused_or_read_in_bounds(name: str) -> None:
    streams: dict[str, tuple[str, int, int]] = {
        "ATTRIBUTES": (ATTRIBUTES, 40, 8),
        "TRIANGLES": (TRIANGLES, 63, 4),
        "INDICES": (INDICES, 11, 4),
    }
    packed, count, stride = streams[name]
    data = bytes.fromhex(packed)
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r"stream|number"):
            unpacked(data[:end], count, stride, name)
    for at in range(len(data)):
        for flip in (1, 16, 255):
            changed = bytearray(data)
            changed[at] ^= flip
            try:
                assert len(unpacked(bytes(changed), count, stride, name)) == count * stride
            except ValueError:
                continue


@pytest.mark.parametrize(
    ("packed", "described", "said"),
    [
        (
            VERSION_1,
            (8, 8, "ATTRIBUTES"),
            "version 1 of the stream is not read. Pack it with gltfpack -c",
        ),
        (ATTRIBUTES, (40, 6, "ATTRIBUTES"), "a stride of 6 bytes"),
        (ATTRIBUTES, (40, 8, "TRIANGLES"), "indices of 8 bytes with filter NONE"),
        (TRIANGLES, (62, 4, "TRIANGLES"), "62 indices are no triangles"),
        (TRIANGLES, (63, 4, "INDICES"), "begins with 0xe1 instead of 0xd1"),
        (ATTRIBUTES, (40, 12, "ATTRIBUTES", "OCTAHEDRAL"), "stream"),
        (ATTRIBUTES, (40, 8, "TRIANGLES", "QUATERNION"), "filter QUATERNION"),
    ],
)
def test_wrong_descriptions_are_refused_in_words(
    packed: str, described: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        unpacked(packed, *described)


def packed_file(stream: str = ATTRIBUTES, **more: Any) -> GltfFile:
    """A file whose triangles are packed, in a view on a buffer that is not there."""
    file = GltfFile()
    data = bytes.fromhex(stream)
    view = file.view(data)
    place = file.json["bufferViews"][view]["byteOffset"]
    packing = {
        "buffer": 0,
        "byteOffset": place,
        "byteLength": len(data),
        "byteStride": 4,
        "count": 63,
        **more,
    }
    described = {"buffer": 1, "byteLength": 252, "extensions": {"EXT_meshopt_compression": packing}}
    file.json["bufferViews"][view] = described
    file.json["extensionsRequired"] = ["EXT_meshopt_compression"]
    mesh = file.mesh(np.zeros((70_002, 3), "f4") + np.arange(70_002)[:, None] % 7)
    accessor = {"bufferView": view, "componentType": 5125, "count": 63, "type": "SCALAR"}
    file.json["meshes"][mesh]["primitives"][0]["indices"] = file.add("accessors", accessor)
    file.node(mesh=mesh)
    return file


def test_a_packed_file_reads_as_the_plain_one(tmp_path: Path) -> None:
    file = packed_file(TRIANGLES, mode="TRIANGLES")
    (part,) = load_gltf(file.write(tmp_path)).nodes[0].primitives
    assert len(part.triangles) == 21


def test_a_broken_packed_view_is_named(tmp_path: Path) -> None:
    for stream, more, said in (
        (
            TRIANGLES,
            {"mode": "INDICES"},
            "buffer view 0: EXT_meshopt_compression: the stream begins with 0xe1",
        ),
        (
            TRIANGLES,
            {"mode": "TRIANGLES", "count": 10**9},
            "buffer view 0: the file decodes to more than",
        ),
        (
            TRIANGLES,
            {"mode": "TRIANGLES", "byteLength": 10**6},
            "buffer view 0: bytes 0 to 1,000,000 exceed",
        ),
        (TRIANGLES, {"mode": "TRIANGLES", "count": 60}, "EXT_meshopt_compression: the stream"),
        (TRIANGLES, {"mode": "SQUARES"}, "bufferViews"),
    ):
        with pytest.raises(AssetError, match=said):
            load_gltf(packed_file(stream, **more).write(tmp_path))


def test_packed_views_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = GltfFile()
    file.node(mesh=file.mesh(SQUARE, SQUARE_INDICES))
    data = bytes.fromhex(ATTRIBUTES)
    packing: dict[str, Any] = {
        "buffer": 0,
        "byteOffset": 0,
        "byteLength": len(data),
        "byteStride": 8,
        "count": 40,
    }
    views = [file.view(data) for _ in range(2)]
    for view in views:
        packing = {
            **packing,
            "byteOffset": file.json["bufferViews"][view]["byteOffset"],
            "mode": "ATTRIBUTES",
        }
        file.json["bufferViews"][view]["extensions"] = {"EXT_meshopt_compression": packing}
    for view, (name, kind) in zip(
        views, (("COLOR_0", "VEC4"), ("TEXCOORD_0", "VEC2")), strict=True
    ):
        accessor = {
            "bufferView": view,
            "componentType": 5121,
            "count": 4,
            "type": kind,
            "normalized": True,
        }
        file.json["meshes"][0]["primitives"][0]["attributes"][name] = file.add(
            "accessors", accessor
        )
    monkeypatch.setattr(container, "MAX_DECODED_BYTES", 2000)
    load_gltf(file.write(tmp_path))
    monkeypatch.setattr(container, "MAX_DECODED_BYTES", 1000)
    with pytest.raises(AssetError, match="the file decodes to more than"):
        load_gltf(file.write(tmp_path))
