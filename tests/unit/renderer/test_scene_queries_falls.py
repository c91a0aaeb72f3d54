"""Objects that fall: their way in closed form, where they rest, and what makes them fall again."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from tests.support.common import needs_gl
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import WorldSnapshot
from vil_bridge.interfaces.solid_world import SceneEdit
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import EmbeddedQueriesConfig

pytestmark = [pytest.mark.gl, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CUBE = "1M_Cube_Chamfer"
G_MPS2 = 9.81
START_NS = 7 * NS_PER_S
REST_NS = START_NS + 30 * NS_PER_S
CLOSE_M = 2e-3


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[EmbeddedSceneQueries]:
    needs_gl()
    queries = EmbeddedSceneQueries("test", EmbeddedQueriesConfig(scene="empty"))
    await queries.open()
    yield queries
    await queries.close()


async def place_of(scene: EmbeddedSceneQueries, name: str, t_ns: int) -> Transform:
    return (await scene.objects(t_ns))[name].T_world_object


async def height_m(scene: EmbeddedSceneQueries, name: str, t_ns: int) -> float:
    return float((await place_of(scene, name, t_ns)).p_m[2])


def level(T: Transform) -> bool:
    """Return whether one of an object's axes is vertical."""
    return bool(np.abs(T.rotation()[2]).max() > 0.9999)


async def test_a_box_falls_freely_bounces_a_little_and_rests_on_the_floor(
    scene: EmbeddedSceneQueries,
) -> None:
    edits: list[SceneEdit] = []
    scene.watch_edits(edits.append)
    await scene.spawn(
        "box", CUBE, Transform.of((1.0, 2.0, 3.0)), (0.4, 0.6, 0.8), falls=True, t_ns=START_NS
    )
    for after_s in (-1.0, 0.0, 0.1, 0.35, 0.6):
        wanted_m = 3.0 - 0.5 * G_MPS2 * max(after_s, 0.0) ** 2
        found_m = await height_m(scene, "box", START_NS + round(after_s * NS_PER_S))
        assert found_m == pytest.approx(wanted_m, abs=CLOSE_M)
    landed_s = math.sqrt(2.0 * 2.6 / G_MPS2)
    heights_m = [
        await height_m(scene, "box", START_NS + round((landed_s + t) * NS_PER_S))
        for t in np.arange(0, 1, 0.02)
    ]
    assert 0.41 < max(heights_m[3:]) < 0.6  # 0.2 of the speed is left: 0.04 of the height
    rest = await place_of(scene, "box", REST_NS)
    assert rest.p_m == pytest.approx((1.0, 2.0, 0.4), abs=CLOSE_M) and level(rest)
    assert edits[-1].name == "box" and edits[-1].p_m == pytest.approx(rest.p_m.tolist())
    await scene.destroy("box", REST_NS)


async def test_rays_meet_a_falling_box_where_it_is_at_their_time(
    scene: EmbeddedSceneQueries,
) -> None:
    await scene.spawn(
        "box", CUBE, Transform.of((0.0, 0.0, 5.0)), (1.0, 1.0, 1.0), falls=True, t_ns=START_NS
    )
    origin = np.array([[0.2, 0.2, 9.0]])
    down = np.array([[0.0, 0.0, -1.0]])
    found_m = []
    for after_s in (0.0, 0.5, 30.0):
        t_ns = START_NS + round(after_s * NS_PER_S)
        hits = await scene.cast(origin, down, 50.0, WorldSnapshot(t_ns, ()))
        found_m.append(9.0 - float(hits.range_m[0]))
    assert found_m == pytest.approx([5.5, 5.5 - 0.5 * G_MPS2 * 0.25, 1.0], abs=CLOSE_M)
    await scene.destroy("box", REST_NS)


async def test_a_tilted_box_lands_on_a_side(scene: EmbeddedSceneQueries) -> None:
    tilted = Transform.of((0.0, 0.0, 2.0), q_exp(np.array([0.7, 0.4, 0.2])))
    await scene.spawn("tilted", CUBE, tilted, (0.5, 0.7, 0.9), falls=True, t_ns=START_NS)
    rest = await place_of(scene, "tilted", REST_NS)
    assert level(rest)
    assert min(abs(rest.p_m[2] - half) for half in (0.25, 0.35, 0.45)) < CLOSE_M
    await scene.destroy("tilted", REST_NS)


async def test_a_box_rests_on_another_and_falls_when_that_is_taken_away(
    scene: EmbeddedSceneQueries,
) -> None:
    table = Transform.of((-3.0, 1.0, 0.5))
    await scene.spawn("table", CUBE, table, (1.0, 1.0, 1.0))
    await scene.spawn(
        "cup", CUBE, Transform.of((-3.0, 1.0, 2.0)), (0.2, 0.2, 0.2), falls=True, t_ns=START_NS
    )
    await scene.spawn(
        "far", CUBE, Transform.of((5.0, 5.0, 1.0)), (0.2, 0.2, 0.2), falls=True, t_ns=START_NS
    )
    assert await height_m(scene, "cup", REST_NS) == pytest.approx(1.1, abs=CLOSE_M)
    far = await place_of(scene, "far", REST_NS)
    await scene.destroy("table", REST_NS)
    assert await height_m(scene, "cup", REST_NS) == pytest.approx(1.1, abs=CLOSE_M)
    assert await height_m(scene, "cup", REST_NS + 30 * NS_PER_S) == pytest.approx(0.1, abs=CLOSE_M)
    assert (await place_of(scene, "far", REST_NS)).p_m.tolist() == far.p_m.tolist()
    again_ns = REST_NS + 40 * NS_PER_S
    assert await scene.place("cup", Transform.of((-3.0, 1.0, 1.0)), t_ns=again_ns)
    assert await height_m(scene, "cup", again_ns) == pytest.approx(1.0)
    assert await height_m(scene, "cup", again_ns + 30 * NS_PER_S) == pytest.approx(0.1, abs=CLOSE_M)
    assert await scene.destroy("cup") and await scene.destroy("far")


async def test_a_thin_plate_from_high_up_passes_no_thin_floor(scene: EmbeddedSceneQueries) -> None:
    """It arrives at 20 m/s, 40 mm from one look at it to the next."""
    await scene.spawn("shelf", CUBE, Transform.of((3.0, 3.0, 1.0)), (2.0, 2.0, 0.01))
    high = Transform.of((3.0, 3.0, 20.0), q_exp(np.array([0.1, 0.0, 0.0])))
    await scene.spawn("plate", CUBE, high, (0.3, 0.3, 0.001), falls=True, t_ns=START_NS)
    assert await height_m(scene, "plate", REST_NS) == pytest.approx(1.005, abs=0.01)
    assert await scene.destroy("plate", REST_NS) and await scene.destroy("shelf", REST_NS)


async def test_what_finds_no_floor_falls_for_ten_seconds(scene: EmbeddedSceneQueries) -> None:
    await scene.spawn("lost", CUBE, Transform.of((1.0, 1.0, -3.0)), falls=True, t_ns=START_NS)
    assert await height_m(scene, "lost", REST_NS) == pytest.approx(
        -3.0 - 0.5 * G_MPS2 * 100.0, abs=0.1
    )
    assert await scene.destroy("lost", REST_NS)


async def test_an_object_that_does_not_fall_stays_where_it_is(scene: EmbeddedSceneQueries) -> None:
    await scene.spawn("lamp", CUBE, Transform.of((0.0, 0.0, 3.0)), t_ns=START_NS)
    await scene.spawn("box", CUBE, Transform.of((0.0, 0.0, 5.0)), falls=True, t_ns=START_NS)
    assert await height_m(scene, "lamp", REST_NS) == 3.0
    assert await height_m(scene, "box", REST_NS) == pytest.approx(4.0, abs=CLOSE_M)
    assert await scene.destroy("lamp", REST_NS) and await scene.destroy("box", REST_NS)
