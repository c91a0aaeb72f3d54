"""Runs the HTTP application in a thread and an event loop of its own, away from the realtime ones."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import sys
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

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.network import http_url
from vil_bridge.core.peer_faults import PeerFaults
from vil_bridge.core.rates import RateLimiter
from vil_bridge.web.acceptor import ConnectionAcceptor
from vil_bridge.web.live.pacing import POST

__all__ = ["HttpServer", "bind_http"]

logger = logging.getLogger(__name__)

_START_LIMIT_S: Final = 10.0
_STILL_S: Final = 2.0
"""A loop that turns ten times a second and has not for so long hangs."""
_GRACE_S: Final = 0.6
_FORCED_S: Final = 0.4
_PATIENCE_S: Final = 5.0
"""For a request to come, whole, after the connection or the answer before it."""
_MOST_ANSWERED: Final = 128
"""More than all feeds and all connections of one other peer, so that probes get through."""
_MAX_MESSAGE_BYTES: Final = 4096
"""Of what a WebSocket client may say at once."""
_SEND_BUFFER_BYTES: Final = 256 * 1024
_DEAF_MS: Final = 10_000
"""A peer that takes nothing for so long is cut off."""
_PINGED: Final = "A WebSocket of %s sends pings or pongs without end."
_FAULTS: Final = {
    "Invalid HTTP request received.": "malformed",
    "Exceeded concurrency limit.": "too_many",
    "Invalid UTF-8 sequence received from client.": "malformed",
    _PINGED: "pings",
}
_REFUSED_OPENING: Final = "ASGI callable returned without completing handshake."
"""What uvicorn makes of every refused WebSocket, which the guard has counted."""
_PINGS_PER_S: Final = 5.0
_PINGS_AT_ONCE: Final = 50
_MOST_FRAGMENTS: Final = 16
"""Of one message: empty ones do not count as bytes."""


def bind_http(address: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        sock = socket.create_server((address, port), family=family)
    except OSError as exc:
        raise ConfigError(f"http: cannot listen on {_why_not(address, port, exc)}") from exc
    # Connections inherit both: what waits for one peer is bounded, and so is how long it may wait.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAF_MS)
    return sock


def _why_not(address: str, port: int, exc: OSError) -> str:
    """Where it cannot listen, why, and the cure."""
    reason = (exc.strerror or str(exc)).partition(" (while attempting")[0]
    if exc.errno == errno.EADDRINUSE:
        return f"port {port}: {reason}; is another bridge running? `--set http.port=0` takes a free port ({address})"
    if exc.errno == errno.EACCES:
        return f"port {port}: {reason}; ports below 1024 are for privileged programs, take 8080"
    return f"{address}: {reason}; `http.bind` wants an address that this machine has now (`ip address`), or 0.0.0.0"


class HttpServer:
    """Serves an application on a listening socket until stopped; signals are left to the daemon.

    Args:
        tls: None = plain HTTP.
        counters: where refused requests are counted, by reason. peer_faults: where their senders are named.

    Attributes:
        url: address for people. thread: where everything runs.
        trouble: why nobody can look on or steer, as of the last look; "" = it serves.
    """

    def __init__(
        self,
        app: FastAPI,
        sock: socket.socket,
        tls: ssl.SSLContext | None = None,
        counters: Counter[str] | None = None,
        peer_faults: PeerFaults | None = None,
    ) -> None:
        host, port = sock.getsockname()[:2]
        self.url = http_url(host, port, tls=tls is not None)
        self._socket = sock
        counters = Counter() if counters is None else counters
        self._faults = _Faults(counters, peer_faults or PeerFaults("http"))
        self._server = _Server(
            sock,
            tls,
            self._faults,
            uvicorn.Config(
                app,
                loop="asyncio",
                http=_Protocol,
                ws=_WebSocket,
                ws_max_size=_MAX_MESSAGE_BYTES,
                ws_per_message_deflate=False,  # pictures do not shrink, and trying costs more than sending
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                limit_concurrency=_MOST_ANSWERED,
                timeout_graceful_shutdown=1,
            ),
        )
        self.thread = threading.Thread(target=self._server.run, name="http", daemon=True)
        self.trouble = ""

    def start(self) -> None:
        """Return once requests are answered.

        Raises:
            RuntimeError: the server did not come up.
        """
        logging.getLogger("uvicorn.error").addFilter(self._faults)
        self.thread.start()
        if not self._server.serving.wait(_START_LIMIT_S):
            raise RuntimeError(f"the HTTP server did not start within {_START_LIMIT_S:.0f} s")

    def stop(self) -> None:
        """Finish the answers under way and end, within 1 s; may be called twice."""
        self._server.should_exit = True
        if self.thread.ident is not None:
            self.thread.join(_GRACE_S)
        if self.thread.is_alive():
            self._server.force_exit = True
            self.thread.join(_FORCED_S)
        logging.getLogger("uvicorn.error").removeFilter(self._faults)
        self._socket.close()

    def look(self) -> None:
        """See whether it serves, and say once to the log when that has changed."""
        before, self.trouble = self.trouble, self._find_trouble()
        if self.trouble and not before:
            logger.error("%s; nobody can look on or steer meanwhile; poses and pictures go on", self.trouble)
        elif before and not self.trouble:
            logger.warning("the HTTP server serves again")

    def _find_trouble(self) -> str:
        if self.thread.ident is None or self._server.should_exit:
            return ""
        if not self.thread.is_alive():
            return "the HTTP server has ended: restart the bridge once its vehicles have landed"
        still_s = (machine_ns() - self._server.turned_ns) / NS_PER_S
        return f"the HTTP server has hung for {_STILL_S:.0f} s and more" if still_s > _STILL_S else ""

    def faults(self) -> dict[str, int]:
        """Requests refused, by reason. Any thread."""
        return dict(self._faults.counters)


class _Server(uvicorn.Server):
    """Has a door of its own, and tells when it serves and when it last turned."""

    def __init__(
        self, sock: socket.socket, tls: ssl.SSLContext | None, faults: _Faults, config: uvicorn.Config
    ) -> None:
        super().__init__(config)
        self.serving = threading.Event()
        self.turned_ns = machine_ns()
        self._socket, self._tls, self._faults = sock, tls, faults
        self._door: ConnectionAcceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets or [])
        inside, faults = self.server_state.connections, self._faults
        self._door = ConnectionAcceptor(self._socket, self._protocol, self._tls, inside, faults.counters, faults.peers)
        self.serving.set()

    async def on_tick(self, counter: int) -> bool:
        self.turned_ns = machine_ns()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._door is not None:
            self._door.close()
            await self._door.wait_closed()
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        return _Protocol(self.config, self.server_state, self.lifespan.state)


class _Faults(logging.Filter):
    """Counts what uvicorn writes and a peer can provoke at will; the first of a kind is written."""

    def __init__(self, counters: Counter[str], peers: PeerFaults) -> None:
        super().__init__()
        self.counters, self.peers = counters, peers
        counters.setdefault("malformed", 0)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == _REFUSED_OPENING:
            return False
        reason = _FAULTS.get(str(record.msg), "other")
        if reason == "other" and record.levelno != logging.WARNING:
            return True
        self.counters[reason] += 1
        if record.msg == _PINGED and isinstance(record.args, tuple):
            self.peers.add(reason, *map(str, record.args))
        return self.counters[reason] == 1


class _Drained(asyncio.Protocol):
    """Cuts off peers that leave what is sent to them lying.

    TCP's own limit starts anew with every byte that a full peer's kernel still takes, and what ends a
    connection in good order waits for the same bytes.
    """

    _line: asyncio.Transport
    _deaf: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._line = transport

    def pause_writing(self) -> None:
        super().pause_writing()
        self._deaf = asyncio.get_running_loop().call_later(_DEAF_MS / 1000, self._line.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._listens()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._listens()

    def _listens(self) -> None:
        if self._deaf is not None:
            self._deaf.cancel()


class _WebSocket(_Drained, WebSocketsSansIOProtocol):
    """Sends the next message once the kernel has taken all of the one before it, so that none grows old here.

    Feeds write one frame to many: through ASGI's layers each message costs ten times what the socket costs.
    Nothing is read while something waits to be sent, and pings are limited, since each one is answered.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1)  # 0 would make TLS pause with nothing to send
        self._pings = RateLimiter(_PINGS_PER_S, _PINGS_AT_ONCE)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._line.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.read_paused:  # by uvicorn, while a message waits for the application
            self._line.resume_reading()

    def handle_ping(self) -> None:
        if self._allows_control():
            super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        if self._allows_control():
            super().handle_pong(event)

    def _allows_control(self) -> bool:
        """Return whether one more ping or pong may come; end the connection when it may not."""
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
        if len(self.frames) < _MOST_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"a message of more than {_MOST_FRAGMENTS} fragments")
            self.handle_parser_exception()

    def post(self, frame: bytes) -> bool:
        """Write a whole frame if the one before has left; whether it was written."""
        ready = self.handshake_complete and self.writable.is_set()
        if not ready or self.close_sent or self.transport.is_closing():
            return False
        self.transport.write(frame)
        return True


class _Protocol(_Drained, H11Protocol):
    """Cuts off peers that connect and do not ask, or never end their question."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._patience is not None:
            self._patience.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        if self._patience is not None:  # the WebSocket's own pings look after it from now on
            self._patience.cancel()

    def _wait(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self.loop.call_later(_PATIENCE_S, self._cut_off)

    def _cut_off(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
