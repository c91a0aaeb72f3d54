"""A synthetic hall of splats: alike in all formats, at all levels of detail and on all cores."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.embedded import looking
from tests.support.splat_formats import FORMATS, Stored, write_format
from vil_benchmarks.splats_hall import hall_splats
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel
from vil_renderer.embedded.splats import SplatField, arranged, project, rasterise, read_splats
from vil_renderer.embedded.splats.cloud import cloud_of
from vil_renderer.embedded.splats.field import DETAIL_PX, LEAST_FOR_LEVELS

pytest.importorskip("numba", reason="numba (extra splat) is not installed")

CAMERA = CameraModel("hall", 320, 240, math.radians(80.0))
POSES = (looking((-7.0, -1.0, 1.6), 15.0, 5.0), looking((6.0, 0.5, 1.2), 170.0, -5.0, 4.0))


@cache
def stored(count: int, degree: int) -> Stored:
    s = hall_splats(count, degree)
    logit = np.log(s.opacity / (1.0 - s.opacity))
    return Stored(*(np.asarray(a, np.float64) for a in (s.p, s.log_scale, s.q_wxyz, logit, s.sh)))


def picture(field: SplatField, pose: Transform, detail_px: float = 0.0) -> npt.NDArray[np.float64]:
    """Colours over black, rounded to the 256 levels of a picture."""
    depth = np.full((CAMERA.height_px, CAMERA.width_px), 1e6, np.float32)
    made = rasterise(project(field, CAMERA, pose, np.eye(4), detail_px=detail_px), depth)
    return np.asarray(np.rint(255.0 * made[..., :3]), np.float64)


def psnr_db(made: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]) -> float:
    return 10.0 * math.log10(255.0**2 / max(float(np.mean((made - wanted) ** 2)), 1e-9))


@pytest.mark.parametrize("degree", [0, 3])
def test_all_formats_show_the_same_hall(tmp_path: Path, degree: int) -> None:
    splats = stored(20_000, degree)
    fields = {
        kind: arranged(read_splats(write_format(tmp_path / f"hall.{kind}", splats)))
        for kind in FORMATS
    }
    for pose in POSES:
        wanted = picture(fields["ply"], pose)
        assert wanted.mean() > 60.0
        for kind in FORMATS[1:]:
            if degree == 0:
                assert psnr_db(picture(fields[kind], pose), wanted) > 45.0, kind
            elif kind != "splat":  # it has no spherical harmonics
                assert psnr_db(picture(fields[kind], pose), wanted) > 35.0, kind
        if degree:
            plain = picture(fields["splat"], pose)
            assert psnr_db(plain, wanted) < 36.0, "the harmonics are seen"


def test_levels_of_detail_show_the_same_hall_with_fewer_splats() -> None:
    field = arranged(cloud_of(hall_splats(300_000), "hall"))
    for pose in POSES:
        wanted, made = picture(field, pose), picture(field, pose, DETAIL_PX)
        count = [
            len(project(field, CAMERA, pose, np.eye(4), detail_px=d).rows) for d in (0.0, DETAIL_PX)
        ]
        assert count[1] < 0.5 * count[0]
        assert psnr_db(made, wanted) > 32.0


def test_small_scans_have_one_level() -> None:
    field = arranged(cloud_of(hall_splats(LEAST_FOR_LEVELS // 2), "hall"))
    assert len(field.start) == 1
    np.testing.assert_array_equal(picture(field, POSES[0], 100.0), picture(field, POSES[0]))


def test_culled_chunks_show_nothing() -> None:
    field = arranged(cloud_of(hall_splats(20_000), "hall"))
    alone = arranged(field.splats)
    object.__setattr__(alone, "radius", np.full_like(alone.radius, 1e3))
    for pose in POSES:
        every = project(alone, CAMERA, pose, np.eye(4))
        some = project(field, CAMERA, pose, np.eye(4))
        assert len(every.index) == len(some.index) < len(field.splats.p)
        np.testing.assert_array_equal(some.rows, every.rows)


def test_one_core_gives_the_same_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    field = arranged(cloud_of(hall_splats(20_000), "hall"))
    wanted = picture(field, POSES[0])
    for count in (1, 3):
        monkeypatch.setattr("vil_renderer.embedded.splats.threads.cores", lambda count=count: count)
        monkeypatch.setattr("vil_renderer.embedded.splats.raster.cores", lambda count=count: count)
        np.testing.assert_array_equal(picture(field, POSES[0]), wanted)
