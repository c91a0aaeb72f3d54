"""A second reader of captures, written from the specifications of pcap, IPv4 and UDP alone."""

from __future__ import annotations

import socket
import struct

__all__ = ["packets_by_hand"]

Packet = tuple[int, tuple[str, int], tuple[str, int], bytes]


def packets_by_hand(data: bytes) -> list[Packet]:
    """Unix time in ns, sender, receiver and payload of every packet; nothing may be left over."""
    assert data[:4] == b"\x4d\x3c\xb2\xa1"  # nanoseconds, little-endian
    assert struct.unpack("<HHiIII", data[4:24]) == (2, 4, 0, 0, 65535, 101)
    packets, place = [], 24
    while place < len(data):
        seconds, nanoseconds, kept, size = struct.unpack("<IIII", data[place : place + 16])
        assert kept == size
        packets.append((seconds * 10**9 + nanoseconds, *_udp(data[place + 16 : place + 16 + kept])))
        place += 16 + kept
    assert place == len(data)
    return packets


def _udp(packet: bytes) -> tuple[tuple[str, int], tuple[str, int], bytes]:
    assert packet[0] == 0x45
    assert packet[9] == 17
    assert int.from_bytes(packet[2:4], "big") == len(packet)
    words = struct.unpack("!10H", packet[:20])
    assert sum(words) % 0xFFFF == 0  # one's complement: the checksum is right
    sender_port, receiver_port, size, checksum = struct.unpack("!HHHH", packet[20:28])
    assert size == len(packet) - 20
    assert checksum == 0
    return (
        (socket.inet_ntoa(packet[12:16]), sender_port),
        (socket.inet_ntoa(packet[16:20]), receiver_port),
        packet[28:],
    )
