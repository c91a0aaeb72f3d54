"""VRPN bytes to values and back, without I/O (big-endian throughout).

A connection begins with a 24-byte cookie from either side. Then come messages: a 24-byte header
(length, stamp, sender id, type id, sequence number) and a payload padded to a multiple of 8. What
the ids mean is defined by descriptions, messages of negative type, for each direction on its own.
Source: https://github.com/vrpn/vrpn, version 7.38.
"""

from __future__ import annotations

import math
from struct import Struct
from typing import Final, NamedTuple

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ProtocolError

COOKIE_BYTES: Final = 24
HEADER_BYTES: Final = 24
MAX_MESSAGE_BYTES: Final = 1 << 16
_MAGIC: Final = b"vrpn: ver. "
_MAJOR: Final = b"07"
_VERSION_END: Final = 16
COOKIE: Final = b"vrpn: ver. 07.38  0".ljust(COOKIE_BYTES, b"\0")

SENDER_DESCRIPTION: Final = -1
TYPE_DESCRIPTION: Final = -2
SYSTEM_TYPES: Final = range(-5, 0)
"""Descriptions of senders, types, UDP ports and logs, and the end of a log."""

POSE: Final = "vrpn_Tracker Pos_Quat"
VELOCITY: Final = "vrpn_Tracker Velocity"
PING: Final = "vrpn_Base ping_message"
PONG: Final = "vrpn_Base pong_message"

_HEADER: Final = Struct(">IIIiiI")
_NAME_SIZE: Final = Struct(">I")
_POSE: Final = Struct(">i4x3d4d")
_VELOCITY: Final = Struct(">i4x3d4dd")
_MAX_NAME_BYTES: Final = 512
_MAX_SENSOR: Final = 1 << 16
_US_PER_S: Final = 1_000_000
_MAX_CONNECT_REQUEST_BYTES: Final = 128

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


class VrpnMessage(NamedTuple):
    """One message; ``t_ns`` is the sender's clock (Unix time by convention, whole microseconds)."""

    type: int
    sender: int
    t_ns: int
    payload: bytes = b""
    sequence: int = 0


class TrackerPose(NamedTuple):
    """Tracker pose in the server's unit and axes.

    Not finite and not normalised unless the server made it so.
    """

    sensor: int
    p: Vector
    q_xyzw: Quaternion


class Velocity(NamedTuple):
    """Tracker velocity in the server's unit per second; ``q_xyzw`` is the turn within ``dt_s``."""

    sensor: int
    v: Vector
    q_xyzw: Quaternion
    dt_s: float


def decode_cookie(data: bytes) -> str:
    """Return the version of the peer, such as ``07.38``; minor versions may differ.

    Raises:
        ProtocolError: this is not a VRPN peer, or one of another major version.
    """
    if len(data) != COOKIE_BYTES:
        raise ProtocolError("cookie truncated", offset=len(data), length=COOKIE_BYTES)
    if not data.startswith(_MAGIC + _MAJOR + b"."):
        raise ProtocolError(f"no cookie of VRPN 7: {data!r}", offset=0, length=COOKIE_BYTES)
    return data[len(_MAGIC) : _VERSION_END].decode("ascii", "replace").strip(" \0")


def message_bytes(header: bytes) -> int:
    """Return the size of a message on the wire, padding included, from its first four bytes.

    Raises:
        ProtocolError: fewer than four bytes, or a length that no message has.
    """
    if len(header) < _NAME_SIZE.size:
        raise ProtocolError("header truncated", offset=0, length=len(header))
    (length,) = _NAME_SIZE.unpack_from(header)
    if not HEADER_BYTES <= length <= MAX_MESSAGE_BYTES:
        raise ProtocolError(f"message of {length} bytes", offset=0, length=len(header))
    return _padded(length)


def decode_message(data: bytes) -> VrpnMessage:
    """Decode one whole message of the size that :func:`message_bytes` returned.

    Raises:
        ProtocolError: it is shorter or longer, or its stamp or type is impossible.
    """
    if len(data) < HEADER_BYTES or len(data) != message_bytes(data):
        raise ProtocolError("message truncated", offset=0, length=len(data))
    length, seconds, microseconds, sender, kind, sequence = _HEADER.unpack_from(data)
    if microseconds >= _US_PER_S:
        raise ProtocolError(f"{microseconds} microseconds", offset=8, length=len(data))
    if kind < 0 and kind not in SYSTEM_TYPES:
        raise ProtocolError(f"system message {kind}", offset=16, length=len(data))
    return VrpnMessage(
        kind, sender, seconds * NS_PER_S + microseconds * 1000, data[HEADER_BYTES:length], sequence
    )


def encode_message(message: VrpnMessage) -> bytes:
    """Encode one message, padded.

    Raises:
        ValueError: the payload is too long.
    """
    length = HEADER_BYTES + len(message.payload)
    if length > MAX_MESSAGE_BYTES:
        raise ValueError(f"{length} bytes do not fit into a message ({MAX_MESSAGE_BYTES})")
    seconds, ns = divmod(message.t_ns, NS_PER_S)
    sequence = message.sequence & 0xFFFFFFFF
    header = _HEADER.pack(
        length, seconds & 0xFFFFFFFF, ns // 1000, message.sender, message.type, sequence
    )
    return (header + message.payload).ljust(_padded(length), b"\0")


def decode_name(payload: bytes) -> str:
    """Name in a description of a sender or a type.

    Raises:
        ProtocolError: its length is wrong or it has no end.
    """
    if len(payload) < _NAME_SIZE.size:
        raise ProtocolError("name truncated", offset=0, length=len(payload))
    (size,) = _NAME_SIZE.unpack_from(payload)
    name = payload[_NAME_SIZE.size :]
    if not (0 < size == len(name) <= _MAX_NAME_BYTES and name.endswith(b"\0")):
        raise ProtocolError(f"name of {size} bytes", offset=0, length=len(payload))
    return name.split(b"\0", 1)[0].decode("utf-8", "replace")


def encode_name(name: str) -> bytes:
    """Encode payload of a description."""
    data = name.encode()[: _MAX_NAME_BYTES - 1] + b"\0"
    return _NAME_SIZE.pack(len(data)) + data


def decode_pose(payload: bytes) -> TrackerPose:
    """Decode payload of a pose.

    Raises:
        ProtocolError: another length, or an impossible sensor.
    """
    sensor, *values = _unpack(_POSE, payload)
    px, py, pz, qx, qy, qz, qw = values
    return TrackerPose(_sensor(sensor, payload), (px, py, pz), (qx, qy, qz, qw))


def encode_pose(pose: TrackerPose) -> bytes:
    """Encode payload of a pose."""
    return _POSE.pack(pose.sensor, *pose.p, *pose.q_xyzw)


def decode_velocity(payload: bytes) -> Velocity:
    """Decode payload of a velocity.

    Raises:
        ProtocolError: another length, an impossible sensor, or a value that is not finite.
    """
    sensor, *values = _unpack(_VELOCITY, payload)
    if not all(map(math.isfinite, values)):
        raise ProtocolError("velocity that is not finite", offset=8, length=len(payload))
    vx, vy, vz, qx, qy, qz, qw, dt_s = values
    return Velocity(_sensor(sensor, payload), (vx, vy, vz), (qx, qy, qz, qw), dt_s)


def encode_velocity(velocity: Velocity) -> bytes:
    """Encode payload of a velocity."""
    return _VELOCITY.pack(velocity.sensor, *velocity.v, *velocity.q_xyzw, velocity.dt_s)


def decode_connect_request(datagram: bytes) -> tuple[str, int]:
    """Return address and TCP port of a client that asks for a connection.

    Raises:
        ProtocolError: it is not "address port".
    """
    words = datagram[:_MAX_CONNECT_REQUEST_BYTES].split(b"\0", 1)[0].split()
    if (
        len(words) != 2
        or not words[1].isdigit()
        or not 0 < int(words[1][:9]) < 1 << 16
        or not words[0].isascii()
    ):
        raise ProtocolError("no request for a connection", offset=0, length=len(datagram))
    return words[0].decode("ascii"), int(words[1])


def encode_connect_request(address: str, port: int) -> bytes:
    """Encode the datagram that asks a server to connect to us."""
    return f"{address} {port}".encode() + b"\0"


def _unpack(layout: Struct, payload: bytes) -> tuple[float, ...]:
    if len(payload) != layout.size:
        raise ProtocolError(f"{layout.size} bytes wanted", offset=0, length=len(payload))
    return layout.unpack(payload)


def _sensor(number: float, payload: bytes) -> int:
    if not 0 <= number < _MAX_SENSOR:
        raise ProtocolError(f"sensor {number}", offset=0, length=len(payload))
    return int(number)


def _padded(length: int) -> int:
    return -(-length // 8) * 8
