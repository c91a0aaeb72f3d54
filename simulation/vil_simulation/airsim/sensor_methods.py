"""Methods of sensors.

The newest reading of a simulated vehicle's sensors, and ranges and scans on demand.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final, TypeVar

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import (
    BarometerReading,
    GpsReading,
    ImuReading,
    MagnetometerReading,
    SensorReading,
)
from vil_bridge.core.types import FloatArray
from vil_bridge.services.service import ClockControl
from vil_simulation.airsim.frames import (
    frd_of,
    mounted_quaternion_of,
    ned_of,
    ned_points,
    pose_of,
    quaternion_of,
)
from vil_simulation.airsim.methods import NoSuchVehicle, method, shown
from vil_simulation.airsim.msgpack_rpc import Packed
from vil_simulation.airsim.pictures import packed_floats, packed_ids
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.settings import SensorSettings, sensor_key
from vil_simulation.airsim.values import (
    AirsimGeoPoint,
    BarometerData,
    DistanceSensorData,
    GnssReport,
    GpsData,
    ImuData,
    LidarData,
    MagnetometerData,
    Pose,
    Vector3r,
)
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles, poll, pose_in
from vil_simulation.vehicles.sensors.beams import MOST_POINTS, turn_directions

_GAUSS_PER_T: Final = 1e4
_MOST_CHANNELS: Final = 256

_Reading = TypeVar("_Reading", bound=SensorReading)


class SensorMethods:
    """Sensors of vehicles.

    A sensor that has not measured yet, since its vehicle has just started, is waited for.
    """

    def __init__(self, vehicles: ServedVehicles, scene: ServedScene, clock: ClockControl) -> None:
        self._vehicles = vehicles
        self._scene = scene
        self._clock = clock

    @method("getImuData")
    async def imu(self, imu_name: str = "", vehicle_name: str = "") -> ImuData:
        """Return the newest inertial sample."""
        r = await self._newest(vehicle_name, imu_name, "imu", "IMU", ImuReading)
        vehicle = self._vehicles.find(vehicle_name)
        q = vehicle.T_world_room @ Transform.of((0.0, 0.0, 0.0), r.q_world_body)
        return ImuData(
            self._vehicles.utc_ns(r.t_ns),
            quaternion_of(q.q_xyzw),
            frd_of(r.w_body_radps),
            frd_of(r.f_body_mps2),
        )

    @method("getBarometerData")
    async def barometer(self, barometer_name: str = "", vehicle_name: str = "") -> BarometerData:
        """Return the newest sample of a barometer."""
        r = await self._newest(
            vehicle_name, barometer_name, "barometer", "barometer", BarometerReading
        )
        return BarometerData(self._vehicles.utc_ns(r.t_ns), r.altitude_m, r.pressure_pa, r.qnh_hpa)

    @method("getMagnetometerData")
    async def magnetometer(
        self, magnetometer_name: str = "", vehicle_name: str = ""
    ) -> MagnetometerData:
        """Return the newest sample of a magnetometer."""
        r = await self._newest(
            vehicle_name, magnetometer_name, "magnetometer", "magnetometer", MagnetometerReading
        )
        return MagnetometerData(
            self._vehicles.utc_ns(r.t_ns), frd_of(_GAUSS_PER_T * np.array(r.b_body_t))
        )

    @method("getGpsData")
    def gps(self, gps_name: str = "", vehicle_name: str = "") -> GpsData:
        """Return the newest report of a GNSS receiver; an invalid one before its first."""
        r = self._last(vehicle_name, gps_name, "gps", "GPS", GpsReading)
        if r is None:
            none = GnssReport(AirsimGeoPoint(), 0.0, 0.0, Vector3r(), 0, 0)
            return GpsData(
                self._vehicles.utc_ns(self._vehicles.snapshot().t_ns), none, is_valid=False
            )
        report = GnssReport(
            AirsimGeoPoint(r.latitude_deg, r.longitude_deg, r.altitude_m),
            r.eph_m,
            r.epv_m,
            ned_of(r.v_world_mps),
            int(r.fix),
            r.t_utc_us,
        )
        return GpsData(self._vehicles.utc_ns(r.t_ns), report, r.valid)

    @method("getDistanceSensorData")
    async def distance(
        self, distance_sensor_name: str = "", vehicle_name: str = ""
    ) -> DistanceSensorData:
        """Return the range along the x axis of a distance sensor, now."""
        vehicle, sensor = self._sensor(
            vehicle_name, distance_sensor_name, "distance", "distance sensor"
        )
        least = _value(sensor, "MinDistance", 0.2)
        most = _value(sensor, "MaxDistance", 40.0)
        snapshot = self._vehicles.snapshot()
        T = pose_in(snapshot, vehicle) @ sensor.T_body_sensor
        ahead = T.rotation()[:, 0]
        hits = await self._scene.measure(
            T.p_m[None], ahead[None], most, snapshot, vehicle.actor, "distance"
        )
        mount = Pose(
            frd_of(sensor.T_body_sensor.p_m), mounted_quaternion_of(sensor.T_body_sensor.q_xyzw)
        )
        return DistanceSensorData(
            self._vehicles.utc_ns(snapshot.t_ns),
            min(float(hits.range_m[0]), most),
            least,
            most,
            mount,
        )

    @method("getLidarData")
    async def lidar(self, lidar_name: str = "", vehicle_name: str = "") -> LidarData:
        """Return one turn of a lidar, now.

        Points in the sensor's axes or relative to the vehicle's start.
        """
        vehicle, sensor = self._sensor(vehicle_name, lidar_name, "lidar", "lidar")
        snapshot = self._vehicles.snapshot()
        T = pose_in(snapshot, vehicle) @ sensor.T_body_sensor
        beams = _beams(sensor, downwards=vehicle.kind == "multirotor")
        world = beams @ T.rotation().T
        origins = np.broadcast_to(T.p_m, world.shape)
        reach_m = _value(sensor, "Range", 100.0)
        hits = await self._scene.measure(
            origins, world, reach_m, snapshot, vehicle.actor, lidar_name
        )
        ids = await self._scene.id_table()
        is_local = sensor.values.get("DataFrame") == "SensorLocalFrame"

        def scan() -> tuple[Packed, Packed]:
            seen = np.isfinite(hits.range_m) & (hits.range_m <= reach_m)
            ranges = hits.range_m[seen, None]
            if is_local:
                points = ranges * beams[seen] * (1.0, -1.0, -1.0)
            else:
                points = ned_points(T.p_m + ranges * world[seen] - vehicle.origin_m)
            objects = ids[np.minimum(hits.instance[seen], len(ids) - 1)]
            return packed_floats(points), packed_ids(objects)

        points, objects = await asyncio.to_thread(scan)
        return LidarData(
            self._vehicles.utc_ns(snapshot.t_ns), points, pose_of(T, vehicle.origin_m), objects
        )

    @method("simGetLidarSegmentation")
    async def lidar_segmentation(self, lidar_name: str = "", vehicle_name: str = "") -> Packed:
        """Return the objects of the points of a scan, now; a name of the drone racing lab."""
        return (await self.lidar(lidar_name, vehicle_name)).segmentation

    async def _newest(
        self, vehicle_name: str, name: str, kind: str, title: str, cls: type[_Reading]
    ) -> _Reading:
        """Return the newest reading of a sensor, once there is one.

        The empty name is the first of its kind.

        Raises:
            ValueError: it does not measure, or the world is paused before it has.
        """
        problem = f"the {title} {name!r} has not measured yet"
        found: list[_Reading] = []

        def has_measured() -> bool:
            newest = self._last(vehicle_name, name, kind, title, cls)
            if newest is not None:
                found.append(newest)
            elif self._clock.state().paused:
                raise ValueError(f"{problem}, and the world is paused. Let it go on first")
            return newest is not None

        await poll(has_measured, problem)
        return found[-1]

    def _last(
        self, vehicle_name: str, name: str, kind: str, title: str, cls: type[_Reading]
    ) -> _Reading | None:
        """Return the newest reading of a sensor; None = it has not measured yet."""
        vehicle, subject = self._vehicles.commanded(vehicle_name)
        readings = self._vehicles.bus.of(subject).readings(subject)
        found = {n: r for n, r in readings.items() if isinstance(r, cls)}
        if name and sensor_key(name) in found:
            return found[sensor_key(name)]
        if not name and found:
            return next(iter(found.values()))
        names = [n for n, s in vehicle.sensors.items() if s.kind == kind]
        if (name in names) or (not name and names):
            return None
        raise NoSuchVehicle(f"No {title} with name {shown(name)} exist on vehicle {vehicle.name}")

    def _sensor(
        self, vehicle_name: str, name: str, kind: str, title: str
    ) -> tuple[ServedVehicle, SensorSettings]:
        vehicle = self._vehicles.find(vehicle_name)
        found = {n: s for n, s in vehicle.sensors.items() if s.kind == kind}
        if not name and found:
            return vehicle, next(iter(found.values()))
        if name not in found:
            raise NoSuchVehicle(
                f"No {title} with name {shown(name)} exist on vehicle {vehicle.name}"
            )
        return vehicle, found[name]


def _beams(sensor: SensorSettings, *, downwards: bool) -> FloatArray:
    """Return the unit directions of a turn (FLU), (points, 3).

    Channels from the upper to the lower one.
    """
    channels = int(min(max(_value(sensor, "NumberOfChannels", 16), 1), _MOST_CHANNELS))
    per_turn = _value(sensor, "PointsPerSecond", 100_000) / max(
        _value(sensor, "RotationsPerSecond", 10), 0.1
    )
    columns = int(min(max(per_turn, channels), MOST_POINTS)) // channels
    upper, lower = (-15.0, -45.0) if downwards else (10.0, -10.0)
    upper = _value(sensor, "VerticalFOVUpper", upper)
    lower = _value(sensor, "VerticalFOVLower", lower)
    start = _value(sensor, "HorizontalFOVStart", 0.0)
    end = _value(sensor, "HorizontalFOVEnd", 359.0)
    return turn_directions((channels, upper, lower), (columns, start, end))


def _value(sensor: SensorSettings, key: str, default: float) -> float:
    """Return a number of a sensor's settings. Raises ValueError: it is none."""
    found = sensor.values.get(key, default)
    if not isinstance(found, int | float) or not math.isfinite(found):
        raise ValueError(f"{key} of the sensor must be a number, not {found!r:.40}")
    return float(found)
