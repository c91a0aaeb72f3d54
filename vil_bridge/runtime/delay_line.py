"""Deliveries at exact times: what emulated networks, links and injected faults hold back."""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import itertools
import os
import sys
from collections.abc import Callable
from typing import Generic, TypeVar

from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_S, arm_timerfd, machine_ns, now_ns, open_timerfd

_T = TypeVar("_T")


class DelayLine(Generic[_T]):
    """Queue that hands each item to ``deliver`` at its time, the earliest first.

    One timer serves all of them (a timerfd on Linux, since the loop's timers round up to
    milliseconds). Open it with the loop running; an error of ``deliver`` reaches the loop's handler
    unless ``deliver`` handles it.

    Attributes:
        limit: items that may wait; more are refused, so that a stopped reader cannot fill the
            memory.
    """

    def __init__(self, deliver: Callable[[_T], None], limit: int = 100_000) -> None:
        self.limit = limit
        self._deliver = deliver
        self._heap: list[tuple[int, int, _T]] = []
        self._serial = itertools.count()
        self._loop = asyncio.get_running_loop()
        self._fd = open_timerfd() if sys.platform == "linux" else -1
        self._handle: asyncio.TimerHandle | None = None
        self._closed = False
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._on_timer)
        self._clock = bridge_clock()
        self._unwatch = self._clock.watch(lambda: self._loop.call_soon_threadsafe(self._arm))

    def __len__(self) -> int:
        return len(self._heap)

    def enqueue(self, due_ns: int, item: _T) -> bool:
        """Deliver at a bridge time; False when too many wait already, or the line is closed."""
        if self._closed or len(self._heap) >= self.limit:
            return False
        heapq.heappush(self._heap, (due_ns, next(self._serial), item))
        if self._heap[0][0] == due_ns:
            self._arm()
        return True

    def clear(self) -> int:
        """Forget what waits; returns how many items that were."""
        count = len(self._heap)
        self._heap.clear()
        return count

    def close(self) -> None:
        """Forget what waits and release the timer; may be called twice."""
        self._closed = True
        self._unwatch()
        self.clear()
        if self._handle is not None:
            self._handle.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _arm(self) -> None:
        """Wake when the earliest is due.

        While bridge time stands before that, its next change wakes.
        """
        due_ns = self._clock.mapping.when(self._heap[0][0]) if self._heap else None
        if self._fd >= 0:
            arm_timerfd(self._fd, 0 if due_ns is None else max(1, due_ns))
            return
        if self._handle is not None:
            self._handle.cancel()
        if due_ns is not None:
            self._handle = self._loop.call_later(
                max(0, due_ns - machine_ns()) / NS_PER_S, self._on_due
            )

    def _on_timer(self) -> None:
        try:
            os.read(self._fd, ctypes.sizeof(ctypes.c_uint64))
        except BlockingIOError:
            return
        self._on_due()

    def _on_due(self) -> None:
        try:
            while self._heap and self._heap[0][0] <= now_ns():
                self._deliver(heapq.heappop(self._heap)[2])
        finally:
            self._arm()
