"""The control channel's transport: small JSON messages between many clients and the daemon.

One ROUTER socket in the asyncio loop, with two implementations of one interface: aiozmq where it
can be imported, else the drain adapter. Images never travel here, since aiozmq copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

import zmq

from vil_bridge.core.errors import SinkError
from vil_bridge.outputs.stream.curve_guard import CurveAuthenticator, context_of
from vil_bridge.protocols.zmq.connection_watch import CONTROL_BUDGET, ConnectionWatch
from vil_bridge.protocols.zmq.drain_socket import DrainSocket
from vil_bridge.protocols.zmq.peer_socket import Peer, PeerCounter, PeerSocket, sent_by
from vil_bridge.runtime.peer_faults import PeerFaults

MAX_MESSAGE_BYTES: Final = 64 * 1024
_QUEUE_MESSAGES: Final = 100  # to each client
_WAITING_MESSAGES: Final = 16  # of each client; the others wait on its side
_HANDSHAKE_MS: Final = 3000  # a peer that connects and does not speak ZeroMQ is cut off after this

ControlHandler = Callable[[Peer, bytes | None], None]


class ControlServer(Protocol):
    """Hands sender and payload to the handler it was made with, in the loop's thread.

    None = not one payload.

    Attributes:
        peers: connections refused and ended, by reason; as of the last :meth:`watch_peers`.
        peer_faults: their senders.
    """

    peers: dict[str, int]
    peer_faults: PeerFaults

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

    def pause(self, seconds: float) -> None:
        """Receive nothing for a while, so that a flood waits where it comes from."""
        ...

    def watch_peers(self, seated: Collection[int]) -> None:
        """Bring ``peers`` up to date and end connections beyond the limits.

        Called fifty times a second.

        Args:
            seated: descriptors of the readers, which make room last.
        """
        ...

    def close(self) -> None:
        """Release the address; may be called twice."""
        ...


class _RouterControl:
    """Common base of both implementations.

    The socket, its limits and the check of a message's shape.
    """

    def __init__(
        self, bind: str, handler: ControlHandler, guard: CurveAuthenticator | None = None
    ) -> None:
        self._bind = bind
        self._handler = handler
        self._guard = guard
        self._endpoint = bind
        self.peers: dict[str, int] = {}
        self.peer_faults = PeerFaults("control")
        self._peer_counter: PeerCounter | None = None

    @property
    def endpoint(self) -> str:
        return self._endpoint

    def watch_peers(self, seated: Collection[int]) -> None:
        if self._peer_counter is not None:
            self._peer_counter.update(seated)

    def close(self) -> None:
        if self._peer_counter is not None:
            self._peer_counter.close()
            self._peer_counter = None

    def _bound_socket(self) -> PeerSocket:
        socket = PeerSocket(context_of(self._guard), zmq.ROUTER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        socket.setsockopt(zmq.RCVHWM, _WAITING_MESSAGES)
        socket.setsockopt(zmq.SNDHWM, _QUEUE_MESSAGES)
        socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        # Else libzmq reads one connection of an identity, and keeps all.
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        if self._guard is not None:
            self._guard.protect(socket)
            socket.asks_keys = True
        self._peer_counter = PeerCounter(
            socket, self.peers, ConnectionWatch(CONTROL_BUDGET, self.peers, self.peer_faults)
        )
        try:
            self._peer_counter.bind(self._bind)
        except zmq.ZMQError as exc:
            self._peer_counter.close()
            socket.close(linger=0)
            reason = f"stream.bind: cannot listen on {self._bind}: {zmq.strerror(exc.errno or 0)}"
            raise SinkError(
                f"{reason}; is another bridge running? `vil-bridge doctor CONFIG` names "
                "the program that has it"
            ) from exc
        self._endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return socket

    def _on_message(self, frames: list[bytes]) -> None:
        peer, parts = sent_by(frames)
        self._handler(peer, parts[0] if len(parts) == 1 else None)


class DrainControl(_RouterControl):
    """The control channel on the drain adapter."""

    def __init__(
        self, bind: str, handler: ControlHandler, guard: CurveAuthenticator | None = None
    ) -> None:
        super().__init__(bind, handler, guard)
        self._drain: DrainSocket | None = None

    async def start(self) -> None:
        """Bind and begin to receive."""
        self._drain = DrainSocket(self._bound_socket(), self._on_message)

    def send(self, identity: bytes, payload: bytes) -> None:
        """Send now or never."""
        if self._drain is not None:
            self._drain.send((identity, payload))

    def pause(self, seconds: float) -> None:
        """Receive nothing for a while."""
        if self._drain is not None:
            self._drain.pause(seconds)

    def close(self) -> None:
        """Release the address."""
        super().close()
        if self._drain is not None:
            self._drain.close()
            self._drain = None


class AiozmqControl(_RouterControl):
    """Return the control channel on aiozmq's protocol interface."""

    def __init__(
        self, bind: str, handler: ControlHandler, guard: CurveAuthenticator | None = None
    ) -> None:
        super().__init__(bind, handler, guard)
        self._transport: Any = None
        self._paused: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Bind and begin to receive."""
        import aiozmq  # lazily: it does not import on Python 3.14

        protocol = _AiozmqProtocol(self._on_message)
        socket = self._bound_socket()
        self._transport, _ = await aiozmq.create_zmq_connection(
            lambda: protocol, zmq.ROUTER, zmq_sock=socket
        )

    def send(self, identity: bytes, payload: bytes) -> None:
        """Send now or never."""
        if self._transport is not None:
            self._transport.write((identity, payload))

    def pause(self, seconds: float) -> None:
        """Receive nothing for a while."""
        if self._transport is not None and self._paused is None:
            self._transport.pause_reading()
            self._paused = asyncio.get_running_loop().call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._paused = None
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Release the address."""
        super().close()
        if self._paused is not None:
            self._paused.cancel()
        if self._transport is not None:
            self._transport.abort()  # not close(), which would wait for clients that do not read
            self._transport = None


class _AiozmqProtocol:
    """Callbacks of aiozmq, which asks for the methods, not for the base class."""

    def __init__(self, on_message: Callable[[list[bytes]], None]) -> None:
        self.msg_received = on_message

    def connection_made(self, transport: object) -> None:
        """Do nothing: the socket is in the loop."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Do nothing: the socket is closed."""

    def pause_writing(self) -> None:
        """Cannot happen: a ROUTER drops what it cannot queue."""

    def resume_writing(self) -> None:
        """Cannot happen either."""


def open_control(
    bind: str, handler: ControlHandler, guard: CurveAuthenticator | None = None
) -> ControlServer:
    """Return the control channel on aiozmq where that imports, else on the drain adapter.

    Not started yet.
    """
    try:
        import aiozmq  # noqa: F401
    except ImportError:
        return DrainControl(bind, handler, guard)
    return AiozmqControl(bind, handler, guard)
