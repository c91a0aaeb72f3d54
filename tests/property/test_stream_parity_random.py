"""Datagrams with parity.

Any two lost packets of a group are made again, and nothing that arrives does harm.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vil_bridge.client import _Packets
from vil_bridge.core.errors import ProtocolError
from vil_bridge.outputs.stream.fec import (
    CHUNK_BYTES,
    MAX_MESSAGE_BYTES,
    decode_report,
    is_from,
    packets,
    stream_id,
)

pytestmark = pytest.mark.wire


TOKEN = "0123456789abcdef"
STREAM = stream_id(TOKEN)


@contextmanager
def reader() -> Iterator[tuple[_Packets, socket.socket]]:
    """The client's end, and the socket that its reports reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bridge:
        bridge.bind(("127.0.0.1", 0))
        bridge.settimeout(2.0)
        end = _Packets("tcp://127.0.0.1", bridge.getsockname()[1], TOKEN, lambda *_: None)
        try:
            yield end, bridge
        finally:
            end.close()


def taken(end: _Packets, datagrams: list[bytes]) -> list[bytes]:
    """The messages that became complete."""
    return [bytes(message) for packet in datagrams if (message := end._add(packet)) is not None]


def framed(header: bytes, payload: bytes) -> bytes:
    return struct.pack("<I", len(header)) + header + payload


SIZES = st.one_of(
    st.integers(0, 3000),
    st.integers(0, 200_000),
    st.sampled_from([CHUNK_BYTES * 8 - 6, CHUNK_BYTES - 6]),
)


@given(size=SIZES, seed=st.integers(0, 2**32), shuffle=st.booleans(), twice=st.booleans())
def test_any_two_packets_of_each_group_may_be_lost(
    size: int, seed: int, shuffle: bool, twice: bool
) -> None:
    rng = random.Random(seed)
    payload = rng.randbytes(size)
    datagrams = packets(STREAM, 1, 1, b"{}", payload)
    chunks = -(-(size + 6) // CHUNK_BYTES)
    groups = -(-chunks // 16)
    assert len(datagrams) == chunks + 2 * groups
    lost: set[int] = set()
    for g in range(groups):
        lost |= set(
            rng.sample(
                [*range(g, chunks, groups), chunks + g, chunks + groups + g], rng.randrange(3)
            )
        )
    left = [d for i, d in enumerate(datagrams) if i not in lost]
    left += left if twice else []
    if shuffle:
        rng.shuffle(left)
    with reader() as (end, _):
        assert taken(end, left) == [framed(b"{}", payload)]


def test_a_burst_twice_as_long_as_there_are_groups_is_repaired_and_a_longer_one_is_not() -> None:
    datagrams = packets(STREAM, 1, 1, b"{}", bytes(range(256)) * 300)  # 60 chunks in 4 groups
    for at in range(len(datagrams) - 8):
        with reader() as (end, _):
            assert len(taken(end, datagrams[:at] + datagrams[at + 8 :])) == 1
    with reader() as (end, _):
        assert taken(end, datagrams[9:]) == []


def test_one_percent_loss_leaves_more_than_99_percent_of_pictures() -> None:
    rng = random.Random(1)
    whole = 0
    with reader() as (end, _):
        for frame in range(1, 401):
            datagrams = packets(STREAM, frame, 1, b"{}", bytes(76_000))
            whole += len(taken(end, [d for d in datagrams if rng.random() > 0.01]))
    assert whole >= 396


def test_the_newest_picture_wins_and_memory_is_bounded() -> None:
    incomplete: list[int] = []
    with reader() as (end, _):
        end._count = lambda name, n=1: incomplete.extend([n] * (name == "incomplete"))
        for frame in range(1, 50):
            assert taken(end, packets(STREAM, frame, frame, b"{}", bytes(5000))[:2]) == []
            assert len(end._pictures) <= 4
        assert sum(incomplete) == 45
        assert len(taken(end, packets(STREAM, 60, 99, b"{}", bytes(5000)))) == 1
        assert not end._pictures, "older ones are given up"
        assert taken(end, packets(STREAM, 55, 99, b"{}", b"")) == [], "and late"


@given(
    data=st.one_of(st.binary(max_size=2000), st.binary(max_size=40)),
    known=st.integers(0, 34),
    frame=st.integers(0, 2**32 - 1),
    size=st.integers(0, 2**32 - 1),
    index=st.integers(0, 65535),
    chunks=st.integers(0, 65535),
    chunk=st.integers(0, 65535),
)
def test_no_packet_does_harm(
    data: bytes, known: int, frame: int, size: int, index: int, chunks: int, chunk: int
) -> None:
    good = packets(STREAM, 7, 1, b"{}", bytes(3000))
    hostile = [
        good[0][:known] + data,
        struct.pack("<4s8sQIIHHH", b"VILU", STREAM, 2, frame, size, index, chunks, chunk) + data,
        struct.pack("<4s8sQIIHHH", b"VILU", STREAM, 3, 7, 3006, index, 3, CHUNK_BYTES) + data,
    ]
    with reader() as (end, _):
        for packet in hostile:
            try:
                end._add(packet)
            except (ValueError, struct.error):
                continue
            assert sum(p._data.nbytes for p in end._pictures.values()) <= 4 * (
                MAX_MESSAGE_BYTES + 8 * 65536
            )


def test_what_is_too_large_is_refused_before_it_is_cut() -> None:
    with pytest.raises(ProtocolError, match="too much for datagrams"):
        packets(STREAM, 1, 1, b"{}", bytes(MAX_MESSAGE_BYTES))


def test_reports_tell_what_came_and_only_the_token_makes_them() -> None:
    with reader() as (end, bridge):
        taken(end, packets(STREAM, 1, 41, b"{}", bytes(5000)))
        end.report(77, -5, 6)
        datagram = bridge.recv(2000)
        report = decode_report(datagram)
        assert report == (STREAM, 1, 46, 6, 77, -5, 6, bytes(16))
        assert is_from(TOKEN, datagram) and not is_from(TOKEN[::-1], datagram)
        for at in range(len(datagram)):
            forged = bytearray(datagram)
            forged[at] ^= 1
            assert not is_from(TOKEN, bytes(forged))
        for length in range(len(datagram)):
            with pytest.raises(ProtocolError):
                decode_report(datagram[:length])
        with pytest.raises(ProtocolError):
            decode_report(b"x" + datagram[1:])
        assert TOKEN.encode() not in datagram
