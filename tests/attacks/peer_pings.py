"""Connections to all ZeroMQ ports that flood with ZeroMQ's PINGs among the messages, read nothing
and are reset.

libzmq aborts a process that still has such messages of a connection that broke (its issue 4841).

``python -m tests.attacks.peer_pings CONTROL_PORT PUBLISH_PORT POSE_PORT IMAGE_PORT``
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from typing import Final

from tests.attacks.attack import Attack, moments, named, program
from tests.attacks.zmtp import PING, connection, handshake, message, reset
from vil_bridge.protocols.federation.messages import encode_describe

CONNECTIONS: Final = 3
"""To each port."""
HELD_S: Final = 0.3
KINDS: Final = (
    (b"DEALER", b'{"type":"ping","t1":1}'),
    (b"DEALER", encode_describe()),
    (b"XSUB", b"Pose"),
    (b"PUB", b"picture"),
)
"""Socket type and message for each port."""

ATTACK: Final = Attack(
    summary="3 connections to each ZeroMQ port flood, with PINGs among the messages, read "
    "nothing and reset",
    commands=lambda target: [
        program(
            "tests.attacks.peer_pings",
            *(target.stream_port, target.federation_port, target.pose_port, target.image_port),
        )
    ],
    counted=lambda before, after: (
        named(before, after, "control", "flood") and named(before, after, "publish", "flood")
    ),
)


class Flood:
    """The connections of one attacker to one port."""

    def __init__(self, port: int, kind: bytes, payload: bytes) -> None:
        self._port, self._kind = port, kind
        self._chunk = (message(payload) * 20 + PING) * 50
        self._peers: list[socket.socket] = []
        self._begun_s = time.monotonic()

    def step(self) -> None:
        """Open one more connection, send on all as much as they take.

        Reset all of them after a while.
        """
        if time.monotonic() - self._begun_s > HELD_S:
            for peer in self._peers:
                reset(peer)
            self._peers, self._begun_s = [], time.monotonic()
        with contextlib.suppress(OSError):  # refused, or cut off
            if len(self._peers) < CONNECTIONS:
                self._peers.append(connection(self._port))
                self._peers[-1].send(handshake(self._kind))
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.send(self._chunk)


if __name__ == "__main__":
    floods = [Flood(int(port), *kind) for port, kind in zip(sys.argv[1:], KINDS, strict=True)]
    for _ in moments(0.02):
        for each in floods:
            each.step()
