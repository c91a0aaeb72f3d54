"""A vehicle that AirSim's methods command, in a simulation that steps in the test's own loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.world.world import World
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import Order
from vil_simulation.source.simulation import Simulation
from vil_simulation.vehicles.environment.geodesy import GeoOrigin

ORIGIN = GeoOrigin(47.6, -122.1, 122.0)
STEPS = 24
PLACE = (19.0, -11.0, 30.0)
"""North 1, east 2, down -3 from the start."""


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


@asynccontextmanager
async def flying(model: str) -> AsyncIterator[Flown]:
    """Yield a vehicle in the air, 10 m east and 20 m north of the origin.

    A multirotor, or a car (bicycle).
    """
    described: dict[str, Any] = {"model": model, "p_m": (10.0, 20.0, 30.0)}
    if model == "airsim":
        sensors = {kind: {"type": kind} for kind in ("imu", "magnetometer")}
        described |= {"autopilot": {"kind": "none"}, "armed": True, "sensors": sensors}
    config = SimulatedConfig.model_validate({"type": "simulated", "vehicles": {"d": described}})
    simulation = Simulation(config)
    orders: list[Order] = []

    def send(order: Order) -> bool:
        orders.append(order)
        simulation.order(order)  # type: ignore[arg-type]
        return True

    handler, bus = CommandHandler("sim", config, send), VehicleCommandBus()
    handler.begin(now_ns())
    kind = "multirotor" if model == "airsim" else "car"
    served = ServedVehicle(
        "D", "d", "d", kind, Transform.identity(), np.array([10.0, 20.0, 30.0]), {}, {}
    )
    vehicles = ServedVehicles(
        [served], bus, World({"sim": Transform.identity()}, []), WallClock.of_run()
    )
    with bus.serving("sim", handler.subjects, handler):
        made = Flown(vehicles, handler, simulation, orders)
        await made.advance(lambda: bool(bus.of("d").state("d").mode))
        yield made
        handler.end()


def in_turned_room(flown: Flown) -> ServedVehicles:
    """Return the vehicle in a room whose origin is 1 m east, 2 m north, 3 m up, its x axis
    north, its y axis west.
    """
    room = Transform.of((1.0, 2.0, 3.0), (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)))
    served = replace(
        flown.vehicles.find("D"), T_world_room=room, origin_m=np.array([10.0, 20.0, 30.0])
    )
    return ServedVehicles([served], flown.vehicles.bus, flown.vehicles.world, WallClock.of_run())


def only(flown: Flown, kind: type[Any]) -> Any:
    """Return the only order of a kind."""
    (order,) = [order for order in flown.orders if isinstance(order, kind)]
    return order
