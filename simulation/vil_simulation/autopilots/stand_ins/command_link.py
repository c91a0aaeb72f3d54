"""MAVLink link of a stand-in to ground stations and onboard computers.

Commands, parameters, set-points, telemetry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import degrees, nan
from typing import Final

from vil_bridge.protocols.mavlink import flight_messages as flight
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.dialects import MavlinkDialect, result_of
from vil_simulation.autopilots.stand_ins.flight_control import FlightTarget, NedState
from vil_simulation.autopilots.stand_ins.pilot import OnboardPilot
from vil_simulation.autopilots.stand_ins.places import Origin, place_of
from vil_simulation.autopilots.stand_ins.pose_rules import PoseBody, PoseRules
from vil_simulation.autopilots.stand_ins.vectors import ZERO

_COMPONENT: Final = 1
_INTERVALS_S: Final[Mapping[type[mavlink.Body], float]] = {
    mavlink.Heartbeat: 1.0,
    flight.SysStatus: 1.0,
    flight.ExtendedSysState: 1.0,
    flight.HomePosition: 1.0,
    flight.GlobalPositionInt: 0.1,
    flight.MavlinkAttitude: 0.05,
    mavlink.AttitudeQuaternion: 0.05,
    mavlink.LocalPositionNed: 0.05,
}
_LONGEST_S: Final = 60.0
_SENSORS: Final = 0x2F
"""Bits of SYS_STATUS: gyroscope, accelerometer, magnetometer, barometer, GPS."""
_CAPABILITIES: Final = 0x2000 | 0x80 | 0x2
"""MAVLink 2, set-points in the local frame, parameters as floats."""
_AIRBORNE_M: Final = 0.15
_UNKNOWN_U16: Final = 65535


class CommandLink:
    """One link, as bytes in and out.

    Args:
        pilot: that obeys. dialect: of the autopilot. system: MAVLink's number of the vehicle.
        poses: judge of poses from outside; None = they are ignored.

    Attributes:
        origin: of the local frame, None = unknown. commands: obeyed or refused.
    """

    def __init__(
        self,
        pilot: OnboardPilot,
        dialect: MavlinkDialect,
        system: int,
        poses: PoseRules | None = None,
    ) -> None:
        self.origin: Origin | None = None
        self.commands = 0
        self._poses = poses
        self._pilot = pilot
        self._dialect = dialect
        self._system = system
        self._parser = framing.MavlinkParser()
        self._sequence = 0
        self._t_s = 0.0
        self._next_s: dict[type[mavlink.Body], float] = dict.fromkeys(_INTERVALS_S, 0.0)
        self._intervals_s = dict(_INTERVALS_S)
        self._makers: dict[type[mavlink.Body], Callable[[], mavlink.Body | None]] = {
            mavlink.Heartbeat: self._heartbeat,
            flight.SysStatus: self._sys_status,
            flight.ExtendedSysState: self._landed,
            flight.HomePosition: self._home,
            flight.GlobalPositionInt: self._global_position,
            flight.MavlinkAttitude: self._attitude,
            mavlink.AttitudeQuaternion: self._quaternion,
            mavlink.LocalPositionNed: self._local_position,
            flight.AutopilotVersion: self._version,
        }

    def telemetry(self, t_s: float) -> bytes:
        """Return the messages that are due at a simulated time."""
        self._t_s = t_s
        due = [kind for kind, next_s in self._next_s.items() if t_s >= next_s]
        for kind in due:
            self._next_s[kind] = max(self._next_s[kind] + self._intervals_s[kind], t_s)
        return b"".join(self._made(kind) for kind in due)

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the peer; returns the answers."""
        return b"".join(self._handle(message) for message in self._parser.feed(data))

    def frame(self, body: mavlink.Body) -> bytes:
        """Return a message as the next frame of the link."""
        self._sequence += 1
        return framing.encode(body, self._sequence - 1, system=self._system, component=_COMPONENT)

    def _handle(self, message: framing.MavlinkMessage) -> bytes:
        body = message.body
        target = (
            getattr(body, "target_system", self._system),
            getattr(body, "target_component", _COMPONENT),
        )
        if target[0] not in (0, self._system) or target[1] not in (0, _COMPONENT):
            return b""
        if isinstance(body, mavlink.CommandLong):
            self.commands += 1
            result, extra = self._obey(body)
            return self.frame(
                mavlink.CommandAck(body.command, result, 0, 0, message.system, message.component)
            ) + b"".join(extra)
        if isinstance(body, flight.SetMode):
            self._dialect.set_mode(self._pilot, *_modes(body.custom_mode))
        elif isinstance(body, flight.SetPositionTargetLocalNed):
            self._on_target(body)
        elif isinstance(body, PoseBody):
            if self._poses is not None:
                self._poses.take(body)
        elif isinstance(body, mavlink.SetGpsGlobalOrigin):
            self.origin = body.latitude_e7 * 1e-7, body.longitude_e7 * 1e-7, body.altitude_mm * 1e-3
            return self.frame(
                mavlink.GpsGlobalOrigin(body.latitude_e7, body.longitude_e7, body.altitude_mm)
            )
        elif isinstance(body, mavlink.TimeSync) and body.tc1_ns == 0:
            return self.frame(mavlink.TimeSync(round(self._t_s * 1e9), body.ts1_ns))
        elif isinstance(body, flight.ParamRequestList):
            return b"".join(self._parameter(name) for name in self._dialect.parameters)
        elif isinstance(body, flight.ParamRequestRead):
            names = list(self._dialect.parameters)
            in_list = 0 <= body.param_index < len(names)
            return self._parameter(names[body.param_index] if in_list else _name(body.param_id))
        elif isinstance(body, flight.ParamSet):
            return self._set_parameter(body)
        return b""

    def _obey(self, command: mavlink.CommandLong) -> tuple[int, list[bytes]]:
        """Return the result, and what follows the acknowledgement."""
        pilot = self._pilot
        extra = []
        match command.command:
            case flight.CMD_ARM:
                result = result_of(pilot.command_arm(command.param1 > 0.5))
            case flight.CMD_TAKEOFF:
                result = self._dialect.take_off(pilot, command.param7)
            case flight.CMD_LAND:
                pilot.command_land()
                result = mavlink.RESULT_ACCEPTED
            case flight.CMD_SET_MODE:
                result = self._dialect.set_mode(pilot, command.param2, command.param3)
            case flight.CMD_REQUEST_MESSAGE:
                extra = [
                    self._made(kind)
                    for kind in self._makers
                    if mavlink.message_id(kind) == command.param1
                ]
                result = mavlink.RESULT_ACCEPTED if any(extra) else flight.RESULT_DENIED
            case mavlink.CMD_SET_MESSAGE_INTERVAL:
                result = self._set_interval(command.param1, 1e-6 * command.param2)
            case _:
                result = flight.RESULT_UNSUPPORTED
        return result, extra

    def _set_interval(self, number: float, interval_s: float) -> int:
        for kind, default_s in _INTERVALS_S.items():
            if mavlink.message_id(kind) == number:
                if not 0.0 < interval_s < _LONGEST_S:
                    interval_s = default_s
                self._intervals_s[kind] = interval_s
                return mavlink.RESULT_ACCEPTED
        return flight.RESULT_DENIED

    def _on_target(self, body: flight.SetPositionTargetLocalNed) -> None:
        position: vectors.Vector | None = None
        if not body.type_mask & flight.IGNORE_POSITION:
            position = (body.x_m, body.y_m, body.z_m)
        velocity = ZERO
        if not body.type_mask & flight.IGNORE_VELOCITY:
            velocity = (body.vx_mps, body.vy_mps, body.vz_mps)
        has_yaw = not body.type_mask & flight.IGNORE_YAW
        yaw_rad = body.yaw_rad
        if not has_yaw:
            yaw_rad = vectors.roll_pitch_yaw(self._state().q_wxyz)[2]
        target = FlightTarget(position, velocity, yaw_rad)
        self._dialect.on_target(self._pilot, target, has_yaw=has_yaw)

    def _parameter(self, name: str) -> bytes:
        parameters = self._dialect.parameters
        if name not in parameters:
            return b""
        value = parameters[name]
        kind = flight.PARAMETER_FLOAT if isinstance(value, float) else flight.PARAMETER_INT32
        index = list(parameters).index(name)
        padded = name.encode().ljust(16, b"\0")
        return self.frame(
            flight.ParamValue(self._dialect.pack(value), len(parameters), index, padded, kind)
        )

    def _set_parameter(self, body: flight.ParamSet) -> bytes:
        name = _name(body.param_id)
        parameters = self._dialect.parameters
        if name in parameters:
            parameters[name] = self._dialect.unpack(body.param_value, parameters[name])
        return self._parameter(name)

    # --- telemetry --------------------------------------------------------------------------------

    def _made(self, kind: type[mavlink.Body]) -> bytes:
        body = self._makers[kind]()
        if body is None:
            return b""
        return self.frame(body)

    def _state(self) -> NedState:
        return self._pilot.state or NedState(ZERO, ZERO, vectors.LEVEL, ZERO)

    def _heartbeat(self) -> mavlink.Body:
        armed = self._pilot.armed
        base = flight.BASE_CUSTOM_MODE | armed * flight.BASE_ARMED
        status = mavlink.STATE_ACTIVE if armed else flight.STATE_STANDBY
        mode = self._dialect.custom_mode(self._pilot)
        return mavlink.Heartbeat(mode, flight.TYPE_QUADROTOR, self._dialect.autopilot, base, status)

    def _sys_status(self) -> mavlink.Body:
        health = _SENSORS if self._pilot.ready else 0
        return flight.SysStatus(_SENSORS, _SENSORS, health, 100, 12600, -1, 0, 0, 0, 0, 0, 0, 100)

    def _landed(self) -> mavlink.Body:
        airborne = (
            self._pilot.armed and self._pilot.home_m[2] - self._state().p_ned_m[2] > _AIRBORNE_M
        )
        landed = flight.LANDED_ON_GROUND
        if airborne:
            landed = flight.LANDED_IN_AIR
        return flight.ExtendedSysState(0, landed)

    def _home(self) -> mavlink.Body | None:
        if self.origin is None or not self._pilot.ready:
            return None
        lat, lon, alt = self._place(self._pilot.home_m)
        x, y, z = self._pilot.home_m
        return flight.HomePosition(
            lat, lon, alt, x, y, z, vectors.LEVEL, nan, nan, nan, round(self._t_s * 1e6)
        )

    def _global_position(self) -> mavlink.Body | None:
        if self.origin is None or not self._pilot.ready:
            return None
        state = self._state()
        above_mm = round((self._pilot.home_m[2] - state.p_ned_m[2]) * 1e3)
        course = round(degrees(vectors.roll_pitch_yaw(state.q_wxyz)[2]) * 100.0) % 36_000
        vx, vy, vz = (round(v * 100.0) for v in state.v_ned_mps)
        return flight.GlobalPositionInt(
            self._boot_ms(), *self._place(state.p_ned_m), above_mm, vx, vy, vz, course
        )

    def _place(self, p_ned_m: vectors.Vector) -> tuple[int, int, int]:
        assert self.origin is not None
        place = place_of(self.origin, p_ned_m)
        return round(place[0] * 1e7), round(place[1] * 1e7), round(place[2] * 1e3)

    def _attitude(self) -> mavlink.Body:
        state = self._state()
        return flight.MavlinkAttitude(
            self._boot_ms(), *vectors.roll_pitch_yaw(state.q_wxyz), *state.w_frd_radps
        )

    def _quaternion(self) -> mavlink.Body:
        state = self._state()
        return mavlink.AttitudeQuaternion(self._boot_ms(), *state.q_wxyz, *state.w_frd_radps)

    def _local_position(self) -> mavlink.Body | None:
        if not self._pilot.ready:
            return None
        state = self._state()
        return mavlink.LocalPositionNed(self._boot_ms(), *state.p_ned_m, *state.v_ned_mps)

    def _version(self) -> mavlink.Body:
        none = bytes(8)
        return flight.AutopilotVersion(
            _CAPABILITIES, self._system, 0, 0, 0, 0, 0, 0, none, none, none
        )

    def _boot_ms(self) -> int:
        return round(self._t_s * 1e3)


def _modes(custom_mode: int) -> tuple[float, float]:
    """Return the mode and sub-mode of SET_MODE.

    PX4's are in the upper bytes, ArduPilot's is the number.
    """
    if custom_mode < 1 << 16:
        return float(custom_mode), 0.0
    return float(custom_mode >> 16 & 0xFF), float(custom_mode >> 24)


def _name(padded: bytes) -> str:
    return padded.partition(b"\0")[0].decode("ascii", "replace")
