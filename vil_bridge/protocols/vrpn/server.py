"""Server side of VRPN: accepts clients, describes trackers to them and answers their pings."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.sockets import tcp_listener, udp_socket, waiting_datagrams
from vil_bridge.protocols.vrpn.codec import (
    COOKIE,
    PING,
    PONG,
    POSE,
    VELOCITY,
    decode_connect_request,
)
from vil_bridge.protocols.vrpn.connection import VrpnConnection
from vil_bridge.protocols.vrpn.id_mapping import CONTROL, Incoming, Outgoing
from vil_bridge.runtime.rates import RateLimiter

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S: Final = 1.0
_COOKIE_WITHIN_NS: Final = 5 * NS_PER_S
_PORT_ATTEMPTS: Final = 16
_BYTES_PER_S: Final = 65_536.0
_BYTES_AT_ONCE: Final = 262_144
"""Clients send descriptions at the start and then pings."""
_DEAD_AFTER_S: Final = 10
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_S: Final = 1.0
_PROBES: Final = ((socket.TCP_KEEPIDLE, 4), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3))


def _never() -> bool:
    return False


def _unguarded(callback: Callable[[], None]) -> Callable[[], None]:
    return callback


@dataclass(frozen=True, slots=True)
class VrpnHooks:
    """Callbacks of a server.

    Attributes:
        clock: returns its own time, Unix nanoseconds, for answers.
        count: counts an event: ``malformed``, ``foreign``, ``refused``, ``slow``, ``flooding``,
            ``mute`` and ``unknown_trackers``, pings of those that it does not have.
        send: sends bytes to a client.
        silent: returns True while nothing may be sent.
        guard: wraps callbacks of the event loop.
    """

    clock: Callable[[], int]
    count: Callable[[str], None]
    send: Callable[[VrpnConnection, bytes], None] = VrpnConnection.send
    silent: Callable[[], bool] = _never
    guard: Callable[[Callable[[], None]], Callable[[], None]] = _unguarded


@dataclass(slots=True)
class _VrpnClient:
    greeted: bool
    since_ns: int
    incoming: Incoming = field(default_factory=Incoming)


class VrpnServer:
    """Server of trackers on one TCP and UDP port.

    Clients connect by TCP, or ask by UDP to be connected to, at their own address only. A client
    that does not read what is sent, sends more than 64 KiB a second or something else than VRPN is
    disconnected.

    Args:
        devices: names of the trackers. hooks: callbacks. max_clients: further ones are refused.
    """

    def __init__(self, devices: Sequence[str], hooks: VrpnHooks, max_clients: int) -> None:
        self._hooks = hooks
        self._max_clients = max_clients
        self._sockets: tuple[socket.socket, ...] = ()
        self._resume: asyncio.TimerHandle | None = None
        self._paused = False
        self._clients: dict[VrpnConnection, _VrpnClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._limit = RateLimiter(_BYTES_PER_S, _BYTES_AT_ONCE)
        self._outgoing = Outgoing()
        self._greeting = COOKIE + self._outgoing.describe(
            (CONTROL, *devices), (POSE, VELOCITY, PING, PONG)
        )

    @property
    def connected(self) -> int:
        """Return the number of open connections."""
        return len(self._clients)

    @property
    def clients(self) -> tuple[VrpnConnection, ...]:
        """Return the connections that get messages."""
        return tuple(link for link, client in self._clients.items() if client.greeted)

    def message(self, sender: str, kind: str, t_ns: int, payload: bytes) -> bytes:
        """Encode a message of one of the trackers.

        Raises:
            KeyError: no such tracker or kind.
        """
        return self._outgoing.message(sender, kind, t_ns, payload)

    def listen(self, host: str, port: int) -> int:
        """Bind and listen; return the port.

        Raises:
            OSError: it is taken.
        """
        tcp, udp = self._sockets = _bind(host, port)
        loop = asyncio.get_running_loop()
        self._accept_from(tcp)
        loop.add_reader(udp, self._hooks.guard(lambda: self._on_request(udp)))
        return int(tcp.getsockname()[1])

    def close(self) -> None:
        """Release all sockets at once; may be called twice."""
        if self._resume is not None:
            self._resume.cancel()
        for sock in self._sockets:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        for task in self._tasks:
            task.cancel()
        for link in list(self._clients):
            link.abort()
        self._sockets = ()
        self._clients.clear()

    def housekeep(self, t_ns: int) -> None:
        """Disconnect clients that have not sent their cookie within 5 s."""
        for link, client in list(self._clients.items()):
            if client.incoming.version is None and t_ns - client.since_ns > _COOKIE_WITHIN_NS:
                self._drop(link, "mute")

    # --- connections ------------------------------------------------------------------------------

    def _accept_from(self, tcp: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(tcp, self._hooks.guard(lambda: self._accept(tcp)))

    def _pause(self, tcp: socket.socket, exc: OSError) -> None:
        """Accept no connections for a second; the first time, say so."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(tcp)
        self._resume = loop.call_later(_PAUSE_S, self._accept_from, tcp)
        if not self._paused:
            self._paused = True
            logger.warning(
                "VRPN clients wait to be accepted: %s. Raise the limit of open files "
                "(ulimit -n), or close some",
                exc.strerror,
            )

    def _accept(self, tcp: socket.socket) -> None:
        try:
            sock, _ = tcp.accept()
        except OSError as exc:
            if exc.errno in _EXHAUSTED:  # the connection stays readable
                self._pause(tcp, exc)
            return
        self._spawn(asyncio.get_running_loop().connect_accepted_socket(self._link, sock))

    def _on_request(self, udp: socket.socket) -> None:
        """Connect to a client that asks for it; at its own address only, never to third parties."""
        for datagram, (sender_ip, _), _ in waiting_datagrams(udp):
            try:
                ip, port = decode_connect_request(datagram)
            except ProtocolError:
                self._hooks.count("malformed")
                continue
            if ip != sender_ip:
                self._hooks.count("foreign")
            elif len(self._tasks) >= self._max_clients:
                self._hooks.count("refused")
            elif not self._hooks.silent():
                self._spawn(asyncio.get_running_loop().create_connection(self._link, ip, port))

    def _spawn(self, connecting: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(self._connect(connecting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _connect(connecting: Coroutine[Any, Any, Any]) -> None:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await connecting

    def _link(self) -> VrpnConnection:
        link = VrpnConnection(lambda data, _t_arrival_ns: self._on_data(link, data), self._on_made)
        return link

    def _on_made(self, link: VrpnConnection) -> None:
        if len(self._clients) >= self._max_clients or not self._sockets:
            self._drop(link, "refused")
            return
        link.watch_peer(_DEAD_AFTER_S, _PROBES)
        # Past the hook, whose faults would break the stream before it began; only a silent server
        # holds it back.
        self._clients[link] = client = _VrpnClient(not self._hooks.silent(), now_ns())
        link.closed.add_done_callback(lambda _: self._on_closed(link))
        if client.greeted:
            link.send(self._greeting)

    def _on_closed(self, link: VrpnConnection) -> None:
        if self._clients.pop(link, None) is not None and link.overrun:
            self._hooks.count("slow")

    def _on_data(self, link: VrpnConnection, data: bytes) -> None:
        client = self._clients.get(link)
        if client is None:
            return
        self._limit.take(link, len(data))
        if self._limit.wait_s(link):
            self._drop(link, "flooding")
            return
        try:
            for message in client.incoming.feed(data):
                if message.kind == PING:
                    self._answer(link, message.sender)
        except ProtocolError:
            self._drop(link, "malformed")

    def _answer(self, link: VrpnConnection, tracker: str) -> None:
        try:
            pong = self._outgoing.message(tracker, PONG, self._hooks.clock())
        except KeyError:
            self._hooks.count("unknown_trackers")
        else:
            self._hooks.send(link, pong)

    def _drop(self, link: VrpnConnection, reason: str) -> None:
        self._hooks.count(reason)
        link.abort()


def _bind(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Return a TCP and a UDP socket on the same port.

    Raises:
        OSError: the port is taken.
    """
    for left in reversed(range(1 if port else _PORT_ATTEMPTS)):
        tcp = tcp_listener(host, port)
        try:
            return tcp, udp_socket(host, tcp.getsockname()[1])
        except OSError:
            tcp.close()
            if not left:
                raise
    raise AssertionError("unreachable")
