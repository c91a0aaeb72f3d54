"""Steps of the clock that another program ends."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from vil_bridge.config.simulation import SimulationConfig
from vil_bridge.core.clock import NS_PER_S, WallClock
from vil_bridge.daemon.simulation_clock import SimulationClock
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_simulation.airsim.clock_methods import ClockMethods
from vil_simulation.airsim.vehicles import ServedVehicles


@pytest.mark.parametrize("ended_by", ["pause", "step"])
async def test_a_step_that_another_program_ends_is_answered(ended_by: str) -> None:
    nothing: Any = None
    control = SimulationClock(SimulationConfig(clock="simulated", paused=True))
    methods = ClockMethods(
        ServedVehicles([], VehicleCommandBus(), nothing, WallClock.of_run()), control
    )
    with control.passing():
        begun_ns = control.clock.now_ns()
        step = asyncio.create_task(methods.continue_for_time(1000.0))
        while control.clock.now_ns() == begun_ns:
            await asyncio.sleep(0.001)
        async with asyncio.timeout(30.0):
            await (methods.pause(True) if ended_by == "pause" else methods.continue_for_time(0.01))
            await step
    assert control.clock.now_ns() < begun_ns + 1000 * NS_PER_S


@pytest.mark.parametrize(
    ("speed", "frames", "seconds"), [(1.0, 30, 1.0), (4.0, 15, 2.0), (1.0, 0, 0.0)]
)
async def test_frames_last_a_thirtieth_of_a_second_of_the_machine(
    speed: float, frames: int, seconds: float
) -> None:
    nothing: Any = None
    control = SimulationClock(SimulationConfig(clock="simulated", paused=True, speed=speed))
    methods = ClockMethods(
        ServedVehicles([], VehicleCommandBus(), nothing, WallClock.of_run()), control
    )
    with control.passing():
        begun_ns = control.clock.now_ns()
        await methods.continue_for_frames(frames)
        assert control.clock.now_ns() - begun_ns == pytest.approx(seconds * NS_PER_S, abs=2)
        assert methods.is_paused()


@pytest.mark.parametrize("seconds", [-0.001, -math.inf, math.nan, math.inf, 86_401.0])
async def test_steps_without_a_meaning_are_refused(seconds: float) -> None:
    nothing: Any = None
    control = SimulationClock(SimulationConfig(clock="simulated", paused=True))
    methods = ClockMethods(
        ServedVehicles([], VehicleCommandBus(), nothing, WallClock.of_run()), control
    )
    with pytest.raises(ValueError, match="a step must last from 0 to 86400 s"):
        await methods.continue_for_time(seconds)
