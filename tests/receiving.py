"""Help for tests of any source: a running one with what it emitted, and a motion to be filmed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np

from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.core.ports import PoseSource
from vil_bridge.core.skeleton import local_to_global
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import MotionFrame, SkeletonFrame, SkeletonModel, SourceEvent, SourceFrame, SourceReset

__all__ = ["Dance", "Received", "receiving", "until"]

DANCER = SkeletonModel(
    name="Actor",
    bones=("Hip", "Ab", "Head", "LThigh", "LShin"),
    parents=(-1, 0, 1, 0, 3),
    offsets_m=np.array([[0.0, 0.0, 0.93], [0.01, 0.0, 0.2], [0.0, 0.0, 0.5], [0.0, 0.1, -0.02], [0.0, 0.0, -0.42]]),
)


@dataclass
class Dance:
    """Bodies on circles beside a skeleton that turns and bends; ``occluded`` ones are not tracked."""

    subjects: tuple[str, ...] = ("drone", "gate")
    occluded: set[str] = field(default_factory=set)
    skeleton_models: tuple[SkeletonModel, ...] = (DANCER,)

    def at(self, t_ns: int) -> MotionFrame:
        angle = 2.0 * t_ns * 1e-9
        p_m = np.array([[math.cos(angle + i), math.sin(angle + i), 1.0 + i] for i in range(len(self.subjects))])
        q = np.array([q_from_euler_zyx(angle + i, 0.3, -0.2) for i in range(len(self.subjects))])
        tracked = np.array([name not in self.occluded for name in self.subjects], dtype=np.bool_)
        return MotionFrame(self.subjects, p_m, q, tracked, tuple(self._posed(m, angle) for m in self.skeleton_models))

    def _posed(self, model: SkeletonModel, angle: float) -> SkeletonFrame:
        p_m = model.offsets_m.copy()
        p_m[0] = 2.0 + math.cos(angle), math.sin(angle), 0.95
        q = np.array([q_from_euler_zyx(0.1 * i, 0.3 * math.sin(angle + i), 0.2) for i in range(len(p_m))])
        q[0] = q_from_euler_zyx(angle, 0.1, 0.05)
        tracked = np.full(len(p_m), model.name not in self.occluded)
        return SkeletonFrame(model, *local_to_global(p_m, q, model.parents), tracked)


async def until(condition: Callable[[], object], timeout_s: float = 8.0) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


class Received:
    """What a source emitted, in order."""

    def __init__(self, status: Status, events: list[SourceEvent], task: asyncio.Task[None]) -> None:
        self.status = status
        self.events = events
        self.task = task

    @property
    def frames(self) -> list[SourceFrame]:
        return [event for event in self.events if isinstance(event, SourceFrame)]

    @property
    def resets(self) -> list[SourceReset]:
        return [event for event in self.events if isinstance(event, SourceReset)]

    async def until(self, condition: Callable[[], object], timeout_s: float = 8.0) -> None:
        """Wait for a condition while the source is alive."""

        def met() -> bool:
            if self.task.done():
                self.task.result()
            return bool(condition())

        await until(met, timeout_s)

    async def more_frames(self, count: int = 3, timeout_s: float = 8.0) -> list[SourceFrame]:
        """The next frames from now on."""
        seen = len(self.frames)
        await self.until(lambda: len(self.frames) >= seen + count, timeout_s)
        return self.frames[seen:]


@asynccontextmanager
async def receiving(source: PoseSource) -> AsyncIterator[Received]:
    """Run a source; what it raises, the test raises."""
    status, events = Status(source.name), list[SourceEvent]()
    task = asyncio.create_task(source.run(events.append, status))
    try:
        yield Received(status, events, task)
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()
