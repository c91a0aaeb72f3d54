"""Vehicles that a program adds while the bridge runs.

Simulated ones, in the source of the first simulated vehicle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, ActorState, FloatArray, TrackingState
from vil_simulation.airsim.frames import transform_of
from vil_simulation.airsim.methods import method, shown
from vil_simulation.airsim.settings import AirsimSettings, Mode, VehicleSettings, added_vehicle
from vil_simulation.airsim.simulated_vehicles import SPACING_M, entry_of, look_of, unique_name
from vil_simulation.airsim.values import GivenPose
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles, poll
from vil_simulation.airsim.world_methods import WorldMethods

logger = logging.getLogger(__name__)

_MOST_VEHICLES: Final = 200
_LONGEST_NAME: Final = 255
_KINDS: Final[Mapping[Mode, str]] = {
    "Multirotor": "multirotor",
    "Car": "car",
    "ComputerVision": "computervision",
}
_NORTH: Final = Transform.of((0.0, 0.0, 0.0), (0.0, 0.0, 0.5**0.5, 0.5**0.5))
"""The player's start."""


@dataclass(frozen=True, slots=True)
class AddedOptions:
    """Options of a bridge for added vehicles.

    Attributes:
        compat: multirotors fly as AirSim's own code does, its slips included.
        from_world: their positions are zero at the world's origin, not at their starts.
    """

    compat: bool = False
    from_world: bool = False


AS_AIRSIM: Final = AddedOptions()


class AddVehicleMethods:
    """Addition of vehicles, one after the other.

    Args:
        settings: their mode, cameras and sensors. world: disturbs them as it does the others.
        options: what the bridge says of them.
    """

    def __init__(
        self,
        vehicles: ServedVehicles,
        settings: AirsimSettings,
        world: WorldMethods,
        options: AddedOptions = AS_AIRSIM,
    ) -> None:
        self._vehicles = vehicles
        self._settings = settings
        self._world = world
        self._options = options
        self._adding = asyncio.Lock()
        self._warned: set[str] = set()

    @method("simAddVehicle")
    async def add_vehicle(
        self, vehicle_name: str, vehicle_type: str, pose: GivenPose, pawn_path: str = ""
    ) -> bool:
        """Add a vehicle at a pose, of which the heading counts.

        False = the mode has no vehicles of that type.
        """
        if not 0 < len(vehicle_name) <= _LONGEST_NAME or not vehicle_name.isprintable():
            raise ValueError(
                f"a vehicle's name must have 1 to {_LONGEST_NAME} printable characters"
            )
        described = added_vehicle(self._settings, vehicle_name, vehicle_type)
        if described is None:
            self._warn(f"SimMode {self._settings.mode} lacks its type", vehicle_type)
            return False
        if pawn_path:
            self._warn("its pawn_path has no meaning here", pawn_path)
        async with self._adding:
            await self._add(described, transform_of(pose, np.zeros(3), _NORTH))
        return True

    def _warn(self, problem: str, value: str) -> None:
        """Log a problem of a call, each kind once."""
        if problem not in self._warned:
            self._warned.add(problem)
            logger.warning("a program called simAddVehicle: %s: %s", problem, shown(value))

    async def _add(self, described: VehicleSettings, T_world_start: Transform) -> None:
        """Add a vehicle, and wait until it stands in the world.

        Raises:
            ValueError: the name is taken, nothing simulates, or the source refuses it.
        """
        vehicles = self._vehicles
        if described.name in vehicles.names:
            raise ValueError(
                f"a vehicle is named {shown(described.name)} already: take another name"
            )
        if len(vehicles.names) >= _MOST_VEHICLES:
            raise ValueError(f"there are {_MOST_VEHICLES} vehicles already, the most of one world")
        if not vehicles.simulated:
            raise ValueError(
                "this bridge simulates no vehicle: configure a source of type simulated with one"
            )
        first = vehicles.simulated[0]
        state = vehicles.state(first)
        assert state is not None
        snapshot = vehicles.snapshot()
        name = unique_name(
            described.name, {*vehicles.bus.names(), *(actor.name for actor in snapshot.actors)}
        )
        look = ActorState(
            name,
            ActorKind.VEHICLE,
            TrackingState.TRACKED,
            0,
            T_world_start,
            **look_of(self._settings.mode),
        )
        others = [
            a.T_world_body.p_m
            for a in snapshot.actors
            if a.kind is ActorKind.VEHICLE and a.age_ns is not None
        ]
        start = clear_start(T_world_start, look.size_m, others)
        T_room_start = first.T_world_room.inverse() @ start
        entry = entry_of(described, T_room_start, self._settings, compat=self._options.compat)
        vehicles.bus.add(state.source, name, entry)
        await poll(lambda: bool(vehicles.bus.of(name).state(name).mode), "the simulation stands")
        kind = _KINDS[self._settings.mode]
        origin_m = np.zeros(3)
        if not self._options.from_world:
            origin_m = first.T_world_room.apply(np.array(entry["p_m"]))
        cameras = described.cameras
        sensors = described.sensors
        added = ServedVehicle(
            described.name, name, name, kind, first.T_world_room, origin_m, cameras, sensors
        )
        self._world.disturb(added)
        vehicles.add(added, look)


def clear_start(
    T_world_start: Transform, size_m: tuple[float, float, float], others_m: Sequence[FloatArray]
) -> Transform:
    """Return a start of a vehicle, or the next one further right at which it overlaps no other
    of its size.
    """
    length_m, width_m, _ = size_m
    box_m = np.array((length_m, width_m, width_m))
    p_m = T_world_start.p_m
    turn = T_world_start.rotation()
    while any((np.abs((other_m - p_m) @ turn) < box_m).all() for other_m in others_m):
        p_m = p_m - SPACING_M * turn[:, 1]
    return replace(T_world_start, p_m=p_m)
