"""Orders and reports of moves, placements and collisions; no clock and no threads."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from tests.support.airsim_moves import Aviary
from vil_bridge.interfaces.vehicle_commands import VehicleCommand
from vil_bridge.interfaces.vehicle_moves import (
    AttitudeMove,
    HomeMove,
    HoverMove,
    LandMove,
    MoveEnd,
    PathMove,
    RatesMove,
    RotorsMove,
    TakeoffMove,
    TurnMove,
    TurnRateMove,
    VehicleCollision,
    VelocityMove,
    YawGoal,
)
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import (
    ArmCommand,
    CancelOrder,
    CollisionReport,
    ContactReport,
    FlyCommand,
    MoveOrder,
    MoveReport,
    Order,
    PlaceOrder,
    Reset,
    StatusUpdate,
    VehicleBatch,
    decode_order,
    decode_report,
    encode,
)
from vil_simulation.source.pending_moves import PendingMoves
from vil_simulation.source.simulation import Simulation

LEVEL = (0.0, 0.0, 0.0, 1.0)
STILL = (0.0, 0.0, 0.0)
UP = (0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    "order",
    [
        CancelOrder(3),
        PlaceOrder(3, (1.0, 2.0, 3.0), LEVEL, STILL, UP, sweep=True),
        *(
            MoveOrder(3, 70, move)
            for move in (
                PathMove(
                    ((1.0, 2.0, 3.0),), 1.0, 3e38, YawGoal(1.0, by_rate=False, ahead=True), 3.0, 0.0
                ),
                VelocityMove(STILL, 1.0, z_m=2.0, in_heading=True),
                AttitudeMove(0.1, 0.2, YawGoal(), 1.0, throttle=0.5),
                RatesMove(STILL, 1.0, z_m=1.0),
                RotorsMove((0.1, 0.2, 0.3, 0.4), 1.0),
                TurnMove(1.0, 0.1, 3.0),
                TurnRateMove(1.0, 2.0),
                TakeoffMove(1.0),
                LandMove(1.0),
                HomeMove(1.0),
                HoverMove(),
            )
        ),
    ],
)
def test_orders_cross_the_pipe(order: Order) -> None:
    assert decode_order(encode(order)) == order


def test_reports_cross_the_pipe_and_what_comes_once_is_carried_on() -> None:
    hit = CollisionReport(1, VehicleCollision(5, UP, STILL, UP, 0.1, "wall"))
    ends = [MoveReport(1, reached=False, problem="no"), MoveReport(2, reached=True)]
    notes = [StatusUpdate("velocity", "move", True, 1, 0, 0, False)]
    batch = VehicleBatch(1, 2, b"", notes=notes, ends=ends, collisions=[hit], placed=[1])
    assert decode_report(encode(batch)) == batch
    newer = VehicleBatch(2, 3, b"", ends=[MoveReport(3, reached=True)], placed=[0])
    newer.carry(batch)
    assert [end.number for end in newer.ends] == [1, 2, 3]
    assert (newer.placed, newer.collisions, newer.notes) == ([1, 0], [hit], notes)


async def test_pending_moves_are_called_back_once() -> None:
    moves, ends = PendingMoves(), list[tuple[str, MoveEnd]]()

    def waiting(name: str) -> int:
        return moves.add(lambda end: ends.append((name, end)))

    with pytest.raises(ValueError, match="starting or has ended"):
        waiting("early")
    moves.begin()
    first, second, dropped = (waiting(name) for name in ("first", "second", "dropped"))
    moves.discard(dropped)
    moves.report(
        [
            MoveReport(second, reached=True),
            MoveReport(second, reached=False),
            MoveReport(99, reached=True),
        ]
    )
    moves.report([MoveReport(dropped, reached=True)])
    moves.end()
    moves.report([MoveReport(first, reached=True)])
    await asyncio.sleep(0)
    assert ends == [("second", MoveEnd(reached=True)), ("first", MoveEnd(reached=False))]
    with pytest.raises(ValueError, match="starting or has ended"):
        waiting("late")


class Pumped:
    """A command handler and its simulation in one thread.

    Every order and batch is encoded on its way.
    """

    def __init__(self, **vehicles: dict[str, Any]) -> None:
        config = SimulatedConfig.model_validate({"type": "simulated", "vehicles": vehicles})
        self.simulation = Simulation(config)
        self.handler = CommandHandler("sim", config, self._send)
        self.handler.begin(1_000)
        self.report(self.simulation.batch())

    def _send(self, order: Order) -> bool:
        return self.simulation.order(decode_order(encode(order)))  # type: ignore[arg-type]

    def report(self, *batches: VehicleBatch) -> None:
        for batch in batches:
            received = decode_report(encode(batch))
            self.handler.update(received, received.states())

    def advance(self, steps: int) -> None:
        self.report(*self.simulation.advance(self.simulation.steps + steps))


async def test_states_have_rotors_accelerations_and_the_start() -> None:
    standing = {"autopilot": {"kind": "none"}}
    made = Pumped(
        drone={"model": "airsim", "preset": "octo_x", "p_m": [1, 2, 3], "yaw_deg": 90},
        car={"model": "bicycle", "p_m": [4, 5, 0], **standing},
    )
    made.advance(480)
    state = made.handler.state("drone")
    assert state.start_p_world_m == (1.0, 2.0, 3.0)
    np.testing.assert_allclose(state.start_q_world_body, (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)))
    assert len(state.rotors) == 8
    assert sum(rotor.thrust_n for rotor in state.rotors) == pytest.approx(9.80665, rel=0.01)
    assert not state.landed
    np.testing.assert_allclose(state.a_world_mps2, 0.0, atol=0.05)
    car = made.handler.state("car")
    assert (car.rotors, car.landed, car.a_world_mps2) == ((), False, STILL)
    made.handler.handle("car", VehicleCommand(mode="speed", values=(2.0, 0.0)))
    made.advance(96)
    assert made.handler.state("car").a_world_mps2[0] == pytest.approx(3.0, abs=0.1)


async def test_a_falling_vehicle_falls_by_g_and_its_hit_is_latched() -> None:
    made = Pumped(drone={"model": "airsim", "p_m": [0, 0, 1], "armed": False})
    made.advance(50)
    assert made.handler.state("drone").a_world_mps2[2] == pytest.approx(-9.80665, rel=0.01)
    assert made.handler.collision("drone", clear=False) is None
    made.advance(550)
    hit = made.handler.collision("drone", clear=False)
    assert hit == made.handler.collision("drone", clear=True)
    assert made.handler.collision("drone", clear=True) is None
    assert hit is not None
    assert hit.normal_world == UP
    assert hit.t_ns == pytest.approx(1_000 + math.sqrt(2.0 / 9.80665) * 1e9, rel=0.02)
    assert 0.0 < hit.depth_m < 0.01
    assert hit.point_world_m == hit.p_world_m == (0.0, 0.0, -hit.depth_m)
    made.advance(960)
    assert made.handler.collision("drone", clear=True) is None, "it stands"
    assert made.handler.state("drone").collisions == 1


def test_a_lasting_contact_is_reported_ten_times_a_second() -> None:
    made = Simulation(
        SimulatedConfig.model_validate(
            {
                "type": "simulated",
                "vehicles": {"drone": {"model": "airsim", "p_m": [0, 0, 1], "mode": "velocity"}},
            }
        )
    )
    made.advance(96)
    made.order(
        ContactReport(0, 100_000_000, ((0.2, 0.0, 1.0),), ((-1.0, 0.0, 0.0),), has_surfaces=True)
    )
    made.order(FlyCommand(0, "velocity", (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)))
    hits = [report for batch in made.advance(96 + 960) for report in batch.collisions]
    assert 2 < len(hits) <= 10
    assert all(hit.collision.normal_world == (-1.0, 0.0, 0.0) for hit in hits)


def test_a_sweep_stops_at_the_first_surface_and_no_sweep_passes_it() -> None:
    wall = ContactReport(0, 10_000_000, ((2.0, 0.0, 1.0),), ((-1.0, 0.0, 0.0),), has_surfaces=True)
    for sweep, there in ((True, 2.0 - 0.15), (False, 2.2)):
        made = Aviary({"p_m": [1.5, 0.0, 1.0], "contact": {"reach_m": 1.0}})
        made.order(wall)
        made.order(PlaceOrder(0, (2.2, 0.0, 1.0), LEVEL, STILL, STILL, sweep))
        batch = made.simulation.batch()
        np.testing.assert_allclose(batch.states()[0, :3], (there, 0.0, 1.0))
        assert [report.collision.point_world_m[0] for report in batch.collisions] == (
            [2.0] if sweep else []
        )
        assert batch.placed == [0]


def test_what_a_sweep_meets_is_reported_right_after_another_contact() -> None:
    made = Aviary({"p_m": [0.0, 0.0, 1e-4]})
    (landing,) = (hit for batch in made.advance(0.02) for hit in batch.collisions)
    assert landing.collision.depth_m > 0.0
    made.order(PlaceOrder(0, (1.0, 2.0, -3.0), LEVEL, STILL, STILL, sweep=True))
    (swept,) = made.simulation.batch().collisions
    assert swept.collision.p_world_m[2] == pytest.approx(0.0, abs=1e-6)
    assert swept.collision.t_ns > landing.collision.t_ns


@pytest.mark.parametrize("model", ["car", "bicycle"])
def test_cars_are_placed_and_drive_on_from_there(model: str) -> None:
    made = Aviary({"model": model})
    left = (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5))
    made.order(PlaceOrder(0, (3.0, 4.0, 0.0), left, (0.0, 2.0, 0.0), STILL))
    np.testing.assert_allclose(made.state[:10], (3.0, 4.0, 0.0, 0.0, 2.0, 0.0, *left), atol=1e-12)
    made.order(FlyCommand(0, "speed", (2.0, 0.0)))
    made.advance(0.4)
    np.testing.assert_allclose(made.state[:3], (3.0, 4.8, 0.0), atol=0.02)


@pytest.mark.parametrize("model", ["airsim", "flightgoggles"])
def test_a_vehicle_that_hovers_stays_where_it_is_put(model: str) -> None:
    made = Aviary({"model": model, "autopilot": {"kind": "hover"}, "p_m": [0.0, 0.0, 2.0]})
    made.advance(0.2)
    made.order(PlaceOrder(0, (5.0, 6.0, 7.0), (0.0, 0.0, 2.0, 2.0), STILL, STILL))
    made.advance(2.0)
    np.testing.assert_allclose(made.state[:3], (5.0, 6.0, 7.0), atol=0.05)
    np.testing.assert_allclose(
        made.state[6:10], (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)), atol=0.02
    )


def test_a_flight_controller_that_holds_its_position_holds_the_new_one() -> None:
    made = Aviary({"p_m": [0.0, 0.0, 2.0], "autopilot": {"kind": "hover"}})
    made.advance(0.2)
    made.fly(VelocityMove(STILL, 0.1))
    made.advance(1.0)
    made.order(PlaceOrder(0, (5.0, 6.0, 7.0), LEVEL, STILL, STILL))
    made.advance(3.0)
    np.testing.assert_allclose(made.state[:3], (5.0, 6.0, 7.0), atol=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_between_each_move_ends_exactly_once(seed: int) -> None:
    random = np.random.default_rng(seed)
    made = Aviary({"count": 2, "p_m": [0.0, 0.0, 1.0]}, {"step_hz": 240, "rate_hz": 20.0})
    moves = (
        PathMove(((3.0, 0.0, 2.0), (0.0, 0.0, 1.0)), 2.0, 1.0),
        VelocityMove((0.5, 0.0, 0.5), 0.2),
        AttitudeMove(0.1, 0.0, YawGoal(), 0.3, z_m=2.0),
        RotorsMove((0.6,) * 4, 0.1),
        TurnMove(1.0, 0.1, 1.0),
        TakeoffMove(1.0),
        LandMove(1.0),
        HoverMove(),
    )
    orders = (
        CancelOrder(0),
        Reset(1),
        ArmCommand(0, armed=False),
        ArmCommand(0, armed=True),
        FlyCommand(1, "velocity", (0.0,) * 6),
        PlaceOrder(0, (0.0, 0.0, 2.0), LEVEL, STILL, STILL),
    )
    started = 0
    for _ in range(150):
        if random.random() < 0.5:
            started += 1
            made.order(
                MoveOrder(int(random.integers(2)), started, moves[random.integers(len(moves))])
            )
        else:
            made.order(orders[random.integers(len(orders))])
        made.advance(float(random.exponential(0.05)))
    for vehicle in (0, 1):
        made.order(CancelOrder(vehicle))
    ended = [end.number for batch in [*made.batches, made.simulation.batch()] for end in batch.ends]
    assert sorted(ended) == list(range(1, started + 1))
    assert np.isfinite(made.simulation.batch().states()).all()
