"""Connections that flood the control channel, some with a message that never ends, and come back
when they are ended.

``python -m tests.attacks.crowd PORT CONNECTIONS``
"""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import Final

from tests.attacks.attack import Attack, moments, named, program
from tests.attacks.zmtp import message, part, peer

_CHUNKS: Final = (
    message(b'{"type":"ping","t1":1}') * 20,
    message(b"{") * 20,
    part(bytes(200), more=True) * 20,
)

ATTACK: Final = Attack(
    summary="200 connections flood the control channel and come back, every third with a message "
    "that never ends",
    commands=lambda target: [program("tests.attacks.crowd", target.stream_port, 200)],
    counted=lambda before, after: named(before, after, "control", "too_many", "flood"),
)


class Crowd:
    """The connections of one attacker."""

    def __init__(self, port: int, connections: int) -> None:
        self._port, self._connections = port, connections
        self._peers: list[socket.socket] = []

    def step(self) -> None:
        """Connect again what was ended, and send on all as much as they take."""
        with contextlib.suppress(OSError):  # refused
            while len(self._peers) < self._connections:
                self._peers.append(peer(self._port))
                self._peers[-1].setblocking(False)
        for index, each in enumerate(tuple(self._peers)):
            try:
                each.send(_CHUNKS[index % len(_CHUNKS)])
            except BlockingIOError:
                pass
            except OSError:
                each.close()
                self._peers.remove(each)


if __name__ == "__main__":
    crowd = Crowd(int(sys.argv[1]), int(sys.argv[2]))
    for _ in moments(0.01):
        crowd.step()
