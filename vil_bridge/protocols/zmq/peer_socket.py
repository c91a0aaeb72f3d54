"""Listening ZeroMQ sockets.

Messages with their senders, bounded work for each, and connections watched and counted.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, MutableMapping
from typing import Final, NamedTuple

import zmq
from zmq.utils.monitor import parse_monitor_message

from vil_bridge.protocols.zmq.connection_watch import (
    ConnectionWatch,
    borrowed,
    end,
    has_ended,
    ignore_resets,
)
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.rates import peer_of

_MOST_PARTS: Final = 8


class Peer(NamedTuple):
    """Sender of a message.

    Attributes:
        identity: of its connection; it may choose another one when it connects again.
        address: IP address.
        key: name of the CURVE key that it proved to have; empty where the socket asks for none.
        descriptor: of its TCP connection in this process, which may be another's by now; -1 =
            unknown.
    """

    identity: bytes
    address: str = ""
    key: str = ""
    descriptor: int = -1


class PeerSocket(zmq.Socket[bytes]):
    """A ROUTER whose ``recv_multipart`` appends the sender's address, key and descriptor to the
    message's parts.

    A message of more than eight parts is received in pieces, a piece a call: none blocks the thread
    for long.

    Attributes:
        asks_keys: the socket is a CURVE server; set before the first message.
        heard: descriptors of the connections that messages came from, until its reader clears it.
    """

    asks_keys = (
        False  # declared here, since a ZeroMQ socket takes every other attribute for an option
    )
    heard: set[int]
    _rest_of: bytes | None = None

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], kind: int) -> None:
        super().__init__(context, kind)
        object.__setattr__(self, "heard", set())

    def recv_multipart(  # type: ignore[override]
        self,
        flags: int = 0,
        copy: bool = True,  # noqa: ARG002
        track: bool = False,  # noqa: ARG002
    ) -> list[bytes]:
        """Return identity, parts, address, key and descriptor.

        Pieces of a long message have no part between.
        """
        identity = self._rest_of
        whole = self._rest_of is None
        if identity is None:
            identity = self.recv(flags)
        parts: list[zmq.Frame] = []
        while len(parts) < _MOST_PARTS and (not parts or parts[-1].more):
            parts.append(self.recv(flags, copy=False))
        last = parts[-1]
        self._rest_of = identity if last.more else None
        payload = [part.bytes for part in parts] if whole and not last.more else []
        key = _text(last, "User-Id") if self.asks_keys else b""
        descriptor = _text(last, "__fd")
        self.heard.add(int(descriptor or b"-1"))
        return [identity, *payload, _text(last, "Peer-Address"), key, descriptor]


def sent_by(frames: list[bytes]) -> tuple[Peer, list[bytes]]:
    """Split what a :class:`PeerSocket` received into its sender and its parts."""
    identity, *parts, address, key, descriptor = frames
    return Peer(identity, address.decode(), key.decode(), int(descriptor or b"-1")), parts


def end_connection(peer: Peer, endpoint: str, *, quietly: bool = False) -> bool:
    """End the TCP connection that a peer's message came by, since ZeroMQ cannot.

    False when it is gone or ended.

    Args:
        peer: sender of the message.
        endpoint: ours, with the port. A descriptor that was given to another connection since is
            left alone, unless that one has the same address and port.
        quietly: see :func:`end`.
    """
    try:
        with borrowed(peer.descriptor) as connection:
            theirs = connection.getpeername()
            ours = connection.getsockname()
            if peer_of(theirs[0]) != peer_of(peer.address) or ours[1] != int(
                endpoint.rpartition(":")[2]
            ):
                return False
            if has_ended(connection):  # what libzmq has read before goes on to arrive
                return False
            end(connection, quietly)
    except OSError:  # closed, or no socket any more
        return False
    return True


def _text(frame: zmq.Frame, name: str) -> bytes:
    try:
        value = frame.get(name)
    except zmq.ZMQError:  # the connection has no such property
        return b""
    return value.encode() if isinstance(value, str) else b""


_REASONS: Final = {
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "bad_handshake",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "bad_handshake",
    zmq.Event.HANDSHAKE_FAILED_AUTH: "bad_handshake",
    zmq.Event.DISCONNECTED: "disconnected",
}
_MOST_EVENTS: Final = 2000
_number = itertools.count()
# Never ZeroMQ's heartbeats: libzmq aborts the process when one is due on a connection that a peer
# closed while its messages still waited for room (its issue 4364).
_GONE_AFTER_MS: Final = 5000  # long enough for a raw frame on a slow link
_TCP_KEEPALIVE: Final = (
    (zmq.TCP_KEEPALIVE, 1),
    (zmq.TCP_KEEPALIVE_IDLE, 2),
    (zmq.TCP_KEEPALIVE_INTVL, 1),
)
_PROBES: Final = 3
_MOST_PROBES: Final = 127  # the watch ends the connection long before, since libzmq bears only that


def end_dead_connections(socket: zmq.Socket[bytes]) -> None:
    """Let the system end TCP connections whose peer has vanished, after 5 s.

    Before the socket connects.
    """
    _probe(socket, _PROBES)
    socket.setsockopt(zmq.TCP_MAXRT, _GONE_AFTER_MS)


def _probe(socket: zmq.Socket[bytes], probes: int) -> None:
    for option, value in (*_TCP_KEEPALIVE, (zmq.TCP_KEEPALIVE_CNT, probes)):
        socket.setsockopt(option, value)


class PeerCounter:
    """Counter of peers that never spoke ZeroMQ (``bad_handshake``) and of ended connections.

    ``disconnected``.

    A connection ends when the peer leaves or does not answer for 5 s, and also when it breaks the
    protocol or sends a message beyond the socket's limit. Belongs to the socket's thread, and is
    closed before the socket.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        counters: MutableMapping[str, int],
        watch: ConnectionWatch | None = None,
    ) -> None:
        """Watch a socket that is not bound yet.

        Args:
            socket: to watch.
            counters: get the counts.
            watch: ends connections beyond its limits; None = there are none.
        """
        self._socket = socket
        _probe(socket, _MOST_PROBES)
        self._counters = counters
        counters.update(dict.fromkeys(_REASONS.values(), 0))
        self._watch = ConnectionWatch(None, {}, PeerFaults("")) if watch is None else watch
        address = f"inproc://peers-{next(_number)}"
        socket.monitor(address, sum(_REASONS) | zmq.Event.LISTENING | zmq.Event.ACCEPTED)
        self._events: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
        self._events.linger = 0
        self._events.rcvhwm = 0  # libzmq's own thread waits while events find no room
        self._events.connect(address)

    def bind(self, address: str) -> None:
        """Bind the socket. Raises zmq.ZMQError."""
        self._socket.bind(address)
        self.update()

    def update(self, registered: Collection[int] | None = None) -> None:
        """Account what happened since the last call, and end connections beyond the limits.

        Args:
            registered: descriptors of registered peers, which make room last; None = those that
                were sent something.
        """
        for _ in range(_MOST_EVENTS):
            try:
                event = parse_monitor_message(self._events.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                break
            self._account(zmq.Event(event["event"]), event["value"])
        heard = self._socket.heard if isinstance(self._socket, PeerSocket) else set()
        self._watch.check(heard, registered)
        heard.clear()

    def _account(self, event: zmq.Event, descriptor: int) -> None:
        if event is zmq.Event.LISTENING:
            with contextlib.suppress(OSError):  # the system refuses
                ignore_resets(descriptor)
        elif event is zmq.Event.ACCEPTED:
            self._watch.accepted(descriptor, self._socket.getsockopt_string(zmq.LAST_ENDPOINT))
        else:
            self._counters[_REASONS[event]] += 1

    def close(self) -> None:
        """Stop watching; may be called twice."""
        if not self._events.closed:
            # Before the other end goes, or libzmq's thread waits for it.
            self._socket.monitor(None, 0)
            self._events.close()
