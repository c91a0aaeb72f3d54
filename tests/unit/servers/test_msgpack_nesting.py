"""Depths of MessagePack, against an encoder of another package."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vil_simulation.airsim.msgpack_nesting import NestingLimit

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=300)),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=20)
    ),
)


def depth(value: Any) -> int:
    """Return how deep arrays and maps that hold something stand in each other."""
    if isinstance(value, msgpack.ExtType) or not isinstance(value, (list, dict)) or not value:
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value))


@given(st.lists(VALUES, min_size=1, max_size=4), st.data())
def test_messages_in_any_pieces_have_their_depth(values: list[Any], data: st.DataObject) -> None:
    sent = b"".join(map(msgpack.packb, values))
    cuts = sorted({0, len(sent), *data.draw(st.lists(st.integers(0, len(sent)), max_size=8))})
    pieces = [sent[begin:end] for begin, end in pairwise(cuts)]
    deepest = max(map(depth, values))
    permitted = NestingLimit(deepest)
    for piece in pieces:
        permitted.check(piece)
    if not deepest:
        return
    forbidden = NestingLimit(deepest - 1)
    with pytest.raises(ValueError, match=f"nested more than {deepest - 1} deep"):
        for piece in pieces:
            forbidden.check(piece)


@pytest.mark.parametrize("count", [15, 16, 65_535, 65_536], ids=str)
def test_arrays_maps_and_texts_of_every_header_are_followed(count: int) -> None:
    """Headers of every size: the value behind them is at its own depth again."""
    long: list[Any] = [
        [0] * count,
        dict.fromkeys(map(str, range(count)), 0),
        "x" * count,
        b"x" * count,
    ]
    sent = msgpack.packb([*long, [[0]]])
    limit = NestingLimit(3)
    for begin in range(0, len(sent), 1000):
        limit.check(memoryview(sent)[begin : begin + 1000])
    with pytest.raises(ValueError, match="nested"):
        NestingLimit(2).check(sent)


def test_headers_that_are_not_filled_count() -> None:
    with pytest.raises(ValueError, match="nested"):
        NestingLimit(8).check(b"\xdc\x7f\xff" * 9)
    NestingLimit(8).check(b"\xdc\x7f\xff" * 8)
