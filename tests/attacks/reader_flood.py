"""Readers that registered in good order and then flood the control channel with pings and inertial
samples.

``python -m tests.attacks.reader_flood ENDPOINT READERS``
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Final

import zmq

from tests.attacks.attack import Attack, moments, named, program

_SAMPLE: Final = {"t_ns": [1], "w_radps": [[0.0, 0.0, 0.0]], "f_mps2": [[0.0, 0.0, 9.81]]}

ATTACK: Final = Attack(
    summary="10 registered readers flood the control channel with pings and inertial samples",
    commands=lambda target: [program("tests.attacks.reader_flood", target.endpoint, 10)],
    counted=lambda before, after: named(before, after, "control", "flood"),
)


class Reader:
    """One of them."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str, name: str) -> None:
        self._socket = context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.sndtimeo, self._socket.rcvtimeo = 10, 100
        self._socket.rcvhwm = 1
        self._socket.connect(endpoint)
        self._name = name
        self._messages: list[bytes] = []

    def register(self) -> None:
        """Ask for a seat, and wait a moment for it."""
        with contextlib.suppress(zmq.Again):
            self._socket.send(
                json.dumps(
                    {"type": "register", "v": 1, "camera": "front", "name": self._name}
                ).encode()
            )
            token = json.loads(self._socket.recv()).get("token", "none")
            said = ({"type": "ping", "t1": 1}, {"type": "imu", **_SAMPLE})
            self._messages = [json.dumps({**each, "token": token}).encode() for each in said]

    def flood(self) -> None:
        """Send some of each, as far as they are taken."""
        with contextlib.suppress(zmq.Again):
            for message in self._messages * 10:
                self._socket.send(message, zmq.NOBLOCK)


def main(endpoint: str, count: int) -> None:
    """Register and flood until the end of an attacker's life."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    readers = [Reader(context, endpoint, f"vandal{index}") for index in range(count)]
    for reader in readers:
        reader.register()
    for _ in moments(0.001):
        for reader in readers:
            reader.flood()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
