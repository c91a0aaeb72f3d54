"""ArduPilot's JSON interface for simulators: UDP, in lockstep by frame count.

ArduPilot sends its servo outputs and waits for one line with the vehicle's state, the time of which
advances its clock. Where no line comes it sends the same frame again, about once a second. Its
parser searches for keys instead of parsing JSON: a blank behind a colon is an error, and
``velocity`` stands before ``velocity_wind``.
"""

from __future__ import annotations

import socket
from struct import Struct
from typing import Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.frames import coordinates, to_frd
from vil_simulation.autopilots.links.ardupilot_port import ArduPilotPort
from vil_simulation.autopilots.links.link import (
    MOTORS,
    READS_AT_ONCE,
    AutopilotLink,
    AutopilotSample,
    DatagramPeer,
    LinkState,
    shares,
)

_SERVOS: Final = {18458: Struct("<HHI16H"), 29569: Struct("<HHI32H")}
"""Layouts of 16 and 32 channels by their magic number.

Rate, frame count, pulse widths in microseconds.
"""
_READ_BYTES: Final = 2048
_OFF_US = 1000
_RANGE_US = 1000


class ArduPilotLink(AutopilotLink):
    """Socket to which one ArduPilot sends its servo outputs.

    Args:
        host, port: bound to. timeout_s: see :class:`AutopilotLink`. poses: port that takes them;
            None = none does.

    Attributes:
        address: bound to.
    """

    def __init__(
        self, host: str, port: int, timeout_s: float, poses: ArduPilotPort | None = None
    ) -> None:
        super().__init__(timeout_s)
        self.address = host, port
        self._poses = poses
        self._socket: socket.socket | None = None
        self._peer = DatagramPeer(port)
        self._frame = -1
        self._owes = False
        self._line = b""

    @property
    def note(self) -> str:
        """Return words for poses that wait for their port, and for frames of others."""
        poses = self._poses
        if poses is None or poses.connected:
            return self._peer.note
        return f", poses wait for its TCP port {poses.port}{self._peer.note}"

    @property
    def strangers(self) -> int:
        """Frames of another program than the one that flies."""
        return self._peer.bound.strangers

    def open(self) -> None:
        """Bind the port."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.setblocking(False)

    def descriptors(self) -> tuple[int, ...]:
        """Return the socket."""
        if self._socket is None:
            return ()
        return (self._socket.fileno(),)

    def receive(self) -> None:
        """Take servo outputs; answer a frame that came again with the line that answered it."""
        if self._socket is None:
            return
        for _ in range(READS_AT_ONCE):
            try:
                data, peer = self._socket.recvfrom(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:  # an answer was refused: the program has ended
                continue
            self._take(data, peer)

    def send(self, sample: AutopilotSample) -> None:
        """Answer the newest frame, if it has none."""
        if not self._owes:
            return
        peer = self._peer.bound.address
        if self._poses is not None and peer is not None:
            self._poses.exchange(peer[0], sample.t_ns, sample.pose)
        self._line = state_line(sample)
        self._owes = False
        self.sent += 1
        self._reply()
        self._await_answer()

    def program_ended(self) -> None:
        """Take the frames of the next one, whichever port it has."""
        self._peer.bound.let_go()

    def close(self) -> None:
        """Close the sockets."""
        if self._poses is not None:
            self._poses.close()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _take(self, data: bytes, peer: tuple[str, int]) -> None:
        layout = _SERVOS.get(int.from_bytes(data[:2], "little"))
        if layout is None or len(data) != layout.size:
            return
        _, _, frame, *pulses = layout.unpack(data)
        is_repeated = frame == self._frame and peer == self._peer.bound.address
        if not self._peer.takes(peer):
            return
        if is_repeated:
            self.repeats += 1
            if not self._owes:
                self._reply()
            return
        self._frame = frame
        self._owes = True
        motors = shares([(us - _OFF_US) / _RANGE_US for us in pulses[:MOTORS]])
        self._answered(motors, armed=any(motors))

    def _reply(self) -> None:
        assert self._socket is not None
        assert self._peer.bound.address is not None
        try:
            self._socket.sendto(self._line, self._peer.bound.address)
        except OSError:
            return  # it asks again

    def _stop(self, state: LinkState) -> None:
        super()._stop(state)
        self._peer.bound.let_go()


def state_line(sample: AutopilotSample) -> bytes:
    """Return a vehicle's state: body forward, right, down, world north, east, down."""
    motion = sample.motion
    p_m, q_wxyz = coordinates(mavlink.FRAME_LOCAL_NED, motion.p_world_m, motion.q_world_body)
    east, north, up = motion.v_world_mps
    parts = [
        f'"timestamp":{sample.t_ns / NS_PER_S:.9f}',
        f'"imu":{{"gyro":{_list(to_frd(sample.imu.w_body_radps))},'
        f'"accel_body":{_list(to_frd(sample.imu.f_body_mps2))}}}',
        f'"position":{_list(p_m)}',
        f'"quaternion":{_list(q_wxyz)}',
        f'"velocity":{_list((north, east, -up))}',
    ]
    if sample.distance is not None:
        parts.append(f'"rng_1":{sample.distance.ranges_m[0]:.9g}')
    if sample.air is not None:
        wind_east, wind_north, wind_up = sample.air.wind_world_mps
        parts.append(f'"velocity_wind":{_list((wind_north, wind_east, -wind_up))}')
        parts.append(f'"airspeed":{sample.air.airspeed_mps:.9g}')
    if sample.battery is not None:
        battery = sample.battery
        parts.append(
            f'"battery":{{"voltage":{battery.voltage_v:.9g},"current":{battery.current_a:.9g}}}'
        )
    if sample.rc_us is not None:
        channels = ",".join(f'"rc_{i + 1}":{us}' for i, us in enumerate(sample.rc_us[:12]))
        parts.append(f'"rc":{{{channels}}}')
    return f"\n{{{','.join(parts)}}}\n".encode()


def _list(values: tuple[float, ...]) -> str:
    return f"[{','.join(f'{value:.9g}' for value in values)}]"
