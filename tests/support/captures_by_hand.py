"""Packets and files of other capturing programs, written from the specifications alone."""

from __future__ import annotations

import socket
import struct

from vil_bridge.runtime.datagrams import Datagram

__all__ = [
    "CLIENT",
    "ETHERNET",
    "PAYLOAD",
    "SERVER",
    "T_S",
    "T_US",
    "WHOLE",
    "fragments",
    "ipv4",
    "pcap",
    "pcapng",
    "udp",
]

SERVER, CLIENT = ("10.0.0.1", 1511), ("10.0.0.2", 40000)
T_S, T_US = 1_700_000_000, 123_456
PAYLOAD = bytes(range(256)) * 6
WHOLE = Datagram(T_S * 10**9 + T_US * 1000, SERVER, CLIENT, PAYLOAD)


def udp(payload: bytes = PAYLOAD) -> bytes:
    return struct.pack("!HHHH", SERVER[1], CLIENT[1], 8 + len(payload), 0x1234) + payload


def ipv4(
    content: bytes, identity: int = 7, at: int = 0, *, more: bool = False, options: bytes = b""
) -> bytes:
    begin = 20 + len(options)
    head = (
        0x40 | begin // 4,
        0,
        begin + len(content),
        identity,
        0x2000 * more | at // 8,
        64,
        17,
        0,
    )
    addresses = socket.inet_aton(SERVER[0]), socket.inet_aton(CLIENT[0])
    return struct.pack("!BBHHHBBH4s4s", *head, *addresses) + options + content


def fragments(size: int = 1480) -> list[bytes]:
    content = udp()
    pieces = [(at, content[at : at + size]) for at in range(0, len(content), size)]
    return [ipv4(piece, at=at, more=at + len(piece) < len(content)) for at, piece in pieces]


ETHERNET = bytes(12) + b"\x08\x00"


def pcap(link: int, packets: list[bytes], order: str = "<", *, nanoseconds: bool = False) -> bytes:
    magic, fraction = (0xA1B23C4D, T_US * 1000) if nanoseconds else (0xA1B2C3D4, T_US)
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)
    for packet in packets:
        out += struct.pack(order + "IIII", T_S, fraction, len(packet), len(packet)) + packet
    return out


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + size + body + size


def pcapng(
    link: int,
    packets: list[bytes],
    order: str = "<",
    resolution: int | None = None,
    kind: int = 6,
    offset_s: int = 0,
) -> bytes:
    """A section with a name-resolution block, an unused interface and one with its options."""
    units = (T_S - offset_s) * 10**6 + T_US
    options = b""
    if offset_s:
        options = struct.pack(order + "HHqHH", 14, 8, offset_s, 0, 0)
    if resolution is not None:
        power = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
        units = (T_S * 10**6 + T_US) * power // 10**6
        options = (
            struct.pack(order + "HH", 9, 1)
            + bytes([resolution, 0, 0, 0])
            + struct.pack(order + "HH", 0, 0)
        )
    out = block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(order, 1, struct.pack(order + "HHI", 147, 0, 0))
    out += block(order, 4, b"names of hosts") + block(
        order, 1, struct.pack(order + "HHI", link, 0, 0) + options
    )
    for packet in packets:
        number = struct.pack(order + ("I" if kind == 6 else "HH"), *((1,) if kind == 6 else (1, 0)))
        stamp = struct.pack(order + "II", units >> 32, units & 0xFFFFFFFF)
        out += block(
            order,
            kind,
            number + stamp + struct.pack(order + "II", len(packet), len(packet)) + packet,
        )
    return out
