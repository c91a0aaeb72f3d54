"""MAVLink's messages by which a ground station or an onboard computer flies an autopilot, as
values of the wire.
"""

from __future__ import annotations

from typing import Final, NamedTuple

TYPE_QUADROTOR: Final = 2
AUTOPILOT_ARDUPILOT: Final = 3
AUTOPILOT_PX4: Final = 12
STATE_STANDBY: Final = 3
BASE_ARMED: Final = 128
BASE_CUSTOM_MODE: Final = 1
CMD_LAND: Final = 21
CMD_TAKEOFF: Final = 22
CMD_SET_MODE: Final = 176
CMD_ARM: Final = 400
CMD_REQUEST_MESSAGE: Final = 512
RESULT_TEMPORARILY_REJECTED: Final = 1
RESULT_DENIED: Final = 2
RESULT_UNSUPPORTED: Final = 3
PARAMETER_INT32: Final = 6
PARAMETER_FLOAT: Final = 9
IGNORE_POSITION: Final = 0x007
"""Bits of ``type_mask``: the fields that a set-point leaves out."""
IGNORE_VELOCITY: Final = 0x038
IGNORE_YAW: Final = 0x400
LANDED_ON_GROUND: Final = 1
LANDED_IN_AIR: Final = 2


class SysStatus(NamedTuple):
    """SYS_STATUS: sensors as bits.

    Load in thousandths, battery in millivolts, hundredths of amperes and percent.
    """

    sensors_present: int
    sensors_enabled: int
    sensors_health: int
    load: int
    voltage_battery_mv: int
    current_battery_ca: int
    drop_rate_comm: int
    errors_comm: int
    errors_count1: int
    errors_count2: int
    errors_count3: int
    errors_count4: int
    battery_remaining_pct: int


class SetMode(NamedTuple):
    """SET_MODE: without acknowledgement; ``custom_mode`` is the autopilot's own number."""

    custom_mode: int
    target_system: int
    base_mode: int


class ParamRequestRead(NamedTuple):
    """PARAM_REQUEST_READ: by index, or by name where the index is -1."""

    param_index: int
    target_system: int
    target_component: int
    param_id: bytes


class ParamRequestList(NamedTuple):
    """PARAM_REQUEST_LIST: all parameters."""

    target_system: int
    target_component: int


class ParamValue(NamedTuple):
    """PARAM_VALUE: PX4 puts the bytes of an INT32 into the float, ArduPilot its value."""

    param_value: float
    param_count: int
    param_index: int
    param_id: bytes
    param_type: int


class ParamSet(NamedTuple):
    """PARAM_SET: the answer is a PARAM_VALUE."""

    param_value: float
    target_system: int
    target_component: int
    param_id: bytes
    param_type: int


class MavlinkAttitude(NamedTuple):
    """ATTITUDE: body FRD in NED."""

    time_boot_ms: int
    roll_rad: float
    pitch_rad: float
    yaw_rad: float
    rollspeed_radps: float
    pitchspeed_radps: float
    yawspeed_radps: float


class GlobalPositionInt(NamedTuple):
    """GLOBAL_POSITION_INT: velocities north, east, down; heading 65535 = unknown."""

    time_boot_ms: int
    lat_e7: int
    lon_e7: int
    alt_mm: int
    relative_alt_mm: int
    vx_cmps: int
    vy_cmps: int
    vz_cmps: int
    hdg_cdeg: int


class SetPositionTargetLocalNed(NamedTuple):
    """SET_POSITION_TARGET_LOCAL_NED: ``type_mask`` says which fields to ignore."""

    time_boot_ms: int
    x_m: float
    y_m: float
    z_m: float
    vx_mps: float
    vy_mps: float
    vz_mps: float
    afx_mps2: float
    afy_mps2: float
    afz_mps2: float
    yaw_rad: float
    yaw_rate_radps: float
    type_mask: int
    target_system: int
    target_component: int
    coordinate_frame: int


class RcChannels(NamedTuple):
    """RC_CHANNELS: pulse widths of a remote control, of which ``chancount`` are used.

    ``rssi`` 254 = full.
    """

    time_boot_ms: int
    channels_us: tuple[int, ...]
    chancount: int
    rssi: int


class RcChannelsOverride(NamedTuple):
    """RC_CHANNELS_OVERRIDE: the same in place of a receiver; a channel of 0 is left to it."""

    channels_us: tuple[int, ...]
    target_system: int
    target_component: int
    more_us: tuple[int, ...]


class AutopilotVersion(NamedTuple):
    """AUTOPILOT_VERSION: capabilities as bits; custom versions are 8 bytes each."""

    capabilities: int
    uid: int
    flight_sw_version: int
    middleware_sw_version: int
    os_sw_version: int
    board_version: int
    vendor_id: int
    product_id: int
    flight_custom_version: bytes
    middleware_custom_version: bytes
    os_custom_version: bytes


class HomePosition(NamedTuple):
    """HOME_POSITION: on earth and in the local frame, NED.

    ``q_wxyz`` turns to the surface's slope.
    """

    lat_e7: int
    lon_e7: int
    alt_mm: int
    x_m: float
    y_m: float
    z_m: float
    q_wxyz: tuple[float, ...]
    approach_x_m: float
    approach_y_m: float
    approach_z_m: float
    time_usec: int = 0


class ExtendedSysState(NamedTuple):
    """EXTENDED_SYS_STATE: whether the vehicle is on the ground or in the air."""

    vtol_state: int
    landed_state: int
