"""Datagrams in capture files: written for Wireshark and tcpdump to read, read from theirs and ours.

Written as pcap with nanoseconds, little-endian, link type RAW: a file header of 24 bytes, then for
each datagram 16 bytes (Unix time in s and ns, size twice) and an IPv4 packet with a UDP header
(draft-ietf-opsawg-pcap, RFC 791, RFC 768). UDP checksums are left out (0), as the RFC allows.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import IO, Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import RecordingError
from vil_bridge.protocols.pcap.packet_files import read_packets
from vil_bridge.protocols.pcap.udp_packets import UdpReader
from vil_bridge.runtime.datagrams import Datagram

logger = logging.getLogger(__name__)

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
"""Beginning of every capture that the bridge writes."""

OVERHEAD_BYTES: Final = _RECORD.size + _HEADERS_BYTES
"""Bytes of a record without the payload of its datagram."""


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
    """Return the datagrams of a capture in its order, in Unix time.

    A last one that is not whole is passed over.

    Captures of other programs (pcap, pcapng; Ethernet, Linux cooked, loopback, raw IP) hold other
    packets too: those are passed over, and fragments are put together. The bridge's own hold
    datagrams only.

    Raises:
        RecordingError: it cannot be read, is not a capture, or holds nonsense.
    """
    try:
        with path.open("rb") as file:
            own = file.read(len(PREAMBLE)) == PREAMBLE
            file.seek(0)
            yield from _datagrams(str(path), file, own=own)
    except OSError as exc:
        raise RecordingError(f"{path}: cannot be read: {exc.strerror or exc}") from exc


def _datagrams(name: str, file: IO[bytes], *, own: bool) -> Iterator[Datagram]:
    reader = UdpReader()
    for packet in read_packets(name, file):
        datagram = reader.read(packet)
        if datagram is not None:
            yield datagram
        elif own:
            raise RecordingError(
                f"{name}: no whole UDP datagram over IPv4 at byte {packet.place}; the "
                "bytes before are a capture"
            )
    if reader.cut:
        logger.warning(
            "%s: %d packets were cut when captured. Capture with tcpdump -s 0", name, reader.cut
        )
    if reader.unknown_links:
        links = ", ".join(map(str, sorted(reader.unknown_links)))
        logger.warning("%s: packets of link type %s are not read", name, links)
