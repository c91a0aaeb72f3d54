"""Threads that wait for descriptors: renderer connections and relays."""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Callable, Sequence

from vil_bridge.core.clock import NS_PER_S, machine_ns

__all__ = ["POLL_MS", "PollThread"]

logger = logging.getLogger(__name__)

POLL_MS = 100
"""Longest wait: what a thread answers that has nothing due."""


class PollThread:
    """Calls ``work`` when a descriptor is readable or its time has come.

    Args:
        fds: read by ``work`` until empty.
        work: does what is due; returns milliseconds until the next call is useful at the latest.

    Attributes:
        failed: the exception that ended it, which is a bug.
    """

    def __init__(self, name: str, fds: Sequence[int], work: Callable[[], int]) -> None:
        self.failed: BaseException | None = None
        self._fds = tuple(fds)
        self._work = work
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """It ends within :data:`POLL_MS`, or once what it does is done."""
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
                wait_ms = self._work()
        except BaseException as exc:
            logger.exception("%s failed", self._thread.name)
            self.failed = exc
