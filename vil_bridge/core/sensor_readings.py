"""Readings of sensors on vehicles.

Typed values of one vehicle, and frames of several in which they travel.

World ENU (the room's frame), body FLU, SI units; ``t_ns`` is bridge time of the measurement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform, q_from_euler_zyx, q_mul

SensorKind = Literal[
    "imu", "barometer", "magnetometer", "gps", "rotors", "controls", "distance", "lidar", "beacons"
]

Vector = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class ImuReading:
    """Inertial sensor.

    Attributes:
        q_world_body: true attitude, x y z w, without error. w_body_radps: angular rate.
        f_body_mps2: specific force, +g on z at rest and level.
    """

    t_ns: int
    q_world_body: tuple[float, float, float, float]
    w_body_radps: Vector
    f_body_mps2: Vector


@dataclass(frozen=True, slots=True)
class BarometerReading:
    """Barometer.

    Attributes:
        altitude_m: above sea level on a standard day. pressure_pa: as reported. qnh_hpa: pressure
            at sea level.
    """

    t_ns: int
    altitude_m: float
    pressure_pa: float
    qnh_hpa: float


@dataclass(frozen=True, slots=True)
class MagnetometerReading:
    """Magnetometer.

    Attributes:
        b_body_t: the field, tesla.
    """

    t_ns: int
    b_body_t: Vector


@dataclass(frozen=True, slots=True)
class GpsReading:
    """Satellite receiver.

    Attributes:
        altitude_m: above the ellipsoid. eph_m, epv_m: reported accuracies.
        fix: 0 = none, 2 = 2D, 3 = 3D. valid: the receiver has started. t_utc_us: Unix time of the
            measurement.
    """

    t_ns: int
    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    eph_m: float
    epv_m: float
    v_world_mps: Vector
    fix: int
    valid: bool
    t_utc_us: int


@dataclass(frozen=True, slots=True)
class RotorsReading:
    """Rotors of a vehicle, in the model's order.

    Attributes:
        speeds_radps: angular speeds. thrusts_n: along the rotors' axes. torques_nm: about the axes,
            positive for clockwise rotors. Thrusts and torques are empty for a model that states its
            speeds only.
    """

    t_ns: int
    speeds_radps: tuple[float, ...]
    thrusts_n: tuple[float, ...]
    torques_nm: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ControlsReading:
    """Command that a vehicle's model obeys.

    Attributes:
        mode: of the model. values: in the order and units of the mode's fields.
    """

    t_ns: int
    mode: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DistanceReading:
    """Ranges of one or several beams.

    Attributes:
        min_m, max_m: bounds of a range; ``max_m`` where nothing is within reach.
        p_body_m: where the beams begin. directions_body: unit vectors, one of each beam. ranges_m:
            along them.
    """

    t_ns: int
    min_m: float
    max_m: float
    p_body_m: Vector
    directions_body: tuple[Vector, ...]
    ranges_m: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LidarReading:
    """One turn of a lidar, all of it at one instant.

    Attributes:
        p_body_m, q_body_sensor: pose of the sensor's axes (FLU) on the body, x y z w.
        points_m: float32 (m, 3), sensor's axes. instances: (m,), ids as in INSTANCE pictures, 0 =
            unknown.
    """

    t_ns: int
    p_body_m: Vector
    q_body_sensor: tuple[float, float, float, float]
    points_m: npt.NDArray[np.float32]
    instances: npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class BeaconsReading:
    """Ranges to the beacons that a receiver hears.

    Attributes:
        names: of the beacons. places_m: where they stand, the room's frame. ranges_m: measured.
    """

    t_ns: int
    names: tuple[str, ...]
    places_m: tuple[Vector, ...]
    ranges_m: tuple[float, ...]


SensorReading = (
    ImuReading
    | BarometerReading
    | MagnetometerReading
    | GpsReading
    | RotorsReading
    | ControlsReading
    | DistanceReading
    | LidarReading
    | BeaconsReading
)

COLUMNS: Final[Mapping[SensorKind, int]] = {"imu": 10, "barometer": 3, "magnetometer": 3, "gps": 9}
"""Numbers of a reading in a frame, in the order of its fields.

Without its times, GPS without ``valid``.

Rotors have thrust, torque and speed of one after the other, NaN where unknown. Controls end with
NaN where another vehicle of the frame has more of them. A distance has its bounds, its place, and
direction and range of each beam. A lidar has its pose, and x, y, z, instance of each point; it ends
with NaN like controls. Beacons have position and range of each, NaN = not heard.
"""


@dataclass(frozen=True, slots=True)
class SensorReadings:
    """Readings of one sensor of several vehicles at one instant: an event of a source.

    Attributes:
        sensor: its name on each vehicle. subjects: the vehicles, length n.
        t_ns: bridge time of the measurement. t_arrival_ns: bridge time at which it came out.
        values: shape (n, :data:`COLUMNS` of the kind); (n, any) of kinds that are not among them.
        labels: of controls, the mode of each vehicle; of beacons, their names separated by commas;
            else empty.
    """

    source: str
    sensor: str
    kind: SensorKind
    t_ns: int
    t_arrival_ns: int
    subjects: tuple[str, ...]
    values: npt.NDArray[np.float64]
    labels: tuple[str, ...] = ()

    def reading(self, index: int, utc_offset_ns: int) -> SensorReading:
        """Return the reading of one of the vehicles.

        ``utc_offset_ns`` is Unix time minus bridge time.
        """
        label = self.labels[index] if self.labels else ""
        return reading_of(self.kind, self.t_ns, utc_offset_ns, self.values[index], label)

    def in_world(self, T_world_room: Transform) -> SensorReadings:
        """Return the readings with attitudes, velocities and places in the world instead of the
        room.
        """
        if self.kind not in ("imu", "gps", "beacons"):
            return self
        values = np.array(self.values)
        if self.kind == "beacons":
            places = values.reshape(len(values), -1, 4)[..., :3]
            places[:] = T_world_room.apply(places.reshape(-1, 3)).reshape(places.shape)
        elif self.kind == "imu":
            values[:, 0:4] = q_mul(T_world_room.q_xyzw, values[:, 0:4])
        else:
            values[:, 5:8] = values[:, 5:8] @ T_world_room.rotation().T
        return replace(self, values=values)


def table_of(
    kind: SensorKind, numbers: npt.NDArray[np.float64], vehicles: int
) -> npt.NDArray[np.float64]:
    """Return the numbers of a frame by vehicle, (vehicles, columns).

    Raises ValueError: there are too few or many.
    """
    return numbers.reshape(vehicles, COLUMNS.get(kind, -1))


@dataclass(frozen=True, slots=True)
class SensorDescription:
    """A sensor on a vehicle.

    Attributes:
        T_body_sensor: its place and axes in the body.
        variances: of the white noise of a reading's values; empty = unknown. imu: angular rate x,
            y, z, specific force x, y, z; barometer: pressure; magnetometer: field x, y, z;
            distance, lidar: range.
    """

    kind: SensorKind
    T_body_sensor: Transform = field(default_factory=Transform.identity)
    variances: tuple[float, ...] = ()

    def attitude(self, reading: ImuReading) -> npt.NDArray[np.float64]:
        """Return the attitude of the sensor's axes, x y z w, in the frame in which the reading
        has its body's.
        """
        return q_mul(np.array(reading.q_world_body), self.T_body_sensor.q_xyzw)


def beam_pose(reading: DistanceReading, beam: int) -> Transform:
    """Return the pose of a beam's frame on the body.

    X along the beam, y level where the body is.
    """
    x, y, z = reading.directions_body[beam]
    q = q_from_euler_zyx(math.atan2(y, x), -math.atan2(z, math.hypot(x, y)), 0.0)
    return Transform.of(reading.p_body_m, q)


class ActorReading(NamedTuple):
    """A reading of an actor's sensor; what the reading has in room axes stands in the world's."""

    actor: str
    sensor: str
    reading: SensorReading


@dataclass(frozen=True, slots=True)
class GeoPlace:
    """Place on the WGS84 ellipsoid; the altitude stands for that above sea level too."""

    latitude_deg: float
    longitude_deg: float
    altitude_m: float


def reading_of(
    kind: SensorKind, t_ns: int, utc_offset_ns: int, row: npt.NDArray[np.float64], label: str = ""
) -> SensorReading:
    """Return one vehicle's reading.

    Args:
        kind: of the sensor.
        t_ns: bridge time of the measurement.
        utc_offset_ns: Unix time minus bridge time.
        row: its numbers, shape (:data:`COLUMNS` of the kind,).
        label: mode of controls; names of beacons.
    """
    v = [] if kind == "lidar" else row.tolist()
    match kind:
        case "imu":
            return ImuReading(
                t_ns, (v[0], v[1], v[2], v[3]), (v[4], v[5], v[6]), (v[7], v[8], v[9])
            )
        case "barometer":
            return BarometerReading(t_ns, v[0], v[1], v[2])
        case "magnetometer":
            return MagnetometerReading(t_ns, (v[0], v[1], v[2]))
        case "gps":
            t_utc_us = (t_ns + utc_offset_ns) // 1000
            return GpsReading(
                t_ns, v[0], v[1], v[2], v[3], v[4], (v[5], v[6], v[7]), int(v[8]), True, t_utc_us
            )
        case "rotors":
            thrusts = _known(v[0::3])
            torques = _known(v[1::3])
            return RotorsReading(t_ns, tuple(v[2::3]), thrusts, torques)
        case "controls":
            return ControlsReading(t_ns, label, _known(v))
        case "distance":
            beams = [(v[i], v[i + 1], v[i + 2]) for i in range(5, len(v), 4)]
            return DistanceReading(
                t_ns, v[0], v[1], (v[2], v[3], v[4]), tuple(beams), tuple(v[8::4])
            )
        case "lidar":
            return _lidar(t_ns, row)
        case "beacons":
            heard = [(name, v[4 * i : 4 * i + 4]) for i, name in enumerate(label.split(","))]
            heard = [(name, place) for name, place in heard if not math.isnan(place[3])]
            places = tuple((x, y, z) for _, (x, y, z, _) in heard)
            return BeaconsReading(
                t_ns, tuple(n for n, _ in heard), places, tuple(p[3] for _, p in heard)
            )


def _lidar(t_ns: int, row: npt.NDArray[np.float64]) -> LidarReading:
    px, py, pz, x, y, z, w = row[:7].tolist()
    points = row[7:].reshape(-1, 4)
    points = points[~np.isnan(points[:, 0])]
    return LidarReading(
        t_ns,
        (px, py, pz),
        (x, y, z, w),
        points[:, :3].astype(np.float32),
        points[:, 3].astype(np.uint32),
    )


def _known(values: list[float]) -> tuple[float, ...]:
    """Return the values without those that are NaN."""
    return tuple(value for value in values if not math.isnan(value))
