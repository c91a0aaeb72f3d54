"""Programs at the far end of an autopilot's link that answer at once and check nothing.

They hold a height.

Each is the target of a child process. It measures its own turn, from a sample's arrival to the
answer's departure.
"""

from __future__ import annotations

import socket
import time
from binascii import crc_hqx
from multiprocessing.connection import Connection
from struct import Struct
from typing import Final

_RETRY_S: Final = 0.01
_READ_BYTES: Final = 65536
_HEIGHT_M: Final = 1.5
_HOVER: Final = 0.515
"""Motors' share at which FlightGoggles' quadcopter hovers."""
_PER_M = 0.05
_PER_MPS = 0.06
_LEAST = 0.3
_MOST = 0.7
_STANDARD_GRAVITY_MPS2: Final = 9.80665
_FOLLOWS_1_S = 2.0
_FOLLOWS_1_S2 = 1.0
"""Shares of the barometer's difference that the estimates of height and climb take up in a
second.
"""

_MAGIC = 0xFD
_HEADER = 10
_CHECKSUM = 2
_SENSOR = 107
_FIELDS: Final = Struct("<Q13f")
"""Of HIL_SENSOR: the time, then acceleration 0-2, and the barometer's altitude at 11."""
_CONTROLS: Final = Struct("<QQ4f48xB")
_CONTROLS_EXTRA: Final = 47
_HEAD: Final = bytes((_CONTROLS.size, 0, 0, 0, 1, 1, 93, 0, 0))
_ARMED = 129
_LOCKSTEP = 1
_MIRROR: Final = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))
_OPENING_CRC: Final = crc_hqx(_HEAD.translate(_MIRROR), 0xFFFF)

_SERVOS: Final = Struct("<HHI16H")
_SERVOS_MAGIC: Final = 18458
_AGAIN_S: Final = 0.2


def px4_peer(conn: Connection, port: int) -> None:
    """Answer each HIL_SENSOR until the link closes; report the microseconds of each turn."""
    conn.send("ready")
    link = _connected(port)
    turns_us = []
    pilot = _Pilot()
    first_m = None
    pending = b""
    while data := _received(link):
        begun_ns = time.monotonic_ns()
        pending = pending + data
        answer = b""
        while len(pending) > _HEADER and len(pending) >= (size := _HEADER + pending[1] + _CHECKSUM):
            if pending[7] == _SENSOR:
                payload = pending[_HEADER : size - _CHECKSUM].ljust(_FIELDS.size, b"\0")
                time_us, _, _, down_mps2, *_, altitude_m, _ = _FIELDS.unpack_from(payload)
                first_m = altitude_m if first_m is None else first_m
                pilot.measure(
                    altitude_m - first_m, -down_mps2 - _STANDARD_GRAVITY_MPS2, time_us / 1e6
                )
                answer = controls_frame(time_us, pilot.share)
            pending = pending[size:]
        if answer:
            link.sendall(answer)
            turns_us.append((time.monotonic_ns() - begun_ns) / 1e3)
    conn.send(turns_us)
    conn.recv()


def ardupilot_peer(conn: Connection, port: int, rate_hz: int) -> None:
    """Send servo outputs, and the next ones as each line comes, until the pipe ends it.

    Report as :func:`px4_peer`.
    """
    conn.send("ready")
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.connect(("127.0.0.1", port))
    link.settimeout(_AGAIN_S)
    turns_us = []
    frame = 0
    share = 0.0
    begun_ns = None
    while not conn.poll():
        pulse_us = round(1000 + 1000 * share)
        try:
            link.send(
                _SERVOS.pack(_SERVOS_MAGIC, rate_hz, frame, *([pulse_us] * 4), *([1000] * 12))
            )
            if begun_ns is not None:
                turns_us.append((time.monotonic_ns() - begun_ns) / 1e3)
            line = link.recv(_READ_BYTES)
        except OSError:  # the port is closed yet, or the line is late: ask again
            begun_ns = None
            time.sleep(_RETRY_S)
            continue
        begun_ns = time.monotonic_ns()
        height_m, climb_mps = (
            -float(line.split(key, 1)[1].split(b"]", 1)[0].split(b",")[2]) for key in _STATE
        )
        share = _share(height_m, climb_mps)
        frame += 1
    conn.recv()
    conn.send(turns_us)
    conn.recv()


_STATE: Final = (b'"position":[', b'"velocity":[')


class _Pilot:
    """Estimate of height and climb from a barometer and an accelerometer, and the motors' share
    that holds a height.
    """

    def __init__(self) -> None:
        self._height_m = self._climb_mps = 0.0
        self._t_s: float | None = None

    @property
    def share(self) -> float:
        """Return the motors' outputs, 0 to 1."""
        return _share(self._height_m, self._climb_mps)

    def measure(self, height_m: float, up_mps2: float, t_s: float) -> None:
        """Take a sample."""
        dt_s = 0.0 if self._t_s is None else t_s - self._t_s
        off_m = height_m - self._height_m
        self._height_m += (self._climb_mps + _FOLLOWS_1_S * off_m) * dt_s
        self._climb_mps += (up_mps2 + _FOLLOWS_1_S2 * off_m) * dt_s
        self._t_s = t_s


def _share(height_m: float, climb_mps: float) -> float:
    return min(max(_HOVER + _PER_M * (_HEIGHT_M - height_m) - _PER_MPS * climb_mps, _LEAST), _MOST)


def _received(link: socket.socket) -> bytes:
    """Return what has come; nothing once the bridge has closed the link."""
    try:
        return link.recv(_READ_BYTES)
    except ConnectionResetError:
        return b""


def controls_frame(time_us: int, share: float) -> bytes:
    """Return HIL_ACTUATOR_CONTROLS of four motors as a MAVLink frame."""
    payload = _CONTROLS.pack(time_us, _LOCKSTEP, share, share, share, share, _ARMED)
    crc = crc_hqx((payload + bytes((_CONTROLS_EXTRA,))).translate(_MIRROR), _OPENING_CRC)
    return bytes((_MAGIC,)) + _HEAD + payload + bytes((_MIRROR[crc >> 8], _MIRROR[crc & 0xFF]))


def _connected(port: int) -> socket.socket:
    """Return a connection to the bridge's port, once it listens."""
    while True:
        try:
            link = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(_RETRY_S)
            continue
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link
