"""Sensors of vehicles by their configuration, and the library's objects for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import msgspec
import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import SensorDescription, SensorKind
from vil_simulation.source.vehicle_config import (
    IDEAL,
    IMU_NAME,
    SensorConfig,
    Vehicle,
    VehicleConfig,
)
from vil_simulation.vehicles.environment.earth import Compat
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.environment.geomagnetism import (
    LocalField,
    airsim_dipole_ned_t,
    dipole_ned_t,
)
from vil_simulation.vehicles.sensors.barometer import Barometer, BarometerParameters
from vil_simulation.vehicles.sensors.beacon_ranges import BeaconParameters, BeaconReceiver
from vil_simulation.vehicles.sensors.beams import BeamParameters, LidarParameters
from vil_simulation.vehicles.sensors.gps import Gps, GpsParameters
from vil_simulation.vehicles.sensors.imu import ImuParameters, ImuSensor, InertialNoise
from vil_simulation.vehicles.sensors.magnetometer import Magnetometer, MagnetometerParameters
from vil_simulation.vehicles.sensors.presets import (
    BAROMETER_PRESETS,
    BEAM_PRESETS,
    GPS_PRESETS,
    IMU_PRESETS,
    MAGNETOMETER_PRESETS,
)
from vil_simulation.vehicles.sensors.sensor import Sensor, SensorMount


@dataclass(frozen=True, slots=True, kw_only=True)
class StateParameters:
    """Reading of the simulated state, without errors: rotors and controls."""

    rate_hz: float | None = None
    latency_s: float = 0.0


RangingParameters = BeamParameters | LidarParameters
Parameters = (
    ImuParameters
    | BarometerParameters
    | MagnetometerParameters
    | GpsParameters
    | StateParameters
    | RangingParameters
    | BeaconParameters
)

RANGING_KINDS: Final = frozenset({"distance", "lidar"})
"""Kinds whose rays the source casts from the poses that the simulation hands out."""

_STARTING: Final = (BarometerParameters, MagnetometerParameters, GpsParameters)
_RATE_HZ: Final = 200.0
_LONGEST_S: Final = 60.0
_SILENT: Final = InertialNoise(white=0.0)

_IDEAL: Final[Mapping[SensorKind, Parameters]] = {
    "imu": ImuParameters(gyro=_SILENT, accel=_SILENT),
    "barometer": BarometerParameters(drift=0.0, noise_pa=0.0),
    "magnetometer": MagnetometerParameters(noise_t=0.0),
    "gps": GpsParameters(accuracy_first_m=0.1, latency_s=0.0, startup_s=0.0),
    "rotors": StateParameters(),
    "controls": StateParameters(),
    "distance": BeamParameters(),
    "lidar": LidarParameters(),
    "beacons": BeaconParameters(),
}
_PRESETS: Final[Mapping[SensorKind, Mapping[str, Parameters]]] = {
    "imu": IMU_PRESETS,
    "barometer": BAROMETER_PRESETS,
    "magnetometer": MAGNETOMETER_PRESETS,
    "gps": GPS_PRESETS,
    "rotors": {},
    "controls": {},
    "distance": BEAM_PRESETS,
    "lidar": {},
    "beacons": {},
}
_NOUNS: Final[Mapping[SensorKind, str]] = {
    "imu": "inertial sensor",
    "barometer": "barometer",
    "magnetometer": "magnetometer",
    "gps": "satellite receiver",
    "rotors": "reading of the rotors",
    "controls": "reading of the controls",
    "distance": "distance sensor",
    "lidar": "lidar",
    "beacons": "receiver of beacons",
}
_STREAMS: Final[Mapping[SensorKind, int]] = {
    "imu": 1000,
    "barometer": 1100,
    "magnetometer": 1200,
    "gps": 1300,
    "distance": 1400,
    "lidar": 1500,
    "beacons": 1600,
}
"""Of kinds with errors.

First number of a kind's noise; the next sensor of the kind has the next one.
"""


@dataclass(frozen=True, slots=True)
class SensorPart:
    """A sensor's parameters, and when it is read.

    Attributes:
        parameters: without rate and latency, which are not the part's own business here.
        rate_hz: readings per second. latency_s: from a measurement to its release.
        startup_s: from the start to the first measurement.
    """

    parameters: Parameters
    rate_hz: float
    latency_s: float
    startup_s: float


def part_of(config: SensorConfig) -> SensorPart:
    """Return the part of that name, with single values replaced.

    Raises:
        ValueError: no such part or value; says which there are.
    """
    presets = _PRESETS[config.type]
    if config.preset != IDEAL and config.preset not in presets:
        known = f"{IDEAL}, {', '.join(sorted(presets))}"
        raise ValueError(f"no {_NOUNS[config.type]} {config.preset!r}; known: {known}")
    part = _changed(
        _IDEAL[config.type] if config.preset == IDEAL else presets[config.preset], config
    )
    rate_hz = config.rate_hz or part.rate_hz or _RATE_HZ
    startup_s = part.startup_s if isinstance(part, _STARTING) else 0.0
    if not 0.0 <= part.latency_s <= _LONGEST_S:
        raise ValueError(f"latency_s must be from 0 to {_LONGEST_S:g}, got {part.latency_s}")
    return SensorPart(
        replace(part, rate_hz=None, latency_s=0.0), rate_hz, part.latency_s, startup_s
    )


def description_of(config: SensorConfig) -> SensorDescription:
    """Return a sensor's mount and the variances of its white noise.

    Raises ValueError: as :func:`part_of`.
    """
    part = part_of(config)
    mount = SensorMount()
    variances: tuple[float, ...] = ()
    match part.parameters:
        case ImuParameters(gyro=gyro, accel=accel, mounting=mount):
            densities = np.concatenate([np.broadcast_to(noise.white, 3) for noise in (gyro, accel)])
            variances = tuple((densities**2 * part.rate_hz).tolist())
        case BarometerParameters(noise_pa=noise_pa):
            variances = (noise_pa**2,)
        case MagnetometerParameters(noise_t=noise_t, mounting=mount):
            variances = (noise_t**2,) * 3
        case (
            BeamParameters(noise_m=noise_m, mounting=mount)
            | LidarParameters(noise_m=noise_m, mounting=mount)
        ):
            variances = (noise_m**2,)
        case BeaconParameters(noise_m=noise_m, mounting=mount):
            variances = (noise_m**2,)
        case GpsParameters() | StateParameters():
            pass  # a receiver's readings state their accuracy; a state has no errors
    return SensorDescription(
        config.type, Transform.of(mount.p_body_m, mount.q_body_sensor), variances
    )


def sensor_configs(config: VehicleConfig) -> dict[str, SensorConfig]:
    """Return all sensors of a vehicle by name, that of the key ``imu`` first."""
    own = {}
    if config.imu is not None:
        own = {
            IMU_NAME: SensorConfig(type="imu", preset=config.imu.preset, rate_hz=config.imu.rate_hz)
        }
    return own | config.sensors


@dataclass(frozen=True, slots=True)
class FittedSensor:
    """One sensor on some vehicles of a source.

    Attributes:
        kind: of its readings. vehicles: that have it, in the order of its values' rows.
        ordinal: among the sensors of its kind on each vehicle. feeds_filter: it is that of the key
            ``imu``.
    """

    name: str
    kind: SensorKind
    config: SensorConfig
    vehicles: tuple[Vehicle, ...]
    ordinal: int
    feeds_filter: bool


def fitted_sensors(groups: Sequence[Sequence[Vehicle]]) -> list[FittedSensor]:
    """Return the sensors of all vehicles; a sensor's index is its number in messages."""
    found: list[FittedSensor] = []
    for vehicles in groups:
        own = vehicles[0].config
        ordinals: Counter[SensorKind] = Counter()
        for name, config in sensor_configs(own).items():
            feeds = own.imu is not None and name == IMU_NAME
            found.append(
                FittedSensor(
                    name, config.type, config, tuple(vehicles), ordinals[config.type], feeds
                )
            )
            ordinals[config.type] += 1
    return found


def sensor_of(
    fitted: FittedSensor, part: SensorPart, origin: GeoOrigin, seed: int
) -> Sensor[Any] | None:
    """Return the library's sensor, which measures whenever it is called once it has started.

    None = it needs none.

    Args:
        fitted: the sensor and its vehicles, to whose numbers its noise belongs.
        part: its parameters.
        origin: place of the world's origin.
        seed: of the source.

    Raises:
        ValueError: a parameter is out of its range.
    """
    own = fitted.vehicles[0].config
    compat: Compat = "airsim" if own.compat and own.model == "airsim" else None
    vehicles = np.array([vehicle.index for vehicle in fitted.vehicles])
    stream = noise_stream_of(fitted)
    match part.parameters:
        case StateParameters() | BeamParameters() | LidarParameters():
            return None
        case BeaconParameters() as parameters:
            return BeaconReceiver(vehicles, parameters, seed=seed, stream=stream)
        case ImuParameters() as parameters:
            return ImuSensor(vehicles, parameters, seed=seed, stream=stream)
        case BarometerParameters() as parameters:
            return Barometer(vehicles, origin, parameters, seed=seed, stream=stream, compat=compat)
        case MagnetometerParameters() as parameters:
            field = LocalField(origin, dipole_ned_t if compat is None else airsim_dipole_ned_t)
            return Magnetometer(
                vehicles, field.enu_t, parameters, seed=seed, stream=stream, compat=compat
            )
        case GpsParameters() as parameters:
            return Gps(vehicles, origin, parameters, seed=seed, stream=stream, compat=compat)


def noise_stream_of(fitted: FittedSensor) -> int:
    """Return the number of a sensor's noise."""
    return _STREAMS.get(fitted.kind, 0) + fitted.ordinal


def _changed(part: Parameters, config: SensorConfig) -> Parameters:
    """Return the part with the configuration's single values."""
    if not config.parameters:
        return part
    known = [field.name for field in fields(part) if field.name != "rate_hz"]
    for name in config.parameters:
        if name not in known:
            raise ValueError(
                f"a sensor of type {config.type} has no parameter {name!r}; known: "
                f"{', '.join(known)}"
            )
    try:
        changed: Parameters = msgspec.convert(
            msgspec.to_builtins(part) | config.parameters, type(part)
        )
    except msgspec.ValidationError as exc:
        raise ValueError(f"parameters of a sensor of type {config.type}: {exc}") from None
    return changed
