"""A motion-capture server that sends one pose for ever, with fresh stamps and frame numbers.

``python -m tests.attacks.frozen_pose COMMAND_PORT``
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from tests.attacks.attack import LONGEST_S, Attack, Target, program, seen
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import MotionFrame, SkeletonModel
from vil_simulation.demo.child_processes import free_ports


class Repeated:
    """One pose."""

    subjects = ("cf1",)
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def at(self, t_ns: int) -> MotionFrame:
        """The same at every instant."""
        return MotionFrame(
            self.subjects, np.ones((1, 3)), np.array([[0.0, 0.0, 0.6, 0.8]]), np.array([True])
        )


def configure(config: dict[str, Any], _folder: Path) -> None:
    """Add the attacked source and its actor."""
    port = free_ports(1, socket.SOCK_DGRAM)[0]
    config["sources"]["attacker"] = {
        "type": "optitrack",
        "room": "hall",
        "server": "127.0.0.1",
        "command_port": port,
    }
    config["actors"]["attacker"] = {"kind": "vehicle", "source": "attacker", "subject": "cf1"}


def commands(target: Target) -> list[list[str]]:
    """Return the server's command line."""
    config = yaml.safe_load((target.folder / "attacked.yaml").read_text())
    return [program("tests.attacks.frozen_pose", config["sources"]["attacker"]["command_port"])]


async def serve(port: int) -> None:
    """Send the pose until the limit of an attacker's life."""
    config = MotiveEmulatorConfig(command_port=port, data_port=0, rate_hz=100.0)
    async with asyncio.timeout(LONGEST_S), MotiveEmulator(config, Repeated(), now_ns()) as motive:
        while not motive.clients:
            await asyncio.sleep(0.02)
        print("ready", flush=True)
        await asyncio.Event().wait()


ATTACK: Final = Attack(
    summary="a mocap server repeats one pose to the bit with fresh stamps",
    commands=commands,
    counted=lambda before, after: seen(before, after, "actors.attacker.seen.frozen"),
    configure=configure,
)


if __name__ == "__main__":
    try:
        asyncio.run(serve(int(sys.argv[1])))
    except TimeoutError:
        sys.exit(0)
