"""Pause, step and speed of a simulation, and a world that waits for its pictures."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from vil_bridge.config.simulation import SimulationConfig
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.core.clock import NS_PER_MS, Ticker, machine_ns
from vil_bridge.monitoring.snapshot import SimulationView

_CHECK_NS: Final = 250 * NS_PER_MS
_UPWARDS: Final = 1.25
"""Time is offered more than it took lately, so that it finds out soon when pictures come faster
again.
"""
_SLOWEST: Final = 0.05


class SimulationClock:
    """Control of a bridge's clock; every method but :meth:`passing` is for any thread.

    Pictures are waited for in two ways at once: schedulers bound the clock, which skips none, and
    the rate follows what was reached lately, so that time passes evenly instead of in jerks.

    Attributes:
        clock: the bridge's own.
    """

    def __init__(self, config: SimulationConfig) -> None:
        self.clock = BridgeTime()
        self._config = config
        self._lock = threading.Lock()
        self._speed = config.speed
        self._paused = config.paused
        self._reached = self._pace
        self._seen = (0, 0)

    @property
    def _pace(self) -> float:
        if self._paused:
            return 0.0
        return self._speed

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        """Put the clock in force and let time pass as configured, in the running loop.

        Real time afterwards.
        """
        with self.clock.in_force():
            if self._config.clock == "real":
                yield
                return
            self.clock.run(self._pace)
            self._seen = machine_ns(), self.clock.now_ns()
            ticker = Ticker(_CHECK_NS, lambda _due, _missed: self._check(), machine=True)
            ticker.start()
            try:
                yield
            finally:
                ticker.stop()
                self.clock.real()

    def state(self) -> SimulationView:
        """Return how time passes now."""
        return SimulationView(
            self._config.clock, self._paused, self._speed, self._reached, self.clock.now_ns()
        )

    def set_pace(self, *, paused: bool | None = None, speed: float | None = None) -> None:
        """Pause, go on, or change the speed.

        Raises:
            ValueError: the bridge runs in real time.
        """
        with self._lock:
            self._need_simulation()
            if paused is not None:
                self._paused = paused
            if speed is not None:
                self._speed = speed
            # Another speed does not end a step that is under way.
            if paused is not None or not self._paused:
                self.clock.run(self._pace)
                # What was reached before says nothing of this pace.
                self._seen = machine_ns(), self.clock.now_ns()

    def step(self, duration_ns: int) -> None:
        """Let a paused world go on for a while, behind a step that is under way.

        Raises:
            ValueError: the bridge runs in real time, or is not paused.
        """
        with self._lock:
            self._need_simulation()
            if not self._paused:
                raise ValueError("the simulation is running: pause it before stepping")
            self.clock.run(self._speed, duration_ns)

    def _need_simulation(self) -> None:
        if self._config.clock == "real":
            raise ValueError(
                "this bridge runs in real time: set `simulation: {clock: simulated}` in "
                "its configuration"
            )

    def _check(self) -> None:
        """Record what was reached; offer the world a rate that it can hold."""
        t_machine_ns = machine_ns()
        t_ns = self.clock.now_ns()
        with self._lock:
            if t_machine_ns - self._seen[0] < _CHECK_NS // 2:
                return
            self._reached = (t_ns - self._seen[1]) / max(1, t_machine_ns - self._seen[0])
            self._seen = t_machine_ns, t_ns
            if self._config.wait_for_cameras and not self._paused:
                self.clock.run(min(self._speed, max(_SLOWEST, _UPWARDS * self._reached)))
