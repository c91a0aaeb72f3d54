"""A machine whose time and threads are simulated.

One thread runs at a time, and time passes only while all wait.

:func:`install` replaces what Python programs wait with (locks, threads, sleeping, polling, event
loops, timers) and the clocks that they read, before any other module has taken them. The programs
themselves run unchanged. Whenever a thread would wait, the machine hands over to one that can go
on, chosen by a seed; where none can, time jumps to the earliest instant for which one waits. So a
run depends on its seed alone, and takes as long as its computing.

Files, UDP and TCP are the system's: within one process a message is there as soon as it was sent.
ZeroMQ delivers from threads of its own, so :mod:`tests.virtual.zeromq` keeps its messages within
the process.

Each reading of a clock takes 100 ns, so that a loop which waits for an instant by reading it ends.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import os
import queue
import random
import select
import selectors
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

__all__ = ["Machine", "StandstillError", "install", "real_poll", "replace", "set_clock_of"]

_NS_PER_S: Final = 1_000_000_000
_READING_NS: Final = 100
_BOOT_NS: Final = 1_000 * _NS_PER_S
_BEGIN_NS: Final = 1_010 * _NS_PER_S
_WALL_NS: Final = 1_767_225_600 * _NS_PER_S
"""The wall clock shows 2026-01-01 00:00 UTC when the machine has run for a thousand seconds."""

_new_lock = _thread.allocate_lock
_start_thread = _thread.start_new_thread


class StandstillError(RuntimeError):
    """All threads wait, and for no instant."""


class _Thread:
    """A thread of the machine.

    Attributes:
        go: released when it is its turn.
        ready: returns what is true when it can go on; None while it runs or sleeps.
        lock: that it waits for, with which it can go on once nothing holds it.
        until_ns: instant at which it goes on in any case.
        sentinel: lock that ``threading`` waits for at its end.
    """

    def __init__(self) -> None:
        self.go = _new_lock()
        self.go.acquire()
        self.ready: Callable[[], object] | None = None
        self.lock: _Lock | None = None
        self.until_ns: int | None = None
        self.sentinel: _Lock | None = None


class Machine:
    """Clock, threads and timers; a seed chooses whose turn it is."""

    def __init__(self) -> None:
        self._now_ns = _BOOT_NS
        self._random = random.Random(0)
        self._chance = random.Random(0)
        self._running = _Thread()
        self._threads = [self._running]
        self._timers: dict[int, tuple[int, int]] = {}

    def begin(self, seed: int) -> None:
        """Let all chances depend on a seed, and time begin at the same instant, whatever ran
        before.
        """
        self._now_ns = _BEGIN_NS
        self._random.seed(seed)
        self._chance.seed(seed ^ 0x5EED)
        random.seed(seed)

    def random_bytes(self, size: int) -> bytes:
        """Return what stands in for the system's random numbers."""
        return self._chance.randbytes(size)

    # --- time ----------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Return the machine's time, nanoseconds since its start."""
        self._now_ns += _READING_NS
        return self._now_ns

    def wall_ns(self) -> int:
        """Return the wall clock's time, nanoseconds since 1970."""
        return self.now_ns() - _BOOT_NS + _WALL_NS

    def sleep(self, seconds: float) -> None:
        """Let others run for a time."""
        self.wait(None, self.after_s(max(0.0, seconds)))

    def after_s(self, seconds: float) -> int:
        """Return the instant so many seconds from now."""
        return self._now_ns + round(seconds * _NS_PER_S)

    def arm(self, fd: int, due_ns: int, period_ns: int = 0) -> None:
        """Let a timer's descriptor become readable at an instant and every period after it.

        0, 0 = never.
        """
        if due_ns:
            self._timers[fd] = due_ns, period_ns
        else:
            self._timers.pop(fd, None)

    def close(self, fd: int) -> None:
        """Close a descriptor; a timer ends with it, since the next file gets its number."""
        self._timers.pop(fd, None)
        _real_close(fd)

    # --- threads -------------------------------------------------------------------------------

    def wait(
        self, ready: Callable[[], object] | None, until_ns: int | None, lock: _Lock | None = None
    ) -> None:
        """Let others run until this thread can go on, or until an instant.

        None = however long that takes.

        Raises:
            StandstillError: no thread can ever go on.
        """
        me = self._running
        me.ready = ready
        me.lock = lock
        me.until_ns = until_ns
        chosen = self._choose()
        if chosen is not me:
            self._hand_over(chosen)
            me.go.acquire()
        me.ready = None
        me.lock = None

    def start(
        self, function: Callable[..., object], arguments: tuple[Any, ...], keywords: Any = None
    ) -> int:
        """Start a thread; it runs when the others wait. Returns its identity."""
        thread = _Thread()
        thread.ready = lambda: True

        def run() -> None:
            thread.go.acquire()
            thread.ready = None
            try:
                function(*arguments, **(keywords or {}))
            finally:
                if thread.sentinel is not None:
                    thread.sentinel.release()
                self._threads.remove(thread)
                self._hand_over(self._choose())

        self._threads.append(thread)
        return _start_thread(run, ())

    def new_sentinel(self) -> _Lock:
        """Return the lock that is released when the running thread ends."""
        self._running.sentinel = _Lock()
        return self._running.sentinel

    def _hand_over(self, thread: _Thread) -> None:
        self._running = thread
        thread.go.release()

    def _choose(self) -> _Thread:
        """Return a thread that can go on; time jumps where none can."""
        threads = self._threads
        looks = True
        while True:
            first = int(self._random.random() * len(threads))
            now_ns = self._now_ns
            for thread in (*threads[first:], *threads[:first]):
                if thread.until_ns is not None and thread.until_ns <= now_ns:
                    return thread
                if not looks:  # nothing happened since it could not go on
                    continue
                if thread.lock is not None:
                    if not thread.lock.held:
                        return thread
                elif thread.ready is not None and thread.ready():
                    return thread
            waits = [thread.until_ns for thread in threads if thread.until_ns is not None]
            waits += [due_ns for due_ns, _ in self._timers.values()]
            if not waits:
                raise StandstillError("all threads wait, and for no instant")
            self._now_ns = max(now_ns, min(waits))
            looks = self._fire()

    def _fire(self) -> bool:
        """Make the descriptors of timers that are due readable; returns whether there are any."""
        now_ns = self._now_ns
        due = sorted(fd for fd, (due_ns, _) in self._timers.items() if due_ns <= now_ns)
        for fd in due:
            due_ns, period_ns = self._timers.pop(fd)
            times = 1 + ((now_ns - due_ns) // period_ns if period_ns else 0)
            if period_ns:
                self._timers[fd] = due_ns + times * period_ns, period_ns
            os.eventfd_write(fd, times)
        return bool(due)


_machine: Machine


class _Lock:
    """Stands in for ``threading.Lock``."""

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self.held:
            if not blocking:
                return False
            until_ns = None if timeout < 0 else _machine.after_s(timeout)
            while self.held:
                if until_ns is not None and until_ns <= _machine.now_ns():
                    return False
                _machine.wait(None, until_ns, self)
        self.held = True
        return True

    def release(self) -> None:
        if not self.held:
            raise RuntimeError("release unlocked lock")
        self.held = False

    def locked(self) -> bool:
        return self.held

    def _at_fork_reinit(self) -> None:
        self.held = False

    def __enter__(self) -> bool:
        if self.held:
            return self.acquire()
        self.held = True
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.held:
            raise RuntimeError("release unlocked lock")
        self.held = False


class _Poll:
    """Stands in for ``select.poll`` and ``select.epoll``."""

    def __init__(self, real: Any, unit_s: float) -> None:
        self._real = real
        self._unit_s = unit_s

    def poll(self, timeout: float | None = None, *limit: int) -> list[tuple[int, int]]:
        until_ns = (
            None if timeout is None or timeout < 0 else _machine.after_s(timeout * self._unit_s)
        )
        found: list[tuple[int, int]] = self._real.poll(0, *limit)
        if not found and timeout != 0:
            _machine.wait(functools.partial(self._real.poll, 0, *limit), until_ns)
            found = self._real.poll(0, *limit)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _select(
    reading: list[Any], writing: list[Any], exceptional: list[Any], timeout: float | None = None
) -> tuple[list[Any], list[Any], list[Any]]:
    until_ns = None if timeout is None else _machine.after_s(timeout)
    found = _real_select(reading, writing, exceptional, 0)
    if not any(found) and timeout != 0:
        _machine.wait(lambda: any(_real_select(reading, writing, exceptional, 0)), until_ns)
        found = _real_select(reading, writing, exceptional, 0)
    return found


_real_select = select.select
_real_close = os.close
real_poll = select.poll
_real_epoll = select.epoll


def replace(owner: object, **members: object) -> None:
    """Set members of a module or class, whatever they were."""
    for name, value in members.items():
        setattr(owner, name, value)


def set_clock_of(kernel: ctypes.CDLL, now_ns: Callable[[], int]) -> None:
    """Let the compiled kernel read a clock: it has one of its own otherwise."""
    clock = ctypes.CFUNCTYPE(ctypes.c_int64)(now_ns)
    _clocks.append(clock)
    ctypes.c_void_p.in_dll(kernel, "vil_machine_ns").value = ctypes.cast(
        clock, ctypes.c_void_p
    ).value


_clocks: list[Any] = []
"""Called by the kernel, so they stay."""


def install() -> Machine:
    """Replace clocks, threads and waiting of this process.

    Call it before other modules are imported.
    """
    global _machine
    machine = _machine = Machine()
    _replace_clocks(machine)
    replace(threading, Lock=_Lock, _allocate_lock=_Lock, _CRLock=None)
    replace(threading, _start_new_thread=machine.start, _set_sentinel=machine.new_sentinel)
    replace(queue, SimpleQueue=queue._PySimpleQueue)  # type: ignore[attr-defined]
    replace(select, poll=lambda: _Poll(real_poll(), 1e-3), select=_select)
    replace(selectors.EpollSelector, _selector_cls=staticmethod(lambda: _Poll(_real_epoll(), 1.0)))
    replace(os, urandom=machine.random_bytes, close=machine.close)
    replace(random, _urandom=machine.random_bytes)
    return machine


def _replace_clocks(machine: Machine) -> None:
    def seconds(clock: Callable[[], int]) -> Callable[[], float]:
        return lambda: clock() / _NS_PER_S

    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        replace(time, **{f"{name}_ns": machine.now_ns, name: seconds(machine.now_ns)})
    replace(time, time_ns=machine.wall_ns, time=seconds(machine.wall_ns), sleep=machine.sleep)
    replace(threading, _time=time.monotonic)
    replace(queue, time=time.monotonic)
