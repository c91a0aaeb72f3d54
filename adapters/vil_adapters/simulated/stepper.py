"""Steps in bridge time: at each step's instant, with missed steps caught up and all of them reported."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterable
from typing import Final

from vil_adapters.simulated.ipc import ClockUpdate, Order, Start, Stop, VehicleBatch
from vil_adapters.simulated.simulation import PATIENCE_NS, Simulation
from vil_bridge.core.bridge_time import REAL_TIME, TimeMapping
from vil_bridge.core.clock import NS_PER_S, arm_timerfd, machine_ns, open_timerfd

_CHUNK: Final = 96
"""Steps made before orders are looked at again while it catches up."""
_IDLE_S: Final = 0.1


class WakeupTimer:
    """Timer that sleeps until an instant of the machine's clock, or until :meth:`wake`."""

    def __init__(self, also_fd: int | None = None) -> None:
        self._timer = open_timerfd() if sys.platform == "linux" else -1
        self._wake_end, self._wake_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if sys.platform == "linux" else os.pipe()
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
    """Driver that advances a simulation as bridge time passes; runs in a thread or a process of its own.

    Args:
        simulation: at step 0. start_ns: bridge time of step 0. mapping: how bridge time follows the machine's.
        orders: yields orders since the last call. on_batch: called with every batch.

    Attributes:
        late: steps begun more than a period after their own tick, caught up with the next.
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
            for order in self._orders():
                if isinstance(order, Stop) and order.t_ns is None:
                    return
                self._apply(order)
            simulation.programs.listen()
            due_ns, due = self._due()
            if due > simulation.steps:
                self._step()
            elif simulation.has_news or (simulation.has_changed and self._wakes_at() is None):
                self._report([simulation.batch(pose=False)], due_ns)  # time may stand still
            if self._end is not None and simulation.steps >= self._end:
                self._report([simulation.batch()], due_ns)
                return
            self._timer.sleep(self._wakes_at())

    def _wakes_at(self) -> int | None:
        """Return when the next step is due on the machine's clock; None while time stands still."""
        return self._mapping.when(self._start_ns + self._simulation.t_of(self._simulation.steps + 1))

    def _due(self) -> tuple[int, int]:
        """Return bridge time since step 0, and the step that is due now."""
        due_ns = self._mapping.at(machine_ns()) - self._start_ns
        due = self._simulation.step_at(due_ns)
        return due_ns, due if self._end is None else min(due, self._end)

    def _step(self) -> None:
        if not self._simulation.programs.ready(PATIENCE_NS):
            return
        due_ns, due = self._due()  # now that the steps begin
        until = min(due, self._simulation.steps + _CHUNK)
        before, waits = self._simulation.steps, self._simulation.programs.waits
        batches = self._simulation.advance(until, due)
        made = self._simulation.steps
        in_time = made == due and waits == self._simulation.programs.waits  # the last one; what follows a wait is late
        self.late += made - before - in_time
        self._report(batches, due_ns)

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
