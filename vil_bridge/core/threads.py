"""Threads that see what their starter sees: the bridge's clock, above all."""

from __future__ import annotations

import contextvars
import threading


class ContextThread(threading.Thread):
    """Thread that runs in a copy of the context in which it was started, as tasks and callbacks of a loop do."""

    def start(self) -> None:
        """Start in a copy of the caller's context."""
        self._context = contextvars.copy_context()
        super().start()

    def run(self) -> None:
        """Call the target in that context."""
        self._context.run(super().run)
