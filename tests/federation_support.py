"""Help for the tests of joined rooms: a room with a drone and a human, a source that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from vil_adapters.remote.config import RemoteConfig
from vil_adapters.remote.source import RemoteSource
from vil_adapters.simulated.motion import DroneMotion
from vil_adapters.simulated.walk import WalkMotion
from vil_bridge.core.ports import PoseSource
from vil_bridge.core.supervisor import Status, supervise
from vil_bridge.core.types import ClockExchange, MotionFrame, SourceEvent, SourceFrame, SourceReset

_E = TypeVar("_E", SourceFrame, ClockExchange, SourceReset)


class RoomMotion:
    """The simulated drone and the simulated human in one room."""

    def __init__(self) -> None:
        self._drone, self._human = DroneMotion("drone"), WalkMotion("Actor")
        self.subjects = self._drone.subjects
        self.skeleton_models = self._human.skeleton_models

    def at(self, t_ns: int) -> MotionFrame:
        drone = self._drone.at(t_ns)
        return MotionFrame(
            drone.subjects, drone.p_m, drone.q_xyzw, drone.tracked, skeletons=self._human.at(t_ns).skeletons
        )


async def until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


@dataclass
class Received:
    """What a source emitted, in order, and its status."""

    status: Status = field(default_factory=lambda: Status("far"))
    events: list[SourceEvent] = field(default_factory=list)

    def of(self, kind: type[_E]) -> list[_E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def more_frames(self, count: int = 3, timeout_s: float = 10.0) -> list[SourceFrame]:
        """The next frames from now on."""
        seen = len(self.of(SourceFrame))
        await until(lambda: len(self.of(SourceFrame)) >= seen + count, timeout_s)
        return self.of(SourceFrame)[seen:]


@asynccontextmanager
async def receiving(source: PoseSource) -> AsyncIterator[Received]:
    """Run a source under its supervisor; what it raises as a bug, the test raises."""
    received = Received()

    async def run(status: Status) -> None:
        await source.run(received.events.append, status)

    task = asyncio.create_task(supervise(run, received.status, sleep=lambda _: asyncio.sleep(0.05)))
    try:
        yield received
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()


def far(address: str, **settings: object) -> RemoteSource:
    """The source that listens there to the site ``far``."""
    return RemoteSource("far", RemoteConfig.model_validate({"site": "far", "address": address, **settings}))
