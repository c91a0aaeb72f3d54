"""Configuration of simulated vehicles."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from vil_bridge.config.base import (
    NameOrFile,
    SourceConfigBase,
    StrictModel,
    TransformConfig,
    custom,
)
from vil_bridge.core.sensor_readings import SensorDescription
from vil_simulation.source.program_ports import commands_of, port_of, rate_of
from vil_simulation.source.vehicle_config import (
    MOST_VEHICLES,
    AutopilotProgramConfig,
    VehicleConfig,
    VehicleName,
)


def _flyable(config: VehicleConfig) -> VehicleConfig:
    from vil_simulation.source.validation import problem_of  # imports NumPy and the models

    problem = problem_of(config)
    if problem:
        raise custom(problem)
    return config


class GeoOriginConfig(StrictModel):
    """Place on Earth of the room's zero, whose axes are east, north and up there.

    The default is AirSim's.
    """

    latitude_deg: float = Field(
        default=47.641468, ge=-90, le=90, description="Geodetic latitude, degrees."
    )
    longitude_deg: float = Field(
        default=-122.140165, ge=-180, le=180, description="Longitude, degrees."
    )
    altitude_m: float = Field(
        default=122.0,
        ge=-1000,
        le=100_000,
        description="Height above the ellipsoid, taken for the sea level's, metres.",
    )


class SceneContactConfig(StrictModel):
    """Scene whose solid objects stop the vehicles, at every step and without a renderer."""

    scene: NameOrFile = Field(
        min_length=1,
        max_length=4096,
        description="A shipped scene's name, or the file of one; needs the extra gl.",
    )
    T_room_scene: TransformConfig = Field(
        default=TransformConfig(), description="Pose of the scene in the room."
    )


class SimulatedConfig(SourceConfigBase):
    """Simulated vehicles, which fly in the bridge's time next to real ones."""

    follows_bridge_time: ClassVar[bool] = True

    type: Literal["simulated"] = "simulated"
    vehicles: dict[VehicleName, Annotated[VehicleConfig, AfterValidator(_flyable)]] = Field(
        min_length=1, max_length=MOST_VEHICLES, description="By name."
    )
    rate_hz: float = Field(
        default=200.0, gt=0, le=10_000, description="Poses per second, at most one a step."
    )
    mocap: dict[str, Any] = Field(
        default={},
        description="What a motion-capture system makes of the poses: latency, noise, occlusions "
        "and so on, by names "
        "of vil_simulation.vehicles.sensors.mocap; empty = exact poses at once.",
    )
    origin: GeoOriginConfig = Field(
        default=GeoOriginConfig(),
        description="Place on Earth of the room's zero: for gps, barometer, magnetometer.",
    )
    contact: SceneContactConfig | None = Field(
        default=None, description="Walls of a scene; null = those that renderers report."
    )
    step_hz: int = Field(
        default=960, ge=10, le=10_000, description="Steps of the dynamics per second."
    )
    control_hz: int = Field(
        default=120, ge=1, le=10_000, description="Steps of the autopilot per second, at most."
    )
    seed: int = Field(
        default=0, ge=0, lt=2**63, description="Of all noise: the same seed gives the same flight."
    )
    process: bool | None = Field(
        default=None,
        description="Step in a process of their own; null = when there are more than 8 vehicles.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = self.subjects()
        if len(names) > MOST_VEHICLES:
            raise custom(
                f"{len(names)} vehicles: at most {MOST_VEHICLES} in one source; make it several"
            )
        twice: set[str] = set()
        if len(set(names)) < len(names):
            twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise custom(f"vehicles: {sorted(twice)[0]!r} is the name of two of them; rename one")
        if self.mocap:
            from vil_simulation.source.mocap_model import mocap_parameters

            try:
                mocap_parameters({"rate_hz": self.rate_hz, **self.mocap})
            except ValueError as exc:
                raise custom(str(exc)) from None
        for name, vehicle in self.vehicles.items():
            ranging = [
                key
                for key, sensor in vehicle.sensors.items()
                if sensor.type in ("distance", "lidar")
            ]
            if ranging and self.contact is None:
                raise custom(
                    f"vehicles.{name}.sensors.{ranging[0]} needs a scene for its rays; "
                    f"set contact: {{scene: NAME}} of "
                    "the source"
                )
        for key in ("rate_hz", "control_hz"):
            if getattr(self, key) > self.step_hz:
                raise custom(f"{key} is higher than step_hz ({self.step_hz}); at most one per step")
        return self

    @model_validator(mode="after")
    def _programs_in_step(self) -> Self:
        ports: dict[tuple[str, int | None], str] = {}
        folders: dict[Path, str] = {}
        for name, program in self.programs():
            rate_hz = rate_of(program)
            if self.step_hz % rate_hz:
                raise custom(
                    f"vehicles.{name}.autopilot: {rate_hz} samples per second are no "
                    "whole number of steps at step_hz "
                    f"{self.step_hz}; set step_hz: {-(-self.step_hz // rate_hz) * rate_hz}"
                )
            if program.namespace and (self.process is False or len(self.subjects()) > 1):
                raise custom(
                    f"vehicles.{name}.autopilot.namespace: a namespace holds one vehicle, "
                    "in a process; make each "
                    "vehicle a source of its own, without `process: false`"
                )
            for i, subject in enumerate(names_of(name, self.vehicles[name].count)):
                for _, folder in commands_of(program, subject, program.instance + i):
                    holder = folders.setdefault(folder, subject)
                    if holder != subject:
                        raise custom(
                            f"vehicles.{name}.autopilot.folder: {holder} runs in "
                            f"{program.folder} already, and "
                            "programs keep their settings there; write {vehicle} or "
                            "{instance} into it"
                        )
                place = program.device or program.bind, port_of(program, program.instance + i)
                other = ports.setdefault(place, name)
                if other != name or (i and place[1] is None):
                    raise custom(_same_port(name, other, program, place[1]))
        return self

    def programs(self) -> list[tuple[str, AutopilotProgramConfig]]:
        """Return the entries whose vehicles autopilots' programs fly."""
        entries = [(name, vehicle.autopilot) for name, vehicle in self.vehicles.items()]
        return [
            (name, program)
            for name, program in entries
            if isinstance(program, AutopilotProgramConfig)
        ]

    def needs_real_time(self) -> str:
        """Return why the source cannot follow simulated time; empty = it can."""
        for name, program in self.programs():
            if program.device is not None:
                return (
                    f"vehicles.{name}: a flight controller keeps real time and cannot be "
                    "paused: use `clock: real`"
                )
            if program.kind == "betaflight":
                return (
                    f"vehicles.{name}: Betaflight runs in real time and cannot be paused: use "
                    "`clock: real`"
                )
        return ""

    def subjects(self) -> list[str]:
        """Return names of all vehicles, clones one by one."""
        return [
            name
            for entry, vehicle in self.vehicles.items()
            for name in names_of(entry, vehicle.count)
        ]

    def starts(self) -> dict[str, tuple[str, tuple[float, float, float]]]:
        """Return model and start (room frame, metres) of every vehicle.

        Clones stand in a square grid.
        """
        found = {}
        for name, vehicle in self.vehicles.items():
            side = math.ceil(math.sqrt(vehicle.count))
            x, y, z = vehicle.p_m
            for i, subject in enumerate(names_of(name, vehicle.count)):
                step = vehicle.spacing_m
                found[subject] = vehicle.model, (x + step * (i % side), y + step * (i // side), z)
        return found

    def reach_of(self, subject: str) -> float | None:
        """Return how near surfaces are that a vehicle needs, m: 0 = only whether it hits.

        None = nothing.
        """
        if self.contact is not None:
            return None
        for name, vehicle in self.vehicles.items():
            if subject in names_of(name, vehicle.count) and vehicle.contact.response != "none":
                return vehicle.contact.reach_m if vehicle.contact.response == "bounce" else 0.0
        return None

    def sensors_of(self, subject: str) -> dict[str, SensorDescription]:
        """Return the sensors of a vehicle whose readings are handed out, by name."""
        # Imports the models of sensors.
        from vil_simulation.source.sensor_parts import description_of

        for name, vehicle in self.vehicles.items():
            if subject in names_of(name, vehicle.count):
                return {
                    sensor: description_of(config) for sensor, config in vehicle.sensors.items()
                }
        return {}


def _same_port(name: str, other: str, program: AutopilotProgramConfig, port: int | None) -> str:
    """Return the problem of two vehicles whose programs would meet on one port."""
    if program.device is not None:
        return (
            f"vehicles.{name}.autopilot: {other} has {program.device} already; each needs a "
            "device of its own"
        )
    if port is None:
        return (
            f"vehicles.{name}.autopilot: Betaflight's ports are fixed, and {other} has "
            f"them on {program.bind}; give "
            "each a network namespace of its own: `vil-bridge sitl betaflight --count N`"
        )
    return (
        f"vehicles.{name}.autopilot: {other} has port {port} on {program.bind} already; set "
        "another instance"
    )


def names_of(name: str, count: int) -> list[str]:
    """Return subjects of an entry."""
    return [name] if count == 1 else [f"{name}_{i + 1}" for i in range(count)]
