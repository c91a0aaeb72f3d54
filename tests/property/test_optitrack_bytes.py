"""Whatever bytes come in, NatNet decoders answer with values or ProtocolError; what is written is read back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.optitrack_support import OLD_VERSIONS, VERSIONS, Version, datagram, full_frame, full_models
from vil_adapters.optitrack import codec
from vil_adapters.optitrack.frame import BODY, MARKER, Frame, SkeletonPose, Suffix, decode_frame, encode_frame
from vil_adapters.optitrack.model import BodyDescription, Models, SkeletonDescription, decode_models, encode_models
from vil_bridge.core.errors import ProtocolError

versions = st.sampled_from(VERSIONS)
i32 = st.integers(-(2**31), 2**31 - 1)
i16 = st.integers(-(2**15), 2**15 - 1)
u64 = st.integers(0, 2**64 - 1)
f32 = st.floats(width=32, allow_nan=False)
vector = st.tuples(f32, f32, f32)
quaternion = st.tuples(f32, f32, f32, f32)
name = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
version_numbers = st.tuples(*[st.integers(0, 255)] * 4)

body_rows = st.lists(st.tuples(i32, vector, quaternion, f32, i16), max_size=4).map(lambda r: np.array(r, dtype=BODY))
marker_rows = st.lists(st.tuples(i32, vector, f32, i16, f32), max_size=4).map(lambda r: np.array(r, dtype=MARKER))
suffixes = st.builds(Suffix, st.floats(allow_nan=False), u64, u64, u64, i16)
frames = st.builds(
    Frame,
    i32,
    body_rows,
    st.lists(st.builds(SkeletonPose, i32, body_rows), max_size=3).map(tuple),
    marker_rows,
    suffixes,
)
descriptions = st.builds(
    BodyDescription, name, i32, i32, vector, st.just((0.0, 0.0, 0.0, 1.0)), st.lists(vector, max_size=3).map(tuple)
)
skeletons = st.builds(SkeletonDescription, name, i32, st.lists(descriptions, max_size=3).map(tuple))
models = st.builds(Models, st.lists(descriptions, max_size=3).map(tuple), st.lists(skeletons, max_size=2).map(tuple))


@given(frames, versions)
def test_frames_are_read_back(frame: Frame, version: Version) -> None:
    read = decode_frame(encode_frame(frame, version), version)
    assert (read.number, read.suffix, read.unread) == (frame.number, frame.suffix, 0)
    assert read.bodies.tobytes() == frame.bodies.tobytes()
    assert read.markers.tobytes() == frame.markers.tobytes()
    assert [(s.id, s.bones.tobytes()) for s in read.skeletons] == [(s.id, s.bones.tobytes()) for s in frame.skeletons]


@given(models, versions)
def test_models_are_read_back(written: Models, version: Version) -> None:
    assert decode_models(encode_models(written, version), version) == written


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=60), version_numbers)
def test_handshakes_are_read_back(text: str, version: Version) -> None:
    connect = codec.Connect(text, version, version, True, version)
    assert codec.decode_connect(codec.encode_connect(connect)) == connect
    info = codec.ServerInfo(text, version, max(version, (3, 0, 0, 0)), 2**63, 65535, True, "239.1.2.3")
    assert codec.decode_server_info(codec.encode_server_info(info, b"stale")) == info


DECODERS: list[Callable[[bytes], object]] = [
    codec.message_id,
    codec.decode_connect,
    codec.decode_server_info,
    codec.decode_echo_request,
    codec.decode_echo_reply,
    codec.decode_text,
    codec.response_f32,
    codec.bitstream_reply,
]


def decode_everything(data: bytes) -> None:
    for decode in DECODERS:
        with contextlib.suppress(ProtocolError):
            decode(data)
    for version in VERSIONS + OLD_VERSIONS:
        for read in (decode_frame, decode_models):
            with contextlib.suppress(ProtocolError):
                read(data, version)


@given(st.binary(max_size=400))
def test_random_bytes_raise_nothing_else(payload: bytes) -> None:
    decode_everything(datagram(7, payload))


@settings(max_examples=150)
@given(st.sampled_from(VERSIONS), st.booleans(), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255))))
def test_damaged_messages_raise_nothing_else(version: Version, frame: bool, damage: list[tuple[int, int]]) -> None:
    data = bytearray(full_frame(version) if frame else full_models(version))
    for place, value in damage:
        data[4 + place % (len(data) - 4)] = value
    decode_everything(bytes(data))
