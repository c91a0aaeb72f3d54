"""Datagrams in a pcap file, which Wireshark and tcpdump read as well.

pcap with nanoseconds, little-endian, link type RAW: a file header of 24 bytes, then for each datagram
16 bytes (Unix time in s and ns, size twice) and an IPv4 packet with a UDP header (draft-ietf-opsawg-pcap,
RFC 791, RFC 768). UDP checksums are left out (0), as the RFC allows.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import IO, Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.datagrams import Datagram
from vil_bridge.core.errors import RecordingError

__all__ = ["OVERHEAD_BYTES", "PREAMBLE", "encode_datagram", "read_capture"]

_FILE_HEADER: Final = Struct("<IHHiIII")
_RECORD: Final = Struct("<IIII")
_IPV4: Final = Struct("!BBHHHBBH4s4s")
_UDP: Final = Struct("!HHHH")
_WORDS: Final = Struct("!10H")
_MAGIC_NS: Final = 0xA1B23C4D
_PCAP_VERSION: Final = (2, 4)
_LINK_RAW: Final = 101
_IPV4_NO_OPTIONS: Final = 0x45
_TIME_TO_LIVE: Final = 64
_HEADERS_BYTES: Final = _IPV4.size + _UDP.size
_MAX_PACKET_BYTES: Final = 65535

PREAMBLE: Final = _FILE_HEADER.pack(_MAGIC_NS, *_PCAP_VERSION, 0, 0, _MAX_PACKET_BYTES, _LINK_RAW)
"""How every capture begins."""

OVERHEAD_BYTES: Final = _RECORD.size + _HEADERS_BYTES
"""What a datagram takes in a capture beside its payload."""


def encode_datagram(datagram: Datagram) -> bytes:
    """One record of a capture, from a datagram in Unix time."""
    (sender, sender_port), (receiver, receiver_port) = datagram.sender, datagram.receiver
    size = _HEADERS_BYTES + len(datagram.payload)
    ip = (_IPV4_NO_OPTIONS, 0, size, 0, 0, _TIME_TO_LIVE, socket.IPPROTO_UDP)
    addresses = socket.inet_aton(sender), socket.inet_aton(receiver)
    checksum = _ip_checksum(_IPV4.pack(*ip, 0, *addresses))
    return b"".join(
        (
            _RECORD.pack(*divmod(datagram.t_ns, NS_PER_S), size, size),
            _IPV4.pack(*ip, checksum, *addresses),
            _UDP.pack(sender_port, receiver_port, size - _IPV4.size, 0),
            datagram.payload,
        )
    )


def _ip_checksum(header: bytes) -> int:
    total: int = sum(_WORDS.unpack(header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def read_capture(path: Path) -> Iterator[Datagram]:
    """The datagrams of a capture in its order, in Unix time; a last one that is not whole is passed over.

    Raises:
        RecordingError: it cannot be read, is no capture of ours, or holds nonsense.
    """
    try:
        with path.open("rb") as file:
            yield from _datagrams(path, file)
    except OSError as exc:
        raise RecordingError(f"{path}: cannot be read: {exc.strerror or exc}") from exc


def _datagrams(path: Path, file: IO[bytes]) -> Iterator[Datagram]:
    if file.read(_FILE_HEADER.size) != PREAMBLE:
        raise RecordingError(
            f"{path}: no capture of the bridge (pcap with nanoseconds, little-endian, raw IP); "
            f"`debug.capture` of a configuration makes them"
        )
    place = _FILE_HEADER.size
    while len(header := file.read(_RECORD.size)) == _RECORD.size:
        seconds, nanoseconds, size, whole = _RECORD.unpack(header)
        if nanoseconds >= NS_PER_S or size != whole or not _HEADERS_BYTES <= size <= _MAX_PACKET_BYTES:
            raise RecordingError(
                f"{path}: nonsense at byte {place}; the first {place} bytes are a capture by themselves"
            )
        packet = file.read(size)
        if len(packet) < size:
            return
        yield _decode(path, place, seconds * NS_PER_S + nanoseconds, packet)
        place += _RECORD.size + size


def _decode(path: Path, place: int, t_utc_ns: int, packet: bytes) -> Datagram:
    first, _, size, _, fragment, _, protocol, _, sender, receiver = _IPV4.unpack_from(packet)
    sender_port, receiver_port, udp_bytes, _ = _UDP.unpack_from(packet, _IPV4.size)
    whole = size == len(packet) and udp_bytes == len(packet) - _IPV4.size and not fragment
    if first != _IPV4_NO_OPTIONS or protocol != socket.IPPROTO_UDP or not whole:
        raise RecordingError(f"{path}: no whole UDP datagram over IPv4 at byte {place}; the bytes before are a capture")
    return Datagram(
        t_utc_ns,
        (socket.inet_ntoa(sender), sender_port),
        (socket.inet_ntoa(receiver), receiver_port),
        packet[_HEADERS_BYTES:],
    )
