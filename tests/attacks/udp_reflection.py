"""A registered reader that makes true reports from addresses of others, to aim the stream at them.

``python -m tests.attacks.udp_reflection ENDPOINT``
"""

from __future__ import annotations

import contextlib
import hmac
import json
import socket
import struct
import sys
from typing import Final

import zmq

from tests.attacks.attack import Attack, moments, named, program
from vil_bridge.outputs.stream.fec import stream_id

VICTIMS: Final = 20

ATTACK: Final = Attack(
    summary="a reader reports from the addresses of 20 victims, who must get less than was sent "
    "in their names",
    commands=lambda target: [program("tests.attacks.udp_reflection", target.endpoint)],
    counted=lambda before, after: named(before, after, "control", "udp_unproven"),
)


def reflect(endpoint: str) -> None:
    """Report in the victims' names.

    Fails when one gets a picture, or they more bytes than were sent.
    """
    control: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    control.connect(endpoint)
    wish = {"type": "register", "v": 1, "camera": "front", "transport": "udp", "name": "mirror"}
    control.send(json.dumps(wish).encode())
    while not control.poll(1000):  # dropped: this address was just a flood
        control.send(json.dumps(wish).encode())
    answer = json.loads(control.recv())
    token, bridge = answer["token"], ("127.0.0.1", answer["udp_port"])
    victims = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(VICTIMS)]
    for n, victim in enumerate(victims):
        victim.setblocking(False)
        victim.bind((f"127.0.0.{2 + n}", 0))
    sent = received = 0
    for n, _ in enumerate(moments(0.0005)):
        body = struct.pack(
            "<4s8sQQQqqq16s", b"VILR", stream_id(token), n + 1, 0, 0, 0, 0, 0, bytes(16)
        )
        victim = victims[n % VICTIMS]
        sent += victim.sendto(body + hmac.digest(token.encode(), body, "sha256")[:16], bridge)
        with contextlib.suppress(BlockingIOError):
            while True:
                datagram = victim.recv(2000)
                received += len(datagram)
                assert datagram.startswith(b"VILC"), "a victim got a picture"
                assert received < sent, "the bridge amplifies"
        if n % 200 == 0:
            control.send(json.dumps({"type": "ping", "t1": n, "token": token}).encode())


if __name__ == "__main__":
    reflect(sys.argv[1])
