"""Peers that fly as a test says and record what the bridge sends an autopilot, over real
sockets.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.hil_messages import HilActuatorControls, HilSensor
from vil_simulation.autopilots.stand_ins.ardupilot_lines import parse
from vil_simulation.demo.child_processes import free_ports
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.hosts import ready_simulation
from vil_simulation.source.ipc import PlaceOrder
from vil_simulation.source.simulation import Simulation
from vil_simulation.vehicles.multicopter import MulticopterParameters

HOVER = MulticopterParameters().hover_radps / 2200.0
"""Output at which the default multicopter carries its weight, with a speed in proportion to it."""
LEVEL_IMU = {"imu": {"preset": "ideal"}}


class RecordingPeer:
    """A program at the far end of a link, with outputs that the test sets.

    Attributes:
        motors: its outputs, 0 to 1. sent: bodies of MAVLink, or lines of ArduPilot's physics as
            objects.
    """

    def __init__(self, kind: str, port: int) -> None:
        self.motors = [HOVER] * 4
        self.sent: list[Any] = []
        self._port = port
        self._ends = False
        self._thread = threading.Thread(
            target=self._run_px4 if kind == "px4" else self._run_ardupilot, daemon=True
        )
        self._thread.start()

    def of(self, kind: type[Any]) -> list[Any]:
        """Return what was sent of one kind."""
        return [body for body in self.sent if isinstance(body, kind)]

    def close(self) -> None:
        """End."""
        self._ends = True
        self._thread.join(10.0)

    def _run_px4(self) -> None:
        link = _connected(self._port)
        link.settimeout(0.05)
        parser = framing.MavlinkParser()
        with link:
            while not self._ends:
                try:
                    data = link.recv(65536)
                except TimeoutError:
                    continue
                if not data:
                    return
                for message in parser.feed(data):
                    self.sent.append(message.body)
                    if isinstance(message.body, HilSensor):
                        link.sendall(self._controls(message.body.time_usec))

    def _controls(self, time_usec: int) -> bytes:
        body: mavlink.Body = HilActuatorControls(time_usec, 1, (*self.motors, *[0.0] * 12), 129)
        return framing.encode(body, 0, system=1, component=1)

    def _run_ardupilot(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            link.connect(("127.0.0.1", self._port))
            link.settimeout(0.05)
            while not self._ends:
                pulses = [round(1000 + 1000 * motor) for motor in self.motors]
                try:
                    link.send(
                        struct.pack("<HHI16H", 18458, 1000, len(self.sent), *pulses, *[1000] * 12)
                    )
                    line = link.recv(65536)
                except OSError:
                    continue
                parse(line)  # as strictly as ArduPilot does
                self.sent.append(json.loads(line))


def _connected(port: int) -> socket.socket:
    for _ in range(1000):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise AssertionError("nothing listens")


@contextmanager
def recorded(
    kind: str, autopilot: dict[str, Any], source: dict[str, Any] | None = None
) -> Iterator[tuple[Simulation, RecordingPeer]]:
    """Fly one vehicle at 10 m by a recording peer; its link is open and no step is made."""
    (port,) = free_ports(1, socket.SOCK_STREAM if kind == "px4" else socket.SOCK_DGRAM)
    flown = (
        LEVEL_IMU | {"kind": kind, "port": port, "rate_hz": 1000, "timeout_ms": 60_000} | autopilot
    )
    quad = {
        "model": "flightgoggles",
        "preset": "autopilot_quad_x",
        "p_m": [0.0, 0.0, 10.0],
        "autopilot": flown,
    }
    config = {"type": "simulated", "step_hz": 1000, "vehicles": {"quad": quad}} | (source or {})
    simulation = ready_simulation(SimulatedConfig.model_validate(config))
    simulation.programs.open(holds=True)
    peer = RecordingPeer(kind, port)
    try:
        yield simulation, peer
    finally:
        peer.close()
        simulation.programs.close()


def settle(simulation: Simulation) -> None:
    """Let the rotors reach their speeds, and begin at rest at 10 m."""
    advance(simulation, 300)
    simulation.order(
        PlaceOrder(0, (0.0, 0.0, 10.0), (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    )
    advance(simulation, 1)


def advance(simulation: Simulation, steps: int) -> None:
    """Make steps; the last sample has its answer."""
    until = simulation.steps + steps
    while simulation.steps < until or not simulation.programs.ready(10_000_000):
        simulation.advance(until)
