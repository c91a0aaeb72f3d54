"""Readings of simulated sensors as the messages that autopilots take in hardware in the loop.

Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from vil_bridge.core.geometry import Transform, q_conj, q_mul
from vil_bridge.core.sensor_readings import (
    BarometerReading,
    DistanceReading,
    GpsReading,
    ImuReading,
    MagnetometerReading,
    Vector,
    beam_pose,
)
from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_bridge.protocols.mavlink.frames import Q_FRD_FLU, to_frd

_US: Final = 1000
_MS: Final = 1_000_000
_GAUSS_PER_T: Final = 1e4
_SEA_LEVEL_DEGC: Final = 15.0
_LAPSE_DEGC_PER_M: Final = 0.0065
"""International Standard Atmosphere, below 11 km."""
_COLDEST_DEGC: Final = -56.5
_SLOW_MPS: Final = 0.1
"""Below this speed a course means nothing."""
_MOST_U16: Final = 65535
_LEVEL: Final = 1e-6
_UP = 24
_DOWN = 25
_YAW_STEP_DEG: Final = 45.0
_GOOD = 100
_INVALID = 1


def hil_sensor(
    imu: ImuReading,
    magnetometer: MagnetometerReading | None,
    barometer: BarometerReading | None,
    number: int,
    diff_pressure_pa: float | None = None,
) -> hil.HilSensor:
    """Return HIL_SENSOR of an inertial sample, with the readings that are new since the one before.

    Args:
        imu: gives the time.
        magnetometer: new reading; None = there is none.
        barometer: likewise. The temperature is that of a standard day at its altitude.
        number: of the inertial sensor on the vehicle, 0 first.
        diff_pressure_pa: of a pitot tube, new; None = there is none.
    """
    fields = hil.HIL_INERTIAL
    mag = (0.0, 0.0, 0.0)
    air = (0.0, 0.0, 0.0, 0.0)
    if magnetometer is not None:
        fields |= hil.HIL_MAGNETOMETER
        x, y, z = to_frd(magnetometer.b_body_t)
        mag = x * _GAUSS_PER_T, y * _GAUSS_PER_T, z * _GAUSS_PER_T
    if barometer is not None:
        fields |= hil.HIL_BAROMETER
        altitude_m = barometer.altitude_m
        temperature_degc = max(_SEA_LEVEL_DEGC - _LAPSE_DEGC_PER_M * altitude_m, _COLDEST_DEGC)
        air = barometer.pressure_pa / 100.0, 0.0, altitude_m, temperature_degc
    if diff_pressure_pa is not None:
        fields |= hil.HIL_DIFF_PRESSURE
        air = air[0], diff_pressure_pa / 100.0, *air[2:]
    motion = *to_frd(imu.f_body_mps2), *to_frd(imu.w_body_radps)
    return hil.HilSensor(imu.t_ns // _US, *motion, *mag, *air, fields, number)


def hil_gps(reading: GpsReading) -> hil.HilGps:
    """Return HIL_GPS of a reading whose velocity is east, north, up.

    A receiver that has not started has no fix.
    """
    east, north, up = reading.v_world_mps
    speed = math.hypot(east, north)
    course_cdeg = round(math.degrees(math.atan2(east, north)) * 100.0) % 36_000
    if not speed > _SLOW_MPS:
        course_cdeg = hil.UNKNOWN_COURSE_CDEG
    fix = 0
    if reading.valid:
        fix = reading.fix
    return hil.HilGps(
        reading.t_ns // _US,
        round(reading.latitude_deg * 1e7),
        round(reading.longitude_deg * 1e7),
        round(reading.altitude_m * 1e3),
        min(round(reading.eph_m * 100.0), _MOST_U16),
        min(round(reading.epv_m * 100.0), _MOST_U16),
        min(round(speed * 100.0), _MOST_U16),
        _cmps(north),
        _cmps(east),
        _cmps(-up),
        course_cdeg,
        fix,
        hil.UNKNOWN_SATELLITES,
    )


def distance_sensors(reading: DistanceReading, first: int) -> Iterator[hil.DistanceSensor]:
    """Yield DISTANCE_SENSOR of every beam; their ids count from ``first``.

    Where nothing is within reach, the distance is 1 cm more than the longest one, and the signal
    invalid.
    """
    least_cm, most_cm = (
        min(round(m * 100.0), _MOST_U16 - 1) for m in (reading.min_m, reading.max_m)
    )
    for beam, range_m in enumerate(reading.ranges_m):
        orientation = _orientation(reading.directions_body[beam])
        range_cm = most_cm + 1
        quality = _INVALID
        if range_m < reading.max_m:
            range_cm = min(round(range_m * 100.0), most_cm)
            quality = _GOOD
        q_wxyz = (0.0, 0.0, 0.0, 0.0)
        if orientation == hil.ORIENTATION_CUSTOM:
            q_wxyz = _wxyz(beam_pose(reading, beam))
        yield hil.DistanceSensor(
            reading.t_ns // _MS % 2**32,
            least_cm,
            most_cm,
            range_cm,
            hil.DISTANCE_LASER,
            (first + beam) % 256,
            orientation,
            hil.UNKNOWN_COVARIANCE,
            0.0,
            0.0,
            q_wxyz,
            quality,
        )


def _orientation(direction_body: Vector) -> int:
    """Return MAV_SENSOR_ORIENTATION of a beam: level in steps of 45 degrees, clockwise; up; down.

    Else CUSTOM.
    """
    x, y, z = direction_body
    if math.hypot(x, y) < _LEVEL:
        return _UP if z > 0.0 else _DOWN
    steps = math.degrees(math.atan2(-y, x)) / _YAW_STEP_DEG
    if abs(z) < _LEVEL and abs(steps - round(steps)) < _LEVEL:
        return round(steps) % 8
    return hil.ORIENTATION_CUSTOM


def _wxyz(T_body_beam: Transform) -> tuple[float, float, float, float]:
    """Return the attitude of a frame in the body, both forward, right, down."""
    x, y, z, w = q_mul(q_mul(Q_FRD_FLU, T_body_beam.q_xyzw), q_conj(Q_FRD_FLU)).tolist()
    return w, x, y, z


def _cmps(v_mps: float) -> int:
    return min(max(round(v_mps * 100.0), -32_768), 32_767)
