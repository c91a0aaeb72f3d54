"""The scene behind AirSim's RPC when several programs edit it at the same time; drawn by a real process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.common import needs_gl
from vil_bridge.core.geometry import Transform
from vil_bridge.servers.airsim.scene import ServedScene
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import EmbeddedQueriesConfig

pytestmark = [pytest.mark.gl, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CUBE = "1M_Cube_Chamfer"
ONE = (1.0, 1.0, 1.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[ServedScene]:
    needs_gl()
    queries = EmbeddedSceneQueries("test", EmbeddedQueriesConfig(scene="empty"))
    await queries.open()
    yield ServedScene(queries, {})
    await queries.close()


async def test_programs_that_spawn_one_name_at_once_get_names_of_their_own(scene: ServedScene) -> None:
    spawned = await asyncio.gather(*(scene.spawn("box", CUBE, Transform.identity(), ONE) for _ in range(4)))
    assert sorted(spawned) == ["box", "box1", "box2", "box3"]
    assert await asyncio.gather(*map(scene.destroy, spawned)) == [True] * 4


async def test_a_list_that_was_asked_for_during_an_edit_is_not_the_next_ones(scene: ServedScene) -> None:
    _, before = await asyncio.gather(scene.spawn("cube", CUBE, Transform.identity(), ONE), scene.names())
    assert set(await scene.names()) == {*before, "cube"}
    _, before = await asyncio.gather(scene.destroy("cube"), scene.names())
    assert "cube" not in await scene.names()


async def test_the_id_of_an_object_goes_with_it(scene: ServedScene) -> None:
    initial = scene.ids.of("box")
    await scene.spawn("box", CUBE, Transform.identity(), ONE)
    assert scene.ids.set(await scene.names(), "box", 9, is_expression=False) and scene.ids.of("box") == 9
    assert await scene.destroy("box") and scene.ids.of("box") == initial
