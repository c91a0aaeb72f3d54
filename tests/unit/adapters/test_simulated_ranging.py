"""Distance sensors and lidars of simulated vehicles, over a floor that answers by its equation."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.support.events import until
from vil_bridge.core.errors import RendererError
from vil_bridge.core.sensor_readings import DistanceReading, LidarReading, SensorReadings
from vil_bridge.core.types import FloatArray, SourceEvent
from vil_bridge.interfaces.scene_queries import RayHits
from vil_bridge.runtime.supervisor import Status
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import SensorValues
from vil_simulation.source.ranging import RangingSensors
from vil_simulation.source.simulation import Simulation

DOWN = {"q_body_sensor": [0.0, math.sqrt(0.5), 0.0, math.sqrt(0.5)]}
SENSORS = {
    "down": {"type": "distance", "rate_hz": 20.0, "parameters": {"mounting": DOWN}},
    "ring": {
        "type": "lidar",
        "rate_hz": 10.0,
        "parameters": {
            "channels": 2,
            "points_per_turn": 72,
            "mounting": {"p_body_m": [0.0, 0.0, -0.1]},
        },
    },
}
START_NS = 5_000_000_000


class FloorRays:
    """Rays that meet the plane z = 0 alone; ``failing`` = they cannot be cast."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, str], int]] = []
        self.failing = False
        self.open = asyncio.Event()
        self.open.set()

    async def cast(
        self,
        scene: str,
        vehicle: tuple[str, str],
        t_ns: int,
        origins_m: FloatArray,
        directions: FloatArray,
        reach_m: float,
    ) -> RayHits:
        await self.open.wait()
        self.asked.append((scene, vehicle, t_ns))
        if self.failing:
            raise RendererError("no scene")
        fall = -directions[:, 2]
        ranges = np.where(fall > 1e-9, origins_m[:, 2] / np.maximum(fall, 1e-9), np.inf)
        hit = np.isfinite(ranges)
        return RayHits(ranges, hit.astype(np.uint32) * 9, np.zeros_like(directions))


class Rig:
    """Two vehicles that hover at 2 and 3 m, and their events."""

    def __init__(self) -> None:
        vehicle: dict[str, Any] = {"model": "kinematic", "sensors": SENSORS}
        places: dict[str, Any] = {
            "low": {**vehicle, "p_m": [0, 0, 2]},
            "high": {**vehicle, "p_m": [5, 0, 3]},
        }
        self.config = SimulatedConfig.model_validate(
            {"type": "simulated", "vehicles": places, "contact": {"scene": "empty"}, "seed": 4}
        )
        self.handler = CommandHandler("sim", self.config, lambda _order: True)
        self.handler.begin(START_NS)
        self.events: list[SourceEvent] = []
        self.rays, self.status = FloorRays(), Status("sim")
        self.ranging = RangingSensors(
            "sim",
            "empty",
            self.rays,
            self.handler.newest_readings,
            self.events.append,
            self.status,
            4,
        )
        self.ranging.start()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition while rays are cast."""

        def met() -> bool:
            self.ranging.check()
            return bool(condition())

        await until(met)

    async def cast(self, values: SensorValues) -> None:
        """Cast the rays of one measurement, until both vehicles have their readings."""
        expected = len(self.events) + 2
        self.ranging.enqueue(values, START_NS + values.t_ns)
        await self.until(lambda: len(self.events) == expected)

    def measured(self, steps: int) -> list[SensorValues]:
        values = []
        for batch in Simulation(self.config).advance(steps):
            self.handler.update(batch, batch.states())
            values += batch.sensors
        return values


async def test_ranges_and_points_are_those_of_the_pose_at_the_instant_of_the_measurement() -> None:
    rig = Rig()
    values = rig.measured(96)  # 0.1 s: twice down, once the ring
    assert [v.sensor for v in values] == [0, 0, 1]
    for one in values:
        await rig.cast(one)
    events = [e for e in rig.events if isinstance(e, SensorReadings)]
    assert [(e.sensor, e.kind, e.subjects) for e in events[:2]] == [
        ("down", "distance", ("low",)),
        ("down", "distance", ("high",)),
    ]
    assert rig.rays.asked[0] == ("empty", ("sim", "low"), START_NS + values[0].t_ns)
    reading = rig.handler.readings("high")
    down, ring = reading["down"], reading["ring"]
    assert isinstance(down, DistanceReading) and isinstance(ring, LidarReading)
    assert down.t_ns == START_NS + values[1].t_ns
    assert list(down.ranges_m) == pytest.approx([3.0])
    assert down.directions_body[0] == pytest.approx((0.0, 0.0, -1.0), abs=1e-12)
    assert ring.points_m.shape == (72, 3)
    assert ring.points_m[:, 2] == pytest.approx(np.full(72, -2.9), abs=1e-6)
    assert set(ring.instances.tolist()) == {9}
    rig.ranging.close()


async def test_slow_rays_leave_out_older_measurements_and_failures_are_counted() -> None:
    rig = Rig()
    rig.rays.open.clear()
    first, second, _ = rig.measured(96)
    for one in (first, second, second):
        rig.ranging.enqueue(one, START_NS + one.t_ns)
    assert rig.status.counters["rays_left_out"] == 2
    rig.rays.failing = True
    rig.rays.open.set()
    await rig.until(lambda: rig.status.counters["rays_failed"] == 1)
    assert rig.status.facts["rays_problem"] == "no scene"
    rig.rays.failing = False
    rig.ranging.enqueue(second, START_NS + second.t_ns)
    await rig.until(lambda: len(rig.events) == 2)
    rig.ranging.check()
    rig.ranging.close()


def test_rays_need_a_scene() -> None:
    with pytest.raises(
        ValidationError, match=r"vehicles.a.sensors.down needs a scene for its rays"
    ):
        SimulatedConfig.model_validate(
            {"type": "simulated", "vehicles": {"a": {"model": "car", "sensors": SENSORS}}}
        )
