"""MAVLink's messages of simulated sensors as values of the wire.

Units stand in the names of the fields.
"""

from __future__ import annotations

from typing import Final, NamedTuple

HIL_INERTIAL: Final = 0x3F
"""Bits of ``fields_updated``: accelerometer and gyroscope."""
HIL_MAGNETOMETER: Final = 0x1C0
HIL_BAROMETER: Final = 0x1A00
"""Absolute pressure, pressure altitude and temperature, which PX4 takes together only."""
HIL_DIFF_PRESSURE: Final = 0x400
UNKNOWN_SATELLITES: Final = 255
UNKNOWN_COURSE_CDEG: Final = 65535
ORIENTATION_CUSTOM: Final = 100
DISTANCE_LASER: Final = 0
UNKNOWN_COVARIANCE: Final = 255


class HilSensor(NamedTuple):
    """HIL_SENSOR: body FRD; ``fields_updated`` says which groups are new; id counts the sensors."""

    time_usec: int
    xacc_mps2: float
    yacc_mps2: float
    zacc_mps2: float
    xgyro_radps: float
    ygyro_radps: float
    zgyro_radps: float
    xmag_gauss: float
    ymag_gauss: float
    zmag_gauss: float
    abs_pressure_hpa: float
    diff_pressure_hpa: float
    pressure_alt_m: float
    temperature_degc: float
    fields_updated: int
    id: int = 0


class HilGps(NamedTuple):
    """HIL_GPS: velocities north, east, down.

    ``eph`` and ``epv`` in centimetres, as PX4 reads them.
    """

    time_usec: int
    lat_e7: int
    lon_e7: int
    alt_mm: int
    eph_cm: int
    epv_cm: int
    vel_cmps: int
    vn_cmps: int
    ve_cmps: int
    vd_cmps: int
    cog_cdeg: int
    fix_type: int
    satellites_visible: int
    id: int = 0
    yaw_cdeg: int = 0


class HilStateQuaternion(NamedTuple):
    """HIL_STATE_QUATERNION: true motion, body FRD in NED.

    Velocities and accelerations north, east, down.

    ``xacc`` to ``zacc`` are what PX4 reads, thousandths of m/s2; the dialect says thousandths of g.
    """

    time_usec: int
    q_wxyz: tuple[float, ...]
    rollspeed_radps: float
    pitchspeed_radps: float
    yawspeed_radps: float
    lat_e7: int
    lon_e7: int
    alt_mm: int
    vx_cmps: int
    vy_cmps: int
    vz_cmps: int
    ind_airspeed_cmps: int
    true_airspeed_cmps: int
    xacc: int
    yacc: int
    zacc: int


class GpsInput(NamedTuple):
    """GPS_INPUT: a fix from elsewhere; velocities north, east, down.

    Yaw of the body, 36000 = north, 0 = none.
    """

    time_usec: int
    time_week_ms: int
    lat_e7: int
    lon_e7: int
    alt_m: float
    hdop: float
    vdop: float
    vn_mps: float
    ve_mps: float
    vd_mps: float
    speed_accuracy_mps: float
    horiz_accuracy_m: float
    vert_accuracy_m: float
    ignore_flags: int
    time_week: int
    gps_id: int
    fix_type: int
    satellites_visible: int
    yaw_cdeg: int = 0


class HilActuatorControls(NamedTuple):
    """HIL_ACTUATOR_CONTROLS: ``controls`` 0 to 1 of motors; bit 0 of ``flags``: lockstep.

    Bit 7 of ``mode``: armed.
    """

    time_usec: int
    flags: int
    controls: tuple[float, ...]
    mode: int


class HilOpticalFlow(NamedTuple):
    """HIL_OPTICAL_FLOW: integrals over a time.

    Flow and gyroscope turn about the sensor's axes, x ahead and y right.
    """

    time_usec: int
    integration_time_us: int
    integrated_x_rad: float
    integrated_y_rad: float
    integrated_xgyro_rad: float
    integrated_ygyro_rad: float
    integrated_zgyro_rad: float
    time_delta_distance_us: int
    distance_m: float
    temperature_cdegc: int
    sensor_id: int
    quality: int


class DistanceSensor(NamedTuple):
    """DISTANCE_SENSOR: ``orientation`` of the beam in the body, CUSTOM = that of ``q_wxyz``,
    which turns x ahead.
    """

    time_boot_ms: int
    min_distance_cm: int
    max_distance_cm: int
    current_distance_cm: int
    type: int
    id: int
    orientation: int
    covariance_cm2: int
    horizontal_fov_rad: float
    vertical_fov_rad: float
    q_wxyz: tuple[float, ...]
    signal_quality: int
