"""Files of splats: what is read is what was written, and what is broken is named."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from tests.support.splat import FIELDS, Splat, header, matrix_of, ply, turned
from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.splats import read_splats

ONE = Splat((1.0, -2.0, 3.0), (0.1, 0.2, 0.4), (0.2, 0.5, 0.9), 0.25, turned(40.0, -20.0, 70.0))
TWO = Splat((-4.0, 0.5, 0.0), (1.0, 1.0, 0.01), (0.0, 1.0, 0.3), 0.99)


def refused(folder: Path, data: bytes) -> str:
    path = folder / "hall.ply"
    path.write_bytes(data)
    with pytest.raises(AssetError) as caught:
        read_splats(path)
    return str(caught.value)


def test_values_mean_what_trainers_store(tmp_path: Path) -> None:
    path = tmp_path / "hall.ply"
    path.write_bytes(ply([ONE, TWO]))
    cloud = read_splats(path)
    np.testing.assert_allclose(cloud.p, [ONE.p, TWO.p], atol=1e-6)
    np.testing.assert_allclose(cloud.opacity, [0.25, 0.99], atol=1e-6)
    np.testing.assert_allclose(
        0.5 + 0.28209479 * cloud.sh[:, 0], [ONE.colour, TWO.colour], atol=1e-6
    )
    assert cloud.sh.shape == (2, 1, 3)
    for axes, splat in zip(cloud.axes, (ONE, TWO), strict=True):
        R = matrix_of(splat.q_wxyz)
        np.testing.assert_allclose(
            axes @ axes.T, R @ np.diag(np.square(splat.scale)) @ R.T, atol=1e-6
        )


def test_properties_stand_in_any_order_and_type(tmp_path: Path) -> None:
    path = tmp_path / "hall.ply"
    names = list(reversed(FIELDS))
    lines = ["ply", "format binary_little_endian 1.0", "obj_info x", "element vertex 1"]
    kinds = ["double" if i % 2 else "float32" for i in range(len(names))]
    lines += [f"property {kind} {name}" for kind, name in zip(kinds, names, strict=True)]
    code = "<" + "".join("d" if kind == "double" else "f" for kind in kinds)
    values = [ONE.stored()[name] for name in names]
    text = "\r\n".join(
        [*lines, "element face 0", "property list uchar int vertex_indices", "end_header", ""]
    )
    path.write_bytes(text.encode() + struct.pack(code, *values))
    np.testing.assert_allclose(read_splats(path).p, [ONE.p], atol=1e-6)


def test_quaternions_are_normalised_and_logits_may_be_infinite(tmp_path: Path) -> None:
    row = ONE.stored()
    row |= {f"rot_{i}": 7.0 * ONE.q_wxyz[i] for i in range(4)} | {"opacity": np.inf}
    path = tmp_path / "hall.ply"
    path.write_bytes(header(1, FIELDS) + struct.pack("<17f", *(row[name] for name in FIELDS)))
    cloud = read_splats(path)
    R = matrix_of(ONE.q_wxyz)
    np.testing.assert_allclose(cloud.axes[0], R * ONE.scale, atol=1e-6)
    assert cloud.opacity[0] == 1.0


@pytest.mark.parametrize(("rest", "terms"), [(0, 1), (9, 4), (24, 9), (45, 16)])
def test_spherical_harmonics_come_channel_by_channel(tmp_path: Path, rest: int, terms: int) -> None:
    splat = Splat((0, 0, 0), rest=[float(i) for i in range(rest)])
    path = tmp_path / "hall.ply"
    path.write_bytes(ply([splat]))
    sh = read_splats(path).sh
    assert sh.shape == (1, terms, 3)
    for k in range(1, terms):
        assert sh[0, k].tolist() == [k - 1, terms - 1 + k - 1, 2 * (terms - 1) + k - 1]


def test_an_empty_scan_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "hall.ply"
    path.write_bytes(header(0, FIELDS))
    assert read_splats(path).p.shape == (0, 3)


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    data = ply([ONE, TWO])
    for length in range(0, len(data), 7):
        said = refused(tmp_path, data[:length])
        assert said.startswith("hall.ply: ")
        assert "cut short" in said


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "PLY header: absent or cut short"),
        (b"glTF" + bytes(100), "PLY header: absent or cut short"),
        (b"ply\n" + b"comment x\n" * 20_000, "PLY header: absent or cut short"),
        (header(1, FIELDS, "ascii 1.0") + b"0 " * 17, "'format ascii 1.0': export as binary PLY"),
        (header(1, FIELDS, "binary_big_endian 1.0") + bytes(68), "export as binary PLY"),
        (
            header(10**9, FIELDS) + bytes(68),
            "element vertex: 1,000,000,000 splats of 68 bytes, but 68 bytes",
        ),
        (header(10**17, FIELDS) + bytes(68), "cut short"),
        (
            header(1, FIELDS).replace(b"vertex 1", b"vertex -1"),
            "line 4: 'element vertex -1' is not understood",
        ),
        (header(1, FIELDS).replace(b"vertex 1", b"vertex " + b"9" * 30), "is not understood"),
        (
            header(1, FIELDS).replace(b"property float x", b"propertyfloat x"),
            "line 5: 'propertyfloat x' is not",
        ),
        (header(1, FIELDS[1:]), "element vertex: no property x: no Gaussian splats"),
        (header(1, ("x", "y", "z")), "no property f_dc_0, f_dc_1, f_dc_2, opacity, scale_0"),
        (header(1, (*FIELDS, "x")), "element vertex: twice x"),
        (header(1, FIELDS, kind="half"), "property half x is not a single number"),
        (
            header(1, FIELDS).replace(b"float x", b"list uchar int x"),
            "property list uchar int x is not a single number",
        ),
        (header(1, [f"p{i}" for i in range(300)]), "is not understood"),
        (header(1, (*FIELDS, "f_rest_0")) + bytes(72), "properties f_rest: 0, 9, 24 or 45, from"),
        (
            header(1, (*FIELDS, *(f"f_rest_{i}" for i in range(1, 10)))) + bytes(104),
            "from f_rest_0 on",
        ),
        (
            b"ply\nformat binary_little_endian 1.0\nend_header\n",
            "nothing where element vertex is expected",
        ),
        (
            b"ply\nformat binary_little_endian 1.0\nelement chunk 4\nproperty float "
            b"min_x\nend_header\n",
            "compressed PLY: elements chunk, expected chunk, vertex, sh. Export it again",
        ),
    ],
)
def test_what_is_broken_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path, data)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("y", np.nan, "vertex 1 property y is not a finite number (1 such)"),
        ("f_dc_1", np.inf, "vertex 1 property f_dc_1 is not a finite number"),
        ("opacity", np.nan, "vertex 1 property opacity is not a number"),
        ("x", 1e7, "vertex 1 lies beyond 1e+06 units"),
        ("scale_2", 90.0, "vertex 1 is larger than 1e+06 units"),
        ("rot_0", 0.0, "vertex 1 has no rotation"),
    ],
)
def test_values_that_mean_nothing_are_named(
    tmp_path: Path, name: str, value: float, said: str
) -> None:
    rows = [TWO.stored(), TWO.stored() | {name: value}]
    data = b"".join(struct.pack("<17f", *(row[field] for field in FIELDS)) for row in rows)
    assert said in refused(tmp_path, header(2, FIELDS) + data)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=r"hall\.ply: cannot be read: No such file"):
        read_splats(tmp_path / "hall.ply")
