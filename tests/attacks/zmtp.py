"""Raw ZMTP 3.1 connections, so that an attacker decides about every byte and may reset them."""

from __future__ import annotations

import socket
import struct
from typing import Final

__all__ = ["PING", "connection", "handshake", "message", "part", "peer", "reset"]

_GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(52, b"\x00")
_RESET: Final = struct.pack("ii", 1, 0)
PING: Final = b"\x04\x07\x04PING\x00\x00"
"""ZeroMQ's own heartbeat, which asks for a PONG."""


def handshake(kind: bytes = b"DEALER", identity: bytes = b"") -> bytes:
    """Return greeting and READY of a socket of that type, without encryption.

    It may choose its identity.
    """
    body = b"\x05READY" + _property(b"Socket-Type", kind) + _property(b"Identity", identity)
    return _GREETING + bytes((4, len(body))) + body


def message(*parts: bytes) -> bytes:
    """Return a message of parts shorter than 256 bytes."""
    last = len(parts) - 1
    return b"".join(part(payload, more=index < last) for index, payload in enumerate(parts))


def part(payload: bytes, more: bool) -> bytes:
    """Return a part shorter than 256 bytes; ``more`` follow it in its message."""
    return bytes((more, len(payload))) + payload


def connection(port: int) -> socket.socket:
    """Connect to the port on loopback; the socket does not block."""
    peer = socket.create_connection(("127.0.0.1", port), timeout=2.0)
    peer.setblocking(False)
    return peer


def peer(port: int, identity: bytes = b"") -> socket.socket:
    """Connect and wait for the answer to the handshake; the socket blocks for up to 2 s.

    Raises OSError.
    """
    made = connection(port)
    try:
        made.settimeout(2.0)
        made.sendall(handshake(identity=identity))
        if not made.recv(len(_GREETING), socket.MSG_WAITALL) or not made.recv(256):
            raise ConnectionResetError
    except OSError:
        made.close()
        raise
    return made


def reset(peer: socket.socket) -> None:
    """End a connection by RST."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    peer.close()


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + struct.pack(">I", len(value)) + value
