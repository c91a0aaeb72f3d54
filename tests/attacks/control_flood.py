"""Connections that flood the stream's control channel with everything that it knows, and with
garbage.

``python -m tests.attacks.control_flood ENDPOINT CONNECTIONS``
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Final

import zmq

from tests.attacks.attack import Attack, moments, named, program

_IMU: Final = {
    "t_ns": list(range(200)),
    "w_radps": [[0.1, 0.2, 0.3]] * 200,
    "f_mps2": [[0.0, 0.0, 9.81]] * 200,
}
_MESSAGES: Final = (
    [json.dumps({"type": "status", "id": 1}).encode()],
    [json.dumps({"type": "ping", "t1": 1}).encode()],
    [json.dumps({"type": "register", "v": 1, "camera": "front", "name": "vandal"}).encode()],
    [json.dumps({"type": "register", "v": 1, "camera": "none"}).encode()],
    [json.dumps({"type": "imu", "token": "none", **_IMU}).encode()],
    [json.dumps({"type": "credit", "token": "none", "frame_id": 1}).encode()],
    [
        json.dumps(
            {"type": "command", "id": 1, "name": "vehicle_state", "args": {"subject": "drone"}}
        ).encode()
    ],
    [b"[" * 60_000],
    [b"part"] * 100,
)

ATTACK: Final = Attack(
    summary="one connection floods the control channel with questions, twelve more with all "
    "kinds of messages",
    commands=lambda target: [
        program("tests.attacks.control_flood", target.endpoint, connections)
        for connections in (1, 12)
    ],
    counted=lambda before, after: named(before, after, "control", "flood", "stranger", "malformed"),
)


def flood(endpoint: str, connections: int) -> None:
    """Send as fast as the bridge takes it.

    Over one connection the same question, over more all messages.
    """
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    peers = [context.socket(zmq.DEALER) for _ in range(connections)]
    for peer in peers:
        peer.setsockopt(zmq.SNDTIMEO, 10)
        peer.setsockopt(zmq.RCVHWM, 1)
        peer.connect(endpoint)
    messages = _MESSAGES if connections > 1 else _MESSAGES[:1]
    for n, _ in enumerate(moments()):
        for i, peer in enumerate(peers):
            with contextlib.suppress(zmq.Again):
                peer.send_multipart(messages[(n + i) % len(messages)])


if __name__ == "__main__":
    flood(sys.argv[1], int(sys.argv[2]))
