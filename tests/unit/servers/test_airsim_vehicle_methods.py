"""Moves of simulated vehicles over the simulation itself.

Frames, control, sticks, programs that are gone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
import pytest_asyncio

from tests.support.flown_vehicle import ORIGIN, PLACE, Flown, flying, in_turned_room, only
from vil_bridge.core.clock import WallClock
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.interfaces.vehicle_moves import (
    AttitudeMove,
    HomeMove,
    HoverMove,
    LandMove,
    LoopGains,
    ManualMove,
    Move,
    PathMove,
    RatesMove,
    RotorsMove,
    StickPositions,
    TakeoffMove,
    TurnMove,
    TurnRateMove,
    VelocityMove,
    YawGoal,
)
from vil_simulation.airsim.controller_methods import ControllerMethods
from vil_simulation.airsim.flight_methods import FlightMethods
from vil_simulation.airsim.remote_methods import RemoteMethods
from vil_simulation.airsim.state_methods import StateMethods
from vil_simulation.airsim.values import (
    RCData,
    YawMode,
)
from vil_simulation.airsim.vehicles import ServedVehicles
from vil_simulation.source.ipc import (
    ArmCommand,
    GainsOrder,
    MoveOrder,
    SticksOrder,
)
from vil_simulation.vehicles.airsim.simple_flight import SimpleFlight


@pytest_asyncio.fixture(params=["airsim"])
async def flown(request: pytest.FixtureRequest) -> AsyncIterator[Flown]:
    async with flying(request.param) as vehicle:
        yield vehicle


def position(flown: Flown) -> tuple[float, float, float]:
    return flown.vehicles.bus.of("d").state("d").p_world_m


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
    states = StateMethods(
        flown.vehicles, "{}", ORIGIN, (flight.release_control, remote.release_sticks)
    )
    flight.enable_api_control(True)
    await remote.move_by_rc(RCData(pitch=1.0, is_valid=True))
    reset = asyncio.create_task(states.reset())
    await flown.advance(reset.done)
    await reset
    manual = asyncio.create_task(remote.move_by_manual(5e4, 5e4, 0.0, 2.0, 0, YawMode()))
    await flown.advance(manual.done)
    assert position(flown)[:2] == pytest.approx((10.0, 20.0), abs=0.01)


def test_calls_that_name_no_vehicle_go_to_the_default_one(flown: Flown) -> None:
    vehicles = [replace(flown.vehicles.find("D"), name=name) for name in ("A", "B")]
    for default, found in (("B", "B"), ("missing", "A"), ("", "A")):
        served = ServedVehicles(
            vehicles, flown.vehicles.bus, flown.vehicles.world, WallClock.of_run(), default
        )
        assert served.find("").name == found and served.names == ["A", "B"]


AHEAD = 1
HEADING = YawGoal(math.radians(-30.0), by_rate=False)
"""30 degrees east of north: the room's x axis points north."""
TURNING = YawGoal(math.radians(-30.0))
HEIGHT_M = 30.0
LEFT = math.radians(-90.0)


@pytest.mark.parametrize(
    ("name", "arguments", "move"),
    [
        (
            "move_by_velocity",
            (1, 2, 3, 4, 0, YawMode(True, 30)),
            VelocityMove((1, -2, -3), 4, TURNING),
        ),
        (
            "move_by_velocity",
            (1, 2, 3, 4, 0, YawMode(False, 30)),
            VelocityMove((1, -2, -3), 4, HEADING),
        ),
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
            (np.array([[1.0, 2, -3], [0, 0, 0]]), 5, 6, 0, YawMode(False, 30), 7, 8),
            PathMove((PLACE, (18, -9, 27)), 5, 6, HEADING, 7, 8),
        ),
        (
            "move_to_position",
            (1, 2, -3, 5, 6, 0, YawMode(True, 30)),
            PathMove((PLACE,), 5, 6, TURNING, -1, 1),
        ),
        (
            "move_to_z",
            (-3, 5, 6, YawMode(True, 30), 7, 8),
            PathMove(((10, 20, HEIGHT_M),), 5, 6, TURNING, 7, 8),
        ),
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
        (
            "move_by_roll_pitch_yawrate_z",
            (0.1, 0.2, 0.3, -3, 4),
            AttitudeMove(0.1, -0.2, YawGoal(-0.3), 4, z_m=30),
        ),
        ("move_by_angle_rates_z", (0.1, 0.2, 0.3, -3, 4), RatesMove((0.1, -0.2, -0.3), 4, z_m=30)),
        (
            "move_by_angle_rates_throttle",
            (0.1, 0.2, 0.3, 0.6, 4),
            RatesMove((0.1, -0.2, -0.3), 4, throttle=0.6),
        ),
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
    vehicles = in_turned_room(flown)
    flight = FlightMethods(vehicles, ORIGIN)
    call = asyncio.create_task(getattr(flight, name)(*arguments))
    await asyncio.sleep(0)
    order = only(flown, MoveOrder)
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


async def test_a_place_on_the_earth_is_a_point_of_the_room(flown: Flown) -> None:
    latitude, longitude, altitude = map(float, ORIGIN.to_geodetic(np.array([12.0, 21.0, 33.0])))
    flight = FlightMethods(in_turned_room(flown), ORIGIN)
    call = asyncio.create_task(
        flight.move_to_gps(latitude, longitude, altitude, 5.0, 6.0, 0, YawMode())
    )
    await asyncio.sleep(0)
    call.cancel()
    assert only(flown, MoveOrder).move.points_m[0] == pytest.approx(PLACE, abs=1e-3)


async def test_gains_of_positions_are_north_east_and_down(flown: Flown) -> None:
    await ControllerMethods(flown.vehicles).set_position_gains(
        (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (7.0, 8.0, 9.0)
    )
    order = only(flown, GainsOrder)
    assert (order.loop, order.gains) == (
        "position",
        LoopGains((2.0, 1.0, 3.0), (5.0, 4.0, 6.0), (8.0, 7.0, 9.0)),
    )


async def test_only_programs_with_control_arm_and_a_disarmed_vehicle_is_not_disarmed_again(
    flown: Flown,
) -> None:
    flight = FlightMethods(flown.vehicles, ORIGIN)
    assert not flight.arm_disarm(True) and not flight.arm_disarm(False)
    flight.enable_api_control(True)
    assert flight.is_api_control_enabled() and flight.arm_disarm(True) and flight.arm_disarm(False)
    await flown.advance(lambda: not flown.vehicles.bus.of("d").state("d").armed)
    assert not flight.arm_disarm(False)
    assert [order.armed for order in flown.orders if isinstance(order, ArmCommand)] == [True, False]
    flight.enable_api_control(False)
    assert not flight.arm_disarm(True) and not flight.is_api_control_enabled()


async def test_sticks_hold_for_a_tenth_of_a_second_after_their_stamp(flown: Flown) -> None:
    remote = RemoteMethods(flown.vehicles, FlightMethods(flown.vehicles, ORIGIN))
    stamp_ns = flown.vehicles.utc_ns(flown.vehicles.bus.of("d").state("d").t_ns)
    await remote.move_by_rc(
        RCData(timestamp=stamp_ns, roll=0.1, pitch=0.2, throttle=0.3, yaw=0.4, is_valid=True)
    )
    order = only(flown, SticksOrder)
    assert order.sticks == StickPositions(0.1, 0.2, 0.3, 0.4)
    assert order.until_ns == flown.simulation.t_of(flown.step) + 100_000_000
    move = only(flown, MoveOrder).move
    limits = SimpleFlight()
    angles = (
        0.1 * limits.max_angle_rad,
        0.2 * limits.max_angle_rad,
        0.3,
        -0.4 * limits.max_rate_radps,
    )
    assert (move.roll_rad, move.pitch_rad, move.throttle, move.yaw.value) == pytest.approx(angles)
    for absurd in (1, 1 << 63):
        with pytest.raises(ValueError, match="is not one of the simulation's clock"):
            await remote.move_by_rc(RCData(timestamp=absurd, is_valid=True))


async def test_a_manual_move_has_shares_of_its_limits(flown: Flown) -> None:
    remote = RemoteMethods(in_turned_room(flown), FlightMethods(flown.vehicles, ORIGIN))
    call = asyncio.create_task(remote.move_by_manual(1e4, 2e4, -3e4, 5.0, 0, YawMode(False, 30.0)))
    await asyncio.sleep(0)
    call.cancel()
    assert flat(only(flown, MoveOrder).move) == pytest.approx(
        flat(ManualMove(2.0, 1.0, 3.0, 5.0, HEADING))
    )


async def test_a_command_to_a_simulation_that_does_not_run_says_so(flown: Flown) -> None:
    vehicles = ServedVehicles(
        [flown.vehicles.find("D")], VehicleCommandBus(), flown.vehicles.world, WallClock.of_run()
    )
    flight = FlightMethods(vehicles, ORIGIN)
    with pytest.raises(ValueError, match="the simulation of D is starting: try again"):
        await flight.hover()
    with pytest.raises(ValueError, match="the simulation of D is starting: try again"):
        flight.enable_api_control(True)
