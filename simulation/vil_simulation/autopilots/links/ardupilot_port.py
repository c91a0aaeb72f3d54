"""One of ArduPilot's MAVLink ports, which takes what its JSON interface does not.

Poses of motion capture.

Everything is sent at times of the simulation, before the line of the same time, so that a flight
can be repeated. It connects at fixed times too: whether the port is open by then depends on
ArduPilot's own steps alone.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.framing import MavlinkMessage, MavlinkParser, encode
from vil_simulation.autopilots.links.poses import PoseSample, pose_message

_READ_BYTES: Final = 65536
_RETRY_NS: Final = NS_PER_S // 2
_HEARTBEAT_NS: Final = NS_PER_S
_CONNECT_S: Final = 0.2
_COMPONENT: Final = 197
"""Visual inertial odometry."""
_HEARTBEAT: Final = mavlink.Heartbeat(
    0, mavlink.TYPE_ONBOARD_CONTROLLER, mavlink.AUTOPILOT_INVALID, 0, mavlink.STATE_ACTIVE
)

Place = tuple[float, float, float]
"""Latitude and longitude, degrees, and altitude, metres."""


class ArduPilotPort:
    """TCP client of one port; one thread uses it.

    Args:
        port: its number. origin: place of the room's zero, sent until ArduPilot has one.
    """

    def __init__(self, port: int, origin: Place) -> None:
        self.port: Final = port
        self._origin = origin
        self._socket: socket.socket | None = None
        self._parser = MavlinkParser()
        self._sequence = 0
        self._retry_ns = self._heartbeat_ns = 0
        self._system: int | None = None
        self._has_origin = False

    @property
    def connected(self) -> bool:
        """True while there is a connection."""
        return self._socket is not None

    def exchange(self, host: str, t_ns: int, pose: PoseSample | None) -> None:
        """Read what has come, and send what is due at a time of the simulation.

        Without a connection, try for one.
        """
        if self._socket is None and t_ns >= self._retry_ns:
            self._connect(host, t_ns)
        self._read(t_ns)
        if t_ns >= self._heartbeat_ns:
            self._heartbeat_ns = t_ns + _HEARTBEAT_NS
            self._send(_HEARTBEAT)
            if self._system is not None and not self._has_origin:
                latitude, longitude, altitude = self._origin
                where = round(latitude * 1e7), round(longitude * 1e7), round(altitude * 1e3)
                self._send(mavlink.SetGpsGlobalOrigin(*where, self._system, t_ns // 1000))
        if pose is not None:
            self._send(pose_message(pose))

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self, host: str, t_ns: int) -> None:
        self._retry_ns = t_ns + _RETRY_NS
        with contextlib.suppress(OSError):
            self._socket = socket.create_connection((host, self.port), timeout=_CONNECT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setblocking(False)
            self._parser = MavlinkParser()
            self._system = None
            self._has_origin = False
            self._heartbeat_ns = t_ns

    def _read(self, t_ns: int) -> None:
        while self._socket is not None:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
            for message in self._parser.feed(data):
                self._take(message, t_ns)

    def _take(self, message: MavlinkMessage, t_ns: int) -> None:
        body = message.body
        if isinstance(body, mavlink.Heartbeat):
            self._system = message.system
        elif isinstance(body, mavlink.GpsGlobalOrigin):
            self._has_origin = True
        elif isinstance(body, mavlink.TimeSync) and body.tc1_ns == 0:
            self._send(mavlink.TimeSync(t_ns, body.ts1_ns))

    def _send(self, body: mavlink.Body) -> None:
        """Send a message.

        A peer that reads nothing for so long that its queue is full loses the connection.
        """
        if self._socket is None:
            return
        self._sequence += 1
        data = encode(body, self._sequence, system=self._system or 1, component=_COMPONENT)
        try:
            whole = self._socket.send(data) == len(data)
        except OSError:
            whole = False
        if not whole:
            self.close()
