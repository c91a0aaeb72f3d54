"""Failure isolation (the bulkhead pattern): a bug in an accessory part stays within that part."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from vil_bridge.core.errors import SinkError, VilBridgeError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray
from vil_bridge.interfaces.ports import FrameSink

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

OWNER: Final[contextvars.ContextVar[Bulkhead | None]] = contextvars.ContextVar(
    "owner", default=None
)
"""The bulkhead in which a task or callback of the event loop was created.

None = it belongs to the bridge itself.
"""


class Bulkhead:
    """Boundary around one part, which fails alone, by whatever exception and in whatever thread.

    Args:
        name: of the part, for the log.
        on_failure: called with the exception with which it fails, in the thread that met it.
    """

    def __init__(
        self, name: str, on_failure: Callable[[BaseException], None] | None = None
    ) -> None:
        self._name = name
        self._on_failure = on_failure
        self._error: BaseException | None = None
        self._raised = False
        self._wake: Callable[[], object] = lambda: None

    @property
    def failed(self) -> bool:
        """True from a failure until the part runs again."""
        return self._error is not None

    def fail(self, error: BaseException) -> None:
        """Report an exception of the part; any thread."""
        if self._error is not None:
            return
        self._error = error
        self._raised = False
        if not _expected(error):
            logger.error("%s has a bug and fails alone", self._name, exc_info=error)
        if self._on_failure is not None:
            self._on_failure(error)
        self._wake()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run the part's coroutine function until it ends, or until :meth:`fail` is called, which
        cancels it.

        Raises:
            VilBridgeError, OSError: as the part raised it.
            SinkError: the part has a bug.
        """
        loop = asyncio.get_running_loop()
        failing: asyncio.Future[None] = loop.create_future()
        if self._raised:
            self._error = None
        self._wake = lambda: loop.call_soon_threadsafe(failing.cancel)
        working = loop.create_task(self._contained(work), context=self._context())
        if self.failed:  # before it began
            failing.cancel()
        try:
            await asyncio.wait((working, failing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._wake = lambda: None
            failing.cancel()
            working.cancel()
            await asyncio.wait((working,))
        if not working.cancelled() and (error := working.exception()) is not None:
            self.fail(error)
        self._raise_failure()

    async def _contained(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except SystemExit as exc:  # a task would end the event loop with it
            self.fail(exc)

    def _raise_failure(self) -> None:
        error = self._error
        if error is None:
            return
        self._raised = True
        if _expected(error):
            raise error
        raise SinkError(
            f"bug: {describe(error)}. Report it with the traceback in the log"
        ) from error

    def call(self, act: Callable[..., Any], *arguments: object) -> Any:
        """Call a function of the part and return its result.

        None while the part has failed, or when it fails now.
        """
        if self.failed:
            return None
        try:
            return self._context().run(act, *arguments)
        except BaseException as exc:  # a library's panic is not an Exception
            self.fail(exc)
            return None

    def owned(self, act: Callable[..., _T], *arguments: object) -> _T:
        """Call a function, whose tasks, callbacks and sink threads then belong to the part.

        Raises what it raises.
        """
        return self._context().run(act, *arguments)

    def _context(self) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(OWNER.set, self)
        return context

    def sink(self, sink: FrameSink) -> FrameSink:
        """Return a sink of the part behind this boundary: silent while the part has failed."""
        return GuardedSink(sink, self)


class GuardedSink:
    """A :class:`~vil_bridge.interfaces.ports.FrameSink` whose exceptions go to its bulkhead, not to
    the camera's relay.
    """

    def __init__(self, sink: FrameSink, bulkhead: Bulkhead) -> None:
        self._sink = sink
        self._bulkhead = bulkhead

    def wanted(self, modality: str, variant: str) -> bool:
        """Return whether this kind of picture is wanted; False while the part has failed."""
        return bool(self._bulkhead.call(self._sink.wanted, modality, variant))

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Hand a picture over."""
        self._bulkhead.call(self._sink.offer, header, pixels)

    def flush(self) -> int | None:
        """Let it send what became possible; return when it wants to be called again."""
        due_ns: int | None = self._bulkhead.call(self._sink.flush)
        return due_ns

    def close(self) -> None:
        """Release what it holds."""
        try:
            self._sink.close()
        except BaseException as exc:
            self._bulkhead.fail(exc)


def describe(error: BaseException) -> str:
    """Return an exception's type and text."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _expected(error: BaseException) -> bool:
    """Return whether a peer or the system can cause it, so that it is not a bug."""
    return isinstance(error, (VilBridgeError, OSError))
