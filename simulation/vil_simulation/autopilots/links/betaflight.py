"""Betaflight's SITL: UDP with fixed ports, on the wall's clock.

Betaflight runs its loop in real time, at the rate that two states give: the difference of their
times over that of their arrivals, where the first is less than 20 ms. So states go out as time
passes, the newest motors are in effect, and what is late is left out. Four traps
(platform/SIMULATOR/sitl.c, 4.6.0):

- Two states that it reads one right after the other, because it had no core, let its clock run
  ahead by seconds, and it disarms in flight. The next state waits until the one before has been
  answered for a while.
- It drops a state that comes after half a second of silence but for its arrival, which the next one
  misses: its clock would stand. The next one follows 20 ms later.
- Its motor outputs come from a port that is not known before, and anybody may send such datagrams:
  they count while its own port of states is open and has got one, from the first sender only.
- A state that comes while it starts up ends it (SIGSEGV): the first ones wait until its port has
  been open for a while, which datagrams of another size find out; it drops those.
"""

from __future__ import annotations

import contextlib
import socket
from struct import Struct
from typing import Final

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns
from vil_bridge.core.sensor_readings import GpsReading
from vil_bridge.protocols.bound_peer import PeerAddress
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.frames import coordinates, to_frd
from vil_simulation.autopilots.links.link import (
    READS_AT_ONCE,
    AutopilotSample,
    DatagramPeer,
    LinkState,
    RealTimeLink,
    shares,
)

MOTORS_PORT = 9002
STATE_PORT = 9003
RC_PORT = 9004
_STATE: Final = Struct("<18d")
_RC: Final = Struct("<d16H")
_MOTORS: Final = Struct("<4f")
_RC_PERIOD_NS: Final = 10 * NS_PER_MS
_START_UP_NS: Final = NS_PER_S
"""From its port's opening to the first state; it takes half of that."""
_PROBE_NS: Final = 50 * NS_PER_MS
_PROBE: Final = b"\0"
_RATED_NS: Final = 20 * NS_PER_MS
"""Two states that are further apart do not change the rate of its clock."""
_SILENCE_NS: Final = 400 * NS_PER_MS
_FASTEST: Final = 4
"""Highest rate of its clock that the time from an answer to the next state may give."""
_LOW_US: Final = 1000
_CHANNELS: Final = 16


class BetaflightLink(RealTimeLink):
    """Sockets of one Betaflight.

    Args:
        host: the address it runs on and we are bound to. timeout_s: see
            :class:`~vil_simulation.autopilots.links.link.AutopilotLink`.
    """

    def __init__(self, host: str, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self._host = host
        self._socket: socket.socket | None = None
        self._states: socket.socket | None = None
        self._up_ns: int | None = None
        self._probed_ns = 0
        self._rc_ns = 0
        self._rc_us: tuple[int, ...] | None = None
        self._gps: GpsReading | None = None
        self._drops_state = False
        self._peer = DatagramPeer(MOTORS_PORT)
        self._has_state = False
        self._unasked = 0

    @property
    def note(self) -> str:
        """Return words for motor outputs of others."""
        return self._peer.note

    @property
    def strangers(self) -> int:
        """Motor outputs of another program than the one that flies, or without any."""
        return self._peer.bound.strangers + self._unasked

    def open(self) -> None:
        """Bind the port of its motor outputs."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self._host, MOTORS_PORT))
        self._socket.setblocking(False)
        self._states = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._states.connect((self._host, STATE_PORT))
        self._states.setblocking(False)

    def receive(self) -> None:
        """Take the newest motor outputs."""
        if self._socket is None:
            return
        for _ in range(READS_AT_ONCE):
            try:
                data, sender = self._socket.recvfrom(_STATE.size)
            except BlockingIOError:
                break
            except OSError:  # remote control was refused: nothing listens there
                continue
            if len(data) == _MOTORS.size:
                self._take(data, sender)
        self._check_silence()

    def takes(self, *, late: bool) -> bool:
        """Return True for a sample in time that leaves the rate of its clock near 1."""
        if not super().takes(late=late):
            return False
        now_ns = machine_ns()
        runs = self.state == "running"
        since_ns = now_ns - self._sent_ns
        if self._drops_state or (runs and self._heard_ns < self._sent_ns):
            return since_ns > _RATED_NS
        return not runs or _FASTEST * (now_ns - self._heard_ns) >= since_ns

    def send(self, sample: AutopilotSample) -> None:
        """Send a state, and the remote control's channels a hundred times a second."""
        if not self._is_up():
            return
        self._drops_state = machine_ns() - self._sent_ns > _SILENCE_NS
        # Every state has a place, and most samples no new reading.
        self._gps = sample.gps or self._gps
        self._has_state = self._send_state(state_packet(sample._replace(gps=self._gps)))
        self._count_sent()
        rc_us = sample.rc_us
        if rc_us is not None and (
            rc_us != self._rc_us or sample.t_ns - self._rc_ns >= _RC_PERIOD_NS
        ):
            self._rc_us = rc_us
            self._rc_ns = sample.t_ns
            self._send_rc(rc_packet(sample.t_ns, rc_us))

    def program_ended(self) -> None:
        """Take the motors of the next one, whichever port it has."""
        self._peer.bound.let_go()

    def close(self) -> None:
        """Close the sockets."""
        for one in (self._socket, self._states):
            if one is not None:
                one.close()
        self._socket = self._states = None

    def _take(self, data: bytes, sender: PeerAddress) -> None:
        if not self._has_state:
            self._unasked += 1  # it answers states only
        elif self._peer.takes(sender):
            motors = shares(_MOTORS.unpack(data))
            self._heard(motors, armed=any(motors))

    def _stop(self, state: LinkState) -> None:
        super()._stop(state)
        self._peer.bound.let_go()

    def _is_up(self) -> bool:
        """Return True once its port has been open for as long as its start takes."""
        now_ns = machine_ns()
        if self._up_ns is not None and now_ns - self._up_ns >= _START_UP_NS:
            return True
        if now_ns - self._probed_ns >= _PROBE_NS:
            self._probed_ns = now_ns
            self._up_ns = self._up_ns or now_ns
            self._send_state(_PROBE)
        return False

    def _send_state(self, data: bytes) -> bool:
        """Send to its port of states; return False where what was sent before was refused."""
        assert self._states is not None
        try:
            self._states.send(data)
        except OSError:  # it has not started, or has ended
            self._up_ns = None
            self._has_state = False
            self._peer.bound.let_go()
            return False
        return True

    def _send_rc(self, data: bytes) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError):  # it has ended
            self._socket.sendto(data, (self._host, RC_PORT))


def state_packet(sample: AutopilotSample) -> bytes:
    """Return a vehicle's state.

    Rates are those of a body forward, right, down; the acceleration is the negative specific force
    of one forward, left, up, since the firmware turns all three signs; velocities are east, north,
    up.
    """
    motion = sample.motion
    imu = sample.imu
    _, q_wxyz = coordinates(mavlink.FRAME_LOCAL_NED, motion.p_world_m, motion.q_world_body)
    fx, fy, fz = imu.f_body_mps2
    gps = sample.gps
    place = (0.0, 0.0, motion.p_world_m[2])
    if gps is not None:
        place = (gps.longitude_deg, gps.latitude_deg, gps.altitude_m)
    return _STATE.pack(
        sample.t_ns / NS_PER_S,
        *to_frd(imu.w_body_radps),
        *(-fx, -fy, -fz),
        *q_wxyz,
        *motion.v_world_mps,
        *place,
        sample.barometer.pressure_pa,
    )


def rc_packet(t_ns: int, channels_us: tuple[int, ...]) -> bytes:
    """Return the remote control's channels: roll, pitch, throttle, yaw, then the switches."""
    roll, pitch, throttle, yaw, *switches = channels_us
    ordered = [roll, pitch, throttle, yaw, *switches][:_CHANNELS]
    return _RC.pack(t_ns / NS_PER_S, *ordered, *[_LOW_US] * (_CHANNELS - len(ordered)))
