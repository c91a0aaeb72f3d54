"""Playback of captured datagrams with their original spacing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Final

from vil_adapters.sessions.callbacks import guarded
from vil_bridge.core.clock import NS_PER_MS, Ticker, now_ns
from vil_bridge.core.errors import RecordingError
from vil_bridge.runtime.datagrams import Datagram
from vil_bridge.runtime.delay_line import DelayLine

logger = logging.getLogger(__name__)

_AHEAD_NS: Final = 500 * NS_PER_MS
_PERIOD_NS: Final = 100 * NS_PER_MS
_MOST_AHEAD: Final = 10_000


class Playback:
    """Delivery of captured datagrams at their times. A damaged capture plays up to the damage.

    Args:
        datagrams: of a capture, in its order.
        begin_ns: time of the capture (Unix time) at which it begins.
        deliver: called with each datagram at its time.
        foresee: called with each up to half a second before that.

    Attributes:
        ended: done when the last datagram was delivered, or a callback raised.
    """

    def __init__(
        self,
        datagrams: Iterator[Datagram],
        begin_ns: int,
        deliver: Callable[[Datagram], None],
        foresee: Callable[[Datagram], None] = lambda _: None,
    ) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begun = False
        self._datagrams = datagrams
        self._lead_ns = -begin_ns
        self._foresee = foresee
        self._next: Datagram | None = None
        self._line = DelayLine(guarded(self.ended, deliver))
        self._ticker = Ticker(_PERIOD_NS, guarded(self.ended, self._on_tick))

    def start(self) -> None:
        """Begin now."""
        self.begun = True
        self._lead_ns += now_ns()
        self._next = self._read()
        self._read_ahead()
        self._ticker.start()

    def capture_ns(self) -> int:
        """Return the time of the capture now."""
        return now_ns() - self._lead_ns

    def close(self) -> None:
        """Deliver nothing more."""
        self._ticker.stop()
        self._line.close()

    def _on_tick(self, _due_ns: int, _missed: int) -> None:
        self._read_ahead()
        if self._next is None and not len(self._line) and not self.ended.done():
            self.ended.set_result(None)

    def _read_ahead(self) -> None:
        until_ns = self.capture_ns() + _AHEAD_NS
        while (
            self._next is not None and self._next.t_ns <= until_ns and len(self._line) < _MOST_AHEAD
        ):
            self._foresee(self._next)
            self._line.enqueue(self._next.t_ns + self._lead_ns, self._next)
            self._next = self._read()

    def _read(self) -> Datagram | None:
        try:
            return next(self._datagrams, None)
        except RecordingError as exc:
            logger.warning("%s", exc)
            return None


class CapturedStream:
    """Stream of a capture's datagrams to one address, once.

    For systems that stream without requests.
    """

    def __init__(self, datagrams: Iterator[Datagram], host: str, port: int) -> None:
        self._datagrams = datagrams
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._to = host, port

    async def run(self) -> None:
        """Send until the capture ends.

        Raises:
            OSError: no route to the address.
        """
        with self._sock:
            first = next(self._datagrams, None)
            if first is None:
                return
            self._send(first)
            playback = Playback(self._datagrams, first.t_ns, self._send)
            with contextlib.closing(playback):
                playback.start()
                await playback.ended

    def _send(self, datagram: Datagram) -> None:
        self._sock.sendto(datagram.payload, self._to)
