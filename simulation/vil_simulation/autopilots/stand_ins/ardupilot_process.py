"""ArduPilot's stand-in as a process.

UDP to the physics, and TCP servers for programs that fly it.
"""

from __future__ import annotations

import selectors
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from time import monotonic
from typing import Any, Final

from vil_bridge.runtime.datagrams import Address
from vil_simulation.autopilots.stand_ins.ardupilot import ArduPilotDay, ArduPilotStandIn
from vil_simulation.autopilots.stand_ins.pilot import Flight
from vil_simulation.autopilots.stand_ins.process import (
    StandInProcess,
    TcpCommandServer,
    udp_socket,
    waiting,
)

PHYSICS_PORT: Final = 9002
COMMAND_PORT: Final = 5760
PORTS_PER_INSTANCE: Final = 10
_SERIALS: Final = (0, 2, 3)
"""Ports of SERIAL0, SERIAL1 and SERIAL2 above the first."""
_TURN_S: Final = 0.01
_SLACK_S: Final = 0.002
"""Lead of the simulation below which it does not sleep."""


@dataclass(frozen=True, slots=True)
class ArduPilotOptions:
    """Options of the process.

    Attributes:
        host, port: of the physics. instance: MAVLink system - 1. flight: to make without commands.
        seconds: of simulation until it ends, 0 = none. command_port: of SERIAL0, whose first client
            it waits for; 0 = none, and no wait. speedup: simulated seconds a second at most, 0 = as
            fast as the physics answers.
        day: course of the run. loss: share of the datagrams, both ways, that are lost. seed: of
            which.
    """

    host: str
    port: int
    instance: int
    flight: Flight
    seconds: float
    command_port: int
    speedup: float
    day: ArduPilotDay
    loss: float = 0.0
    seed: int = 0


class ArduPilotProcess(StandInProcess):
    """The process; see :class:`ArduPilotOptions`."""

    def __init__(self, options: ArduPilotOptions) -> None:
        super().__init__()
        self._options = options
        self._core = ArduPilotStandIn(options.instance, options.flight, options.day)
        self._physics: Address = (options.host, options.port)
        self._socket = udp_socket(0)
        self.selector.register(self._socket, selectors.EVENT_READ, self._on_physics)
        ports: list[int] = []
        if options.command_port:
            ports = [options.command_port + above for above in _SERIALS]
        self._servers = [
            TcpCommandServer(port, self._core.open_link, self.selector) for port in ports
        ]
        self._booted = not self._servers
        self._t_boot_s: float | None = None
        self._random = Random(options.seed)  # noqa: S311 - no secret
        self._lost = 0

    def turn(self) -> float:
        """Send what is due, once somebody has connected to SERIAL0."""
        self._booted |= bool(self._servers) and self._servers[0].connected
        if self._booted:
            if self._t_boot_s is None:
                self._t_boot_s = monotonic()
            self._send()
        return self._ahead_s() or _TURN_S

    def counters(self) -> dict[str, Any]:
        """Return the counters."""
        return {"autopilot": "ardupilot", "lost": self._lost, **self._core.counters()}

    def _ahead_s(self) -> float:
        """Return how far the simulation is ahead of the wall clock, 0 where the next frame may
        go.
        """
        if self._t_boot_s is None or not self._options.speedup:
            return 0.0
        ahead_s = self._core.t_s / self._options.speedup - (monotonic() - self._t_boot_s)
        return ahead_s if ahead_s > _SLACK_S else 0.0

    def _send(self) -> None:
        if self._ahead_s():
            return
        for packet in self._core.poll(monotonic()):
            if self._loses():
                continue
            with suppress(OSError):  # the physics is absent: the frame is sent again
                self._socket.sendto(packet, self._physics)

    def _on_physics(self) -> None:
        for line, _ in waiting(self._socket):
            if self._loses():
                continue
            self.heard()
            self._core.receive(line, monotonic())
            self._send()
        for server in self._servers:
            server.telemetry(self._core.t_s)
        self.ended |= 0.0 < self._options.seconds <= self._core.t_s

    def _loses(self) -> bool:
        lost = self._options.loss > 0.0 and self._random.random() < self._options.loss
        self._lost += lost
        return lost
