"""A transport read by the event loop until it hangs up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from vil_bridge.core.clock import now_ns
from vil_bridge.protocols.transports import Transport

__all__ = ["TransportReader"]

logger = logging.getLogger(__name__)

_MAX_READS_PER_WAKE: Final = 64


class TransportReader:
    """Reader of a transport; use it as a context manager in a running loop.

    Args:
        name: of the user of the reader, for the log.
        wire: to read.
        on_data: called with what came at once, a whole datagram where there are such, and its arrival time.
        on_read: called when all that waited was taken.

    Attributes:
        ended: done when the wire hung up; raises what a callback raised.
    """

    def __init__(
        self,
        name: str,
        wire: Transport,
        on_data: Callable[[bytes, int], None],
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._wire = wire
        self._on_data = on_data
        self._on_read = on_read

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._wire.fileno(), self._on_readable)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._wire.fileno())

    def _on_readable(self) -> None:
        try:
            self._drain()
        except Exception as exc:
            if not self.ended.done():
                self.ended.set_exception(exc)

    def _drain(self) -> None:
        for _ in range(_MAX_READS_PER_WAKE):
            data = self._wire.receive()
            t_arrival_ns = now_ns()
            if data is None:
                break
            if not data:
                logger.info("%s: %s hung up", self._name, self._wire.place)
                # A level-triggered loop would call again and again until somebody has noticed.
                asyncio.get_running_loop().remove_reader(self._wire.fileno())
                if not self.ended.done():
                    self.ended.set_result(None)
                break
            self._on_data(data, t_arrival_ns)
        self._on_read()
