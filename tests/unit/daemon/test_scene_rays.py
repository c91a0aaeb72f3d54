"""Rays of simulated vehicles through a real scene's process, in fine and in bad weather."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from tests.support.common import needs_gl
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import Lighting
from vil_bridge.core.weather import Weather
from vil_bridge.daemon.scene_rays import SceneLibrary, SceneRays
from vil_bridge.interfaces.weather_returns import LaserAir
from vil_bridge.registry import resolve
from vil_bridge.world.world import World

pytestmark = [pytest.mark.gl, pytest.mark.process]

REACH_M = 60.0
BEAMS = 4000
DOWN = np.tile((0.0, 0.0, -1.0), (BEAMS, 1))
ABOVE = np.tile((0.0, 0.0, 12.0), (BEAMS, 1))
WHO = "sim", "quad"


@pytest_asyncio.fixture
async def made() -> AsyncIterator[tuple[World, SceneRays]]:
    needs_gl()
    sources = {"sim": {"type": "simulated", "vehicles": {"quad": {"model": "kinematic"}}}}
    config = BridgeConfig.model_validate(
        {"version": 1, "sources": sources}, context={"resolve": resolve}
    )
    world = World({"sim": Transform.identity()}, [])
    scenes = SceneLibrary()
    yield world, SceneRays(scenes, world, config)
    await scenes.close()


async def test_the_weather_of_the_world_acts_on_the_rays_of_sensors(
    made: tuple[World, SceneRays],
) -> None:
    world, rays = made
    clear = await rays.cast("empty", WHO, 5, ABOVE, DOWN, REACH_M)
    assert clear.range_m == pytest.approx(12.0, abs=1e-4) and np.all(clear.instance > 0)
    fog = Weather(fog=0.7)
    world.lighting = Lighting(weather=fog)
    foggy, again, later = [
        await rays.cast("empty", WHO, t, ABOVE, DOWN, REACH_M) for t in (5, 5, 6)
    ]
    early = foggy.range_m < 11.0
    assert early.mean() == pytest.approx(LaserAir.of(fog, REACH_M).early_share(12.0), abs=0.03)
    assert np.all(foggy.instance[early] == 0) and np.all(foggy.instance[~early] > 0)
    assert np.array_equal(foggy.range_m, again.range_m) and not np.array_equal(
        foggy.range_m, later.range_m
    )
    world.lighting = Lighting(weather=Weather(fog=1.0, dust=1.0))
    lost = await rays.cast("empty", WHO, 5, ABOVE, DOWN, REACH_M)
    gone = np.isinf(lost.range_m)
    assert gone.any() and np.all(lost.instance == 0) and lost.range_m[~gone].max() < 12.0
