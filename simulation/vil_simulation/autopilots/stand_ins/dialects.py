"""Differences between PX4 and ArduPilot on MAVLink.

Numbers of modes, types of parameters, order of commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final, Protocol

from vil_bridge.protocols.mavlink import flight_messages as flight
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_simulation.autopilots.stand_ins.flight_control import FlightTarget
from vil_simulation.autopilots.stand_ins.pilot import OnboardPilot, PilotMode

Parameter = int | float

_FLOAT: Final = Struct("<f")
_INT: Final = Struct("<i")
_OFFBOARD: Final = 6
_AUTO: Final = 4
_AUTO_TAKE_OFF = 2
_AUTO_LOITER = 3
_AUTO_RETURN = 5
_AUTO_LAND = 6
_STABILIZE = 0
_GUIDED = 4
_LOITER = 5
_LAND = 9


def result_of(accepted: bool) -> int:
    """Return the result of a command that the pilot has taken or, for now, not."""
    if accepted:
        return mavlink.RESULT_ACCEPTED
    return flight.RESULT_TEMPORARILY_REJECTED


class MavlinkDialect(Protocol):
    """One autopilot's habits.

    Attributes:
        autopilot: number in HEARTBEAT. parameters: by name; an int is an INT32, a float a REAL32.
    """

    autopilot: int
    parameters: dict[str, Parameter]

    def custom_mode(self, pilot: OnboardPilot) -> int:
        """Return the number of the mode in HEARTBEAT."""
        ...

    def set_mode(self, pilot: OnboardPilot, mode: float, submode: float) -> int:
        """Obey MAV_CMD_DO_SET_MODE; returns the result."""
        ...

    def take_off(self, pilot: OnboardPilot, height_m: float) -> int:
        """Obey MAV_CMD_NAV_TAKEOFF with its seventh parameter; returns the result."""
        ...

    def on_target(self, pilot: OnboardPilot, target: FlightTarget, *, has_yaw: bool) -> None:
        """Take a set-point."""
        ...

    def pack(self, value: Parameter) -> float:
        """Return a parameter as the float of PARAM_VALUE."""
        ...

    def unpack(self, value: float, old: Parameter) -> Parameter:
        """Return the parameter that a float of PARAM_SET means."""
        ...


class Px4Dialect:
    """PX4: main and sub-mode, set-points first and OFFBOARD then, integers as the bytes of the
    float.
    """

    def __init__(self) -> None:
        self.autopilot = flight.AUTOPILOT_PX4
        self.parameters: dict[str, Parameter] = {
            "COM_OBL_ACT": 0,
            "COM_RCL_EXCEPT": 4,
            "EKF2_AID_MASK": 24,
            "EKF2_EV_DELAY": 0.0,
            "EKF2_HGT_MODE": 3,
            "EKF2_MAG_TYPE": 5,
            "IMU_INTEG_RATE": 250,
            "MIS_TAKEOFF_ALT": 1.5,
            "NAV_RCL_ACT": 0,
            "SYS_AUTOSTART": 10016,
            "SYS_HAS_MAG": 0,
        }

    def custom_mode(self, pilot: OnboardPilot) -> int:
        """Return main mode in byte 2 and sub-mode in byte 3."""
        if pilot.mode is PilotMode.FOLLOW:
            return _OFFBOARD << 16
        submodes: Mapping[PilotMode, int] = {
            PilotMode.TAKE_OFF: _AUTO_TAKE_OFF,
            PilotMode.LAND: _AUTO_LAND,
        }
        return _AUTO << 16 | submodes.get(pilot.mode, _AUTO_LOITER) << 24

    def set_mode(self, pilot: OnboardPilot, mode: float, submode: float) -> int:
        """Obey: OFFBOARD, or the automatic modes take-off, loiter, return and land."""
        if mode == _OFFBOARD:
            return result_of(pilot.command_follow())
        if mode != _AUTO:
            return flight.RESULT_DENIED
        if submode == _AUTO_TAKE_OFF:
            return self.take_off(pilot, float("nan"))
        if submode == _AUTO_LOITER:
            pilot.command_hold()
        elif submode in (_AUTO_LAND, _AUTO_RETURN):
            pilot.command_land()
        else:
            return flight.RESULT_DENIED
        return mavlink.RESULT_ACCEPTED

    # Above sea level, not home.
    def take_off(self, pilot: OnboardPilot, height_m: float) -> int:  # noqa: ARG002
        """Obey: to MIS_TAKEOFF_ALT above home."""
        return result_of(pilot.command_take_off(float(self.parameters["MIS_TAKEOFF_ALT"])))

    def on_target(
        self,
        pilot: OnboardPilot,
        target: FlightTarget,
        *,
        has_yaw: bool,  # noqa: ARG002
    ) -> None:
        """Take a set-point, which counts for a second in OFFBOARD."""
        pilot.set_target(target)

    def pack(self, value: Parameter) -> float:
        """Return a float, or the float with the bytes of an integer."""
        if isinstance(value, float):
            return value
        packed: float = _FLOAT.unpack(_INT.pack(value))[0]
        return packed

    def unpack(self, value: float, old: Parameter) -> Parameter:
        """Return a parameter of the type of the old one."""
        if isinstance(old, float):
            return value
        number: int = _INT.unpack(_FLOAT.pack(value))[0]
        return number


class ArduPilotDialect:
    """ArduPilot: numbered modes; take-off and set-points in GUIDED; integers as their values."""

    def __init__(self) -> None:
        self.autopilot = flight.AUTOPILOT_ARDUPILOT
        self._mode = _STABILIZE
        self.parameters: dict[str, Parameter] = {
            "ATC_RAT_YAW_I": 0.005,
            "ATC_RAT_YAW_P": 0.05,
            "COMPASS_ENABLE": 0,
            "EK3_SRC1_POSXY": 6,
            "EK3_SRC1_POSZ": 6,
            "EK3_SRC1_VELXY": 6,
            "EK3_SRC1_VELZ": 6,
            "EK3_SRC1_YAW": 6,
            "FRAME_CLASS": 1,
            "GPS1_TYPE": 0,
            "MOT_THST_HOVER": 0.3,
            "VISO_DELAY_MS": 10,
            "VISO_TYPE": 1,
            "WP_YAW_BEHAVIOR": 0,
        }

    def custom_mode(self, pilot: OnboardPilot) -> int:
        """Return the mode's number."""
        if pilot.mode is PilotMode.LAND:
            return _LAND
        return self._mode

    def set_mode(self, pilot: OnboardPilot, mode: float, submode: float) -> int:  # noqa: ARG002
        """Obey: STABILIZE, GUIDED, LOITER and LAND."""
        if mode not in (_STABILIZE, _GUIDED, _LOITER, _LAND):
            return flight.RESULT_DENIED
        if mode == _LAND:
            pilot.command_land()
        elif pilot.mode is not PilotMode.IDLE:
            pilot.command_hold()
        self._mode = int(mode)
        return mavlink.RESULT_ACCEPTED

    def take_off(self, pilot: OnboardPilot, height_m: float) -> int:
        """Obey: to a height above home, in GUIDED only."""
        accepted = self._mode == _GUIDED and pilot.command_take_off(height_m)
        return mavlink.RESULT_ACCEPTED if accepted else mavlink.RESULT_FAILED

    def on_target(self, pilot: OnboardPilot, target: FlightTarget, *, has_yaw: bool) -> None:
        """Take a set-point in GUIDED: a position is flown to, a velocity counts for a second."""
        if self._mode != _GUIDED:
            return
        if target.p_ned_m is not None:
            pilot.command_go_to(target.p_ned_m, target.yaw_rad if has_yaw else None)
            return
        pilot.set_target(target)
        if pilot.armed and pilot.mode is not PilotMode.IDLE:
            pilot.command_follow()

    def pack(self, value: Parameter) -> float:
        """Return the value."""
        return float(value)

    def unpack(self, value: float, old: Parameter) -> Parameter:
        """Return a parameter of the type of the old one."""
        return value if isinstance(old, float) else round(value)
