"""WebSockets that ping without end and read nothing, opened again when they are cut off.

``python -m tests.attacks.websocket_pings PORT``
"""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import Final

from tests.attacks.attack import Attack, moments, named, program

CONNECTIONS: Final = 4
_OPENING: Final = (
    b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
_PINGS: Final = (b"\x89\xfd" + bytes(4) + bytes(125)) * 500

ATTACK: Final = Attack(
    summary="4 WebSockets ping without end, read nothing, and come back when they are cut off",
    commands=lambda target: [program("tests.attacks.websocket_pings", target.http_port)],
    counted=lambda before, after: named(before, after, "http", "pings"),
)


def flood(port: int) -> None:
    """Ping on all connections as much as they take."""
    lines: dict[int, socket.socket] = {}
    for _ in moments(0.01):
        for number in range(CONNECTIONS):
            try:
                if number not in lines:
                    lines[number] = socket.create_connection(("127.0.0.1", port), timeout=2.0)
                    lines[number].sendall(_OPENING)
                    lines[number].setblocking(False)
                lines[number].send(_PINGS)
            except BlockingIOError:
                continue
            except OSError:  # cut off, or refused
                with contextlib.suppress(KeyError):
                    lines.pop(number).close()


if __name__ == "__main__":
    flood(int(sys.argv[1]))
