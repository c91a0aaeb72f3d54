"""The bridge's time.

The machine's monotonic clock, or, in a simulation, one that runs slower, faster or stands.

Poses, ages, camera ticks and stamps follow bridge time, so that a slowed or paused world stays
consistent in itself. Patience with peers (sockets, renderers, threads) follows the machine's clock,
which never stands.

Each bridge has a clock of its own. The clock in force belongs to the context (:mod:`contextvars`):
tasks and callbacks inherit it, threads do where they are
:class:`~vil_bridge.core.threads.ContextThread`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final, NamedTuple

machine_ns = time.monotonic_ns


class TimeMapping(NamedTuple):
    """Bridge time as a function of the machine's monotonic clock.

    Plain numbers, so that it can cross a pipe.

    Attributes:
        machine_ns, bridge_ns: an instant in both clocks.
        rate: bridge seconds per second from then on, not negative; 0 = time stands.
        until_ns: bridge time at which it comes to stand; None = it goes on.
    """

    machine_ns: int = 0
    bridge_ns: int = 0
    rate: float = 1.0
    until_ns: int | None = None

    def at(self, t_machine_ns: int) -> int:
        """Return bridge time at an instant of the machine's clock."""
        since_ns = t_machine_ns - self.machine_ns
        t_ns = self.bridge_ns + (since_ns if self.rate == 1.0 else int(since_ns * self.rate))
        return t_ns if self.until_ns is None else min(t_ns, self.until_ns)

    def when(self, t_ns: int) -> int | None:
        """Return the machine's time at which a bridge time is reached.

        None = not while this mapping holds.
        """
        if t_ns > self.bridge_ns and (
            self.rate == 0.0 or (self.until_ns is not None and t_ns > self.until_ns)
        ):
            return None
        ahead_ns = t_ns - self.bridge_ns
        if self.rate == 1.0:
            return self.machine_ns + ahead_ns
        # One more than the quotient: at that instant the bridge time has been reached, whatever was
        # rounded.
        return self.machine_ns + int(ahead_ns / (self.rate or 1.0)) + 1


REAL_TIME: Final = TimeMapping()
"""Bridge time is the machine's monotonic clock."""


class BridgeTime:
    """Clock of one bridge; any thread may read it, without a lock.

    Attributes:
        mapping: the one that holds now.
    """

    def __init__(self) -> None:
        self.mapping = REAL_TIME
        self._rate = 1.0
        self._until_ns: int | None = None
        self._bounds: dict[object, int] = {}
        self._reported: dict[object, int] = {}
        self._lock = threading.Lock()
        self._watchers: set[Callable[[], object]] = set()

    def now_ns(self) -> int:
        """Return the time of this clock."""
        return self.mapping.at(time.monotonic_ns())

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Make this the clock that :func:`now_ns` reads in this context, and in what is started
        from it.
        """
        before = _IN_FORCE.get()
        _IN_FORCE.set(self)
        try:
            yield
        finally:
            _IN_FORCE.set(before)

    def run(self, rate: float, for_ns: int | None = None) -> None:
        """Go on at a rate (0 = stand), for a while, behind one that is under way, or for good.

        Raises:
            ValueError: the rate or the time is negative.
        """
        if not rate >= 0.0 or (for_ns is not None and for_ns < 0):
            raise ValueError(f"time does not run backwards: rate {rate}, for {for_ns} ns")
        with self._lock:
            self._rate = rate
            until_ns: int | None = None
            if for_ns is not None:
                until_ns = max(self.now_ns(), self._until_ns or 0) + for_ns
            self._until_ns = until_ns
            self._change()
        self._notify()

    def bound(self, holder: object, t_ns: int) -> None:
        """Do not pass an instant until the holder sets a later one, or none.

        In the past = stand.
        """
        with self._lock:
            self._bounds[holder] = t_ns
            self._change()
        self._notify()

    def report(self, holder: object, before_ns: int) -> None:
        """Note that the holder has reported all that happens before an instant."""
        with self._lock:
            self._reported[holder] = before_ns

    def is_reported(self, t_ns: int) -> bool:
        """Return whether all who report have done so for an instant."""
        with self._lock:
            return all(before_ns > t_ns for before_ns in self._reported.values())

    def unbound(self, holder: object) -> None:
        """Forget the holder's bound and reports, if it has any."""
        with self._lock:
            self._reported.pop(holder, None)
            if self._bounds.pop(holder, None) is None:
                return
            self._change()
        self._notify()

    def real(self) -> None:
        """Return to the machine's clock: time jumps to it. For the end of a simulation."""
        with self._lock:
            self._rate = 1.0
            self._until_ns = None
            self._bounds.clear()
            self._reported.clear()
            self.mapping = REAL_TIME
        self._notify()

    def stand_at(self, t_ns: int) -> None:
        """Stand at an instant, whatever it was before.

        For those whose events are the clock, until :meth:`real`.
        """
        with self._lock:
            self._rate = 0.0
            self._until_ns = None
            self._bounds.clear()
            self._reported.clear()
            self.mapping = TimeMapping(0, t_ns, 0.0)
        self._notify()

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Have ``changed`` called after every change, in the thread that made it.

        Returns what ends that.
        """
        with self._lock:
            self._watchers.add(changed)

        def unwatch() -> None:
            with self._lock:
                self._watchers.discard(changed)

        return unwatch

    def _change(self) -> None:
        t_machine_ns = time.monotonic_ns()
        t_ns = self.mapping.at(t_machine_ns)
        ends = list(self._bounds.values())
        if self._until_ns is not None:
            ends.append(self._until_ns)
        until_ns: int | None = None
        if ends:
            until_ns = max(t_ns, min(ends))
        self.mapping = TimeMapping(t_machine_ns, t_ns, self._rate, until_ns)

    def _notify(self) -> None:
        with self._lock:
            watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher()


# One for the whole process.
_IN_FORCE: Final = ContextVar("bridge clock in force", default=BridgeTime())  # noqa: B039


def bridge_clock() -> BridgeTime:
    """Return the clock in force.

    Where no bridge set its own, the one of the process, which follows the machine's.
    """
    return _IN_FORCE.get()


def now_ns() -> int:
    """Return bridge time, nanoseconds: what everything is stamped with."""
    mapping = _IN_FORCE.get().mapping
    return time.monotonic_ns() if mapping is REAL_TIME else mapping.at(time.monotonic_ns())
