"""The scene behind AirSim's RPC when several programs edit it at the same time.

Drawn by a real process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgpack
import numpy as np
import pytest
import pytest_asyncio

from tests.support.common import needs_gl
from vil_bridge.core.clock import NS_PER_S, WallClock, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.world.world import World
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import EmbeddedQueriesConfig
from vil_simulation.airsim.geometry_methods import GeometryMethods
from vil_simulation.airsim.msgpack_rpc import Packed
from vil_simulation.airsim.program_files import ProgramFiles
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.state_methods import StateMethods
from vil_simulation.airsim.vehicles import ServedVehicles
from vil_simulation.vehicles.environment.geodesy import GeoOrigin

pytestmark = [pytest.mark.gl, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CUBE = "1M_Cube_Chamfer"
ONE = (1.0, 1.0, 1.0)


def floats(packed: Packed) -> FloatArray:
    return np.array(msgpack.unpackb(bytes(packed)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[ServedScene]:
    needs_gl()
    queries = EmbeddedSceneQueries("test", EmbeddedQueriesConfig(scene="empty"))
    await queries.open()
    yield ServedScene(queries, {})
    await queries.close()


async def test_programs_that_spawn_one_name_at_once_get_names_of_their_own(
    scene: ServedScene,
) -> None:
    spawned = await asyncio.gather(
        *(scene.spawn("box", CUBE, Transform.identity(), ONE) for _ in range(4))
    )
    assert sorted(spawned) == ["box", "box1", "box2", "box3"]
    assert await asyncio.gather(*map(scene.destroy, spawned)) == [True] * 4


async def test_a_list_that_was_asked_for_during_an_edit_is_not_the_next_ones(
    scene: ServedScene,
) -> None:
    _, before = await asyncio.gather(
        scene.spawn("cube", CUBE, Transform.identity(), ONE), scene.names()
    )
    assert set(await scene.names()) == {*before, "cube"}
    _, before = await asyncio.gather(scene.destroy("cube"), scene.names())
    assert "cube" not in await scene.names()


async def test_the_mesh_of_an_object_that_moves_is_where_it_is_now(tmp_path: Path) -> None:
    """It goes east by a millimetre a second from the start of the clock on, up to 100 m."""
    needs_gl()
    path = "{poses: [{t_s: 0, p_m: [0, 0, 0]}, {t_s: 100000, p_m: [100, 0, 0]}]}"
    described = (
        f"scene: moving\nobjects:\n  - {{name: cart, box: {{size_m: [1, 1, 1]}}, path: {path}}}\n"
    )
    (tmp_path / "scene.yaml").write_text(described)
    queries = EmbeddedSceneQueries(
        "test", EmbeddedQueriesConfig(scene=str(tmp_path / "scene.yaml"))
    )
    vehicles = ServedVehicles(
        [], VehicleCommandBus(), World({"sim": Transform.identity()}, []), WallClock.of_run()
    )
    scene, origin = ServedScene(queries, {}), GeoOrigin(47.6, -122.1, 122.0)
    begun_ns = now_ns()
    states = StateMethods(vehicles, "{}", origin, ())
    files = ProgramFiles(Path("unused"))
    (mesh,) = await GeometryMethods(vehicles, scene, states, files).meshes()
    took_s = (now_ns() - begun_ns) / NS_PER_S
    await queries.close()
    east_m = mesh.position.y_val
    assert -1e-6 <= east_m - 1e-3 * (begun_ns / NS_PER_S % 1e5) <= 1e-3 * took_s + 1e-6
    assert np.mean(floats(mesh.vertices)[1::3]) == pytest.approx(east_m, abs=1e-4)
    corners = floats(mesh.vertices).reshape(-1, 3)[floats(mesh.indices).astype(int).reshape(-1, 3)]
    a, b, c = np.moveaxis(corners, 1, 0)
    outwards = corners.mean(axis=1) - corners.mean(axis=(0, 1))
    assert (np.sum(np.cross(b - a, c - a) * outwards, axis=1) > 0.0).all()


async def test_the_id_of_an_object_goes_with_it(scene: ServedScene) -> None:
    initial = scene.ids.of("box")
    await scene.spawn("box", CUBE, Transform.identity(), ONE)
    assert (
        await scene.ids.set(await scene.names(), "box", 9, is_expression=False)
        and scene.ids.of("box") == 9
    )
    assert await scene.destroy("box") and scene.ids.of("box") == initial
