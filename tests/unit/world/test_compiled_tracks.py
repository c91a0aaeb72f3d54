"""The compiled tracks against their NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.common import data_dir
from tests.support.track_pairs import HOSTILITIES, MS, T_NS, Hostility, fly_both
from vil_benchmarks.recordings import BenchRecording
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, FloatArray, SourceFrame
from vil_bridge.kernel import library
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.compiled_tracks import CompiledTrackBank
from vil_bridge.world.frame_binding import Binding, RoomFrame, bind
from vil_bridge.world.tracks import TrackBank

pytestmark = pytest.mark.skipif(
    library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
)

MARKERS = [Transform.identity(), Transform.of((0.1, 0.0, -0.05), (0.0, 0.1, 0.0, 0.9))]


@pytest.mark.parametrize("markers", MARKERS)
@given(
    seed=st.integers(0, 2**32),
    hostility=st.sampled_from(HOSTILITIES),
    asked_every=st.integers(1, 60),
    step_ms=st.sampled_from([1.0, 4.0, 10.0, 33.0]),
)
@settings(max_examples=12, deadline=None)
def test_the_compiled_tracks_equal_their_twin(
    markers: Transform, seed: int, hostility: Hostility, asked_every: int, step_ms: float
) -> None:
    fly_both(seed, hostility, markers, step_ms, asked_every, 200)


@pytest.mark.parametrize(
    "name", ["broad_07_fast_rotation", "broad_12_slow_translation", "tumvi_room1"]
)
def test_recordings_give_the_same_states_and_forecasts(name: str) -> None:
    """The measured poses to the bit.

    The filtered ones and forecasts of 56 ms to 1e-12 of their size.
    """
    recording = BenchRecording.load(data_dir(name))
    banks = TrackBank([TrackingLimits()]), CompiledTrackBank([TrackingLimits()])
    actor, seen = Actor("body", ActorKind.VEHICLE, "room", "body"), np.ones(1, dtype=np.bool_)
    binding, worst = None, 0.0
    for row, t_ns in enumerate((T_NS + recording.t_ns[:3000]).tolist()):
        p_m, q_xyzw = recording.p_m[row : row + 1], recording.q_xyzw[row : row + 1]
        frame = SourceFrame("room", row, t_ns, t_ns, ("body",), p_m, q_xyzw, seen)
        binding = binding or bind(frame, RoomFrame(Transform.identity()), [actor], {})
        for bank in banks:
            bank.store(frame, binding, t_ns)
        if row % 3 == 0:
            for ago_ns in (0, 7 * MS, 500 * MS):
                one, other = (bank.poses(t_ns - ago_ns) for bank in banks)
                np.testing.assert_allclose(other, one, rtol=0.0, atol=1e-12)
            one, other = (bank.poses(t_ns + 56 * MS) for bank in banks)
            worst = max(worst, float(np.abs(other - one).max()))
            assert banks[0].newest(0)[0].tolist() == banks[1].newest(0)[0].tolist()
            assert banks[0].tracked.tolist() == banks[1].tracked.tolist()
    assert banks[0].counters == banks[1].counters
    assert worst < 1e-12


class KernelAlone(CompiledTrackBank):
    """Tracks that take no frame from their twin."""

    def _bodies(self, frame: SourceFrame, binding: Binding) -> FloatArray:
        raise AssertionError("the kernel left the frame to its twin")


def test_limits_may_be_whole_numbers() -> None:
    bank = KernelAlone([TrackingLimits(max_speed_mps=30, max_rate_radps=40)])
    actor, seen = Actor("body", ActorKind.VEHICLE, "room", "body"), np.ones(1, dtype=np.bool_)
    q_xyzw = np.array([[0.0, 0.0, 0.0, 1.0]])
    for k in range(3):
        t_ns = T_NS + 10 * k * MS
        frame = SourceFrame(
            "room", k, None, t_ns, ("body",), np.array([[0.25 * k, 0.0, 0.0]]), q_xyzw, seen
        )
        bank.store(frame, bind(frame, RoomFrame(Transform.identity()), [actor], {}), t_ns)
        assert bank.t_capture_ns[0] == t_ns


def store_at(bank: TrackBank, number: int, t_ns: int, x_m: float) -> None:
    """Store a frame of one body that is at ``x_m`` and not turned."""
    actor = Actor("body", ActorKind.VEHICLE, "room", "body")
    seen = np.ones(1, dtype=np.bool_)
    q_xyzw = np.array([[0.0, 0.0, 0.0, 1.0]])
    frame = SourceFrame(
        "room", number, t_ns, t_ns, ("body",), np.array([[x_m, 0.0, 0.0]]), q_xyzw, seen
    )
    bank.store(frame, bind(frame, RoomFrame(Transform.identity()), [actor], {}), t_ns)


@pytest.mark.parametrize("kind", [TrackBank, KernelAlone])
@pytest.mark.parametrize("ago_ns", [0, 10 * MS])
def test_a_frame_that_is_not_newer_is_out_of_order_wherever_its_body_is(
    kind: type[TrackBank], ago_ns: int
) -> None:
    bank = kind([TrackingLimits()])
    store_at(bank, 0, T_NS, 0.0)
    store_at(bank, 1, T_NS - ago_ns, 9.0)
    assert bank.counters == {"out_of_order": 1}
    assert bank.newest(0)[0].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", [TrackBank, CompiledTrackBank])
def test_a_body_that_is_elsewhere_a_nanosecond_later_is_refused(kind: type[TrackBank]) -> None:
    bank = kind([TrackingLimits()])
    store_at(bank, 0, T_NS, 0.0)
    store_at(bank, 1, T_NS + 1, 9.0)
    assert bank.counters == {"rejected": 1}
    assert bank.newest(0)[0].tolist() == [0.0, 0.0, 0.0]
