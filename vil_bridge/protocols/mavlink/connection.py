"""MAVLink in and out of one opened transport, read by the event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.transports import Transport, TransportReader

Address = tuple[int, int]
"""System and component."""


class MavlinkConnection(TransportReader):
    """MAVLink messages over a transport; use it as a context manager in a running loop.

    Args:
        name: of the user of the connection, for the log.
        transport: to read and write.
        address: to send as.
        counters: gets ``bad_crc``, ``garbage_bytes``, ``malformed`` (datagrams) and ``unsent``.
        on_message: called with a message and its arrival time.
        on_read: called when all that waited was taken.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        address: Address,
        counters: Counter[str],
        on_message: Callable[[framing.MavlinkMessage, int], None],
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name, transport, self._handle, on_read)
        self._address = address
        self._counters = counters
        self._on_message = on_message
        self._parser = framing.MavlinkParser()
        self._last_counts = (0, 0)
        self._sequence = 0

    def send(self, body: mavlink.Body) -> None:
        """Write a message now, or count it as ``unsent``."""
        system, component = self._address
        frame = framing.encode(body, self._sequence, system=system, component=component)
        self._sequence += 1
        if not self._transport.send(frame):
            self._counters["unsent"] += 1

    def _handle(self, data: bytes, t_arrival_ns: int) -> None:
        for message in self._parser.feed(data):
            self._on_message(message, t_arrival_ns)
        self._count()

    def _count(self) -> None:
        """Keep the parser's counts of this opening in the owner's counters."""
        parser = self._parser
        counters = self._counters
        if self._transport.datagrams:
            parser.end()
        bad_crc, garbage = self._last_counts
        if (parser.bad_crc, parser.garbage) != self._last_counts:
            counters["bad_crc"] += parser.bad_crc - bad_crc
            counters["garbage_bytes"] += parser.garbage - garbage
            # In a stream there is nothing to count but bytes.
            counters["malformed"] += self._transport.datagrams
            self._last_counts = (parser.bad_crc, parser.garbage)
