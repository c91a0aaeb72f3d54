"""Vehicles of a source by number.

Those of its configuration, then those that were added while it runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from vil_bridge.core.elementary import sin_cos
from vil_bridge.core.errors import ValueRefused
from vil_bridge.interfaces.vehicle_commands import VehicleState
from vil_bridge.interfaces.vehicle_moves import Quaternion
from vil_simulation.source.colliding_vehicles import CollidingVehicles
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import AddOrder
from vil_simulation.source.model_factory import RC_MODE, ModelFactory
from vil_simulation.source.newest_readings import NewestReadings
from vil_simulation.source.sensor_parts import RANGING_KINDS, fitted_sensors, sensor_configs
from vil_simulation.source.simulation import grouped, vehicles_of
from vil_simulation.source.vehicle_config import MOST_VEHICLES, AutopilotProgramConfig, Vehicle


class VehicleTable:
    """Models, sensors and starts of the vehicles.

    Any thread may read it, and one at a time adds to it.

    Attributes:
        subjects: their names by number. added: orders that add those that are not configured,
            oldest first.
        factories: of their models, by number. readings: of their sensors.

    Raises:
        ValueError: a model or its parameters are wrong; names the entry.
    """

    def __init__(self, source: str, config: SimulatedConfig) -> None:
        factories = {name: _factory_of(name, config) for name in config.vehicles}
        vehicles = vehicles_of(config)
        by_config = {id(config.vehicles[name]): factory for name, factory in factories.items()}
        self._colliding: tuple[int, CollidingVehicles] | None = None
        self.added: tuple[AddOrder, ...] = ()
        self.factories: Final = [by_config[id(vehicle.config)] for vehicle in vehicles]
        self.readings: Final = NewestReadings(fitted_sensors(grouped(vehicles)))
        self._source = source
        self._config = config
        self._vehicles = vehicles
        self._number = {vehicle.name: vehicle.index for vehicle in vehicles}
        self._unchanging = [self._unchanging_of(vehicle) for vehicle in vehicles]
        self.subjects: tuple[str, ...] = tuple(vehicle.name for vehicle in vehicles)

    def number(self, subject: str) -> int:
        """Return the number of a vehicle. Raises KeyError: there is none of that name."""
        return self._number[subject]

    def model_of(self, number: int) -> str:
        """Return the name of a vehicle's model."""
        return self._vehicles[number].config.model

    def unchanging(self, number: int) -> dict[str, Any]:
        """Return the fields of a vehicle's states that are always the same."""
        return self._unchanging[number]

    def colliding(self, count: int) -> CollidingVehicles:
        """Return those of the first ``count`` vehicles that collide; one thread at a time."""
        if self._colliding is None or self._colliding[0] != count:
            self._colliding = (
                count,
                CollidingVehicles(self._vehicles[:count], self.factories[:count]),
            )
        return self._colliding[1]

    def start_of(self, number: int, t_ns: int) -> VehicleState:
        """Return the state of a vehicle that has not flown yet."""
        unchanging = self._unchanging[number]
        return VehicleState(
            **unchanging,
            t_ns=t_ns,
            steps=0,
            mode="",
            pilot="autopilot",
            armed=False,
            p_world_m=unchanging["start_p_world_m"],
            v_world_mps=(0.0, 0.0, 0.0),
            q_world_body=unchanging["start_q_world_body"],
            w_body_radps=(0.0, 0.0, 0.0),
            landed=self.factories[number].airsim is not None
            or RC_MODE in self.factories[number].modes,
        )

    def add(self, subject: str, described: Mapping[str, Any]) -> None:
        """Add a vehicle that a configuration's entry describes.

        Raises:
            ValueRefused: the entry is wrong, or vehicles cannot be added as it describes.
        """
        vehicle = self._described(subject, described)
        self._vehicles.append(vehicle)
        self.factories.append(ModelFactory(vehicle.config))
        self.readings.add(fitted_sensors([[vehicle]]))
        self._unchanging.append(self._unchanging_of(vehicle))
        self._number[subject] = vehicle.index
        self.added += (AddOrder(subject, vehicle.config.model_dump_json()),)
        self.subjects += (subject,)

    def _described(self, subject: str, described: Mapping[str, Any]) -> Vehicle:
        """Return the next vehicle from its entry. Raises ValueRefused: as :meth:`add`."""
        source = self._config
        if subject in self._number:
            raise ValueRefused(
                f"source {self._source} simulates a vehicle {subject!r} already: take another name"
            )
        if len(self._vehicles) >= MOST_VEHICLES:
            raise ValueRefused(
                f"source {self._source} has {MOST_VEHICLES} vehicles, the most of one source"
            )
        if source.mocap:
            raise ValueRefused(
                f"source {self._source} has a mocap system, which sees the configured vehicles only"
            )
        tree = {
            **source.model_dump(mode="json", exclude={"vehicles"}),
            "vehicles": {subject: dict(described)},
        }
        try:
            config = SimulatedConfig.model_validate(tree).vehicles[subject]
        except ValidationError as exc:
            first = exc.errors(include_url=False)[0]
            raise ValueRefused(
                ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
            ) from None
        ranging = any(sensor.type in RANGING_KINDS for sensor in sensor_configs(config).values())
        if config.count > 1 or ranging or isinstance(config.autopilot, AutopilotProgramConfig):
            raise ValueRefused(
                f"vehicles.{subject}: count, distance sensors, lidars and autopilots' "
                "programs need an entry of the "
                "configuration; leave them out of a vehicle that is added"
            )
        return Vehicle(len(self._vehicles), subject, config, config.p_m)

    def _unchanging_of(self, vehicle: Vehicle) -> dict[str, Any]:
        return {
            "subject": vehicle.name,
            "source": self._source,
            "model": vehicle.config.model,
            "modes": self.factories[vehicle.index].modes,
            "sensors": self.readings.kinds_of(vehicle.name),
            "start_p_world_m": vehicle.p_m,
            "start_q_world_body": _heading_of(vehicle),
        }


def _heading_of(vehicle: Vehicle) -> Quaternion:
    """Return the attitude at the start."""
    sine, cosine = sin_cos(math.radians(vehicle.config.yaw_deg) / 2.0)
    return 0.0, 0.0, float(sine), float(cosine)


def _factory_of(name: str, config: SimulatedConfig) -> ModelFactory:
    try:
        return ModelFactory(config.vehicles[name])
    except ValueError as exc:
        raise ValueError(f"vehicles.{name}: {exc}") from None
