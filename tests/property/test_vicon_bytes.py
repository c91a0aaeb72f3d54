"""Whatever bytes come in, CGStream decoders answer with values or ProtocolError.

What is written is read back.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.vicon import golden
from vil_adapters.vicon import blocks, codec
from vil_adapters.vicon.convert import ViconConverter
from vil_adapters.vicon.receiver import BlockCache
from vil_adapters.vicon.segments import LIGHT_ROW, ROW, decode_segments, encode_segments
from vil_adapters.vicon.udp_codec import ITEM, ObjectBlock, decode_objects, encode_objects
from vil_bridge.core.errors import ProtocolError

u8, u16, u32, u64 = (st.integers(0, 2**n - 1) for n in (8, 16, 32, 64))
f64 = st.floats(allow_nan=False)
f32 = st.floats(width=32, allow_nan=False)
text = st.text(st.characters(codec="utf-8"), max_size=12)
ids = st.frozensets(u32, max_size=3)

segment_infos = st.builds(blocks.ViconSegment, u32, u32, st.tuples(*[f32] * 6), text)
marker_infos = st.builds(blocks.MarkerInfo, u32, text)
VALUES: dict[codec.Block[Any], st.SearchStrategy[Any]] = {}
for block, values in (
    (codec.ENUMS, ids),
    (codec.REQUEST_FRAME, u8),
    (codec.KEEP_ALIVE, st.none()),
    (codec.CONTENTS, st.builds(codec.Contents, st.dictionaries(u32, u32, max_size=3), ids)),
    (codec.START_MULTICAST, st.builds(codec.MulticastSender, u32, u32, u16)),
    (codec.STOP_MULTICAST, st.none()),
    (codec.FILTER, st.dictionaries(u32, ids, max_size=3)),
    (codec.NEXT_FRAME, u32),
    (codec.PING, u64),
    (codec.APEX_HAPTICS, ids),
    (blocks.STREAM_INFO, st.integers(-(2**63), 2**63 - 1)),
    (
        blocks.SUBJECT_INFO,
        st.builds(
            blocks.SubjectInfo,
            u32,
            text,
            st.lists(segment_infos, max_size=3).map(tuple),
            st.lists(marker_infos, max_size=3).map(tuple),
            st.lists(st.tuples(u32, u32), max_size=3).map(tuple),
        ),
    ),
    (blocks.FRAME_INFO, u32),
    (blocks.TIMECODE, st.builds(blocks.Timecode, u8, u8, u8, u8, u16, u16, u32, u32, u8)),
    (
        blocks.LATENCY_INFO,
        st.lists(st.builds(blocks.LatencySample, text, f64), max_size=3).map(tuple),
    ),
    (blocks.SUBJECT_HEALTH, st.builds(blocks.Health, u32, f64, f64)),
    (blocks.HARDWARE_FRAME_INFO, u32),
    (blocks.APPLICATION_INFO, st.integers(-128, 127)),
    (blocks.FRAME_RATE_INFO, st.dictionaries(text, f64, max_size=3)),
    (blocks.OBJECT_QUALITY, st.builds(blocks.Quality, u32, f64)),
):
    VALUES[block] = values
ROWS = {
    blocks.SUBJECT_TOPOLOGY: blocks.POSE,
    blocks.SUBJECT_SCALE: blocks.SCALE,
    blocks.LOCAL_SEGMENTS: blocks.POSE,
    blocks.GLOBAL_SEGMENTS: blocks.POSE,
}


@given(st.data(), st.sampled_from(list(VALUES)))
def test_blocks_are_read_back_and_refused_when_cut(
    data: st.DataObject, block: codec.Block[Any]
) -> None:
    value = data.draw(VALUES[block])
    encoded = block.encode(value)
    (body,) = codec.split_datagram(codec.encode_packet(encoded))[block.type]
    assert block.decode(body) == value
    assert block.decode(body + b"appended") == value
    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            block.decode(body[:end])


@given(st.sampled_from(list(ROWS)), u32, st.integers(0, 3), st.randoms())
def test_rows_are_read_back(
    block: codec.Block[blocks.SubjectRows], subject: int, count: int, random: Any
) -> None:
    dtype = ROWS[block]
    table = np.frombuffer(random.randbytes(count * dtype.itemsize), dtype)
    (body,) = codec.split_datagram(
        codec.encode_packet(block.encode(blocks.SubjectRows(subject, table)))
    )[block.type]
    read = block.decode(body)
    assert (read.subject, read.rows.tobytes()) == (subject, table.tobytes())
    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            block.decode(body[:end])


@pytest.mark.parametrize("name", ["server_enums", "request_push", "one_object"])
def test_every_truncation_of_a_packet_is_refused_or_awaited(name: str) -> None:
    data = golden(name)
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            codec.split_datagram(data[:end])
        deframer = codec.Deframer()
        deframer.feed(data[:end])
        assert list(deframer.packets()) == []
        deframer.feed(data[end:])
        assert [len(content) for content in deframer.packets()] == [len(data) - 8]


def test_every_truncation_of_segments_and_objects_is_refused() -> None:
    body = codec.split_datagram(golden("one_object"))[9][0]
    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            decode_segments([body[:end]], ROW)
    data = golden("object_stream")
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            decode_objects(data[:end])


@given(
    st.lists(st.tuples(u32, st.integers(1, 4)), max_size=6, unique_by=lambda s: s[0]),
    st.randoms(),
    st.booleans(),
)
def test_segments_are_read_back(subjects: list[tuple[int, int]], random: Any, light: bool) -> None:
    dtype = LIGHT_ROW if light else ROW
    count = sum(n for _, n in subjects)
    table = np.frombuffer(bytearray(random.randbytes(count * dtype.itemsize)), dtype)
    table["subject"] = np.repeat(
        np.array([s for s, _ in subjects], dtype=np.uint32), [n for _, n in subjects]
    )
    kind = 901 if light else 9
    found = codec.split_datagram(codec.encode_packet(encode_segments(kind, table)))
    assert decode_segments(found.get(kind, ()), dtype).tobytes() == table.tobytes()


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.binary(max_size=24), st.tuples(*[f64] * 6)), max_size=4),
)
def test_objects_are_read_back(number: int, items: list[tuple[bytes, tuple[float, ...]]]) -> None:
    table = np.array([(name, v[:3], v[3:]) for name, v in items], dtype=ITEM)
    read = decode_objects(encode_objects(ObjectBlock(number, table), 512))
    assert (read.frame_number, read.items.tobytes()) == (number, table.tobytes())


@given(st.binary(max_size=400))
def test_random_bytes_raise_only_protocol_errors(data: bytes) -> None:
    deframer = codec.Deframer()
    deframer.feed(data)
    with contextlib.suppress(ProtocolError):
        list(deframer.packets())
    for decode in (codec.split_datagram, codec.split_packet, decode_objects):
        with contextlib.suppress(ProtocolError):
            decode(data)
    for dtype in (ROW, LIGHT_ROW):
        with contextlib.suppress(ProtocolError):
            decode_segments([data, data[:20]], dtype)
    for block in (*VALUES, *ROWS, blocks.LABELED_RECONS, blocks.UNLABELED_RECONS):
        with contextlib.suppress(ProtocolError):
            block.decode(data)


KINDS = [100001, 100004, 42, 1, 2, 5, 6, 7, 9, 901, 26, 28, 28001, 37, 39, 40]
broken_blocks = st.dictionaries(
    st.sampled_from(KINDS), st.lists(st.binary(max_size=130), max_size=3), max_size=6
)


@given(broken_blocks, st.integers(0, 205), st.integers(0, 7))
def test_frames_of_broken_blocks_raise_only_protocol_errors(
    noise: dict[int, list[bytes]], at: int, bit: int
) -> None:
    flipped = bytearray(golden("one_object"))
    flipped[at] ^= 1 << bit
    packets: list[codec.Blocks] = [noise]
    with contextlib.suppress(ProtocolError):
        packets.append(codec.split_datagram(bytes(flipped)))
    for packet in packets:
        memory, converter = BlockCache(), ViconConverter("lab", segments=True, markers="all")
        with contextlib.suppress(ProtocolError):
            memory.update(codec.split_datagram(golden("one_object")))
            memory.update(packet)
            converter.describe(memory.blocks)
            frame = converter.frame(memory.blocks, 1, None, 0, 0)
            assert np.isfinite(frame.p_m).all()
            np.testing.assert_allclose(np.linalg.norm(frame.q_xyzw, axis=1), 1.0, atol=1e-3)
