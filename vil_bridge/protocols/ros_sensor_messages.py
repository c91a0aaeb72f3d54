"""ROS messages of sensors as bytes, with the standard types of sensor_msgs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from vil_bridge.core.sensor_readings import (
    BarometerReading,
    DistanceReading,
    GpsReading,
    ImuReading,
    LidarReading,
    MagnetometerReading,
    RotorsReading,
    SensorDescription,
    SensorKind,
    SensorReading,
)
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.ros_messages import Messages

SENSOR_TYPES: Final[Mapping[SensorKind, str]] = {
    "imu": "sensor_msgs/msg/Imu",
    "barometer": "sensor_msgs/msg/FluidPressure",
    "magnetometer": "sensor_msgs/msg/MagneticField",
    "gps": "sensor_msgs/msg/NavSatFix",
    "rotors": "sensor_msgs/msg/JointState",
    "lidar": "sensor_msgs/msg/PointCloud2",
}
"""Message type of each kind of sensor whose reading is one standard message: controls have none."""

RANGE_TYPE: Final = "sensor_msgs/msg/Range"
"""Type of a beam of a distance sensor, whose reading has several."""

TOPIC_TYPES: Final[Mapping[SensorKind, str]] = {**SENSOR_TYPES, "distance": RANGE_TYPE}
"""Message type of each kind of sensor that has a standard one.

A reading may be several messages.
"""
_INFRARED: Final = 1
_NARROW_RAD: Final = 0.01
_FLOAT32 = 7
_UINT32 = 6
_POINT_BYTES: Final = 16

_GPS: Final = 1
"""sensor_msgs/NavSatStatus: SERVICE_GPS."""
_FIX = 0
_NO_FIX = -1
_APPROXIMATED: Final = 1
"""sensor_msgs/NavSatFix: COVARIANCE_TYPE_APPROXIMATED, from the receiver's own accuracies."""
_AXES: Final = 3


class SensorMessages(Messages):
    """Factory of serialised messages of one distribution, those of sensors included."""

    def reading(
        self, stamp_ns: int, frame: str, reading: SensorReading, sensor: SensorDescription
    ) -> memoryview:
        """Serialise a reading; covariances are those of the white noise, zeros = unknown.

        An Imu has the true attitude of its own axes in the world. A NavSatFix has the height above
        the ellipsoid. Rotors are joints with speed and torque. A lidar's points are in its own
        axes, with the instance of each.

        Raises:
            TypeError: its kind has no standard message.
        """
        match reading:
            case ImuReading():
                return self._imu(stamp_ns, frame, reading, sensor)
            case BarometerReading(pressure_pa=pressure_pa):
                (variance,) = sensor.variances or (0.0,)
                header = self._header(stamp_ns, frame)
                return self._bytes(
                    SENSOR_TYPES["barometer"],
                    header=header,
                    fluid_pressure=pressure_pa,
                    variance=variance,
                )
            case MagnetometerReading(b_body_t=field_t):
                return self._bytes(
                    SENSOR_TYPES["magnetometer"],
                    header=self._header(stamp_ns, frame),
                    magnetic_field=self._vector(np.array(field_t)),
                    magnetic_field_covariance=_diagonal(sensor.variances),
                )
            case GpsReading():
                return self._fix(stamp_ns, frame, reading)
            case RotorsReading():
                return self._rotors(stamp_ns, frame, reading)
            case LidarReading():
                return self._points(stamp_ns, frame, reading)
        raise TypeError(f"no standard message for {type(reading).__name__}")

    def _imu(
        self, stamp_ns: int, frame: str, reading: ImuReading, sensor: SensorDescription
    ) -> memoryview:
        return self._bytes(
            SENSOR_TYPES["imu"],
            header=self._header(stamp_ns, frame),
            orientation=self._quaternion(sensor.attitude(reading)),
            orientation_covariance=_diagonal(()),
            angular_velocity=self._vector(np.array(reading.w_body_radps)),
            angular_velocity_covariance=_diagonal(sensor.variances[:_AXES]),
            linear_acceleration=self._vector(np.array(reading.f_body_mps2)),
            linear_acceleration_covariance=_diagonal(sensor.variances[_AXES:]),
        )

    def range(
        self,
        stamp_ns: int,
        frame: str,
        reading: DistanceReading,
        range_m: float,
        sensor: SensorDescription,
    ) -> memoryview:
        """Serialise one beam of a distance sensor, along the x axis of its frame.

        Infinity = nothing within reach.
        """
        (variance,) = sensor.variances or (0.0,)
        later: dict[str, float] = {}
        if "variance" in self._make(RANGE_TYPE).__dataclass_fields__:
            later["variance"] = variance
        return self._bytes(
            RANGE_TYPE,
            header=self._header(stamp_ns, frame),
            radiation_type=_INFRARED,
            field_of_view=_NARROW_RAD,
            min_range=reading.min_m,
            max_range=reading.max_m,
            range=range_m if range_m < reading.max_m else math.inf,
            **later,
        )

    def _points(self, stamp_ns: int, frame: str, reading: LidarReading) -> memoryview:
        rows = np.empty(len(reading.points_m), dtype=[("p", "<f4", 3), ("instance", "<u4")])
        rows["p"] = reading.points_m
        rows["instance"] = reading.instances
        field = self._make("sensor_msgs/msg/PointField")
        fields = [
            field(name=n, offset=4 * i, datatype=_FLOAT32, count=1) for i, n in enumerate("xyz")
        ]
        return self._bytes(
            SENSOR_TYPES["lidar"],
            header=self._header(stamp_ns, frame),
            height=1,
            width=len(rows),
            fields=[*fields, field(name="instance", offset=12, datatype=_UINT32, count=1)],
            is_bigendian=False,
            point_step=_POINT_BYTES,
            row_step=_POINT_BYTES * len(rows),
            data=rows.view(np.uint8).reshape(-1),
            is_dense=True,
        )

    def _rotors(self, stamp_ns: int, frame: str, reading: RotorsReading) -> memoryview:
        return self._bytes(
            SENSOR_TYPES["rotors"],
            header=self._header(stamp_ns, frame),
            name=[f"rotor_{number}" for number in range(1, len(reading.speeds_radps) + 1)],
            position=np.zeros(0),
            velocity=np.array(reading.speeds_radps),
            effort=np.array(reading.torques_nm),
        )

    def _fix(self, stamp_ns: int, frame: str, reading: GpsReading) -> memoryview:
        has_fix = reading.valid and reading.fix > 0
        status = self._make("sensor_msgs/msg/NavSatStatus")(
            status=_FIX if has_fix else _NO_FIX, service=_GPS
        )
        return self._bytes(
            SENSOR_TYPES["gps"],
            header=self._header(stamp_ns, frame),
            status=status,
            latitude=reading.latitude_deg,
            longitude=reading.longitude_deg,
            altitude=reading.altitude_m,
            position_covariance=_diagonal((reading.eph_m**2, reading.eph_m**2, reading.epv_m**2)),
            position_covariance_type=_APPROXIMATED,
        )


def _diagonal(variances: Sequence[float]) -> FloatArray:
    """Return a covariance (9,) of three axes; zeros where nothing is known."""
    return np.diag(variances or (0.0,) * _AXES).ravel()
