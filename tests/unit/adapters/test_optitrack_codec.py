"""NatNet bytes to values: golden vectors, real packets, limits."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.support.common import data_dir
from tests.support.optitrack import (
    OLD_VERSIONS,
    VERSIONS,
    Version,
    datagram,
    full_frame,
    full_models,
    golden,
    suffix,
)
from vil_adapters.optitrack.fast_codec import decode_poses
from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.natnet.codec import (
    Connect,
    EchoReply,
    MessageId,
    ServerInfo,
    bitstream_reply,
    decode_connect,
    decode_echo_reply,
    decode_echo_request,
    decode_server_info,
    decode_text,
    encode,
    encode_connect,
    encode_echo_reply,
    encode_echo_request,
    encode_server_info,
    encode_text,
    message_id,
    parse_version,
    response_f32,
)
from vil_bridge.protocols.natnet.frame import BODY, AnalogSamples, NatNetFrame, SkeletonPose, Suffix
from vil_bridge.protocols.natnet.frame_codec import decode_frame, encode_frame
from vil_bridge.protocols.natnet.model import (
    BodyDescription,
    MarkerDescription,
    Models,
    SkeletonDescription,
)
from vil_bridge.protocols.natnet.model_codec import decode_models, encode_models
from vil_bridge.protocols.natnet.reader import DatagramReader

V30: Version = (3, 0, 0, 0)
V41: Version = (4, 1, 0, 0)
VECTOR_SUFFIX = Suffix(12.5, 1000, 1100, 1200, 0)


def real(name: str) -> bytes:
    return (data_dir("natnet_v3_packets") / f"{name}_v3.bin").read_bytes()


def bodies(*rows: tuple[int, tuple[float, ...], tuple[float, ...], float, int]) -> np.ndarray:
    return np.array(list(rows), dtype=BODY)


# --- golden vectors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version"), [("frame_30_one_body", V30), ("frame_41_one_body", V41)]
)
def test_golden_body_frame(name: str, version: Version) -> None:
    frame = decode_frame(golden(name), version)
    assert frame.number == 1001
    assert frame.bodies["id"].tolist() == [7]
    assert frame.bodies["p"].tolist() == [[1.0, 2.0, -0.5]]
    assert frame.bodies["q"].tolist() == [[0.0, 0.0, 0.0, 1.0]]
    assert frame.bodies["error"][0] == np.float32(0.0005)
    assert frame.bodies["params"].tolist() == [1]
    assert (frame.suffix, frame.skeletons, frame.unread) == (VECTOR_SUFFIX, (), 0)
    written = NatNetFrame(
        1001, bodies((7, (1, 2, -0.5), (0, 0, 0, 1), 0.0005, 1)), suffix=VECTOR_SUFFIX
    )
    assert encode_frame(written, version) == golden(name)


def test_golden_skeleton_frame() -> None:
    frame = decode_frame(golden("frame_41_skeleton"), V41)
    (skeleton,) = frame.skeletons
    assert skeleton.id == 3
    assert (skeleton.bones["id"] & 0xFFFF).tolist() == [1, 2]
    assert skeleton.bones["p"].tolist() == [[0.0, 1.0, 0.0], [0.0, 0.25, 0.0]]
    assert skeleton.bones["params"].tolist() == [1, 1]
    assert encode_frame(
        NatNetFrame(1001, skeletons=(skeleton,), suffix=VECTOR_SUFFIX), V41
    ) == golden("frame_41_skeleton")


def test_golden_models() -> None:
    models = decode_models(golden("modeldef_41"), V41)
    hip, ab = BodyDescription("Hip", 1, 0), BodyDescription("Ab", 2, 1, (0.0, 0.25, 0.0))
    assert models == Models((BodyDescription("cf7", 7), SkeletonDescription("Actor", 3, (hip, ab))))
    assert encode_models(models, V41) == golden("modeldef_41")


def test_golden_server_info() -> None:
    info = ServerInfo("Motive", (3, 1, 0, 0), V41, 10_000_000, 1511, False, "239.255.42.99")
    written = encode_server_info(info, stale=b"left over\0bytes")
    assert written[-19:] == golden("serverinfo_41_tail")
    assert len(written) == 4 + 279
    assert b"left over" in written
    assert decode_server_info(written) == info
    assert decode_server_info(datagram(1, written[4:] + bytes(8))) == info, (
        "longer ones are accepted"
    )


# --- nine packets of a real Motive 2.1 ------------------------------------------------------------


def test_real_handshake() -> None:
    for name, identity in (
        ("connect_packet", MessageId.CONNECT),
        ("discovery_packet", MessageId.DISCOVERY),
    ):
        packet = real(name)
        assert message_id(packet) == identity
        connect = decode_connect(packet)
        assert connect == Connect("NatNetLib", V30, V30)
        assert encode_connect(connect, identity) == packet
    packet = real("serverinfo_packet")
    assert message_id(packet) == MessageId.SERVERINFO
    info = decode_server_info(packet)
    assert info == ServerInfo("Motive", (2, 1, 0, 0), V30, 3312787, 1511, True, "239.255.42.99")
    stale = packet[4 + len("Motive") + 1 : 4 + 256]
    assert any(stale), "what stands after the name's end is left over from other messages"
    assert encode_server_info(info, stale) == packet


def test_real_echo_and_request() -> None:
    request, reply = real("echorequest_packet"), real("echoresponse_packet")
    assert (message_id(request), message_id(reply)) == (
        MessageId.ECHOREQUEST,
        MessageId.ECHORESPONSE,
    )
    sent = decode_echo_request(request)
    answer = decode_echo_reply(reply)
    assert answer.client == sent == int.from_bytes(request[4:], "little")
    assert answer.ticks == int.from_bytes(reply[12:], "little")
    assert (encode_echo_request(sent), encode_echo_reply(answer)) == (request, reply)
    assert real("requestmodeldef_packet") == encode(MessageId.REQUEST_MODELDEF)


def test_real_models() -> None:
    packet = real("modeldef_packet")
    models = decode_models(packet, V30)
    assert (encode_models(models, V30), models.unread) == (packet, 0)
    (body,) = models.bodies
    assert set(models.marker_sets) == {"RaceQuad", "all"}
    assert (body.name, body.id, body.parent_id, body.offset) == ("RaceQuad", 2, -1, (0.0, 0.0, 0.0))
    assert len(body.markers) == 5
    assert body.markers[0].p == pytest.approx((0.161159, 0.0350516, -0.0321813), abs=1e-6)


def test_real_frame() -> None:
    packet = real("mocapframe_packet")
    frame = decode_frame(packet, V30)
    assert encode_frame(frame, V30) == packet
    assert frame.number == 162734
    assert frame.bodies["id"].tolist() == [2]
    assert frame.bodies["p"][0] == pytest.approx((0.17444664, 1.4471314, -0.734304))
    assert frame.bodies["q"][0] == pytest.approx((-0.05459423, 0.5099482, 0.04370357, -0.8573577))
    assert np.linalg.norm(frame.bodies["q"][0]) == pytest.approx(1.0, abs=1e-6)
    assert frame.bodies["params"].tolist() == [1]
    assert frame.markers["id"].tolist() == [131073, 131074, 131075, 131076, 131077, 50007]
    assert frame.markers["params"].tolist() == [10, 10, 10, 10, 10, 18]
    assert frame.suffix.timestamp_s == pytest.approx(1356.1166667)
    assert frame.suffix.mid_exposure < frame.suffix.received < frame.suffix.transmit
    assert (frame.suffix.received - frame.suffix.mid_exposure) / 3312787 == pytest.approx(
        4.6e-3, abs=0.2e-3
    )
    assert frame.unread == 0


def test_real_occluded_frame() -> None:
    packet = real("mocapframe_packet_occluded")
    frame = decode_frame(packet, V30)
    assert encode_frame(frame, V30) == packet
    assert frame.number == 269007
    assert frame.bodies["id"].tolist() == [7]
    assert frame.bodies["params"].tolist() == [1], "one occluded marker does not lose the body"
    assert (frame.markers["params"] & 1).tolist() == [1, 0, 0, 0]
    assert (frame.markers["id"] >> 16).tolist() == [7, 7, 7, 7]


# --- every section, every version -----------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS + OLD_VERSIONS)
def test_full_frame(version: Version) -> None:
    frame = decode_frame(full_frame(version), version)
    assert frame.number == 1001
    assert frame.bodies["id"].tolist() == [7, 8]
    assert frame.bodies["p"].tolist() == [[1.0, 2.0, -0.5], [4.0, 5.0, 6.0]]
    assert frame.bodies["q"][1].tolist() == pytest.approx([0.0, 0.0, 0.6, 0.8])
    assert frame.bodies["params"].tolist() == ([1, 0] if version >= (2, 6) else [1, 1])
    assert frame.skeletons[0].id == 3
    assert frame.skeletons[0].bones["p"].tolist() == [[0.0, 1.0, 0.0], [0.0, 0.25, 0.0]]
    assert frame.markers["id"].tolist() == [50007]
    assert [(m.name, m.p.tolist()) for m in frame.marker_sets] == [
        ("all", [[1.0, 2.0, 3.0]]),
        ("", []),
    ]
    assert frame.other_markers.tolist() == [[1.0, 2.0, 3.0]]
    assert [len(block) for block in frame.body_markers] == ([2, 2] if version < (3,) else [])
    channels = [[1.0, 2.0, 3.0], []]
    assert [(p.id, [c.tolist() for c in p.channels]) for p in frame.force_plates] == (
        [(9, channels)] if version >= (2, 9) else []
    )
    assert [(d.id, [c.tolist() for c in d.channels]) for d in frame.devices] == (
        [(10, channels)] * 2 if version >= (3,) else []
    )
    assert [(a.id, len(a.bodies), len(a.markers)) for a in frame.assets] == (
        [(5, 1, 1)] if version >= (4, 1) else []
    )
    assert frame.suffix.timestamp_s == (12.5 if version >= (2, 6) else None)
    assert frame.suffix.params == (1 if version >= (2, 6) else 0)
    assert frame.suffix.mid_exposure == (1000 if version >= (3,) else 0)
    assert frame.suffix.old_latency_s == (99.0 if version < (3,) else 0.0)
    assert frame.unread == 0
    assert encode_frame(frame, version) == full_frame(version)


@pytest.mark.parametrize("version", VERSIONS + OLD_VERSIONS)
def test_full_models(version: Version) -> None:
    models = decode_models(full_models(version), version)
    (body,), (skeleton,) = models.bodies, models.skeletons
    turn = (
        (0.0, 0.0, float(np.float32(0.6)), float(np.float32(0.8)))
        if version >= (4, 2)
        else (0.0, 0.0, 0.0, 1.0)
    )
    name = "mark" if version >= (4,) else ""
    places = ((0.0, 1.0, 2.0), (3.0, 4.0, 5.0)) if version >= (3,) else ()
    markers = tuple(MarkerDescription(p, 0, name) for p in places)
    assert body == BodyDescription("cf7", 7, -1, (0.0, 0.0, 0.0), turn, markers)
    assert (skeleton.name, skeleton.id) == ("Actor", 3)
    assert [type(item).__name__.removesuffix("Description") for item in models.items] == [
        *("MarkerSet", "Body", "Skeleton"),
        *(("ForcePlate", "Device", "Camera") if version >= (3,) else ()),
        *(("Asset", "Unknown") if version >= (4, 1) else ()),
    ]
    assert (encode_models(models, version), models.unread) == (full_models(version), 0)
    assert [(b.name, b.id, b.parent_id, b.offset[1]) for b in skeleton.bones] == [
        ("Hip", 1, 0, 0),
        ("Ab", 2, 1, 0.25),
    ]


@pytest.mark.parametrize("version", VERSIONS + OLD_VERSIONS)
def test_every_truncation_is_refused(version: Version) -> None:
    """Cut anywhere, with a header that knows of the cut or not, a message is never taken for a
    whole one.
    """
    for whole, decode in (
        (full_frame(version), decode_frame),
        (full_frame(version), decode_poses),
        (full_models(version), decode_models),
    ):
        for size in range(len(whole)):
            with pytest.raises(ProtocolError):
                message_id(whole[:size])
        for size in range(4, len(whole)):
            with pytest.raises(ProtocolError):
                decode(datagram(whole[0], whole[4:size]), version)


def test_unknown_sections_before_the_suffix_are_passed_over() -> None:
    """A newer server's section does not hide the stamps, which end every frame."""
    known = full_frame(V41)
    end = len(known) - len(suffix(V41))
    newer = datagram(7, known[4:end] + b"a section of 4.9" + known[end:])
    for decode in (decode_frame, decode_poses):
        frame = decode(newer, V41)
        assert (frame.unread, frame.suffix.mid_exposure, frame.bodies["id"].tolist()) == (
            16,
            1000,
            [7, 8],
        )
    assert encode_frame(decode_frame(newer, V41), V41) == newer
    with pytest.raises(ProtocolError):
        decode_frame(datagram(7, full_frame(V30)[4:] + bytes(4)), V30)


def test_longer_body_records_keep_their_known_fields() -> None:
    section = struct.pack("<2i", 2, 80) + 2 * (full_frame(V41)[-54 - 38 :][:38] + b"\1\2")
    start = 4 + 4 + 16
    plain = encode_frame(NatNetFrame(5, suffix=VECTOR_SUFFIX), V41)
    for decode in (decode_frame, decode_poses):
        frame = decode(datagram(7, plain[4:start] + section + plain[start + 8 :]), V41)
        assert (len(frame.bodies), frame.unread) == (2, 4)
        assert frame.bodies[0] == frame.bodies[1]


@pytest.mark.parametrize("count", [-1, 1_000_000_000, 0x7FFFFFFF, -0x80000000])
@pytest.mark.parametrize("version", VERSIONS)
def test_counts_are_bounded_before_anything_is_allocated(count: int, version: Version) -> None:
    readers = (full_frame(version), decode_frame), (full_frame(version), decode_poses)
    for whole, decode in (*readers, (full_models(version), decode_models)):
        offset = 4 if decode is decode_models else 8
        hostile = whole[:offset] + struct.pack("<i", count) + whole[offset + 4 :]
        with pytest.raises(ProtocolError) as caught:
            decode(hostile, version)
        assert caught.value.offset is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_hostile_count_anywhere_is_refused_as_one(version: Version) -> None:
    """Wherever four bytes are a count: a section's, a skeleton's bones', a body's markers'."""
    refused = 0
    for whole, decode in (
        (full_frame(version), decode_frame),
        (full_frame(version), decode_poses),
        (full_models(version), decode_models),
    ):
        for offset in range(4, len(whole) - 4):
            for count in (-1, -0x80000000, 0x7FFFFFFF):
                hostile = whole[:offset] + struct.pack("<i", count) + whole[offset + 4 :]
                try:
                    decode(hostile, version)
                except ProtocolError:
                    refused += 1
    assert refused > 100


@pytest.mark.parametrize(("count", "least_bytes"), [(-1, 4), (-0x80000000, 1), (26, 4), (101, 1)])
def test_a_count_is_between_none_and_what_fits(count: int, least_bytes: int) -> None:
    with pytest.raises(
        ProtocolError,
        match=f"count {count} of elements of {least_bytes} bytes or more, 100 bytes left",
    ):
        DatagramReader(struct.pack("<i", count) + bytes(100), 0).count(least_bytes)
    assert DatagramReader(struct.pack("<i", 25) + bytes(100), 0).count(4) == 25


def test_more_channels_than_fit_are_refused_by_their_count() -> None:
    """Each takes four bytes at least; the suffix of 46 bytes is all that follows."""
    whole = encode_frame(
        NatNetFrame(5, devices=(AnalogSamples(10, ()),), suffix=VECTOR_SUFFIX), V30
    )
    at = len(whole) - len(suffix(V30)) - 4
    hostile = whole[:at] + struct.pack("<i", 12) + whole[at + 4 :]
    for decode in (decode_frame, decode_poses):
        with pytest.raises(
            ProtocolError,
            match=f"count 12 of elements of 4 bytes or more, 46 bytes left at byte {at} of",
        ):
            decode(hostile, V30)


def test_end_mark_is_checked() -> None:
    with pytest.raises(ProtocolError, match="end mark"):
        decode_frame(golden("frame_41_one_body")[:-4] + b"\1\0\0\0", V41)


# --- small messages -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 264, 269, 270, 300])
def test_connect_sizes_that_clients_send(size: int) -> None:
    wanted = Connect("app", (1, 2, 3, 4), V41, True, (4, 0, 0, 0))
    payload = encode_connect(wanted)[4:].ljust(size, b"\0")[:size]
    connect = decode_connect(datagram(0, payload))
    assert connect == (
        Connect() if not size else wanted if size > 264 else Connect("app", (1, 2, 3, 4), V41)
    )


def test_a_connect_may_be_one_word() -> None:
    assert decode_connect(datagram(0, b"Ping\0")) == Connect("Ping")


@pytest.mark.parametrize(
    "payload", [b"Ping", b"Ping\0\0", bytes(256), bytes(263), bytes(265), bytes(268)]
)
def test_connects_that_nobody_sends(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_connect(datagram(0, payload))


def test_server_info_of_2x_and_nonsense() -> None:
    old = datagram(1, b"Tracking\0".ljust(256, b"\xff") + bytes((1, 9, 0, 0)) + bytes((2, 9, 0, 0)))
    info = ServerInfo("Tracking", (1, 9, 0, 0), (2, 9, 0, 0))
    assert decode_server_info(old) == info
    assert encode_server_info(info, stale=b"\xff" * 256) == old
    good = encode_server_info(ServerInfo("Motive", (3, 1, 0, 0), V41, 1000, 1511, True))
    for bad in (good[:-1], good[:-4] + b"\x0a\0\0\1", good[:-7] + b"\0\0" + good[-5:]):
        with pytest.raises(ProtocolError):
            decode_server_info(datagram(1, bad[4:]))


def test_header() -> None:
    assert message_id(encode(MessageId.KEEPALIVE)) == 10
    assert message_id(datagram(4711, b"x")) == 4711
    for bad in (b"", b"\7", b"\7\0\1\0", b"\7\0\0\0\0"):
        with pytest.raises(ProtocolError):
            message_id(bad)
    with pytest.raises(ValueError, match="do not fit"):
        encode(MessageId.FRAMEOFDATA, bytes(65504))


def test_commands() -> None:
    assert decode_text(encode_text(MessageId.REQUEST, "FrameRate")) == "FrameRate"
    assert response_f32(encode(MessageId.RESPONSE, struct.pack("<f", 240.0))) == 240.0
    assert bitstream_reply(encode_text(MessageId.RESPONSE, "Bitstream,4.1")) == V41
    assert bitstream_reply(encode_text(MessageId.RESPONSE, "C:/Sessions")) is None
    for bad in ("Bitstream,", "Bitstream,4.x", "Bitstream,4.1.2.3.4", "Bitstream,400"):
        with pytest.raises(ProtocolError):
            bitstream_reply(encode_text(MessageId.RESPONSE, bad))
    with pytest.raises(ProtocolError):
        decode_text(datagram(2, b"no end"))
    assert parse_version("2.10") > parse_version("2.9")


def test_layouts_before_2_5_are_refused() -> None:
    ancient = (2, 4, 0, 0)
    with pytest.raises(ValueError, match="not known"):
        encode_frame(NatNetFrame(1), ancient)
    with pytest.raises(ValueError, match="not known"):
        encode_models(Models(), ancient)
    for decode in (decode_frame, decode_poses, decode_models):
        with pytest.raises(ProtocolError, match="not known"):
            decode(full_frame((2, 5, 0, 0)), ancient)


def test_written_skeletons_are_read_back_by_every_version() -> None:
    bones = bodies(*((3 << 16 | i, (i, 0, 0), (0, 0, 0, 1), 0.0, 1) for i in (1, 2, 3)))
    for version in VERSIONS:
        frame = decode_frame(
            encode_frame(NatNetFrame(7, skeletons=(SkeletonPose(3, bones),)), version), version
        )
        assert np.array_equal(frame.skeletons[0].bones, bones)
    assert decode_echo_reply(encode_echo_reply(EchoReply(2**63, 2**64 - 1))) == EchoReply(
        2**63, 2**64 - 1
    )
