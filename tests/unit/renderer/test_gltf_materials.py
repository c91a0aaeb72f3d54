"""glTF materials, textures and pictures."""

from __future__ import annotations

import io
import json
import logging
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.gltf import GltfFile
from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.gltf import images, load_gltf
from vil_renderer.embedded.assets.gltf.images import decode_image
from vil_renderer.embedded.assets.model import Material, TextureUse

RAMP = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5


def read(
    file: GltfFile, folder: Path, material: dict[str, Any] | None, limit_px: int | None = None
) -> Material:
    more = {} if material is None else {"material": file.add("materials", material)}
    file.node(mesh=file.mesh(**more))
    (part,) = load_gltf(file.write(folder), limit_px).nodes[0].primitives
    return part.material


def encoded(pixels: Any, kind: str = "PNG", **more: Any) -> bytes:
    data = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(np.asarray(pixels))
    image.save(data, kind, **more)
    return data.getvalue()


@pytest.mark.parametrize("described", [None, {}])
def test_defaults_of_the_specification(tmp_path: Path, described: dict[str, Any] | None) -> None:
    found = read(GltfFile(), tmp_path, described)
    assert found.base_colour == (1.0, 1.0, 1.0, 1.0)
    assert (found.metallic, found.roughness, found.alpha, found.alpha_cutoff) == (
        1.0,
        1.0,
        "opaque",
        0.5,
    )
    assert not found.double_sided and not found.unlit
    assert (
        found.base is found.normal is found.occlusion is found.emissive is found.metal_rough is None
    )


def test_everything_a_material_says(tmp_path: Path) -> None:
    file = GltfFile()
    sampler = file.add("samplers", {"wrapS": 33071, "wrapT": 33648})
    source = file.image(RAMP)
    texture = file.add("textures", {"source": source, "sampler": sampler})
    plain = file.add("textures", {"source": source})
    found = read(
        file,
        tmp_path,
        {
            "name": "paint",
            "pbrMetallicRoughness": {
                "baseColorFactor": [0.1, 0.2, 0.3, 0.4],
                "metallicFactor": 0.6,
                "roughnessFactor": 0.7,
                "baseColorTexture": {"index": texture},
                "metallicRoughnessTexture": {"index": plain, "texCoord": 1},
            },
            "normalTexture": {"index": plain, "scale": 0.8},
            "occlusionTexture": {"index": plain, "strength": 0.9},
            "emissiveTexture": {"index": texture},
            "emissiveFactor": [1, 0.5, 0],
            "alphaMode": "MASK",
            "alphaCutoff": 0.3,
            "doubleSided": True,
            "extensions": {
                "KHR_materials_unlit": {},
                "KHR_materials_emissive_strength": {"emissiveStrength": 4},
            },
        },
    )
    assert (found.name, found.base_colour, found.metallic, found.roughness) == (
        "paint",
        (0.1, 0.2, 0.3, 0.4),
        0.6,
        0.7,
    )
    assert (found.alpha, found.alpha_cutoff, found.double_sided, found.unlit) == (
        "mask",
        0.3,
        True,
        True,
    )
    assert found.emissive_light == (4.0, 2.0, 0.0)
    assert found.base and found.metal_rough and found.normal and found.occlusion and found.emissive
    assert (found.metal_rough.uv_set, found.normal.strength, found.occlusion.strength) == (
        1,
        0.8,
        0.9,
    )
    assert found.base.texture.wrap == ("clamp", "mirror")
    assert found.normal.texture.wrap == ("repeat", "repeat")
    assert found.base.texture is found.emissive.texture
    assert found.base.texture.pixels is found.normal.texture.pixels
    np.testing.assert_array_equal(found.base.texture.pixels, RAMP)


def transformed(folder: Path, change: dict[str, Any], uv: tuple[float, float]) -> Any:
    file = GltfFile()
    texture = file.add("textures", {"source": file.image(RAMP)})
    use = {"index": texture, "extensions": {"KHR_texture_transform": change}}
    found = read(file, folder, {"emissiveTexture": use}).emissive
    assert isinstance(found, TextureUse)
    return found.transform @ (*uv, 1.0)


def test_texture_transform(tmp_path: Path) -> None:
    np.testing.assert_allclose(transformed(tmp_path, {}, (0.3, 0.4)), [0.3, 0.4])
    moved = transformed(tmp_path, {"offset": [1, 2], "scale": [10, 100]}, (0.3, 0.4))
    np.testing.assert_allclose(moved, [4.0, 42.0])
    # The extension's first example: the lower left quadrant, turned clockwise by a quarter.
    quarter = {"offset": [0, 1], "rotation": np.pi / 2, "scale": [0.5, 0.5]}
    np.testing.assert_allclose(transformed(tmp_path, quarter, (0, 0)), [0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(transformed(tmp_path, quarter, (1, 0)), [0.0, 0.5], atol=1e-12)
    np.testing.assert_allclose(transformed(tmp_path, quarter, (0, 1)), [0.5, 1.0], atol=1e-12)


def test_transform_chooses_the_coordinates(tmp_path: Path) -> None:
    file = GltfFile()
    texture = file.add("textures", {"source": file.image(RAMP)})
    use = {
        "index": texture,
        "texCoord": 0,
        "extensions": {"KHR_texture_transform": {"texCoord": 1}},
    }
    found = read(file, tmp_path, {"emissiveTexture": use}).emissive
    assert found is not None
    assert found.uv_set == 1


def test_what_we_cannot_apply_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = GltfFile()
    dds = file.add("textures", {"extensions": {"MSFT_texture_dds": {"source": 0}}})
    far = file.add("textures", {"source": file.image(RAMP)})
    described = {"emissiveTexture": {"index": dds}, "normalTexture": {"index": far, "texCoord": 2}}
    with caplog.at_level(logging.WARNING):
        found = read(file, tmp_path, described)
    assert found.emissive is None and found.normal is None
    assert "model.glb: texture 0" in caplog.text
    assert "TEXCOORD_2" in caplog.text


def test_pictures_in_files(tmp_path: Path) -> None:
    (tmp_path / "looks").mkdir()
    (tmp_path / "looks" / "red paint.jpg").write_bytes(
        encoded(np.full((8, 8, 3), (200, 0, 0), np.uint8), "JPEG")
    )
    file = GltfFile()
    image = file.add("images", {"uri": "looks/red%20paint.jpg"})
    texture = file.add("textures", {"source": image})
    found = read(
        file, tmp_path, {"pbrMetallicRoughness": {"baseColorTexture": {"index": texture}}}
    ).base
    assert found is not None
    np.testing.assert_allclose(
        found.texture.pixels.astype(int), np.tile((200, 0, 0), (8, 8, 1)), atol=3
    )
    assert found.texture.name == "looks/red%20paint.jpg"


def test_texture_limit_keeps_the_ratio(tmp_path: Path) -> None:
    file = GltfFile()
    wide = np.zeros((32, 128, 3), np.uint8)
    wide[:, 64:] = 255
    texture = file.add("textures", {"source": file.image(wide)})
    found = read(file, tmp_path, {"normalTexture": {"index": texture}}, 16).normal
    assert found is not None
    assert found.texture.pixels.shape == (4, 16, 3)
    assert (found.texture.pixels[:, 0] == 0).all() and (found.texture.pixels[:, -1] == 255).all()


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (np.full((2, 2), 7, np.uint8), [7, 7, 7]),
        (np.full((2, 2), 0x8001, np.uint16), [128, 128, 128]),
        (np.full((2, 2, 4), (1, 2, 3, 4), np.uint8), [1, 2, 3, 4]),
        (Image.new("LA", (2, 2), (9, 8)), [9, 9, 9, 8]),
        (Image.new("1", (2, 2), 1), [255, 255, 255]),
        (Image.new("P", (2, 2), 0), [0, 0, 0]),
    ],
)
def test_pictures_of_every_kind(pixels: Any, expected: list[int]) -> None:
    assert decode_image(encoded(pixels), "x").tolist() == [[expected] * 2] * 2


def test_a_palette_with_transparency() -> None:
    image = Image.new("P", (2, 2), 0)
    image.putpalette([10, 20, 30] * 256)
    assert decode_image(encoded(image, transparency=0), "x")[0, 0].tolist() == [10, 20, 30, 0]


def test_a_picture_of_billions_of_pixels_is_refused_unread() -> None:
    data = bytearray(encoded(np.zeros((2, 2, 3), np.uint8)))
    # Width and height in the PNG header, and its checksum.
    data[16:24] = (60_000).to_bytes(4) + (60_000).to_bytes(4)
    import zlib

    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4)
    with pytest.raises(AssetError, match=r"look\.glb: image 3: "):
        decode_image(bytes(data), "look.glb: image 3")
    data[16:24] = (8193).to_bytes(4) + (8193).to_bytes(4)
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4)
    with pytest.raises(AssetError, match="8193 x 8193 pixels"):
        decode_image(bytes(data), "look.glb: image 3")


@pytest.mark.parametrize(
    "data", [b"", b"GIF89a" + bytes(40), encoded(RAMP)[:50], encoded(RAMP)[:-20] + bytes(8)]
)
def test_broken_pictures_are_refused(data: bytes) -> None:
    with pytest.raises(AssetError, match=r"look\.glb: image 3: "):
        decode_image(data, "look.glb: image 3")


def test_gltf_text_with_a_picture_in_a_data_uri(tmp_path: Path) -> None:
    import base64

    file = GltfFile()
    uri = "data:image/png;base64," + base64.b64encode(encoded(RAMP)).decode()
    texture = file.add("textures", {"source": file.add("images", {"uri": uri})})
    file.node(mesh=file.mesh(material=file.add("materials", {"normalTexture": {"index": texture}})))
    data = "data:;base64," + base64.b64encode(bytes(file.binary)).decode()
    (tmp_path / "a.gltf").write_text(
        json.dumps({**file.json, "buffers": [{"byteLength": len(file.binary), "uri": data}]})
    )
    (part,) = load_gltf(tmp_path / "a.gltf").nodes[0].primitives
    assert part.material.normal is not None
    np.testing.assert_array_equal(part.material.normal.texture.pixels, RAMP)
    assert part.material.normal.texture.name == "image 0"


def wide_png(width_px: int, height_px: int, *, pixels: bool = False) -> bytes:
    """A black picture of one bit a pixel, or its header alone."""
    rows = zlib.compress(bytes((1 + width_px // 8) * height_px) if pixels else b"")
    chunks = (
        b"IHDR" + struct.pack(">IIBBBBB", width_px, height_px, 1, 0, 0, 0, 0),
        b"IDAT" + rows,
        b"IEND",
    )
    framed = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def test_pictures_that_would_take_too_much_are_refused_before_one_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 pictures of 8192 px took 1.8 GB until they were refused."""

    def decoded(*_args: Any) -> None:
        raise AssertionError("a picture was decoded")

    monkeypatch.setattr(images, "pixels_of", decoded)
    file = GltfFile()
    data = wide_png(8192, 8192)
    for k in range(64):
        source = file.add(
            "images", {"bufferView": file.view(data), "mimeType": "image/png", "name": f"wall{k}"}
        )
        file.add("textures", {"source": source})
    with pytest.raises(
        AssetError,
        match=r"model.glb: image 21 \(wall21\): 8192 x 8192 pixels: .* 1,024 MiB .* Scale",
    ):
        read(file, tmp_path, {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}})


def test_a_scene_has_one_budget_for_all_its_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MAX_PICTURES_BYTES", 3 * 48 + 1)
    surface = {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}
    budget = images.PictureBudget()
    paths = []
    for k in range(4):
        file = GltfFile()
        file.add("textures", {"source": file.image(RAMP)})
        file.node(mesh=file.mesh(material=file.add("materials", surface)))
        paths.append(file.write(tmp_path, f"model{k}.glb"))
    for path in paths[:3]:
        load_gltf(path, budget=budget)
    with pytest.raises(AssetError, match=r"model3.glb: image 0"):
        load_gltf(paths[3], budget=budget)


def test_a_texture_that_no_profile_draws_is_scaled_down() -> None:
    assert decode_image(wide_png(8192, 1024, pixels=True), "x").shape == (512, 4096, 3)
