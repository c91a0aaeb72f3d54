"""What fails inside an event loop where nobody awaits it: callbacks, forgotten tasks, transports."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

from vil_bridge.core.errors import VilBridgeError

__all__ = ["LoopErrors"]

logger = logging.getLogger(__name__)


class LoopErrors:
    """The exception handler of a loop: a peer's trouble is counted, a bug is kept for the supervisor.

    asyncio alone would log a failing callback and go on, for ever, with whatever it left undone.

    Attributes:
        counters: what came, by type of the exception ("other": told without one).
        failed: the first that is neither a ``VilBridgeError`` nor an ``OSError``, which is a bug. Python 3.11
            also tells of stream servers' tasks that were cancelled, which is none.
    """

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.failed: BaseException | None = None

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Handle the errors of the running loop."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        loop.set_exception_handler(self._take)
        try:
            yield
        finally:
            loop.set_exception_handler(before)

    def _take(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error: BaseException | None = context.get("exception")
        kind = "other" if error is None else type(error).__name__
        self.counters[kind] += 1
        if error is None or isinstance(error, (VilBridgeError, OSError, asyncio.CancelledError)):
            level = logging.WARNING if self.counters[kind] == 1 else logging.DEBUG
            logger.log(level, "in the event loop: %s: %s", context["message"], error)
        elif self.failed is None:
            self.failed = error
            loop.default_exception_handler(context)
