"""The control channel's transport: small JSON messages between many clients and the daemon.

One ROUTER socket in the asyncio loop, with two implementations of one interface: aiozmq where it
can be imported, else the drain adapter. Images never travel here, since aiozmq copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import zmq

from vil_bridge.core.errors import SinkError
from vil_bridge.core.wire.drain import DrainSocket
from vil_bridge.core.wire.zmq_peers import PeerCounter
from vil_bridge.stream.guard import StreamGuard, context_of

__all__ = ["MAX_MESSAGE_BYTES", "AiozmqControl", "ControlHandler", "ControlServer", "DrainControl", "open_control"]

MAX_MESSAGE_BYTES: Final = 64 * 1024
_QUEUE_MESSAGES: Final = 100  # per client and direction
_HANDSHAKE_MS: Final = 3000  # a peer that connects and does not speak ZeroMQ is cut off after this

ControlHandler = Callable[[bytes, bytes], None]


class ControlServer(Protocol):
    """Hands ``(identity, payload)`` to the handler it was made with, in the loop's thread.

    Attributes:
        malformed: messages dropped because they were not one payload.
        peers: connections refused and ended, by reason; as of the last :meth:`count_peers`.
    """

    malformed: int
    peers: dict[str, int]

    async def start(self) -> None:
        """Bind and begin to receive.

        Raises:
            SinkError: the address cannot be bound.
        """
        ...

    @property
    def endpoint(self) -> str:
        """The bound address, with the real port."""
        ...

    def send(self, identity: bytes, payload: bytes) -> None:
        """Send now, or never: a client that is gone or does not read loses its messages."""
        ...

    def count_peers(self) -> None:
        """Bring ``peers`` up to date; called now and then."""
        ...

    def close(self) -> None:
        """Release the address; may be called twice."""
        ...


class _RouterControl:
    """What both implementations share: the socket, its limits and the check of a message's shape."""

    def __init__(self, bind: str, handler: ControlHandler, guard: StreamGuard | None = None) -> None:
        self._bind = bind
        self._handler = handler
        self._guard = guard
        self._endpoint = bind
        self.malformed = 0
        self.peers: dict[str, int] = {}
        self._peer_counter: PeerCounter | None = None

    @property
    def endpoint(self) -> str:
        return self._endpoint

    def count_peers(self) -> None:
        if self._peer_counter is not None:
            self._peer_counter.update()

    def close(self) -> None:
        if self._peer_counter is not None:
            self._peer_counter.close()
            self._peer_counter = None

    def _bound_socket(self) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = context_of(self._guard).socket(zmq.ROUTER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        socket.setsockopt(zmq.RCVHWM, _QUEUE_MESSAGES)
        socket.setsockopt(zmq.SNDHWM, _QUEUE_MESSAGES)
        socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        if self._guard is not None:
            self._guard.protect(socket)
        self._peer_counter = PeerCounter(socket, self.peers)
        try:
            socket.bind(self._bind)
        except zmq.ZMQError as exc:
            self._peer_counter.close()
            socket.close(linger=0)
            told = f"stream.bind: cannot listen on {self._bind}: {zmq.strerror(exc.errno or 0)}"
            raise SinkError(f"{told}; is another bridge running? `vil-bridge doctor CONFIG` names who has it") from exc
        self._endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return socket

    def _on_message(self, frames: list[bytes]) -> None:
        if len(frames) != 2:
            self.malformed += 1
            return
        self._handler(frames[0], frames[1])


class DrainControl(_RouterControl):
    """The control channel on the drain adapter."""

    def __init__(self, bind: str, handler: ControlHandler, guard: StreamGuard | None = None) -> None:
        super().__init__(bind, handler, guard)
        self._drain: DrainSocket | None = None

    async def start(self) -> None:
        """Bind and begin to receive."""
        self._drain = DrainSocket(self._bound_socket(), self._on_message)

    def send(self, identity: bytes, payload: bytes) -> None:
        """Send now or never."""
        if self._drain is not None:
            self._drain.send((identity, payload))

    def close(self) -> None:
        """Release the address."""
        super().close()
        if self._drain is not None:
            self._drain.close()
            self._drain = None


class AiozmqControl(_RouterControl):
    """The control channel on aiozmq's protocol interface."""

    def __init__(self, bind: str, handler: ControlHandler, guard: StreamGuard | None = None) -> None:
        super().__init__(bind, handler, guard)
        self._transport: Any = None

    async def start(self) -> None:
        """Bind and begin to receive."""
        import aiozmq  # lazily: it does not import on Python 3.14

        protocol = _AiozmqProtocol(self._on_message)
        socket = self._bound_socket()
        self._transport, _ = await aiozmq.create_zmq_connection(lambda: protocol, zmq.ROUTER, zmq_sock=socket)

    def send(self, identity: bytes, payload: bytes) -> None:
        """Send now or never."""
        if self._transport is not None:
            self._transport.write((identity, payload))

    def close(self) -> None:
        """Release the address."""
        super().close()
        if self._transport is not None:
            self._transport.abort()  # not close(), which would wait for clients that do not read
            self._transport = None


class _AiozmqProtocol:
    """What aiozmq calls; it asks for the methods, not for the base class."""

    def __init__(self, on_message: Callable[[list[bytes]], None]) -> None:
        self.msg_received = on_message

    def connection_made(self, transport: object) -> None:
        """The socket is in the loop."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""

    def pause_writing(self) -> None:
        """Cannot happen: a ROUTER drops what it cannot queue."""

    def resume_writing(self) -> None:
        """Cannot happen either."""


def open_control(bind: str, handler: ControlHandler, guard: StreamGuard | None = None) -> ControlServer:
    """The control channel on aiozmq where that imports, else on the drain adapter; not started yet."""
    try:
        import aiozmq  # noqa: F401
    except ImportError:
        return DrainControl(bind, handler, guard)
    return AiozmqControl(bind, handler, guard)
