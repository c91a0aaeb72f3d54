"""Whatever bytes come in, NatNet decoders answer with values or ProtocolError.

What is written is read back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.optitrack import (
    OLD_VERSIONS,
    VERSIONS,
    Version,
    datagram,
    full_frame,
    full_models,
)
from vil_adapters.optitrack.fast_codec import decode_poses
from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.natnet import codec
from vil_bridge.protocols.natnet.frame import (
    BODY,
    INNER_MARKER,
    MARKER,
    TRACKED,
    AnalogSamples,
    AssetPose,
    MarkerSet,
    NatNetFrame,
    SkeletonPose,
    Suffix,
)
from vil_bridge.protocols.natnet.frame_codec import decode_frame, encode_frame
from vil_bridge.protocols.natnet.model import (
    AssetDescription,
    AssetMarkerDescription,
    BodyDescription,
    CameraDescription,
    DeviceDescription,
    ForcePlateDescription,
    MarkerDescription,
    MarkerSetDescription,
    Models,
    SkeletonDescription,
    UnknownDescription,
)
from vil_bridge.protocols.natnet.model_codec import decode_models, encode_models

ALL_VERSIONS = OLD_VERSIONS + VERSIONS
every_version = pytest.mark.parametrize("version", ALL_VERSIONS, ids=lambda v: f"{v[0]}.{v[1]}")
few = settings(max_examples=12)

i32 = st.integers(-(2**31), 2**31 - 1)
u32 = st.integers(0, 2**32 - 1)
i16 = st.integers(-(2**15), 2**15 - 1)
u64 = st.integers(0, 2**64 - 1)
f32 = st.floats(width=32, allow_nan=False)
f64 = st.floats(allow_nan=False)
vector = st.tuples(f32, f32, f32)
quaternion = st.tuples(f32, f32, f32, f32)
name = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12)
names = st.lists(name, max_size=3).map(tuple)
version_numbers = st.tuples(*[st.integers(0, 255)] * 4)


def tuples(values: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=most).map(tuple)


def rows(layout: np.dtype[np.void], *columns: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(*columns), max_size=3).map(
        lambda records: np.array(records, dtype=layout)
    )


# --- what a version can carry ---------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """Parts of the frames of a version.

    Built once, since that takes longer than to draw from it.
    """

    bodies: st.SearchStrategy[Any]
    inner: st.SearchStrategy[Any]
    bones: st.SearchStrategy[Any]
    markers: st.SearchStrategy[Any]
    suffix: st.SearchStrategy[Suffix]
    assets: st.SearchStrategy[Any]
    marker_sets: st.SearchStrategy[Any]
    points: st.SearchStrategy[Any]
    analog: st.SearchStrategy[Any]


@cache
def parts(version: Version) -> Parts:
    old, flags = version < (3,), version >= (2, 6)
    # Before 2.6 a pose that is not zero is tracked.
    turn = quaternion if flags else st.tuples(f32, f32, f32, st.just(1.0))
    bodies = rows(BODY, i32, vector, turn, f32, i16 if flags else st.just(TRACKED))
    markers = rows(
        MARKER, i32, vector, f32, i16 if flags else st.just(0), st.just(0.0) if old else f32
    )
    points = tuples(vector).map(lambda p: np.array(p, np.float32).reshape(-1, 3))
    samples = tuples(f32).map(lambda v: np.array(v, np.float32))
    return Parts(
        bodies,
        rows(INNER_MARKER, vector, i32, f32),
        st.lists(st.tuples(i32, bodies), max_size=2),
        markers,
        suffixes(version),
        tuples(st.builds(AssetPose, i32, bodies, markers), 2) if version >= (4, 1) else st.just(()),
        tuples(st.builds(MarkerSet, name, points)),
        points,
        tuples(st.builds(AnalogSamples, i32, tuples(samples))),
    )


@st.composite
def frames(draw: Callable[..., Any], version: Version) -> NatNetFrame:
    """A frame with all that a version carries, and nothing else."""
    part = parts(version)

    def inner(count: int) -> Any:
        return tuple(draw(part.inner) for _ in range(count)) if version < (3,) else ()

    streamed = draw(part.bodies)
    return NatNetFrame(
        draw(i32),
        streamed,
        tuple(
            SkeletonPose(identity, block, inner(len(block))) for identity, block in draw(part.bones)
        ),
        draw(part.markers),
        draw(part.suffix),
        assets=draw(part.assets),
        marker_sets=draw(part.marker_sets),
        other_markers=draw(part.points),
        body_markers=inner(len(streamed)),
        force_plates=draw(part.analog) if version >= (2, 9) else (),
        devices=draw(part.analog) if version >= (3,) else (),
    )


def suffixes(version: Version) -> st.SearchStrategy[Suffix]:
    known: dict[str, st.SearchStrategy[Any]] = {"timecode": u32, "timecode_sub": u32}
    if version < (3,):
        known["old_latency_s"] = f32
    else:
        known |= dict.fromkeys(("mid_exposure", "received", "transmit"), u64)
    if version >= (4, 1):
        known |= dict.fromkeys(("precision_s", "precision_fraction"), u32)
    if version >= (2, 6):
        known["params"] = i16
    known["timestamp_s"] = f64 if version >= (2, 7) else f32 if version >= (2, 6) else st.none()
    return st.builds(Suffix, **known)


@cache
def models(version: Version) -> st.SearchStrategy[Models]:
    """Descriptions of all types that a version carries."""
    markers = st.builds(MarkerDescription, vector, i32, name if version >= (4,) else st.just(""))
    bodies = st.builds(
        BodyDescription,
        name,
        i32,
        i32,
        vector,
        quaternion if version >= (4, 2) else st.just((0.0, 0.0, 0.0, 1.0)),
        tuples(markers) if version >= (3,) else st.just(()),
    )
    kinds: list[st.SearchStrategy[Any]] = [
        st.builds(MarkerSetDescription, name, names),
        bodies,
        st.builds(SkeletonDescription, name, i32, tuples(bodies)),
    ]
    if version >= (3,):
        calibration = st.lists(f32, min_size=1, max_size=1).map(lambda v: tuple(v * 144))
        corners = st.lists(f32, min_size=12, max_size=12).map(tuple)
        kinds.append(
            st.builds(
                ForcePlateDescription,
                i32,
                name,
                f32,
                f32,
                vector,
                calibration,
                corners,
                i32,
                i32,
                names,
            )
        )
        kinds.append(st.builds(DeviceDescription, i32, name, name, i32, i32, names))
        kinds.append(st.builds(CameraDescription, name, vector, quaternion))
    if version >= (4, 1):
        marker = st.builds(AssetMarkerDescription, name, i32, vector, f32, i16)
        kinds.append(st.builds(AssetDescription, name, i32, tuples(bodies), tuples(marker), i32))
        kinds.append(
            st.builds(UnknownDescription, st.integers(7, 2**31 - 1), st.binary(max_size=20))
        )
    return st.builds(Models, tuples(st.one_of(kinds), 4))


# --- round trips ----------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """The same with arrays as bytes, so that it can be compared."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, np.ascontiguousarray(value).tobytes()
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if hasattr(value, "__dataclass_fields__"):
        return type(value).__name__, *(
            plain(getattr(value, field)) for field in value.__dataclass_fields__
        )
    return value


@every_version
@few
@given(data=st.data())
def test_frames_are_read_back(version: Version, data: st.DataObject) -> None:
    written = data.draw(frames(version))
    packed = encode_frame(written, version)
    assert plain(decode_frame(packed, version)) == plain(written)
    unused: dict[str, Any] = {"marker_sets": (), "force_plates": (), "devices": ()}
    poses = written if version < (3,) else replace(written, **unused)
    assert plain(decode_poses(packed, version)) == plain(poses)


@every_version
@few
@given(data=st.data())
def test_models_are_read_back(version: Version, data: st.DataObject) -> None:
    written = data.draw(models(version))
    assert decode_models(encode_models(written, version), version) == written


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=60), version_numbers)
def test_handshakes_are_read_back(text: str, version: Version) -> None:
    connect = codec.Connect(text, version, version, True, version)
    assert codec.decode_connect(codec.encode_connect(connect)) == connect
    info = codec.ServerInfo(
        text, version, max(version, (3, 0, 0, 0)), 2**63, 65535, True, "239.1.2.3"
    )
    assert codec.decode_server_info(codec.encode_server_info(info, b"stale")) == info


# --- broken bytes ---------------------------------------------------------------------------------


@every_version
@settings(max_examples=3)
@given(data=st.data())
def test_every_truncation_of_anything_is_refused(version: Version, data: st.DataObject) -> None:
    frame, described = data.draw(frames(version)), data.draw(models(version))
    readers: list[tuple[bytes, Callable[[bytes, Version], object]]] = [
        (encode_frame(frame, version), decode_frame),
        (encode_frame(frame, version), decode_poses),
        (encode_models(described, version), decode_models),
    ]
    for whole, decode in readers:
        for size in range(4, len(whole)):
            with pytest.raises(ProtocolError):
                decode(datagram(whole[0], whole[4:size]), version)


DECODERS: list[Callable[[bytes], object]] = [
    codec.message_id,
    codec.decode_connect,
    codec.decode_server_info,
    codec.decode_echo_request,
    codec.decode_echo_reply,
    codec.decode_text,
    codec.response_f32,
    codec.response_i32,
    codec.bitstream_reply,
]


def decode_everything(data: bytes) -> None:
    for decode in DECODERS:
        with contextlib.suppress(ProtocolError):
            decode(data)
    for version in ALL_VERSIONS:
        for read in (decode_frame, decode_poses, decode_models):
            with contextlib.suppress(ProtocolError):
                read(data, version)


@given(st.binary(max_size=400))
def test_random_bytes_raise_nothing_else(payload: bytes) -> None:
    decode_everything(datagram(7, payload))


@given(
    st.sampled_from(ALL_VERSIONS),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255))),
)
def test_damaged_messages_raise_nothing_else(
    version: Version, frame: bool, damage: list[tuple[int, int]]
) -> None:
    data = bytearray(full_frame(version) if frame else full_models(version))
    for place, value in damage:
        data[4 + place % (len(data) - 4)] = value
    decode_everything(bytes(data))
