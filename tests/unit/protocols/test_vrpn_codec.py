"""VRPN bytes against the vectors, and the rules about what is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.vrpn.codec import (
    COOKIE,
    COOKIE_BYTES,
    MAX_MESSAGE_BYTES,
    POSE,
    TrackerPose,
    VrpnMessage,
    decode_connect_request,
    decode_cookie,
    decode_message,
    decode_name,
    decode_pose,
    encode_connect_request,
    encode_message,
    encode_name,
    encode_pose,
)
from vil_bridge.protocols.vrpn.id_mapping import Incoming, Outgoing, ResolvedMessage

GOLDEN = Path(__file__).parents[2] / "golden" / "vrpn"
STAMP_NS = 1_700_000_000_250_000_000
STANDING = TrackerPose(0, (1.0, 2.0, 1.5), (0.0, 0.0, 0.0, 1.0))


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


def test_the_cookie_is_one_of_version_7() -> None:
    assert decode_cookie(golden("cookie")) == "07.35"
    assert len(COOKIE) == COOKIE_BYTES
    assert decode_cookie(COOKIE) == "07.38"
    assert golden("cookie").replace(b"07.35", b"07.38") == COOKIE


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sender", VrpnMessage(-1, 1, 0, encode_name("cf7"), 1)),
        ("type", VrpnMessage(-2, 0, 0, encode_name(POSE), 2)),
        ("pose", VrpnMessage(0, 1, STAMP_NS, encode_pose(STANDING), 3)),
    ],
)
def test_vectors_are_read_and_written(name: str, message: VrpnMessage) -> None:
    assert decode_message(golden(name)) == message
    assert encode_message(message) == golden(name)


def test_the_vectors_are_a_conversation() -> None:
    incoming = Incoming()
    stream = golden("cookie") + golden("sender") + golden("type") + golden("pose")
    (heard,) = incoming.feed(stream)
    assert heard == ResolvedMessage("cf7", POSE, STAMP_NS, encode_pose(STANDING))
    assert decode_pose(heard.payload) == STANDING
    assert (incoming.version, incoming.senders) == ("07.35", {1: "cf7"})


def test_any_cut_of_the_stream_gives_the_same_messages() -> None:
    outgoing = Outgoing()
    stream = COOKIE + outgoing.describe(("a", "bc"), (POSE,))
    stream += outgoing.message("bc", POSE, STAMP_NS, encode_pose(STANDING)) + outgoing.message(
        "a", POSE, 5
    )
    whole = list(Incoming().feed(stream))
    assert [heard.sender for heard in whole] == ["bc", "a"]
    for cut in range(len(stream)):
        incoming = Incoming()
        assert [*incoming.feed(stream[:cut]), *incoming.feed(stream[cut:])] == whole


def test_padding_may_hold_anything() -> None:
    stale = golden("type")[:-6] + b"\xde\xad\xbe\xef\xde\xad"
    assert decode_message(stale) == decode_message(golden("type"))


@pytest.mark.parametrize(
    "broken",
    [
        golden("pose")[:3] + b"\x17" + golden("pose")[4:],
        (MAX_MESSAGE_BYTES + 1).to_bytes(4, "big") + golden("pose")[4:],
        golden("pose")[:8] + (1_000_000).to_bytes(4, "big") + golden("pose")[12:],
        golden("pose")[:16] + (-6).to_bytes(4, "big", signed=True) + golden("pose")[20:],
    ],
    ids=["too short", "too long", "microseconds", "system type"],
)
def test_what_no_server_sends_ends_the_conversation(broken: bytes) -> None:
    incoming = Incoming()
    list(incoming.feed(golden("cookie") + golden("sender") + golden("type")))
    with pytest.raises(ProtocolError):
        list(incoming.feed(broken))


@pytest.mark.parametrize("id_at", [12, 16], ids=["sender", "type"])
def test_ids_that_were_never_described_are_passed_over(id_at: int) -> None:
    pose = golden("pose")
    incoming = Incoming()
    list(incoming.feed(golden("cookie") + golden("sender") + golden("type")))
    stray = pose[:id_at] + (9).to_bytes(4, "big") + pose[id_at + 4 :]
    assert [heard.sender for heard in incoming.feed(stray + pose)] == ["cf7"]
    assert incoming.undescribed == 1


@pytest.mark.parametrize(
    "cookie", [b"HTTP/1.1 400 Bad Request\r", COOKIE.replace(b"07.", b"06."), b"\0" * 24]
)
def test_other_peers_are_told_apart(cookie: bytes) -> None:
    with pytest.raises(ProtocolError, match="cookie"):
        list(Incoming().feed(cookie[:COOKIE_BYTES]))


def test_names_are_bounded() -> None:
    assert decode_name(encode_name("Kopf é")) == "Kopf é"
    for payload in (
        b"",
        b"\0\0\0\4abc",
        b"\0\0\0\3abc",
        b"\xff\xff\xff\xffa\0",
        (600).to_bytes(4, "big") + b"a" * 600,
    ):
        with pytest.raises(ProtocolError):
            decode_name(payload)


@pytest.mark.parametrize("number", [-1, 1 << 16])
def test_a_sensor_that_no_device_has_is_refused(number: int) -> None:
    pose = number.to_bytes(4, "big", signed=True) + encode_pose(STANDING)[4:]
    with pytest.raises(ProtocolError, match=f"^sensor {number} at byte 0 of 64$"):
        decode_pose(pose)


def test_a_server_may_be_asked_to_connect_back() -> None:
    assert encode_connect_request("10.0.0.7", 4711) == b"10.0.0.7 4711\0"
    assert decode_connect_request(b"10.0.0.7 4711\0stale") == ("10.0.0.7", 4711)
    for datagram in (
        b"",
        b"10.0.0.7",
        b"10.0.0.7 x",
        b"10.0.0.7 0",
        b"10.0.0.7 65536",
        b"a b c",
        b"\xff\xfe 12",
    ):
        with pytest.raises(ProtocolError):
            decode_connect_request(datagram)
