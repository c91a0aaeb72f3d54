"""Two bridges as two hosts would run them, each with its room.

Real processes, the shipped configurations.

``python -m tests.support.federation_hosts ROOM COMMAND_PORT DATA_PORT EPOCH_NS`` emulates the
Motive of one room.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.support.common import ROOT, wait_until
from tests.support.network_namespaces import in_namespace
from tests.support.programs import Program
from vil_adapters.motions.drone import DroneMotion
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.config.load import load
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.registry import resolve
from vil_bridge.setup.keys import new_keys
from vil_simulation.demo.child_processes import free_ports

ROOMS: Final = ("flight", "actor")
OTHER: Final = {"flight": "actor", "actor": "flight"}
OWN: Final = {"flight": "drone", "actor": "human"}
MOTIONS: Final[dict[str, Callable[[], MocapMotion]]] = {
    "flight": lambda: DroneMotion("drone"),
    "actor": lambda: WalkMotion("Actor"),
}


class Host:
    """One room's bridge and its Motive.

    Attributes:
        port: where the bridge publishes.
        http_port: of its status.
    """

    def __init__(
        self,
        room: str,
        folder: Path,
        epoch_ns: int,
        ports: Sequence[int],
        namespace: str | None = None,
    ) -> None:
        self.room = room
        self.own, self.foreign = OWN[room], OWN[OTHER[room]]
        self.port, self.http_port, self.stream_port, self.command_port, self.data_port = ports
        self._folder = folder
        self._namespace = namespace
        self._epoch_ns = epoch_ns
        self._children: dict[str, Program] = {}
        self._settings: dict[str, object] = {}

    def configure(self, bind: str, address: str, **settings: object) -> None:
        """Choose where the bridge publishes and where it finds the other one."""
        keys, other = self._folder, OTHER[self.room]
        remote = f"sources.{other}-hall"
        self._settings = {
            "sources.motive.command_port": self.command_port,
            f"{remote}.address": address,
            f"{remote}.secret_key": keys / f"{self.room}.key_secret",
            f"{remote}.server_key": keys / f"{other}.key",
            "federation.zmq.bind": bind,
            "federation.zmq.secret_key": keys / f"{self.room}.key_secret",
            "federation.zmq.allowed_keys": keys,
            "http.port": self.http_port,
            "renderers.unity.pose_port": 0,
            "renderers.unity.image_port": 0,
            "stream.bind": f"tcp://127.0.0.1:{self.stream_port}",
            # A busy machine holds its own frames up for so long.
            f"actors.{self.own}.tracking.lost_after_ms": 5000,
            **settings,
        }

    def start(self) -> None:
        """Start what does not run."""
        sets = [
            word for key, value in self._settings.items() for word in ("--set", f"{key}={value}")
        ]
        ports = (str(self.command_port), str(self.data_port))
        self._spawn(
            "motive", "-m", "tests.support.federation_hosts", self.room, *ports, str(self._epoch_ns)
        )
        self._spawn(
            "bridge",
            "-m",
            "vil_bridge",
            "run",
            str(ROOT / "configs" / f"two_hosts_{self.room}.yaml"),
            *sets,
        )

    def _spawn(self, name: str, *words: str) -> None:
        if name in self._children:
            return
        inside = () if self._namespace is None else ("ip", "netns", "exec", self._namespace)
        log = self._folder / f"{self.room}_{name}.log"
        self._children[name] = Program(*inside, sys.executable, *words, log=log)

    def kill(self, *names: str) -> None:
        """End some without a word, all when none is named."""
        for name in names or tuple(self._children):
            child = self._children.pop(name, None)
            if child is not None:
                child.kill()

    def log(self) -> str:
        """What the bridge wrote."""
        return (self._folder / f"{self.room}_bridge.log").read_text(errors="replace")

    def status(self) -> dict[str, Any]:
        """The bridge's status. Raises OSError."""
        url = f"http://127.0.0.1:{self.http_port}/api/v1/status"

        def get() -> dict[str, Any]:
            with urllib.request.urlopen(url, timeout=30.0) as answer:
                found: dict[str, Any] = json.load(answer)
                return found

        return get() if self._namespace is None else in_namespace(self._namespace, get)

    def state(self, actor: str) -> str:
        """An actor's state, ``silent`` while the bridge says nothing yet."""
        assert self._children["bridge"].poll() is None, self.log()[-3000:]
        try:
            return str(self.status()["actors"][actor]["state"])
        except OSError:
            return "silent"

    def await_state(self, actor: str, state: str, timeout_s: float = 30.0) -> float:
        """Seconds until an actor was in a state."""
        said = lambda: f"{actor} {state}\n{self.log()[-2000:]}"  # noqa: E731
        return wait_until(lambda: self.state(actor) == state, timeout_s, said)


class Hosts:
    """Both hosts; use it with ``with``."""

    def __init__(self, folder: Path, namespaces: dict[str, str] | None = None) -> None:
        self._epoch_ns = time.monotonic_ns()
        for room in ROOMS:
            new_keys(folder, room)
        named = namespaces or {}
        ports = free_ports(10, socket.SOCK_STREAM)
        self.flight, self.actor = (
            Host(room, folder, self._epoch_ns, ports[5 * i : 5 * i + 5], named.get(room))
            for i, room in enumerate(ROOMS)
        )

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        for host in (self.flight, self.actor):
            host.kill()

    def start(self) -> None:
        """Start everything and wait for one whole world on both hosts."""
        for host in (self.flight, self.actor):
            host.start()
        for host in (self.flight, self.actor):
            for name in OWN.values():
                host.await_state(name, "tracked", 40.0)

    def truth(self, actor: str, t_ns: int) -> FloatArray:
        """Where an actor (a human: its root) truly is in the shared world, metres."""
        room = next(r for r, own in OWN.items() if own == actor)
        config = load(ROOT / "configs" / f"two_hosts_{room}.yaml", env={}, resolve=resolve)
        seen = MOTIONS[room]().at(t_ns - self._epoch_ns)
        p_m = seen.skeletons[0].p_m[0] if seen.skeletons else seen.p_m[0]
        return np.asarray(config.rooms[room].T_world_room.transform().apply(p_m))


async def _motive(room: str, command_port: int, data_port: int, epoch_ns: int) -> None:
    from vil_adapters.optitrack.config import MotiveEmulatorConfig
    from vil_adapters.optitrack.emulator import MotiveEmulator

    config = MotiveEmulatorConfig(command_port=command_port, data_port=data_port, rate_hz=100.0)
    await MotiveEmulator(config, MOTIONS[room](), epoch_ns).run()


if __name__ == "__main__":
    asyncio.run(_motive(sys.argv[1], *map(int, sys.argv[2:5])))
