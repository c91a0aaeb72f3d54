"""Tracker's object stream through the compiled kernel against its twin.

The same poses, counters and errors.
"""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.kernel_against_twin import compare_datagrams, compare_objects
from tests.fuzz.object_streams import object_streams
from tests.fuzz.twins import Agreement
from tests.support.vicon import golden
from vil_adapters.vicon.object_tracker import MAX_OBJECTS
from vil_adapters.vicon.udp_codec import ITEM, ObjectBlock, encode_objects
from vil_bridge.kernel import library

pytestmark = pytest.mark.skipif(
    library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
)


def agree(*datagrams: bytes) -> Agreement:
    on = Agreement()
    compare_datagrams(datagrams, on)
    return on


def named(number: int, names: list[str]) -> bytes:
    items = np.zeros(len(names), ITEM)
    items["name"], items["p"] = names, float(number)
    return encode_objects(ObjectBlock(number, items))


def test_generated_streams() -> None:
    on = compare_objects(3000, seed=3)
    assert on.compiled > 2000
    assert on.refused > 50


def test_the_golden_stream() -> None:
    assert agree(*[golden("object_stream")] * 8).compiled == 8


def test_every_truncation() -> None:
    whole = golden("object_stream")
    agree(*(whole[:size] for size in range(len(whole))))


@given(
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=12),
)
def test_damaged_streams(which: int, damage: list[tuple[int, int]]) -> None:
    (datagrams,) = itertools.islice(object_streams(which), 1)
    broken = [bytearray(datagram) for datagram in datagrams if datagram]
    for place, value in damage:
        datagram = broken[place % len(broken)]
        datagram[place % len(datagram)] = value
    agree(*(bytes(datagram) for datagram in broken))


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    agree(data, struct.pack("<IB", 1, 2) + data)


@given(st.lists(st.floats(), min_size=6, max_size=6))
def test_any_pose(numbers: list[float]) -> None:
    items = np.zeros(2, ITEM)
    items["name"] = "a", "b"
    items["p"][0], items["euler"][0] = numbers[:3], numbers[3:]
    agree(*[encode_objects(ObjectBlock(number, items)) for number in range(3)])


def test_objects_beyond_those_that_are_remembered_are_counted() -> None:
    batches = [[f"{batch}-{i}" for i in range(200)] for batch in range(MAX_OBJECTS // 200 + 1)]
    agree(
        *(named(number, names) for number, names in enumerate([*batches, batches[-1], batches[0]]))
    )
