"""PX4's simulator interface: MAVLink over TCP, in lockstep by the time of HIL_SENSOR.

PX4 connects to us. Each HIL_SENSOR sets its clock; it answers each with one HIL_ACTUATOR_CONTROLS of the same time,
but for the first ones after its start.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.protocols.autopilots.link import (
    MOTORS,
    READS_AT_ONCE,
    AutopilotLink,
    AutopilotSample,
    FlowReading,
    shares,
)
from vil_bridge.protocols.autopilots.poses import pose_message
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.framing import MavlinkParser, encode
from vil_bridge.protocols.mavlink.hil_messages import HilActuatorControls, HilOpticalFlow
from vil_bridge.protocols.mavlink.sensor_messages import distance_sensors, hil_gps, hil_sensor

_READ_BYTES: Final = 4096
_UNANSWERED: Final = 11
"""Samples after its start that PX4 never answers."""
_START_NS: Final = 5 * NS_PER_MS
"""Waited for an answer to one of those, so that they do not come in a burst."""
_ARMED: Final = 128
_SYSTEM, _COMPONENT = 1, 200
_GOOD_FLOW: Final = 255
_UNKNOWN_DISTANCE_M: Final = -1.0


class Px4Link(AutopilotLink):
    """Server to which one PX4 connects.

    Args:
        host, port: bound to. timeout_s: see :class:`AutopilotLink`.

    Attributes:
        address: bound to.
    """

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self.address = host, port
        self._server: socket.socket | None = None
        self._peer: socket.socket | None = None
        self._parser = MavlinkParser()
        self._frames = SampleFrames()
        self._since_start = 0
        self._sent_us = -1

    def open(self) -> None:
        """Listen."""
        self._server = socket.create_server(self.address, backlog=1)
        self._server.setblocking(False)

    def descriptors(self) -> tuple[int, ...]:
        """Return the peer's socket, or the listening one."""
        one = self._peer or self._server
        return () if one is None else (one.fileno(),)

    def receive(self) -> None:
        """Accept a peer, in place of a silent one too, and read its answers."""
        if self._peer is None or self.state == "silent":
            self._accept()
        peer = self._peer
        if peer is None:
            return
        try:
            for _ in range(READS_AT_ONCE):
                data = peer.recv(_READ_BYTES)
                if not data:
                    self._lose()
                    return
                for message in self._parser.feed(data):
                    if isinstance(message.body, HilActuatorControls):
                        self._take(message.body)
        except BlockingIOError:
            return
        except OSError:
            self._lose()

    def send(self, sample: AutopilotSample) -> None:
        """Send HIL_SENSOR, and HIL_GPS and the pose before it where they are new."""
        if self._peer is None or self.state == "silent":
            return
        data = self._frames.of(sample)
        try:
            if self._peer.send(data) < len(data):
                self._lose()  # its queue holds thousands of samples that it did not read
                return
        except OSError:
            self._lose()
            return
        self.sent += 1
        self._since_start += 1
        self._sent_us = sample.imu.t_ns // 1000
        self._await_answer(_START_NS if self._since_start <= _UNANSWERED and self.state != "running" else None)

    def overdue(self) -> None:
        """Go on with the next sample while it starts; count it as silent later."""
        if self._since_start > _UNANSWERED:
            super().overdue()

    def close(self) -> None:
        """Close both sockets."""
        for one in (self._peer, self._server):
            if one is not None:
                one.close()
        self._peer = self._server = None

    def _accept(self) -> None:
        assert self._server is not None
        with contextlib.suppress(OSError):  # no program waits, or it has gone again
            peer, _ = self._server.accept()
            if self._peer is not None:  # its computer is gone, or it is not an autopilot
                self._peer.close()
            self._peer = peer
            self._peer.setblocking(False)
            self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._parser, self._since_start = MavlinkParser(), 0
            self.state = "starting"

    def _take(self, controls: HilActuatorControls) -> None:
        if controls.time_usec == self._sent_us:
            self._answered(motors_of(controls))

    def _lose(self) -> None:
        assert self._peer is not None
        self._peer.close()
        self._peer = None
        self._stop("ended")


class SampleFrames:
    """Samples as frames of one sender: HIL_GPS and the pose where they are new, then HIL_SENSOR."""

    def __init__(self) -> None:
        self._sequence = 0

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
        pressure_pa = None if sample.air is None or sample.air.t_ns < sample.t_ns else sample.air.pressure_pa
        bodies.append(hil_sensor(sample.imu, sample.magnetometer, sample.barometer, 0, pressure_pa))
        return b"".join(self._frame(body) for body in bodies)

    def _frame(self, body: mavlink.Body) -> bytes:
        self._sequence += 1
        return encode(body, self._sequence, system=_SYSTEM, component=_COMPONENT)


def motors_of(controls: HilActuatorControls) -> tuple[float, ...]:
    """Return outputs from 0 to 1, zeros of a disarmed autopilot."""
    return shares(controls.controls if controls.mode & _ARMED else (0.0,) * MOTORS)


def optical_flow(flow: FlowReading) -> HilOpticalFlow:
    """Return HIL_OPTICAL_FLOW of a camera that looks down; the distance is another sensor's."""
    (x, y), (p, q, r) = flow.flow_rad, flow.turn_rad
    turns = x, -y, p, -q, -r
    quality = _GOOD_FLOW if flow.seen else 0
    return HilOpticalFlow(flow.t_ns // 1000, round(flow.span_s * 1e6), *turns, 0, _UNKNOWN_DISTANCE_M, 0, 0, quality)
