"""Peers of a listening ZeroMQ socket: those that libzmq turned away are counted, their connections bounded."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, MutableMapping
from typing import Final

import zmq
from zmq.utils.monitor import parse_monitor_message

from vil_bridge.core.peer_faults import PeerFaults
from vil_bridge.protocols.zmq.connection_end import ignore_resets
from vil_bridge.protocols.zmq.connection_watch import ConnectionWatch
from vil_bridge.protocols.zmq.peer_socket import PeerSocket

__all__ = ["PeerCounter", "end_dead_connections"]

_REASONS: Final = {
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "bad_handshake",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "bad_handshake",
    zmq.Event.HANDSHAKE_FAILED_AUTH: "bad_handshake",
    zmq.Event.DISCONNECTED: "disconnected",
}
_MOST_EVENTS: Final = 2000
_number = itertools.count()
# Never ZeroMQ's heartbeats: libzmq aborts the process when one is due on a connection that a peer closed
# while its messages still waited for room (its issue 4364).
_GONE_AFTER_MS: Final = 5000  # long enough for a raw frame on a slow link
_TCP_KEEPALIVE: Final = ((zmq.TCP_KEEPALIVE, 1), (zmq.TCP_KEEPALIVE_IDLE, 2), (zmq.TCP_KEEPALIVE_INTVL, 1))
_PROBES: Final = 3
_MOST_PROBES: Final = 127  # the watch ends the connection long before, since libzmq bears only that


def end_dead_connections(socket: zmq.Socket[bytes]) -> None:
    """Let the system end TCP connections whose peer has vanished, after 5 s; before the socket connects."""
    _probe(socket, _PROBES)
    socket.setsockopt(zmq.TCP_MAXRT, _GONE_AFTER_MS)


def _probe(socket: zmq.Socket[bytes], probes: int) -> None:
    for option, value in (*_TCP_KEEPALIVE, (zmq.TCP_KEEPALIVE_CNT, probes)):
        socket.setsockopt(option, value)


class PeerCounter:
    """Counts who never spoke ZeroMQ (``bad_handshake``), whose connection ended (``disconnected``) and was ended.

    A connection ends when the peer leaves or does not answer for 5 s, and also when it breaks the protocol or sends a
    message beyond the socket's limit. Belongs to the socket's thread, and is closed before the socket.
    """

    def __init__(
        self, socket: zmq.Socket[bytes], counters: MutableMapping[str, int], watch: ConnectionWatch | None = None
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

    def update(self, seated: Collection[int] | None = None) -> None:
        """Account what happened since the last call, and end connections beyond the limits.

        Args:
            seated: descriptors of registered peers, which make room last; None = those that were sent something.
        """
        for _ in range(_MOST_EVENTS):
            try:
                event = parse_monitor_message(self._events.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                break
            self._account(zmq.Event(event["event"]), event["value"])
        heard = self._socket.heard if isinstance(self._socket, PeerSocket) else set()
        self._watch.look(heard, seated)
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
            self._socket.monitor(None, 0)  # before the other end goes, or libzmq's thread waits for it
            self._events.close()
