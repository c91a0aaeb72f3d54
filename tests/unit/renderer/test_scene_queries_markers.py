"""Markers of programs in the pictures of a scene's real process."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import pytest_asyncio

from tests.support.common import needs_gl
from tests.support.embedded import looking, prop
from vil_bridge.core.camera_model import Distortion, LensModel
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import CameraModel, Modality, View, WorldSnapshot
from vil_bridge.interfaces.scene_queries import MarkerKind, SceneMarker
from vil_renderer.embedded.optics.lens import project
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import EmbeddedQueriesConfig
from vil_renderer.queries.messages import MOST_MARKED_POINTS

pytestmark = [pytest.mark.gl, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

RED = (255, 0, 3)
CAMERA = CameraModel("front", 161, 121, math.radians(60.0))
LENS = replace(
    CAMERA, name="lens", distortion=Distortion(LensModel.PLUMB_BOB, (-0.2, 0.02, 0.0, 0.0, 0.0))
)
POSE = looking((0.0, 0.0, 1.5))
NOW = WorldSnapshot(100, ())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[EmbeddedSceneQueries]:
    needs_gl()
    queries = EmbeddedSceneQueries("test", EmbeddedQueriesConfig(scene="empty"))
    yield queries
    await queries.close()


async def red_pixels(
    scene: EmbeddedSceneQueries, camera: CameraModel = CAMERA, snapshot: WorldSnapshot = NOW
) -> npt.NDArray[np.intp]:
    """Rows and columns (n, 2) of the marked pixels."""
    (image,) = await scene.images([View(camera, Modality.RGB, POSE, snapshot.t_ns)], snapshot)
    return np.argwhere((image.pixels == RED).all(axis=2))


def marker(kind: MarkerKind, *p_m: tuple[float, float, float], **more: object) -> SceneMarker:
    return replace(SceneMarker(kind, np.array(p_m, np.float64).reshape(-1, 3), RED), **more)  # type: ignore[arg-type]


async def test_points_are_where_the_lens_shows_them_and_behind_what_is_nearer(
    scene: EmbeddedSceneQueries,
) -> None:
    rng = np.random.default_rng(4)
    p_m = np.column_stack(
        (rng.uniform(2.0, 9.0, 40), rng.uniform(-1.0, 1.0, 40), rng.uniform(1.2, 2.0, 40))
    )
    await scene.mark([SceneMarker(MarkerKind.POINTS, p_m, RED)])
    for camera in (CAMERA, LENS):
        expected = np.rint(project(camera, POSE.inverse().apply(p_m))).astype(int)[:, ::-1]
        found = await red_pixels(scene, camera)
        assert set(map(tuple, found.tolist())) == set(map(tuple, expected.tolist()))
    wall = WorldSnapshot(100, (prop("wall", (5.0, 0.0, 1.5), (0.2, 20.0, 20.0)),))
    hidden = await red_pixels(scene, CAMERA, wall)
    before = np.rint(project(CAMERA, POSE.inverse().apply(p_m[p_m[:, 0] < 4.9]))).astype(int)[
        :, ::-1
    ]
    assert set(map(tuple, hidden.tolist())) == set(map(tuple, before.tolist()))
    assert 0 < len(hidden) < len(found)
    await scene.clear_markers()
    assert not len(await red_pixels(scene))


async def test_lines_are_unbroken_and_cut_at_the_camera_and_the_picture(
    scene: EmbeddedSceneQueries,
) -> None:
    across = marker(MarkerKind.LINES, (4.0, -1e4, 1.7), (4.0, 1e4, 1.7))
    await scene.mark([across])
    fx, fy, cx, cy = CAMERA.intrinsics_px
    rows, columns = (await red_pixels(scene)).T
    assert set(columns.tolist()) == set(range(CAMERA.width_px))
    assert set(rows.tolist()) == {round(cy - fy * 0.2 / 4.0)}
    await scene.clear_markers()
    past = marker(MarkerKind.LINES, (-50.0, 0.3, 1.5), (50.0, 0.3, 1.5), size_px=3)
    await scene.mark([past])
    rows, columns = (await red_pixels(scene)).T
    assert set(rows.tolist()) == {round(cy) - 1, round(cy), round(cy) + 1}
    end = round(cx - fx * 0.3 / 50.0)
    assert set(columns.tolist()) == set(range(end + 2))
    await scene.clear_markers()
    await scene.mark([marker(MarkerKind.LINES, (-5.0, 0.0, 1.5), (-1.0, 0.0, 1.5))])
    assert not len(await red_pixels(scene)), "behind the camera"
    await scene.clear_markers()


async def test_words_stand_right_of_their_point(scene: EmbeddedSceneQueries) -> None:
    views = [View(CAMERA, Modality.RGB, POSE, 100)]
    (without,) = await scene.images(views, NOW)
    await scene.mark(
        [
            marker(
                MarkerKind.TEXT,
                (4.0, 0.0, 1.5),
                (-4.0, 0.0, 1.5),
                texts=("gate", "unseen"),
                size_px=11,
            )
        ]
    )
    (marked,) = await scene.images(views, NOW)
    await scene.clear_markers()
    # Letters have soft edges.
    rows, columns = np.nonzero((marked.pixels != without.pixels).any(axis=2))
    assert len(rows) > 40
    assert 80 <= columns.min() <= columns.max() < 80 + 4 * 11
    assert 60 - 11 <= rows.min() <= rows.max() <= 60 + 5


async def test_markers_end_at_their_instant_and_outlive_a_crash(
    scene: EmbeddedSceneQueries,
) -> None:
    await scene.mark([marker(MarkerKind.POINTS, (4.0, 0.0, 1.5), until_ns=200)])
    await scene.mark([marker(MarkerKind.POINTS, (4.0, 0.5, 1.5))])
    assert len(await red_pixels(scene, snapshot=WorldSnapshot(199, ()))) == 2
    pid = scene.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RendererError):
        await red_pixels(scene)
    assert len(await red_pixels(scene, snapshot=WorldSnapshot(199, ()))) == 2
    assert len(await red_pixels(scene, snapshot=WorldSnapshot(200, ()))) == 1
    await scene.clear_markers()


async def test_only_colour_shows_markers(scene: EmbeddedSceneQueries) -> None:
    others = [m for m in Modality if m is not Modality.RGB]
    views = [View(CAMERA, m, POSE, 100) for m in others]
    before = await scene.images(views, NOW)
    await scene.mark([marker(MarkerKind.POINTS, (4.0, 0.0, 1.5), size_px=9)])
    rgb, *after = await scene.images([View(CAMERA, Modality.RGB, POSE, 100), *views], NOW)
    assert (rgb.pixels == RED).all(axis=2).sum() == 81
    for old, new in zip(before, after, strict=True):
        if old.view.modality is not Modality.FLOW:  # which depends on the picture before
            np.testing.assert_array_equal(old.pixels, new.pixels)
    await scene.clear_markers()


@pytest.mark.parametrize(
    "wrong",
    [
        marker(MarkerKind.POINTS, (math.nan, 0.0, 0.0)),
        marker(MarkerKind.POINTS, (1.0, 0.0, 0.0), size_px=0),
        marker(MarkerKind.POINTS, (1.0, 0.0, 0.0), colour=(0, 0, 256)),
        marker(MarkerKind.LINES, (1.0, 0.0, 0.0)),
        marker(MarkerKind.TEXT, (1.0, 0.0, 0.0)),
        marker(MarkerKind.TEXT, (1.0, 0.0, 0.0), texts=("x" * 257,)),
        SceneMarker(MarkerKind.POINTS, np.zeros((MOST_MARKED_POINTS + 1, 3)), RED),
        SceneMarker(MarkerKind.POINTS, np.zeros(3), RED),
    ],
)
async def test_malformed_markers_are_refused(
    scene: EmbeddedSceneQueries, wrong: SceneMarker
) -> None:
    with pytest.raises(RendererError, match=r"Give"):
        await scene.mark([wrong])


async def test_the_oldest_of_too_many_markers_are_dropped(scene: EmbeddedSceneQueries) -> None:
    behind = SceneMarker(MarkerKind.POINTS, np.full((MOST_MARKED_POINTS // 2, 3), -5.0), RED)
    await scene.mark([marker(MarkerKind.POINTS, (4.0, 0.0, 1.5))])
    await scene.mark([behind])
    assert len(await red_pixels(scene)) == 1
    await scene.mark([behind, marker(MarkerKind.POINTS, (4.0, 0.5, 1.5), (4.0, -0.5, 1.5))])
    assert len(await red_pixels(scene)) == 2
    await scene.clear_markers()
    assert not len(await red_pixels(scene))
