"""Frames in a block through the compiled store against the twins on the same frames as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.track_pairs import BODIES, HOSTILITIES, LIMITS, MS, ROOM, T_NS, Hostility, frames
from vil_bridge.core.block_frame import BlockFrame, BlockLayout
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, SkeletonModel, SourceFrame
from vil_bridge.kernel import library
from vil_bridge.world.actors import Actor
from vil_bridge.world.compiled_frame_store import CompiledFrameStore
from vil_bridge.world.compiled_skeleton import CompiledSkeletonTrack
from vil_bridge.world.compiled_tracks import CompiledTrackBank
from vil_bridge.world.frame_binding import RoomFrame, bind
from vil_bridge.world.frame_store import FrameStore
from vil_bridge.world.skeleton_tracks import SkeletonTrack
from vil_bridge.world.tracks import TrackBank

pytestmark = pytest.mark.skipif(
    library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
)

HUMAN = ("a", "Human")


def model(name: str) -> SkeletonModel:
    return SkeletonModel(name, ("hips", "chest"), (-1, 0), np.zeros((2, 3)))


SKELETONS = [model("Human"), model("Human"), model("Stranger")]
LAYOUTS = [
    BlockLayout(3, ("stranger", *BODIES[:2]), ()),
    BlockLayout(7, ("stranger", *BODIES[:2]), ((SKELETONS[2], 3), (SKELETONS[0], 5))),
    BlockLayout(5, ("stranger", *BODIES[:2]), ((SKELETONS[1], 3),)),
]


def blocks(rng: np.random.Generator, hostility: Hostility, count: int) -> Iterator[BlockFrame]:
    """Yield frames of bodies, whose bones follow two of them.

    The layout changes every now and then.
    """
    layout = LAYOUTS[1]
    for frame in frames(rng, hostility, count, "a", 4.0):
        layout = LAYOUTS[rng.integers(3)] if rng.random() < 0.02 else layout
        rows = np.arange(layout.rows) % 3
        poses = np.concatenate((frame.p_m, frame.q_xyzw), axis=1)[rows]
        block = poses.tobytes() + frame.tracked[rows].tobytes()
        yield BlockFrame.of(
            "a", frame.frame_number, frame.t_foreign_ns, frame.t_arrival_ns, 0, layout, block
        )


def plain(frame: BlockFrame) -> SourceFrame:
    arrays = frame.p_m, frame.q_xyzw, frame.tracked, frame.skeletons
    return SourceFrame(
        "a", frame.frame_number, frame.t_foreign_ns, frame.t_arrival_ns, frame.subjects, *arrays
    )


@given(seed=st.integers(0, 2**32), hostility=st.sampled_from(HOSTILITIES), moved=st.booleans())
def test_blocks_give_the_tracks_of_their_arrays(
    seed: int, hostility: Hostility, moved: bool
) -> None:
    rng = np.random.default_rng(seed)
    actors = [
        Actor(name, ActorKind.VEHICLE, "a", name, limits=LIMITS[i]) for i, name in enumerate(BODIES)
    ]
    room = RoomFrame(ROOM if moved else Transform.identity())
    banks = TrackBank(LIMITS), CompiledTrackBank(LIMITS)
    humans = SkeletonTrack(LIMITS[0]), CompiledSkeletonTrack(LIMITS[0])
    twin = FrameStore(banks[0], {HUMAN: humans[0]})
    compiled = CompiledFrameStore(banks[1], {HUMAN: humans[1]})
    binding = None
    for frame in blocks(rng, hostility, 300):
        binding = binding or bind(frame, room, actors, {})
        sent = replace(frame) if rng.random() < 0.1 else frame  # a changed copy has no block
        t_ns = frame.t_foreign_ns or 0
        assert compiled.add(sent, binding, t_ns) == twin.add(plain(frame), binding, t_ns)
        assert banks[1].counters == banks[0].counters
        assert bytes(humans[1].stamps) == bytes(humans[0].stamps)
        assert (humans[1].jumps, humans[1].rejected) == (humans[0].jumps, humans[0].rejected)
        np.testing.assert_array_equal(banks[1].t_capture_ns, banks[0].t_capture_ns)
    t_ns = T_NS + 300 * 4 * MS
    np.testing.assert_allclose(banks[1].poses(t_ns), banks[0].poses(t_ns), rtol=1e-9, atol=1e-7)
    one, other = (track.at(t_ns, 250 * MS) for track in humans)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        np.testing.assert_allclose(other.p_m, one.p_m, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other.q_xyzw, one.q_xyzw, rtol=1e-9, atol=1e-9)


def test_a_block_gives_arrays_of_its_own() -> None:
    layout = BlockLayout(3, ("body",), ((SKELETONS[0], 1),))
    poses = np.arange(21.0).reshape(3, 7)
    frame = BlockFrame.of("a", 1, None, 5, 0, layout, poses.tobytes() + bytes((1, 0, 1)))
    assert frame.subjects == ("body",)
    np.testing.assert_array_equal(frame.q_xyzw, poses[:1, 3:])
    (skeleton,) = frame.skeletons
    np.testing.assert_array_equal(skeleton.p_m, poses[1:, :3])
    assert (frame.tracked.tolist(), skeleton.tracked.tolist()) == ([True], [False, True])
    copy = replace(frame, p_m=frame.p_m + 1.0)
    assert copy.block is None
    np.testing.assert_array_equal(copy.p_m, poses[:1, :3] + 1.0)
    with pytest.raises(AttributeError, match="colour"):
        _ = frame.colour
