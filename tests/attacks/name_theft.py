"""Readers that register under the vehicle's name, send inertial samples as if they were it, and
take its seats.

``python -m tests.attacks.name_theft ENDPOINT``
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Final

import zmq

from tests.attacks.attack import Attack, moments, named, program
from vil_bridge.core.clock import now_ns

CONNECTIONS: Final = 80
"""More than one address may have."""

ATTACK: Final = Attack(
    summary="80 connections register as the vehicle and send inertial samples in its name",
    commands=lambda target: [program("tests.attacks.name_theft", target.endpoint)],
    counted=lambda before, after: named(before, after, "control", "rival"),
)


def steal(endpoint: str) -> None:
    """Register until no seat is left, then send samples from all seats."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    thieves = [context.socket(zmq.DEALER) for _ in range(CONNECTIONS)]
    for thief in thieves:
        thief.setsockopt(zmq.SNDTIMEO, 10)
        thief.connect(endpoint)
    tokens: dict[int, str] = {}
    wish = json.dumps({"type": "register", "v": 1, "camera": "front", "name": "onboard"}).encode()
    for n, _ in enumerate(moments(0.002)):
        thief = thieves[n % CONNECTIONS]
        token = tokens.get(n % CONNECTIONS)
        sample = {"t_ns": [now_ns()], "w_radps": [[9.0, 9.0, 9.0]], "f_mps2": [[0.0, 0.0, 0.0]]}
        with contextlib.suppress(zmq.Again):
            thief.send(
                wish
                if token is None
                else json.dumps({"type": "imu", "token": token, **sample}).encode()
            )
        while thief.poll(0):
            answer = json.loads(thief.recv())
            if answer["type"] == "registered":
                tokens[n % CONNECTIONS] = answer["token"]


if __name__ == "__main__":
    steal(sys.argv[1])
