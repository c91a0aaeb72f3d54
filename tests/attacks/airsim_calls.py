"""AirSim's server under the calls that cost the most, one client and one kind at a time, and
under mute connections.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Final

from tests.attacks.attack import Attack, Command, Status, Target, named, program
from tests.support.airsim_burns import KINDS
from vil_simulation.demo.child_processes import free_ports

_SERVED_S: Final = 10.0
_PORT: Final = "airsim.port"
_PING: Final = b"\x94\x00\x01\xa4ping\x90"
_PONG: Final = b"\x94\x01\x01\xc0\xc3"
_WITHIN_SHARE: Final = ("pictures", "detections", "lidar", "meshes", "voxels", "long_paths", "deep")
"""Kinds that the server refuses, or that wait for the scene more than for a turn."""


def _configure(config: dict[str, Any], folder: Path) -> None:
    """Serve AirSim's programs at a port that a file names, with a vehicle of AirSim's and its
    lidar.
    """
    port = free_ports(1, socket.SOCK_STREAM)[0]
    (folder / _PORT).write_text(str(port))
    config["airsim"] = {"port": port, "scene": "empty"}


def _commands(target: Target, kind: str) -> list[Command]:
    return [program("tests.support.airsim_burns", _port(target), kind)]


def _serves_others(target: Target) -> list[str]:
    """Return the problems of another program that connects during the attack and calls once."""
    try:
        with socket.create_connection(("127.0.0.1", _port(target)), timeout=_SERVED_S) as peer:
            peer.sendall(_PING)
            answer = peer.recv(64)
    except OSError as exc:
        return [f"another program is not served: {exc}"]
    return [] if answer == _PONG else [f"another program got {answer!r}"]


def _port(target: Target) -> int:
    return int((target.folder / _PORT).read_text())


def _counted(before: Status, after: Status, kind: str) -> str:
    found = [named(before, after, "airsim", reason) for reason in ("slowed", "mute", "malformed")]
    return ", ".join(filter(None, found)) or ("served" if kind in _WITHIN_SHARE else "")


def _attack(kind: str) -> Attack:
    return Attack(
        summary=f"one client of AirSim's server burns: {kind.replace('_', ' ')}",
        commands=lambda target: _commands(target, kind),
        counted=lambda before, after: _counted(before, after, kind),
        configure=_configure,
        during=_serves_others,
    )


ATTACKS: Final = {kind: _attack(kind) for kind in KINDS}
