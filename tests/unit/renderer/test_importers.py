"""OBJ, PLY, STL and COLLADA, written by trimesh or by hand as the formats describe them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from PIL import Image

from tests.support.gltf import GltfFile
from tests.support.mesh import RED_TOP, only, placed
from vil_bridge.core.errors import AssetError, RendererError
from vil_renderer.embedded.assets.importers import load_asset
from vil_renderer.embedded.assets.model import Asset

BOX_M = (0.4, 0.6, 1.0)


# trimesh is typed in part only.
STRANGE: Any = trimesh


def box() -> Any:
    return STRANGE.creation.box(BOX_M)


def check_box(asset: Asset, size_m: tuple[float, float, float]) -> None:
    points, volume = placed(asset)
    np.testing.assert_allclose(np.ptp(points, axis=0), size_m, rtol=1e-5)
    assert volume == pytest.approx(np.prod(size_m), rel=1e-5)
    assert sum(len(part.triangles) for node in asset.nodes for part in node.primitives) == 12


@pytest.mark.parametrize("suffix", ["obj", "ply", "stl", "dae"])
def test_a_box_comes_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"box.{suffix}"
    box().export(path)
    asset = load_asset(path)
    assert (asset.name, asset.origin) == ("box", path.name)
    # COLLADA says which axis is up, and what trimesh writes does not: its default is y.
    x, y, z = BOX_M
    check_box(asset, (z, x, y) if suffix == "dae" else BOX_M)


def test_unit_and_axis_of_files_that_do_not_say(tmp_path: Path) -> None:
    box().export(tmp_path / "box.stl")
    x, y, z = BOX_M
    check_box(load_asset(tmp_path / "box.stl", unit_m=0.001), (x / 1000, y / 1000, z / 1000))
    check_box(load_asset(tmp_path / "box.stl", up="y"), (z, x, y))


def test_gltf_takes_the_same_way(tmp_path: Path) -> None:
    file = GltfFile()
    file.node(mesh=file.mesh(), translation=[1, 2, 3])
    path = file.write(tmp_path, "square.glb")
    np.testing.assert_array_equal(load_asset(path).asset_from_node()[0, :3, 3], [3, 1, 2])
    np.testing.assert_array_equal(
        load_asset(path, unit_m=2.0).asset_from_node()[0, :3, 3], [6, 2, 4]
    )


def test_sharp_edges_stay_sharp_where_no_normals_are_written(tmp_path: Path) -> None:
    box().export(tmp_path / "box.stl")
    part = only(load_asset(tmp_path / "box.stl"))
    assert len(part.p_m) == 24
    assert set(map(tuple, np.abs(part.normal).tolist())) == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}


def test_a_scan_without_normals_is_smooth(tmp_path: Path) -> None:
    trimesh.creation.icosphere(3, 2.0).export(tmp_path / "ball.ply", vertex_normal=False)
    part = only(load_asset(tmp_path / "ball.ply"))
    outward = part.p_m / np.linalg.norm(part.p_m, axis=1, keepdims=True)
    assert ((part.normal * outward).sum(axis=1) > 0.999).all()


# --- OBJ ---------------------------------------------------------------------------------------

OBJ = """mtllib look.mtl
v 0 0 0
v 1 0 0
v 1 0 1
v 0 0 1
vt 0 0
vt 1 0
vt 1 1
vt 0 1
usemtl paint
f 1/1 2/2 3/3 4/4
usemtl glass
f 1/1 2/2 3/3
"""
MTL = """newmtl paint
Kd 0.2 0.2 0.2
map_Kd ../textures/red top.png
newmtl glass
Kd 0.5 1.0 0
d 0.25
Ns 14
"""


def written(folder: Path, mtl: str = MTL) -> Path:
    (folder / "meshes").mkdir()
    (folder / "textures").mkdir()
    Image.fromarray(RED_TOP).save(folder / "textures" / "red top.png")
    (folder / "meshes" / "look.mtl").write_text(mtl)
    path = folder / "meshes" / "wall.obj"
    path.write_text(OBJ)
    return path


def test_obj_with_materials_and_a_texture_one_folder_up(tmp_path: Path) -> None:
    asset = load_asset(written(tmp_path))
    parts = {part.material.name: part for node in asset.nodes for part in node.primitives}
    paint, glass = parts["paint"], parts["glass"]
    assert paint.material.base is not None and glass.material.base is None
    pixels = paint.material.base.texture.pixels
    np.testing.assert_array_equal(pixels, RED_TOP)
    assert paint.material.base_colour == (1.0, 1.0, 1.0, 1.0), "a texture stands for the colour"
    # The picture's top row is red, and so is the wall's top.
    top = paint.uv[paint.p_m[:, 2] == 1.0]
    assert len(top) > 0
    np.testing.assert_array_equal(top[:, 1], 0.0)
    assert glass.material.alpha == "blend"
    np.testing.assert_allclose(glass.material.base_colour, (0.214, 1.0, 0.0, 0.25), atol=2e-3)
    assert glass.material.roughness == pytest.approx((2 / 16) ** 0.25)


def test_limit_of_textures(tmp_path: Path) -> None:
    asset = load_asset(written(tmp_path), texture_limit_px=2)
    (use,) = {part.material.base for node in asset.nodes for part in node.primitives} - {None}
    assert use is not None
    assert use.texture.pixels.shape == (2, 2, 3)


def test_obj_as_trimesh_writes_it(tmp_path: Path) -> None:
    mesh = box()
    uv = (mesh.vertices[:, :2] + 0.3) / 0.6
    image = Image.fromarray(RED_TOP)
    material = STRANGE.visual.material.SimpleMaterial(image=image, name="red", glossiness=0.0)
    mesh.visual = STRANGE.visual.TextureVisuals(uv=uv, material=material)
    mesh.export(tmp_path / "box.obj")
    asset = load_asset(tmp_path / "box.obj")
    check_box(asset, BOX_M)
    part = only(asset)
    assert part.material.base is not None
    np.testing.assert_array_equal(part.material.base.texture.pixels, RED_TOP)
    np.testing.assert_allclose(part.uv[:, 0], (part.p_m[:, 0] + 0.3) / 0.6, atol=1e-6)
    np.testing.assert_allclose(part.uv[:, 1], 1.0 - (part.p_m[:, 1] + 0.3) / 0.6, atol=1e-6)


@pytest.mark.parametrize(
    ("mtl", "reason"),
    [
        (MTL.replace("red top", "blue top"), r"wall\.obj: refers to '\.\./textures/blue top\.png'"),
        (MTL.replace("../textures/red top.png", "look.mtl.png"), r"look\.mtl\.png"),
        (MTL.replace("../textures", "../../../etc"), None),
        (MTL.replace("../textures/red top.png", "C:\\scan\\red top.png"), None),
        (MTL.replace("../textures/red top.png", "wall.obj"), r"wall\.obj: wall\.obj: no PNG"),
    ],
)
def test_textures_are_found_or_missed_aloud(tmp_path: Path, mtl: str, reason: str | None) -> None:
    path = written(tmp_path, mtl)
    if reason is None:
        # The path leads nowhere, yet the usual folder has a picture of that name.
        load_asset(path)
        return
    with pytest.raises(AssetError, match=reason):
        load_asset(path)


def test_what_lies_further_up_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    Image.fromarray(RED_TOP).save(tmp_path / "private.png")
    path = written(tmp_path / "model", MTL.replace("../textures/red top.png", "../../private.png"))
    with pytest.raises(
        AssetError, match=r"wall\.obj: refers to '\.\./\.\./private\.png', which is not in"
    ):
        load_asset(path)


def test_a_missing_material_file_is_said(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "meshes" / "look.mtl").unlink()
    with pytest.raises(AssetError, match=r"wall\.obj: refers to 'look\.mtl'"):
        load_asset(path)


# --- PLY ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["binary", "ascii"])
def test_ply_colours_are_made_linear(tmp_path: Path, encoding: str) -> None:
    mesh = box()
    mesh.visual.vertex_colors = np.tile(np.array([188, 255, 0, 255], np.uint8), (8, 1))
    mesh.export(tmp_path / "box.ply", encoding=encoding)
    asset = load_asset(tmp_path / "box.ply")
    check_box(asset, BOX_M)
    part = only(asset)
    assert part.colour is not None
    # 188 of 255 is displayed half.
    assert np.unique(part.colour, axis=0).tolist() == [[128, 255, 0, 255]]


def test_ply_colours_of_faces(tmp_path: Path) -> None:
    mesh = box()
    mesh.visual.face_colors = np.array([[255, 0, 0, 255], [0, 0, 255, 255]] * 6, np.uint8)
    mesh.export(tmp_path / "box.ply")
    part = only(load_asset(tmp_path / "box.ply"))
    assert part.colour is not None
    of_faces = part.colour[part.triangles]
    assert (of_faces == of_faces[:, :1]).all()
    assert of_faces[:, 0].tolist() == [[255, 0, 0, 255], [0, 0, 255, 255]] * 6


PLY = (
    "ply\nformat ascii 1.0\nelement vertex 3\n{}element face {}\nproperty list uchar int "
    "vertex_indices\nend_header\n"
)
XYZ = "property float x\nproperty float y\nproperty float z\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PLY.format(XYZ, 0) + "0 0 0\n" * 3, "3 points and no faces"),
        (
            PLY.format(
                XYZ
                + "".join(
                    f"property float {f}\n" for f in ("f_dc_0", "opacity", "scale_0", "rot_0")
                ),
                0,
            ),
            None,
        ),
        (PLY.format(XYZ, 10**9) + "0 0 0\n" * 3, "element face: 1,000,000,000 of them exceed"),
        (PLY.format(XYZ, 1) + "0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n", "vertex 7, but there are 3"),
        (PLY.format(XYZ, 1) + "0 0 0\n1 nan 0\n0 1 0\n3 0 1 2\n", "positions are not finite"),
        (PLY.format(XYZ, 1).replace("end_header", "") + "0 0 0\n", "PLY header"),
        (PLY.format(XYZ, "1e9"), "is not an element"),
        ("", "PLY header"),
    ],
)
def test_ply_files_that_are_no_mesh(tmp_path: Path, text: str, reason: str | None) -> None:
    (tmp_path / "scan.ply").write_text(text + " " * 40)
    with pytest.raises(AssetError, match=r"scan\.ply: .*" + (reason or "Gaussian splats")):
        load_asset(tmp_path / "scan.ply")


# --- all ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["obj", "stl", "ply", "dae", "glb", "gltf"])
@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 100, b"solid x\nvertex a b c\nendsolid x", b"v 1 2\nf 1 2 3"]
)
def test_nonsense_is_refused_by_name(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"thing.{suffix}"
    path.write_bytes(content)
    with pytest.raises(AssetError, match=r"thing\."):
        load_asset(path)


@pytest.mark.parametrize("suffix", ["obj", "stl", "ply", "dae"])
def test_cut_files_are_refused_or_read(tmp_path: Path, suffix: str) -> None:
    box().export(tmp_path / f"box.{suffix}")
    data = (tmp_path / f"box.{suffix}").read_bytes()
    cut = tmp_path / f"cut.{suffix}"
    for end in range(0, len(data), max(1, len(data) // 40)):
        cut.write_bytes(data[:end])
        try:
            asset = load_asset(cut)
        except AssetError:
            continue
        assert np.isfinite(placed(asset)[0]).all()


MANY = OBJ.replace("mtllib look.mtl\n", "").replace(
    "f 1/1 2/2 3/3\n", "f 1//1 2//1 3//1\nf -1 -2 -3\n"
)


@pytest.mark.parametrize("kind", ["obj", "stl", "ply", "dae", "text.ply", "text.stl", "hand.obj"])
def test_changed_bytes_are_refused_or_read(tmp_path: Path, kind: str) -> None:
    """Whatever trimesh makes of them, an error of ours or a usable model comes out."""
    mesh = box()
    mesh.visual.vertex_colors = np.tile(np.array([10, 20, 30, 255], np.uint8), (8, 1))
    writers: dict[str, Callable[[], Any]] = {
        "text.ply": lambda: STRANGE.exchange.ply.export_ply(mesh, encoding="ascii"),
        "text.stl": lambda: STRANGE.exchange.stl.export_stl_ascii(mesh).encode(),
        "hand.obj": MANY.encode,
    }
    made = writers.get(kind, lambda: mesh.export(file_type=kind))()
    data = made.encode() if isinstance(made, str) else made
    random = np.random.default_rng(4)
    path = tmp_path / f"thing.{kind}"
    for _ in range(150):
        changed = bytearray(data)
        for at in random.integers(0, len(data), random.integers(1, 5)):
            changed[at] = random.choice(list(b"0123456789.-e <>\n\xff"))
        path.write_bytes(bytes(changed))
        try:
            asset = load_asset(path)
        except AssetError as exc:
            assert str(exc).startswith(path.name)
            continue
        assert np.isfinite(placed(asset)[0]).all()


def test_what_is_not_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=r"thing\.fbx: \.fbx is not read; formats: \.glb"):
        load_asset(tmp_path / "thing.fbx")
    with pytest.raises(AssetError, match=r"thing\.obj: there is no such file"):
        load_asset(tmp_path / "thing.obj")
    (tmp_path / "folder.stl").mkdir()
    with pytest.raises(AssetError, match=r"folder\.stl: not a file"):
        load_asset(tmp_path / "folder.stl")


def test_a_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    box().export(tmp_path / "box.stl")
    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(RendererError, match=r"\.stl files need the package trimesh .*\.\[gl\]"):
        load_asset(tmp_path / "box.stl")
