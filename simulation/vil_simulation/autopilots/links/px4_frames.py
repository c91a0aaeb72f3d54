"""Samples as MAVLink frames for PX4, in the loop of the software and of its hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.sensor_readings import Vector
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.flight_messages import RcChannels, RcChannelsOverride
from vil_bridge.protocols.mavlink.frames import coordinates, to_frd
from vil_bridge.protocols.mavlink.framing import encode
from vil_bridge.protocols.mavlink.hil_messages import (
    HilActuatorControls,
    HilOpticalFlow,
    HilStateQuaternion,
)
from vil_bridge.protocols.mavlink.sensor_messages import distance_sensors, hil_gps, hil_sensor
from vil_simulation.autopilots.links.link import MOTORS, AutopilotSample, FlowReading, shares
from vil_simulation.autopilots.links.poses import pose_message

Places = Callable[[Vector], Vector]
"""A position in the room, metres, as latitude and longitude, degrees, and altitude, metres."""

_ARMED: Final = 128
_SYSTEM = 1
_COMPONENT = 200
_GOOD_FLOW: Final = 255
_UNKNOWN_DISTANCE_M: Final = -1.0
_RC_PERIOD_NS: Final = 20 * NS_PER_MS
_CHANNELS: Final = 18
_FULL_SIGNAL: Final = 254
_I16: Final = 32_767


class SampleFrames:
    """Samples as frames of one sender: what is new, then HIL_SENSOR.

    Args:
        places: of the room, for the ground truth. on_board: PX4 runs on its own hardware, where
            remote control comes as RC_CHANNELS_OVERRIDE.
    """

    def __init__(self, places: Places | None = None, *, on_board: bool = False) -> None:
        self._places = places
        self._on_board = on_board
        self._sequence = 0
        self._rc_us: tuple[int, ...] | None = None
        self._rc_ns = 0
        self._truth_us = 0
        self._truth_from_ns: int | None = None
        self._truth: tuple[int, Vector] | None = None

    def obey(self, command: mavlink.CommandLong) -> None:
        """Send HIL_STATE_QUATERNION as often as MAV_CMD_SET_MESSAGE_INTERVAL asks.

        Other commands are ignored.

        It begins at a whole second of the simulation: the same flight has the same messages,
        whenever the command came.
        """
        wanted = mavlink.message_id(HilStateQuaternion)
        if command.command == mavlink.CMD_SET_MESSAGE_INTERVAL and command.param1 == wanted:
            if 1.0 <= command.param2 < 1e9:
                self._truth_us = round(command.param2)
            else:
                self._truth_us = 0
            self._truth_from_ns = None

    def of(self, sample: AutopilotSample) -> bytes:
        """Return the frames of a sample."""
        bodies: list[mavlink.Body] = []
        if sample.gps is not None:
            bodies.append(hil_gps(sample.gps))
        if sample.pose is not None:
            bodies.append(pose_message(sample.pose))
        if sample.distance is not None:
            bodies += distance_sensors(sample.distance, 0)
        if sample.flow is not None:
            bodies.append(optical_flow(sample.flow))
        if self._is_truth_due(sample.t_ns):
            bodies.append(self._ground_truth(sample))
        if self._is_rc_due(sample):
            bodies.append(self._remote_control(sample))
        pressure_pa: float | None = None
        if sample.air is not None and sample.air.t_ns >= sample.t_ns:
            pressure_pa = sample.air.pressure_pa
        bodies.append(hil_sensor(sample.imu, sample.magnetometer, sample.barometer, 0, pressure_pa))
        return b"".join(self._frame(body) for body in bodies)

    def _frame(self, body: mavlink.Body) -> bytes:
        self._sequence += 1
        return encode(body, self._sequence, system=_SYSTEM, component=_COMPONENT)

    def _is_truth_due(self, t_ns: int) -> bool:
        """Return True for the first sample in each interval that was asked for."""
        if not self._truth_us or self._places is None:
            return False
        if self._truth_from_ns is None:
            self._truth_from_ns = (t_ns // NS_PER_S + 1) * NS_PER_S
        if t_ns < self._truth_from_ns:
            return False
        interval_ns = 1000 * self._truth_us
        return self._truth is None or t_ns // interval_ns > self._truth[0] // interval_ns

    def _ground_truth(self, sample: AutopilotSample) -> HilStateQuaternion:
        """Return the true motion; its acceleration is the mean since the message before."""
        assert self._places is not None
        motion = sample.motion
        t_ns = sample.t_ns
        east, north, up = motion.v_world_mps
        v_ned = north, east, -up
        before_ns, v_before = self._truth or (t_ns, v_ned)
        self._truth = t_ns, v_ned
        span_s = max(t_ns - before_ns, 1) / NS_PER_S
        a_north, a_east, a_down = (
            (now - then) / span_s for now, then in zip(v_ned, v_before, strict=True)
        )
        a_ned = a_north, a_east, a_down
        _, q_wxyz = coordinates(mavlink.FRAME_LOCAL_NED, motion.p_world_m, motion.q_world_body)
        latitude, longitude, altitude = self._places(motion.p_world_m)
        airspeed = 0
        if sample.air is not None:
            airspeed = min(max(round(100.0 * sample.air.airspeed_mps), 0), 65_535)
        return HilStateQuaternion(
            t_ns // 1000,
            q_wxyz,
            *to_frd(motion.w_body_radps),
            round(latitude * 1e7),
            round(longitude * 1e7),
            round(altitude * 1e3),
            *_i16(v_ned, 100.0),
            airspeed,
            airspeed,
            *_i16(a_ned, 1000.0),
        )

    def _is_rc_due(self, sample: AutopilotSample) -> bool:
        """Return True for changed channels, and fifty times a second.

        Without a pilot there are none.
        """
        if sample.rc_us is None:
            return False
        return sample.rc_us != self._rc_us or sample.t_ns - self._rc_ns >= _RC_PERIOD_NS

    def _remote_control(self, sample: AutopilotSample) -> mavlink.Body:
        assert sample.rc_us is not None
        self._rc_us = sample.rc_us
        self._rc_ns = sample.t_ns
        used = sample.rc_us[:_CHANNELS]
        channels = used + (0,) * (_CHANNELS - len(used))
        if self._on_board:
            return RcChannelsOverride(channels[:8], 0, 0, channels[8:])
        return RcChannels(sample.t_ns // NS_PER_MS % 2**32, channels, len(used), _FULL_SIGNAL)


def motors_of(controls: HilActuatorControls) -> tuple[float, ...]:
    """Return outputs from 0 to 1, zeros of a disarmed autopilot."""
    if not is_armed(controls):
        return shares((0.0,) * MOTORS)
    return shares(controls.controls)


def is_armed(controls: HilActuatorControls) -> bool:
    """Return True if the autopilot says that it is armed."""
    return bool(controls.mode & _ARMED)


def optical_flow(flow: FlowReading) -> HilOpticalFlow:
    """Return HIL_OPTICAL_FLOW of a camera that looks down; the distance is another sensor's."""
    (x, y), (p, q, r) = flow.flow_rad, flow.turn_rad
    turns = x, -y, p, -q, -r
    quality = _GOOD_FLOW if flow.seen else 0
    return HilOpticalFlow(
        flow.t_ns // 1000, round(flow.span_s * 1e6), *turns, 0, _UNKNOWN_DISTANCE_M, 0, 0, quality
    )


def _i16(values: Vector, scale: float) -> tuple[int, int, int]:
    """Return values in a unit of the wire, those beyond its range at its end."""
    x, y, z = (min(max(round(scale * value), -_I16), _I16) for value in values)
    return x, y, z
