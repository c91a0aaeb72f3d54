"""A whole bridge on loopback for tests.

Lab, renderer, daemon and client, each a process of its own.

``python -m tests.support.harness POSE_PORT IMAGE_PORT`` is a renderer on the real wire whose
pictures are noise, so that robustness is tested without paying for drawing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np

from tests.support.common import ROOT, wait_until
from tests.support.programs import VIL_BRIDGE, Program
from vil_bridge.core.types import ImageArray, Modality, RenderedImage, View, WorldSnapshot
from vil_simulation.demo.child_processes import free_ports

NAMES: Final = ("daemon", "renderer", "lab", "client")
_LISTEN: Final = "0A"


class Rig:
    """The four processes, their ports and their logs.

    Attributes:
        folder: configuration, logs and the client's summary.
        endpoint: the stream's control channel.
        imu: path of the vehicle's serial port.
        start_s: limit of each program's start, seconds.
    """

    start_s: ClassVar[float] = 40.0

    def __init__(self, folder: Path, imu: Path | None = None, **overrides: object) -> None:
        """Choose ports and write the configuration; nothing is started.

        Args:
            folder: an empty one.
            imu: serial port to read; None = the lab's.
            overrides: configuration keys, with ``__`` for the dot.
        """
        self.folder = folder
        self._udp = free_ports(4, socket.SOCK_DGRAM)
        self.pose_port, self.image_port, self.stream_port, self.http_port = free_ports(
            4, socket.SOCK_STREAM
        )
        self.endpoint = f"tcp://127.0.0.1:{self.stream_port}"
        self.command_ports = (self._udp[0], self._udp[2])
        self._lab_imu = folder / "imu"
        self.imu = imu or self._lab_imu
        self._epoch_ns = time.monotonic_ns()
        self._children: dict[str, Program] = {}
        preset = folder / "demo.yaml"
        preset.write_text((files("vil_bridge.config.presets") / "demo.yaml").read_text())
        self._commands = self._all_commands(preset, overrides)

    def _all_commands(self, preset: Path, overrides: Mapping[str, object]) -> dict[str, list[str]]:
        udp = self._udp
        values: dict[str, object] = {
            "sources.motive_flight.command_port": udp[0],
            "sources.motive_actor.command_port": udp[2],
            "sources.imu.device": self.imu,
            "renderers.hall.pose_port": self.pose_port,
            "renderers.hall.image_port": self.image_port,
            "stream.bind": self.endpoint,
            "http.port": self.http_port,
        }
        for camera in ("front", "plain", "observer"):
            values |= {f"cameras.{camera}.width_px": 160, f"cameras.{camera}.height_px": 120}
        values |= {key.replace("__", "."): value for key, value in overrides.items()}
        sets = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
        ports = [str(self.pose_port), str(self.image_port)]
        rooms = ["--flight-ports", f"{udp[0]},{udp[1]}", "--actor-ports", f"{udp[2]},{udp[3]}"]
        return {
            "daemon": [*VIL_BRIDGE, "run", str(preset), *sets],
            "renderer": [sys.executable, "-m", "tests.support.harness", *ports],
            "lab": [
                *VIL_BRIDGE,
                "lab",
                *rooms,
                "--imu",
                str(self._lab_imu),
                "--epoch-ns",
                str(self._epoch_ns),
            ],
            "client": [
                *(sys.executable, str(ROOT / "vil_bridge" / "client.py")),
                *(self.endpoint, "--json", str(self.folder / "client.json")),
            ],
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for child in self._children.values():
            child.kill()

    # --- processes -----------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        """Start some; returns at once."""
        for name in names:
            assert not self.alive(name), f"{name} runs already"
            self._children[name] = Program(*self._commands[name], log=self.folder / f"{name}.log")

    def start_all(self) -> None:
        """Start everything and wait until the client gets pictures."""
        self.start(*NAMES)
        for name in NAMES:
            self.await_ready(name)
        wait_until(self.whole, self.start_s, self.trouble)

    def kill(self, name: str) -> None:
        """End one without a word (SIGKILL)."""
        self._children[name].kill()

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Ask one to end.

        Its exit code and the seconds in which it waited: no thread wanted a processor.
        """
        return self._children[name].end_waiting(number)

    def alive(self, name: str) -> bool:
        """True while the process runs."""
        return name in self._children and self._children[name].poll() is None

    def pid(self, name: str) -> int:
        """Process id of a running one."""
        return self._children[name].pid

    def log(self, name: str) -> str:
        """Everything that all processes of this name wrote."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def await_ready(self, name: str) -> None:
        """Wait until the newest process of this name does its work as far as it alone can."""
        self._children[name].await_that(lambda: self._ready(name), f"{name} ready", self.start_s)

    def _ready(self, name: str) -> object:
        pid = self.pid(name)
        if name == "client":
            return self.stream_port in {s.remote_port for s in sockets_of(pid, "tcp")}
        if name == "lab":
            bound = {s.local_port for s in sockets_of(pid, "udp")}
            return bound.issuperset(self._udp) and _holds(pid, self._lab_imu)
        return self._children[name].said("running: stream" if name == "daemon" else "ready")

    # --- what the daemon says ------------------------------------------------------------------

    def get(self, path: str = "api/v1/status") -> dict[str, Any]:
        """A JSON answer of the daemon. Raises OSError."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.http_port}/{path}", timeout=30.0
        ) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def received(self) -> int:
        """Pictures of the front camera that readers have reported so far."""
        return delivered(self.get())

    def trouble(self) -> list[str]:
        """What keeps the status from being the one of a bridge at full work; empty = nothing."""
        try:
            return trouble(self.get())
        except OSError as exc:
            return [f"no answer: {exc}"]

    def whole(self) -> bool:
        """True when everything works and pictures have reached a reader."""
        return not self.trouble() and self.received() > 0


def trouble(status: Mapping[str, Any]) -> list[str]:
    """Parts that do not work, by a status."""
    found = [
        f"{name}: {part['report']['state']} ({part['report']['reason']})"
        for kind in ("sources", "renderers", "outputs")
        for name, part in status[kind].items()
        if part["report"]["state"] != "running"
    ]
    found += [
        f"{name}: {actor['state']}"
        for name, actor in status["actors"].items()
        if actor["state"] != "tracked"
    ]
    found += [
        f"{name}: silent"
        for name, source in status["sources"].items()
        if (source["age_s"] or 9.0) > 0.5
    ]
    return found + ([] if status["streams"]["front"]["subscribers"] else ["front: no subscriber"])


def delivered(status: Mapping[str, Any]) -> int:
    """Pictures of the front camera that readers have reported."""
    count: int = status["cameras"]["front"]["latency"]["request_to_received"]["since_start"][
        "count"
    ]
    return count


# --- what the system says ----------------------------------------------------------------------


class Bound:
    """A socket as the kernel lists it; ``dropped`` counts datagrams that found its buffer full."""

    def __init__(self, line: list[str]) -> None:
        self.local_port = int(line[1].rpartition(":")[2], 16)
        self.remote_port = int(line[2].rpartition(":")[2], 16)
        self.listens = line[3] == _LISTEN
        self.inode = line[9]
        self.dropped = int(line[12]) if len(line) == 13 else 0


def sockets_of(pid: int, kind: str) -> list[Bound]:
    """A process's sockets of the kind ``udp`` or ``tcp`` (IPv4)."""
    inodes = {target[8:-1] for target in _descriptors(pid) if target.startswith("socket:[")}
    lines = Path(f"/proc/net/{kind}").read_text().splitlines()[1:]
    return [found for found in map(Bound, map(str.split, lines)) if found.inode in inodes]


def rss_mb(pid: int) -> float:
    """Resident memory of a process, MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _descriptors(pid: int) -> Iterator[str]:
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            yield str(entry.readlink())


def _holds(pid: int, link: Path) -> bool:
    return link.is_symlink() and str(link.resolve()) in _descriptors(pid)


# --- the renderer ------------------------------------------------------------------------------


def _noise(modality: Modality, height_px: int, width_px: int) -> ImageArray:
    source = np.random.default_rng(1)
    if modality is Modality.DEPTH:
        return source.integers(1000, 9000, (height_px, width_px), dtype=np.uint16)
    shape = (height_px, width_px, 3) if modality is Modality.RGB else (height_px, width_px)
    return source.integers(0, 256, shape, dtype=np.uint8)


def render(pose_port: int, image_port: int) -> None:
    """Answer with noise until SIGTERM."""
    from vil_renderer.flightgoggles.server import FlightGogglesServerConfig, RenderedRequest, serve

    pictures: dict[tuple[Modality, int, int], ImageArray] = {}
    drawn = itertools.count()

    def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        images = []
        for view in views:
            key = (view.modality, view.camera.height_px, view.camera.width_px)
            if view.due:
                noise = pictures.setdefault(key, _noise(*key))
                # None repeats another.
                images.append(RenderedImage(view, np.roll(noise, next(drawn), axis=0)))
        return RenderedRequest(tuple(images), info={"renderer": "noise"})

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    print("ready", flush=True)
    serve(draw, FlightGogglesServerConfig(pose_port=pose_port, image_port=image_port), stop)


if __name__ == "__main__":
    render(*(int(port) for port in sys.argv[1:3]))
