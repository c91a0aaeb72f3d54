"""Preintegration against closed forms and finely stepped motion; propagation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.linalg import expm

from vil_bridge.core.geometry import Transform, q_conj, q_exp, q_log, q_mul, q_rotate, q_to_matrix
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.preintegration import (
    GRAVITY_WORLD_MPS2,
    NavState,
    preintegrate,
    propagate,
)

W = np.array([0.3, -0.5, 1.2])
F = np.array([0.2, -0.1, 9.9])


def skew(v: FloatArray) -> FloatArray:
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


def closed_form(
    w: FloatArray, f: FloatArray, T_s: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """dR, beta, alpha of constant rates: a chain of integrators as one matrix exponential."""
    A = np.zeros((5, 5))
    A[:3, :3] = skew(w)
    A[:3, 3] = f
    A[3, 4] = 1.0
    E = expm(A * T_s)
    return E[:3, :3], E[:3, 3], E[:3, 4]


def constant(t_ns: list[int], w: FloatArray = W, f: FloatArray = F) -> ImuWindow:
    n = len(t_ns)
    return ImuWindow(np.array(t_ns, dtype=np.int64), np.tile(w, (n, 1)), np.tile(f, (n, 1)))


@pytest.mark.parametrize("step_ns", [1_000_000, 3_500_000, 56_000_000])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 40.0])
def test_constant_rates_match_the_closed_form(step_ns: int, scale: float) -> None:
    got = preintegrate(*constant(list(range(0, 56_000_001, step_ns)), W * scale))
    R, beta, alpha = closed_form(W * scale, F, got.dt_s)
    assert np.abs(q_to_matrix(got.dR_q_xyzw) - R).max() < 1e-12
    np.testing.assert_allclose(got.beta_mps, beta, atol=1e-12)
    np.testing.assert_allclose(got.alpha_m, alpha, atol=1e-13)


def moving(t_s: npt.NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Rates and forces that change within milliseconds, shapes (n, 3)."""
    t = t_s[:, None]
    return 3.0 * np.sin(t * [11.0, 17.0, 23.0] + [0.1, 0.7, 1.3]), 5.0 * np.cos(
        t * [13.0, 7.0, 19.0]
    ) + [0, 0, 9.8]


def test_changing_rates_match_fine_steps() -> None:
    t_ns = np.arange(0, 56_000_001, 1_000_000)
    w, f = moving(t_ns * 1e-9)
    got = preintegrate(t_ns, w, f)
    n = 5600
    dt = 0.056 / n
    middle_w, middle_f = moving((np.arange(n) + 0.5) * dt)
    q, beta, alpha = np.array([0.0, 0, 0, 1]), np.zeros(3), np.zeros(3)
    steps = q_exp(middle_w * dt)
    halves = q_exp(middle_w * dt / 2)
    for i in range(n):
        a = q_rotate(q_mul(q, halves[i]), middle_f[i])
        alpha = alpha + beta * dt + a * dt * dt / 2
        beta = beta + a * dt
        q = q_mul(q, steps[i])
    assert np.linalg.norm(q_log(q_mul(q_conj(q), got.dR_q_xyzw))) < 1e-5
    np.testing.assert_allclose(got.beta_mps, beta, atol=1e-4)
    np.testing.assert_allclose(got.alpha_m, alpha, atol=3e-6)


def test_increments_chain() -> None:
    t_ns = np.arange(0, 80_000_001, 2_000_000)
    w, f = moving(t_ns * 1e-9)
    state = NavState(5, Transform.of((1, 2, 3), (0.1, 0.2, -0.3, 0.9)), np.array([0.4, -0.5, 0.6]))
    whole = propagate(state, preintegrate(t_ns, w, f))
    half = propagate(state, preintegrate(t_ns[:21], w[:21], f[:21]))
    both = propagate(half, preintegrate(t_ns[20:], w[20:], f[20:]))
    assert both.t_ns == whole.t_ns == 80_000_005
    np.testing.assert_allclose(both.T_world_body.p_m, whole.T_world_body.p_m, atol=1e-12)
    np.testing.assert_allclose(both.v_world_mps, whole.v_world_mps, atol=1e-12)
    np.testing.assert_allclose(both.T_world_body.q_xyzw, whole.T_world_body.q_xyzw, atol=1e-12)


def test_rest_stays_at_rest() -> None:
    q_world_body = q_exp(np.array([0.4, -0.3, 1.0]))
    f = q_rotate(q_conj(q_world_body), -GRAVITY_WORLD_MPS2)
    state = NavState(0, Transform(np.array([1.0, 2, 3]), q_world_body), np.zeros(3))
    later = propagate(state, preintegrate(*constant([0, 4_000_000, 100_000_000], np.zeros(3), f)))
    np.testing.assert_allclose(later.T_world_body.p_m, state.T_world_body.p_m, atol=1e-12)
    np.testing.assert_allclose(later.v_world_mps, 0, atol=1e-12)


def test_absurd_rates_stay_finite() -> None:
    got = preintegrate(*constant([0, 4_000_000, 250_000_000], np.full(3, 1000.0)))
    assert np.isfinite(np.concatenate((got.dR_q_xyzw, got.beta_mps, got.alpha_m))).all()
    assert np.linalg.norm(got.dR_q_xyzw) == pytest.approx(1.0)


def test_states_compare_by_identity() -> None:
    """A comparison of arrays has no single truth value, and arrays have no hash."""
    state, same = (NavState(0, Transform.identity(), np.zeros(3)) for _ in range(2))
    assert state in {state} and same not in {state}
