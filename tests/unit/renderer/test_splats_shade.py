"""Shade of actors on splats.

That of the same floor as a mesh, only below them, only where the splats have depth.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from tests.support.embedded import looking, prop
from tests.support.geometry_scenes import box
from tests.support.opengl import drawing
from tests.support.splat import Splat, ply, write
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorState, CameraModel, ImageArray, Modality, View, WorldSnapshot
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.scene import Environment, Scene, SceneObject, SplatSet, Sun

pytest.importorskip("numba", reason="numba (extra splat) is not installed")
pytest.importorskip("embreex", reason="shade on the ground needs Embree")
pytestmark = pytest.mark.gl

CAMERA = CameraModel("down", 160, 120, math.radians(60.0))
AHEAD = looking((-2.5, 0.0, 1.8), 0.0, 30.0)
LEVELS = 3
"""Shade is stored in steps of 1/255, on splats and on meshes, and so are the pictures."""
FLOOR = 9
GRID = np.arange(-3.6, 3.61, 0.12)
LIGHT = Environment(np.ones(3), np.ones(3))


def floor(name: str = "floor") -> SceneObject:
    """A floor of 8 m whose top is at z = 0."""
    return box(name, (4.0, 4.0, 0.05), (0.0, 0.0, -0.05), semantic=2, instance=FLOOR)


@cache
def sheet() -> tuple[Splat, ...]:
    """An opaque grey floor of splats at z = 0."""
    return tuple(
        Splat((x, y, 0.0), (0.12, 0.12, 0.004), (0.7, 0.7, 0.7), 0.98) for x in GRID for y in GRID
    )


@cache
def stored_sheet() -> bytes:
    return ply(sheet())


def scanned(folder: Path, *objects: SceneObject, proxy: tuple[str, ...] = ("floor",)) -> Scene:
    path = folder / "floor.ply"
    path.write_bytes(stored_sheet())
    return Scene("scan", objects, LIGHT, splats=SplatSet(path, np.eye(4), proxy))


def pictures(
    drawer: EmbeddedRenderer,
    *actors: ActorState,
    pose: Transform = AHEAD,
    hide: tuple[str, ...] = (),
) -> tuple[ImageArray, ImageArray]:
    """Colours, and the pixels of the floor."""
    views = [View(CAMERA, m, pose, 0, hide=hide) for m in (Modality.RGB, Modality.INSTANCE)]
    rgb, ids = (image.pixels.copy() for image in drawer.render(views, WorldSnapshot(0, actors)))
    return rgb, ids == FLOOR


def opened(scene: Scene, profile: str = "low") -> EmbeddedRenderer:
    return drawing(scene, profile)


def crate(height_m: float) -> ActorState:
    return prop("crate", (0.0, 0.0, height_m), (0.4, 0.4, 0.1))


def below(pose: Transform, radius_m: float) -> npt.NDArray[np.bool_]:
    """Pixels that show the floor within a radius of the origin."""
    fx, fy, cx, cy = CAMERA.intrinsics_px
    v, u = np.mgrid[: CAMERA.height_px, : CAMERA.width_px]
    rays = np.stack(((u - cx) / fx, (v - cy) / fy, np.ones(u.shape)), axis=-1) @ pose.rotation().T
    away = -pose.p_m[2] / np.minimum(rays[..., 2], -1e-9)
    near: npt.NDArray[np.bool_] = (
        np.linalg.norm(pose.p_m[:2] + away[..., None] * rays[..., :2], axis=-1) < radius_m
    )
    return near


@pytest.mark.parametrize("profile", ["low", "medium", "high", "ultra"])
@pytest.mark.parametrize(("height_m", "radius_m"), [(0.4, 0.248), (1.0, 0.32)])
def test_splats_are_shaded_as_the_same_floor_of_a_mesh(
    tmp_path: Path, profile: str, height_m: float, radius_m: float
) -> None:
    factors = []
    for scene in (scanned(tmp_path, floor()), Scene("mesh", (floor(),), LIGHT)):
        with opened(scene, profile) as drawer:
            free, _ = pictures(drawer)
            shaded, bare = pictures(drawer, crate(height_m))
            hidden, _ = pictures(drawer, crate(height_m), hide=("crate",))
        bare = shrunk(bare)  # at edges one of several samples is the crate's
        inside = below(AHEAD, radius_m)
        np.testing.assert_array_equal(shaded[bare & ~grown(inside)], free[bare & ~grown(inside)])
        np.testing.assert_array_equal(hidden, free)
        assert (bare & inside).sum() > 100
        factors.append((shaded / free.astype(float))[bare & inside])
    np.testing.assert_allclose(factors[0], factors[1], atol=LEVELS / 255.0 / 0.5)
    assert factors[0].min() < 0.85


def test_the_sun_casts_shadows_on_splats_as_on_a_mesh(tmp_path: Path) -> None:
    """The share of the sky in the scene's light is left where the sun is hidden.

    Splats cast no shadow themselves.
    """
    slanting = np.array([0.5, 0.3, 0.8])
    light = Environment(
        np.full(3, 0.3),
        np.full(3, 0.3),
        sun=Sun(slanting / np.linalg.norm(slanting), np.full(3, 0.4)),
    )
    factors, floors = [], []
    for scene in (scanned(tmp_path, floor()), Scene("mesh", (floor(),), LIGHT)):
        with opened(replace(scene, environment=light), "ultra") as drawer:
            free, _ = pictures(drawer)
            shaded, bare = pictures(drawer, crate(0.6))
        factors.append(shaded / free.astype(float))
        floors.append(shrunk(bare))
    inside = floors[0] & floors[1]
    off = np.abs(factors[0] - factors[1])[inside].max(axis=1)
    assert (off < 0.03).mean() > 0.995, "edges are a texel of the map apart"
    dark = factors[0][inside].min(axis=1) < 0.8
    assert 100 < dark.sum() < 0.1 * inside.sum()
    facing = slanting[2] / np.linalg.norm(slanting)
    assert np.median(factors[0][inside][dark]) == pytest.approx(
        (0.3 / (0.3 + 0.4 * facing)) ** (1 / 2.2), abs=0.01
    )
    assert (factors[0][inside][~dark] == 1.0).all(axis=1).mean() > 0.98, (
        "splats do not shade themselves"
    )


def test_an_actor_above_the_camera_shades_what_it_sees(tmp_path: Path) -> None:
    """Corners of the patch lie behind the camera, which stands in it."""
    low = looking((-0.2, 0.0, 0.15), 0.0, 60.0)
    with opened(scanned(tmp_path, floor())) as drawer:
        free, _ = pictures(drawer, pose=low)
        shaded, bare = pictures(drawer, crate(0.6), pose=low)
    assert np.median((shaded / free.astype(float))[bare & below(low, 0.1)]) < 0.75


def test_splats_without_depth_are_not_shaded(tmp_path: Path) -> None:
    with opened(scanned(tmp_path, proxy=())) as drawer:
        free, shaded = pictures(drawer)[0], pictures(drawer, crate(0.4))[0]
        inside = below(AHEAD, 0.2)
    same = (shaded == free).all(axis=-1)
    assert same[inside].any(), "the splats below the crate"


def test_a_wall_behind_an_actor_is_not_shaded_by_its_patch(tmp_path: Path) -> None:
    """The wall's surface lies far above the patch, and the floor behind it is hidden."""
    wall = box("wall", (0.02, 3.0, 1.0), (-0.6, 0.0, 1.0), semantic=2, instance=FLOOR + 1)
    upright = [
        Splat((-0.62, y, z), (0.004, 0.12, 0.12), (0.7, 0.7, 0.7), 0.98)
        for y in GRID
        for z in GRID
        if z > 0.0
    ]
    path = write(tmp_path / "wall.ply", [*sheet(), *upright])
    scene = Scene(
        "scan", (floor(), wall), LIGHT, splats=SplatSet(path, np.eye(4), ("floor", "wall"))
    )
    with opened(scene) as drawer:
        free, shaded = pictures(drawer)[0], pictures(drawer, crate(0.4))[0]
    np.testing.assert_array_equal(shaded, free)


def shrunk(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    return cv2.erode(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0


def grown(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    return cv2.dilate(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
