"""``vil-bridge bench sitl``.

Vehicles that autopilots' programs fly, against peers that answer at once.

The peers check nothing: the real programs cost more. Their own turns are a row, so that both can be
separated.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Final, Literal, NamedTuple

from vil_benchmarks.report import Row, percentile_row
from vil_benchmarks.sitl_camera import camera_rows
from vil_benchmarks.sitl_peers import ardupilot_peer, px4_peer
from vil_bridge.core.bridge_time import TimeMapping
from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.compile import has_numba
from vil_bridge.core.errors import ConfigError, VilBridgeError
from vil_bridge.core.installation import install_command
from vil_simulation.demo.child_processes import child, free_ports, stop_and_report
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.hosts import ready_simulation
from vil_simulation.source.ipc import Order, Stop
from vil_simulation.source.simulation import Simulation
from vil_simulation.source.stepper import Stepper, WakeupTimer

_STEP_HZ: Final = 1000
_RATES_HZ: Final = {"px4": 250, "ardupilot": 500}
"""Samples or frames per second; ArduPilot takes any time step, its control loop needs 400."""
_FASTEST: Final = 1000.0
"""Simulated seconds per second, of which none comes near."""
_LEAST_HEIGHT_M: Final = 0.3
_POSES_HZ: Final = 100
_BETWEEN_PORTS: Final = 10
_SECONDS: Final = 10.0


def bench_sitl() -> list[Row]:
    """Return all rows; about a minute. Raises as :func:`flight_rows` and :func:`camera_rows` do."""
    return [*flight_rows(), *camera_rows(_SECONDS)]


def flight_rows(seconds: float = _SECONDS, start_s: float = 1.0) -> list[Row]:
    """Return the rows of vehicles without cameras.

    Args:
        seconds: simulated time of each flight that counts, one of them in real time.
        start_s: simulated time before it: the programs connect and the vehicles take off.

    Raises:
        ConfigError: the extra ``sim`` is absent.
    """
    if not has_numba():
        raise ConfigError(f"the compiled kernels need numba: {install_command('sim')}")
    px4, turns_us = fly("px4", 1, seconds, start_s)
    ardupilot, _ = fly("ardupilot", 1, seconds, start_s)
    four, _ = fly("ardupilot", 4, seconds, start_s)
    late, _ = fly("px4", 1, seconds, start_s, real_time=True)
    return [
        Row("rtf_px4_no_camera", px4.factor, "ratio", px4.steps),
        Row("rtf_ardupilot_no_camera", ardupilot.factor, "ratio", ardupilot.steps),
        Row("rtf_four_ardupilot", four.factor, "ratio", four.steps),
        Row("ardupilot_frames_hz", float(_RATES_HZ["ardupilot"]), "1/s", 1),
        percentile_row("peer_us_p50", turns_us, 50, "us"),
        percentile_row("step_us_p50", px4.steps_us, 50, "us"),
        Row("px4_exchange_cpu_us", px4.cpu_us, "us", px4.steps * _RATES_HZ["px4"] // _STEP_HZ),
        Row("late_steps_share", late.late / late.steps, "share", late.steps),
    ]


class SitlFlight(NamedTuple):
    """One flight.

    Attributes:
        factor: simulated seconds per second. steps: made. late: of them. steps_us: machine time of
            one step, of each turn of the stepper. cpu_us: processor time of one sample's exchange
            and the steps before it.
    """

    factor: float
    steps: int
    late: int
    steps_us: list[float]
    cpu_us: float


class _Mark(NamedTuple):
    """Stepper at the beginning of one turn."""

    t_ns: int
    cpu_s: float
    steps: int
    late: int


def fly(
    kind: Literal["px4", "ardupilot"],
    vehicles: int,
    seconds: float,
    start_s: float,
    *,
    real_time: bool = False,
) -> tuple[SitlFlight, list[float]]:
    """Fly vehicles for so long, each by a peer.

    Return the flight, and the turns of all peers in microseconds.

    Raises:
        VilBridgeError: a vehicle did not fly, or a peer left a sample without an answer.
    """
    rate_hz = _RATES_HZ[kind]
    port = free_ports(1, socket.SOCK_STREAM if kind == "px4" else socket.SOCK_DGRAM)[0]
    config = configuration(kind, vehicles, port)
    simulation = ready_simulation(config)
    with ExitStack() as stack:
        peers = [
            stack.enter_context(_peer(kind, port + _BETWEEN_PORTS * i, rate_hz))
            for i in range(vehicles)
        ]
        for peer in peers:
            peer.recv()
        marks = _run(simulation, start_s + seconds, real_time=real_time)
        turns = [stop_and_report(peer) for peer in peers]
    check(simulation, turns, round(rate_hz * seconds))
    first = next(mark for mark in marks if mark.steps >= start_s * _STEP_HZ)
    last = marks[-1]
    flown = [mark for mark in marks if mark.steps >= first.steps]
    steps = last.steps - first.steps
    wall_s = (last.t_ns - first.t_ns) / NS_PER_S
    exchanges = steps * rate_hz * vehicles / _STEP_HZ
    each = [
        (b.t_ns - a.t_ns) / (b.steps - a.steps) / 1e3
        for a, b in pairwise(flown)
        if b.steps > a.steps
    ]
    flight = SitlFlight(
        steps / _STEP_HZ / wall_s,
        steps,
        last.late - first.late,
        each,
        1e6 * (last.cpu_s - first.cpu_s) / exchanges,
    )
    return flight, [turn_us for found in turns for turn_us in found]


def configuration(kind: Literal["px4", "ardupilot"], vehicles: int, port: int) -> SimulatedConfig:
    """Return the source.

    Vehicles on a floor, each flown by a program, the first one's port being ``port``.
    """
    entry: dict[str, object] = {
        "model": "flightgoggles",
        "count": vehicles,
        "spacing_m": 2.0,
        "p_m": (0.0, 0.0, 0.0),
    }
    entry["autopilot"] = {"kind": kind, "port": port, "rate_hz": _RATES_HZ[kind]}
    vehicle = {
        "type": "simulated",
        "step_hz": _STEP_HZ,
        "rate_hz": _POSES_HZ,
        "vehicles": {"quad": entry},
    }
    return SimulatedConfig.model_validate(vehicle)


def _peer(kind: str, port: int, rate_hz: int) -> AbstractContextManager[Connection]:
    return child(px4_peer, port) if kind == "px4" else child(ardupilot_peer, port, rate_hz)


def _run(simulation: Simulation, seconds: float, *, real_time: bool) -> list[_Mark]:
    """Step to the end, as fast as the programs answer or in real time; return its turns."""
    start_ns = machine_ns()
    mapping = TimeMapping(start_ns, start_ns, 1.0 if real_time else _FASTEST)
    marks: list[_Mark] = []

    def orders() -> Iterable[Order]:
        marks.append(_Mark(machine_ns(), time.thread_time(), simulation.steps, stepper.late))
        return [Stop(round(seconds * NS_PER_S))] if len(marks) == 1 else []

    timer = WakeupTimer()
    stepper = Stepper(simulation, start_ns, mapping, orders, lambda _batch: None, timer)
    stepper.run()
    timer.close()
    marks.append(_Mark(machine_ns(), time.thread_time(), simulation.steps, stepper.late))
    return marks


def check(simulation: Simulation, turns: Sequence[Sequence[float]], least: int) -> None:
    """Raise VilBridgeError where a figure would be that of a vehicle that stands, or of a silent
    peer.
    """
    heights_m = simulation.groups[0].bodies()[:, 2]
    if heights_m.min() < _LEAST_HEIGHT_M:
        raise VilBridgeError(
            f"a vehicle did not fly: it ended at {heights_m.min():.2f} m. Measure on a "
            "quieter machine"
        )
    if min(len(found) for found in turns) < least:
        raise VilBridgeError(
            f"a peer answered {min(len(found) for found in turns)} of {least} samples: "
            "see its output"
        )
