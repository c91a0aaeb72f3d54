"""A listening ZeroMQ socket whose messages say who sent them, with bounded work for each."""

from __future__ import annotations

from typing import Final, NamedTuple

import zmq

from vil_bridge.core.rates import peer_of
from vil_bridge.protocols.zmq.connection_end import borrowed, end, has_ended

__all__ = ["Peer", "PeerSocket", "end_connection", "sent_by"]

_MOST_PARTS: Final = 8


class Peer(NamedTuple):
    """Sender of a message.

    Attributes:
        identity: of its connection; it may choose another one when it connects again.
        address: IP address.
        key: name of the CURVE key that it proved to have; empty where the socket asks for none.
        descriptor: of its TCP connection in this process, which may be another's by now; -1 = unknown.
    """

    identity: bytes
    address: str = ""
    key: str = ""
    descriptor: int = -1


class PeerSocket(zmq.Socket[bytes]):
    """A ROUTER whose ``recv_multipart`` appends the sender's address, key and descriptor to the message's parts.

    A message of more than eight parts is received in pieces, a piece a call: none blocks the thread for long.

    Attributes:
        asks_keys: the socket is a CURVE server; set before the first message.
        heard: descriptors of the connections that messages came from, until its reader clears it.
    """

    asks_keys = False  # declared here, since a ZeroMQ socket takes every other attribute for an option
    heard: set[int]
    _rest_of: bytes | None = None

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], kind: int) -> None:
        super().__init__(context, kind)
        object.__setattr__(self, "heard", set())

    def recv_multipart(self, flags: int = 0, copy: bool = True, track: bool = False) -> list[bytes]:  # type: ignore[override]  # noqa: ARG002
        """Return identity, parts, address, key and descriptor; pieces of a long message have no part between."""
        identity, whole = self._rest_of, self._rest_of is None
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
    """End the TCP connection that a peer's message came by, since ZeroMQ cannot; False when it is gone or ended.

    Args:
        peer: sender of the message.
        endpoint: ours, with the port. A descriptor that was given to another connection since is left alone, unless
            that one has the same address and port.
        quietly: see :func:`end`.
    """
    try:
        with borrowed(peer.descriptor) as connection:
            theirs, ours = connection.getpeername(), connection.getsockname()
            if peer_of(theirs[0]) != peer_of(peer.address) or ours[1] != int(endpoint.rpartition(":")[2]):
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
