"""The live feed's messages, byte by byte."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    SkeletonFrame,
    SkeletonModel,
    TrackingState,
    WorldSnapshot,
)
from vil_bridge.web.live.codec import (
    LivePoses,
    LivePreview,
    decode_live,
    encode_poses,
    encode_preview,
)

T_NS = 1 << 50


def world() -> WorldSnapshot:
    place = Transform.of((1.0, -2.0, 0.5), (0.0, 0.0, 0.6, 0.8))
    model = SkeletonModel("Actor", ("Hip", "Head"), (-1, 0), np.zeros((2, 3)))
    bones_m = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    person = SkeletonFrame(
        model, bones_m, np.array([[0, 0, 0, 1.0], [1.0, 0, 0, 0]]), np.ones(2, dtype=np.bool_)
    )
    return WorldSnapshot(
        T_NS,
        (
            ActorState("drone", ActorKind.VEHICLE, TrackingState.COASTING, 40_000_000, place),
            ActorState("gate", ActorKind.PROP, TrackingState.LOST, None, Transform.identity()),
            ActorState("person", ActorKind.HUMAN, TrackingState.STALE, 500_000_000, place, person),
        ),
    )


MESSAGE = encode_poses(world(), np.array([1.5, np.nan, np.nan]), 7)


def test_poses_byte_by_byte() -> None:
    nan = float("nan")
    pose = (1.0, -2.0, 0.5, 0.0, 0.0, 0.6, 0.8)
    bones = (1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0, 4.0, 5.0, 6.0, 1.0, 0.0, 0.0, 0.0)
    by_hand = b"".join(
        (
            struct.pack("<BBHIq", 1, 1, 3, 7, T_NS),
            struct.pack("<HBB9f", 0, 1, 0, 0.04, *pose, 1.5),
            struct.pack("<HBB9f", 1, 4, 0, nan, 0, 0, 0, 0, 0, 0, 1, nan),
            struct.pack("<HBB9f", 2, 2, 0, 0.5, *pose, nan),
            struct.pack("<HHH14f", 1, 2, 2, *bones),
        )
    )
    assert by_hand == MESSAGE
    assert len(MESSAGE) == 16 + 3 * 40 + 2 + 4 + 2 * 28


def test_what_was_packed_is_read() -> None:
    told = decode_live(MESSAGE)
    assert isinstance(told, LivePoses)
    assert (told.revision, told.t_ns, told.states) == (7, T_NS, ("coasting", "never seen", "stale"))
    np.testing.assert_allclose(told.p_world_m[0], (1.0, -2.0, 0.5))
    np.testing.assert_allclose(told.q_xyzw[2], (0.0, 0.0, 0.6, 0.8), atol=1e-7)
    assert told.skeletons[0].p_world_m.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    preview = decode_live(encode_preview({"camera": "front", "age_s": None}, b"\xff\xd8jpeg"))
    assert preview == LivePreview({"camera": "front", "age_s": None}, b"\xff\xd8jpeg")


def test_an_empty_world() -> None:
    told = decode_live(encode_poses(WorldSnapshot(T_NS, ()), np.empty(0), 1))
    assert isinstance(told, LivePoses)
    assert told.p_world_m.shape == (0, 3)


@pytest.mark.parametrize("length", range(len(MESSAGE)))
def test_every_truncation_is_an_error(length: int) -> None:
    with pytest.raises(ProtocolError):
        decode_live(MESSAGE[:length])


@pytest.mark.parametrize(
    "message",
    [
        MESSAGE + b"\0",
        b"\x03" + MESSAGE[1:],
        MESSAGE[:1] + b"\x02" + MESSAGE[2:],
        MESSAGE[:18] + b"\x06" + MESSAGE[19:],  # the first actor's state
        b"\x02\x01\xff\xff{}",
        b"\x02\x01\x02\x00[]",
        b"\x02\x01\x04\x00{\xff}}",
    ],
)
def test_nonsense_is_an_error(message: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_live(message)


def test_a_preview_is_its_header_and_its_picture() -> None:
    message = encode_preview({"camera": "front"}, b"picture")
    (size,) = struct.unpack_from("<H", message, 2)
    assert (message[:2], json.loads(message[4 : 4 + size]), message[4 + size :]) == (
        b"\x02\x01",
        {"camera": "front"},
        b"picture",
    )
