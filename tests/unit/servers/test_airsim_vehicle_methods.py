"""Methods of simulated vehicles over the simulation itself: what a reset drops, and moves of programs that are gone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pytest
import pytest_asyncio

from vil_adapters.simulated.command_handler import CommandHandler
from vil_adapters.simulated.config import SimulatedConfig
from vil_adapters.simulated.ipc import MoveOrder, Order
from vil_adapters.simulated.simulation import Simulation
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.vehicle_commands import VehicleCommandBus
from vil_bridge.core.vehicle_moves import (
    AttitudeMove,
    HomeMove,
    HoverMove,
    LandMove,
    Move,
    PathMove,
    RatesMove,
    RotorsMove,
    TakeoffMove,
    TurnMove,
    TurnRateMove,
    VelocityMove,
    YawGoal,
)
from vil_bridge.servers.airsim.car_methods import CarMethods
from vil_bridge.servers.airsim.flight_methods import FlightMethods
from vil_bridge.servers.airsim.remote_methods import RemoteMethods
from vil_bridge.servers.airsim.state_methods import StateMethods
from vil_bridge.servers.airsim.values import CarControls, RCData, Vector3r, YawMode
from vil_bridge.servers.airsim.vehicles import ServedVehicle, ServedVehicles
from vil_bridge.vehicles.environment.geodesy import GeoOrigin
from vil_bridge.world.world import World

ORIGIN = GeoOrigin(47.6, -122.1, 122.0)
STEPS = 24


@dataclass
class Flown:
    """A simulation that steps in the test's own loop."""

    vehicles: ServedVehicles
    handler: CommandHandler
    simulation: Simulation
    orders: list[Order]
    step: int = 0

    async def advance(self, done: Callable[[], bool], limit: int = 400) -> None:
        """Step until something is so."""
        for _ in range(limit):
            await asyncio.sleep(0)
            if done():
                return
            self.step += STEPS
            for batch in self.simulation.advance(self.step):
                self.handler.update(batch, batch.states())
        raise AssertionError("it does not come")


@pytest_asyncio.fixture(params=["airsim"])
async def flown(request: pytest.FixtureRequest) -> AsyncIterator[Flown]:
    """A multirotor in the air, 10 m east and 20 m north of the origin, or a car."""
    model = {"model": request.param, "p_m": (10.0, 20.0, 30.0)}
    if request.param == "airsim":
        model |= {"autopilot": {"kind": "none"}, "armed": True}
    config = SimulatedConfig.model_validate({"type": "simulated", "vehicles": {"d": model}})
    simulation = Simulation(config)
    orders: list[Order] = []

    def send(order: Order) -> bool:
        orders.append(order)
        simulation.order(order)  # type: ignore[arg-type]
        return True

    handler, bus = CommandHandler("sim", config, send), VehicleCommandBus()
    handler.begin(now_ns())
    kind = "multirotor" if request.param == "airsim" else "car"
    served = ServedVehicle("D", "d", "d", kind, Transform.identity(), np.array([10.0, 20.0, 30.0]), {}, {})
    vehicles = ServedVehicles([served], bus, World({"sim": Transform.identity()}, []), WallClock.of_run())
    with bus.serving("sim", handler.subjects, handler):
        made = Flown(vehicles, handler, simulation, orders)
        await made.advance(lambda: bool(bus.state("d").mode))
        yield made
        handler.end()


def position(flown: Flown) -> tuple[float, float, float]:
    return flown.vehicles.bus.state("d").p_world_m


async def test_other_programs_wait_for_the_move_of_a_program_that_is_gone(flown: Flown) -> None:
    flight = FlightMethods(flown.vehicles, ORIGIN)
    owner = asyncio.create_task(flight.move_by_velocity(0.0, 0.0, 0.0, 2.0, 0, YawMode()))
    await asyncio.sleep(0)
    owner.cancel()
    waiting = asyncio.create_task(flight.wait_on_last_task())
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert owner.cancelled() and not waiting.done()
    await flown.advance(waiting.done)
    assert waiting.result() is True


async def test_a_reset_turns_the_remote_control_off(flown: Flown) -> None:
    flight = FlightMethods(flown.vehicles, ORIGIN)
    remote = RemoteMethods(flown.vehicles, flight)
    states = StateMethods(flown.vehicles, "{}", ORIGIN, (flight.release_control, remote.release_sticks))
    flight.enable_api_control(True)
    await remote.move_by_rc(RCData(pitch=1.0, is_valid=True))
    reset = asyncio.create_task(states.reset())
    await flown.advance(reset.done)
    await reset
    manual = asyncio.create_task(remote.move_by_manual(5e4, 5e4, 0.0, 2.0, 0, YawMode()))
    await flown.advance(manual.done)
    assert position(flown)[:2] == pytest.approx((10.0, 20.0), abs=0.01)


@pytest.mark.parametrize("flown", ["bicycle"], indirect=True)
async def test_a_reset_drops_the_controls_of_cars(flown: Flown) -> None:
    cars = CarMethods(flown.vehicles)
    states = StateMethods(flown.vehicles, "{}", ORIGIN, [cars.release_controls])
    cars.set_controls(CarControls(throttle=1.0, handbrake=False))
    await flown.advance(lambda: cars.state().speed > 1.0)
    reset = asyncio.create_task(states.reset())
    await flown.advance(reset.done)
    await reset
    assert cars.controls() == CarControls() and cars.state().speed == 0.0


def test_calls_that_name_no_vehicle_go_to_the_default_one(flown: Flown) -> None:
    vehicles = [replace(flown.vehicles.find("D"), name=name) for name in ("A", "B")]
    for default, found in (("B", "B"), ("missing", "A"), ("", "A")):
        served = ServedVehicles(vehicles, flown.vehicles.bus, flown.vehicles.world, WallClock.of_run(), default)
        assert served.find("").name == found and served.names == ["A", "B"]


AHEAD = 1
HEADING = YawGoal(math.radians(-30.0), by_rate=False)
"""30 degrees east of north: the room's x axis points north."""
TURNING = YawGoal(math.radians(-30.0))
PLACE = (19.0, -11.0, 30.0)
"""North 1, east 2, down -3 from the start."""
HEIGHT_M = 30.0
LEFT = math.radians(-90.0)


@pytest.mark.parametrize(
    ("name", "arguments", "move"),
    [
        ("move_by_velocity", (1, 2, 3, 4, 0, YawMode(True, 30)), VelocityMove((1, -2, -3), 4, TURNING)),
        ("move_by_velocity", (1, 2, 3, 4, 0, YawMode(False, 30)), VelocityMove((1, -2, -3), 4, HEADING)),
        (
            "move_by_velocity",
            (1, 2, 3, 4, AHEAD, YawMode(False, 30)),
            VelocityMove((1, -2, -3), 4, YawGoal(math.radians(-30.0), False, True)),
        ),
        (
            "move_by_velocity",
            (1, 2, 3, 4, AHEAD, YawMode(True, 30)),
            VelocityMove((1, -2, -3), 4, YawGoal(math.radians(-30.0), True, True)),
        ),
        (
            "move_by_velocity_body",
            (1, 2, 3, 4, 0, YawMode(False, 30)),
            VelocityMove((1, -2, -3), 4, HEADING, in_heading=True),
        ),
        (
            "move_by_velocity_z",
            (1, 2, -3, 4, 0, YawMode(False, 30)),
            VelocityMove((1, -2, 0), 4, HEADING, z_m=HEIGHT_M),
        ),
        (
            "move_by_velocity_z_body",
            (1, 2, -3, 4, 0, YawMode(True, 30)),
            VelocityMove((1, -2, 0), 4, TURNING, in_heading=True, z_m=HEIGHT_M),
        ),
        (
            "move_on_path",
            ([Vector3r(1, 2, -3), Vector3r(0, 0, 0)], 5, 6, 0, YawMode(False, 30), 7, 8),
            PathMove((PLACE, (18, -9, 27)), 5, 6, HEADING, 7, 8),
        ),
        ("move_to_position", (1, 2, -3, 5, 6, 0, YawMode(True, 30)), PathMove((PLACE,), 5, 6, TURNING, -1, 1)),
        ("move_to_z", (-3, 5, 6, YawMode(True, 30), 7, 8), PathMove(((10, 20, HEIGHT_M),), 5, 6, TURNING, 7, 8)),
        ("rotate_to_yaw", (30, 6, 5), TurnMove(math.radians(-30.0), math.radians(5.0), 6)),
        ("rotate_by_yaw_rate", (30, 6), TurnRateMove(math.radians(-30.0), 6)),
        (
            "move_by_roll_pitch_yaw_z",
            (0.1, 0.2, -LEFT, -3, 4),
            AttitudeMove(0.1, -0.2, YawGoal(LEFT, False), 4, z_m=30),
        ),
        (
            "move_by_roll_pitch_yaw_throttle",
            (0.1, 0.2, -LEFT, 0.6, 4),
            AttitudeMove(0.1, -0.2, YawGoal(LEFT, False), 4, throttle=0.6),
        ),
        (
            "move_by_roll_pitch_yawrate_throttle",
            (0.1, 0.2, 0.3, 0.6, 4),
            AttitudeMove(0.1, -0.2, YawGoal(-0.3), 4, throttle=0.6),
        ),
        ("move_by_roll_pitch_yawrate_z", (0.1, 0.2, 0.3, -3, 4), AttitudeMove(0.1, -0.2, YawGoal(-0.3), 4, z_m=30)),
        ("move_by_angle_rates_z", (0.1, 0.2, 0.3, -3, 4), RatesMove((0.1, -0.2, -0.3), 4, z_m=30)),
        ("move_by_angle_rates_throttle", (0.1, 0.2, 0.3, 0.6, 4), RatesMove((0.1, -0.2, -0.3), 4, throttle=0.6)),
        ("move_by_motor_pwms", (0.1, 0.2, 0.3, 0.4, 5), RotorsMove((0.1, 0.2, 0.3, 0.4), 5)),
        ("takeoff", (6,), TakeoffMove(6)),
        ("land", (6,), LandMove(6)),
        ("go_home", (6,), HomeMove(6)),
        ("hover", (), HoverMove()),
    ],
)
async def test_a_move_is_turned_into_the_frame_of_a_room_that_looks_north(
    flown: Flown, name: str, arguments: tuple[Any, ...], move: Move
) -> None:
    """The room's origin is at 1 m east, 2 m north, 3 m up; its x axis points north, its y axis west."""
    room = Transform.of((1.0, 2.0, 3.0), (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)))
    served = replace(flown.vehicles.find("D"), T_world_room=room, origin_m=np.array([10.0, 20.0, 30.0]))
    vehicles = ServedVehicles([served], flown.vehicles.bus, flown.vehicles.world, WallClock.of_run())
    flight = FlightMethods(vehicles, ORIGIN)
    call = asyncio.create_task(getattr(flight, name)(*arguments))
    await asyncio.sleep(0)
    (order,) = [order for order in flown.orders if isinstance(order, MoveOrder)]
    call.cancel()
    assert type(order.move) is type(move)
    assert flat(order.move) == pytest.approx(flat(move))


def flat(value: Any) -> list[float]:
    """Return all numbers of a move in their order; -1e9 = none."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    if isinstance(value, tuple):
        return [number for part in value for number in flat(part)]
    return [-1e9 if value is None else float(value)]
