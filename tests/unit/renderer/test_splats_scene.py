"""Scenes with splats.

What meshes hide, what the proxy stands for, and a scan beside the room it was taken of.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.embedded import drone, looking, prop
from tests.support.geometry_scenes import box, place, primitive, thing
from tests.support.opengl import drawing
from tests.support.splat import Splat, dense, turned, write
from vil_bridge.core.camera_model import Effects
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorState,
    CameraModel,
    FloatArray,
    ImageArray,
    Modality,
    View,
    WorldSnapshot,
)
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.assets.model import Asset, Material, Primitive, Texture, TextureUse
from vil_renderer.embedded.scene import Environment, Scene, SceneObject, SplatSet
from vil_renderer.embedded.scenefile import load_scene

pytest.importorskip("numba", reason="numba (extra splat) is not installed")
pytestmark = pytest.mark.gl

CAMERA = CameraModel("small", 90, 70, math.radians(60.0))
AHEAD = looking((0.0, 0.0, 1.0))
# The picture below is rounded to 8 bits, and so is what blending makes of it.
ROUNDING = 1.5 / 255.0

THREE = (
    Splat((4.0, 0.2, 1.1), (0.5, 0.1, 0.05), (0.9, 0.2, 0.1), 0.8, turned(30.0, 20.0, -50.0)),
    Splat((5.0, -0.1, 0.9), (0.3, 0.6, 0.2), (0.1, 0.8, 0.3), 0.95, turned(-70.0, 5.0, 10.0)),
    Splat((3.0, 0.4, 0.8), (0.05, 0.05, 0.2), (0.2, 0.3, 1.0), 0.5, turned(0.0, 60.0, 0.0)),
)


def scene_with(
    folder: Path,
    splats: tuple[Splat, ...],
    *objects: SceneObject,
    proxy: tuple[str, ...] = (),
    m: FloatArray | None = None,
) -> Scene:
    path = write(folder / "scan.ply", list(splats))
    light = Environment(np.ones(3), np.ones(3), zenith=(0.2, 0.3, 0.5), horizon=(0.2, 0.3, 0.5))
    return Scene(
        "scan", objects, light, splats=SplatSet(path, np.eye(4) if m is None else m, proxy)
    )


def pictures(
    drawer: EmbeddedRenderer,
    *modalities: Modality,
    pose: Transform = AHEAD,
    camera: CameraModel = CAMERA,
    layer: str = "",
    actors: tuple[ActorState, ...] = (),
) -> tuple[ImageArray, ...]:
    views = [View(camera, modality, pose, 0, layer=layer) for modality in modalities]
    return tuple(image.pixels for image in drawer.render(views, WorldSnapshot(0, actors)))


def opened(scene: Scene, profile: str = "low") -> EmbeddedRenderer:
    return drawing(scene, profile)


def wall(name: str, x_m: float, instance: int) -> SceneObject:
    """A wall across x, 6 m wide and high."""
    return box(name, (0.05, 3.0, 3.0), (x_m, 0.0, 1.0), semantic=2, instance=instance)


def over(splats: npt.NDArray[np.float64], background: ImageArray) -> npt.NDArray[np.float64]:
    return splats[..., :3] + (1.0 - splats[..., 3:]) * background[..., :3] / 255.0


@pytest.mark.parametrize("profile", ["low", "high"])
def test_three_splats_lie_over_the_picture_of_the_meshes(tmp_path: Path, profile: str) -> None:
    back = wall("back", 8.0, 3)
    with opened(Scene("bare", (back,), scene_with(tmp_path, THREE).environment), profile) as bare:
        (background,) = pictures(bare, Modality.RGB)
    with opened(scene_with(tmp_path, THREE, back), profile) as scan:
        rgb, gray, rgba = pictures(scan, Modality.RGB, Modality.GRAY, Modality.RGBA)
    splats = dense(THREE, CAMERA, AHEAD)
    assert splats[..., 3].max() > 0.7
    np.testing.assert_allclose(rgb / 255.0, over(splats, background), atol=ROUNDING)
    np.testing.assert_array_equal(rgba[..., :3], rgb)
    np.testing.assert_allclose(gray, rgb @ np.array([77, 150, 29]) / 256.0, atol=1.0)
    assert (rgba[..., 3] == 255).all()


@pytest.mark.parametrize("profile", ["low", "high"])
def test_meshes_hide_the_splats_behind_them_and_are_covered_by_those_before(
    tmp_path: Path, profile: str
) -> None:
    # Its front is at 4.0 m, THREE at 3, 4 and 5.
    crate = box("crate", (0.4, 0.5, 0.4), (4.4, 0.1, 1.0))
    crate = replace(crate, world_from_asset=place((4.5, 0.1, 1.0)))
    with opened(scene_with(tmp_path, THREE, crate), profile) as scan:
        rgb, z_m, ids = pictures(scan, Modality.RGB, Modality.DEPTH32, Modality.INSTANCE)
    with opened(Scene("bare", (crate,), scene_with(tmp_path, THREE).environment), profile) as bare:
        (background,) = pictures(bare, Modality.RGB)
    depth = np.where(z_m < 100.0, z_m, np.float32(1e6))
    expected = over(dense(THREE, CAMERA, AHEAD, z_m=depth), background)
    off = np.abs(rgb / 255.0 - expected).max(axis=2)
    # At the crate's edge one of several samples is background.
    inside = np.ones_like(off, bool) if profile == "low" else _away_from_edges(ids)
    assert inside.sum() > 0.8 * off.size
    assert off[inside].max() < ROUNDING
    without = over(dense(THREE, CAMERA, AHEAD), background)
    assert np.abs(without - expected).max() > 0.3, "the crate does hide something"
    assert np.abs(expected - background / 255.0)[ids == 20].max() > 0.2, (
        "and is covered by something"
    )


def _away_from_edges(ids: ImageArray) -> npt.NDArray[np.bool_]:
    same = np.ones(ids.shape, bool)
    for axis in (0, 1):
        for step in (-1, 1):
            same &= np.roll(ids, step, axis) == ids
    return same


def test_a_vehicle_moves_behind_and_before_a_scanned_wall(tmp_path: Path) -> None:
    grid = np.arange(-2.0, 2.01, 0.1)
    sheet = tuple(
        Splat((4.0, y, 1.0 + z), (0.01, 0.1, 0.1), (0.9, 0.9, 0.2), 0.98)
        for y in grid
        for z in grid
    )
    scanned = scene_with(tmp_path, sheet, wall("proxy", 4.05, 9), proxy=("proxy",))
    with opened(scanned) as scan:
        ids = {}
        shown = {}
        for name, x_m in (("nobody", None), ("behind", 6.0), ("before", 2.0)):
            actors = () if x_m is None else (prop("cart", (x_m, 0.0, 1.0), (0.4, 0.6, 0.4)),)
            shown[name], ids[name] = pictures(scan, Modality.RGB, Modality.INSTANCE, actors=actors)
        cart = scan.instances["cart"]
    assert (ids["nobody"][20:50, 30:60] == 9).all(), "the proxy gives the ids"
    middle = shown["nobody"][20:50, 30:60]
    assert np.abs(middle.astype(int) - (230, 230, 51)).max() <= 3, "and is not seen itself"
    np.testing.assert_allclose(shown["behind"].astype(int), shown["nobody"], atol=2)
    np.testing.assert_array_equal(ids["behind"], ids["nobody"])
    before = ids["before"] == cart
    assert before.sum() > 50
    changed = np.abs(shown["before"].astype(int) - shown["nobody"]).max(axis=2) > 20
    assert (changed & before).sum() > 0.9 * before.sum()


def test_the_proxy_stands_for_splats_in_everything_but_colour(tmp_path: Path) -> None:
    proxy = wall("proxy", 4.05, 9)  # its front is 4 m away; THREE lie before, in and behind it
    seen = (
        Modality.DEPTH,
        Modality.DEPTH32,
        Modality.NORMALS,
        Modality.SEMANTIC,
        Modality.INSTANCE,
        Modality.FLOW,
    )
    with opened(scene_with(tmp_path, THREE, proxy, proxy=("proxy",))) as scan:
        rgb, *rest = pictures(scan, Modality.RGB, *seen)
        view = View(CAMERA, Modality.RGB, AHEAD, 0)
        floor = scan.range_m(replace(view, T_world_camera=looking((4.05, 0.0, 6.0))))
        inside = scan.collision(replace(view, T_world_camera=looking((4.05, 0.0, 1.0))))
    with opened(Scene("mesh", (proxy,), scene_with(tmp_path, THREE).environment)) as mesh:
        _, *expected = pictures(mesh, Modality.RGB, *seen)
    with opened(scene_with(tmp_path, THREE)) as bare:
        alone, z_alone = pictures(bare, Modality.RGB, Modality.DEPTH32)
    for made, wanted in zip(rest, expected, strict=True):
        np.testing.assert_array_equal(made, wanted)
    np.testing.assert_allclose(rest[1][20:50, 30:60], 4.0, atol=1e-3)
    np.testing.assert_array_equal(rgb, alone)
    assert (z_alone == 100.0).all(), "without a proxy splats have no depth"
    assert floor == pytest.approx(2.0, abs=1e-3)
    assert inside


def test_splats_are_of_the_layer_of_the_scene(tmp_path: Path) -> None:
    quad = (drone("quad", (2.5, 0.0, 1.0)),)
    with opened(scene_with(tmp_path, THREE)) as scan:
        (alone,) = pictures(scan, Modality.RGBA, layer="scene", actors=quad)
        (actors,) = pictures(scan, Modality.RGBA, layer="actors", actors=quad)
    with opened(Scene("bare", (), scene_with(tmp_path, THREE).environment)) as bare:
        (expected,) = pictures(bare, Modality.RGBA, layer="actors", actors=quad)
    splats = dense(THREE, CAMERA, AHEAD)
    np.testing.assert_allclose(alone / 255.0, splats, atol=ROUNDING)
    np.testing.assert_array_equal(actors[..., 3], expected[..., 3])
    off = np.abs(actors.astype(int) - expected)[expected[..., 3] > 0]
    assert 0 < off.max() < 80, "the splats around tint it"


def test_exposure_darkens_splats_as_it_does_meshes(tmp_path: Path) -> None:
    veil = (Splat((4.0, 0.0, 1.0), (0.01, 5.0, 5.0), (0.8, 0.6, 0.4), 0.999),)
    dark = replace(CAMERA, effects=Effects(exposure_ev=-1.0))
    with opened(scene_with(tmp_path, veil)) as scan:
        (full,), (half,) = pictures(scan, Modality.RGB), pictures(scan, Modality.RGB, camera=dark)
    np.testing.assert_allclose(half[35, 45], full[35, 45] * 0.5 ** (1 / 2.2), atol=1.5)


@pytest.mark.parametrize(
    ("name", "movable", "said"), [("wall", False, "is not in the scene"), ("proxy", True, "moves")]
)
def test_a_proxy_that_cannot_be_one_is_named(
    tmp_path: Path, name: str, movable: bool, said: str
) -> None:
    stand_in = replace(wall("proxy", 4.0, 9), movable=movable)
    with pytest.raises(RendererError, match=f"'{name}', the proxy of its splats, {said}"):
        opened(scene_with(tmp_path, THREE, stand_in, proxy=(name,)))


def test_a_scene_file_with_splats_is_drawn(tmp_path: Path) -> None:
    write(tmp_path / "hall.ply", [replace(s, p=(s.p[1], s.p[2], s.p[0])) for s in THREE])
    (tmp_path / "mesh.obj").write_text("v -3 -3 4\nv 3 -3 4\nv 3 3 4\nf 1 3 2\n")
    (tmp_path / "scan.yaml").write_text(
        "scene: s\nsplats: {file: hall.ply, proxy: mesh.obj, up: y}\n"
    )
    with opened(load_scene(tmp_path / "scan.yaml")) as scan:
        assert scan.scene.splats is not None
        rgb, ids = pictures(scan, Modality.RGB, Modality.INSTANCE, camera=CAMERA)
    assert len(np.unique(ids)) == 2
    assert rgb[:, :, 0].max() > 100


def test_without_numba_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vil_renderer.embedded.splats import kernels as module

    module.compiled.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "numba", None)
    try:
        with pytest.raises(
            RendererError,
            match=r"Gaussian splats need .* extra splat \(pip install '\.\[splat\]' in the "
            r"source folder\)",
        ):
            opened(scene_with(tmp_path, THREE))
    finally:
        module.compiled.cache_clear()


# --- a synthetic scan -----------------------------------------------------------------------------

HALF = np.array([2.5, 2.0, 1.25])
CENTRE = np.array([0.0, 0.0, 1.25])


def painted(p: FloatArray) -> FloatArray:
    """Display colour of the room at points (n, 3) of its surface: soft blobs of about a metre."""
    k = 2.0 * np.pi / np.array([2.2, 2.6, 1.8])
    shades = [
        0.5 + 0.35 * np.sin(p @ np.roll(k, i) + i) * np.cos(p[:, (i + 1) % 3] * 2.0 + 2.0 * i)
        for i in range(3)
    ]
    return np.stack(shades, axis=-1)


def side(axis: int, sign: float, u: FloatArray, v: FloatArray) -> FloatArray:
    """Points on a side of the room by u and v in -1..1, (..., 3)."""
    p = np.empty((*u.shape, 3))
    p[..., axis], p[..., (axis + 1) % 3], p[..., (axis + 2) % 3] = sign, u, v
    made: FloatArray = p * HALF + CENTRE
    return made


def textured_side(axis: int, sign: float, size: int = 128) -> Primitive:
    steps = (np.arange(size) + 0.5) / size * 2.0 - 1.0
    u, v = np.meshgrid(steps, steps)  # columns are u, rows are v
    colours = painted(side(axis, sign, u, v).reshape(-1, 3)).reshape(size, size, 3)
    texture = Texture(np.rint(255.0 * np.clip(colours, 0, 1)).astype(np.uint8), ("clamp", "clamp"))
    corners = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])
    normal = -sign * np.eye(3)[axis]
    quads = [(0, 1, 2), (0, 2, 3)] if sign < 0 else [(0, 2, 1), (0, 3, 2)]
    flat = primitive(side(axis, sign, corners[:, 0], corners[:, 1]), quads, np.tile(normal, (4, 1)))
    uv = (0.5 + 0.5 * corners).astype(np.float32)
    return replace(flat, uv=uv, material=Material(base=TextureUse(texture), unlit=True))


def room() -> SceneObject:
    sides = [textured_side(axis, sign) for axis in range(3) for sign in (-1.0, 1.0)]
    return thing("room", Asset.of("room", sides), semantic=2, instance=5)


@cache
def scanned_room(spacing_m: float = 0.14) -> tuple[Splat, ...]:
    """What a scan of the room gives: flat discs on its sides, with the colours there."""
    splats = []
    for axis in range(3):
        across = HALF[(axis + 1) % 3], HALF[(axis + 2) % 3]
        thick = np.full(3, 0.55 * spacing_m)
        thick[axis] = 0.003
        steps = [np.linspace(-1.0, 1.0, round(2.0 * a / spacing_m) + 1) for a in across]
        for sign in (-1.0, 1.0):
            p = side(axis, sign, *np.meshgrid(*steps)).reshape(-1, 3)
            splats += [
                Splat(tuple(q), tuple(thick), tuple(c), 0.98)
                for q, c in zip(p, painted(p), strict=True)
            ]
    return tuple(splats)


def test_a_scan_looks_like_the_room_that_it_was_taken_of(tmp_path: Path) -> None:
    splats = scanned_room()
    assert 4000 < len(splats) < 5000
    camera = CameraModel("vga", 320, 240, math.radians(70.0))
    poses = [
        looking((-1.5, 0.5, 1.3)),
        looking((0.5, -0.8, 1.0), 130.0, 15.0),
        looking((1.0, 1.0, 1.8), -120.0, -10.0, 8.0),
    ]
    with (
        opened(Scene("room", (room(),), scene_with(tmp_path, THREE).environment)) as mesh,
        opened(scene_with(tmp_path, splats, room(), proxy=("room",))) as scan,
    ):
        for pose in poses:
            wanted, z_wanted = pictures(
                mesh, Modality.RGB, Modality.DEPTH32, pose=pose, camera=camera
            )
            made, z_made = pictures(scan, Modality.RGB, Modality.DEPTH32, pose=pose, camera=camera)
            np.testing.assert_array_equal(z_made, z_wanted)
            error = np.mean((made.astype(float) - wanted) ** 2)
            assert 10.0 * math.log10(255.0**2 / error) > 26.0
