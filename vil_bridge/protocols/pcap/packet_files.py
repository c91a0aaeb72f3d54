"""Packets of pcap and pcapng files, whatever program wrote them.

draft-ietf-opsawg-pcap, -pcapng.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import IO, Final, NoReturn

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import RecordingError

_PCAP_MAGICS: Final = {
    bytes.fromhex("d4c3b2a1"): ("<", 1000),
    bytes.fromhex("a1b2c3d4"): (">", 1000),
    bytes.fromhex("4d3cb2a1"): ("<", 1),
    bytes.fromhex("a1b23c4d"): (">", 1),
}
_SECTION: Final = bytes.fromhex("0a0d0d0a")
_BYTE_ORDERS: Final = {bytes.fromhex("4d3c2b1a"): "<", bytes.fromhex("1a2b3c4d"): ">"}
_INTERFACE_BLOCK = 1
_OLD_PACKET_BLOCK = 2
_PACKET_BLOCK = 6
_OPTION_RESOLUTION = 9
_OPTION_OFFSET = 14
_MAX_PACKET_BYTES: Final = 1 << 18
_MAX_BLOCK_BYTES: Final = 1 << 24
_MAX_INTERFACES: Final = 1024
_LINK_MASK: Final = 0xFFFF
_END_OF_TIME_NS: Final = (1 << 32) * NS_PER_S
"""First Unix time that a pcap file cannot hold."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One captured packet.

    Attributes:
        t_ns: Unix time. link: link type (LINKTYPE_ of tcpdump.org). place: byte of the file where
            its record begins.
        data: with the headers of the link layer. whole: False when the capturing program stored
            less than was sent.
    """

    t_ns: int
    link: int
    place: int
    data: bytes
    whole: bool


def read_packets(name: str, file: IO[bytes]) -> Iterator[Packet]:
    """Return the packets of a file in its order; a last one that is not whole is left out.

    Raises:
        RecordingError: it is neither pcap nor pcapng, or holds nonsense.
    """
    magic = file.read(4)
    if magic in _PCAP_MAGICS:
        yield from _pcap(name, file, *_PCAP_MAGICS[magic])
    elif magic == _SECTION:
        yield from _pcapng(name, file)
    else:
        raise RecordingError(
            f"{name}: not a capture. Give a pcap or pcapng file of "
            "`debug.packet_capture`, Wireshark, dumpcap or "
            "tcpdump"
        )


def _nonsense(name: str, place: int) -> NoReturn:
    raise RecordingError(
        f"{name}: nonsense at byte {place}; the first {place} bytes are a capture by themselves"
    )


def _pcap(name: str, file: IO[bytes], order: str, unit_ns: int) -> Iterator[Packet]:
    rest = Struct(order + "HHiIII")
    header = file.read(rest.size)
    if len(header) < rest.size:
        return
    link = rest.unpack(header)[-1] & _LINK_MASK
    record = Struct(order + "IIII")
    place = 4 + rest.size
    while len(head := file.read(record.size)) == record.size:
        seconds, fraction, size, sent = record.unpack(head)
        if fraction * unit_ns >= NS_PER_S or size > min(sent, _MAX_PACKET_BYTES):
            _nonsense(name, place)
        data = file.read(size)
        if len(data) < size:
            return
        yield Packet(seconds * NS_PER_S + fraction * unit_ns, link, place, data, whole=size == sent)
        place += record.size + size


@dataclass(frozen=True, slots=True)
class _Interface:
    link: int
    units_per_s: int
    offset_s: int


def _pcapng(name: str, file: IO[bytes]) -> Iterator[Packet]:
    """Walk through the blocks; those of other types are passed over."""
    file.seek(0)
    order = "<"
    place = 0
    interfaces: list[_Interface] = []
    while len(head := file.read(8)) == 8:
        rest = file.read(4) if head[:4] == _SECTION else b""
        if head[:4] == _SECTION:
            if rest not in _BYTE_ORDERS:
                _nonsense(name, place)
            order = _BYTE_ORDERS[rest]
            interfaces = []
        kind, size = Struct(order + "II").unpack(head)
        if size % 4 or not 12 + len(rest) <= size <= _MAX_BLOCK_BYTES:
            _nonsense(name, place)
        body = file.read(size - 8 - len(rest))
        if len(body) < size - 8 - len(rest):
            return
        if kind == _INTERFACE_BLOCK:
            if len(body) < 12 or len(interfaces) >= _MAX_INTERFACES:
                _nonsense(name, place)
            interfaces.append(_interface(order, body[:-4]))
        elif kind in (_PACKET_BLOCK, _OLD_PACKET_BLOCK):
            packet = _packet(order, kind, body[:-4], interfaces, place)
            if packet is None:
                _nonsense(name, place)
            yield packet
        place += size


def _interface(order: str, body: bytes) -> _Interface:
    """Read an interface's link type, resolution and offset of its stamps."""
    (link,) = Struct(order + "H").unpack_from(body)
    units_per_s = 1_000_000
    offset_s = 0
    at = 8
    option = Struct(order + "HH")
    while at + option.size <= len(body):
        code, size = option.unpack_from(body, at)
        value = body[at + option.size : at + option.size + size]
        if code == _OPTION_RESOLUTION and size == 1 and value:
            exponent = value[0] & 0x7F
            units_per_s = (2 if value[0] & 0x80 else 10) ** min(exponent, 63)
        elif code == _OPTION_OFFSET and len(value) == 8:
            (offset_s,) = Struct(order + "q").unpack(value)
        at += option.size + size + -size % 4
    return _Interface(link, units_per_s, offset_s)


def _packet(
    order: str, kind: int, body: bytes, interfaces: list[_Interface], place: int
) -> Packet | None:
    """Read a packet block; None when it contradicts itself."""
    layout = Struct(order + ("IIIII" if kind == _PACKET_BLOCK else "HHIIII"))
    if len(body) < layout.size:
        return None
    fields = layout.unpack_from(body)
    number, (high, low, size, sent) = fields[0], fields[-4:]
    if number >= len(interfaces) or size > min(sent, _MAX_PACKET_BYTES, len(body) - layout.size):
        return None
    interface = interfaces[number]
    t_ns = (high << 32 | low) * NS_PER_S // interface.units_per_s + interface.offset_s * NS_PER_S
    if not 0 <= t_ns < _END_OF_TIME_NS:
        return None
    data = body[layout.size : layout.size + size]
    return Packet(t_ns, interface.link, place, data, whole=size == sent)
