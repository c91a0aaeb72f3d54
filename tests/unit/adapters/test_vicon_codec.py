"""CGStream and the object stream.

Vectors, framing, the rule of unchanged blocks, segments, limits.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.support.vicon import golden
from vil_adapters.vicon import blocks, codec
from vil_adapters.vicon.receiver import BlockCache
from vil_adapters.vicon.segments import LIGHT_ROW, ROW, decode_segments, encode_segments
from vil_adapters.vicon.udp_codec import (
    ITEM,
    ObjectBlock,
    decode_objects,
    encode_objects,
    euler_xyz,
    q_from_euler_xyz,
)
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.geometry import q_normalize, q_to_matrix


def packet(*encoded: bytes) -> codec.Blocks:
    return codec.split_datagram(codec.encode_packet(*encoded))


# --- vectors --------------------------------------------------------------------------------------


def test_the_servers_enums() -> None:
    data = golden("server_enums")
    assert codec.ENUMS.first(codec.split_datagram(data)) == {5, 8, 9, 23, 100004}
    assert codec.encode_packet(codec.ENUMS.encode({100004, 23, 9, 8, 5})) == data


def test_the_request_for_a_push() -> None:
    data = golden("request_push")
    assert codec.REQUEST_FRAME.first(codec.split_datagram(data)) == 1
    assert codec.encode_packet(codec.REQUEST_FRAME.encode(1)) == data


def test_a_frame_with_one_object() -> None:
    data = golden("one_object")
    assert len(data) == 206
    found = codec.split_datagram(data)
    subject = blocks.SubjectInfo(1, "cf7", (blocks.ViconSegment(0, 1, (0.0,) * 6, "cf7"),))
    assert blocks.SUBJECT_INFO.first(found) == subject
    assert blocks.FRAME_INFO.first(found) == 41
    table = decode_segments(found[9], ROW)
    assert (table["subject"].tolist(), table["id"].tolist()) == ([1], [1])
    np.testing.assert_array_equal(table["p"], [[1000.0, 0.0, 1500.0]])
    np.testing.assert_array_equal(table["R"], [np.eye(3)])
    written = (
        blocks.SUBJECT_INFO.encode(subject),
        blocks.FRAME_INFO.encode(41),
        encode_segments(9, table),
    )
    assert codec.encode_packet(*written) == data


def test_a_datagram_of_the_object_stream() -> None:
    data = golden("object_stream")
    block = decode_objects(data)
    assert (block.frame_number, block.names) == (7, ("cf7",))
    np.testing.assert_array_equal(block.items["p"], [[1000.0, 0.0, 1500.0]])
    assert encode_objects(block) == data
    assert encode_objects(block, 256) == data.ljust(256, b"\0")
    assert decode_objects(data.ljust(256, b"\0")).items.tobytes() == block.items.tobytes()


def test_the_layout_of_blocks_with_several_kinds_of_fields() -> None:
    """Written out by hand from the layout."""
    code = blocks.Timecode(1, 2, 3, 4, 5, 6, 0xFFFFFFFF, 7, 1)
    assert blocks.TIMECODE.encode(code)[8:] == bytes(
        (1, 2, 3, 4, 5, 0, 6, 0)
    ) + b"\xff" * 4 + bytes((7, 0, 0, 0, 1))
    assert str(code) == "01:02:03:04"
    rates = {"b": 2.0, "a": 1.0}
    body = struct.pack("<II1sdI1sd", 2, 1, b"a", 1.0, 1, b"b", 2.0)
    assert blocks.FRAME_RATE_INFO.encode(rates)[8:] == body, "maps are written by ascending keys"
    sender = codec.MulticastSender(0xEF010203, 0x7F000001, 44801)
    assert codec.START_MULTICAST.encode(sender)[8:] == struct.pack(
        "<IIH", 0xEF010203, 0x7F000001, 44801
    )
    contents = codec.Contents({9: 2}, frozenset((5, 1)))
    assert codec.CONTENTS.encode(contents)[8:] == struct.pack("<6I", 1, 9, 2, 2, 1, 5)
    assert codec.FILTER.encode({9: {3, 1}})[8:] == struct.pack("<5I", 1, 9, 2, 1, 3)
    assert codec.KEEP_ALIVE.encode(None) == struct.pack("<II", 100003, 0)
    assert (blocks.LABELED_RECON.itemsize, blocks.UNLABELED_RECON.itemsize) == (116, 108)


# --- framing --------------------------------------------------------------------------------------


def test_packets_come_out_whole_however_they_are_cut() -> None:
    data = golden("server_enums") + golden("one_object") + golden("request_push")
    for size in (1, 5, 7, 100, len(data)):
        deframer, found = codec.Deframer(), []
        for at in range(0, len(data), size):
            deframer.feed(data[at : at + size])
            found += list(deframer.packets())
        assert [len(content) + 8 for content in found] == [40, 206, 17]


def test_whole_packets_before_a_broken_one_are_not_lost() -> None:
    deframer = codec.Deframer()
    deframer.feed(golden("request_push") + b"HTTP/1.1 400")
    packets = deframer.packets()
    assert len(next(packets)) == 9
    with pytest.raises(ProtocolError, match="begins no packet"):
        next(packets)


def test_a_packet_over_the_limit_is_refused_before_it_came() -> None:
    deframer = codec.Deframer()
    deframer.feed(struct.pack("<II", 0x1A2B0001, codec.MAX_PACKET_BYTES + 1))
    with pytest.raises(ProtocolError, match="limit"):
        list(deframer.packets())


def test_too_many_blocks_are_refused() -> None:
    empty = struct.pack("<II", 77, 0)
    assert len(codec.split_packet(empty * 65536)[77]) == 65536
    with pytest.raises(ProtocolError, match="more than"):
        codec.split_packet(empty * 65537)


def test_a_count_that_the_data_cannot_hold_is_refused() -> None:
    for block in (codec.ENUMS, blocks.LATENCY_INFO, blocks.LABELED_RECONS, blocks.FRAME_RATE_INFO):
        with pytest.raises(ProtocolError, match="exceeds"):
            block.decode(struct.pack("<II", 0xFFFFFFFF, 0))
    with pytest.raises(ProtocolError, match="exceeds"):
        blocks.LATENCY_INFO.decode(struct.pack("<II", 1, 2 << 30) + bytes(8))
    with pytest.raises(ProtocolError):
        decode_segments([struct.pack("<II", 1, 0xFFFFFFFF)], ROW)


def test_unknown_blocks_are_passed_over() -> None:
    found = packet(struct.pack("<II3s", 424242, 3, b"abc"), blocks.FRAME_INFO.encode(5))
    assert blocks.FRAME_INFO.first(found) == 5


# --- what a packet leaves out ---------------------------------------------------------------------

PERIOD, SUBJECT, FRAME, LATENCY = 1, 2, 5, 26
STREAM = blocks.STREAM_INFO.encode(1_350_000)
CF7 = blocks.SUBJECT_INFO.encode(blocks.SubjectInfo(1, "cf7", ()))
QUALITY = blocks.OBJECT_QUALITY.encode(blocks.Quality(1, 0.5))
LATENCIES = blocks.LATENCY_INFO.encode((blocks.LatencySample("a", 0.001),))


def listing(*unchanged: int) -> bytes:
    return codec.CONTENTS.encode(codec.Contents({}, frozenset(unchanged)))


def remembered(*packets: tuple[bytes, ...]) -> set[int]:
    memory = BlockCache()
    for encoded in packets:
        memory.update(packet(*encoded))
    return set(memory.blocks)


def test_a_packet_without_a_group_leaves_the_whole_group() -> None:
    first = (listing(), STREAM, CF7, blocks.FRAME_INFO.encode(1), LATENCIES)
    assert remembered(first, (listing(), blocks.FRAME_INFO.encode(2), LATENCIES)) == {
        PERIOD,
        SUBJECT,
        FRAME,
        LATENCY,
    }
    assert remembered(first, (listing(), STREAM, CF7)) == {PERIOD, SUBJECT, FRAME, LATENCY}
    assert remembered(first, (listing(),)) == {PERIOD, SUBJECT, FRAME, LATENCY}


def test_in_a_group_that_came_only_what_is_listed_as_unchanged_stays() -> None:
    first = (listing(), STREAM, CF7, blocks.FRAME_INFO.encode(1), LATENCIES)
    assert remembered(first, (listing(SUBJECT), QUALITY)) == {SUBJECT, 40, FRAME, LATENCY}
    assert remembered(first, (listing(), QUALITY)) == {40, FRAME, LATENCY}
    assert remembered(first, (QUALITY,)) == {40, FRAME, LATENCY}, "no contents, nothing unchanged"
    assert remembered(first, (listing(), blocks.FRAME_INFO.encode(2))) == {PERIOD, SUBJECT, FRAME}
    assert remembered(first, (listing(LATENCY), blocks.FRAME_INFO.encode(2))) == {
        PERIOD,
        SUBJECT,
        FRAME,
        LATENCY,
    }


def test_unchanged_blocks_are_the_packets_before() -> None:
    memory = BlockCache()
    memory.update(packet(listing(), STREAM, CF7, blocks.FRAME_INFO.encode(1)))
    known = memory.blocks[SUBJECT]
    memory.update(packet(listing(PERIOD), CF7, blocks.FRAME_INFO.encode(2)))
    assert blocks.STREAM_INFO.first(memory.blocks) == 1_350_000
    assert blocks.FRAME_INFO.first(memory.blocks) == 2
    assert memory.blocks[SUBJECT] is known, "a repeat needs no second reading"
    malformed = struct.pack("<III", 100004, 4, 9)
    with pytest.raises(ProtocolError):
        memory.update(packet(malformed, blocks.FRAME_INFO.encode(3)))
    assert blocks.FRAME_INFO.first(memory.blocks) == 2


# --- segments -------------------------------------------------------------------------------------


def rows(*counts: int, light: bool = False) -> np.ndarray:
    table = np.zeros(sum(counts), LIGHT_ROW if light else ROW)
    table["subject"] = np.repeat(np.arange(1, len(counts) + 1), counts)
    table["id"] = np.concatenate([np.arange(1, n + 1) for n in counts])
    table["p"] = np.random.default_rng(3).uniform(-1e3, 1e3, (len(table), 3))
    return table


@pytest.mark.parametrize("counts", [(1,), (1, 1, 1), (1, 1, 21, 21, 1), (3, 2, 2)])
@pytest.mark.parametrize("kind", [8, 9, 901])
def test_segments_of_several_subjects_are_one_block_each(
    kind: int, counts: tuple[int, ...]
) -> None:
    table = rows(*counts, light=kind == 901)
    bodies = packet(encode_segments(kind, table))[kind]
    assert [len(body) for body in bodies] == [8 + n * (28 if kind == 901 else 100) for n in counts]
    assert decode_segments(bodies, table.dtype).tobytes() == table.tobytes()
    block = {8: blocks.LOCAL_SEGMENTS, 9: blocks.GLOBAL_SEGMENTS, 901: blocks.LIGHTWEIGHT_SEGMENTS}[
        kind
    ]
    one_by_one = [block.decode(body) for body in bodies]
    assert [part.subject for part in one_by_one] == list(range(1, len(counts) + 1))
    np.testing.assert_array_equal(
        np.concatenate([part.rows["p"] for part in one_by_one]), table["p"]
    )


def test_what_newer_servers_append_to_segments_is_passed_over() -> None:
    table = rows(1, 1)
    bodies = [body + b"more" for body in packet(encode_segments(9, table))[9]]
    assert decode_segments(bodies, ROW).tobytes() == table.tobytes()
    # Bodies of one size with different counts: the first one has an appendix as long as a segment.
    odd = [
        packet(encode_segments(9, rows(1)))[9][0] + bytes(100),
        packet(encode_segments(9, rows(2)))[9][0],
    ]
    assert decode_segments(odd, ROW)["id"].tolist() == [1, 1, 2]


def test_no_segments_at_all() -> None:
    assert len(decode_segments([], ROW)) == 0
    assert encode_segments(9, rows(1)[:0]) == b""
    assert len(decode_segments([struct.pack("<II", 4, 0)], ROW)) == 0


# --- the object stream ----------------------------------------------------------------------------


def test_angles_are_intrinsic_x_y_z() -> None:
    def turn(axis: int, angle: float) -> np.ndarray:
        c, s = np.cos(angle), np.sin(angle)
        i, j = (axis + 1) % 3, (axis + 2) % 3
        R = np.eye(3)
        R[i, i], R[i, j], R[j, i], R[j, j] = c, -s, s, c
        return R

    euler = np.array([[0.3, -0.7, 1.2], [3.0, 1.5, -2.0], [0.0, 0.0, 0.0]])
    q = q_from_euler_xyz(euler)
    expected = [turn(0, x) @ turn(1, y) @ turn(2, z) for x, y, z in euler]
    np.testing.assert_allclose(q_to_matrix(q), expected, atol=1e-12)
    some = q_normalize(np.random.default_rng(1).normal(size=(200, 4)))
    np.testing.assert_allclose(
        q_to_matrix(q_from_euler_xyz(euler_xyz(some))), q_to_matrix(some), atol=1e-9
    )


def test_items_that_are_no_objects_are_passed_over_by_their_size() -> None:
    one = np.zeros(1, ITEM)
    one["name"] = b"gate"
    data = bytearray(encode_objects(ObjectBlock(9, one)))
    data[4] = 2
    data[5:5] = struct.pack("<BH", 7, 4) + b"\xff" * 4
    assert decode_objects(bytes(data)).names == ("gate",)


def test_an_object_that_is_too_small_is_refused() -> None:
    with pytest.raises(ProtocolError, match="an object of 8 bytes"):
        decode_objects(struct.pack("<IBBH", 1, 1, 0, 8) + bytes(8))
