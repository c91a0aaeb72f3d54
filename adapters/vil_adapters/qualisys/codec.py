"""Packets of QTM's real-time protocol (little-endian port), both ways; pure functions.

A packet is its size with this header (u32), a type (u32) and a body. A data packet holds a time
stamp (i64, microseconds since the measurement began), a frame number (u32), a count of components
(u32) and the components, each with its size and type in front.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ProtocolError

DISCOVERY_PORT: Final = 22226
PACKET_LIMIT_BYTES: Final = 4 << 20
"""More than any set of bodies, skeletons or parameters takes.

A larger size means that the stream is broken.
"""

LARGEST_DATAGRAM_BYTES: Final = 65_507
"""Payload of the largest UDP datagram over IPv4."""

_HEADER: Final = Struct("<II")
_DATA: Final = Struct("<qII")
_COUNT: Final = Struct("<i")
_6D: Final = Struct("<iHH")
_PORT: Final = Struct(">H")
_COMPONENT_6D: Final = 5
_COMPONENT_SKELETON: Final = 18

Records = npt.NDArray[np.void]
_BODY: Final = np.dtype([("p_mm", "<f4", 3), ("R_columns", "<f4", 9)])
_SEGMENT: Final = np.dtype([("id", "<i4"), ("p_mm", "<f4", 3), ("q_xyzw", "<f4", 4)])


class PacketType(IntEnum):
    """Type of a packet."""

    ERROR = 0
    COMMAND = 1
    XML = 2
    DATA = 3
    NO_MORE_DATA = 4
    EVENT = 6
    DISCOVER = 7


class Event(IntEnum):
    """Body of an event packet; the others are passed over."""

    CONNECTED = 1
    CAPTURE_STARTED = 3
    CAMERA_SETTINGS_CHANGED = 11


@dataclass(frozen=True, slots=True, eq=False)
class DataFrame:
    """One frame as streamed: millimetres, axes and order of the server.

    Attributes:
        t_us: since the measurement, or its playback, began.
        bodies: records ``p_mm`` and ``R_columns`` (world from body, column by column), NaN where
            untracked; None without this component.
        skeletons: records ``id``, ``p_mm``, ``q_xyzw`` of each, empty where not solved; None as
            above.
    """

    t_us: int
    number: int
    bodies: Records | None = None
    skeletons: tuple[Records, ...] | None = None


def body_records(count: int) -> Records:
    """Return empty records of bodies, all untracked."""
    records = np.empty(count, _BODY)
    records["p_mm"] = records["R_columns"] = np.nan
    return records


def segment_records(count: int) -> Records:
    """Return empty records of the segments of one skeleton."""
    return np.zeros(count, _SEGMENT)


# --- packets -------------------------------------------------------------------------------------


def encode_packet(kind: PacketType, body: bytes = b"") -> bytes:
    """Encode a packet with its header."""
    return _HEADER.pack(_HEADER.size + len(body), kind) + body


def encode_text(kind: PacketType, text: str) -> bytes:
    """Encode an error, a command, a reply or parameters: text that ends with NUL."""
    return encode_packet(kind, text.encode() + b"\0")


class Framing:
    """Splitter of a byte stream into packets."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Add bytes; yield type and whole packet, header included, of each packet that is complete.

        Raises:
            ProtocolError: a size that no packet has; nothing after it can be read.
        """
        rest = self._rest
        rest += data
        offset = 0
        try:
            while len(rest) - offset >= _HEADER.size:
                size, kind = _HEADER.unpack_from(rest, offset)
                if not _HEADER.size <= size <= PACKET_LIMIT_BYTES:
                    raise ProtocolError(
                        f"a packet of {size} bytes", offset=offset, length=len(rest)
                    )
                if len(rest) - offset < size:
                    return
                packet = bytes(rest[offset : offset + size])
                offset += size
                yield kind, packet
        finally:
            del rest[:offset]


# --- data ----------------------------------------------------------------------------------------


def encode_data(frame: DataFrame) -> bytes:
    """Encode the body of a data packet."""
    return _joined(frame, _components(frame))


def encode_data_in_datagrams(frame: DataFrame) -> list[bytes]:
    """Encode the bodies of the data packets of one frame, each with as many components as a
    datagram holds.

    A component that is larger than a datagram is alone in its body.
    """
    packets: list[list[bytes]] = []
    room = 0
    for component in _components(frame):
        if len(component) > room:
            packets.append([])
            room = LARGEST_DATAGRAM_BYTES - _HEADER.size - _DATA.size
        packets[-1].append(component)
        room -= len(component)
    return [_joined(frame, components) for components in packets]


def _components(frame: DataFrame) -> list[bytes]:
    components = []
    if frame.bodies is not None:
        head = _6D.pack(len(frame.bodies), 0, 0)
        components.append((_COMPONENT_6D, head + frame.bodies.tobytes()))
    if frame.skeletons is not None:
        skeletons = b"".join(
            _COUNT.pack(len(segments)) + segments.tobytes() for segments in frame.skeletons
        )
        components.append((_COMPONENT_SKELETON, _COUNT.pack(len(frame.skeletons)) + skeletons))
    return [_HEADER.pack(_HEADER.size + len(body), kind) + body for kind, body in components]


def _joined(frame: DataFrame, components: list[bytes]) -> bytes:
    return _DATA.pack(frame.t_us, frame.number, len(components)) + b"".join(components)


def decode_data(body: bytes) -> DataFrame:
    """Read the body of a data packet; components that are not known are passed over by their size.

    Raises:
        ProtocolError: it is shorter than its own sizes say.
    """
    if len(body) < _DATA.size:
        raise ProtocolError("data packet truncated", offset=0, length=len(body))
    t_us, number, count = _DATA.unpack_from(body)
    offset = _DATA.size
    bodies: Records | None = None
    skeletons: tuple[Records, ...] | None = None
    for _ in range(count):
        if len(body) - offset < _HEADER.size:
            raise ProtocolError("component truncated", offset=offset, length=len(body))
        size, kind = _HEADER.unpack_from(body, offset)
        if not _HEADER.size <= size <= len(body) - offset:
            raise ProtocolError(f"component of {size} bytes", offset=offset, length=len(body))
        component = memoryview(body)[offset + _HEADER.size : offset + size]
        if kind == _COMPONENT_6D:
            bodies = _decode_6d(component)
        elif kind == _COMPONENT_SKELETON:
            skeletons = _decode_skeletons(component)
        offset += size
    if offset != len(body):
        raise ProtocolError("bytes after the last component", offset=offset, length=len(body))
    return DataFrame(t_us, number, bodies, skeletons)


def _decode_6d(component: memoryview) -> Records:
    if len(component) < _6D.size:
        raise ProtocolError("6D component truncated", offset=0, length=len(component))
    count, _drop_rate, _out_of_sync_rate = _6D.unpack_from(component)
    return _records(component, _BODY, count, _6D.size)


def _decode_skeletons(component: memoryview) -> tuple[Records, ...]:
    skeletons: list[Records] = []
    offset = _COUNT.size
    for _ in range(_count(component, 0)):
        count = _count(component, offset)
        skeletons.append(_records(component, _SEGMENT, count, offset + _COUNT.size))
        offset += _COUNT.size + count * _SEGMENT.itemsize
    return tuple(skeletons)


def _count(component: memoryview, offset: int) -> int:
    if len(component) - offset < _COUNT.size:
        raise ProtocolError("count truncated", offset=offset, length=len(component))
    count = int(_COUNT.unpack_from(component, offset)[0])
    if count < 0:
        raise ProtocolError(f"{count} announced", offset=offset, length=len(component))
    return count


def _records(component: memoryview, dtype: np.dtype[Any], count: int, offset: int) -> Records:
    if not 0 <= count <= (len(component) - offset) // dtype.itemsize:
        raise ProtocolError(f"{count} records announced", offset=offset, length=len(component))
    return np.frombuffer(component, dtype, count, offset)


# --- discovery -----------------------------------------------------------------------------------


def encode_discovery_request(reply_port: int) -> bytes:
    """Encode the datagram that servers answer, with the port for the answer."""
    return encode_packet(PacketType.DISCOVER, _PORT.pack(reply_port))


def decode_discovery_request(datagram: bytes) -> int:
    """Return the port that the answer goes to.

    Raises:
        ProtocolError: it is something else.
    """
    if len(datagram) != _HEADER.size + _PORT.size or _HEADER.unpack_from(datagram) != (
        len(datagram),
        7,
    ):
        raise ProtocolError("no discovery request", length=len(datagram))
    return int(_PORT.unpack_from(datagram, _HEADER.size)[0])


def encode_discovery_reply(info: str, base_port: int) -> bytes:
    """Encode the answer of a server.

    Its title and its base port, one below the little-endian one.
    """
    return encode_packet(PacketType.DISCOVER, info.encode() + b"\0" + _PORT.pack(base_port))


def decode_discovery_reply(datagram: bytes) -> tuple[str, int]:
    """Return title and base port of an answer.

    Raises:
        ProtocolError: it is something else.
    """
    if len(datagram) < _HEADER.size + 1 + _PORT.size:
        raise ProtocolError("discovery reply truncated", length=len(datagram))
    size, kind = _HEADER.unpack_from(datagram)
    text, nul, _ = datagram[_HEADER.size : -_PORT.size].partition(b"\0")
    if kind != PacketType.DISCOVER or size != len(datagram) or not nul:
        raise ProtocolError("no discovery reply", length=len(datagram))
    return text.decode(errors="replace"), int(_PORT.unpack_from(datagram, size - _PORT.size)[0])
