"""Sensors of the vehicles: measured at their rates, released after their latency."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.sensor_readings import SensorKind
from vil_bridge.core.types import FloatArray
from vil_simulation.source.group_imu import GroupImu
from vil_simulation.source.ipc import SensorValues
from vil_simulation.source.sensor_parts import (
    RANGING_KINDS,
    FittedSensor,
    SensorPart,
    part_of,
    sensor_of,
)
from vil_simulation.source.vehicle_group import VehicleGroup
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.barometer import Barometer, FleetBarometerReading
from vil_simulation.vehicles.sensors.beacon_ranges import BeaconReceiver, FleetBeaconReading
from vil_simulation.vehicles.sensors.gps import FleetGpsReading
from vil_simulation.vehicles.sensors.imu import FleetImuReading, ImuSensor
from vil_simulation.vehicles.sensors.magnetometer import FleetMagnetometerReading
from vil_simulation.vehicles.sensors.sensor import Sensor

_LATER_NS: Final = 3600 * NS_PER_S
"""Every sensor has started by then."""
_POSE: Final = [0, 1, 2, 6, 7, 8, 9]


def share_of(rate_hz: float, step_hz: int) -> tuple[int, int]:
    """Return times per steps, in whole numbers."""
    return (Fraction(rate_hz).limit_denominator(1000) / step_hz).as_integer_ratio()


def is_due(step: int, share: tuple[int, int]) -> bool:
    """Return True if what has this share happens after this step, the first being step 1."""
    times, steps = share
    return step * times // steps > (step - 1) * times // steps


def next_due(step: int, share: tuple[int, int]) -> int:
    """Return the first step after ``step`` of which :func:`is_due` is true."""
    times, steps = share
    return max(step + 1, -(-(step * times // steps + 1) * steps // times))


def instant_ns(step: int, share: tuple[int, int], step_hz: int) -> int:
    """Return the instant of what is due after a step, as it would be without steps.

    In that step, or at its end.
    """
    times, steps = share
    count = step * times // steps * steps * NS_PER_S
    return (2 * count + times * step_hz) // (2 * times * step_hz)


class VehicleSensors:
    """Sensors of all groups.

    Inertial ones measure at their instants, the others at the end of the steps with those.

    Args:
        groups: of vehicles, in the order of ``fitted``. fitted: their sensors. step_hz: steps per
            second.
        origin: place of the room's zero. seed: of all noise.
    """

    def __init__(
        self,
        groups: Sequence[VehicleGroup],
        fitted: Sequence[FittedSensor],
        step_hz: int,
        origin: GeoOrigin,
        seed: int,
    ) -> None:
        self._of_source: Final = step_hz, origin, seed
        self._sensors: list[_RunningSensor | _StateReader] = []
        self.add(groups, fitted)
        self._waiting: list[tuple[int, int, SensorValues]] = []
        self._order = 0

    def add(self, groups: Sequence[VehicleGroup], fitted: Sequence[FittedSensor]) -> None:
        """Add the sensors of groups, with the next numbers."""
        group_of = {int(group.members[0]): group for group in groups}
        for number, one in enumerate(fitted, len(self._sensors)):
            self._sensors.append(
                _running(number, group_of[one.vehicles[0].index], one, *self._of_source)
            )

    def rehearse(self) -> None:
        """Let each sensor measure an hour later, so that its code is compiled.

        The simulation is of no use any more.
        """
        for sensor in self._sensors:
            if isinstance(sensor, _RunningSensor):
                later = sensor.group.truth()
                later = later._replace(t_ns=later.t_ns + _LATER_NS)
                sensor.measure(later, later.t_ns)

    @property
    def release_ns(self) -> int | None:
        """Simulation time at which the next reading comes out; None = none is on its way."""
        return self._waiting[0][0] if self._waiting else None

    def next_due(self, step: int) -> int | None:
        """Return the next step after which a sensor measures; None = there is none."""
        return min((next_due(step, sensor.share) for sensor in self._sensors), default=None)

    def readings(self, step: int, t_ns: int) -> list[SensorValues]:
        """Measure after a step, and return what comes out then, oldest first."""
        truths: dict[int, TrueState] = {}
        for sensor in self._sensors:
            if not is_due(step, sensor.share):
                continue
            if isinstance(sensor, _RunningSensor):
                truth = truths.get(id(sensor.group))
                if truth is None:
                    truth = truths[id(sensor.group)] = sensor.group.truth()
                values = sensor.measure(truth, instant_ns(step, sensor.share, self._of_source[0]))
            else:
                values = sensor.read(t_ns)
            if values is not None:
                self._order += 1
                heapq.heappush(self._waiting, (t_ns + sensor.latency_ns, self._order, values))
        found = []
        while self._waiting and self._waiting[0][0] <= t_ns:
            found.append(heapq.heappop(self._waiting)[2])
        return found


def _running(
    number: int,
    group: VehicleGroup,
    fitted: FittedSensor,
    step_hz: int,
    origin: GeoOrigin,
    seed: int,
) -> _RunningSensor | _StateReader:
    """Return a sensor of a group of vehicles."""
    part = part_of(fitted.config)
    share = share_of(part.rate_hz, step_hz)
    sensor = sensor_of(fitted, part, origin, seed)
    if sensor is None:
        return _StateReader(number, group, part, share, fitted.kind)
    return _RunningSensor(number, group, part, share, sensor)


class _StateReader:
    """Reader of rotors, controls, or the poses from which rays start, of a group of vehicles."""

    def __init__(
        self,
        number: int,
        group: VehicleGroup,
        part: SensorPart,
        share: tuple[int, int],
        kind: SensorKind,
    ) -> None:
        self.share: Final = share
        self.latency_ns: Final = round(part.latency_s * NS_PER_S)
        self._number = number
        self._group = group
        self._kind = kind

    def read(self, t_ns: int) -> SensorValues:
        """Return what is in effect at the end of the step at ``t_ns``."""
        if self._kind in RANGING_KINDS:
            return SensorValues(self._number, t_ns, self._group.bodies()[:, _POSE].tobytes())
        if self._kind == "rotors":
            return SensorValues(self._number, t_ns, self._group.fleets.rotor_outputs().tobytes())
        commands, modes = self._group.fleets.commands()
        return SensorValues(self._number, t_ns, commands.tobytes(), modes)


class _RunningSensor:
    """A sensor of a group of vehicles with errors of its own."""

    def __init__(
        self,
        number: int,
        group: VehicleGroup,
        part: SensorPart,
        share: tuple[int, int],
        sensor: Sensor[Any],
    ) -> None:
        self.group: Final = group
        self.share: Final = share
        self.latency_ns: Final = round(part.latency_s * NS_PER_S)
        self._number = number
        self._sensor = sensor
        self._imu = GroupImu(sensor, group) if isinstance(sensor, ImuSensor) else None
        if part.startup_s > 0.0:
            self._sensor.sample(group.truth())  # its time begins at the first step

    def measure(self, truth: TrueState, at_ns: int) -> SensorValues | None:
        """Return what it measures in the step that has ended, None before it has started."""
        reading = (
            self._sensor.sample(truth) if self._imu is None else self._imu.sample(truth, at_ns)
        )
        if reading is None:
            return None
        values = self._values(reading, truth)
        labels: tuple[str, ...] = ()
        if isinstance(self._sensor, BeaconReceiver):
            labels = (",".join(self._sensor.parameters.beacons),) * len(values)
        return SensorValues(self._number, reading.t_ns, values.tobytes(), labels)

    def _values(self, reading: Any, truth: TrueState) -> FloatArray:
        """Return the numbers of :mod:`vil_bridge.core.sensor_readings`,.

        N, columns of the kind.
        """
        n = len(truth.p_world_m)
        match reading:
            case FleetImuReading():
                assert isinstance(self._sensor, ImuSensor)
                return np.hstack((self._sensor.q_world_body, reading.w_radps, reading.f_mps2))
            case FleetBarometerReading():
                assert isinstance(self._sensor, Barometer)
                qnh_hpa = np.full(n, self._sensor.parameters.qnh_hpa)
                return np.stack((reading.altitude_m, reading.pressure_pa, qnh_hpa), axis=1)
            case FleetBeaconReading():
                assert isinstance(self._sensor, BeaconReceiver)
                places = np.broadcast_to(self._sensor.places_m, (n, *self._sensor.places_m.shape))
                return np.concatenate((places, reading.ranges_m[..., None]), axis=2).reshape(n, -1)
            case FleetMagnetometerReading():
                return np.ascontiguousarray(reading.field_sensor_t)
            case FleetGpsReading():
                accuracy = np.tile((reading.horizontal_m, reading.vertical_m), (n, 1))
                place = np.stack((reading.lat_deg, reading.lon_deg, reading.h_m), axis=1)
                return np.hstack(
                    (place, accuracy, reading.v_world_mps, np.full((n, 1), float(reading.fix)))
                )
        raise TypeError(f"no reading of a sensor: {reading!r}")
