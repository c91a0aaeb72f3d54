"""Motions, collisions and cars of AirSim's RPC over the simulation itself, and what a reset
drops.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import numpy as np
import pytest
import pytest_asyncio

from tests.support.flown_vehicle import ORIGIN, PLACE, Flown, flying, in_turned_room, only
from vil_bridge.config.simulation import SimulationConfig
from vil_bridge.core.sensor_readings import MagnetometerReading
from vil_bridge.daemon.simulation_clock import SimulationClock
from vil_bridge.interfaces.vehicle_moves import VehicleCollision
from vil_simulation.airsim.car_methods import CarMethods
from vil_simulation.airsim.flight_methods import FlightMethods
from vil_simulation.airsim.sensor_methods import SensorMethods
from vil_simulation.airsim.server import AirsimServer
from vil_simulation.airsim.settings import parse_settings
from vil_simulation.airsim.state_methods import StateMethods
from vil_simulation.airsim.values import (
    BodyRates,
    CarControls,
    CollisionInfo,
    ForceNed,
    GivenKinematics,
    GivenPose,
    Quaternionr,
    Vector3r,
    VelocityNed,
    WindNed,
    YawMode,
)
from vil_simulation.airsim.world_methods import WorldMethods
from vil_simulation.source.ipc import CollisionReport, DisturbOrder, FlyCommand, PlaceOrder


@pytest_asyncio.fixture(params=["airsim"])
async def flown(request: pytest.FixtureRequest) -> AsyncIterator[Flown]:
    async with flying(request.param) as vehicle:
        yield vehicle


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


@pytest.mark.parametrize("ignores", [False, True])
async def test_a_motion_is_set_in_the_room_up_to_a_hit_unless_hits_are_ignored(
    flown: Flown, ignores: bool
) -> None:
    states = StateMethods(in_turned_room(flown), "{}", ORIGIN, ())
    motion = GivenKinematics(
        Vector3r(1.0, 2.0, -3.0),
        Quaternionr(),
        linear_velocity=VelocityNed(4.0, 5.0, 6.0),
        angular_velocity=BodyRates(7.0, 8.0, 9.0),
    )
    for call in (
        states.set_kinematics(motion, ignores),
        states.set_vehicle_pose(GivenPose(), ignores),
    ):
        task = asyncio.create_task(call)
        await flown.advance(task.done)
        await task
    moved, rested = (order for order in flown.orders if isinstance(order, PlaceOrder))
    assert moved.p_m == pytest.approx(PLACE) and np.abs(moved.q_xyzw) == pytest.approx(
        (0.0, 0.0, 0.0, 1.0)
    )
    assert moved.v_mps == pytest.approx((4.0, -5.0, -6.0)) and moved.w_radps == pytest.approx(
        (7.0, -8.0, -9.0)
    )
    assert (rested.v_mps, rested.w_radps) == ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    assert moved.sweep is rested.sweep is not ignores


async def motion_before_a_step(flown: Flown, states: StateMethods) -> list[Any]:
    """Return time, position, velocity, acceleration, rates and angular acceleration, then step
    25 ms.
    """
    k = states.true_kinematics()
    step = flown.step
    t_s = 1e-9 * flown.vehicles.bus.of("d").state("d").t_ns
    await flown.advance(lambda: flown.step > step)
    parts = (
        k.position,
        k.linear_velocity,
        k.linear_acceleration,
        k.angular_velocity,
        k.angular_acceleration,
    )
    return [t_s, *(np.array(msgspec.structs.astuple(part)) for part in parts)]


async def test_in_a_turned_room_velocity_and_acceleration_fit_the_positions_that_programs_read(
    flown: Flown,
) -> None:
    """Derivatives by central differences over 50 ms, of a body that falls, drifts against its
    drag, and turns.
    """
    states = StateMethods(in_turned_room(flown), "{}", ORIGIN, ())
    thrown = GivenKinematics(
        linear_velocity=VelocityNed(12.0, -7.0, 3.0), angular_velocity=BodyRates(0.5, 0.3, -0.4)
    )
    task = asyncio.create_task(states.set_kinematics(thrown, True))
    await flown.advance(task.done)
    await task
    before, (_, _, v, a, _, alpha), after = [
        await motion_before_a_step(flown, states) for _ in range(3)
    ]
    t0_s, p0, v0, _, w0, _ = before
    t2_s, p2, v2, _, w2, _ = after
    span_s = t2_s - t0_s
    assert span_s == pytest.approx(0.05)
    assert v == pytest.approx((p2 - p0) / span_s, abs=2e-3) and v[:2] == pytest.approx(
        (12.0, -7.0), abs=0.2
    )
    assert a == pytest.approx((v2 - v0) / span_s, abs=5e-3)
    assert a[0] < -0.5 and a[1] > 0.2 and 8.0 < a[2] < 9.81, "drag, and gravity less drag"
    assert alpha == pytest.approx((w2 - w0) / span_s, abs=1e-3) and np.abs(alpha).min() > 0.01


async def test_a_collision_is_latched_until_it_is_read_or_the_vehicle_is_reset(
    flown: Flown,
) -> None:
    states = StateMethods(in_turned_room(flown), "{}", ORIGIN, ())
    hit = VehicleCollision(5_000, (0.0, 1.0, 0.0), PLACE, (18.0, -9.0, 27.0), 0.25, "wall")

    def collide() -> None:
        batch = flown.simulation.batch()
        batch.collisions = [CollisionReport(0, hit)]
        flown.handler.update(batch, batch.states())

    assert states.collision_info() == CollisionInfo()
    collide()
    shown = states.multirotor_state().collision
    assert shown == states.collision_info() and shown.has_collided
    assert (shown.penetration_depth, shown.object_name, shown.object_id) == (0.25, "wall", -1)
    assert msgspec.structs.astuple(shown.normal) == pytest.approx((0.0, -1.0, 0.0))  # west
    assert msgspec.structs.astuple(shown.impact_point) == pytest.approx((1.0, 2.0, -3.0))
    assert msgspec.structs.astuple(shown.position) == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)
    assert states.collision_info() == states.multirotor_state().collision == CollisionInfo()
    collide()
    reset = asyncio.create_task(states.reset())
    await flown.advance(reset.done)
    await reset
    assert states.collision_info() == CollisionInfo()


async def test_a_vehicle_has_landed_until_it_climbs(flown: Flown) -> None:
    states, flight = (
        StateMethods(flown.vehicles, "{}", ORIGIN, ()),
        FlightMethods(flown.vehicles, ORIGIN),
    )
    assert states.multirotor_state().landed_state == 0
    climb = asyncio.create_task(flight.move_by_velocity(0.0, 0.0, -2.0, 2.0, 0, YawMode()))
    await flown.advance(climb.done)
    assert states.multirotor_state().landed_state == 1


@pytest.mark.parametrize("flown", ["bicycle"], indirect=True)
@pytest.mark.parametrize(
    ("controls", "speed_mps", "steering_rad"),
    [
        (CarControls(throttle=0.5, steering=0.5), 10.0, -0.3),
        (CarControls(throttle=2.0, steering=-2.0), 20.0, 0.6),
        (CarControls(throttle=-0.5), -1.5, 0.0),
        (CarControls(throttle=0.5, is_manual_gear=True, manual_gear=-1), -1.5, 0.0),
        (CarControls(throttle=0.5, is_manual_gear=True, manual_gear=1), 10.0, 0.0),
        (CarControls(throttle=0.5, manual_gear=-1), 10.0, 0.0),
        (CarControls(throttle=0.5, brake=0.1), 0.0, 0.0),
        (CarControls(throttle=0.5, handbrake=True), 0.0, 0.0),
    ],
)
def test_a_car_follows_its_controls(
    flown: Flown, controls: CarControls, speed_mps: float, steering_rad: float
) -> None:
    CarMethods(flown.vehicles).set_controls(controls)
    assert only(flown, FlyCommand).values == pytest.approx((speed_mps, steering_rad))


async def test_a_resting_vehicle_feels_the_floor_push_up_and_the_earths_field(flown: Flown) -> None:
    """Its nose points north, as the room's x axis does."""
    nothing: Any = None
    sensors = SensorMethods(in_turned_room(flown), nothing, nothing)
    await flown.advance(lambda: len(flown.vehicles.bus.of("d").readings("d")) == 2)
    imu = await sensors.imu()
    assert msgspec.structs.astuple(imu.orientation) == pytest.approx((1.0, 0.0, 0.0, 0.0), abs=0.01)
    assert imu.time_stamp == flown.vehicles.utc_ns(
        flown.vehicles.bus.of("d").readings("d")["imu"].t_ns
    )
    field = msgspec.structs.astuple((await sensors.magnetometer()).magnetic_field_body)
    tesla = flown.vehicles.bus.of("d").readings("d")["magnetometer"]
    assert isinstance(tesla, MagnetometerReading)
    forward, left, up = tesla.b_body_t
    assert field == pytest.approx((1e4 * forward, -1e4 * left, -1e4 * up))
    assert 0.3 < math.hypot(*field) < 0.7  # Gauss


def test_wind_and_forces_act_in_the_room_of_multirotors(flown: Flown) -> None:
    world = WorldMethods(in_turned_room(flown), "blocks")
    world.set_wind(WindNed(1.0, 2.0, 3.0))
    world.set_force(ForceNed(4.0, 5.0, 6.0))
    winds, forces = (order.disturbance for order in flown.orders if isinstance(order, DisturbOrder))
    assert winds.wind_world_mps == pytest.approx((1.0, -2.0, -3.0)) and winds.force_world_n is None
    assert (
        forces.force_world_n == pytest.approx((4.0, -5.0, -6.0)) and forces.wind_world_mps is None
    )


@pytest.mark.parametrize("flown", ["bicycle"], indirect=True)
def test_wind_and_forces_that_move_nothing_are_refused(flown: Flown) -> None:
    world = WorldMethods(flown.vehicles, "blocks")
    with pytest.raises(ValueError, match="no multirotor is simulated here"):
        world.set_wind(WindNed(1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="no multirotor is simulated here"):
        world.set_force(ForceNed(1.0, 2.0, 3.0))
    assert flown.orders == []


def test_any_level_can_be_loaded_where_a_race_stands_for_it(flown: Flown) -> None:
    plain, racing = (WorldMethods(flown.vehicles, "blocks", races=races) for races in (False, True))
    assert [plain.load_level("blocks"), plain.load_level("Soccer_Field_Easy")] == [True, False]
    assert racing.load_level("Soccer_Field_Easy") is True


class Caller:
    host = "127.0.0.1"


@pytest.mark.parametrize("flown", ["bicycle"], indirect=True)
async def test_the_servers_reset_drops_controls_and_api_control(flown: Flown) -> None:
    nothing: Any = None
    clock = SimulationClock(SimulationConfig(clock="simulated"))
    call = AirsimServer(parse_settings("{}"), flown.vehicles, clock, nothing, "blocks").table.call
    call(Caller(), "enableApiControl", [True])
    call(Caller(), "setCarControls", [{"throttle": 0.5}])
    assert call(Caller(), "getCarControls", []) == CarControls(throttle=0.5)
    waits: Any = call(Caller(), "reset", [])
    reset = asyncio.create_task(waits)
    await flown.advance(reset.done)
    await reset
    assert call(Caller(), "getCarControls", []) == CarControls()
    assert call(Caller(), "isApiControlEnabled", []) is False
