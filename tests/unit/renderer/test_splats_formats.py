"""Formats of splats against the bytes and values of the reference page, and what is broken in
them.
"""

from __future__ import annotations

import io
import math
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.splat import matrix_of
from tests.support.splat_formats import (
    FORMATS,
    Stored,
    compressed_ply,
    glb,
    glb_of,
    golden,
    packed_ply,
    plain_ply,
    sog,
    sog_parts,
    sog_zip,
    splat_rows,
    spz,
    webp,
    write_format,
)
from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.gltf import load_gltf
from vil_renderer.embedded.splats import SplatCloud, read_splats

GOLDEN = golden()
SCALES = bytes.fromhex("fc88ca3c8160f73c00d6df3c")


def read(folder: Path, name: str, data: bytes) -> SplatCloud:
    path = folder / name
    path.write_bytes(data)
    return read_splats(path)


def refused(folder: Path, name: str, data: bytes) -> str:
    with pytest.raises(AssetError) as caught:
        read(folder, name, data)
    said = str(caught.value)
    assert said.startswith(f"{name}: ")
    return said


def check_third(
    cloud: SplatCloud,
    p: Any,
    log_scale: Any,
    q_wxyz: Any,
    base: Any,
    opacity: float,
    red: Any,
    index: int = 3,
) -> None:
    """Compare a splat with decoded values of the reference page, which have six digits."""
    np.testing.assert_allclose(cloud.p[index], p, atol=2e-6)
    np.testing.assert_allclose(
        np.linalg.norm(cloud.axes[index], axis=0), np.exp(log_scale), rtol=2e-6
    )
    turn = cloud.axes[index] / np.exp(log_scale)
    np.testing.assert_allclose(turn, matrix_of(q_wxyz), atol=5e-6)
    np.testing.assert_allclose(cloud.sh[index, 0], base, atol=2e-6)
    assert cloud.opacity[index] == pytest.approx(opacity, abs=2e-6)
    if red is not None:
        np.testing.assert_allclose(cloud.sh[index, 1:, 0], red, atol=2e-6)


def test_compressed_ply_has_the_words_and_values_of_two_other_programs(tmp_path: Path) -> None:
    data = packed_ply(GOLDEN)
    body = data[data.index(b"end_header\n") + 11 :]
    words = struct.unpack_from("<4I", body, 18 * 4 + 3 * 16)
    assert [f"{word:08x}" for word in words] == ["6db2d492", "2ca66a86", "6da00492", "6d6d9260"]
    assert list(body[18 * 4 + 8 * 16 + 27 :][:9]) == [134, 128, 121, 132, 126, 120, 131, 124, 136]
    check_third(
        read(tmp_path, "golden.ply", data),
        (-0.250489, 0.140459, -0.449756), (-3.700098, -3.5, -3.599805),
        (0.931329, 0.27994, -0.140315, 0.185935),
        (0.299216, -0.150392, 0.100784), 0.376471, (0.203125, 0.015625, -0.203125),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "turn", "q_wxyz"),
    [
        (2, "a36e97", None),
        (3, "8794a9cc", (0.931363, 0.279522, -0.139761, 0.186809)),
        (4, None, None),
    ],
)
def test_spz_has_the_bytes_and_values_of_its_library(
    tmp_path: Path, version: int, turn: str | None, q_wxyz: Any
) -> None:
    data = spz(GOLDEN, version)
    if version < 4:
        raw = zlib.decompress(data, wbits=31)
        assert raw[:16].hex() == f"4e4753500{version}00000008000000010c0000"
        assert raw[16 + 27 : 16 + 36].hex() == "00fcff420200cdf8ff"
        assert raw[16 + 72 + 3] == 96
        assert list(raw[16 + 80 + 9 :][:3]) == [139, 122, 131]
        assert list(raw[16 + 104 + 9 :][:3]) == [101, 104, 102]
        assert list(raw[-9 * 5 :][:9]) == [152, 144, 144, 128, 120, 112, 104, 96, 160]
        size = len(turn or "") // 2
        assert raw[16 + 128 + 3 * size :][:size].hex() == turn
    else:
        assert data[12:20].hex() == "010c000620000000"
        assert [struct.unpack_from("<Q", data, 40 + 16 * i)[0] for i in range(6)] == [
            72,
            8,
            24,
            24,
            32,
            72,
        ]
    cloud = read(tmp_path, "golden.spz", data)
    if q_wxyz is not None:
        base, red = (0.300654, -0.143791, 0.091503), (0.1875, 0.0, -0.1875)
        place = (-0.25, 0.1411133, -0.4499512)
        check_third(cloud, place, (-3.6875, -3.5, -3.625), q_wxyz, base, 96 / 255, red)
    third = read(tmp_path, "third.spz", spz(GOLDEN, 3))
    turned, expected = (
        made.axes / np.linalg.norm(made.axes, axis=1, keepdims=True) for made in (cloud, third)
    )
    np.testing.assert_allclose(turned, expected, atol=0.02 if version == 2 else 1e-6)
    np.testing.assert_array_equal(cloud.sh, third.sh)


def test_spz_of_version_one_has_half_floats_and_flags_say_how_it_was_trained(
    tmp_path: Path,
) -> None:
    cloud = read(tmp_path, "old.spz", spz(GOLDEN, 1, flags=1))
    np.testing.assert_array_equal(cloud.p, GOLDEN.p.astype("<f2"))
    assert cloud.antialiased
    assert not read(tmp_path, "new.spz", spz(GOLDEN)).antialiased


def test_spz_of_degree_four_is_read_as_degree_three(tmp_path: Path) -> None:
    more = replace(GOLDEN, sh=np.concatenate([GOLDEN.sh] * 7, axis=1)[:, :25])
    cloud = read(tmp_path, "fine.spz", spz(more, 4))
    np.testing.assert_allclose(cloud.sh[:, 1:], more.sh[:, 1:16], atol=8.01 / 128)


def test_sog_has_the_texels_and_values_of_its_writer(tmp_path: Path) -> None:
    meta, pictures = sog_parts(GOLDEN)
    assert pictures["quats.webp"].reshape(-1, 4)[3].tolist() == [177, 102, 161, 252]
    assert pictures["means_l.webp"].reshape(-1, 4)[3, :3].tolist() == [195, 27, 232]
    assert pictures["means_u.webp"].reshape(-1, 4)[3, :3].tolist() == [99, 156, 115]
    assert pictures["means_l.webp"].shape[1] == 4, "wide as the writer's"
    assert meta["version"] == 2
    cloud = read(tmp_path, "golden.sog", sog(GOLDEN))
    np.testing.assert_allclose(cloud.p, GOLDEN.p, atol=6.5e-5)
    turn = cloud.axes[3] / np.linalg.norm(cloud.axes[3], axis=0)
    np.testing.assert_allclose(
        turn, matrix_of((0.932802, 0.274524, -0.141421, 0.185789)), atol=5e-6
    )
    np.testing.assert_allclose(cloud.sh, GOLDEN.sh, atol=2.1e-3)
    assert cloud.opacity[3] == pytest.approx(96 / 255)


def test_sog_lies_in_folders_too(tmp_path: Path) -> None:
    import json

    meta, pictures = sog_parts(GOLDEN)
    (tmp_path / "meta.json").write_text(json.dumps({**meta, "model": "antialiased"}))
    for name, picture in pictures.items():
        (tmp_path / name).write_bytes(webp(picture))
    cloud = read_splats(tmp_path / "meta.json")
    np.testing.assert_array_equal(cloud.p, read(tmp_path, "golden.sog", sog(GOLDEN)).p)
    assert cloud.antialiased


def test_splat_has_the_bytes_and_values_of_its_writer(tmp_path: Path) -> None:
    data = splat_rows(GOLDEN)
    assert data[96:108].hex() == "000080bec381103e6666e6be"
    np.testing.assert_allclose(
        np.frombuffer(data, "<f4", 3, 108), np.frombuffer(SCALES, "<f4"), rtol=1e-6
    )
    assert data[120:128].hex() == "95748660f7a36e97"
    check_third(
        read(tmp_path, "golden.splat", data), GOLDEN.p[3], (-3.7, -3.5, -3.6),
        (0.933167, 0.277217, -0.136656, 0.183510), (0.298884, -0.159868, 0.090360), 96 / 255, None,
    )  # fmt: skip


def test_glb_holds_what_was_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cloud = read(tmp_path, "golden.glb", glb(GOLDEN))
    assert not caplog.records
    plain = read(tmp_path, "golden.ply", plain_ply(GOLDEN))
    for key in ("p", "axes", "opacity", "sh"):
        np.testing.assert_allclose(getattr(cloud, key), getattr(plain, key), atol=1e-6)


def test_glb_is_placed_by_its_node_and_its_colours_turn_with_it(tmp_path: Path) -> None:
    q_wxyz = np.array([0.5, -0.5, 0.1, 0.7])
    q_wxyz /= np.linalg.norm(q_wxyz)
    rng = np.random.default_rng(3)
    rich = replace(GOLDEN, sh=rng.normal(0.0, 0.2, (8, 16, 3)))
    node = {"translation": [1, 2, 3], "rotation": np.roll(q_wxyz, -1).tolist(), "scale": [2, 2, 2]}
    cloud, plain = (
        read(tmp_path, "moved.glb", glb(rich, node)),
        read(tmp_path, "plain.ply", plain_ply(rich)),
    )
    R = matrix_of(q_wxyz.tolist())
    np.testing.assert_allclose(cloud.p, 2.0 * plain.p @ R.T + (1, 2, 3), atol=1e-5)
    np.testing.assert_allclose(cloud.axes, 2.0 * R @ plain.axes, atol=1e-6)
    d = rng.normal(size=(20, 3))
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    from tests.unit.renderer.test_splats_draw import harmonics

    for own in d:
        seen = np.einsum("k,nkc->nc", harmonics(R @ own), cloud.sh)
        np.testing.assert_allclose(
            seen, np.einsum("k,nkc->nc", harmonics(own), plain.sh), atol=1e-5
        )


def test_glb_with_logarithms_as_scales_is_repaired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = "KHR_gaussian_splatting:"
    arrays = {
        "POSITION": GOLDEN.p, f"{prefix}ROTATION": np.roll(GOLDEN.unit_q, -1, axis=1),
        f"{prefix}SCALE": GOLDEN.log_scale, f"{prefix}OPACITY": GOLDEN.opacity[:, None],
        f"{prefix}SH_DEGREE_0_COEF_0": GOLDEN.sh[:, 0],
    }  # fmt: skip
    cloud = read(tmp_path, "logs.glb", glb_of(arrays))
    np.testing.assert_allclose(
        np.linalg.norm(cloud.axes, axis=1), np.exp(GOLDEN.log_scale), rtol=1e-5
    )
    assert "SCALE holds logarithms" in caplog.text


@pytest.mark.parametrize("comment", ["SplatRenderMode: mip", "antialiased 1"])
def test_comments_say_how_a_scan_was_trained(tmp_path: Path, comment: str) -> None:
    data = plain_ply(GOLDEN)
    assert not read(tmp_path, "plain.ply", data).antialiased
    assert read(
        tmp_path, "mip.ply", data.replace(b"comment made by a test", f"comment {comment}".encode())
    ).antialiased


def empty() -> Stored:
    return GOLDEN.taken(np.arange(0))


@pytest.mark.parametrize(
    ("name", "data"),
    [("none.splat", b""), ("none.spz", spz(empty())), ("none.spz", spz(empty(), 4))],
)
def test_an_empty_scan_is_empty(tmp_path: Path, name: str, data: bytes) -> None:
    assert read(tmp_path, name, data).p.shape == (0, 3)


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    assert "no known format of Gaussian splats. Export the scan as one of .ply .spz" in refused(
        tmp_path, "a.ksplat", b""
    )


@pytest.mark.parametrize("name", [f"a.{kind}" for kind in FORMATS])
def test_every_cut_is_noticed(tmp_path: Path, name: str) -> None:
    data = write_format(tmp_path / name, GOLDEN).read_bytes()
    for length in range(0, len(data), max(1, len(data) // 97)):
        if name != "a.splat" or length % 32:
            refused(tmp_path, name, data[:length])


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def gzipped(payload: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(payload) + packer.flush()


RAW = zlib.decompress(spz(GOLDEN), wbits=31)
FOUR = spz(GOLDEN, 4)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "SPZ header: absent or cut short"),
        (b"PK\3\4", "no gzip stream"),
        (gzipped(b"NGSP"), "SPZ header: absent or cut short"),
        (gzipped(changed(RAW, 0, b"x")), "SPZ header: absent or cut short"),
        (
            gzipped(changed(RAW, 4, b"\7")),
            "SPZ version 7, versions 1 to 4 are read. Export it as one of these",
        ),
        (gzipped(changed(RAW, 4, b"\4")), "version 4 within gzip"),
        (gzipped(changed(RAW, 8, b"\xff\xff\xff\xff")), "4,294,967,295 splats in"),
        (gzipped(changed(RAW, 8, struct.pack("<I", 5000))), "232 of 145,000 bytes"),
        (gzipped(changed(RAW, 12, b"\5")), "degree 5"),
        (gzipped(changed(RAW, 13, b"\x1f")), "31 fractional bits"),
        (changed(FOUR, 4, b"\3"), "version 3, 6 streams where 6 are expected"),
        (changed(FOUR, 15, b"\5"), "5 streams where 6 are expected"),
        (changed(FOUR, 16, b"\xff\xff\xff\xff"), "or cut short"),
        (
            changed(FOUR, 40, struct.pack("<Q", 1 << 60)),
            "1,152,921,504,606,846,976 bytes where 72 are expected",
        ),
        (changed(FOUR, 32, struct.pack("<Q", 1 << 60)), "of 1,152,921,504,606,846,976 packed ones"),
        (changed(FOUR, 128, b"x"), "no zstd frame"),
    ],
)
def test_a_broken_spz_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path, "a.spz", data)


def edited(edit: Callable[[dict[str, Any], dict[str, bytes]], object]) -> bytes:
    meta, pictures = sog_parts(GOLDEN)
    files = {name: webp(picture) for name, picture in pictures.items()}
    edit(meta, files)
    return sog_zip(meta, files)


def small(side: int) -> bytes:
    return webp(np.full((side, side, 4), 255, np.uint8))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no zip", "no zip file"),
        (
            edited(lambda m, f: m.update(version=1)),
            "SOG version 1, only version 2 is read. Convert it",
        ),
        (edited(lambda m, f: m.pop("version")), "SOG version 1"),
        (edited(lambda m, f: m.update(count=-1)), "meta.json: Expected `int` >= 0"),
        (
            edited(lambda m, f: m.update(count=10**12)),
            "1,000,000,000,000 splats, more than 10,000,000 are not read",
        ),
        (edited(lambda m, f: m.update(count=100)), "sh0.webp: 8 texels for 100 splats"),
        (
            edited(lambda m, f: m["scales"].update(codebook=[0.0])),
            "scales: entry 255 of 1 in the codebook",
        ),
        (edited(lambda m, f: m["scales"].update(codebook=[1e300] * 256)), "has no finite scale"),
        (edited(lambda m, f: m["means"].update(maxs=[1e308] * 3)), "has no finite position"),
        (
            edited(lambda m, f: m["quats"].update(files=["../quats.webp"])),
            "'../quats.webp' is not a file next to it",
        ),
        (edited(lambda m, f: m["shN"].update(count=3)), "entry 7 of a palette of 3"),
        (
            edited(lambda m, f: m["shN"].update(bands=3)),
            "192 x 1 texels where 960 x 1 are expected",
        ),
        (edited(lambda m, f: f.pop("sh0.webp")), "holds no sh0.webp, but means_l.webp"),
        (edited(lambda m, f: f.update({"quats.webp": b"RIFF"})), "quats.webp: no WEBP"),
        (edited(lambda m, f: f.update({"quats.webp": f["quats.webp"][:60]})), "quats.webp"),
        (
            edited(lambda m, f: f.update({"quats.webp": webp(np.zeros((4, 4, 4), np.uint8))})),
            "is not a rotation",
        ),
        (edited(lambda m, f: f.update({"sh0.webp": small(2)})), "sh0.webp: 4 texels for 8 splats"),
    ],
)
def test_a_broken_sog_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path, "a.sog", data)


def test_a_packed_sog_is_read_within_the_sizes_that_it_announces(tmp_path: Path) -> None:
    """A zip bomb announces little.

    Other methods than deflate unpack without a bound, and are refused.
    """
    bomb = zip_of("meta.json", b" " * (64 << 20), zipfile.ZIP_DEFLATED)
    announced = bomb.replace(struct.pack("<I", 64 << 20), struct.pack("<I", 1000))
    tracemalloc.start()
    assert refused(tmp_path, "a.sog", announced)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    assert "meta.json: packed by method 12" in refused(
        tmp_path, "b.sog", zip_of("meta.json", b"{}", zipfile.ZIP_BZIP2)
    )
    broken = bytearray(zip_of("meta.json", b"{}" * 100, zipfile.ZIP_DEFLATED))
    broken[30 + len("meta.json")] = 0xFF  # a block of a kind that does not exist
    assert "SOG: no zip file" in refused(tmp_path, "c.sog", bytes(broken))


def zip_of(name: str, data: bytes, method: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        archive.writestr(name, data)
    return made.getvalue()


PACKED = compressed_ply(GOLDEN)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (PACKED.replace(b"chunk 1", b"chunk 2"), "element chunk: 2 rows where 8 splats need 1"),
        (
            PACKED.replace(b"element sh 8", b"element sh 7"),
            "element sh: 7 rows where 8 splats need 8",
        ),
        (
            PACKED.replace(b"element sh 8", b"element face 8"),
            "elements chunk, vertex, face, expected chunk",
        ),
        (
            PACKED.replace(b"uint packed_scale", b"float packed_scale"),
            "types are not uint (vertex) and uchar (sh)",
        ),
        (
            PACKED.replace(b"uchar f_rest_0", b"char f_rest_0"),
            "types are not uint (vertex) and uchar (sh)",
        ),
        (PACKED.replace(b"packed_color", b"packed_color2"), "no property packed_color"),
        (PACKED.replace(b"f_rest_8", b"f_rest_9"), "properties f_rest: 0, 9, 24 or 45"),
        (
            PACKED.replace(b"vertex 8", b"vertex " + b"9" * 12),
            "element chunk: 1 rows where 999,999,999,999 splats",
        ),
    ],
)
def test_a_broken_compressed_ply_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path, "a.ply", data)


@pytest.mark.parametrize(
    ("number", "field"), [(0, "min_x"), (5, "max_z"), (6, "min_scale_x"), (17, "max_b")]
)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_bounds_that_are_not_finite_are_named(
    tmp_path: Path, number: int, field: str, value: float
) -> None:
    """A share of infinity, and none of it, would be no number."""
    head, end, rows = PACKED.partition(b"end_header\n")
    broken = rows[: 4 * number] + struct.pack("<f", value) + rows[4 * (number + 1) :]
    said = f"chunk 0 property {field} is not a finite number"
    assert said in refused(tmp_path, "a.ply", head + end + broken)


def with_scale(scale: float) -> bytes:
    return glb(replace(GOLDEN, log_scale=np.full((8, 3), scale)))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (glb(GOLDEN, extension={"kernel": "box"}),
        "kernel 'box' is not rendered. Export it with 'ellipse'"),
        (glb(GOLDEN, extension={"colorSpace": "lin_rec709_display"}),
        "'lin_rec709_display' is not rendered"),
        (
            glb(GOLDEN, extension={"extensions": {"KHR_gaussian_splatting_compression_spz_2": {}}}),
            "is compressed by KHR_gaussian_splatting_compression_spz_2. Export it "
            "without compression, or as .spz",
        ),
        (glb(GOLDEN, {"scale": [1, 1, -1]}), "its node mirrors or flattens splats"),
        (glb(GOLDEN).replace(b'splatting:OPACITY"', b'splatting:OPACITE"'),
        "no attribute KHR_gaussian_splatting:O"),
        (glb(GOLDEN).replace(b"SH_DEGREE_1_COEF_2", b"SH_DEGREE_1_COEF_9"),
        "no attribute KHR_gaussian_splatting:SH"),
        (glb(GOLDEN).replace(b'"extensions": {"KHR_gaussian', b'"extensions": {"KHR_qaussian'),
        "no primitive has KHR"),
        (with_scale(20.0), "splat 0 is larger than 1e+06 units"),
    ],
)  # fmt: skip
def test_a_broken_glb_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path, "a.glb", data)


def test_a_model_reader_says_where_such_a_glb_belongs(tmp_path: Path) -> None:
    path = write_format(tmp_path / "scan.glb", GOLDEN)
    with pytest.raises(
        AssetError, match="these are Gaussian splats, not a mesh: name the file under `splats`"
    ):
        load_gltf(path)


def test_broken_rows_are_named(tmp_path: Path) -> None:
    assert "33 bytes are not a multiple of 32" in refused(tmp_path, "a.splat", bytes(33))
    row = splat_rows(GOLDEN)
    assert "splat 0 has a negative scale (1 such)" in refused(
        tmp_path, "a.splat", changed(row, 12, b"\0\0\x80\xbf")
    )
    assert "splat 0 has no finite position" in refused(
        tmp_path, "a.splat", changed(row, 0, b"\0\0\xc0\x7f")
    )
