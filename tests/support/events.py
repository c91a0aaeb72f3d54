"""A running source in a test: what it emitted, and ways to wait for more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from tests.support.common import PATIENCE_S, Stopwatch
from vil_adapters.emulation.emulator import Emulator
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import ClockExchange, SourceEvent, SourceFrame, SourceReset
from vil_bridge.interfaces.ports import PoseSource, SourceContext
from vil_bridge.runtime.supervisor import Status, supervise

__all__ = ["Received", "elapse", "harmed", "receiving", "until"]

E = TypeVar("E", bound=SourceEvent)


async def until(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> float:
    """Wait for a condition that costs nothing.

    Returns the seconds that it took, by a stopwatch of 30 ms a turn.
    """
    stopwatch = Stopwatch(0.03)
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)
            stopwatch.turn()
    return stopwatch.seconds


def harmed(counters: Mapping[str, int]) -> set[str]:
    """What a source counted although nobody harmed what was sent.

    On the loopback of a busy machine a datagram may overtake one that was sent by another
    processor: it is counted as lost, then as reordered.
    """
    bad = {
        name
        for name in ("malformed", "foreign", "out_of_order", "out_of_sequence", "duplicates")
        if counters.get(name)
    }
    overtaken = counters.get("reordered", 0)
    return bad | ({"reordered"} if overtaken > min(2, counters.get("lost", 0)) else set())


def elapse(emulator: Emulator, minutes: int) -> None:
    """Set the clock of its faults, so that ``EPISODE=1min@1min`` begins at 1 and ends at 2, when
    the test says so.
    """
    emulator.server.started_ns = now_ns() - 60 * minutes * NS_PER_S


class Received:
    """Events that a source emitted, in order, its status, and what the bridge gave it."""

    def __init__(self, status: Status, context: SourceContext | None = None) -> None:
        self.status = status
        self.context = SourceContext() if context is None else context
        self.events: list[SourceEvent] = []
        self.task: asyncio.Task[None] | None = None

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def frames(self) -> list[SourceFrame]:
        return self.of(SourceFrame)

    @property
    def exchanges(self) -> list[ClockExchange]:
        return self.of(ClockExchange)

    @property
    def resets(self) -> list[SourceReset]:
        return self.of(SourceReset)

    async def until(self, condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> float:
        """Wait for a condition while the source is alive; returns what :func:`until` does."""

        def met() -> bool:
            if self.task is not None and self.task.done():
                self.task.result()
            return bool(condition())

        return await until(met, timeout_s)

    async def more_frames(self, count: int = 3, timeout_s: float = PATIENCE_S) -> list[SourceFrame]:
        """The next frames from now on."""
        seen = len(self.frames)
        await self.until(lambda: len(self.frames) >= seen + count, timeout_s)
        return self.frames[seen:]


@asynccontextmanager
async def receiving(
    source: PoseSource, *, supervised: bool = False, context: SourceContext | None = None
) -> AsyncIterator[Received]:
    """Run a source, or its supervisor with short waits; what it raises, the test raises."""
    received = Received(Status(source.name), context)

    async def run(status: Status) -> None:
        await source.run(received.events.append, status, received.context)

    alone = (
        supervise(run, received.status, sleep=lambda _: asyncio.sleep(0.05))
        if supervised
        else run(received.status)
    )
    received.task = task = asyncio.create_task(alone)
    try:
        yield received
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()
