"""Steps in bridge time: at each instant at which something happens, with missed steps caught up."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterable
from typing import Final

from vil_bridge.core.bridge_time import REAL_TIME, TimeMapping
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, arm_timerfd, machine_ns, open_timerfd
from vil_simulation.source.ipc import ClockUpdate, Order, Start, Stop, VehicleBatch
from vil_simulation.source.move_runner import NEVER
from vil_simulation.source.simulation import PATIENCE_NS, Simulation

_CHUNK: Final = 96
"""Steps made before orders are looked at again while it catches up."""
_CHUNK_NS: Final = 10 * NS_PER_MS
"""Time in which it makes them: longer where the steps of many sources want one processor."""
_IDLE_S: Final = 0.1


class WakeupTimer:
    """Timer that sleeps until an instant of the machine's clock, or until :meth:`wake`."""

    def __init__(self, also_fd: int | None = None) -> None:
        self._timer = open_timerfd() if sys.platform == "linux" else -1
        self._wake_end, self._wake_fd = (
            os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if sys.platform == "linux" else os.pipe()
        )
        self._poll = select.poll()
        for fd in (self._timer, self._wake_end, also_fd):
            if fd is not None and fd >= 0:
                self._poll.register(fd, select.POLLIN)

    def wake(self) -> None:
        """Wake the sleeper; any thread."""
        try:
            os.write(self._wake_fd, b"!")
        except BlockingIOError:
            return

    def sleep(self, until_ns: int | None) -> None:
        """Return at ``until_ns``, on :meth:`wake`, or after 0.1 s."""
        left_s = _IDLE_S if until_ns is None else (until_ns - machine_ns()) / NS_PER_S
        if left_s <= 0.0:
            return
        if self._timer >= 0 and until_ns is not None:
            arm_timerfd(self._timer, until_ns)
            left_s = _IDLE_S
        for fd, _ in self._poll.poll(1e3 * min(left_s, _IDLE_S)):
            if fd in (self._timer, self._wake_end):
                os.read(fd, 4096 if fd == self._wake_end else 8)

    def close(self) -> None:
        """Release the descriptors."""
        for fd in (self._timer, self._wake_end, self._wake_fd):
            if fd >= 0:
                os.close(fd)


class Stepper:
    """Driver that advances a simulation as bridge time passes.

    Runs in a thread or a process of its own.

    It wakes when a step is due after which something is measured, commanded or reported, with all
    steps before, and when an order comes: that takes effect in the first step that begins after it.

    Args:
        simulation: at step 0. start_ns: bridge time of step 0. mapping: how bridge time follows the
            machine's.
        orders: yields orders since the last call. on_batch: called with every batch.

    Attributes:
        late: steps begun more than a period after the instant at which they were to be made, caught
            up with the next.
    """

    def __init__(
        self,
        simulation: Simulation,
        start_ns: int,
        mapping: TimeMapping,
        orders: Callable[[], Iterable[Order]],
        on_batch: Callable[[VehicleBatch], None],
        timer: WakeupTimer,
    ) -> None:
        self.late = 0
        self._simulation = simulation
        self._start_ns = start_ns
        self._mapping = mapping
        self._orders = orders
        self._on_batch = on_batch
        self._timer = timer
        self._end: int | None = None
        self._planned = 1

    def run(self) -> None:
        """Report the start, and step until stopped; the last batch reports the last step.

        Raises:
            SourceUnavailable: a port for an autopilot's program is taken.
        """
        try:
            self._simulation.programs.open(holds=self._mapping != REAL_TIME)
            self._run()
        finally:
            self._simulation.programs.close()

    def _run(self) -> None:
        simulation = self._simulation
        self._report([simulation.batch(pose=False)], 0)
        while True:
            orders = list(self._orders())
            if any(isinstance(order, Stop) and order.t_ns is None for order in orders):
                return
            if orders:
                self._step(min((self._begins_ns(order) for order in orders), default=NEVER))
            for order in orders:
                self._apply(order)
            simulation.programs.listen()
            due_ns, due = self._step(NEVER)
            if simulation.has_news or (simulation.has_changed and self._wakes_at(due) is None):
                self._report([simulation.batch(pose=False)], due_ns)  # time may stand still
            if self._end is not None and simulation.steps >= self._end:
                self._report([simulation.batch()], due_ns)
                return
            self._timer.sleep(self._wakes_at(due))

    def _wakes_at(self, due: int) -> int | None:
        """Return when to go on by the machine's clock: at the next step that matters.

        None while time stands still.
        """
        made = self._simulation.steps
        until_ns = self._mapping.until_ns
        self._planned = made + 1 if due > made else self._simulation.next_event()
        if self._end is not None:
            self._planned = min(self._planned, self._end)
        if until_ns is not None:  # where it comes to stand, all steps before are made
            self._planned = max(
                min(self._planned, self._simulation.step_at(until_ns - self._start_ns)), made + 1
            )
        return self._mapping.when(self._start_ns + self._simulation.t_of(self._planned))

    def _begins_ns(self, order: Order) -> int:
        """Return the simulation time up to which steps may be made before an order is applied."""
        match order:
            case ClockUpdate():
                return order.bridge_ns - self._start_ns
            case Stop(t_ns=int(t_ns)):
                return t_ns
            case _:
                return NEVER

    def _due(self, until_ns: int) -> tuple[int, int]:
        """Return bridge time since step 0, and the step that is due now, at ``until_ns`` at
        most.
        """
        due_ns = min(self._mapping.at(machine_ns()) - self._start_ns, until_ns)
        due = self._simulation.step_at(due_ns)
        return due_ns, due if self._end is None else min(due, self._end)

    def _step(self, until_ns: int) -> tuple[int, int]:
        """Make the steps that are due, report them, and return what :meth:`_due` said."""
        simulation = self._simulation
        due_ns, due = self._due(until_ns)
        if due <= simulation.steps:
            return due_ns, due
        if not simulation.programs.ready(PATIENCE_NS):
            return due_ns, due
        due_ns, due = self._due(until_ns)  # now that the steps begin
        until = min(due, simulation.steps + _CHUNK)
        before = simulation.steps
        waits = simulation.programs.waits
        batches = simulation.advance(until, due, machine_ns() + _CHUNK_NS)
        made = simulation.steps
        waited = simulation.programs.waits > waits
        if due > self._planned or waited:
            self.late += made - before - (made == due and not waited)  # what follows a wait is late
        self._report(batches, due_ns)
        return due_ns, due

    def _report(self, batches: list[VehicleBatch], due_ns: int) -> None:
        for batch in batches:
            batch.late, batch.behind_ns = self.late, due_ns - batch.t_ns
            self._on_batch(batch)

    def _apply(self, order: Order) -> None:
        match order:
            case ClockUpdate():
                self._mapping = order.mapping()
            case Stop(t_ns=int(t_ns)):
                self._end = max(self._simulation.step_at(t_ns), self._simulation.steps)
            case Start() | Stop():
                return
            case _:
                self._simulation.order(order)
