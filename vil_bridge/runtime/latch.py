"""A signal that is given once, from any thread to tasks of any loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable


class Latch:
    """Closed until :meth:`release`, open for good afterwards; any thread."""

    def __init__(self) -> None:
        self._released = False
        self._waiting: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def release(self) -> None:
        """Let all pass that wait, and those that come later; may be called again, at no cost."""
        if self._released:
            return
        with self._lock:
            self._released = True
            waiting = self._waiting
            self._waiting = []
        for wake in waiting:
            wake()

    async def passed(self) -> None:
        """Return as soon as it has been released."""
        loop, passed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # That loop has been closed, and its tasks with it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(passed.set)

        with self._lock:
            if self._released:
                return
            self._waiting.append(wake)
        try:
            await passed.wait()
        finally:
            with self._lock:
                if wake in self._waiting:
                    self._waiting.remove(wake)
