"""Methods of the world as a whole: wind, force, the log, and the level."""

from __future__ import annotations

import logging
from typing import Final

from vil_bridge.core.text import printable_lines
from vil_bridge.interfaces.vehicle_moves import Point, VehicleDisturbance
from vil_simulation.airsim.frames import world_of
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.values import ForceNed, Vector3r, WindNed
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles

logger = logging.getLogger(__name__)

_LEVELS: Final = (logging.INFO, logging.INFO, logging.WARNING, logging.ERROR)
_LONGEST: Final = 1000


class WorldMethods:
    """The world.

    Args:
        scene: name of what is drawn.
        races: there is a race, whose course stands for every level that a program loads.
    """

    def __init__(self, vehicles: ServedVehicles, scene: str, *, races: bool = False) -> None:
        self._vehicles = vehicles
        self._scene = scene
        self._races = races
        self._warned = False
        self._wind: Vector3r | None = None
        self._force: Vector3r | None = None

    @method("simSetWind")
    def set_wind(self, wind: WindNed) -> None:
        """Set the mean wind around every simulated multirotor, m/s."""
        for vehicle in self._flying():
            blown = VehicleDisturbance(wind_world_mps=self._in_room(vehicle, wind))
            self._vehicles.bus.send(vehicle.subject or "", blown)
        self._wind = wind
        east, north, up = world_of(wind).tolist()
        self._vehicles.wind_mps = east, north, up

    @method("simSetExtForce")
    def set_force(self, ext_force: ForceNed) -> None:
        """Push every simulated multirotor with a force until the next call, N.

        A name of Cosys-AirSim.
        """
        for vehicle in self._flying():
            pushed = VehicleDisturbance(force_world_n=self._in_room(vehicle, ext_force))
            self._vehicles.bus.send(vehicle.subject or "", pushed)
        self._force = ext_force

    def disturb(self, vehicle: ServedVehicle) -> None:
        """Let the wind and the force that programs have set act on a simulated vehicle that was
        added.
        """
        wind, force = (
            None if v is None else self._in_room(vehicle, v) for v in (self._wind, self._force)
        )
        if wind is not None or force is not None:
            self._vehicles.bus.send(vehicle.subject or "", VehicleDisturbance(wind, force))

    @method("simPrintLogMessage")
    def print_log_message(self, message: str, message_param: str = "", severity: int = 0) -> None:
        """Write a line into the log."""
        level = _LEVELS[min(max(severity, 0), len(_LEVELS) - 1)]
        logger.log(level, "program: %s", printable_lines(f"{message}{message_param}"[:_LONGEST]))

    def _flying(self) -> list[ServedVehicle]:
        """Return the vehicles that air and forces move. Raises ValueError: there is none."""
        found = [vehicle for vehicle in self._vehicles.simulated if vehicle.kind == "multirotor"]
        if not found:
            raise ValueError(
                "no multirotor is simulated here, and nothing else is moved by air and forces"
            )
        return found

    def _in_room(self, vehicle: ServedVehicle, v_ned: Vector3r) -> Point:
        x, y, z = self._vehicles.in_room(vehicle, world_of(v_ned)).tolist()
        return x, y, z

    @method("simLoadLevel")
    def load_level(self, level_name: str) -> bool:
        """Return True for the scene that is drawn, and for any where there is a race.

        No other one can be loaded.
        """
        if level_name != self._scene and not self._warned:
            self._warned = True
            logger.warning(
                "a program asked for the level %r; this bridge draws %s",
                level_name[:60],
                self._scene,
            )
        return self._races or level_name == self._scene
