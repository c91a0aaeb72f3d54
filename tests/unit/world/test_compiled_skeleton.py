"""The compiled track of a skeleton against its NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vil_bridge.core.geometry import Transform, q_exp, q_mul, q_normalize
from vil_bridge.core.types import SkeletonFrame, SkeletonModel
from vil_bridge.kernel import library
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.compiled_skeleton import CompiledSkeletonTrack
from vil_bridge.world.frame_binding import RoomFrame
from vil_bridge.world.skeleton_tracks import SkeletonTrack

pytestmark = pytest.mark.skipif(
    library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
)

MS = 1_000_000
BONES = 7
MODELS = [
    SkeletonModel(
        name, tuple(f"bone{i}" for i in range(BONES)), tuple(range(-1, BONES - 1)), np.eye(BONES, 3)
    )
    for name in ("one", "other")
]
ROOMS = [
    RoomFrame(Transform.identity()),
    RoomFrame(Transform.of((1.0, -2.0, 0.5), (0.1, 0.2, 0.6, 0.7))),
]
WRONG = (np.nan, np.inf, 1e300, 0.0)


def assert_same(twin: SkeletonTrack, compiled: SkeletonTrack, t_ns: int) -> None:
    assert bytes(twin.stamps) == bytes(compiled.stamps)
    assert (twin.jumps, twin.rejected) == (compiled.jumps, compiled.rejected)
    assert twin.repeats.standing_ns(0) == compiled.repeats.standing_ns(0)
    one, other = twin.at(t_ns, 250 * MS), compiled.at(t_ns, 250 * MS)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.model is other.model
        np.testing.assert_array_equal(other.tracked, one.tracked)
        np.testing.assert_allclose(other.p_m, one.p_m, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other.q_xyzw, one.q_xyzw, rtol=1e-9, atol=1e-9)


@given(
    seed=st.integers(0, 2**32),
    wrong=st.sampled_from([0.0, 0.0, 0.02, 0.2]),
    room=st.sampled_from(ROOMS),
)
def test_the_compiled_track_equals_its_twin(seed: int, wrong: float, room: RoomFrame) -> None:
    rng = np.random.default_rng(seed)
    limits = TrackingLimits(frozen_after_ns=50 * MS)
    twin, compiled = SkeletonTrack(limits), CompiledSkeletonTrack(limits)
    p_m, q_xyzw, t_ns, model = (
        rng.standard_normal((BONES, 3)),
        q_normalize(rng.standard_normal((BONES, 4))),
        0,
        0,
    )
    for _ in range(150):
        t_ns += int(rng.integers(1, 20 * MS)) * (30 if rng.random() < wrong else 1)
        if rng.random() > 0.2:  # else it repeats
            p_m = p_m + 0.005 * rng.standard_normal(3) + (20.0 if rng.random() < wrong / 4 else 0.0)
            q_xyzw = q_normalize(q_mul(q_xyzw, q_exp(0.02 * rng.standard_normal((BONES, 3)))))
        seen, seen_p, seen_q = rng.random(BONES) >= wrong, p_m.copy(), q_xyzw.copy()
        for values in (seen_p, seen_q):
            spoilt = rng.random(values.shape) < wrong / 10
            values[spoilt] = rng.choice(WRONG, int(spoilt.sum()))
        model = 1 - model if rng.random() < wrong / 10 else model
        skeleton = SkeletonFrame(MODELS[model], seen_p, seen_q, seen)
        stamp_ns = t_ns - (30 * MS if rng.random() < wrong else 0)
        for track in (twin, compiled):
            track.append(stamp_ns, t_ns, skeleton, room)
            if seed % 7 == 0 and t_ns % 11 == 0:
                track.reset()
            if t_ns % 13 == 0:
                track.shift(MS // 2)
        assert_same(twin, compiled, t_ns + int(rng.integers(-600, 300)) * MS)


def test_a_skeleton_that_is_back_where_it_was_before_the_newest_frame_has_jumped() -> None:
    twin = SkeletonTrack(TrackingLimits())
    compiled = CompiledSkeletonTrack(TrackingLimits())
    for t_ns, x_m in ((MS, 0.0), (11 * MS, 0.0), (10_000 * MS, 20.0), (10_010 * MS, 0.0)):
        p_m = np.full((BONES, 3), x_m)
        q_xyzw = np.tile((0.0, 0.0, 0.0, 1.0), (BONES, 1))
        for track in (twin, compiled):
            track.append(
                t_ns,
                t_ns,
                SkeletonFrame(MODELS[0], p_m, q_xyzw, np.ones(BONES, np.bool_)),
                ROOMS[0],
            )
        assert_same(twin, compiled, t_ns)
    assert compiled.stamps.suspected
