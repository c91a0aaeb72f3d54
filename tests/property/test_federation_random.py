"""Any bytes, and any frame with some bytes changed, raise only ProtocolError or are read."""

from __future__ import annotations

import contextlib
import struct
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocols.test_federation_codec import FRAME
from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.federation.messages import (
    decode_ack,
    decode_clock,
    decode_description,
    decode_frame,
    message_kind,
)

DECODERS = (decode_frame, decode_clock, decode_ack, decode_description, message_kind)


@given(st.binary(max_size=400))
def test_random_bytes(data: bytes) -> None:
    for decode in DECODERS:
        with contextlib.suppress(ProtocolError):
            decode(data)


@given(st.integers(1, 5), st.binary(max_size=400))
def test_random_payloads_with_a_right_checksum(kind: int, payload: bytes) -> None:
    checked = struct.pack("<IQ", 0, 1) + payload
    message = b"VILR" + struct.pack("<BBHI", 1, kind, 0, crc32(checked)) + checked
    for decode in DECODERS:
        with contextlib.suppress(ProtocolError):
            decode(message)


@given(st.integers(24, len(FRAME) - 1), st.binary(min_size=1, max_size=8))
def test_changed_frames_with_a_right_checksum(at: int, change: bytes) -> None:
    checked = (FRAME[:at] + change + FRAME[at + len(change) :])[12:]
    message = FRAME[:8] + struct.pack("<I", crc32(checked)) + checked
    with contextlib.suppress(ProtocolError):
        frame = decode_frame(message)
        assert len(frame.actors) + len(frame.bones) == 4
