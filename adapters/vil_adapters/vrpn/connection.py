"""One TCP connection to a VRPN peer, reached directly or by asking it to connect to us."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Final, cast

from vil_bridge.core.clock import now_ns
from vil_bridge.protocols.vrpn.codec import encode_connect_request

_UNREAD_LIMIT_BYTES: Final = 1 << 18

OnData = Callable[[bytes, int], None]
OnMade = Callable[["VrpnConnection"], None]


class VrpnConnection(asyncio.Protocol):
    """Connection that passes received bytes to a handler, stamped on arrival; an exception closes it.

    ``on_made`` is called before the first bytes.

    Attributes:
        closed: done when the connection has ended, with the handler's exception if there was one.
        peer: the other end's address and port.
    """

    def __init__(self, on_data: OnData, on_made: OnMade) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.peer: tuple[str, int] = ("", 0)
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
            self.abort()
        else:
            self._transport.write(data)

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


async def connect(ip: str, port: int, on_data: OnData, on_made: OnMade, timeout_s: float) -> VrpnConnection:
    """Connect directly.

    Raises:
        OSError: refused, no route, or no answer in time (``TimeoutError``).
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        _, link = await loop.create_connection(lambda: VrpnConnection(on_data, on_made), ip, port)
    return link


async def call_back(
    ip: str, port: int, on_data: OnData, on_made: OnMade, timeout_s: float
) -> tuple[VrpnConnection, int]:
    """Ask by UDP to be connected to; also return how many other peers were rejected before.

    Raises:
        OSError: refused, no route, or no connection in time (``TimeoutError``).
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[VrpnConnection] = loop.create_future()
    rejected = 0

    def admit(link: VrpnConnection) -> None:
        nonlocal rejected
        if arrived.done() or link.peer[0] != ip:
            rejected += 1
            link.abort()
        else:
            on_made(link)
            arrived.set_result(link)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        asking.connect((ip, port))
        local_ip = asking.getsockname()[0]
        server = await loop.create_server(lambda: VrpnConnection(on_data, admit), local_ip, 0)
        try:
            asking.send(encode_connect_request(local_ip, server.sockets[0].getsockname()[1]))
            async with asyncio.timeout(timeout_s):
                return await arrived, rejected
        except TimeoutError:
            refusal = asking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if refusal:
                raise OSError(refusal, os.strerror(refusal)) from None
            raise
        except asyncio.CancelledError:
            if arrived.done() and not arrived.cancelled():
                arrived.result().abort()
            raise
        finally:
            server.close()


_CURES: Final = {
    errno.ECONNREFUSED: "refuses: that computer is up, but nothing listens there; is VRPN streaming enabled?",
    errno.ENETUNREACH: "is out of reach, no route: is this computer on the server's network?",
    errno.EHOSTUNREACH: "is not on this network: is it on, and is its address right?",
    errno.ECONNRESET: "ends each connection at once",
}


def explain(error: OSError) -> str:
    """Return what the network reported, and what to check; continues "the server..."."""
    if isinstance(error, TimeoutError):
        return "does not answer: is that computer on, and does its firewall let VRPN in?"
    return _CURES.get(error.errno or 0, f"cannot be reached: {error.strerror or error}")
