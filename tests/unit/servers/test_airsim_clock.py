"""Steps of the clock that another program ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from vil_bridge.config.simulation import SimulationConfig
from vil_bridge.core.clock import NS_PER_S, WallClock
from vil_bridge.core.vehicle_commands import VehicleCommandBus
from vil_bridge.daemon.simulation_clock import SimulationClock
from vil_bridge.servers.airsim.clock_methods import ClockMethods
from vil_bridge.servers.airsim.vehicles import ServedVehicles


@pytest.mark.parametrize("ended_by", ["pause", "step"])
async def test_a_step_that_another_program_ends_is_answered(ended_by: str) -> None:
    nothing: Any = None
    control = SimulationClock(SimulationConfig(clock="simulated", paused=True))
    methods = ClockMethods(ServedVehicles([], VehicleCommandBus(), nothing, WallClock.of_run()), control)
    with control.passing():
        begun_ns = control.clock.now_ns()
        step = asyncio.create_task(methods.continue_for_time(1000.0))
        while control.clock.now_ns() == begun_ns:
            await asyncio.sleep(0.001)
        async with asyncio.timeout(30.0):
            await (methods.pause(True) if ended_by == "pause" else methods.continue_for_time(0.01))
            await step
    assert control.clock.now_ns() < begun_ns + 1000 * NS_PER_S
