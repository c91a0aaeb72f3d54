"""Mocap servers that the lab can emulate, and their notation: ``actor@127.0.0.1:1520``."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from vil_bridge.core.errors import ConfigError
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion

ROOMS: Final = ("flight", "actor")
_NATNET_VERSIONS: Final = r"2\.([5-9]|10)|3\.[01]|4\.[0-2]"
_CLOCK_OFFSETS_S: Final = {"flight": 1000.0, "actor": 5000.0}


class RunningServer(Protocol):
    """An emulator as the lab runs it."""

    async def run(self) -> None:
        """Serve until cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class EmulatorKind:
    """An emulator and what it is configured by.

    Attributes:
        title: for people. emulator, config: "module:Class", constructed as
            ``Emulator(Config(...), motion, epoch_ns, faults)``.
        port: the one that the real server has.
        settings: keys of the configuration for a server.
    """

    title: str
    emulator: str
    config: str
    port: int
    settings: Callable[[ServerSpec], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One emulated server.

    Attributes:
        kind: key of :data:`KINDS`. room: which of :data:`ROOMS` it streams.
        second_port, version, multicast: NatNet's data port, version ("" = the emulator's own) and
            way of sending; the other kinds have none.
    """

    kind: str
    room: str = "flight"
    host: str = "127.0.0.1"
    port: int = 0
    second_port: int = 0
    faults: Faults = field(default_factory=Faults)
    version: str = ""
    multicast: bool = False

    @classmethod
    def parse(cls, kind: str, text: str) -> ServerSpec:
        """Read ``[ROOM@][ADDRESS:]PORT``, and of a Motive ``,DATA``, ``,VERSION`` and
        ``,multicast`` behind it.

        Raises:
            ConfigError: it is written otherwise.
        """
        motive = "()()()"
        more = ""
        if kind == "motive":
            motive = r"(?:,(\d+))?(?:,(\d\.\d+))?(,multicast)?"
            more = "[,DATA][,VERSION][,multicast]"
        found = re.fullmatch(rf"(?:(\w+)@)?(?:(\d+\.\d+\.\d+\.\d+):)?(\d+){motive}", text)
        if found is None or (found[1] or ROOMS[0]) not in ROOMS:
            rooms = ", ".join(ROOMS)
            raise ConfigError(
                f"--{kind} {text}: write [ROOM@][ADDRESS:]PORT{more} with one of the rooms {rooms}"
            )
        port = int(found[3])
        host = found[2] or "127.0.0.1"
        second = int(found[4] or (port + 1 if port else 0))
        if max(port, second) > 65535 or max(map(int, host.split("."))) > 255:
            raise ConfigError(
                f"--{kind} {text}: ports are 0 to 65535, addresses 0.0.0.0 to 255.255.255.255"
            )
        version = found[5] or ""
        if version and re.fullmatch(_NATNET_VERSIONS, version) is None:
            raise ConfigError(
                f"--{kind} {text}: NatNet {version} is not emulated. Write 2.5 to 2.10, "
                "3.0, 3.1, 4.0 to 4.2"
            )
        return cls(
            kind,
            found[1] or ROOMS[0],
            host,
            port,
            second,
            version=version,
            multicast=bool(found[6]),
        )

    @property
    def title(self) -> str:
        """For people."""
        way = [f"NatNet {self.version}"] * bool(self.version) + ["multicast"] * self.multicast
        details = f" ({', '.join(way)})" if way else ""
        return f"{KINDS[self.kind].title} at {self.host}:{self.port}{details}"

    def open(self, motion: MocapMotion, rate_hz: float, epoch_ns: int) -> RunningServer:
        """Return the emulator, not running yet."""
        kind = KINDS[self.kind]
        config = _load(kind.config)(bind=self.host, rate_hz=rate_hz, **kind.settings(self))
        emulator: RunningServer = _load(kind.emulator)(config, motion, epoch_ns, self.faults)
        return emulator


def with_faults(servers: Sequence[ServerSpec], texts: Sequence[str]) -> tuple[ServerSpec, ...]:
    """Return the servers with the faults of ``[KIND:|ROOM:]FAULTS``.

    Without a name they are for all.

    Raises:
        ConfigError: the text is malformed, or names no server or room.
    """
    for text in texts:
        name, colon, rest = text.partition(":")
        named = bool(colon) and "=" not in name
        faults = Faults.parse(rest if named else text)
        if named and not any(name in (s.kind, s.room) for s in servers):
            here = ", ".join(sorted({n for s in servers for n in (s.kind, s.room)}))
            raise ConfigError(f"--faults {text}: no server or room is named {name!r}; here: {here}")
        servers = [
            replace(s, faults=faults) if not named or name in (s.kind, s.room) else s
            for s in servers
        ]
    return tuple(servers)


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def _one_port(server: ServerSpec) -> dict[str, Any]:
    return {"port": server.port}


def _motive(server: ServerSpec) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "command_port": server.port,
        "data_port": server.second_port,
        "clock_offset_s": _CLOCK_OFFSETS_S[server.room],
        "transport": "unicast",
    }
    if server.multicast:
        settings["transport"] = "multicast"
    if server.version:
        settings["version"] = server.version
    return settings


_QTM_PORT: Final = 22223
_QTM_DISCOVERY_PORT: Final = 22226

KINDS: Final[Mapping[str, EmulatorKind]] = {
    "motive": EmulatorKind(
        "Motive",
        "vil_adapters.optitrack.emulator:MotiveEmulator",
        "vil_adapters.optitrack.config:MotiveEmulatorConfig",
        1510,
        _motive,
    ),
    "tracker": EmulatorKind(
        "Tracker",
        "vil_adapters.vicon.emulator:TrackerEmulator",
        "vil_adapters.vicon.config:TrackerEmulatorConfig",
        801,
        _one_port,
    ),
    "tracker-udp": EmulatorKind(
        "Tracker's UDP objects",
        "vil_adapters.vicon.udp_emulator:TrackerUdpEmulator",
        "vil_adapters.vicon.config:TrackerUdpEmulatorConfig",
        51001,
        lambda s: {"port": s.port, "target": s.host},
    ),
    "vrpn": EmulatorKind(
        "VRPN server",
        "vil_adapters.vrpn.emulator:VrpnEmulator",
        "vil_adapters.vrpn.config:VrpnEmulatorConfig",
        3883,
        _one_port,
    ),
    "qtm": EmulatorKind(
        "QTM",
        "vil_adapters.qualisys.emulator:QtmEmulator",
        "vil_adapters.qualisys.config:QtmEmulatorConfig",
        _QTM_PORT,
        # At its usual port it also answers searches; a second one would find that port taken.
        lambda s: {
            "port": s.port,
            "discovery_port": _QTM_DISCOVERY_PORT if s.port == _QTM_PORT else 0,
        },
    ),
}
