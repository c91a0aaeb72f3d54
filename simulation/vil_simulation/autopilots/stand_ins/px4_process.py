"""PX4's stand-in as a process.

A TCP client of its simulator, and UDP ports for programs that fly it.
"""

from __future__ import annotations

import select
import selectors
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import SystemRandom
from typing import Any, Final

from vil_simulation.autopilots.stand_ins.command_link import CommandLink
from vil_simulation.autopilots.stand_ins.pilot import Flight
from vil_simulation.autopilots.stand_ins.process import StandInProcess, UdpCommandPort
from vil_simulation.autopilots.stand_ins.px4 import MOST_UNANSWERED, Px4StandIn
from vil_simulation.autopilots.stand_ins.px4_control import Px4Controller

SIMULATOR_PORT: Final = 4560
GCS_PORT: Final = 14550
ONBOARD_PORT: Final = 14540
_GCS_LOCAL_PORT: Final = 18570
_ONBOARD_LOCAL: Final = 40
"""Local port of the onboard link above the remote one: 14580."""
_RETRY_S: Final = 0.05
_LARGEST: Final = 65536


@dataclass(frozen=True, slots=True)
class Px4Options:
    """Options of the process.

    Attributes:
        host, port: of the simulator. instance: MAVLink system - 1. flight: to make without
            commands.
        seconds: of simulation until it ends, 0 = until the link closes. reconnect: boot again where
            it closes.
        onboard_port, gcs_port: of programs on loopback, 0 = none.
        unanswered: sensor packets before the first answer; None = drawn at each start.
        parameters: of PX4's own controllers, which fly then; None = the stand-ins' own fly.
    """

    host: str
    port: int
    instance: int
    flight: Flight
    seconds: float
    reconnect: bool
    onboard_port: int
    gcs_port: int
    unanswered: int | None = None
    parameters: Mapping[str, float] | None = None


class Px4Process(StandInProcess):
    """The process; see :class:`Px4Options`."""

    def __init__(self, options: Px4Options) -> None:
        super().__init__()
        self._options = options
        self._connections = 0
        self._simulator: socket.socket | None = None
        onboard = options.onboard_port, options.onboard_port + _ONBOARD_LOCAL
        station = options.gcs_port, _GCS_LOCAL_PORT + options.instance
        self._ports = [
            UdpCommandPort(local, remote) for remote, local in (onboard, station) if remote
        ]
        self._core, self._links = self._boot()
        signal.signal(signal.SIGCONT, lambda *_: self._core.resume())
        for number, port in enumerate(self._ports):
            self.selector.register(
                port.socket, selectors.EVENT_READ, lambda n=number: self._on_command(n)
            )

    def turn(self) -> float:
        """Connect where there is no link."""
        if self._simulator is None:
            self._connect()
        return 60.0 if self._simulator is not None else _RETRY_S

    def counters(self) -> dict[str, Any]:
        """Return the counters of the newest connection."""
        return {"autopilot": "px4", "connections": self._connections, **self._core.counters()}

    def _boot(self) -> tuple[Px4StandIn, list[CommandLink]]:
        options = self._options
        drawn = options.unanswered
        if drawn is None:
            drawn = SystemRandom().randint(1, MOST_UNANSWERED)
        controller = None if options.parameters is None else Px4Controller(options.parameters)
        core = Px4StandIn(options.instance, options.flight, drawn, controller)
        return core, [core.open_link() for _ in self._ports]

    def _connect(self) -> None:
        try:
            opened = socket.create_connection((self._options.host, self._options.port), timeout=1.0)
        except OSError:
            return
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._connections:
            self._core, self._links = self._boot()
        self._connections += 1
        self._simulator = opened
        self.selector.register(opened, selectors.EVENT_READ, self._on_simulator)
        with suppress(OSError):
            opened.sendall(self._core.greeting())

    def _on_simulator(self) -> None:
        simulator = self._simulator
        assert simulator is not None
        self.heard()
        try:
            # Whatever has come before the answer goes out is judged: a peer in lockstep waits for
            # it.
            while True:
                data = simulator.recv(_LARGEST)
                if not data:
                    raise ConnectionResetError
                self._core.receive(data)
                if not select.select([simulator], [], [], 0.0)[0]:
                    break
            simulator.sendall(self._core.answer())
        except OSError:
            self._close()
            return
        for port, link in zip(self._ports, self._links, strict=True):
            port.send(link.telemetry(self._core.t_s))
        self.ended |= 0.0 < self._options.seconds <= self._core.t_s

    def _close(self) -> None:
        if self._simulator is not None:
            self.selector.unregister(self._simulator)
            self._simulator.close()
            self._simulator = None
        self.ended |= not self._options.reconnect

    def _on_command(self, number: int) -> None:
        self._ports[number].on_readable(self._links[number])
