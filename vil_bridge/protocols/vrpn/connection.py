"""One TCP connection to a VRPN peer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Final, cast

from vil_bridge.core.clock import now_ns

_UNREAD_LIMIT_BYTES: Final = 1 << 18

OnData = Callable[[bytes, int], None]
OnMade = Callable[["VrpnConnection"], None]


class VrpnConnection(asyncio.Protocol):
    """Connection that passes received bytes to a handler, stamped on arrival.

    An exception closes it.

    ``on_made`` is called before the first bytes.

    Attributes:
        closed: done when the connection has ended, with the handler's exception if there was one.
        peer: the other end's address and port.
        overrun: it was closed since the peer did not read what was sent.
    """

    def __init__(self, on_data: OnData, on_made: OnMade) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.peer: tuple[str, int] = ("", 0)
        self.overrun = False
        self._on_data = on_data
        self._on_made = on_made
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport (called by the loop)."""
        self._transport = cast(asyncio.Transport, transport)
        self.peer = transport.get_extra_info("peername")[:2]
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the handler (called by the loop)."""
        t_arrival_ns = now_ns()
        if self.closed.done():
            return
        try:
            self._on_data(data, t_arrival_ns)
        except Exception as exc:
            self._finish(exc)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever the reason
        """End the connection (called by the loop)."""
        self._finish(None)

    def send(self, data: bytes) -> None:
        """Write messages; a peer that does not read them is disconnected."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > _UNREAD_LIMIT_BYTES:
            self.overrun = True
            self.abort()
        else:
            self._transport.write(data)

    def watch_peer(self, dead_after_s: int, probes: Iterable[tuple[int, int]]) -> None:
        """Let the system end the connection of a peer whose computer is gone.

        Args:
            dead_after_s: time for which bytes may stay unacknowledged.
            probes: TCP options of the probes of an idle connection, with their values.
        """
        if self._transport is None:
            return
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, dead_after_s * 1000)
        for option, value in probes:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def abort(self) -> None:
        """Close at once; may be called twice."""
        if self._transport is not None:
            self._transport.abort()
        self._finish(None)

    def _finish(self, exc: Exception | None) -> None:
        if self.closed.done():
            return
        if exc is None:
            self.closed.set_result(None)
        else:
            self.closed.set_exception(exc)
            self.closed.exception()  # no task may await it
