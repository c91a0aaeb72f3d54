"""Any NAL units come back out of their payloads.

Any bytes as a receiver's report are read or refused.
"""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from tests.support.rtp import depacketized
from vil_bridge.core.errors import ProtocolError
from vil_bridge.outputs.rtp.packets import H264, HEVC, payloads
from vil_bridge.outputs.rtp.reports import receiver_reports

BODIES = st.lists(st.binary(min_size=1, max_size=400), min_size=1, max_size=12)


@given(
    BODIES,
    st.lists(
        st.integers(0, 0x7F).filter(lambda head: 0 < head & 31 < 24), min_size=12, max_size=12
    ),
    st.integers(16, 300),
)
def test_h264_units_come_back(bodies: list[bytes], heads: list[int], limit: int) -> None:
    nals = [bytes([head]) + body for head, body in zip(heads, bodies, strict=False)]
    made = list(payloads(nals, H264, limit))
    assert depacketized(made, hevc=False) == nals
    assert max(map(len, made)) <= limit
    for payload in made:
        if payload[0] & 31 == 28:
            assert payload[1] & 0xC0 != 0xC0, "one part alone is no part"
    highest = max(nal[0] & 0x60 for nal in nals)
    assert all(payload[0] & 0x60 <= highest for payload in made)


@given(
    BODIES,
    st.lists(
        st.tuples(st.integers(0, 47), st.integers(0, 63), st.integers(1, 7)),
        min_size=12,
        max_size=12,
    ),
    st.integers(16, 300),
)
def test_hevc_units_come_back(
    bodies: list[bytes], heads: list[tuple[int, int, int]], limit: int
) -> None:
    nals = [
        (kind << 9 | layer << 3 | temporal).to_bytes(2, "big") + body
        for (kind, layer, temporal), body in zip(heads, bodies, strict=False)
    ]
    made = list(payloads(nals, HEVC, limit))
    assert depacketized(made, hevc=True) == nals
    assert max(map(len, made)) <= limit


@given(st.binary(max_size=200), st.booleans())
def test_reports_of_any_bytes(data: bytes, framed: bool) -> None:
    if framed:
        data = bytes([0x80 | len(data) % 32, 201, 0, min(255, len(data) // 4)]) + data
    with contextlib.suppress(ProtocolError):
        receiver_reports(data, 0, 10**18)
