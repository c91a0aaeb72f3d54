"""Vehicles that programs add: what they have, where they stand, and what is refused."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
import pytest

from vil_bridge.core.clock import WallClock
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.interfaces.vehicle_moves import VehicleDisturbance
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_simulation.airsim.added_vehicles import AddVehicleMethods, clear_start
from vil_simulation.airsim.settings import added_vehicle, parse_settings
from vil_simulation.airsim.values import GivenPose, Vector3r, WindNed
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles
from vil_simulation.airsim.world_methods import WorldMethods
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import DisturbOrder, Order
from vil_simulation.source.simulation import Simulation

SETTINGS = """{
    "CameraDefaults": {"CaptureSettings": [{"ImageType": 0, "Width": 64, "Height": 48}]},
    "Vehicles": {"Drone1": {"Sensors": {"Far": {"SensorType": 5, "Enabled": true}}}},
    "DefaultSensors": {"Baro": {"SensorType": 1, "Enabled": true}, "Off": {"SensorType": 2}}
}"""


def methods(settings: str = "{}") -> AddVehicleMethods:
    """Return the methods of a bridge that tracks a vehicle and simulates none."""
    world = World(
        {"real": Transform.identity()}, [Actor("tracked", ActorKind.VEHICLE, "real", "body")]
    )
    still = Transform.identity()
    tracked = ServedVehicle("tracked", "tracked", None, "multirotor", still, np.zeros(3), {}, {})
    vehicles = ServedVehicles([tracked], VehicleCommandBus(), world, WallClock.of_run())
    return AddVehicleMethods(vehicles, parse_settings(settings), WorldMethods(vehicles, "empty"))


def test_it_has_what_the_settings_give_to_every_vehicle() -> None:
    found = added_vehicle(parse_settings(SETTINGS), "Drone2", "SimpleFlight")
    assert found is not None and (found.name, found.kind, found.start) == (
        "Drone2",
        "simpleflight",
        None,
    )
    assert {camera.capture(0).width_px for camera in found.cameras.values()} == {64}
    assert "bottom_center" in found.cameras
    assert [(name, sensor.kind) for name, sensor in found.sensors.items()] == [
        ("Baro", "barometer")
    ]


@pytest.mark.parametrize(
    ("mode", "kind", "fits"),
    [
        ("Multirotor", "simpleflight", True),
        ("Multirotor", "PX4Multirotor", True),
        ("Multirotor", "PhysXCar", False),
        ("Car", "PhysXCar", True),
        ("Car", "SimpleFlight", False),
        ("ComputerVision", "ComputerVision", True),
        ("Multirotor", "", False),
    ],
)
def test_a_mode_has_its_types(mode: str, kind: str, fits: bool) -> None:
    assert (
        added_vehicle(parse_settings(f'{{"SimMode": "{mode}"}}'), "x", kind) is not None
    ) is fits


def test_an_unknown_type_is_false_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    made = methods()
    with caplog.at_level(logging.WARNING):
        for kind in ("Submarine", "Balloon"):
            assert asyncio.run(made.add_vehicle("x", kind, GivenPose())) is False
    assert [record.getMessage() for record in caplog.records] == [
        "a program called simAddVehicle: SimMode Multirotor lacks its type: Submarine"
    ]


@pytest.mark.parametrize(
    ("north_m", "east_m", "up_m", "found_m"),
    [
        # Not on the first, and not on the second, which stands 3 m east of it.
        (0.0, 0.0, 0.0, 6.0),
        (4.0, 0.0, 0.0, 6.0),  # its tail in the nose of the first: cars are 4.3 m long and 2 m wide
        (5.0, 0.0, 0.0, 0.0),
        (0.0, -2.1, 0.0, -2.1),
        (0.0, 0.0, 3.0, 0.0),
    ],
)
def test_a_car_stands_where_no_other_does(
    north_m: float, east_m: float, up_m: float, found_m: float
) -> None:
    north = Transform.of((east_m, north_m, up_m), (0.0, 0.0, 0.5**0.5, 0.5**0.5))
    others = [np.array((0.0, 0.0, 0.1)), np.array((3.0, 0.0, 0.1))]
    start = clear_start(north, (4.3, 2.0, 1.5), others)
    assert start.p_m.tolist() == pytest.approx([found_m, north_m, up_m])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "1 to 255 printable characters"),
        ("x" * 256, "1 to 255 printable characters"),
        ("a\nb", "1 to 255 printable characters"),
        ("tracked", "a vehicle is named tracked already"),
        (
            "Drone2",
            "this bridge simulates no vehicle: configure a source of type simulated with one",
        ),
    ],
)
def test_what_cannot_be_added_is_an_error(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        asyncio.run(methods().add_vehicle(name, "SimpleFlight", GivenPose()))


async def test_the_wind_of_the_world_blows_on_it_too() -> None:
    vehicles = {"first": {"model": "airsim", "autopilot": {"kind": "none"}}}
    config = SimulatedConfig.model_validate({"type": "simulated", "vehicles": vehicles})
    simulation, orders, bus = Simulation(config), list[Order](), VehicleCommandBus()

    def send(order: Order) -> bool:
        orders.append(order)
        taken = simulation.order(order)  # type: ignore[arg-type]
        handler.update(batch := simulation.batch(), batch.states())
        return taken

    handler = CommandHandler("sim", config, send)
    handler.update(first := simulation.batch(), first.states())
    room, origin_m = Transform.of((0.0, 0.0, 7.0)), np.array((0.0, 0.0, 8.0))
    served = ServedVehicle("first", "first", "first", "multirotor", room, origin_m, {}, {})
    world = World({"sim": room}, [Actor("first", ActorKind.VEHICLE, "sim", "first")])
    with bus.serving("sim", handler.subjects, handler):
        served_vehicles = ServedVehicles([served], bus, world, WallClock.of_run())
        methods = WorldMethods(served_vehicles, "empty")
        adding = AddVehicleMethods(served_vehicles, parse_settings("{}"), methods)
        assert (
            await adding.add_vehicle("calm", "SimpleFlight", GivenPose(Vector3r(4.0, 0.0, -7.0)))
            is True
        )
        assert not any(isinstance(order, DisturbOrder) for order in orders)
        methods.set_wind(WindNed(0.0, 5.0, 0.0))
        assert (
            await adding.add_vehicle("Blown", "SimpleFlight", GivenPose(Vector3r(8.0, 0.0, -7.0)))
            is True
        )
        assert orders[-1] == DisturbOrder(2, VehicleDisturbance(wind_world_mps=(5.0, 0.0, 0.0)))
        assert served_vehicles.names == ["first", "calm", "Blown"]
        assert served_vehicles.find("Blown").origin_m.tolist() == pytest.approx([0.0, 8.0, 7.15])
        added = {actor.name: actor for actor in served_vehicles.snapshot().actors}["blown"]
        assert added.T_world_body.p_m.tolist() == pytest.approx([0.0, 8.0, 7.15])
