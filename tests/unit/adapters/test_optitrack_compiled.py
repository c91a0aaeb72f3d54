"""NatNet frames through the compiled kernel against their twin.

The same poses, counters and errors.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.kernel_against_twin import compare, compare_streams
from tests.fuzz.natnet_frames import Stream
from tests.fuzz.twins import Agreement
from tests.support.common import data_dir
from tests.support.optitrack import (
    OLD_VERSIONS,
    VERSIONS,
    Version,
    datagram,
    full_frame,
    full_models,
    golden,
)
from tests.support.recorded_body import RecordedBody
from vil_adapters.optitrack.compiled_frame import PackedFrame, read_frame
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator_frames import FrameGenerator
from vil_benchmarks.recordings import BenchRecording
from vil_bridge.kernel import library
from vil_bridge.protocols.natnet.codec import parse_version
from vil_bridge.protocols.natnet.frame import BODY, NatNetFrame, SkeletonPose
from vil_bridge.protocols.natnet.frame_codec import encode_frame
from vil_bridge.protocols.natnet.model import BodyDescription, Models, SkeletonDescription
from vil_bridge.protocols.natnet.model_codec import decode_models

pytestmark = pytest.mark.skipif(
    library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
)

V41: Version = (4, 1, 0, 0)
ALL_VERSIONS = OLD_VERSIONS + VERSIONS


def stream(
    models: Models, *datagrams: bytes, version: Version = V41, coordinates: str = "auto"
) -> Stream:
    return Stream(version, models, 1.0, "y", coordinates, datagrams, 0)


def agree(sent: Stream) -> Agreement:
    on, kernel, twin = Agreement(), sent.converter(), sent.converter()
    for data in sent.datagrams:
        compare(data, sent, kernel, twin, on)
    return on


def test_generated_frames_of_every_layout() -> None:
    on = compare_streams(3000, seed=3)
    assert on.compiled > 2000
    assert on.refused > 200


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: f"{v[0]}.{v[1]}")
def test_every_truncation_and_every_single_changed_number(version: Version) -> None:
    whole = full_frame(version)
    cut = [datagram(7, whole[4:size]) for size in range(4, len(whole))]
    changed = [
        whole[:at] + struct.pack("<i", number) + whole[at + 4 :]
        for at in range(4, len(whole) - 3)
        for number in (-1, 0, 1, 3, 2**31 - 1)
    ]
    models = decode_models(full_models(version), version)
    assert agree(stream(models, *cut, *changed, version=version)).refused >= len(cut)


def test_a_section_that_its_records_do_not_share_evenly_is_refused() -> None:
    """Its ids are those of the frame before, so that only its size tells."""
    whole = full_frame(V41)
    at = 8
    for _ in ("marker sets", "other markers"):
        at += 8 + int(struct.unpack_from("<i", whole, at + 4)[0])
    count, size = struct.unpack_from("<2i", whole, at)
    end = at + 8 + size
    uneven = (
        whole[4 : at + 4] + struct.pack("<i", size + 1) + whole[at + 8 : end] + b"\0" + whole[end:]
    )
    assert size % count == 0 and count > 1
    on = agree(stream(decode_models(full_models(V41), V41), whole, datagram(7, uneven)))
    assert (on.compiled, on.refused) == (1, 1)


@given(
    st.sampled_from(ALL_VERSIONS),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=12),
)
def test_damaged_frames(version: Version, damage: list[tuple[int, int]]) -> None:
    data = bytearray(full_frame(version))
    for place, value in damage:
        data[4 + place % (len(data) - 4)] = value
    agree(
        stream(
            decode_models(full_models(version), version),
            full_frame(version),
            bytes(data),
            version=version,
        )
    )


@given(st.sampled_from(ALL_VERSIONS), st.binary(max_size=400))
def test_any_bytes(version: Version, payload: bytes) -> None:
    agree(stream(Models(), datagram(7, payload), version=version))


@given(
    st.lists(st.floats(width=32), min_size=7, max_size=7),
    st.integers(-(2**15), 2**15 - 1),
    st.sampled_from((1.0, 1e-3, 1e4)),
    st.sampled_from("yz"),
)
def test_any_pose(pose: list[float], params: int, scale_m: float, up_axis: str) -> None:
    """NaN, infinite, without an attitude, far away: of a body, and of a bone below another one."""
    row = (7, pose[:3], pose[3:], 0.0, params)
    still = (3 << 16 | 1, (0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0), 0.0, 1)
    bones = np.array([still, (3 << 16 | 2, *row[1:])], BODY)
    frame = NatNetFrame(1, np.array([row], BODY), (SkeletonPose(3, bones),))
    models = decode_models(full_models(V41), V41)
    agree(Stream(V41, models, scale_m, up_axis, "local", (encode_frame(frame, V41),), 0))


def test_a_frame_of_another_layout_is_bound_again() -> None:
    models = Models(
        (BodyDescription("a", 1), BodyDescription("b", 2), SkeletonDescription("S", 1, ()))
    )
    sequences: tuple[list[int], ...] = ([1, 2], [2, 1], [1], [], [1, 2], [2, 9, 1])
    frames = []
    for ids in sequences:
        bodies = np.zeros(len(ids), BODY)
        bodies["id"], bodies["p"], bodies["q"] = ids, np.array([ids] * 3).T, 0.5
        frames.append(NatNetFrame(1, bodies))
    assert agree(stream(models, *[encode_frame(frame, V41) for frame in frames])).compiled == len(
        sequences
    )


def test_more_bones_than_a_datagram_streams_are_left_to_the_twin() -> None:
    """One that describes thousands of bones streams the same skeleton again and again, without
    bones.
    """
    bones = tuple(BodyDescription(f"b{i}", i + 1, i) for i in range(1000))
    frame = NatNetFrame(1, skeletons=(SkeletonPose(1, np.zeros(0, BODY)),) * 9)
    data = encode_frame(frame, V41)
    sent = stream(Models((SkeletonDescription("S", 1, bones),)), data, data, coordinates="global")
    assert agree(sent).compiled == 2
    packed = read_frame(data, V41)
    assert isinstance(packed, PackedFrame)
    assert len(sent.converter().frame(packed, 0).skeletons) == 9


def test_values_are_not_changed_by_the_next_frame() -> None:
    models = decode_models(full_models(V41), V41)
    convert = stream(models).converter()
    first = convert.frame(read_frame(full_frame(V41), V41), 0)
    before = first.p_m.copy(), first.tracked.copy()
    other = NatNetFrame(
        2,
        np.array([(7, (9.0,) * 3, (1.0,) * 4, 0.0, 0), (8, (8.0,) * 3, (1.0,) * 4, 0.0, 1)], BODY),
    )
    convert.frame(read_frame(encode_frame(other, V41), V41), 0)
    assert (first.p_m.tolist(), first.tracked.tolist()) == (before[0].tolist(), before[1].tolist())


# --- real bytes and recordings --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version"), [("frame_30_one_body", VERSIONS[0]), ("frame_41_one_body", V41)]
)
def test_golden_frames(name: str, version: Version) -> None:
    assert (
        agree(
            stream(decode_models(full_models(version), version), golden(name), version=version)
        ).compiled
        == 1
    )


def test_real_packets() -> None:
    folder = data_dir("natnet_v3_packets")
    models = decode_models((folder / "modeldef_packet_v3.bin").read_bytes(), VERSIONS[0])
    frames = [
        (folder / f"mocapframe_packet{kind}_v3.bin").read_bytes() for kind in ("", "_occluded")
    ]
    assert agree(stream(models, *frames, version=VERSIONS[0])).compiled == 2


@pytest.mark.parametrize(
    "name", ["broad_12_slow_translation", "broad_07_fast_rotation", "tumvi_room1"]
)
@pytest.mark.parametrize("version", ["3.0", "4.1"])
def test_real_recordings(name: str, version: str) -> None:
    motion, numbers = RecordedBody(BenchRecording.load(data_dir(name))), range(RecordedBody.ROWS)
    generator = FrameGenerator(motion, MotiveEmulatorConfig(version=version))
    layout = parse_version(version)
    datagrams = [
        encode_frame(generator.frame(number, motion.at(number)), layout) for number in numbers
    ]
    on = agree(stream(generator.models, *datagrams, version=layout))
    assert on.compiled == len(numbers)
    assert on.worst < 1e-15
