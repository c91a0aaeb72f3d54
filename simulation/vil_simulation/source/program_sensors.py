"""Sensors that the programs of autopilots read: parts of the sensor library, measured together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.sensor_readings import (
    BarometerReading,
    GpsReading,
    ImuReading,
    MagnetometerReading,
    SensorKind,
)
from vil_simulation.autopilots.links.link import AutopilotSample
from vil_simulation.source.group_imu import GroupImu
from vil_simulation.source.pose_sensor import PoseSensor, motions_of
from vil_simulation.source.sensor_parts import FittedSensor, SensorPart, part_of, sensor_of
from vil_simulation.source.vehicle_config import (
    AutopilotPart,
    AutopilotProgramConfig,
    SensorConfig,
    Vehicle,
)
from vil_simulation.source.vehicle_group import VehicleGroup
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.barometer import Barometer, FleetBarometerReading
from vil_simulation.vehicles.sensors.components import LatencyLine, SampleSchedule
from vil_simulation.vehicles.sensors.gps import FleetGpsReading
from vil_simulation.vehicles.sensors.imu import (
    FleetImuReading,
    ImuParameters,
    ImuSensor,
    without_limits,
)
from vil_simulation.vehicles.sensors.magnetometer import FleetMagnetometerReading
from vil_simulation.vehicles.sensors.sensor import Sensor

_ORDINAL: Final = 50
"""Number of a program's sensor among those of its kind, for its noise.

The vehicle's own have smaller ones.
"""


class ProgramSensors:
    """Sensors of some vehicles that have the same.

    Args:
        config: theirs. rate_hz: of the inertial sensor. group: theirs. vehicles: in the order of
            its rows.
        origin: place of the room's zero. seed: of all noise.
    """

    def __init__(
        self,
        config: AutopilotProgramConfig,
        rate_hz: int,
        group: VehicleGroup,
        vehicles: Sequence[Vehicle],
        origin: GeoOrigin,
        seed: int,
    ) -> None:
        def sensor(kind: SensorKind, config: AutopilotPart) -> tuple[Sensor[Any], SensorPart]:
            own = SensorConfig(
                type=kind, preset=config.preset, parameters=config.parameters, rate_hz=rate_hz
            )
            part = _unlimited(part_of(own), own)
            made = sensor_of(
                FittedSensor(kind, kind, own, tuple(vehicles), _ORDINAL, False), part, origin, seed
            )
            assert made is not None
            return made, part

        imu, _ = sensor("imu", config.imu)
        assert isinstance(imu, ImuSensor)
        self._imu = GroupImu(imu, group)
        self._magnetometer, _ = sensor("magnetometer", config.magnetometer)
        barometer, _ = sensor("barometer", config.barometer)
        assert isinstance(barometer, Barometer)
        self._barometer: Final = barometer
        self._gps = (
            None if config.gps is None else _Receiver(*sensor("gps", config.gps), config.gps_hz)
        )
        self._poses = (
            None if config.pose is None else PoseSensor(config.pose, vehicles, origin, seed)
        )

    def samples(
        self, truth: TrueState, rc_us: Sequence[tuple[int, ...] | None]
    ) -> list[AutopilotSample]:
        """Return what the program of each vehicle gets now; ``rc_us``: remote control of each."""
        t_ns = truth.t_ns
        imu: FleetImuReading | None = self._imu.sample(truth)
        magnetometer: FleetMagnetometerReading | None = self._magnetometer.sample(truth)
        barometer: FleetBarometerReading | None = self._barometer.sample(truth)
        gps = [None] * len(rc_us) if self._gps is None else self._gps.readings(truth)
        poses = [None] * len(rc_us) if self._poses is None else self._poses.samples(truth)
        # They measure at every call.
        assert imu is not None and magnetometer is not None and barometer is not None
        rates = imu.w_radps.tolist()
        forces = imu.f_mps2.tolist()
        fields = magnetometer.field_sensor_t.tolist()
        heights = barometer.altitude_m.tolist()
        pressures = barometer.pressure_pa.tolist()
        qnh_hpa = self._barometer.parameters.qnh_hpa
        found = []
        for row, motion in enumerate(motions_of(truth)):
            found.append(
                AutopilotSample(
                    t_ns,
                    motion,
                    ImuReading(t_ns, motion.q_world_body, tuple(rates[row]), tuple(forces[row])),
                    MagnetometerReading(t_ns, tuple(fields[row])),
                    BarometerReading(t_ns, heights[row], pressures[row], qnh_hpa),
                    gps[row],
                    poses[row],
                    rc_us[row],
                )
            )
        return found


def _unlimited(part: SensorPart, config: SensorConfig) -> SensorPart:
    """Return the part without the ranges of its preset.

    An impact beyond one never reaches the estimate.

    A range that the parameters state holds.
    """
    if not isinstance(part.parameters, ImuParameters):
        return part
    free = without_limits(part.parameters)
    stated = {
        name: getattr(part.parameters, name)
        for name in ("gyro", "accel")
        if name in config.parameters
    }
    return replace(part, parameters=replace(free, **stated))


class _Receiver:
    """Satellite receivers with their rate and latency."""

    def __init__(self, sensor: Sensor[Any], part: SensorPart, rate_hz: float) -> None:
        self._sensor = sensor
        self._schedule = SampleSchedule(rate_hz)
        self._latency_ns = round(part.latency_s * NS_PER_S)
        self._line: LatencyLine[FleetGpsReading] = LatencyLine()

    def readings(self, truth: TrueState) -> list[GpsReading | None]:
        """Return the reading of each vehicle that comes out now, None where there is none."""
        if self._schedule.due(truth.t_ns):
            reading: FleetGpsReading | None = self._sensor.sample(truth)
            if reading is not None:  # the receiver has started
                self._line.push(truth.t_ns + self._latency_ns, reading)
        found = self._line.release(truth.t_ns)
        if found is None:
            return [None] * len(truth.p_world_m)
        places = zip(
            found.lat_deg.tolist(), found.lon_deg.tolist(), found.h_m.tolist(), strict=True
        )
        accuracy = found.horizontal_m, found.vertical_m
        return [
            GpsReading(
                found.t_ns, *place, *accuracy, tuple(v), int(found.fix), True, found.t_ns // 1000
            )
            for place, v in zip(places, found.v_world_mps.tolist(), strict=True)
        ]
