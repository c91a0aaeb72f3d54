"""Vicon segments through the compiled kernel against their twin.

The same poses, counters and errors.
"""

from __future__ import annotations

import struct
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.kernel_against_twin import TwinConverter, compare_segments, compare_vicon
from tests.fuzz.twins import Agreement
from tests.support.common import data_dir
from tests.support.motions import Dance
from tests.support.recorded_body import RecordedBody
from vil_adapters.vicon.blocks import GLOBAL_SEGMENTS, LIGHTWEIGHT_SEGMENTS
from vil_adapters.vicon.codec import Blocks, split_packet
from vil_adapters.vicon.config import TrackerEmulatorConfig
from vil_adapters.vicon.convert import ViconConverter
from vil_adapters.vicon.emulator_frames import BlockGenerator, EncodedFrame
from vil_benchmarks.recordings import BenchRecording
from vil_bridge.kernel import library

pytestmark = pytest.mark.skipif(
    library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
)

KINDS = (GLOBAL_SEGMENTS.type, LIGHTWEIGHT_SEGMENTS.type)


def agree(*frames: Blocks, segments: bool = False) -> Agreement:
    on = Agreement()
    kernel, twin = ViconConverter("lab", segments=segments), TwinConverter("lab", segments=segments)
    for blocks in frames:
        compare_segments(blocks, kernel, twin, on)
    return on


def generated(
    motion: Dance | RecordedBody, kind: int, instants_ns: range, up_axis: Literal["y", "z"] = "z"
) -> list[Blocks]:
    config = TrackerEmulatorConfig(lightweight=kind == LIGHTWEIGHT_SEGMENTS.type, up_axis=up_axis)
    generator = BlockGenerator(motion, config, 3)
    statics = split_packet(b"".join(encoded for _, encoded in generator.statics.values()))
    frames = [
        EncodedFrame(generator, number, motion.at(t_ns), 0)
        for number, t_ns in enumerate(instants_ns)
    ]
    return [{**statics, **split_packet(frame.block(kind)[1])} for frame in frames]


def test_generated_frames() -> None:
    on = compare_vicon(3000, seed=3)
    assert on.compiled > 2000
    assert on.refused > 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("up_axis", ["y", "z"])
@pytest.mark.parametrize("segments", [False, True])
def test_objects_and_persons(kind: int, up_axis: Literal["y", "z"], segments: bool) -> None:
    frames = generated(Dance(), kind, range(0, 10**10, 10**8), up_axis)
    assert agree(*frames, segments=segments).compiled == len(frames)


@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=12),
)
def test_damaged_bodies(kind: int, damage: list[tuple[int, int]]) -> None:
    (blocks,) = generated(Dance(), kind, range(1))
    bodies = [bytearray(body) for body in blocks[kind]]
    for place, value in damage:
        body = bodies[place % len(bodies)]
        body[place % len(body)] = value
    agree(blocks, {**blocks, kind: [bytes(body) for body in bodies]}, blocks)


@given(st.sampled_from(KINDS), st.lists(st.binary(max_size=240), max_size=4))
def test_any_bytes(kind: int, bodies: list[bytes]) -> None:
    agree({**generated(Dance(), kind, range(1))[0], kind: bodies})


@given(st.lists(st.floats(), min_size=12, max_size=12))
def test_any_matrix(numbers: list[float]) -> None:
    (blocks,) = generated(Dance(), GLOBAL_SEGMENTS.type, range(1))
    bodies = list(blocks[GLOBAL_SEGMENTS.type])
    bodies[0] = bodies[0][:12] + struct.pack("<12d", *numbers) + bodies[0][108:]
    agree({**blocks, GLOBAL_SEGMENTS.type: bodies})


@given(st.lists(st.floats(width=32), min_size=6, max_size=6))
def test_any_rotation_vector(numbers: list[float]) -> None:
    (blocks,) = generated(Dance(), LIGHTWEIGHT_SEGMENTS.type, range(1))
    bodies = list(blocks[LIGHTWEIGHT_SEGMENTS.type])
    bodies[0] = bodies[0][:12] + struct.pack("<6f", *numbers) + bodies[0][36:]
    agree({**blocks, LIGHTWEIGHT_SEGMENTS.type: bodies})


@pytest.mark.parametrize(
    "name", ["broad_12_slow_translation", "broad_07_fast_rotation", "tumvi_room1"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_real_recordings(name: str, kind: int) -> None:
    motion = RecordedBody(BenchRecording.load(data_dir(name)))
    on = agree(*generated(motion, kind, range(RecordedBody.ROWS)))
    assert on.compiled == RecordedBody.ROWS
    assert on.worst < 2e-15
