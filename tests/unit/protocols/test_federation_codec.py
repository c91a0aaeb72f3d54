"""The format between bridges: bytes written by hand, limits, and what contradicts itself."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest

from tests.support.federation import RoomMotion
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ActorKind, TrackingState
from vil_bridge.protocols.federation.messages import (
    RECORD,
    ActorInfo,
    ActorPose,
    ClockMessage,
    Description,
    FederationKind,
    FrameMessage,
    Responder,
    decode_ack,
    decode_clock,
    decode_description,
    decode_frame,
    encode_ack,
    encode_clock,
    encode_describe,
    encode_description,
    encode_frame,
    message_kind,
    records_of,
)

RUN = 0x1122334455667788


def by_hand(kind: int, payload: bytes, run: int = RUN, version: int = 1) -> bytes:
    """A message straight from the layout."""
    checked = struct.pack("<IQ", 0, run) + payload
    return b"VILR" + struct.pack("<BBHI", version, kind, 0, crc32(checked)) + checked


def record(actor: int, state: int, bones: int, *pose: float) -> bytes:
    return struct.pack("<HBBI7d", actor, state, 0, bones, *pose)


DRONE = record(3, 0, 0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.6, 0.8)
HUMAN = record(4, 1, 2, 5.0, 6.0, 0.9, 0.0, 0.0, 0.0, 1.0)
HIP = record(4, 1, 0, 5.0, 6.0, 0.9, 0.0, 0.0, 0.0, 1.0)
HEAD = record(4, 3, 0, 5.0, 6.0, 1.7, 0.0, 0.0, 0.0, 1.0)
FRAME = by_hand(
    1, struct.pack("<QIHHqq", 77, 2, 2, 2, 10**15, 10**15 + 5) + DRONE + HUMAN + HIP + HEAD
)


def test_a_frame_written_by_hand_is_read() -> None:
    frame = decode_frame(FRAME)
    assert (frame.run, frame.sequence, frame.revision) == (RUN, 77, 2)
    assert (frame.t_capture_ns, frame.t_sent_ns) == (10**15, 10**15 + 5)
    assert frame.actors["actor"].tolist() == [3, 4]
    assert frame.states() == [TrackingState.TRACKED, TrackingState.COASTING]
    assert frame.actors["p_m"].tolist() == [[1.0, 2.0, 3.0], [5.0, 6.0, 0.9]]
    assert frame.actors["q_xyzw"][0].tolist() == [0.0, 0.0, 0.6, 0.8]
    assert frame.bones["p_m"][:, 2].tolist() == [0.9, 1.7]
    assert encode_frame(frame) == FRAME


def test_small_messages_written_by_hand() -> None:
    assert by_hand(3, struct.pack("<qq", 5, -7)) == encode_clock(ClockMessage(RUN, 5, -7))
    assert decode_clock(by_hand(3, struct.pack("<qq", 5, -7))) == ClockMessage(RUN, 5, -7)
    assert encode_describe() == by_hand(4, b"", run=0)
    assert encode_ack(9) == by_hand(5, struct.pack("<Q", 9), run=0)
    assert decode_ack(encode_ack(9)) == 9
    assert message_kind(FRAME) is FederationKind.FRAME


def test_a_motions_poses_come_back_to_the_bit() -> None:
    seen = RoomMotion().at(5_000_000_000)
    human = seen.skeletons[0]
    human.tracked[3] = False
    poses = [
        ActorPose(0, TrackingState.TRACKED, seen.p_m[0], seen.q_xyzw[0]),
        ActorPose(1, TrackingState.TRACKED, human.p_m[0], human.q_xyzw[0], human),
    ]
    frame = decode_frame(encode_frame(FrameMessage(1, 2, 3, 4, 5, *records_of(poses))))
    np.testing.assert_array_equal(frame.actors["p_m"][0], seen.p_m[0])
    np.testing.assert_array_equal(frame.bones["p_m"], human.p_m)
    np.testing.assert_array_equal(frame.bones["q_xyzw"], human.q_xyzw)
    assert np.flatnonzero(frame.bones["state"]).tolist() == [3]


def test_a_description_comes_back() -> None:
    model = RoomMotion().skeleton_models[0]
    told = Description(
        "far",
        4,
        (
            ActorInfo("drone", ActorKind.VEHICLE, "Quad", (1.0, 2.0, 3.0)),
            ActorInfo("Eva", ActorKind.HUMAN, skeleton=model),
        ),
    )
    run, found = decode_description(encode_description(RUN, told))
    assert run == RUN
    assert found.actors[0] == told.actors[0]
    read = found.actors[1].skeleton
    assert read is not None
    assert (read.name, read.bones, read.parents, read.scale) == (
        model.name,
        model.bones,
        model.parents,
        model.scale,
    )
    np.testing.assert_array_equal(read.offsets_m, model.offsets_m)


SKELETON = {
    "name": "s",
    "bones": ["a", "b"],
    "parents": [-1, 0],
    "offsets_m": [[0, 0, 0], [0, 0, 1]],
    "scale": 1.0,
}
EVA = {"name": "Eva", "kind": "human", "prefab": "", "size_m": [1, 1, 1], "skeleton": SKELETON}


@pytest.mark.parametrize(
    ("actor", "said"),
    [
        (EVA | {"kind": "ghost"}, "kind"),
        (EVA | {"name": ""}, "length"),
        (EVA | {"name": 256 * "n"}, "length"),
        (EVA | {"size_m": [1, 1]}, "length 3"),
        (EVA | {"skeleton": SKELETON | {"parents": [-1]}}, "differ in number"),
        (EVA | {"skeleton": SKELETON | {"parents": [-1, 1]}}, "does not stand before"),
        (EVA | {"skeleton": SKELETON | {"parents": [-2, 0]}}, "does not stand before"),
        (EVA | {"skeleton": SKELETON | {"bones": []}}, "length"),
    ],
)
def test_descriptions_that_contradict_themselves(actor: dict[str, object], said: str) -> None:
    good = {"site": "far", "revision": 1, "actors": [EVA | {"name": 255 * "n"}]}
    decode_description(by_hand(2, json.dumps(good).encode()))
    with pytest.raises(ProtocolError, match=said):
        decode_description(by_hand(2, json.dumps(good | {"actors": [actor]}).encode()))
    with pytest.raises(ProtocolError, match="twice"):
        decode_description(by_hand(2, json.dumps(good | {"actors": [EVA, EVA]}).encode()))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"", "too short"),
        (bytes(2**20 + 1), "too long"),
        (b"RUBB" + FRAME[4:], "not a message between bridges"),
        (by_hand(1, b"", version=2), "version 2"),
        (by_hand(9, b""), "unknown kind 9"),
        (FRAME[:-1] + b"\x7f", "checksum is wrong at byte 8"),
        (by_hand(1, struct.pack("<QIHHqq", 1, 1, 2, 0, 0, 0) + DRONE), "do not fit"),
        (by_hand(1, struct.pack("<QIHHqq", 1, 1, 65535, 65535, 0, 0)), "do not fit"),
        (by_hand(1, struct.pack("<QIHHqq", 1, 1, 1, 0, 0, 0) + HUMAN), "bones"),
        (
            by_hand(1, struct.pack("<QIHHqq", 1, 1, 1, 0, 0, 0) + record(0, 4, 0, *[0.0] * 7)),
            "tracking state",
        ),
        (by_hand(3, bytes(16)), "not a message of kind FRAME"),
    ],
)
def test_frames_that_are_none(message: bytes, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        decode_frame(message)


def test_every_truncation_is_refused() -> None:
    for message in (FRAME, encode_clock(ClockMessage(1, 2)), encode_ack(3)):
        for length in range(len(message)):
            for decode in (
                decode_frame,
                decode_clock,
                decode_ack,
                decode_description,
                message_kind,
            ):
                with pytest.raises(ProtocolError):
                    decode(message[:length])


def test_a_publisher_answers_what_is_asked_and_nothing_else() -> None:
    responder = Responder(RUN, Description("far", 1, ()), clock=lambda: 123)
    answer = responder.answer(encode_clock(ClockMessage(0, 55)))
    assert answer is not None
    assert decode_clock(answer) == ClockMessage(RUN, 55, 123)
    told = responder.answer(encode_describe())
    assert told is not None
    assert decode_description(told) == (RUN, Description("far", 1, ()))
    responder.description = replace(responder.description, revision=2)
    assert responder.answer(encode_ack(1)) is None
    with pytest.raises(ProtocolError):
        responder.answer(b"?")


def test_records_are_64_bytes() -> None:
    assert RECORD.itemsize == 64
