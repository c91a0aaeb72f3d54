"""Programs without a role that command a vehicle over the stream, where ``http.token_file`` is set.

``python -m tests.attacks.stranger_commands ENDPOINT``
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any, Final

import zmq

from tests.attacks.attack import Attack, Target, moments, named, program
from vil_bridge.setup.keys import new_tokens

_DISARM: Final = {
    "type": "command",
    "id": 1,
    "name": "vehicle_command",
    "args": {"subject": "drone", "action": "disarm"},
}


def _configure(config: dict[str, Any], folder: Path) -> None:
    new_tokens(folder / "tokens")
    config["http"]["token_file"] = str(folder / "tokens")


def _during(target: Target) -> list[str]:
    return (
        [] if target.get("api/v1/vehicles/drone")["armed"] else ["a stranger disarmed the vehicle"]
    )


ATTACK: Final = Attack(
    summary="a stranger and a registered reader, without a token and with guessed ones, disarm "
    "the vehicle",
    commands=lambda target: [program("tests.attacks.stranger_commands", target.endpoint)],
    counted=lambda before, after: named(before, after, "control", "unauthorized"),
    configure=_configure,
    during=_during,
)


def command(endpoint: str) -> None:
    """Disarm the drone, as a stranger and as a reader, again and again."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    stranger, reader = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    for peer in (stranger, reader):
        peer.setsockopt(zmq.SNDTIMEO, 100)
        peer.connect(endpoint)
    reader.send(
        json.dumps({"type": "register", "v": 1, "camera": "front", "name": "reader"}).encode()
    )
    for n, _ in enumerate(moments(0.002)):
        for access in ("", f"{n % 20:040d}"):
            for peer in (stranger, reader):
                with contextlib.suppress(zmq.Again):
                    peer.send(json.dumps(_DISARM | {"access": access}).encode())
                while peer.poll(0):
                    answer = json.loads(peer.recv())
                    assert answer["type"] != "result" or not answer["ok"], answer


if __name__ == "__main__":
    command(sys.argv[1])
