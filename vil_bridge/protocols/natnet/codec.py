"""NatNet messages other than frames and descriptions: bytes to values and back, without I/O.

A datagram is a header (u16 message id, u16 payload bytes) and its payload, little-endian, packed.
Every decoder takes the whole datagram and raises :class:`ProtocolError` with the offset in it.
Offsets in layouts below count from the start of the payload. Versions are tuples (major, minor,
build, revision) and compare as such.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address
from struct import Struct
from typing import Final

from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.natnet.reader import HEADER_BYTES, DatagramReader

Version = tuple[int, int, int, int]

NEWEST: Final[Version] = (4, 2, 0, 0)
"""Newest layout that this codec knows; 4.3 is the same as far as public samples go."""

OLDEST: Final[Version] = (2, 5, 0, 0)
"""Oldest layout that this codec knows: Motive 1.5."""

TICKS_SINCE: Final = (3, 0)
"""Servers announce their transmission mode and the ticks of their clock, and answer echoes."""

BITSTREAM_SINCE: Final = (4, 0)
"""Unicast clients may choose a layout."""

SIZED_SINCE: Final = (4, 1)
"""Sections contain their size."""

MAX_PAYLOAD_BYTES: Final = 65503
_NAME_BYTES: Final = 256
_CONNECT_SHORT: Final = 264
_CONNECT_LONG: Final = 269

_HEADER: Final = Struct("<HH")
_VERSIONS: Final = Struct("<4B4B")
_SERVER_TAIL: Final = Struct("<QHB4s")
_SUBSCRIPTION: Final = Struct("<B4B")
_U64: Final = Struct("<Q")
_U64_PAIR: Final = Struct("<QQ")
_F32: Final = Struct("<f")


class MessageId(IntEnum):
    """First field of every datagram."""

    CONNECT = 0
    SERVERINFO = 1
    REQUEST = 2
    RESPONSE = 3
    REQUEST_MODELDEF = 4
    MODELDEF = 5
    REQUEST_FRAMEOFDATA = 6
    FRAMEOFDATA = 7
    MESSAGESTRING = 8
    DISCONNECT = 9
    KEEPALIVE = 10
    DISCONNECTBYTIMEOUT = 11
    ECHOREQUEST = 12
    ECHORESPONSE = 13
    DISCOVERY = 14
    UNRECOGNIZED_REQUEST = 100


def message_id(datagram: bytes) -> int:
    """Return the message id of a datagram whose header has its true length.

    Unknown ids are returned too.
    """
    if len(datagram) < HEADER_BYTES:
        raise ProtocolError("header truncated", offset=0, length=len(datagram))
    identity, size = _HEADER.unpack_from(datagram)
    if size != len(datagram) - HEADER_BYTES:
        raise ProtocolError(
            f"the header announces {size} payload bytes", offset=2, length=len(datagram)
        )
    return int(identity)


def encode(identity: MessageId, payload: bytes = b"") -> bytes:
    """Encode one datagram.

    Raises:
        ValueError: the payload does not fit.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"{identity.name}: {len(payload)} bytes do not fit into a datagram "
            f"({MAX_PAYLOAD_BYTES})"
        )
    return _HEADER.pack(identity, len(payload)) + payload


def parse_version(text: str) -> Version:
    """Parse ``"4.1"`` to (4, 1, 0, 0).

    Raises:
        ValueError: the text is not one to four numbers of 0 to 255 with points between them.
    """
    parts = [int(part) for part in text.split(".")]
    if len(parts) > 4 or not all(0 <= part <= 255 for part in parts):
        raise ValueError(f"{text!r} is not a version")
    major, minor, build, revision = parts + [0] * (4 - len(parts))
    return major, minor, build, revision


# --- handshake ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connect:
    """Announcement of a client (CONNECT, DISCOVERY).

    Attributes:
        bitstream: wanted version of the stream (4.x); None or zeros = the server's own.
    """

    name: str = ""
    app_version: Version = (0, 0, 0, 0)
    natnet_version: Version = (0, 0, 0, 0)
    subscribed_only: bool = False
    bitstream: Version | None = None


def encode_connect(connect: Connect, identity: MessageId = MessageId.CONNECT) -> bytes:
    """Encode CONNECT or DISCOVERY: 264 payload bytes without, 269 with a wanted version."""
    payload = _name_field(connect.name) + _VERSIONS.pack(
        *connect.app_version, *connect.natnet_version
    )
    if connect.bitstream is not None:
        payload += _SUBSCRIPTION.pack(connect.subscribed_only, *connect.bitstream)
    return encode(identity, payload)


def decode_connect(datagram: bytes) -> Connect:
    """Decode CONNECT or DISCOVERY.

    Empty, a short text (``Ping``, old samples), 264 bytes, or 269 and more.
    """
    reader = DatagramReader(datagram)
    if not reader.left:
        return Connect()
    if reader.left < _NAME_BYTES:
        name = reader.text()
        reader.finish()
        return Connect(name)
    if reader.left != _CONNECT_SHORT and reader.left < _CONNECT_LONG:
        raise reader.error(f"connection request of {reader.left} bytes")
    name = _read_name(reader)
    versions = reader.take(_VERSIONS)
    if not reader.left:
        return Connect(name, _version(versions[:4]), _version(versions[4:]))
    subscribed, *wanted = reader.take(_SUBSCRIPTION)
    return Connect(
        name, _version(versions[:4]), _version(versions[4:]), bool(subscribed), _version(wanted)
    )


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Announcement of a server (SERVERINFO).

    Attributes:
        natnet_version: decides the layout of frames and descriptions.
        ticks_per_s: of the server's high-resolution clock; 0 = unknown (2.x).
        group: multicast group; meaningful when ``multicast``.
    """

    name: str
    app_version: Version
    natnet_version: Version
    ticks_per_s: int = 0
    data_port: int = 1511
    multicast: bool = True
    group: str = "239.255.42.99"


def encode_server_info(info: ServerInfo, stale: bytes = b"") -> bytes:
    """Encode SERVERINFO; ``stale`` fills the name field after its end, as Motive leaves it."""
    payload = _name_field(info.name, stale) + _VERSIONS.pack(
        *info.app_version, *info.natnet_version
    )
    if info.natnet_version >= TICKS_SINCE:
        payload += _SERVER_TAIL.pack(
            info.ticks_per_s, info.data_port, info.multicast, socket.inet_aton(info.group)
        )
    return encode(MessageId.SERVERINFO, payload)


def decode_server_info(datagram: bytes) -> ServerInfo:
    """Decode SERVERINFO: 264 bytes in 2.x, 279 or more from 3.0 on."""
    reader = DatagramReader(datagram)
    name = _read_name(reader)
    versions = reader.take(_VERSIONS)
    app_version = _version(versions[:4])
    natnet_version = _version(versions[4:])
    if natnet_version < TICKS_SINCE:
        return ServerInfo(name, app_version, natnet_version)
    ticks_per_s, data_port, multicast, packed_group = reader.take(_SERVER_TAIL)
    group = IPv4Address(packed_group)
    if not data_port or (multicast and not group.is_multicast):
        raise ProtocolError(
            f"server announces {group}:{data_port}", offset=HEADER_BYTES + 272, length=len(datagram)
        )
    return ServerInfo(
        name, app_version, natnet_version, ticks_per_s, data_port, bool(multicast), str(group)
    )


def _name_field(name: str, stale: bytes = b"") -> bytes:
    field = name.encode()[: _NAME_BYTES - 1] + b"\0"
    return (field + stale)[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0")


def _read_name(reader: DatagramReader) -> str:
    start = reader.skip(_NAME_BYTES)
    field = reader.data[start : start + _NAME_BYTES]
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def _version(numbers: tuple[int, ...] | list[int]) -> Version:
    major, minor, build, revision = numbers
    return major, minor, build, revision


# --- clock -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EchoReply:
    """The client's own stamp, returned, and the server's ticks when it came in."""

    client: int
    ticks: int


def encode_echo_request(client: int) -> bytes:
    """Encode ECHOREQUEST with any 64-bit stamp of the client's."""
    return encode(MessageId.ECHOREQUEST, _U64.pack(client))


def decode_echo_request(datagram: bytes) -> int:
    """Return the client's stamp."""
    reader = DatagramReader(datagram)
    client: int = reader.take(_U64)[0]
    reader.finish()
    return client


def encode_echo_reply(reply: EchoReply) -> bytes:
    """Encode ECHORESPONSE."""
    return encode(MessageId.ECHORESPONSE, _U64_PAIR.pack(reply.client, reply.ticks))


def decode_echo_reply(datagram: bytes) -> EchoReply:
    """Decode ECHORESPONSE."""
    reader = DatagramReader(datagram)
    client, ticks = reader.take(_U64_PAIR)
    reader.finish()
    return EchoReply(client, ticks)


# --- commands ----------------------------------------------------------------------------------


def encode_text(identity: MessageId, text: str) -> bytes:
    """Encode a REQUEST, a RESPONSE or a MESSAGESTRING that is one string."""
    return encode(identity, text.encode() + b"\0")


def decode_text(datagram: bytes) -> str:
    """Decode the string of a REQUEST, a RESPONSE or a MESSAGESTRING."""
    return DatagramReader(datagram).text()


def response_f32(datagram: bytes) -> float:
    """Return the number of a RESPONSE to FrameRate or UnitsToMillimeters."""
    reader = DatagramReader(datagram)
    value: float = reader.take(_F32)[0]
    reader.finish()
    return value


def response_i32(datagram: bytes) -> int:
    """Return the number of a RESPONSE to most commands; 0 = done."""
    reader = DatagramReader(datagram)
    value = reader.i32()
    reader.finish()
    return value


def bitstream_reply(datagram: bytes) -> Version | None:
    """Return the version in a RESPONSE to ``Bitstream``.

    None when the RESPONSE answers something else.
    """
    command, _, version = decode_text(datagram).partition(",")
    if command != "Bitstream":
        return None
    try:
        return parse_version(version)
    except ValueError as exc:
        raise ProtocolError(f"bitstream {exc}", offset=HEADER_BYTES, length=len(datagram)) from None
