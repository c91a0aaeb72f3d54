"""CGStream: packets of blocks over TCP, and what client and server ask of each other.

Pure functions, bytes in, values out. Unknown blocks are stored by their type and skipped by their
length (vicon_datastream.md section 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Generic, TypeVar

from vil_adapters.vicon.layout import ValueLayout, mapping, number, record, set_of
from vil_bridge.core.errors import ProtocolError

T = TypeVar("T")

_OBJECTS: Final = 0x1A2B0001
_HEADER: Final = Struct("<II")
MAX_PACKET_BYTES: Final = 64 << 20
_MAX_BLOCKS: Final = 1 << 16

Blocks = Mapping[int, list[bytes]]
"""Bodies of a packet's blocks, by type, in their order."""


@dataclass(frozen=True, slots=True)
class Block(Generic[T]):
    """One type of block and the layout of its body; newer servers may append to it."""

    type: int
    body: ValueLayout[T]

    def decode(self, body: bytes) -> T:
        """Decode raises ProtocolError when the body is too short for its own counts."""
        return self.body.read(body, 0)[0]

    def encode(self, value: T) -> bytes:
        """Encode the whole block, header included."""
        body = self.body.write(value)
        return _HEADER.pack(self.type, len(body)) + body

    def first(self, blocks: Blocks) -> T | None:
        """Return the first block of this type, None without one.

        Raises ProtocolError as ``decode``.
        """
        bodies = blocks.get(self.type)
        return self.decode(bodies[0]) if bodies else None

    def all(self, blocks: Blocks) -> list[T]:
        """Return every block of this type. Raises ProtocolError as ``decode``."""
        return [self.decode(body) for body in blocks.get(self.type, ())]


def types(*blocks: Block[Any]) -> frozenset[int]:
    """Return the types of several blocks."""
    return frozenset(block.type for block in blocks)


# --- packets ------------------------------------------------------------------------------------


def encode_packet(*blocks: bytes) -> bytes:
    """Encode blocks with their headers to one packet."""
    content = b"".join(blocks)
    return _HEADER.pack(_OBJECTS, len(content)) + content


def split_packet(content: bytes) -> Blocks:
    """Split the content of a packet into blocks by type.

    Raises:
        ProtocolError: a block is longer than the packet, or there are too many.
    """
    found: dict[int, list[bytes]] = {}
    at = 0
    end = len(content)
    count = 0
    while at < end:
        if end - at < _HEADER.size:
            raise ProtocolError("block header truncated", offset=at, length=end)
        kind, size = _HEADER.unpack_from(content, at)
        at += _HEADER.size
        if size > end - at:
            raise ProtocolError(f"block {kind} of {size} bytes truncated", offset=at, length=end)
        count += 1
        if count > _MAX_BLOCKS:
            raise ProtocolError(f"more than {_MAX_BLOCKS} blocks", offset=at, length=end)
        body = content[at : at + size]
        bodies = found.get(kind)
        if bodies is None:
            found[kind] = [body]
        else:
            bodies.append(body)
        at += size
    return found


def _content_size(header: bytes | bytearray, at: int) -> int:
    magic, size = _HEADER.unpack_from(header, at)
    if magic != _OBJECTS:
        raise ProtocolError(f"0x{magic:08x} begins no packet", offset=at)
    if size > MAX_PACKET_BYTES:
        raise ProtocolError(
            f"a packet of {size} bytes is over the limit of {MAX_PACKET_BYTES}", offset=at
        )
    return int(size)


def split_datagram(datagram: bytes) -> Blocks:
    """Split a packet that came alone, by multicast.

    Raises:
        ProtocolError: it is none, or not whole.
    """
    if len(datagram) < _HEADER.size or _content_size(datagram, 0) != len(datagram) - _HEADER.size:
        raise ProtocolError("a datagram that is not a whole packet", offset=0, length=len(datagram))
    return split_packet(datagram[_HEADER.size :])


class Deframer:
    """Splitter of a byte stream into packets; holds at most what has arrived."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Add bytes as they arrive."""
        self._buffer += chunk

    def packets(self) -> Iterator[bytes]:
        """Yield the contents of the packets that are complete.

        Raises:
            ProtocolError: these bytes are no packet; the stream cannot be followed any further.
        """
        at = 0
        try:
            while len(self._buffer) - at >= _HEADER.size:
                end = at + _HEADER.size + _content_size(self._buffer, at)
                if len(self._buffer) < end:
                    break
                content = bytes(self._buffer[at + _HEADER.size : end])
                at = end
                yield content
        finally:
            del self._buffer[:at]


# --- control blocks -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contents:
    """Table of contents of a packet.

    Blocks by type, and the types that are not repeated since they did not change.
    """

    counts: Mapping[int, int]
    unchanged: AbstractSet[int]


@dataclass(frozen=True, slots=True)
class MulticastSender:
    """Destination of the server's packets by UDP; addresses as integers, first byte highest."""

    group: int
    source: int
    port: int


_U8, _U16, _U32, _U64 = number("B"), number("H"), number("I"), number("Q")
_NOTHING: Final[ValueLayout[None]] = ValueLayout(
    lambda _data, at: (None, at), lambda _value: b"", 0
)

ENUMS: Final = Block(100001, set_of(_U32))
"""Server: types it supports. Client: types it wants."""
REQUEST_FRAME: Final[Block[int]] = Block(100002, _U8)
"""1 starts the push, 0 asks for one frame and ends the push."""
KEEP_ALIVE: Final = Block(100003, _NOTHING)
CONTENTS: Final = Block(100004, record(Contents, mapping(_U32, _U32), set_of(_U32)))
START_MULTICAST: Final = Block(100005, record(MulticastSender, _U32, _U32, _U16))
STOP_MULTICAST: Final = Block(100006, _NOTHING)
FILTER: Final = Block(100007, mapping(_U32, set_of(_U32)))
"""Ids that pass, by type of block; an empty set lets all pass."""
NEXT_FRAME: Final[Block[int]] = Block(100008, _U32)
PING: Final[Block[int]] = Block(42, _U64)
"""The server sends it back inside its next packet."""
APEX_HAPTICS: Final = Block(35, set_of(_U32))
