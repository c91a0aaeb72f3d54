"""Peers that a listening ZeroMQ socket turned away: libzmq does so silently, and they must be counted."""

from __future__ import annotations

import itertools
from collections.abc import MutableMapping
from typing import Final

import zmq
from zmq.utils.monitor import parse_monitor_message

__all__ = ["PeerCounter"]

_REASONS: Final = {
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "bad_handshake",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "bad_handshake",
    zmq.Event.HANDSHAKE_FAILED_AUTH: "bad_handshake",
    zmq.Event.DISCONNECTED: "disconnected",
}
_number = itertools.count()


class PeerCounter:
    """Counts who never spoke ZeroMQ (``bad_handshake``) and whose connection ended (``disconnected``).

    A connection ends when the peer leaves, and also when it breaks the protocol or sends a message
    beyond the socket's limit. Belongs to the socket's thread, and is closed before the socket.
    """

    def __init__(self, socket: zmq.Socket[bytes], counters: MutableMapping[str, int]) -> None:
        """Watch ``socket``, which is not bound yet; the counts go to ``counters``."""
        self._socket = socket
        self._counters = counters
        counters.update(dict.fromkeys(_REASONS.values(), 0))
        address = f"inproc://peers-{next(_number)}"
        socket.monitor(address, sum(_REASONS))
        self._events: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
        self._events.linger = 0
        self._events.rcvhwm = 0  # libzmq's own thread waits while events find no room
        self._events.connect(address)

    def update(self) -> None:
        """Account what happened since the last call."""
        while True:
            try:
                event = parse_monitor_message(self._events.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return
            self._counters[_REASONS[zmq.Event(event["event"])]] += 1

    def close(self) -> None:
        """Stop watching; may be called twice."""
        if not self._events.closed:
            self._socket.monitor(None, 0)  # before the other end goes, or libzmq's thread waits for it
            self._events.close()
