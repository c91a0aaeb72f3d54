"""Distances of twins: the reference's goldens, brute force, gaps and delays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vil_bridge.core.geometry import q_exp, q_mul, yaw_matrix
from vil_bridge.core.types import FloatArray
from vil_bridge.world.twin.metrics import (
    delay_of,
    directed_hausdorff_m,
    hausdorff_m,
    heading_alignment,
    rms,
)
from vil_bridge.world.twin.pose_series import PoseSeries, paired


def circles() -> tuple[FloatArray, FloatArray]:
    angle = np.linspace(0.0, 2.0 * math.pi, 400, endpoint=False)
    a_m = np.column_stack((10.0 * np.cos(angle), 10.0 * np.sin(angle), np.zeros(400)))
    b_m = np.column_stack((10.5 * np.cos(angle) + 0.3, 10.0 * np.sin(angle) - 0.4, np.zeros(400)))
    return a_m, b_m


def brute_force_m(a_m: FloatArray, b_m: FloatArray) -> float:
    forward = max(min(math.dist(p, q) for q in b_m.tolist()) for p in a_m.tolist())
    return max(forward, max(min(math.dist(p, q) for p in a_m.tolist()) for q in b_m.tolist()))


def flight(t_s: FloatArray, late_s: float = 0.0) -> PoseSeries:
    s = t_s - late_s
    p_m = np.column_stack(
        (3.0 * np.sin(0.7 * s), 2.0 * np.sin(1.1 * s + 0.4), 1.5 + 0.5 * np.sin(1.9 * s))
    )
    q = q_exp(np.column_stack((0.1 * np.sin(s), np.zeros(len(s)), 0.3 * s)))
    return PoseSeries(t_s, p_m, q)


def test_goldens_of_two_circles() -> None:
    a_m, b_m = circles()
    assert directed_hausdorff_m(a_m, b_m) == pytest.approx(0.862654, abs=5e-7)
    assert directed_hausdorff_m(b_m, a_m) == pytest.approx(0.862654, abs=5e-7)
    assert rms(a_m - b_m) == pytest.approx(0.612372, abs=5e-7)
    assert rms(a_m - heading_alignment(a_m, b_m).apply(b_m)) == pytest.approx(0.353553, abs=5e-7)


@given(
    st.integers(1, 90),
    st.integers(1, 90),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_hausdorff_equals_brute_force(n: int, m: int, d: int, seed: int, walk: bool) -> None:
    rng = np.random.default_rng(seed)
    a_m, b_m = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    if walk:
        a_m, b_m = np.cumsum(a_m, axis=0), np.cumsum(b_m, axis=0)
    assert hausdorff_m(a_m, b_m) == pytest.approx(brute_force_m(a_m, b_m), abs=1e-12)


def test_hausdorff_of_long_paths_and_of_none() -> None:
    rng = np.random.default_rng(3)
    a_m = np.cumsum(rng.normal(size=(1500, 3)), axis=0)
    b_m = a_m[::2] + rng.normal(scale=0.1, size=(750, 3))
    assert abs(hausdorff_m(a_m, b_m) - brute_force_m(a_m, b_m)) <= 1e-12
    assert hausdorff_m(a_m, a_m[::-1]) == 0.0
    with pytest.raises(ValueError, match="a point on either side"):
        hausdorff_m(a_m, b_m[:0])


def test_posyaw_undoes_heading_and_place_and_nothing_else() -> None:
    a = flight(np.arange(0.0, 10.0, 0.01))
    moved = PoseSeries(
        a.t_s,
        a.p_m @ yaw_matrix(0.8).T + (5.0, -2.0, 1.0),
        q_mul(q_exp(np.array([0.0, 0.0, 0.8])), a.q_xyzw),
    )
    back = heading_alignment(a.p_m, moved.p_m).poses(moved)
    both = paired(a, back, 0.01)
    assert both.distance_m.max() < 1e-12
    assert both.angle_rad.max() < 1e-7
    scaled = PoseSeries(a.t_s, 1.1 * a.p_m, a.q_xyzw)
    assert rms(a.p_m - heading_alignment(a.p_m, scaled.p_m).apply(scaled.p_m)) > 0.1


def test_gaps_are_cut_and_not_interpolated() -> None:
    t_s = np.arange(0.0, 6.0, 0.01)
    a = flight(t_s)
    seen = (t_s < 2.0) | (t_s > 4.0)
    lost = PoseSeries(t_s[seen], a.p_m[seen], a.q_xyzw[seen])
    both = paired(a, lost, 0.01)
    assert not ((both.t_s > 2.0) & (both.t_s < 4.0)).any()
    assert len(both.t_s) == pytest.approx(400, abs=3)
    assert both.distance_m.max() < 1e-9
    assert not len(paired(a, a.shifted(60.0), 0.01).t_s)
    assert not len(paired(a, PoseSeries(t_s[:1], a.p_m[:1], a.q_xyzw[:1]), 0.01).t_s)


@pytest.mark.parametrize("late_s", [-0.1234, 0.0, 0.0421, 0.3])
@pytest.mark.parametrize("same_frame", [True, False])
def test_the_delay_is_found_to_parts_of_a_millisecond(late_s: float, same_frame: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = flight(np.arange(0.0, 30.0, 1 / 120)), flight(np.arange(0.3, 29.0, 1 / 100), late_s)
    b = PoseSeries(b.t_s, b.p_m + rng.normal(scale=2e-4, size=b.p_m.shape), b.q_xyzw)
    found = delay_of(a, b, same_frame=same_frame)
    assert found is not None
    assert found.delay_s == pytest.approx(late_s, abs=3e-4 if same_frame else 1e-3)
    assert found.correlation > 0.99


def test_no_delay_is_claimed_without_motion_or_overlap() -> None:
    t_s = np.arange(0.0, 10.0, 0.01)
    a = flight(t_s)
    still = PoseSeries(t_s, np.zeros((1000, 3)), a.q_xyzw)
    assert delay_of(a, still) is None
    assert delay_of(a, a.shifted(100.0)) is None
    assert delay_of(a, flight(t_s, 1.0), longest_s=0.2) is None  # the peak lies outside the search


@pytest.mark.parametrize("name", ["shape", "order", "finite"])
def test_poses_that_are_none_are_refused(name: str) -> None:
    t_s, p_m, q = np.arange(3.0), np.zeros((3, 3)), np.tile((0.0, 0.0, 0.0, 1.0), (3, 1))
    if name == "shape":
        p_m = p_m[:2]
    elif name == "order":
        t_s = t_s[::-1]
    else:
        p_m = p_m * np.nan
    with pytest.raises(ValueError, match="poses"):
        PoseSeries(t_s, p_m, q)
