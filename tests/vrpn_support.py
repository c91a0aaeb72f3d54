"""Help for the VRPN and MAVLink vehicle tests: a motion, and a running source."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.core.ports import PoseSource
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import FloatArray, MotionFrame, SkeletonModel, SourceEvent, SourceFrame


class Circling:
    """Bodies on circles of their own, always turning; everything differs from body to body."""

    skeleton_models: tuple[SkeletonModel, ...] = ()

    def __init__(self, *subjects: str) -> None:
        self.subjects = subjects

    def at(self, t_ns: int) -> MotionFrame:
        poses = [self.pose(i, t_ns * 1e-9) for i in range(len(self.subjects))]
        return MotionFrame(
            self.subjects,
            np.array([p for p, _ in poses]),
            np.array([q for _, q in poses]),
            np.ones(len(poses), dtype=np.bool_),
        )

    @staticmethod
    def pose(i: int, t: float) -> tuple[FloatArray, FloatArray]:
        p = np.array([math.cos(t + i) + 0.1 * i, 2.0 * math.sin(0.7 * t), 1.0 + 0.3 * math.sin(2.0 * t) + 0.2 * i])
        return p, q_from_euler_zyx(0.8 * math.sin(t), 0.3 * math.cos(1.3 * t), 0.2 + 0.1 * i)


class Events:
    """What a source emitted, and a way to wait for more."""

    def __init__(self) -> None:
        self.all: list[SourceEvent] = []
        self._news = asyncio.Event()

    def emit(self, event: SourceEvent) -> None:
        self.all.append(event)
        self._news.set()

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.all if isinstance(event, kind)]

    @property
    def frames(self) -> list[SourceFrame]:
        return self.of(SourceFrame)

    async def until(self, done: Callable[[], bool], seconds: float = 5.0) -> None:
        """Wait for a condition, looked at after each event and ten times a second."""
        async with asyncio.timeout(seconds):
            while not done():
                self._news.clear()
                try:
                    async with asyncio.timeout(0.1):
                        await self._news.wait()
                except TimeoutError:
                    continue


@asynccontextmanager
async def running(source: PoseSource) -> AsyncIterator[tuple[Events, Status]]:
    """The source at work."""
    events, status = Events(), Status(source.name)
    task = asyncio.create_task(source.run(events.emit, status))
    try:
        yield events, status
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pose_of(frame: SourceFrame, subject: str) -> tuple[FloatArray, FloatArray, bool]:
    i = frame.subjects.index(subject)
    return frame.p_m[i], frame.q_xyzw[i], bool(frame.tracked[i])
