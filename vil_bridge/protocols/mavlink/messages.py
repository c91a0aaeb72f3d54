"""MAVLink's messages as values, and how their payloads are laid out.

The values are those of the wire: the units stand in the field names or, where a dialect leaves them
open, in the docstring. Source: the MAVLink "common" dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan
from struct import Struct
from typing import Any, Final, NamedTuple

from vil_bridge.protocols.mavlink import flight_messages as flight
from vil_bridge.protocols.mavlink.hil_messages import (
    DistanceSensor,
    GpsInput,
    HilActuatorControls,
    HilGps,
    HilOpticalFlow,
    HilSensor,
    HilStateQuaternion,
)

TYPE_ONBOARD_CONTROLLER: Final = 18
AUTOPILOT_INVALID: Final = 8
STATE_ACTIVE: Final = 4
CMD_SET_MESSAGE_INTERVAL: Final = 511
RESULT_ACCEPTED: Final = 0
RESULT_FAILED: Final = 4
FRAME_LOCAL_NED: Final = 1
FRAME_LOCAL_ENU: Final = 4
FRAME_BODY_FRD: Final = 12
FRAME_LOCAL_FRD: Final = 20
FRAME_LOCAL_FLU: Final = 21
QUALITY_FAILED: Final = -1
ESTIMATOR_VISION: Final = 2
"""Estimator type that PX4 fuses from motion capture; it drops the type MOCAP."""
ESTIMATE_ATTITUDE: Final = 1
ESTIMATE_POSITION: Final = 8 | 16
"""Flags of ESTIMATOR_STATUS: horizontal position, relative or absolute; one of them is enough."""
ESTIMATE_CONSTANT_POSITION: Final = 128
RESULTS: Final = (
    "accepted",
    "temporarily rejected",
    "denied",
    "unsupported",
    "failed",
    "in progress",
    "cancelled",
)
"""Names of the first values of a COMMAND_ACK's result."""


class Heartbeat(NamedTuple):
    """HEARTBEAT: what the sender is; ``autopilot`` is AUTOPILOT_INVALID for anything but one."""

    custom_mode: int
    type: int
    autopilot: int
    base_mode: int
    system_status: int
    mavlink_version: int = 3


class TimeSync(NamedTuple):
    """TIMESYNC: a request has ``tc1_ns`` 0.

    The answer copies ``ts1_ns`` and puts its own clock in ``tc1_ns``.
    """

    tc1_ns: int
    ts1_ns: int


class HighresImu(NamedTuple):
    """HIGHRES_IMU: body FRD; ``fields_updated`` bits 0-2 accelerometer, 3-5 gyroscope.

    Id counts the IMUs.
    """

    time_usec: int
    xacc_mps2: float
    yacc_mps2: float
    zacc_mps2: float
    xgyro_radps: float
    ygyro_radps: float
    zgyro_radps: float
    xmag_gauss: float = 0.0
    ymag_gauss: float = 0.0
    zmag_gauss: float = 0.0
    abs_pressure_hpa: float = 0.0
    diff_pressure_hpa: float = 0.0
    pressure_alt_m: float = 0.0
    temperature_degc: float = 0.0
    fields_updated: int = 0x3F
    id: int = 0


class ScaledImu(NamedTuple):
    """SCALED_IMU (first IMU): body FRD, thousandths of g, of rad/s and of gauss."""

    time_boot_ms: int
    xacc_mg: int
    yacc_mg: int
    zacc_mg: int
    xgyro_mradps: int
    ygyro_mradps: int
    zgyro_mradps: int
    xmag_mgauss: int = 0
    ymag_mgauss: int = 0
    zmag_mgauss: int = 0
    temperature_cdegc: int = 0


class ScaledImu2(ScaledImu):
    """SCALED_IMU2: the same of the second IMU."""


class ScaledImu3(ScaledImu):
    """SCALED_IMU3: the same of the third IMU."""


class MavlinkRawImu(NamedTuple):
    """RAW_IMU: body FRD in the sensor's own units; ArduPilot fills in those of SCALED_IMU."""

    time_usec: int
    xacc: int
    yacc: int
    zacc: int
    xgyro: int
    ygyro: int
    zgyro: int
    xmag: int = 0
    ymag: int = 0
    zmag: int = 0
    id: int = 0
    temperature: int = 0


class CommandLong(NamedTuple):
    """COMMAND_LONG: system and component 0 address all, which PX4 ignores."""

    param1: float
    param2: float
    param3: float
    param4: float
    param5: float
    param6: float
    param7: float
    command: int
    target_system: int = 0
    target_component: int = 0
    confirmation: int = 0


class CommandAck(NamedTuple):
    """COMMAND_ACK: ``result`` indexes RESULTS; version 1 does not name the receiver (target 0)."""

    command: int
    result: int
    progress: int = 0
    result_param2: int = 0
    target_system: int = 0
    target_component: int = 0


class AttitudeQuaternion(NamedTuple):
    """ATTITUDE_QUATERNION: body FRD in NED.

    The last four turn into the attitude that is shown, zeros for none.
    """

    time_boot_ms: int
    q_w: float
    q_x: float
    q_y: float
    q_z: float
    rollspeed_radps: float
    pitchspeed_radps: float
    yawspeed_radps: float
    offset_w: float = 0.0
    offset_x: float = 0.0
    offset_y: float = 0.0
    offset_z: float = 0.0


class LocalPositionNed(NamedTuple):
    """LOCAL_POSITION_NED: from the estimator's origin."""

    time_boot_ms: int
    x_m: float
    y_m: float
    z_m: float
    vx_mps: float
    vy_mps: float
    vz_mps: float


_UNKNOWN_COVARIANCE: Final = (nan, *([0.0] * 20))


class Odometry(NamedTuple):
    """ODOMETRY: pose of the body (FRD) in ``frame_id``, velocities in ``child_frame_id``.

    A covariance is the upper triangle of 6 x 6, row by row, NaN first when unknown. ``quality`` is
    in percent, 0 when unknown, QUALITY_FAILED; ``reset_counter`` goes up at each jump of the
    estimate.
    """

    time_usec: int
    x_m: float
    y_m: float
    z_m: float
    q_wxyz: tuple[float, ...]
    vx_mps: float
    vy_mps: float
    vz_mps: float
    rollspeed_radps: float
    pitchspeed_radps: float
    yawspeed_radps: float
    pose_covariance: tuple[float, ...] = _UNKNOWN_COVARIANCE
    velocity_covariance: tuple[float, ...] = _UNKNOWN_COVARIANCE
    frame_id: int = FRAME_LOCAL_NED
    child_frame_id: int = FRAME_BODY_FRD
    reset_counter: int = 0
    estimator_type: int = 0
    quality: int = 0


class VisionPositionEstimate(NamedTuple):
    """VISION_POSITION_ESTIMATE: pose of the body (FRD) in NED.

    Covariance and counter as in ODOMETRY.
    """

    usec: int
    x_m: float
    y_m: float
    z_m: float
    roll_rad: float
    pitch_rad: float
    yaw_rad: float
    covariance: tuple[float, ...] = _UNKNOWN_COVARIANCE
    reset_counter: int = 0


class AttPosMocap(NamedTuple):
    """ATT_POS_MOCAP: pose of the body (FRD) in NED."""

    time_usec: int
    q_wxyz: tuple[float, ...]
    x_m: float
    y_m: float
    z_m: float
    covariance: tuple[float, ...] = _UNKNOWN_COVARIANCE


class SetGpsGlobalOrigin(NamedTuple):
    """SET_GPS_GLOBAL_ORIGIN: where on earth the local frame's origin is.

    1e-7 degrees, millimetres above sea.
    """

    latitude_e7: int
    longitude_e7: int
    altitude_mm: int
    target_system: int
    time_usec: int = 0


class GpsGlobalOrigin(NamedTuple):
    """GPS_GLOBAL_ORIGIN: the same as the autopilot knows it."""

    latitude_e7: int
    longitude_e7: int
    altitude_mm: int
    time_usec: int = 0


class EstimatorStatus(NamedTuple):
    """ESTIMATOR_STATUS: ratios of innovations to their gates, accuracies, and what is estimated
    at all.
    """

    time_usec: int
    vel_ratio: float
    pos_horiz_ratio: float
    pos_vert_ratio: float
    mag_ratio: float
    hagl_ratio: float
    tas_ratio: float
    pos_horiz_accuracy_m: float
    pos_vert_accuracy_m: float
    flags: int


Body = (
    Heartbeat
    | TimeSync
    | HighresImu
    | ScaledImu
    | ScaledImu2
    | ScaledImu3
    | MavlinkRawImu
    | CommandLong
    | CommandAck
    | AttitudeQuaternion
    | LocalPositionNed
    | Odometry
    | EstimatorStatus
    | GpsInput
    | VisionPositionEstimate
    | AttPosMocap
    | SetGpsGlobalOrigin
    | GpsGlobalOrigin
    | HilSensor
    | HilGps
    | HilActuatorControls
    | HilOpticalFlow
    | HilStateQuaternion
    | DistanceSensor
    | flight.SysStatus
    | flight.SetMode
    | flight.ParamRequestRead
    | flight.ParamRequestList
    | flight.ParamValue
    | flight.ParamSet
    | flight.MavlinkAttitude
    | flight.GlobalPositionInt
    | flight.SetPositionTargetLocalNed
    | flight.RcChannels
    | flight.RcChannelsOverride
    | flight.AutopilotVersion
    | flight.HomePosition
    | flight.ExtendedSysState
)


@dataclass(frozen=True, slots=True)
class MavlinkKind:
    """A message on the wire.

    Attributes:
        id: its number. crc_extra: constant that its checksum includes. layout: of the full payload.
        arrays: lengths of the fields that are arrays, by index.
    """

    id: int
    crc_extra: int
    layout: Struct
    make: Callable[..., Body]
    arrays: Mapping[int, int]

    def pack(self, body: Body) -> bytes:
        """Return the full payload.

        Raises:
            struct.error: a value is outside the range of its field, or an array has another length.
        """
        if not self.arrays:
            return self.layout.pack(*body)
        return self.layout.pack(
            *(x for field in body for x in (field if isinstance(field, tuple) else (field,)))
        )

    def unpack(self, payload: bytes) -> Body:
        """Return the message of a full payload."""
        values = self.layout.unpack(payload)
        if not self.arrays:
            return self.make(*values)
        fields: list[Any] = []
        at = 0
        while at < len(values):
            size = self.arrays.get(len(fields), 0)
            fields.append(values[at : at + size] if size else values[at])
            at += size or 1
        return self.make(*fields)


_SCALED: Final = Struct("<I9hh")
KINDS: Final[dict[type[Any], MavlinkKind]] = {
    make: MavlinkKind(id_, crc_extra, layout, make, arrays)
    for make, id_, crc_extra, layout, arrays in (
        (Heartbeat, 0, 50, Struct("<I5B"), {}),
        (flight.SysStatus, 1, 124, Struct("<3I2Hh6Hb"), {}),
        (flight.SetMode, 11, 89, Struct("<I2B"), {}),
        (flight.ParamRequestRead, 20, 214, Struct("<h2B16s"), {}),
        (flight.ParamRequestList, 21, 159, Struct("<2B"), {}),
        (flight.ParamValue, 22, 220, Struct("<fHH16sB"), {}),
        (flight.ParamSet, 23, 168, Struct("<f2B16sB"), {}),
        (ScaledImu, 26, 170, _SCALED, {}),
        (MavlinkRawImu, 27, 144, Struct("<Q9hBh"), {}),
        (flight.MavlinkAttitude, 30, 39, Struct("<I6f"), {}),
        (AttitudeQuaternion, 31, 246, Struct("<I11f"), {}),
        (LocalPositionNed, 32, 185, Struct("<I6f"), {}),
        (flight.GlobalPositionInt, 33, 104, Struct("<I4i3hH"), {}),
        (SetGpsGlobalOrigin, 48, 41, Struct("<iiiBQ"), {}),
        (GpsGlobalOrigin, 49, 39, Struct("<iiiQ"), {}),
        (flight.RcChannels, 65, 118, Struct("<I18H2B"), {1: 18}),
        (flight.RcChannelsOverride, 70, 124, Struct("<8H2B10H"), {0: 8, 3: 10}),
        (CommandLong, 76, 152, Struct("<7fH3B"), {}),
        (CommandAck, 77, 143, Struct("<HBBiBB"), {}),
        (flight.SetPositionTargetLocalNed, 84, 143, Struct("<I11fH3B"), {}),
        (HilActuatorControls, 93, 47, Struct("<QQ16fB"), {2: 16}),
        (VisionPositionEstimate, 102, 158, Struct("<Q27fB"), {7: 21}),
        (HighresImu, 105, 93, Struct("<Q13fHB"), {}),
        (HilSensor, 107, 108, Struct("<Q13fIB"), {}),
        (TimeSync, 111, 34, Struct("<qq"), {}),
        (HilGps, 113, 124, Struct("<Q3i3H3hH2BBH"), {}),
        (HilOpticalFlow, 114, 237, Struct("<QI5fIfhBB"), {}),
        (HilStateQuaternion, 115, 4, Struct("<Q7f3i3h2H3h"), {1: 4}),
        (ScaledImu2, 116, 76, _SCALED, {}),
        (ScaledImu3, 129, 46, _SCALED, {}),
        (DistanceSensor, 132, 85, Struct("<I3H4B6fB"), {10: 4}),
        (AttPosMocap, 138, 109, Struct("<Q28f"), {1: 4, 5: 21}),
        (flight.AutopilotVersion, 148, 178, Struct("<2Q4I2H8s8s8s"), {}),
        (EstimatorStatus, 230, 163, Struct("<Q8fH"), {}),
        (GpsInput, 232, 151, Struct("<QI2i9f2H3BH"), {}),
        (flight.HomePosition, 242, 104, Struct("<3i3f4f3fQ"), {6: 4}),
        (flight.ExtendedSysState, 245, 130, Struct("<2B"), {}),
        (Odometry, 331, 91, Struct("<Q13f42f4Bb"), {4: 4, 11: 21, 12: 21}),
    )
}


def message_id(kind: type[Any]) -> int:
    """Return the number of a message class on the wire."""
    return KINDS[kind].id
