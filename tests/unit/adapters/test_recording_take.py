"""A recording as motion: rows, what lies between them, and gaps."""

from __future__ import annotations

import numpy as np
import pytest

from vil_adapters.recording.model import Bodies, MarkerTrack, MotionFile, RecordedSkeleton, held
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.core.types import SkeletonModel

MS = 1_000_000


def example(t_ms: list[int], lost: tuple[int, ...] = ()) -> MotionFile:
    """One body that moves 1 mm and turns 1 mrad per millisecond; row ``lost`` is untracked."""
    n = len(t_ms)
    p_m = np.array([[[1e-3 * t, 0.0, 0.0]] for t in t_ms])
    q = np.array([[q_from_euler_zyx(1e-3 * t, 0.0, 0.0)] for t in t_ms])
    tracked = np.ones((n, 1), dtype=np.bool_)
    tracked[list(lost)] = False
    p_m[list(lost)] = np.nan
    bodies = Bodies(p_m, q, tracked)
    model = SkeletonModel("Anna", ("Hip",), (-1,), np.zeros((1, 3)))
    markers = MarkerTrack(("Anna/HEAD",), p_m, tracked)
    t_ns = np.array(t_ms) * MS + 5_000_000_000
    return MotionFile(
        "x", "tum", t_ns, ("drone",), bodies, (RecordedSkeleton(model, bodies),), markers
    )


def test_rows_are_shown_as_they_are_and_between_them_interpolated() -> None:
    recording = example([0, 10, 20, 30])
    assert (recording.period_ns, recording.duration_ns, recording.rate_hz) == (
        10 * MS,
        30 * MS,
        100.0,
    )
    for t_ms in (0, 4, 10, 25, 30):
        seen = recording.at(t_ms * MS)
        assert seen.tracked.all() and seen.skeletons[0].tracked.all()
        assert seen.markers is not None and seen.markers.tracked.all()
        assert seen.p_m[0, 0] == pytest.approx(1e-3 * t_ms)
        assert seen.skeletons[0].p_m[0, 0] == seen.markers.p_m[0, 0] == pytest.approx(1e-3 * t_ms)
        assert seen.q_xyzw[0] == pytest.approx(q_from_euler_zyx(1e-3 * t_ms, 0.0, 0.0))


def test_it_begins_again_one_period_after_the_end() -> None:
    recording = example([0, 10, 20])
    assert recording.at(30 * MS).p_m[0, 0] == 0.0
    assert recording.at(34 * MS).p_m[0, 0] == pytest.approx(0.004)
    assert not recording.at(25 * MS).tracked.any(), "nothing leads from the end to the beginning"


def test_missing_rows_are_a_gap_that_is_filmed_untracked() -> None:
    recording = example([0, 10, 20, 60, 70, 80])
    assert [t // MS for t in recording.instants()] == [0, 10, 20, 30, 40, 50, 60, 70, 80]
    shown = [recording.at(t).tracked[0] for t in recording.instants()]
    assert shown == [True, True, True, False, False, False, True, True, True]
    assert recording.at(45 * MS).p_m[0, 0] == pytest.approx(0.020), "where it was last seen"


def test_untracked_samples_hold_the_pose_before() -> None:
    recording = example([0, 10, 20, 30, 40], lost=(0, 2))
    assert [recording.at(t).tracked[0] for t in recording.instants()] == [
        False,
        True,
        False,
        True,
        True,
    ]
    assert recording.at(20 * MS).p_m[0, 0] == pytest.approx(0.010)
    assert recording.at(0).p_m[0, 0] == pytest.approx(0.010), "before it was seen: where it will be"
    assert not recording.at(15 * MS).tracked.any() and not recording.at(25 * MS).tracked.any()


def test_uneven_rows_of_a_real_system_are_no_gaps() -> None:
    recording = example([0, 9, 20, 31, 40, 41, 50])
    assert len(list(recording.instants())) == 7
    assert recording.at(25 * MS).tracked.all()


def test_one_row_is_a_still() -> None:
    recording = example([0])
    assert recording.at(123 * MS).p_m.shape == (1, 3)
    assert list(recording.instants()) == [0]


def test_held_rows() -> None:
    tracked = np.array([[False, False], [True, False], [False, False], [True, False]])
    assert held(tracked).tolist() == [[1, 0], [1, 0], [1, 0], [3, 0]]


def test_what_is_never_seen_is_still_finite() -> None:
    bodies = Bodies(
        np.full((3, 1, 3), np.nan), np.full((3, 1, 4), np.nan), np.zeros((3, 1), dtype=np.bool_)
    )
    assert np.isfinite(bodies.p_m).all() and bodies.q_xyzw[0, 0].tolist() == [0.0, 0.0, 0.0, 1.0]
