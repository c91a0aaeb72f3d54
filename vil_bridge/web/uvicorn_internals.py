"""Everything that depends on the inside of uvicorn.

Its server class, its protocols and the texts of its log.

None of this is a public interface of uvicorn. ``pyproject.toml`` therefore bounds its version, and
a test names the versions that were checked.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections import Counter
from typing import Any, Final

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from vil_bridge.core.clock import machine_ns
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.rates import RateLimiter
from vil_bridge.web.acceptor import WRITE_TIMEOUT_MS, ConnectionAcceptor
from vil_bridge.web.live.frames import POST

_REQUEST_TIMEOUT_S: Final = 5.0
"""Until a whole request must have arrived, after the connection or the previous answer."""
_MAX_CONNECTIONS: Final = 128
"""More than all feeds and all connections of one other peer, so that probes are answered."""
_MAX_MESSAGE_BYTES: Final = 4096
"""Of one message from a WebSocket client."""
_MAX_FRAGMENTS: Final = 16
"""Of one message: empty ones do not count as bytes."""
_PINGS_PER_S: Final = 5.0
_PINGS_AT_ONCE: Final = 50
_PINGED: Final = "A WebSocket of %s sends pings or pongs without end."
_FAULTS: Final = {
    "Invalid HTTP request received.": "malformed",
    "Exceeded concurrency limit.": "too_many",
    "Invalid UTF-8 sequence received from client.": "malformed",
    _PINGED: "pings",
}
_REFUSED_OPENING: Final = "ASGI callable returned without completing handshake."
"""Logged by uvicorn for every refused WebSocket, which the middleware has counted."""


class LogFaults(logging.Filter):
    """Counts messages of uvicorn that a peer can provoke; only the first of a kind is logged.

    Args:
        counters: get a count by reason. peers: get the senders of too many pings.
    """

    def __init__(self, counters: Counter[str], peers: PeerFaults) -> None:
        super().__init__()
        self.counters = counters
        self.peers = peers
        counters.setdefault("malformed", 0)

    def filter(self, record: logging.LogRecord) -> bool:
        """Count a message; return True if it is to be logged."""
        if record.msg == _REFUSED_OPENING:
            return False
        reason = _FAULTS.get(str(record.msg), "other")
        if reason == "other" and record.levelno != logging.WARNING:
            return True
        self.counters[reason] += 1
        if record.msg == _PINGED and isinstance(record.args, tuple):
            self.peers.add(reason, *map(str, record.args))
        return self.counters[reason] == 1


class UvicornServer(uvicorn.Server):
    """Server that accepts connections by a :class:`ConnectionAcceptor` and reports its liveness.

    Args:
        sock: listens.
        tls: None = plain HTTP.
        faults: counts what peers do wrong.

    Attributes:
        serving: set once requests are answered. turned_ns: machine time of the event loop's last
            turn.
    """

    def __init__(
        self, app: FastAPI, sock: socket.socket, tls: ssl.SSLContext | None, faults: LogFaults
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=_HttpProtocol,
                ws=_WebSocketProtocol,
                ws_max_size=_MAX_MESSAGE_BYTES,
                # Pictures do not shrink, and trying costs more than sending.
                ws_per_message_deflate=False,
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                limit_concurrency=_MAX_CONNECTIONS,
                timeout_graceful_shutdown=1,
            )
        )
        self.serving = threading.Event()
        self.turned_ns = machine_ns()
        self._socket = sock
        self._tls = tls
        self._faults = faults
        self._acceptor: ConnectionAcceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start uvicorn without sockets, then accept connections."""
        await super().startup(sockets or [])
        inside = self.server_state.connections
        faults = self._faults
        self._acceptor = ConnectionAcceptor(
            self._socket, self._protocol, self._tls, inside, faults.counters, faults.peers
        )
        self.serving.set()

    async def on_tick(self, counter: int) -> bool:
        """Record the time of this turn."""
        self.turned_ns = machine_ns()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, then shut uvicorn down."""
        if self._acceptor is not None:
            self._acceptor.close()
            await self._acceptor.wait_closed()
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        return _HttpProtocol(self.config, self.server_state, self.lifespan.state)


class _WriteTimeout(asyncio.Protocol):
    """Disconnects peers that do not read what is sent to them.

    TCP's own limit restarts with every byte that a full peer's kernel still accepts, and a regular
    shutdown of the connection waits for the same bytes.
    """

    _peer: asyncio.Transport
    _timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._peer = transport

    def pause_writing(self) -> None:
        super().pause_writing()
        self._timeout = asyncio.get_running_loop().call_later(
            WRITE_TIMEOUT_MS / 1000, self._peer.abort
        )

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_timeout()

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()


class _WebSocketProtocol(_WriteTimeout, WebSocketsSansIOProtocol):
    """Sends the next message once the kernel has accepted all of the previous one, so that none
    grows old here.

    Feeds write one frame to many: through ASGI's layers each message costs ten times what the
    socket costs. Nothing is read while something waits to be sent, and pings are limited, since
    each one is answered.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1)  # 0 would make TLS pause with nothing to send
        self._pings = RateLimiter(_PINGS_PER_S, _PINGS_AT_ONCE)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._peer.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.read_paused:  # by uvicorn, while a message waits for the application
            self._peer.resume_reading()

    def handle_ping(self) -> None:
        if self._allows_control():
            super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        if self._allows_control():
            super().handle_pong(event)

    def _allows_control(self) -> bool:
        """Return True if one more ping or pong is allowed; close the connection if not."""
        if self.close_sent:
            return False
        if not self._pings.wait_s(""):
            self._pings.take("")
            return True
        self.logger.warning(_PINGED, self.client[0] if self.client else "unknown")
        self.conn.fail(CloseCode.POLICY_VIOLATION, "too many pings")
        self.handle_parser_exception()
        return False

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            extensions: Any = self.scope.get("extensions")
            extensions[POST] = self.post

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < _MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(
                CloseCode.MESSAGE_TOO_BIG, f"a message of more than {_MAX_FRAGMENTS} fragments"
            )
            self.handle_parser_exception()

    def post(self, frame: bytes) -> bool:
        """Write a whole frame if the previous one has left; return True if it was written."""
        ready = self.handshake_complete and self.writable.is_set()
        if not ready or self.close_sent or self.transport.is_closing():
            return False
        self.transport.write(frame)
        return True


class _HttpProtocol(_WriteTimeout, H11Protocol):
    """Disconnects peers that connect and send no request, or never finish it."""

    _request_timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        self._stop_waiting()  # from now on the WebSocket's own pings find a dead peer

    def _wait(self) -> None:
        self._stop_waiting()
        self._request_timeout = self.loop.call_later(_REQUEST_TIMEOUT_S, self._disconnect)

    def _stop_waiting(self) -> None:
        if self._request_timeout is not None:
            self._request_timeout.cancel()

    def _disconnect(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
