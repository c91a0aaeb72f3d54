"""A vehicle whose state is no longer physical ends alone, by name, whatever the cause.

A reset lets it fly again.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.interfaces.vehicle_commands import MoveCommand, VehicleCommand
from vil_bridge.interfaces.vehicle_moves import (
    HoverMove,
    LoopGains,
    VehicleDisturbance,
    VehiclePlacement,
    VelocityMove,
)
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import (
    DisturbOrder,
    FlyCommand,
    GainsOrder,
    MoveOrder,
    Order,
    PlaceOrder,
    Reset,
    VehicleBatch,
)
from vil_simulation.source.simulation import Simulation
from vil_simulation.vehicles.physical_ranges import STATE_RANGES

LEVEL = (0.0, 0.0, 0.0, 1.0)
STILL = (0.0, 0.0, 0.0)


def two(model: str = "airsim") -> SimulatedConfig:
    """Return two vehicles of one model, 5 m apart and high above the floor."""
    entry = {"model": model, "autopilot": {"kind": "none"}}
    vehicles = {
        "one": {**entry, "p_m": [0.0, 0.0, 50.0]},
        "two": {**entry, "p_m": [5.0, 0.0, 50.0]},
    }
    return SimulatedConfig.model_validate(
        {"type": "simulated", "step_hz": 320, "rate_hz": 160, "vehicles": vehicles}
    )


def newest(simulation: Simulation, steps: int = 64) -> VehicleBatch:
    """Make steps; return the newest batch with poses and the newest notes."""
    batches = simulation.advance(simulation.steps + steps)
    for batch in batches:
        assert np.isfinite(batch.states()).all()
        assert np.isfinite(np.frombuffer(batch.dynamics)).all()
    last = batches[-1]
    last.notes = next((batch.notes for batch in reversed(batches) if batch.notes is not None), None)
    return last


def spoil(simulation: Simulation, field: str, value: float) -> None:
    """Give the first vehicle a state that no order may.

    What a bug of a model, or of anything else, leaves.
    """
    fleet = simulation.groups[0].fleets.of_row(0)
    fleet.x[0, fleet.model.state[field]] = value


@pytest.mark.parametrize("rate", [300.0, 1000.0, 1e9])
def test_a_spin_that_the_model_cannot_follow_ends_that_vehicle_alone(rate: float) -> None:
    simulation = Simulation(two())
    before = newest(simulation).states().copy()
    simulation.order(PlaceOrder(0, (0.0, 0.0, 50.0), LEVEL, STILL, (rate, rate, -rate)))
    last = newest(simulation)
    assert last.notes is not None
    one, other = last.notes
    assert one.ended.startswith(
        "one has ended, since its state is no longer physical (w_body_radps is "
    )
    assert not one.armed and not other.ended and other.armed
    after = last.states()
    assert after[1, 2] < before[1, 2] - 0.01  # the other one falls on
    assert not after[0, 3:6].any() and not after[0, 10:].any()


@pytest.mark.parametrize(
    "model", ["airsim", "flightgoggles", "flightmare", "kinematic", "car", "bicycle"]
)
@pytest.mark.parametrize("field", list(STATE_RANGES))
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
def test_whatever_leaves_a_state_that_is_not_physical_ends_its_vehicle(
    model: str, field: str, value: float
) -> None:
    simulation = Simulation(two(model))
    newest(simulation)
    spoil(simulation, field, value)
    ended = simulation.groups[0].ended
    newest(simulation, 8)
    if model in ("kinematic", "car", "bicycle") and not field.startswith("p_"):
        assert not ended[1]  # these models follow a command and write their velocities again
    else:
        assert ended.tolist() == [True, False]


def test_a_vehicle_that_has_ended_takes_no_orders_until_a_reset() -> None:
    simulation = Simulation(two())
    spoil(simulation, "p_world_m", math.nan)
    newest(simulation)
    group = simulation.groups[0]
    held = group.bodies()[0].copy()
    for order in (
        FlyCommand(0, "velocity", (1.0, 0.0, 0.0, 0.0)),
        PlaceOrder(0, (9.0, 9.0, 9.0), LEVEL, STILL, STILL),
        MoveOrder(0, 7, HoverMove()),
    ):
        assert simulation.order(order)
    assert group.moves.ends[0].number == 7 and "one has ended" in group.moves.ends[0].problem
    assert newest(simulation).placed is not None and np.array_equal(group.bodies()[0], held)
    simulation.order(Reset(0))
    last = newest(simulation)
    assert last.notes is not None and not last.notes[0].ended and last.notes[0].armed
    assert last.states()[0, 2] == pytest.approx(50.0, abs=1.0)


def test_gains_that_ended_a_vehicle_can_be_mended_before_its_reset() -> None:
    simulation = Simulation(two())
    simulation.order(GainsOrder(0, "rate", LoopGains((1e6, 1e6, 1e6))))
    spoil(simulation, "w_body_radps", 1e9)
    newest(simulation)
    group = simulation.groups[0]
    assert group.ended[0]
    simulation.order(GainsOrder(0, "rate", LoopGains((0.25, 0.25, 0.25))))
    simulation.order(DisturbOrder(0, VehicleDisturbance((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))))
    assert group.ended[0] and group.fleets.flight_of(0).rate == LoopGains((0.25, 0.25, 0.25))
    simulation.order(Reset(0))
    newest(simulation)
    assert not group.ended.any()


def test_a_move_that_ends_with_its_vehicle_says_why() -> None:
    simulation = Simulation(two())
    simulation.order(MoveOrder(0, 3, HoverMove()))
    simulation.order(MoveOrder(0, 4, VelocityMove((0.0, 0.0, 1.0), 100.0)))
    newest(simulation)
    spoil(simulation, "w_body_radps", 1e9)
    ends = [end for batch in simulation.advance(simulation.steps + 64) for end in batch.ends]
    assert [(end.number, end.reached) for end in ends] == [(4, False)] and "one has ended" in ends[
        0
    ].problem


def test_commands_to_a_vehicle_that_has_ended_are_refused_in_words() -> None:
    both = two()
    orders: list[Order] = []

    def take(order: Order) -> bool:
        orders.append(order)
        return True

    handler = CommandHandler("sim", both, take)
    simulation = Simulation(both)
    spoil(simulation, "p_world_m", math.nan)
    last = newest(simulation)
    handler.begin(0)
    handler.update(last, last.states())
    assert "one has ended" in handler.state("one").ended and not handler.state("two").ended
    refused = (
        VehicleCommand("arm"),
        VehiclePlacement(STILL, LEVEL),
        MoveCommand(HoverMove(), lambda _: None),
    )
    for command in refused:
        with pytest.raises(
            ValueError, match=r"one has ended, since its state is no longer physical .*; reset it"
        ):
            handler.handle("one", command)
    handler.handle("one", VehicleCommand("reset"))
    assert orders == [Reset(0)]
