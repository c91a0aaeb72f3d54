"""Captures of other programs, made by hand from the specifications.

Containers, link layers, fragments.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.support.captures_by_hand import (
    ETHERNET,
    T_S,
    T_US,
    WHOLE,
    fragments,
    ipv4,
    pcap,
    pcapng,
    udp,
)
from vil_bridge.core.errors import RecordingError
from vil_bridge.protocols.pcap.pcap import read_capture
from vil_bridge.runtime.datagrams import Datagram

LINKS = {
    "ethernet": (1, ETHERNET),
    "ethernet, VLAN": (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00"),
    "ethernet, two VLANs": (1, bytes(12) + b"\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00"),
    "Linux cooked": (113, struct.pack("!HHH8s2s", 0, 1, 6, bytes(8), b"\x08\x00")),
    "Linux cooked 2": (276, struct.pack("!2sHIHBB8s", b"\x08\x00", 0, 2, 1, 0, 6, bytes(8))),
    "loopback, little-endian": (0, b"\x02\0\0\0"),
    "loopback, big-endian": (108, b"\0\0\0\x02"),
    "raw": (101, b""),
    "raw of BSD": (12, b""),
    "IPv4": (228, b""),
}


def read(folder: Path, data: bytes) -> list[Datagram]:
    path = folder / "a.pcapng"
    path.write_bytes(data)
    return list(read_capture(path))


@pytest.mark.parametrize("name", LINKS)
def test_every_link_layer(tmp_path: Path, name: str) -> None:
    link, header = LINKS[name]
    packets = [header + packet for packet in (ipv4(udp()), *fragments())]
    assert read(tmp_path, pcap(link, packets)) == [WHOLE] * 2
    assert read(tmp_path, pcapng(link, packets)) == [WHOLE] * 2


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_container(tmp_path: Path, order: str) -> None:
    packets = [ETHERNET + ipv4(udp())]
    for nanoseconds in (False, True):
        assert read(tmp_path, pcap(1, packets, order, nanoseconds=nanoseconds)) == [WHOLE]
    for resolution in (None, 6, 9):
        assert read(tmp_path, pcapng(1, packets, order, resolution)) == [WHOLE]
    (binary,) = read(tmp_path, pcapng(1, packets, order, 0x80 | 24))
    assert abs(binary.t_ns - WHOLE.t_ns) < 100
    assert read(tmp_path, pcapng(1, packets, order, kind=2)) == [WHOLE]
    assert read(tmp_path, pcapng(1, packets, order, offset_s=1_000_000_000)) == [WHOLE]
    assert read(tmp_path, pcapng(1, packets, order) + pcapng(1, packets, ">")) == [WHOLE] * 2, (
        "two sections"
    )


def test_fragments_in_any_order_and_doubled(tmp_path: Path) -> None:
    pieces = [ETHERNET + piece for piece in fragments(400)]
    assert len(pieces) == 4
    for order in ((3, 1, 0, 2), (0, 0, 3, 2, 1), (2, 3, 1, 1, 0)):
        assert read(tmp_path, pcap(1, [pieces[i] for i in order])) == [WHOLE]
    assert read(tmp_path, pcap(1, pieces[:3])) == [], "one never came"


def test_incomplete_datagrams_are_bounded(tmp_path: Path) -> None:
    begun = [ETHERNET + ipv4(udp()[:1480], identity=i, more=True) for i in range(1000)]
    last = ETHERNET + ipv4(udp()[1480:], identity=999, at=1480)
    first = ETHERNET + ipv4(udp()[1480:], identity=0, at=1480)
    assert read(tmp_path, pcap(1, [*begun, last, first])) == [WHOLE], (
        "of the first nothing is remembered"
    )
    assert read(tmp_path, pcap(1, [*begun[:64], first])) == [WHOLE]
    assert read(tmp_path, pcap(1, [*begun[:65], first])) == []
    beyond = [ETHERNET + ipv4(bytes(1480), at=8 * 8191, more=True)]
    assert read(tmp_path, pcap(1, beyond)) == []


def test_what_is_not_a_udp_datagram_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strangers = [
        b"",
        ETHERNET,
        bytes(12) + b"\x08\x06" + bytes(28),
        bytes(12) + b"\x86\xdd" + bytes(60),
        bytes(12) + b"\x81\x00\x00\x01" * 8,
        ETHERNET + ipv4(udp())[:9] + b"\x06" + ipv4(udp())[10:],
        ETHERNET + b"\x4f" + ipv4(udp())[1:30],
        ETHERNET + ipv4(b"\0" * 7),
        ETHERNET + ipv4(struct.pack("!HHHH", 1, 2, 900, 0) + bytes(20)),
    ]
    padded = ETHERNET + ipv4(udp(b"short"), options=bytes(8)) + bytes(18)
    (datagram,) = read(tmp_path, pcap(1, [*strangers, padded]))
    assert datagram.payload == b"short"
    assert read(tmp_path, pcap(147, [bytes(40)])) == []
    assert "packets of link type 147 are not read" in caplog.text


def test_packets_that_were_cut_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    packet = ETHERNET + ipv4(udp())
    data = pcap(1, [])[:24] + struct.pack("<IIII", T_S, T_US, 96, len(packet)) + packet[:96]
    assert read(tmp_path, data) == []
    assert "1 packets were cut when captured. Capture with tcpdump -s 0" in caplog.text


def test_what_this_host_sent_itself_is_there_once_on_the_any_device(tmp_path: Path) -> None:
    sent = struct.pack("!2sHIHBB8s", b"\x08\x00", 0, 1, 772, 4, 6, bytes(8)) + ipv4(udp())
    received = struct.pack("!2sHIHBB8s", b"\x08\x00", 0, 1, 772, 0, 6, bytes(8)) + ipv4(udp())
    assert read(tmp_path, pcap(276, [sent, received, received])) == [WHOLE] * 2, (
        "the second was really sent twice"
    )


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda data: data[:8] + b"\0\0\0\0" + data[12:], 0),
        (lambda data: data[:28] + struct.pack("<II", 1, 1 << 30) + bytes(64), 28),
        (lambda data: data[:28] + struct.pack("<II", 6, 32) + b"\xff" * 24, 28),
        (lambda data: data[:28] + struct.pack("<II", 1, 16) + bytes(8), 28),
    ],
)
def test_nonsense_in_pcapng_is_named_with_its_place(
    tmp_path: Path, change: object, place: int
) -> None:
    assert callable(change)
    with pytest.raises(RecordingError, match=f"nonsense at byte {place};"):
        read(tmp_path, change(pcapng(1, [ETHERNET + ipv4(udp())])))


@pytest.mark.parametrize("offset_s", [-(2**62), -T_S - 1, 2**32 - T_S, 2**62])
def test_a_time_that_pcap_cannot_hold_is_nonsense(tmp_path: Path, offset_s: int) -> None:
    data = pcapng(1, [ETHERNET + ipv4(udp())], offset_s=T_S)
    moved = data.replace(
        struct.pack("<HHq", 14, 8, T_S), struct.pack("<HHq", 14, 8, T_S + offset_s)
    )
    with pytest.raises(RecordingError, match="nonsense at byte"):
        read(tmp_path, moved)


def test_a_file_cut_anywhere_is_read_up_to_the_cut(tmp_path: Path) -> None:
    for data in (pcap(1, [ETHERNET + ipv4(udp())] * 2), pcapng(1, [ETHERNET + ipv4(udp())] * 2)):
        for size in range(12, len(data), 97):
            assert read(tmp_path, data[:size]) in ([], [WHOLE])
