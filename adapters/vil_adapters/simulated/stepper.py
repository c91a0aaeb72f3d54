"""Steps in bridge time: wakes at every step's own instant, catches up what it missed, tells what it did."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from vil_adapters.simulated.ipc import (
    ArmCommand,
    ClockUpdate,
    ContactReport,
    FlyCommand,
    Order,
    Reset,
    Stop,
    VehicleBatch,
)
from vil_bridge.core.bridge_time import TimeMapping
from vil_bridge.core.clock import NS_PER_S, arm_timerfd, machine_ns, open_timerfd

__all__ = ["Flies", "Stepper", "WakeupTimer"]

_CHUNK: Final = 96
"""Steps made before orders are looked at again while it catches up."""
_IDLE_S: Final = 0.1


class Flies(Protocol):
    """What is advanced (:class:`~vil_adapters.simulated.simulation.Simulation`)."""

    steps: int

    def step_at(self, t_ns: int) -> int:
        """How many steps are due at a simulation time."""
        ...

    def t_of(self, step: int) -> int:
        """Simulation time at a step."""
        ...

    def order(self, order: Order) -> bool:
        """Take an order."""
        ...

    def advance(self, until: int) -> list[VehicleBatch]:
        """Make the steps up to a number of them."""
        ...

    def batch(self, *, pose: bool = True) -> VehicleBatch:
        """All vehicles now."""
        ...


class WakeupTimer:
    """Sleeps until an instant of the machine's clock, or until somebody rings."""

    def __init__(self, also_fd: int | None = None) -> None:
        self._timer = open_timerfd() if sys.platform == "linux" else -1
        self._bell, self._rope = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if sys.platform == "linux" else os.pipe()
        self._poll = select.poll()
        for fd in (self._timer, self._bell, also_fd):
            if fd is not None and fd >= 0:
                self._poll.register(fd, select.POLLIN)

    def ring(self) -> None:
        """Wake the sleeper; any thread."""
        try:
            os.write(self._rope, b"!")
        except BlockingIOError:
            return

    def sleep(self, until_ns: int | None) -> None:
        """Return at ``until_ns``, when it rings, or after 0.1 s."""
        left_s = _IDLE_S if until_ns is None else (until_ns - machine_ns()) / NS_PER_S
        if left_s <= 0.0:
            return
        if self._timer >= 0 and until_ns is not None:
            arm_timerfd(self._timer, until_ns)
            left_s = _IDLE_S
        for fd, _ in self._poll.poll(1e3 * min(left_s, _IDLE_S)):
            if fd in (self._timer, self._bell):
                os.read(fd, 4096 if fd == self._bell else 8)

    def close(self) -> None:
        """Release the descriptors."""
        for fd in (self._timer, self._bell, self._rope):
            if fd >= 0:
                os.close(fd)


class Stepper:
    """Advances a flock as bridge time passes; runs in a thread or a process of its own.

    Args:
        flock: at step 0. start_ns: bridge time of step 0. mapping: how bridge time follows the machine's.
        take: what was ordered since the last call. give: takes what is told.

    Attributes:
        late: steps that were made later than their own tick, caught up with the next.
    """

    def __init__(
        self,
        flock: Flies,
        start_ns: int,
        mapping: TimeMapping,
        take: Callable[[], Iterable[Order]],
        give: Callable[[VehicleBatch], None],
        alarm: WakeupTimer,
    ) -> None:
        self.late = 0
        self._flock = flock
        self._start_ns = start_ns
        self._mapping = mapping
        self._take = take
        self._give = give
        self._alarm = alarm
        self._end: int | None = None

    def run(self) -> None:
        """Tell the start, and step until told to stop; the last batch tells the last step."""
        flock = self._flock
        self._tell([flock.batch(pose=False)], 0)
        while True:
            for order in self._take():
                if isinstance(order, Stop) and order.t_ns is None:
                    return
                self._obey(order)
            due_ns = self._mapping.at(machine_ns()) - self._start_ns
            due = flock.step_at(due_ns)
            if self._end is not None and due >= self._end:
                due = self._end
            if due > flock.steps:
                self._step(due, due_ns)
            if self._end is not None and flock.steps >= self._end:
                self._tell([flock.batch()], due_ns)
                return
            self._alarm.sleep(self._mapping.when(self._start_ns + flock.t_of(flock.steps + 1)))

    def _step(self, due: int, due_ns: int) -> None:
        until = min(due, self._flock.steps + _CHUNK)
        self.late += until - self._flock.steps - (until == due)
        self._tell(self._flock.advance(until), due_ns)

    def _tell(self, batches: list[VehicleBatch], due_ns: int) -> None:
        for batch in batches:
            batch.late, batch.behind_ns = self.late, due_ns - batch.t_ns
            self._give(batch)

    def _obey(self, order: Order) -> None:
        match order:
            case ClockUpdate():
                self._mapping = order.mapping()
            case Stop(t_ns=int(t_ns)):
                self._end = max(self._flock.step_at(t_ns), self._flock.steps)
            case FlyCommand() | ArmCommand() | Reset() | ContactReport():
                self._flock.order(order)
