"""Steps that wait for an autopilot's program in real time count as late, all of them."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from vil_benchmarks.sitl_peers import controls_frame
from vil_bridge.core.bridge_time import TimeMapping
from vil_bridge.core.clock import NS_PER_MS, machine_ns
from vil_bridge.protocols.mavlink.framing import MavlinkParser
from vil_bridge.protocols.mavlink.hil_messages import HilSensor
from vil_simulation.demo.child_processes import free_ports
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.hosts import ready_simulation
from vil_simulation.source.ipc import Stop
from vil_simulation.source.stepper import Stepper, WakeupTimer

pytestmark = pytest.mark.wire

_ANSWER_S = 0.005
"""More than the four steps between two samples take."""


def _answer_late(port: int, sampled: list[int]) -> None:
    while True:
        try:
            link = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    parser = MavlinkParser()
    with link:
        while data := link.recv(65536):
            for message in parser.feed(data):
                if isinstance(message.body, HilSensor):
                    sampled.append(message.body.time_usec // 1000)
                    time.sleep(_ANSWER_S)
                    link.sendall(controls_frame(message.body.time_usec, 0.5))


def test_every_step_behind_a_late_answer_is_late() -> None:
    (port,) = free_ports(1, socket.SOCK_STREAM)
    autopilot = {"kind": "px4", "port": port, "timeout_ms": 60_000}
    vehicles = {"quad": {"model": "flightgoggles", "autopilot": autopilot}}
    config = {"type": "simulated", "step_hz": 1000, "vehicles": vehicles}
    simulation = ready_simulation(SimulatedConfig.model_validate(config))
    sampled: list[int] = []
    peer = threading.Thread(target=_answer_late, args=(port, sampled), daemon=True)
    peer.start()
    start_ns = machine_ns()
    orders = iter([[Stop(100 * NS_PER_MS)]])
    timer = WakeupTimer()
    stepper = Stepper(
        simulation,
        start_ns,
        TimeMapping(start_ns, start_ns),
        lambda: next(orders, []),
        lambda _batch: None,
        timer,
    )
    stepper.run()
    timer.close()
    peer.join(60.0)
    assert simulation.steps == 100
    assert stepper.late >= 100 - sampled[0] - 1, (
        "all behind the first sample; the end bounds the last one"
    )
