"""The compiled steps of the filter against their NumPy twins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.flights import Flight, fly
from vil_bridge.core.geometry import q_exp, q_mul, q_normalize
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.kernel import library
from vil_bridge.world.inertial import body_filter, compiled_steps, error_state
from vil_bridge.world.inertial.body_filter import BodyFilter
from vil_bridge.world.inertial.covariance import ImuNoise
from vil_bridge.world.inertial.error_state import SIZE, FilterState, Innovation, MocapPose

T_NS = 10**12
needs_kernel = pytest.mark.skipif(
    library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
)


def drawn_state(rng: np.random.Generator, scale: float) -> FilterState:
    def vector(sigma: float) -> FloatArray:
        return np.asarray(sigma * rng.standard_normal(3))

    root = scale * rng.standard_normal((SIZE, SIZE))
    P = root @ root.T + 1e-3 * scale**2 * np.eye(SIZE)
    q_xyzw, late_s = q_normalize(rng.standard_normal(4)), float(rng.uniform(-0.02, 0.02))
    v, p, w, gyro, accel = (vector(sigma) for sigma in (5.0, 10.0, 8.0, 0.01, 0.1))
    return FilterState(
        T_NS, q_xyzw, v, p, w, gyro, accel, late_s, vector(0.05), vector(0.01), vector(0.1), P
    )


def drawn_samples(rng: np.random.Generator, n: int, rate_radps: float) -> ImuWindow:
    t_ns = T_NS + np.concatenate(([0], np.cumsum(rng.integers(1, 20_000_000, n - 1))))
    return ImuWindow(
        t_ns, rate_radps * rng.standard_normal((n, 3)), 20.0 * rng.standard_normal((n, 3))
    )


def assert_same(one: FilterState, other: FilterState, tolerance: float = 1e-9) -> None:
    for field in fields(FilterState):
        a, b = (np.asarray(getattr(state, field.name)) for state in (one, other))
        np.testing.assert_allclose(
            a, b, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(b).max()))
        )


def assert_same_innovation(one: Innovation, other: Innovation) -> None:
    assert (one.t_ns, one.accepted, one.seen is None) == (
        other.t_ns,
        other.accepted,
        other.seen is None,
    )
    np.testing.assert_allclose(one.residual, other.residual, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.S, other.S, rtol=1e-9, atol=1e-15)
    assert one.nis == pytest.approx(other.nis, rel=1e-6)
    if one.seen is not None and other.seen is not None:
        np.testing.assert_allclose(one.seen, other.seen, rtol=1e-6, atol=1e-9 * np.abs(one.S).max())


@needs_kernel
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(2, 40),
    rate=st.sampled_from([0.0, 1e-6, 1.0, 30.0, 200.0]),
)
def test_propagation_equals_its_twin(seed: int, n: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    state, samples = drawn_state(rng, 1e-2), drawn_samples(rng, n, rate)
    noise = ImuNoise(*np.abs(rng.standard_normal(4)) * (2e-3, 2e-2, 3e-4, 2e-4))
    before = state.P.copy()
    assert_same(
        compiled_steps.propagated(state, samples, noise),
        error_state.propagated(state, samples, noise),
    )
    np.testing.assert_array_equal(state.P, before)


@needs_kernel
@given(
    seed=st.integers(0, 2**32),
    scale=st.sampled_from([1e-4, 1e-3, 1e-2]),
    off=st.sampled_from([0.0, 1e-3, 0.1, 3.0]),
)
def test_correction_equals_its_twin(seed: int, scale: float, off: float) -> None:
    rng = np.random.default_rng(seed)
    state = drawn_state(rng, scale)
    q_xyzw = q_mul(state.q_world_imu_xyzw, q_exp(off * rng.standard_normal(3)))
    t_ns = T_NS - state.late_ns + int(rng.integers(-5_000_000, 5_000_000))
    pose = MocapPose(t_ns, state.p_world_m + off * rng.standard_normal(3), q_xyzw)
    variances = np.repeat(rng.uniform(1e-8, 1e-5, 2), 3)
    for gate in (200.0, np.inf):
        (fast, innovation), (slow, expected) = (
            steps.corrected(state, pose, variances, gate) for steps in (compiled_steps, error_state)
        )
        assert_same(fast, slow)
        assert_same_innovation(innovation, expected)
        assert innovation.accepted or fast is state


@needs_kernel
def test_a_pose_is_refused_where_it_or_the_covariance_is_not_a_number() -> None:
    state = drawn_state(np.random.default_rng(3), 1e-3)
    pose = MocapPose(T_NS, np.full(3, np.nan), state.q_world_imu_xyzw)
    after, innovation = compiled_steps.corrected(state, pose, np.full(6, 1e-6), np.inf)
    assert after is state and not innovation.accepted
    state.P[:] = -1.0
    after, innovation = compiled_steps.corrected(
        state, pose._replace(p_m=np.zeros(3)), np.full(6, 1e-6), np.inf
    )
    assert after is state and not innovation.accepted and innovation.nis == np.inf


def flown(flight: Flight) -> Iterator[FilterState]:
    body = BodyFilter(flight.T_body_imu)
    for is_pose, row in flight.events():
        if is_pose:
            body.add_pose(
                flight.poses.t_ns.item(row),
                flight.poses.p_world_m[row],
                flight.poses.q_world_xyzw[row],
            )
            if row % 50 == 0 and (state := body.newest()) is not None:
                yield state
        else:
            body.add_imu(flight.imu.t_ns.item(row), flight.imu.w_radps[row], flight.imu.f_mps2[row])


@needs_kernel
@pytest.mark.parametrize("kind", ["aggressive", "gaps"])
def test_a_flight_is_the_same_with_and_without_the_kernel(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flight = fly(kind, 1)
    fast = list(flown(flight))
    monkeypatch.setattr(body_filter, "propagated", error_state.propagated)
    monkeypatch.setattr(body_filter, "corrected", error_state.corrected)
    slow = list(flown(flight))
    assert len(fast) == len(slow) > 20
    for one, other in zip(fast, slow, strict=True):
        assert_same(one, other, 1e-8)


@pytest.mark.process
def test_the_switch_leaves_the_library_alone() -> None:
    code = "from vil_bridge.kernel.library import ABSENT, KERNEL; print(KERNEL, ABSENT)"
    said = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "VIL_KERNEL": "off"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said == "None VIL_KERNEL=off\n"
