"""Sensors that the programs of autopilots read: parts of the sensor library, measured together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from vil_adapters.simulated.sensor_parts import FittedSensor, SensorPart, part_of, sensor_of
from vil_adapters.simulated.vehicle_config import (
    AutopilotPart,
    AutopilotPose,
    AutopilotProgramConfig,
    SensorConfig,
    Vehicle,
)
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import q_mul, q_normalize
from vil_bridge.core.sensor_readings import BarometerReading, GpsReading, ImuReading, MagnetometerReading, SensorKind
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.autopilots.link import AutopilotSample, SeenPose, TrueMotion
from vil_bridge.vehicles.environment.geodesy import GeoOrigin
from vil_bridge.vehicles.model import TrueState
from vil_bridge.vehicles.random.noise import NoiseStream
from vil_bridge.vehicles.sensors.barometer import Barometer, FleetBarometerReading
from vil_bridge.vehicles.sensors.components import LatencyLine, SampleSchedule
from vil_bridge.vehicles.sensors.gps import FleetGpsReading
from vil_bridge.vehicles.sensors.imu import FleetImuReading
from vil_bridge.vehicles.sensors.magnetometer import FleetMagnetometerReading
from vil_bridge.vehicles.sensors.sensor import Sensor

_ORDINAL: Final = 50
"""Number of a program's sensor among those of its kind, for its noise; the vehicle's own have smaller ones."""
_POSE_STREAM: Final = 1700


class ProgramSensors:
    """Sensors of some vehicles that have the same.

    Args:
        config: theirs. rate_hz: of the inertial sensor. vehicles: in the order of the truth's rows.
        origin: place of the room's zero. seed: of all noise.
    """

    def __init__(
        self, config: AutopilotProgramConfig, rate_hz: int, vehicles: Sequence[Vehicle], origin: GeoOrigin, seed: int
    ) -> None:
        def sensor(kind: SensorKind, config: AutopilotPart) -> tuple[Sensor[Any], SensorPart]:
            own = SensorConfig(type=kind, preset=config.preset, parameters=config.parameters, rate_hz=rate_hz)
            part = part_of(own)
            made = sensor_of(FittedSensor(kind, kind, own, tuple(vehicles), _ORDINAL, False), part, origin, seed)
            assert made is not None
            return made, part

        self._imu, _ = sensor("imu", config.imu)
        self._magnetometer, _ = sensor("magnetometer", config.magnetometer)
        barometer, _ = sensor("barometer", config.barometer)
        assert isinstance(barometer, Barometer)
        self._barometer: Final = barometer
        self._gps = None if config.gps is None else _Receiver(*sensor("gps", config.gps), config.gps_hz)
        self._poses = None if config.pose is None else _PoseSensor(config.pose, vehicles, seed)

    def samples(self, truth: TrueState, rc_us: Sequence[tuple[int, ...] | None]) -> list[AutopilotSample]:
        """Return what the program of each vehicle gets now; ``rc_us``: remote control of each."""
        t_ns = truth.t_ns
        imu: FleetImuReading | None = self._imu.sample(truth)
        magnetometer: FleetMagnetometerReading | None = self._magnetometer.sample(truth)
        barometer: FleetBarometerReading | None = self._barometer.sample(truth)
        gps = [None] * len(rc_us) if self._gps is None else self._gps.readings(truth)
        poses = [None] * len(rc_us) if self._poses is None else self._poses.poses(truth)
        assert imu is not None and magnetometer is not None and barometer is not None  # they measure at every call
        rates, forces = imu.w_radps.tolist(), imu.f_mps2.tolist()
        fields = magnetometer.field_sensor_t.tolist()
        heights, pressures = barometer.altitude_m.tolist(), barometer.pressure_pa.tolist()
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


def motions_of(truth: TrueState) -> list[TrueMotion]:
    """Return the true motion of each vehicle."""
    columns = truth.p_world_m, truth.v_world_mps, truth.q_world_body, truth.w_body_radps
    return [TrueMotion(*(tuple(v) for v in row)) for row in zip(*(c.tolist() for c in columns), strict=True)]


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
        places = zip(found.lat_deg.tolist(), found.lon_deg.tolist(), found.h_m.tolist(), strict=True)
        accuracy = found.horizontal_m, found.vertical_m
        return [
            GpsReading(found.t_ns, *place, *accuracy, tuple(v), int(found.fix), True, found.t_ns // 1000)
            for place, v in zip(places, found.v_world_mps.tolist(), strict=True)
        ]


class _PoseSensor:
    """Poses as motion capture sees them: late and with noise."""

    def __init__(self, config: AutopilotPose, vehicles: Sequence[Vehicle], seed: int) -> None:
        self._schedule = SampleSchedule(config.rate_hz)
        self._delay_ns = round(config.delay_ms * NS_PER_MS)
        self._deviations = np.array([config.position_m] * 3 + [config.attitude_rad] * 3)
        self._numbers = np.array([vehicle.index for vehicle in vehicles])
        self._noise = NoiseStream(seed, _POSE_STREAM)
        self._count = 0
        self._line: LatencyLine[list[SeenPose]] = LatencyLine()

    def poses(self, truth: TrueState) -> list[SeenPose] | list[None]:
        """Return the pose of each vehicle that arrives now, None where there is none."""
        if self._schedule.due(truth.t_ns):
            self._count += 1
            errors = self._deviations * self._noise.normals(self._count, self._numbers, 6)
            turned = _turned(truth.q_world_body, errors[:, 3:])
            seen = truth._replace(p_world_m=truth.p_world_m + errors[:, :3], q_world_body=turned)
            poses = [SeenPose(truth.t_ns, motion) for motion in motions_of(seen)]
            self._line.push(truth.t_ns + self._delay_ns, poses)
        return self._line.release(truth.t_ns) or [None] * len(self._numbers)


def _turned(q_world_body: FloatArray, by_rad: FloatArray) -> FloatArray:
    """Return attitudes (n, 4) turned by small rotations (n, 3) about the body's axes."""
    return q_normalize(q_mul(q_world_body, np.hstack((0.5 * by_rad, np.ones((len(by_rad), 1))))))
