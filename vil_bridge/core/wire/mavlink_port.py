"""MAVLink in and out of one opening of a wire, read by the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final

from vil_bridge.core.clock import now_ns
from vil_bridge.core.wire import mavlink
from vil_bridge.core.wire.lines import Wire

__all__ = ["Address", "MavlinkPort"]

logger = logging.getLogger(__name__)

Address = tuple[int, int]
"""System and component."""

_MAX_READS_PER_WAKE: Final = 64


class MavlinkPort:
    """Numbers what is sent and tells each message that comes; use it as a context manager in a running loop.

    Args:
        name: of whoever uses it, for the log.
        address: to send as.
        counters: gets ``bad_crc``, ``garbage_bytes``, ``malformed`` (datagrams) and ``unsent``.
        on_message: called with a message and its arrival time.
        on_read: called when all that waited was taken.

    Attributes:
        ended: done when the wire hung up; raises what a callback raised.
    """

    def __init__(
        self,
        name: str,
        wire: Wire,
        address: Address,
        counters: Counter[str],
        on_message: Callable[[mavlink.Message, int], None],
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._wire = wire
        self._address = address
        self._counters = counters
        self._on_message = on_message
        self._on_read = on_read
        self._parser = mavlink.Parser()
        self._last_counts = (0, 0)
        self._sequence = 0

    def __enter__(self) -> MavlinkPort:
        asyncio.get_running_loop().add_reader(self._wire.fileno(), self._on_readable)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._wire.fileno())

    def send(self, body: mavlink.Body) -> None:
        """Write a message now, or count it as ``unsent``."""
        system, component = self._address
        frame = mavlink.encode(body, self._sequence, system=system, component=component)
        self._sequence += 1
        if not self._wire.send(frame):
            self._counters["unsent"] += 1

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
            for message in self._parser.feed(data):
                self._on_message(message, t_arrival_ns)
            self._count()
        self._on_read()

    def _count(self) -> None:
        """Keep the parser's counts of this opening in the owner's counters."""
        parser, counters = self._parser, self._counters
        if self._wire.datagrams:
            parser.end()
        bad_crc, garbage = self._last_counts
        if (parser.bad_crc, parser.garbage) != self._last_counts:
            counters["bad_crc"] += parser.bad_crc - bad_crc
            counters["garbage_bytes"] += parser.garbage - garbage
            counters["malformed"] += self._wire.datagrams  # in a stream there is nothing to count but bytes
            self._last_counts = (parser.bad_crc, parser.garbage)
