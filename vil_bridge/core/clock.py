"""The bridge's clock and its periodic ticks.

Everything is stamped with bridge time (:mod:`vil_bridge.core.bridge_time`), which is
``time.monotonic_ns`` unless a simulation slows it. Ticks come from a Linux timerfd, since the event
loop's own timers are no better than 1 ms; elsewhere a thread sleeps to absolute times.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vil_bridge.core.bridge_time import REAL_TIME, TimeMapping, bridge_clock, machine_ns, now_ns
from vil_bridge.core.threads import ContextThread

__all__ = [
    "NS_PER_MS",
    "NS_PER_S",
    "Ticker",
    "WallClock",
    "arm_timerfd",
    "machine_ns",
    "now_ns",
    "open_timerfd",
    "sooner",
]

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000


def sooner(a_ns: int | None, b_ns: int | None) -> int | None:
    """Return the earlier of two instants, of which either may be absent."""
    if a_ns is None:
        return b_ns
    return a_ns if b_ns is None or a_ns <= b_ns else b_ns


@dataclass(frozen=True, slots=True)
class WallClock:
    """The one monotonic-to-UTC offset of a run, taken at start and recorded with it."""

    offset_ns: int

    @classmethod
    def read(cls) -> WallClock:
        """Take the offset between the two clocks now (the tightest of five readings)."""
        readings = []
        for _ in range(5):
            before = time.monotonic_ns()
            utc = time.time_ns()
            after = time.monotonic_ns()
            readings.append((after - before, utc - (before + after) // 2))
        return cls(min(readings)[1])

    @classmethod
    @functools.cache
    def of_run(cls) -> WallClock:
        """Return the one of this process, taken at the first call."""
        return cls.read()

    def utc_ns(self, t_ns: int) -> int:
        """Return the Unix time of a bridge time."""
        return t_ns + self.offset_ns


_LIBC = ctypes.CDLL(None, use_errno=True)
_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK = 0o4000
_TFD_CLOEXEC = 0o2000000
_TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = [("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long)]


class _Itimerspec(ctypes.Structure):
    _fields_ = [("it_interval", _Timespec), ("it_value", _Timespec)]


def open_timerfd() -> int:
    """Return a timer of the monotonic clock as a descriptor (Linux), not armed yet.

    Raises:
        OSError: the system refuses.
    """
    fd = _LIBC.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create failed")
    return int(fd)


def arm_timerfd(fd: int, due_ns: int, period_ns: int = 0) -> None:
    """Let the timer expire at an instant of the machine's clock, and every period after it.

    0, 0 = never.

    Raises:
        OSError: the system refuses.
    """
    spec = _Itimerspec(
        _Timespec(*divmod(period_ns, NS_PER_S)), _Timespec(*divmod(due_ns, NS_PER_S))
    )
    if _LIBC.timerfd_settime(fd, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None) != 0:
        raise OSError(ctypes.get_errno(), "timerfd_settime failed")


class Ticker:
    """Calls ``on_tick(due_ns, missed)`` in the running loop at an even period.

    ``due_ns`` is the instant the tick was planned for, so that jitter of the wake-up never enters
    the schedule; ``missed`` counts whole periods that passed unnoticed before it.

    Args:
        machine: tick by the machine's clock, also while bridge time is slowed or stands.

    Attributes:
        next_ns: when the next tick is due.
    """

    def __init__(
        self, period_ns: int, on_tick: Callable[[int, int], None], *, machine: bool = False
    ) -> None:
        if period_ns <= 0:
            raise ValueError(f"period must be positive, got {period_ns} ns")
        self._period_ns = period_ns
        self._on_tick = on_tick
        self._machine = machine
        self._clock = bridge_clock()
        self.next_ns = 0
        self._stop: Callable[[], None] | None = None
        self._rearm: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin ticking one period from now."""
        loop = asyncio.get_running_loop()
        self._clock = bridge_clock()
        self.next_ns = self._now_ns() + self._period_ns
        self._stop = (
            self._start_timerfd(loop) if sys.platform == "linux" else self._start_thread(loop)
        )

    def stop(self) -> None:
        """End the ticks; may be called twice."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def postpone(self, due_ns: int) -> None:
        """Tick next at an instant, and every period after it.

        What would have been due before is not missed.
        """
        self.next_ns = due_ns
        if self._stop is not None:
            self._rearm()

    @property
    def _mapping(self) -> TimeMapping:
        return REAL_TIME if self._machine else self._clock.mapping

    def _now_ns(self) -> int:
        return self._mapping.at(machine_ns())

    def _fire(self, expirations: int) -> None:
        missed = expirations - 1
        due_ns = self.next_ns + missed * self._period_ns
        self.next_ns = due_ns + self._period_ns
        self._on_tick(due_ns, missed)

    def _elapsed(self) -> int:
        """Return the number of ticks that are due."""
        return 1 + (self._now_ns() - self.next_ns) // self._period_ns

    def _start_timerfd(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        fd = open_timerfd()

        def arm() -> None:
            mapping = self._mapping
            if mapping == REAL_TIME:
                arm_timerfd(fd, self.next_ns, self._period_ns)
            else:
                # Negative where a clock that stands was set far beyond it.
                due_ns = mapping.when(self.next_ns)
                arm_timerfd(fd, 0 if due_ns is None else max(1, due_ns))

        def on_readable() -> None:
            try:
                expirations = int.from_bytes(os.read(fd, 8), sys.byteorder)
            except BlockingIOError:
                return
            if self._mapping == REAL_TIME:
                self._fire(expirations)
                return
            if (due := self._elapsed()) > 0:
                self._fire(due)
            if self._stop is not None:
                arm()

        def rearm() -> None:
            if self._stop is not None:
                arm()

        loop.add_reader(fd, on_readable)
        arm()
        self._rearm = arm
        unwatch = self._clock.watch(lambda: loop.call_soon_threadsafe(rearm))

        def stop() -> None:
            unwatch()
            loop.remove_reader(fd)
            os.close(fd)

        return stop

    def _start_thread(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        stopping = threading.Event()
        changed = threading.Event()

        def run() -> None:
            while not stopping.is_set():
                due_ns = self._mapping.when(self.next_ns)
                left_s = None if due_ns is None else max(0, due_ns - machine_ns()) / NS_PER_S
                if changed.wait(left_s):
                    changed.clear()
                elif (due := self._elapsed()) > 0:
                    asyncio.run_coroutine_threadsafe(self._fire_in_loop(due), loop).result()

        self._rearm = changed.set
        unwatch = self._clock.watch(changed.set)
        ContextThread(target=run, name="ticker", daemon=True).start()

        def stop() -> None:
            unwatch()
            stopping.set()
            changed.set()

        return stop

    async def _fire_in_loop(self, expirations: int) -> None:
        self._fire(expirations)
