"""Pacing for what the loop's :class:`~vil_bridge.core.clock.Ticker` does not serve.

Slots, limits, threads, bursts.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.threads import ContextThread

logger = logging.getLogger(__name__)

_EARLY: Final = 0.25
"""Share of the interval by which a picture may come too early: pictures are not perfectly even."""
_T = TypeVar("_T")


class FrameRateLimiter:
    """Limiter that passes instants at an even rate; ``rate_hz`` None passes all."""

    def __init__(self, rate_hz: float | None) -> None:
        self._period_ns = 0 if rate_hz is None else round(NS_PER_S / rate_hz)
        self._due_ns: int | None = None

    def passes(self, t_ns: int) -> bool:
        """Return True when the picture of an instant passes."""
        if not self._period_ns:
            return True
        if self._due_ns is None or abs(t_ns - self._due_ns) > 2 * self._period_ns:
            self._due_ns = t_ns  # the first, or time went somewhere else
        if t_ns < self._due_ns - _EARLY * self._period_ns:
            return False
        self._due_ns += self._period_ns
        return True


class SlotTimer:
    """Timer that lets one pass in each slot of the machine's clock.

    All timers of one rate are due together.
    """

    def __init__(self, rate_hz: float) -> None:
        self._period_ns = round(NS_PER_S / rate_hz)
        self._slot = machine_ns() // self._period_ns - 1

    def due(self) -> bool:
        """Return True when one may pass now."""
        return machine_ns() // self._period_ns != self._slot

    def passed(self) -> int:
        """Record that one passed; return how many slots were left unused before it."""
        before = self._slot
        self._slot = machine_ns() // self._period_ns
        return max(0, self._slot - before - 1)

    def left_s(self) -> float:
        """Return the seconds until the next one may pass."""
        return max(0, (self._slot + 1) * self._period_ns - machine_ns()) / NS_PER_S


class CachedValue(Generic[_T]):
    """Value made at most once in each slot, on request; for one thread.

    One that is made for longer than the rest of its slot belongs to the slot in which it was begun.
    """

    def __init__(self, make: Callable[[], _T], rate_hz: float) -> None:
        self._make = make
        self._timer = SlotTimer(rate_hz)
        self._value: _T | None = None

    def get(self) -> _T:
        """Return the value of this slot."""
        if self._value is None or self._timer.due():
            self._timer.passed()
            self._value = self._make()
        return self._value


class PeriodicTask:
    """Task that calls ``turn`` in each slot while it returns True; for one event loop.

    Args:
        turn: serves all clients; False ends the calls until the next :meth:`start`. The first
            exception is logged.
        rate_hz: turns a second.
    """

    def __init__(self, turn: Callable[[], bool], rate_hz: float) -> None:
        self._turn = turn
        self._timer = SlotTimer(rate_hz)
        self._task: asyncio.Task[None] | None = None
        self._logged = False

    def start(self) -> None:
        """Go on, if it does not already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            if self._timer.due():  # timers may be early
                if not self._served():
                    return
                self._timer.passed()
            await asyncio.sleep(self._timer.left_s())

    def _served(self) -> bool:
        """Serve once; a bug in it must not end the feeds of all clients."""
        try:
            return self._turn()
        except Exception:
            if not self._logged:
                logger.exception("live feed update failed (further failures are not logged)")
            self._logged = True
            return True


async def call_periodically(name: str, rate_hz: float, step: Callable[[], None]) -> None:
    """Call ``step`` in a thread of its own until cancelled; calls that come too late are left out.

    Raises:
        BaseException: whatever ``step`` raised, which also ends the calls.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    stop = threading.Event()

    def settle(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def work() -> None:
        error: BaseException | None = None
        due_s = time.monotonic()
        try:
            while not stop.wait(max(0.0, due_s - time.monotonic())):
                step()
                due_s = max(due_s + 1.0 / rate_hz, time.monotonic())
        except BaseException as exc:  # a library's panic is not an Exception
            error = exc
        loop.call_soon_threadsafe(settle, error)

    thread = ContextThread(target=work, name=name, daemon=True)
    thread.start()
    try:
        await ended
    finally:
        stop.set()
        thread.join()


def in_bursts(
    items: Sequence[_T], begin_ns: int, duration_ns: float, burst: int = 1
) -> Iterator[Sequence[_T]]:
    """Yield ``burst`` items at a time, evenly over ``duration_ns`` from ``begin_ns``, machine
    clock; sleep between.
    """
    for first in range(0, len(items), burst):
        wait_ns = begin_ns + duration_ns * first / len(items) - machine_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / NS_PER_S)
        yield items[first : first + burst]
