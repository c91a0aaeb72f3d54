"""A renderer that answers every request with the same picture while the camera flies.

``python -m tests.attacks.frozen_picture POSE_PORT IMAGE_PORT``
"""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from tests.attacks.attack import Attack, Target, moments, program, seen
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_renderer.flightgoggles.server import FlightGogglesServerConfig, RenderedRequest, serve
from vil_simulation.demo.child_processes import free_ports


def configure(config: dict[str, Any], _folder: Path) -> None:
    """Let the camera prefer the attacker's renderer."""
    pose_port, image_port = free_ports(2, socket.SOCK_STREAM)
    config["renderers"]["attacker"] = {
        "type": "flightgoggles",
        "pose_port": pose_port,
        "image_port": image_port,
    }
    for camera in config["cameras"].values():
        camera["renderer"] = ["attacker", "hall"]


def commands(target: Target) -> list[list[str]]:
    """Return the renderer's command line."""
    ports = yaml.safe_load((target.folder / "attacked.yaml").read_text())["renderers"]["attacker"]
    return [program("tests.attacks.frozen_picture", ports["pose_port"], ports["image_port"])]


def attack(pose_port: int, image_port: int) -> None:
    """Repeat one picture until the limit of an attacker's life."""
    picture = np.random.default_rng(4).integers(0, 256, (120, 160, 3), dtype=np.uint8)

    def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        return RenderedRequest(tuple(RenderedImage(view, picture) for view in views if view.due))

    stop = threading.Event()
    config = FlightGogglesServerConfig(pose_port=pose_port, image_port=image_port)
    threading.Thread(target=serve, args=(draw, config, stop), daemon=True).start()
    for _ in moments(0.1):
        pass
    stop.set()


ATTACK: Final = Attack(
    summary="the renderer repeats its pixels while the camera flies",
    commands=commands,
    counted=lambda before, after: seen(before, after, "cameras.front.dropped.picture_frozen"),
    configure=configure,
    judges_rate=False,  # held back on purpose
)


if __name__ == "__main__":
    attack(int(sys.argv[1]), int(sys.argv[2]))
