"""Event loops: failures that no caller awaits (callbacks, tasks, transports), and calls from
other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections import Counter
from collections.abc import Coroutine, Generator, Iterator
from typing import Any, Final

from vil_bridge.core.errors import VilBridgeError
from vil_bridge.interfaces.bulkhead import OWNER, Bulkhead

logger = logging.getLogger(__name__)


class LoopErrors:
    """The exception handler of a loop.

    A peer's failure is counted, a bug goes to the supervisor or its bulkhead.

    asyncio alone would log a failing callback and go on, for ever, its work undone.

    Attributes:
        counters: what came, by type of the exception ("other": without one).
        failed: the first bug of the bridge itself: neither a ``VilBridgeError`` nor an ``OSError``,
            and not of a part behind a bulkhead, which fails alone. Python 3.11 also reports stream
            servers' tasks that were cancelled, which is none.
    """

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.failed: BaseException | None = None

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Handle the errors of the running loop."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler(), loop.get_task_factory()
        loop.set_exception_handler(self._handle)
        loop.set_task_factory(_make_task)
        try:
            yield
        finally:
            loop.set_exception_handler(before[0])
            loop.set_task_factory(before[1])

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error: BaseException | None = context.get("exception")
        kind = "other" if error is None else type(error).__name__
        self.counters[kind] += 1
        if error is None or isinstance(error, (VilBridgeError, OSError, asyncio.CancelledError)):
            level = logging.WARNING if self.counters[kind] == 1 else logging.DEBUG
            logger.log(level, "in the event loop: %s: %s", context["message"], error)
        elif (owner := _owner_of(context)) is not None:
            owner.fail(error)
        elif self.failed is None:
            self.failed = error
            loop.default_exception_handler(context)


class _OwnedTask(asyncio.Task[Any]):
    """A task of a part behind a bulkhead.

    It may have no awaiter, and its context is private before Python 3.12.
    """

    owner: Bulkhead


def _make_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    context: contextvars.Context | None = None,
    **options: Any,
) -> asyncio.Task[Any]:
    owner = OWNER.get() if context is None else context.get(OWNER)
    if owner is None:
        return asyncio.Task(work, loop=loop, context=context, **options)
    task = _OwnedTask(work, loop=loop, context=context, **options)
    task.owner = owner
    return task


def _owner_of(context: dict[str, Any]) -> Bulkhead | None:
    """Return the bulkhead in which the failing callback or task was created.

    A callback's own context is private before Python 3.12; transports call the handler within it.
    """
    if isinstance(task := context.get("future"), _OwnedTask):
        return task.owner
    created_in: contextvars.Context | None = getattr(context.get("handle"), "_context", None)
    return OWNER.get() if created_in is None else created_in.get(OWNER)


_LIMIT_S: Final = 10.0


class LoopBusyError(VilBridgeError):
    """The loop did not get to it in time; it was not done."""


def in_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Have it done, and wait for that.

    Raises:
        LoopBusyError: the loop does not get to it within 10 s; it is cancelled then. And whatever
            the work raises.
    """
    given_up = threading.Event()
    doing = asyncio.run_coroutine_threadsafe(_done(work, given_up), loop)
    try:
        doing.result(_LIMIT_S)
    except TimeoutError:
        # Or a loop that comes back would take its first step before it hears of the end.
        given_up.set()
        if not doing.cancel():  # it was done at the last moment
            return doing.result()
        raise LoopBusyError(
            f"the bridge did not get to it within {_LIMIT_S:.0f} s: its status says why"
        ) from None


async def _done(work: Coroutine[Any, Any, None], given_up: threading.Event) -> None:
    if given_up.is_set():
        work.close()
    else:
        await work
