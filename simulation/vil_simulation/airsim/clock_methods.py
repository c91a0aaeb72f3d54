"""Methods of the clock: pause, and go on for a while or for some frames."""

from __future__ import annotations

import asyncio
from typing import Final

from vil_bridge.core.bridge_time import machine_ns
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.services.service import ClockControl
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.quantities import Frames, StepSeconds
from vil_simulation.airsim.vehicles import ServedVehicles

FRAME_HZ: Final = 30.0
"""Pictures per second of the machine, as AirSim draws on a common computer.

``simContinueForFrames`` counts them, and flow is the motion from one to the next.
"""
_LONGEST_S: Final = 86_400.0
_POLL_S: Final = 0.001
_LONGEST_POLL_S: Final = 0.1


def frame_s(control: ClockControl) -> float:
    """Return the simulated seconds from a frame of the machine to the next."""
    return control.state().speed / FRAME_HZ


class ClockMethods:
    """Control of simulated time; refused in words where the bridge runs in real time."""

    def __init__(self, vehicles: ServedVehicles, control: ClockControl) -> None:
        self._vehicles = vehicles
        self._control = control
        self._goal_ns = 0

    @method("simPause")
    async def pause(self, is_paused: bool) -> None:
        """Pause the world, and answer when every simulation stands; or let it go on."""
        self._control.set_pace(paused=is_paused)
        if is_paused:
            await self._vehicles.settle(self._control.clock.now_ns())

    @method("simIsPaused")
    def is_paused(self) -> bool:
        """Return True while the world is paused."""
        return self._control.state().paused

    @method("simContinueForTime")
    async def continue_for_time(self, seconds: StepSeconds) -> None:
        """Go on for some simulated seconds, then pause."""
        if not 0.0 <= seconds <= _LONGEST_S:
            raise ValueError(f"a step must last from 0 to {_LONGEST_S:g} s, not {seconds}")
        await self._step(round(seconds * NS_PER_S))

    @method("simContinueForFrames")
    async def continue_for_frames(self, frames: Frames) -> None:
        """Go on for the time of some frames, then pause."""
        await self.continue_for_time(frames * frame_s(self._control))

    async def _step(self, duration_ns: int) -> None:
        """Step, and answer when every simulation has arrived there, or another program has ended
        the step.
        """
        self._control.set_pace(paused=True)
        clock = self._control.clock
        goal_ns = self._goal_ns = clock.now_ns() + duration_ns
        self._control.step(duration_ns)
        while clock.now_ns() < goal_ns == self._goal_ns and clock.mapping.rate:
            when_ns = clock.mapping.when(goal_ns)  # None while a simulation bounds the time
            left_s = _POLL_S if when_ns is None else (when_ns - machine_ns()) / NS_PER_S
            await asyncio.sleep(min(max(left_s, 0.0), _LONGEST_POLL_S))
        await self._vehicles.settle(min(goal_ns, clock.now_ns()))
