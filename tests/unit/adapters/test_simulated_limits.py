"""Simulated vehicles against what should not come.

Huge commands, far futures, slow readers, walls told late.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from typing import get_args

import pytest

from vil_bridge.interfaces.vehicle_commands import (
    AnyCommand,
    CancelCommand,
    CommandField,
    GainsCommand,
    MoveCommand,
    SticksCommand,
    VehicleCommand,
)
from vil_bridge.interfaces.vehicle_moves import (
    HoverMove,
    LoopGains,
    VehicleDisturbance,
    VehiclePlacement,
)
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import (
    AddOrder,
    BodiesUpdate,
    ClockUpdate,
    ContactReport,
    EditOrder,
    FlyCommand,
    Order,
    Start,
    StatusUpdate,
    Stop,
    VehicleBatch,
    VehicleOrder,
    decode_report,
)
from vil_simulation.source.simulation import Simulation
from vil_simulation.source.worker import _SourceSocket
from vil_simulation.vehicles.physical_ranges import command_range

MODELS = ["flightgoggles", "flightmare", "airsim", "car"]


def config(**vehicle: object) -> SimulatedConfig:
    entry = {"model": "flightgoggles", **vehicle}
    return SimulatedConfig.model_validate({"type": "simulated", "vehicles": {"drone": entry}})


def ends_of(fields: Sequence[CommandField]) -> list[tuple[float, float]]:
    """Return the range of each number of a command."""
    ranges = [(command_range(field.name, field.unit), field.size) for field in fields]
    return [(permitted.least, permitted.most) for permitted, size in ranges for _ in range(size)]


@pytest.mark.parametrize("model", MODELS)
def test_the_largest_commands_that_are_taken_leave_a_vehicle_somewhere(model: str) -> None:
    taken: list[VehicleOrder] = []

    def take(order: Order) -> bool:
        assert not isinstance(
            order, AddOrder | BodiesUpdate | ClockUpdate | EditOrder | Start | Stop
        )
        taken.append(order)
        return True

    told = config(model=model)
    handler, simulation = CommandHandler("sim", told, take), Simulation(told)
    handler.update(simulation.batch(), simulation.batch().states())
    for mode, fields in handler.state("drone").modes.items():
        for sign in (1.0, -1.0):
            largest = [max(sign * most, least) for least, most in ends_of(fields)]
            handler.handle("drone", VehicleCommand(mode=mode, values=largest))
            assert simulation.order(taken[-1])
            (last,) = simulation.advance(simulation.steps + 24)[-1:]
            assert abs(last.states()).max() < 1e6
        for value in (1e99, float("inf"), float("nan")):
            with pytest.raises(
                ValueError, match=re.escape(f"{fields[0].name} of mode '{mode}' must be from")
            ):
                handler.handle(
                    "drone", VehicleCommand(mode=mode, values=[value] * len(ends_of(fields)))
                )


def test_every_kind_of_command_is_known_and_waits_for_the_first_state() -> None:
    handler = CommandHandler("sim", config(), lambda _order: True)
    commands: list[AnyCommand] = [
        VehicleCommand("reset"),
        MoveCommand(HoverMove(), lambda _end: None),
        CancelCommand(),
        VehiclePlacement((0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0)),
        VehicleDisturbance(force_world_n=(1.0, 0.0, 0.0)),
        GainsCommand("rate", LoopGains((1.0, 1.0, 1.0))),
        SticksCommand(None),
    ]
    assert {type(command) for command in commands} == set(get_args(AnyCommand))
    for command in commands:
        with pytest.raises(ValueError, match="drone does not fly yet: its source is starting"):
            handler.handle("drone", command)
        with pytest.raises(KeyError, match="dron'"):
            handler.handle("dron", command)


def test_no_command_waits_for_ever() -> None:
    taken: list[Order] = []
    told = config()
    handler = CommandHandler("sim", told, lambda order: not taken.append(order))  # type: ignore[func-returns-value]
    batch = Simulation(told).batch()
    handler.begin(10**15)
    handler.update(batch, batch.states())
    at = {"mode": "velocity", "values": [0.0] * 4}
    for t_ns in (10**15 + 61 * 10**9, 1 << 80):
        with pytest.raises(ValueError, match="more than 60 s of bridge time ahead"):
            handler.handle("drone", VehicleCommand(t_ns=t_ns, **at))  # type: ignore[arg-type]
    for t_ns, due_ns in ((-(1 << 80), 0), (10**15 + 5, 5)):
        handler.handle("drone", VehicleCommand(t_ns=t_ns, **at))  # type: ignore[arg-type]
        assert isinstance(taken[-1], FlyCommand)
        assert taken[-1].t_ns == due_ns


def test_notes_that_a_slow_reader_missed_come_with_the_next_batch() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line = _SourceSocket(os.dup(theirs.fileno()))
    theirs.close()
    with ours, line.socket:
        while not line.dropped:
            line.send(VehicleBatch(steps=1, t_ns=0, bodies=bytes(50_000)))
        note = StatusUpdate("rates", "command", True, 1, 0, 0)
        line.send(VehicleBatch(steps=2, t_ns=0, bodies=bytes(50_000), notes=[note]))
        assert line.dropped == 2
        line.send(VehicleBatch(steps=3, t_ns=0, bodies=bytes(50_000)))
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                assert decode_report(ours.recv(1 << 20)).notes is None
        assert not list(line.orders())
        line.send(VehicleBatch(steps=5, t_ns=0, bodies=b""))
        first, second = decode_report(ours.recv(1 << 20)), decode_report(ours.recv(1 << 20))
    assert (first.steps, first.dropped, first.notes) == (3, 2, [note]), "sent once the reader reads"
    assert (second.steps, second.notes) == (5, None)


@pytest.mark.parametrize("speed_mps", [5.0, 20.0, 30.0])
def test_a_wall_that_is_told_too_late_still_gives_the_vehicle_back(speed_mps: float) -> None:
    """The wall is x = 4.

    Pictures at 30 Hz, answered after two of their periods, show it from where the camera was.
    """
    simulation = Simulation(
        config(autopilot={"kind": "none"}, contact={"reach_m": 1.5, "floor_m": None})
    )
    simulation.groups[0].fleets.of("rates").fleet.x[0, 3] = speed_mps
    on_the_way: list[ContactReport] = []
    for _ in range(45):
        x, y, z = simulation.batch().states()[0, :3].tolist()
        near = [(4.0, y, z)] if abs(x - 4.0) < 1.5 else []
        away = [(-1.0 if x < 4.0 else 1.0, 0.0, 0.0)] * len(near)
        on_the_way.append(
            ContactReport(
                0, simulation.t_of(simulation.steps), tuple(near), tuple(away), has_surfaces=True
            )
        )
        if len(on_the_way) > 2:
            simulation.order(on_the_way.pop(0))
        simulation.advance(simulation.steps + 32)
    assert simulation.batch().states()[0, 0] <= 3.85
    assert simulation.groups[0].notes()[0].collisions >= 1
