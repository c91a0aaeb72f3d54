"""Grids, meshes and extents of a scene's real process, against boxes."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest
import pytest_asyncio

from tests.support.common import needs_gl
from tests.support.embedded import rotation
from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import Modality, View, WorldSnapshot
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import FARTHEST_DEPTH_M, EmbeddedQueriesConfig

pytestmark = [pytest.mark.gl, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

PLACE = Transform.of((50.0, 40.0, 10.0))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[EmbeddedSceneQueries]:
    """An empty field with one box high above it."""
    needs_gl()
    queries = EmbeddedSceneQueries("test", EmbeddedQueriesConfig(scene="empty"))
    await queries.spawn("box", "Cube", PLACE, (4.0, 2.0, 3.0))
    yield queries
    await queries.close()


async def test_a_grid_is_occupied_where_the_sides_of_a_box_are(scene: EmbeddedSceneQueries) -> None:
    cell_m, shape = 0.5, (12, 8, 10)
    first = PLACE.p_m - 0.5 * cell_m * (np.array(shape) - 1)
    found = await scene.occupied(first, cell_m, shape)
    index = np.indices(shape).reshape(3, -1).T
    offset = np.abs(first + cell_m * index - PLACE.p_m)
    half, reach = np.array([2.0, 1.0, 1.5]), 0.25 + 1e-9
    # The sides coincide with the faces of cells: both cells that share the face touch the side.
    expected = (offset <= half + reach).all(axis=1) & (np.abs(offset - half) <= reach).any(axis=1)
    np.testing.assert_array_equal(found, expected.reshape(shape))
    assert 0 < found.sum() < found.size


async def test_meshes_are_in_their_own_axes_with_their_scale(scene: EmbeddedSceneQueries) -> None:
    turned = Transform.of(PLACE.p_m, q_from_matrix(rotation(30.0)))
    assert await scene.place("box", turned)
    meshes = await scene.meshes()
    assert [mesh.name for mesh in meshes] == list(await scene.objects())
    box = meshes[-1]
    assert box.name == "box"
    np.testing.assert_allclose(box.p_m.min(axis=0), (-2.0, -1.0, -1.5))
    np.testing.assert_allclose(box.p_m.max(axis=0), (2.0, 1.0, 1.5))
    a, b, c = (box.p_m[box.triangles[:, i]].astype(float) for i in range(3))
    assert np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0 == pytest.approx(24.0), (
        "volume, wound outwards"
    )
    assert await scene.place("box", PLACE)


async def test_the_extents_hold_the_field_and_the_box(scene: EmbeddedSceneQueries) -> None:
    low, high = await scene.extents()
    np.testing.assert_allclose(low, (-100.0, -100.0, 0.0), atol=1e-6)
    np.testing.assert_allclose(high, (100.0, 100.0, 11.5), atol=1e-6)


async def test_depth_reaches_far_and_is_largest_where_nothing_is_hit(
    scene: EmbeddedSceneQueries,
) -> None:
    down = Transform.of((0.0, 0.0, 1500.0), (1.0, 0.0, 0.0, 0.0))
    lens = Distortion(LensModel.PLUMB_BOB, (-0.3, 0.0, 0.0, 0.0, 0.0))
    wide = CameraModel("wide", 101, 101, math.radians(40.0))
    folded = replace(wide, name="folded", pinhole_px=(60.0, 60.0, 50.0, 50.0), distortion=lens)
    for camera in (wide, folded):
        (depth,) = await scene.images(
            [View(camera, Modality.DEPTH32, down, 0)], WorldSnapshot(0, ())
        )
        assert depth.pixels[50, 50] == pytest.approx(1500.0, rel=1e-5)
        assert depth.pixels[0, 0] == FARTHEST_DEPTH_M == np.finfo(np.float16).max
        assert set(np.unique(depth.pixels.round(1)).tolist()) == {1500.0, FARTHEST_DEPTH_M}


@pytest.mark.parametrize(
    ("cell_m", "shape"),
    [(0.1, (1000, 1000, 1000)), (0.0, (2, 2, 2)), (0.1, (0, 2, 2)), (math.nan, (2, 2, 2))],
)
async def test_grids_without_bounds_are_refused(
    scene: EmbeddedSceneQueries, cell_m: float, shape: tuple[int, int, int]
) -> None:
    with pytest.raises(RendererError, match="grid"):
        await scene.occupied(np.zeros(3), cell_m, shape)
    assert scene.process.starts == 1
