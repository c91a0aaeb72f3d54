"""Watchdog of the daemon itself: its loop, its threads, and signs of life for systemd."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, Ticker, machine_ns
from vil_bridge.monitoring.latency import StageHistogram
from vil_bridge.monitoring.systemd_notify import ServiceManager

HUNG_S: Final = 2.0
"""Time after which a stalled loop does not come back by itself."""
_BEAT_NS: Final = 100 * NS_PER_MS
_STATUS_PERIOD_NS: Final = 2 * NS_PER_S
_PINGS: Final = 4
"""Signs of life in each period of the service manager's watchdog."""


class Watchdog:
    """The heart of the realtime loop: ten beats a second, by the machine's clock.

    The service manager gets its signs of life from these beats, and none while a thread hangs: then
    a new process is the cure. Any thread may read.

    Args:
        busy_s: of each thread, how long it has been at what it does now.
        words: one line for ``systemctl status``.

    Attributes:
        loop_lag: how late the loop is.
        tasks: of the loop, counted now and then.
    """

    def __init__(
        self,
        busy_s: Callable[[], Mapping[str, float]],
        words: Callable[[], str],
        service: ServiceManager | None = None,
    ) -> None:
        self.loop_lag = StageHistogram()
        self.tasks = 0
        self._busy_s = busy_s
        self._words = words
        self._service = service or ServiceManager()
        watchdog_s = self._service.watchdog_s
        self._ping_ns = None if watchdog_s is None else round(watchdog_s * NS_PER_S / _PINGS)
        self._pinged_ns = self._status_ns = 0
        self._beat_ns: int | None = None
        self._ticker = Ticker(_BEAT_NS, self._beat, machine=True)

    def start(self) -> None:
        """Begin to beat, in the running loop."""
        self._beat_ns = machine_ns()
        self._ticker.start()

    def stop(self) -> None:
        """Stop beating."""
        self._ticker.stop()
        self._beat_ns = None
        self._service.close()

    def ready(self) -> None:
        """Report that the bridge serves."""
        self._service.ready()

    def stopping(self) -> None:
        """Report that the bridge was asked to end."""
        self._service.stopping()

    def hung(self) -> tuple[str, ...]:
        """Return what does not come back, as sentences."""
        beat_ns = self._beat_ns  # None from one look to the next when the bridge ends
        still_s = 0.0 if beat_ns is None else (machine_ns() - beat_ns) / NS_PER_S
        found: list[str] = []
        if still_s > HUNG_S:
            found.append(f"the realtime loop has not turned for {still_s:.1f} s")
        busy = ((name, s) for name, s in self._busy_s().items() if s > HUNG_S)
        return (
            *found,
            *(f"thread {name} has been at one piece of work for {s:.1f} s" for name, s in busy),
        )

    def _beat(self, due_ns: int, _missed: int) -> None:
        t_ns = self._beat_ns = machine_ns()
        self.loop_lag.record(t_ns - due_ns, t_ns)
        if (
            self._ping_ns is not None
            and t_ns - self._pinged_ns >= self._ping_ns
            and not self.hung()
        ):
            self._pinged_ns = t_ns
            self._service.alive()
        if t_ns - self._status_ns >= _STATUS_PERIOD_NS:
            self._status_ns = t_ns
            self.tasks = len(asyncio.all_tasks())
            if self._service.present:
                self._service.status(self._words())
