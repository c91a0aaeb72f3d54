"""PX4's side of its simulator link: bytes in, bytes out; the peer's packets are the clock."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from vil_bridge.protocols.mavlink import flight_messages as flight
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_simulation.autopilots.stand_ins.command_link import CommandLink
from vil_simulation.autopilots.stand_ins.dialects import Px4Dialect
from vil_simulation.autopilots.stand_ins.estimator import FlightEstimator
from vil_simulation.autopilots.stand_ins.flight_control import FlightController
from vil_simulation.autopilots.stand_ins.flow_rules import FlowRules, check_distance
from vil_simulation.autopilots.stand_ins.pilot import Flight, OnboardPilot
from vil_simulation.autopilots.stand_ins.places import Origin, local_ned
from vil_simulation.autopilots.stand_ins.sensor_rules import (
    GroundTruthRules,
    OdometryRules,
    SensorRules,
)
from vil_simulation.autopilots.stand_ins.vectors import Quaternion, Vector
from vil_simulation.autopilots.stand_ins.violations import WireViolation, require

STEP_US: Final = 4_000
UNANSWERED: Final = 11
MOST_UNANSWERED: Final = 500
"""Sensor packets at the start that PX4 does not answer.

On an idle computer, and on a busy one at most.
"""
_SETTLING: Final = 50
"""Answers until each packet waits for the one before.

Those under way before the simulator heard the first do not.
"""
_MAGIC: Final = 0xFD
_HEAD: Final = 10
_TAIL: Final = 2
_BODIES: Final = (
    hil.HilSensor,
    hil.HilGps,
    hil.DistanceSensor,
    hil.HilOpticalFlow,
    hil.HilStateQuaternion,
    flight.RcChannels,
)
_POSES: Final = mavlink.Odometry, mavlink.VisionPositionEstimate
_ACCEPTED: Final = {mavlink.message_id(kind) for kind in (*_BODIES, *_POSES)}
_GROUND_TRUTH_ID: Final = 115.0
_GROUND_TRUTH_US: Final = 5000.0
_LOCKSTEP: Final = 1
_ARMED = 129
_DISARMED = 1
_WISH_S: Final = 2.0
"""Simulated time in which a simulator hears the wish for the ground truth."""
_CHANNELS: Final = 16
_BOOT_S: Final = 4.0
"""Simulated time until PX4 has a position and can be armed."""
_FIX_3D: Final = 3


class Px4StandIn:
    """PX4 of one vehicle, in lockstep with its simulator.

    Args:
        instance: MAVLink system - 1.
        flight: to make without commands. unanswered: sensor packets before the first answer.
        controller: of the flight; None = the stand-ins' own.

    Attributes:
        pilot: on board. answers: actuator packets sent. packets: sensor packets taken. rc_us:
            newest channels of a remote control; empty = none came.
    """

    def __init__(
        self,
        instance: int = 0,
        flight: Flight = "none",
        unanswered: int = UNANSWERED,
        controller: FlightController | None = None,
    ) -> None:
        self.pilot: Final = OnboardPilot(flight, controller)
        self.rc_us: tuple[int, ...] = ()
        self._unanswered = unanswered
        self._free_until = _SETTLING
        self._resumed = False
        self._truth = GroundTruthRules(_GROUND_TRUTH_US)
        self.answers = self.packets = 0
        self._system = instance + 1
        self._dialect = Px4Dialect()
        self._links: list[CommandLink] = []
        self._digest = sha256()
        self._pending = b""
        self._sequence = 0
        self._sensors = SensorRules()
        self._odometry = OdometryRules()
        self._flow = FlowRules()
        self._estimator = FlightEstimator()
        self._due: hil.HilSensor | None = None
        self._first_us = self._newest_us = 0
        self._gps_us = self._pose_us = 0
        self._is_north = False
        self._origin: Origin | None = None

    @property
    def t_s(self) -> float:
        """Simulated time since the first sensor packet."""
        return 1e-6 * (self._newest_us - self._first_us)

    def open_link(self) -> CommandLink:
        """Return a new link to a ground station or an onboard computer."""
        link = CommandLink(self.pilot, self._dialect, self._system)
        self._links.append(link)
        return link

    def greeting(self) -> bytes:
        """Return what PX4 sends first: a wish for the ground truth, and a sign of life."""
        wish = (_GROUND_TRUTH_ID, _GROUND_TRUTH_US, 0.0, 0.0, 0.0, 0.0, 0.0)
        command = mavlink.CommandLong(*wish, mavlink.CMD_SET_MESSAGE_INTERVAL)
        heartbeat = mavlink.Heartbeat(
            0, flight.TYPE_QUADROTOR, flight.AUTOPILOT_PX4, 1, flight.STATE_STANDBY
        )
        return self._frame(command) + self._frame(heartbeat)

    def receive(self, data: bytes) -> None:
        """Take bytes of the simulator.

        Raises:
            WireViolation: a rule is broken.
        """
        self._digest.update(data)
        self._pending += data
        while (size := _frame_size(self._pending)) <= len(self._pending):
            frame = self._pending[:size]
            self._pending = self._pending[size:]
            self._handle(_decoded(frame))

    def resume(self) -> None:
        """Go on after a standstill.

        What was sent in it comes at once, and some of it was left out.
        """
        self._free_until = self.answers + _SETTLING
        self._resumed = True

    def answer(self) -> bytes:
        """Return the actuators for the newest sensor packet, nothing where there is none to
        answer.
        """
        sensor = self._due
        self._due = None
        if sensor is None:
            return b""
        state = self._estimator.state() if self.t_s >= _BOOT_S else None
        motors = self.pilot.step(self.t_s, state, 1e-6 * STEP_US)
        for link in self._links:
            link.origin = self._origin
        if self.packets <= self._unanswered:
            return b""
        self.answers += 1
        controls = (*motors, *([0.0] * (_CHANNELS - len(motors))))
        mode = _ARMED if self.pilot.armed else _DISARMED
        return self._frame(hil.HilActuatorControls(sensor.time_usec, _LOCKSTEP, controls, mode))

    def counters(self) -> dict[str, Any]:
        """Return the counters and the flight for the line at the end."""
        commands = sum(link.commands for link in self._links)
        counts = {
            "packets": self.packets,
            "unanswered": self._unanswered,
            "answers": self.answers,
            "commands": commands,
            "rc_us": self.rc_us,
        }
        received = {"simulated_s": round(self.t_s, 3), "received_sha256": self._digest.hexdigest()}
        return {**counts, **received, **self.pilot.history.values()}

    def _frame(self, body: mavlink.Body) -> bytes:
        self._sequence += 1
        return framing.encode(body, self._sequence - 1, system=self._system, component=1)

    def _handle(self, body: mavlink.Body) -> None:
        if isinstance(body, hil.HilSensor):
            self._on_sensor(body)
        elif isinstance(body, hil.HilGps):
            self._on_gps(body)
        elif isinstance(body, mavlink.Odometry):
            self._on_pose(self._odometry.check(body))
        elif isinstance(body, mavlink.VisionPositionEstimate):
            self._is_north = True
            self._on_pose(self._odometry.check_vision(body))
        elif isinstance(body, hil.DistanceSensor):
            check_distance(body)
        elif isinstance(body, hil.HilOpticalFlow):
            self._flow.check(body)
        elif isinstance(body, hil.HilStateQuaternion):
            self._truth.take(body)
        elif isinstance(body, flight.RcChannels):
            self.rc_us = body.channels_us[: body.chancount]

    def _begin_rules(self) -> None:
        """Judge what comes after samples that were left out on its own."""
        self._sensors = SensorRules(rests=False)
        self._odometry = OdometryRules()
        self._flow = FlowRules()

    def _on_sensor(self, m: hil.HilSensor) -> None:
        require(
            self._due is None or self.answers < self._free_until,
            f"HIL_SENSOR of {m.time_usec} us came before the answer to the one before: "
            "lockstep waits for it.",
        )
        if self.packets == 0:
            self._first_us = m.time_usec
        else:
            step_us = m.time_usec - self._newest_us
            require(
                step_us > 0,
                f"time_usec does not rise: {self._newest_us} us, then {m.time_usec} us.",
            )
            if self._resumed and step_us % STEP_US == 0 and step_us > STEP_US:
                self._begin_rules()
            else:
                require(
                    step_us == STEP_US, f"time_usec rises by {step_us} us, not by {STEP_US} us."
                )
        self.packets += 1
        self._newest_us = m.time_usec
        self._due = m
        self._sensors.check_fields(m)
        self._truth.check(m, is_due=self.t_s > _WISH_S)
        self._sense(m)

    def _sense(self, m: hil.HilSensor) -> None:
        gyro = (m.xgyro_radps, m.ygyro_radps, m.zgyro_radps)
        force = (m.xacc_mps2, m.yacc_mps2, m.zacc_mps2)
        self._flow.predict(gyro, 1e-6 * STEP_US)
        self._odometry.predict(gyro, force, 1e-6 * STEP_US)
        self._estimator.predict(gyro, force, 1e-6 * STEP_US)
        state = self._estimator.state()
        if m.fields_updated & hil.HIL_MAGNETOMETER:
            field = m.xmag_gauss, m.ymag_gauss, m.zmag_gauss
            self._estimator.on_field(field)
            if self._estimator.aligned:
                self._sensors.check_field(field, self._estimator.attitude)
                if self._is_north:
                    self._sensors.check_north(field, self._estimator.attitude)
        if m.fields_updated & hil.HIL_BAROMETER:
            self._estimator.on_height(m.pressure_alt_m)
            if state is not None:
                self._sensors.check_height(m, self.t_s, state.p_ned_m)

    def _on_gps(self, m: hil.HilGps) -> None:
        if m.fix_type < _FIX_3D:
            return
        position = self._local(m)
        velocity = 0.01 * m.vn_cmps, 0.01 * m.ve_cmps, 0.01 * m.vd_cmps
        state = self._estimator.state()
        self._sensors.check_gps(m, self.t_s, position, state.p_ned_m if state is not None else None)
        interval_s = 0.1
        if self._gps_us:
            interval_s = 1e-6 * max(0, self._newest_us - self._gps_us)
        self._estimator.on_gps(position, velocity, interval_s)
        self._gps_us = self._newest_us

    def _on_pose(self, pose: tuple[Vector, Quaternion, Vector]) -> None:
        interval_us = self._newest_us - self._pose_us if self._pose_us else 0
        self._pose_us = self._newest_us
        self._estimator.on_pose(*pose, 1e-6 * interval_us)

    def _local(self, m: hil.HilGps) -> Vector:
        place = m.lat_e7 * 1e-7, m.lon_e7 * 1e-7, m.alt_mm * 1e-3
        self._origin = self._origin or place
        return local_ned(self._origin, place)


def _frame_size(data: bytes) -> int:
    """Return the size of the frame at the beginning, one byte more than there is where its head
    is incomplete.
    """
    if not data:
        return 1
    require(data[0] == _MAGIC, f"a frame begins with 0x{data[0]:02X}, not with MAVLink 2's 0xFD.")
    if len(data) < _HEAD:
        return len(data) + 1
    require(
        data[2] == 0, f"a frame has incompatibility flags 0x{data[2]:02X}: it must not be signed."
    )
    number = int.from_bytes(data[7:10], "little")
    require(
        number in _ACCEPTED,
        f"message {number} is not for this link: PX4 takes 65, 102, 107, 113, 114, 115, "
        "132 and 331 here.",
    )
    return _HEAD + data[1] + _TAIL


def _decoded(frame: bytes) -> mavlink.Body:
    messages = framing.MavlinkParser().feed(frame)
    if not messages:
        raise WireViolation(
            f"message {int.from_bytes(frame[7:10], 'little')} has a wrong checksum."
        )
    return messages[0].body
