"""The whole product for a long run.

Two rooms, two renderers, the bridge, readers of every kind, bad networks.

Who survives is only ever stopped and continued, so that its memory can be compared over the hour;
who has a part of a victim is killed and started again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml

from tests.soak.patient import PatientRig
from tests.support.common import ROOT
from tests.support.harness import _holds, sockets_of, trouble
from tests.support.programs import VIL_BRIDGE
from vil_adapters.lab.link import LinkEmulator
from vil_adapters.lab.link_spec import LinkSpec
from vil_simulation.demo.child_processes import free_ports

SURVIVORS: Final = ("daemon", "lab", "renderer", "client", "seat", "readers")
VICTIMS: Final = ("human", "spare", "passenger", "visitor")
TRACED: Final = ("daemon", "renderer", "client", "seat", "readers")
NAMES: Final = (*SURVIVORS, *VICTIMS)
RADIO: Final = "127.0.0.2"
"""The onboard computer sees the bridge there, behind a link; the ports are the bridge's own."""
CAMERAS: Final = ("front", "plain", "observer")
FRONT_HZ: Final = 5.0
"""Of the camera that the embedded renderer draws, so that an hour of it leaves a computer
usable.
"""


class Plant(PatientRig):
    """The processes of :data:`NAMES` and the links between them.

    ``hall`` (the embedded renderer) draws ``front``; ``spare`` (noise) draws the other cameras.

    Attributes:
        links: by name, from the bridge to the mocap server, to the renderer, and from the client;
            not started.
    """

    def __init__(self, folder: Path, *, embedded: bool = True, trace_s: float = 0.0) -> None:
        """Choose ports, write the configuration.

        Args:
            folder: an empty one.
            embedded: draw with the embedded renderer, else noise.
            trace_s: period of ``VIL_TRACEMALLOC``, 0 = off.
        """
        self._embedded = embedded
        self._trace = ("env", f"VIL_TRACEMALLOC={trace_s}") if trace_s else ()
        tcp = free_ports(5, socket.SOCK_STREAM)
        self._spare_ports, self._hall_ports, self._data_port = tcp[0:2], tcp[2:4], tcp[4]
        # A camera's data socket has the port after that of the camera before.
        while self._data_port + len(CAMERAS) > 32_000:
            self._data_port = free_ports(1, socket.SOCK_STREAM)[0]
        self._mocap_port = free_ports(1, socket.SOCK_DGRAM)[0]
        super().__init__(folder)  # writes the configuration, so all ports are chosen by now
        radio = {
            f"radio{i}": f"tcp:{RADIO}:{p}={p}"
            for i, p in enumerate((self.stream_port, self._data_port))
        }
        cables = {
            "mocap": f"udp:{self._mocap_port}={self._udp[0]}",
            "poses": f"tcp:{self._hall_ports[0]}={self.pose_port}",
            "pictures": f"tcp:{self._hall_ports[1]}={self.image_port}",
        }
        self.links = {
            name: LinkEmulator(LinkSpec.parse(text)) for name, text in (radio | cables).items()
        }

    def _all_commands(self, preset: Path, overrides: Mapping[str, object]) -> dict[str, list[str]]:
        assert not overrides
        found: dict[str, Any] = yaml.safe_load(
            files("vil_bridge.config.presets").joinpath("demo.yaml").read_text()
        )
        self._adapt(found)
        config = self.folder / "soak.yaml"
        config.write_text(yaml.safe_dump(found))
        python = [sys.executable, "-m"]
        epoch = ["--epoch-ns", str(self._epoch_ns)]
        traced = [*python, "tests.soak.traced", str(ROOT / "vil_bridge" / "client.py")]
        hall = [str(port) for port in self._hall_ports]
        drawing = [*VIL_BRIDGE, "renderer", "--input-port", hall[0], "--output-port", hall[1]]
        readers = [*python, "tests.soak.readers", str(self.http_port)]
        udp = self._udp
        commands = {
            "daemon": [
                *([*python, "tests.soak.short_ledger"] if self._trace else VIL_BRIDGE),
                "run",
                str(config),
            ],
            "lab": [
                *python,
                "tests.soak.room",
                "flight",
                f"{udp[0]},{udp[1]}",
                "--imu",
                str(self._lab_imu),
                *epoch,
            ],
            "human": [*python, "tests.soak.room", "actor", f"{udp[2]},{udp[3]}", *epoch],
            "renderer": drawing if self._embedded else [*python, "tests.support.harness", *hall],
            "spare": [*python, "tests.support.harness", *map(str, self._spare_ports)],
            "client": [
                *traced,
                f"tcp://{RADIO}:{self.stream_port}",
                "--json",
                str(self.folder / "client.json"),
            ],
            "seat": [
                *traced,
                self.endpoint,
                "--transport",
                "shm",
                "--json",
                str(self.folder / "seat.json"),
            ],
            "passenger": [*traced, self.endpoint, "--camera", "plain", "--variant", "raw"],
            "readers": readers,
            "visitor": readers,
        }
        return {
            name: [*(self._trace if name in TRACED else ()), *words]
            for name, words in commands.items()
        }

    def _adapt(self, config: dict[str, Any]) -> None:
        config["sources"]["motive_flight"]["command_port"] = self._mocap_port
        config["sources"]["motive_actor"]["command_port"] = self._udp[2]
        config["sources"]["imu"]["device"] = str(self.imu)
        hall, (pose_port, image_port) = config["renderers"]["hall"], self._spare_ports
        config["renderers"]["spare"] = hall | {"pose_port": pose_port, "image_port": image_port}
        hall |= {"pose_port": self.pose_port, "image_port": self.image_port}
        config["actors"]["drone"]["tracking"]["coast_after_ms"] = 150
        for name in CAMERAS:
            config["cameras"][name] |= {"width_px": 160, "height_px": 120, "max_age_ms": 2000}
            config["cameras"][name]["renderer"] = "hall" if name == "front" else "spare"
        config["cameras"]["front"]["rate_hz"] = FRONT_HZ
        config["stream"] = {"bind": self.endpoint, "data_port": self._data_port}
        config["http"] = {"port": self.http_port}
        config["record"] = {"folder": str(self.folder / "recordings")}
        # A traced bridge wants most of a core, and must not take it from those whom it serves.
        if self._trace:
            config["realtime"] = {"fifo_priority": 0}

    # --- processes -----------------------------------------------------------------------------

    def _ready(self, name: str) -> object:
        pid = self.pid(name)
        if name in ("client", "seat", "passenger"):
            return self.stream_port in {s.remote_port for s in sockets_of(pid, "tcp")}
        if name in ("lab", "human"):
            ports = self._udp[:2] if name == "lab" else self._udp[2:]
            bound = {s.local_port for s in sockets_of(pid, "udp")}
            return bound.issuperset(ports) and (name == "human" or _holds(pid, self._lab_imu))
        if name in ("readers", "visitor"):
            return '"answers"' in self.newest_log(name)
        words = {
            "daemon": "running: stream",
            "renderer": ": drawing " if self._embedded else "ready",
            "spare": "ready",
        }
        return words[name] in self.newest_log(name)

    def newest_log(self, name: str) -> str:
        """What the newest process of this name wrote."""
        return self._children[name].text()

    def told(self, name: str) -> dict[str, Any]:
        """The newest counts that a room or a reader wrote."""
        with contextlib.suppress(IndexError):
            line = [line for line in self.newest_log(name).splitlines() if line.startswith("{")][-1]
            found: dict[str, Any] = json.loads(line)
            return found
        return {}

    def trouble(self) -> list[str]:
        """What keeps everything from working."""
        try:
            status = self.get()
        except OSError as exc:
            return [f"no answer: {exc}"]
        found = [f"{name} ended" for name in NAMES if not self.alive(name)] + trouble(status)
        for name in ("front", "plain"):
            readers = status["streams"][name]["subscribers"]
            found += [] if readers else [f"{name}: no subscriber"]
            found += [
                f"{name}: no picture by {reader['transport']}"
                for reader in readers
                if not reader["sent"]
            ]
        return found

    def listening(self) -> dict[str, list[int]]:
        """The daemon's open ports."""
        pid = self.pid("daemon")
        return {
            "tcp": [s.local_port for s in sockets_of(pid, "tcp") if s.listens],
            "udp": [s.local_port for s in sockets_of(pid, "udp") if not s.remote_port],
        }
