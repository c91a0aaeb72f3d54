"""Threads that see what their starter sees: the bridge's clock, above all."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from pathlib import Path
from typing import Final

_OWN_NAME: Final = Path("/proc/thread-self/comm")


class ContextThread(threading.Thread):
    """Thread that runs in a copy of the context in which it was started, as tasks and callbacks of
    a loop do.

    The system knows it by the first 15 bytes of its name, in ``top -H`` for example.
    """

    def start(self) -> None:
        """Start in a copy of the caller's context."""
        self._context = contextvars.copy_context()
        super().start()

    def run(self) -> None:
        """Call the target in that context."""
        with contextlib.suppress(OSError):  # another system than Linux
            _OWN_NAME.write_text(self.name, encoding="utf-8")
        self._context.run(super().run)
