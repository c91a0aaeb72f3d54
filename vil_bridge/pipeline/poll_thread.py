"""Threads that wait for descriptors: renderer connections and relays."""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Callable, Sequence

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.threads import ContextThread

logger = logging.getLogger(__name__)

POLL_MS = 100
"""Longest wait: what a thread answers that has nothing due."""


class PollThread:
    """Calls ``work`` when a descriptor is readable or its time has come.

    Args:
        fds: read by ``work`` until empty.
        work: does what is due; returns milliseconds until the next call is useful at the latest.

    Attributes:
        name: as given.
        failed: the exception that ended it, which is a bug.
    """

    def __init__(self, name: str, fds: Sequence[int], work: Callable[[], int]) -> None:
        self.failed: BaseException | None = None
        self.name = name
        self._busy_since_ns = 0
        self._fds = tuple(fds)
        self._work = work
        self._stopping = threading.Event()
        self._thread = ContextThread(target=self._run, name=name, daemon=True)

    @property
    def busy_s(self) -> float:
        """Seconds that it has worked without waiting, 0 while it waits. Any thread."""
        since_ns = self._busy_since_ns
        return (machine_ns() - since_ns) / NS_PER_S if since_ns else 0.0

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Ask it to end within :data:`POLL_MS`, or once what it does is done."""
        self._stopping.set()

    def join(self, deadline_ns: int) -> None:
        """Wait for its end, but not beyond the deadline (machine's clock)."""
        self._thread.join(max(0.0, (deadline_ns - machine_ns()) / NS_PER_S))

    def _run(self) -> None:
        try:
            poller = select.poll()
            for fd in self._fds:
                poller.register(fd, select.POLLIN)
            wait_ms = POLL_MS
            while not self._stopping.is_set():
                poller.poll(wait_ms)
                self._busy_since_ns = machine_ns()
                wait_ms = self._work()
                self._busy_since_ns = 0
        except BaseException as exc:
            logger.exception("%s failed", self._thread.name)
            self.failed = exc
