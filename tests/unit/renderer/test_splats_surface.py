"""The surface that splats themselves give.

Depth, ids, rays and collisions of a scan without a proxy mesh.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.embedded import looking
from tests.support.opengl import drawing
from tests.support.splat import Splat, write
from tests.support.splat_formats import Stored, write_format
from vil_benchmarks.splats_hall import hall_range_m, hall_splats
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import CameraModel, FloatArray, Modality, View, WorldSnapshot
from vil_renderer.embedded.assets.model import Asset, Primitive
from vil_renderer.embedded.geometry.surfaces import TriangleSurface
from vil_renderer.embedded.scenefile import load_scene
from vil_renderer.embedded.splats import arranged, read_splats
from vil_renderer.embedded.splats.cloud import cloud_of
from vil_renderer.embedded.splats.surface import surface_of

PLACE = np.array([-7.0, -1.0, 1.6])
CAMERA = CameraModel("hall", 160, 120, math.radians(80.0))
POSE = looking((-7.0, -1.0, 1.6), 15.0, 5.0)


def joined(asset: Asset) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32]]:
    """All corners and triangles of an asset of one node."""
    parts = asset.nodes[0].primitives
    starts = np.cumsum([0, *(len(part.p_m) for part in parts)])
    triangles = [
        part.triangles + np.uint32(start) for part, start in zip(parts, starts[:-1], strict=True)
    ]
    return np.concatenate([part.p_m for part in parts]), np.concatenate(triangles)


def squares(folder: Path, *splats: Splat) -> Primitive:
    return (
        surface_of(arranged(read_splats(write(folder / "a.ply", list(splats)))), "splats")
        .nodes[0]
        .primitives[0]
    )


def hall(folder: Path, count: int, text: str = "") -> Path:
    s = hall_splats(count)
    logit = np.log(s.opacity / (1.0 - s.opacity))
    stored = Stored(*(np.asarray(a, np.float64) for a in (s.p, s.log_scale, s.q_wxyz, logit, s.sh)))
    write_format(folder / "hall.spz", stored)
    path = folder / "hall.yaml"
    path.write_text(f"scene: h\nsplats: {{file: hall.spz, class: building}}\n{text}")
    return path


@pytest.mark.parametrize("count", [20_000, 100_000])
def test_rays_meet_the_hall_within_two_percent(count: int) -> None:
    pytest.importorskip("embreex")
    rng = np.random.default_rng(0)
    directions: FloatArray = rng.normal(size=(10_000, 3))
    surface = TriangleSurface(
        *joined(surface_of(arranged(cloud_of(hall_splats(count), "hall")), "splats"))
    )
    reach = np.full(len(directions), 1e3, np.float32)
    found, primitive, *_ = surface.strike(
        np.tile(PLACE.astype(np.float32), (len(directions), 1)),
        directions.astype(np.float32),
        reach,
    )
    hit, truth = primitive >= 0, hall_range_m(PLACE, directions)
    error = np.abs(found - truth) / truth
    assert hit.mean() > 0.997
    assert (error[hit] < 0.02).mean() > 0.96  # the others are at the edges of boxes
    assert error[hit].mean() < 0.01


def test_a_disc_is_one_square_and_a_blob_three(tmp_path: Path) -> None:
    disc = squares(tmp_path, Splat((1, 2, 3), (0.2, 0.1, 0.01)))
    assert (disc.p_m.shape, disc.triangles.shape) == ((4, 3), (2, 3))
    np.testing.assert_allclose(disc.p_m.mean(axis=0), [1, 2, 3], atol=1e-6)
    np.testing.assert_allclose(np.ptp(disc.p_m, axis=0), [0.6, 0.3, 0.0], atol=1e-6)
    np.testing.assert_allclose(np.abs(disc.normal), np.tile([0.0, 0.0, 1.0], (4, 1)), atol=1e-6)
    assert squares(tmp_path, Splat((1, 2, 3), (0.2, 0.1, 0.1))).triangles.shape == (6, 3)


def test_neighbours_are_parts_of_a_small_extent() -> None:
    """A view of a corner of the hall draws few of them."""
    parts = (
        surface_of(arranged(cloud_of(hall_splats(20_000), "hall")), "splats").nodes[0].primitives
    )
    extents = np.array([np.ptp(part.p_m, axis=0) for part in parts])
    whole = np.ptp(np.concatenate([part.p_m for part in parts]), axis=0)
    assert len(parts) >= 20
    assert np.median(extents.prod(axis=1)) < 0.2 * whole.prod()


def test_faint_splats_are_no_surface(tmp_path: Path) -> None:
    assert not len(squares(tmp_path, Splat((1, 2, 3), opacity=0.4)).triangles)


@pytest.mark.gl
def test_a_scan_without_a_proxy_has_depth_ids_range_and_collisions(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="numba (extra splat) is not installed")
    views = [
        View(CAMERA, m, POSE, 0)
        for m in (Modality.RGB, Modality.DEPTH32, Modality.INSTANCE, Modality.NORMALS)
    ]
    with drawing(load_scene(hall(tmp_path, 20_000))) as renderer:
        rgb, z_m, ids, normals = (
            image.pixels for image in renderer.render(views, WorldSnapshot(0, ()))
        )
        number = renderer.instances["splats"]
        level = View(CAMERA, Modality.RGB, looking((-7.0, -1.0, 1.6)), 0)
        down = renderer.range_m(level)
        free = renderer.collision(level)
        touching = renderer.collision(View(CAMERA, Modality.RGB, looking((-9.95, 0.0, 1.5)), 0))
    fx, fy, cx, cy = CAMERA.intrinsics_px
    u, v = np.meshgrid(np.arange(CAMERA.width_px), np.arange(CAMERA.height_px))
    ahead = np.stack(((u - cx) / fx, (v - cy) / fy, np.ones(u.shape)), axis=-1).reshape(-1, 3)
    truth = hall_range_m(POSE.p_m, ahead @ POSE.rotation().T).reshape(u.shape)
    seen = ids == number
    assert seen.mean() > 0.99
    assert (np.abs(z_m - truth)[seen] < 0.02 * truth[seen]).mean() > 0.95
    # Where no splat is opaque, nothing pretends to be known.
    assert (z_m[~seen] >= 100.0).all()
    assert not normals[~seen].any()
    assert rgb.mean() > 60
    assert down == pytest.approx(1.6, rel=0.02)
    assert (touching, free) == (True, False)


def test_a_broken_scan_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "hall.ply").write_bytes(b"ply\n")
    path = tmp_path / "s.yaml"
    path.write_text("scene: s\nsplats: {file: hall.ply}\n")
    with pytest.raises(
        RendererError, match=r"splats\.file: hall\.ply: PLY header: absent or cut short"
    ):
        load_scene(path)


@pytest.mark.gl
@pytest.mark.parametrize("opacities", [(0.2,), (0.01, 0.49)], ids=["one", "two"])
def test_a_scan_without_an_opaque_splat_is_a_scene_without_a_surface(
    tmp_path: Path, opacities: tuple[float, ...]
) -> None:
    write(tmp_path / "a.ply", [Splat((0.0, 0.0, 0.0), opacity=opacity) for opacity in opacities])
    (tmp_path / "a.yaml").write_text("scene: faint\nsplats: {file: a.ply}\n")
    with drawing(tmp_path / "a.yaml", "low") as renderer:
        view = View(CAMERA, Modality.INSTANCE, POSE, t_pose_ns=0)
        (seen,) = renderer.render((view,), WorldSnapshot(0, ()))
        assert not seen.pixels.any()
