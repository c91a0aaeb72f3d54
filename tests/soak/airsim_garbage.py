"""Garbage at a port of MessagePack-RPC.

What the server must close and count, and messages that never end.
"""

from __future__ import annotations

import random
import socket
from collections import Counter, deque
from typing import Final

from msgspec.msgpack import encode

_LIMIT_S: Final = 120.0
_HELD: Final = 5
"""Unfinished messages at a time."""
_PING: Final = encode((0, 1, "ping", ()))
_HEAD: Final = b"\x94\x00\x01\xa4ping"
MALFORMED: Final[dict[str, bytes]] = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "reserved": b"\xc1",
    "short": encode((0, 1, "ping")),
    "negative": encode((0, -1, "ping", ())),
    "method": encode((0, 1, 5, ())),
    "arguments": encode((0, 1, "ping", {})),
    "answer": encode((1, 1, None, True)),
    "map": encode({0: 1}),
    "extension": _HEAD + b"\x91\xc7\x01\x05x",
    "endless array": _HEAD + b"\xdd\x7f\xff\xff\xff",
    "large": _HEAD + b"\x91\xc6\x00\xa0\x00\x00" + bytes(10 << 20),
    "nested": b"\x91" * 100_000,
    "nested a little": b"\x91" * 100,
    "nested headers": b"\xdc\x7f\xff" * 1024,
    "array for a key": _HEAD + b"\x91\x81\x90\x01",
    "map for a key": b"\x81\x80\x01",
    "after a request": _PING + b"\xc1",
}
UNFINISHED: Final[dict[str, bytes]] = {
    "cut": _HEAD[:5],
    "megabytes": _HEAD + b"\x91\xc6\x00\x70\x00\x00" + bytes(6 << 20),
    "silent": b"",
    "endless text": _HEAD + b"\x91\xdb\xff\xff\xff\xff",
    "nested ten times": b"\x91" * 10,
}

assert MALFORMED.keys().isdisjoint(UNFINISHED), "a name says what is to be counted"


class GarbageThrower:
    """Throws one piece at each turn.

    Attributes:
        thrown: pieces by name. malformed: how many the server must count.
    """

    def __init__(self, port: int, rng: random.Random) -> None:
        self.thrown: Counter[str] = Counter()
        self._port = port
        self._random = rng
        self._held: deque[socket.socket] = deque()
        for _ in range(_HELD):  # as many as ever: the server's sockets are counted
            self._hold(self._connection(), b"")

    @property
    def malformed(self) -> int:
        """Pieces that end their connection."""
        return sum(count for name, count in self.thrown.items() if name in MALFORMED)

    def throw(self) -> None:
        """Throw a piece.

        Raises TimeoutError: the server does not close the connection of what is malformed.
        """
        name = self._random.choice([*MALFORMED, *UNFINISHED])
        self.thrown[name] += 1
        peer = self._connection()
        if name in UNFINISHED:
            self._hold(peer, UNFINISHED[name])
            return
        with peer:
            try:
                peer.sendall(MALFORMED[name])
                while peer.recv(1 << 16):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass  # closed before it has read everything

    def _connection(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=_LIMIT_S)

    def _hold(self, peer: socket.socket, data: bytes) -> None:
        """Send, and leave the connection open until others have come."""
        peer.sendall(data)
        self._held.append(peer)
        if len(self._held) > _HELD:
            self._held.popleft().close()
