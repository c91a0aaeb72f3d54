"""Objects of a scene's real process that are moved, scaled, spawned and destroyed, seen by rays
and pictures.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from tests.support.common import needs_gl
from tests.support.embedded import looking, prop, rotation
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import CameraModel, Modality, View, WorldSnapshot
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import EmbeddedQueriesConfig
from vil_renderer.queries.messages import ObjectState, SetObjects

pytestmark = [pytest.mark.gl, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

NOW = WorldSnapshot(0, ())
CAMERA = CameraModel("front", 64, 64, math.radians(60.0))
ABOVE = Transform.of((1.0, 0.5, 4.0))
"""Free space of the hall."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[EmbeddedSceneQueries]:
    needs_gl()
    queries = EmbeddedSceneQueries("test", EmbeddedQueriesConfig(scene="hall"))
    await queries.open()
    yield queries
    await queries.close()


async def ranges_along_x(
    scene: EmbeddedSceneQueries, heights_m: tuple[float, ...], snapshot: WorldSnapshot = NOW
) -> tuple[list[float], list[int]]:
    """Ranges and instance ids of rays along +x, from x = -1 at y = 0.5."""
    n = len(heights_m)
    origins = np.array([(-1.0, 0.5, z) for z in heights_m])
    hits = await scene.cast(origins, np.tile((1.0, 0.0, 0.0), (n, 1)), 50.0, snapshot)
    return hits.range_m.tolist(), hits.instance.tolist()


async def test_a_spawned_box_is_hit_seen_listed_scaled_moved_and_destroyed(
    scene: EmbeddedSceneQueries,
) -> None:
    (empty_m,), _ = await ranges_along_x(scene, (4.0,))
    made = await scene.spawn("crate_7", "1M_Cube_Chamfer", ABOVE, (0.5, 1.0, 0.4))
    assert made.size_m == pytest.approx((0.5, 1.0, 0.4))
    assert made.centre_m == pytest.approx((0.0, 0.0, 0.0))
    assert made.scale == (0.5, 1.0, 0.4)
    others = await scene.objects()
    assert [name for name, found in others.items() if found.instance == made.instance] == [
        "crate_7"
    ]
    (range_m, over_m), (instance, _) = await ranges_along_x(scene, (4.15, 4.25))
    assert range_m == pytest.approx(1.75, rel=1e-5)
    assert instance == made.instance
    assert over_m > 3.0
    (ids,) = await scene.images(
        [View(CAMERA, Modality.INSTANCE, looking((-1.0, 0.5, 4.0)), 0)], NOW
    )
    assert ids.pixels[32, 32] == made.instance
    assert await scene.place("crate_7", Transform.of((2.0, 0.5, 4.0)), (1.0, 1.0, 1.0))
    (range_m, over_m), _ = await ranges_along_x(scene, (4.15, 4.45))
    assert (range_m, over_m) == pytest.approx((2.5, 2.5), rel=1e-5)
    assert await scene.destroy("crate_7")
    assert not await scene.destroy("crate_7")
    assert "crate_7" not in await scene.objects()
    assert (await ranges_along_x(scene, (4.0,)))[0] == [empty_m]


@pytest.mark.parametrize(
    ("asset", "expected_m"), [("Sphere", 1.5), ("Cylinder", 1.5), ("Cone", 1.75), ("Cube", 1.5)]
)
async def test_shapes_have_their_form(
    scene: EmbeddedSceneQueries, asset: str, expected_m: float
) -> None:
    await scene.spawn("shape", asset, ABOVE)
    (range_m,), _ = await ranges_along_x(scene, (4.0,))
    assert range_m == pytest.approx(expected_m, abs=0.01)
    (top_m,), _ = await ranges_along_x(scene, (4.45,))
    radius_m = {"Sphere": math.sqrt(0.25 - 0.45**2), "Cone": 0.025}.get(asset, 0.5)
    assert top_m == pytest.approx(2.0 - radius_m, abs=0.01)
    assert await scene.destroy("shape")


async def test_an_object_of_the_scene_moves_turns_grows_and_goes(
    scene: EmbeddedSceneQueries,
) -> None:
    before = (await scene.objects())["Crate1"]
    turned = Transform.of((1.0, 0.5, 3.0), q_from_matrix(rotation(90.0)))
    assert before.movable
    assert await scene.place("Crate1", turned)
    moved = (await scene.objects())["Crate1"]
    np.testing.assert_allclose(moved.T_world_object.p_m, turned.p_m)
    np.testing.assert_allclose(moved.T_world_object.rotation(), turned.rotation(), atol=1e-12)
    assert moved.size_m == pytest.approx(before.size_m) and moved.instance == before.instance
    height_m = 3.0 + moved.centre_m[2]
    (range_m,), (instance,) = await ranges_along_x(scene, (height_m,))
    # Turned by 90 degrees, its y side faces the ray.
    assert range_m == pytest.approx(2.0 - 0.5 * moved.size_m[1], abs=0.05)
    assert instance == before.instance
    assert await scene.place("Crate1", scale=(2.0, 2.0, 2.0))
    grown = (await scene.objects())["Crate1"]
    assert grown.size_m == pytest.approx(
        [2.0 / before.scale[i] * before.size_m[i] for i in range(3)], rel=1e-5
    )
    assert await scene.destroy("Crate1")
    assert "Crate1" not in await scene.objects()
    assert not await scene.place("Crate1", turned)
    with pytest.raises(RendererError, match="no object named"):
        await scene.process.ask(_unknown())


def _unknown() -> SetObjects:
    return SetObjects((ObjectState("nowhere", "", (0, 0, 0), (0, 0, 0, 1), (1, 1, 1), 1),), 0)


async def test_edits_outlive_a_crash(scene: EmbeddedSceneQueries) -> None:
    made = await scene.spawn("stays", "Cube", ABOVE)
    assert await scene.destroy("Crate2")
    pid = scene.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RendererError):
        await scene.objects()
    objects = await scene.objects()
    assert objects["stays"].instance == made.instance
    assert "Crate2" not in objects
    (range_m,), (instance,) = await ranges_along_x(scene, (4.0,))
    assert range_m == pytest.approx(1.5, rel=1e-5)
    assert instance == made.instance
    assert await scene.destroy("stays")


async def test_an_actor_of_the_same_name_counts(scene: EmbeddedSceneQueries) -> None:
    await scene.spawn("ball", "Sphere", ABOVE)
    actor = WorldSnapshot(0, (prop("ball", (3.0, 0.5, 4.0), (1.0, 1.0, 1.0)),))
    assert (await ranges_along_x(scene, (4.0,), actor))[0][0] == pytest.approx(3.5, rel=1e-5)
    assert (await ranges_along_x(scene, (4.0,)))[0][0] == pytest.approx(1.5, abs=0.01)
    await scene.destroy("ball")


async def test_what_cannot_be_made_is_refused_and_changes_nothing(
    scene: EmbeddedSceneQueries,
) -> None:
    before = list(await scene.objects())
    for name, asset, T, scale, words in (
        ("new", "Teapot", ABOVE, (1.0, 1.0, 1.0), "no asset named 'Teapot'"),
        ("Gate1", "Cube", ABOVE, (1.0, 1.0, 1.0), "name is taken"),
        ("new", "Cube", ABOVE, (1.0, 0.0, 1.0), "positive"),
        ("new", "Cube", Transform.of((math.nan, 0.0, 0.0)), (1.0, 1.0, 1.0), "not finite"),
    ):
        with pytest.raises(RendererError, match=words):
            await scene.spawn(name, asset, T, scale)
    assert not await scene.place("nothing", ABOVE)
    assert not await scene.destroy("nothing")
    assert {"1M_Cube_Chamfer", "Sphere", "Cylinder", "Cone", "gate"} <= set(await scene.assets())
    assert list(await scene.objects()) == before
