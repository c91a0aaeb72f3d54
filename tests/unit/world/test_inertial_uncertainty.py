"""Covariances of increments and of propagated states against draws of the noise, and against closed forms."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.support.common import ROOT
from vil_bridge.core.geometry import Transform, q_conj, q_exp, q_log, q_mul
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.covariance import ImuNoise, increments_covariance, propagated_covariance
from vil_bridge.world.inertial.preintegration import NavState, Preintegrated, preintegrate, propagate

T_NS = np.arange(0, 200_000_001, 4_000_000)
T = T_NS[:, None] * 1e-9
W = 3.0 * np.sin(T * [11.0, 17.0, 23.0] + [0.1, 0.7, 1.3])
F = 5.0 * np.cos(T * [13.0, 7.0, 19.0]) + [0.0, 0.0, 9.8]
DRAWS = 800


def nine(got: Preintegrated, mean: Preintegrated) -> FloatArray:
    turn = q_log(q_mul(q_conj(mean.dR_q_xyzw), got.dR_q_xyzw))
    return np.concatenate((turn, got.beta_mps - mean.beta_mps, got.alpha_m - mean.alpha_m))


def drawn(noise: ImuNoise, seed: int) -> list[Preintegrated]:
    """Increments of samples with noise: white within each step (so one draw a step), biases for all of them."""
    rng = np.random.default_rng(seed)
    dt_s = 0.004
    found = []
    for _ in range(DRAWS):
        w_step = rng.normal(size=(len(T_NS) - 1, 3)) * noise.gyro_density / np.sqrt(dt_s)
        f_step = rng.normal(size=(len(T_NS) - 1, 3)) * noise.accel_density / np.sqrt(dt_s)
        w_step += rng.normal(size=3) * noise.gyro_bias_radps
        f_step += rng.normal(size=3) * noise.accel_bias_mps2
        # The mean of two neighbouring samples is a step's value: samples whose means are the noise.
        found.append(preintegrate(T_NS, W + _with_means(w_step), F + _with_means(f_step)))
    return found


def _with_means(steps: FloatArray) -> FloatArray:
    samples = np.zeros((len(steps) + 1, 3))
    samples[0] = steps[0]
    for k, step in enumerate(steps):
        samples[k + 1] = 2.0 * step - samples[k]
    return samples


NOISES = {
    "gyroscope": ImuNoise(0.02, 0.0, 0.0, 0.0),
    "accelerometer": ImuNoise(0.0, 0.2, 0.0, 0.0),
    "biases": ImuNoise(0.0, 0.0, 0.02, 0.3),
    "all": ImuNoise(0.01, 0.1, 0.02, 0.3),
}


def agree(expected: FloatArray, seen: FloatArray) -> None:
    """Entry by entry, in units of the standard deviations; what 800 draws leave open is 0.05 of them."""
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    known = scale > 0.0
    assert np.abs((expected - seen)[known] / scale[known]).max() < 0.2
    assert not seen[~known].any() or np.abs(seen[~known]).max() < 1e-18


@pytest.mark.parametrize("name", NOISES)
def test_increments_against_draws(name: str) -> None:
    noise = NOISES[name]
    mean = preintegrate(T_NS, W, F)
    errors = np.array([nine(got, mean) for got in drawn(noise, 3)])
    agree(increments_covariance(T_NS, W, F, noise), errors.T @ errors / DRAWS)


def test_a_propagated_state_against_draws() -> None:
    rng = np.random.default_rng(5)
    noise = NOISES["all"]
    state = NavState(7, Transform.of((1, 2, 3), (0.1, 0.2, -0.3, 0.9)), np.array([0.4, -0.5, 0.6]))
    root = np.diag(np.repeat([0.01, 0.05, 0.002], 3)) @ (np.eye(9) + 0.2 * rng.normal(size=(9, 9)))
    P_state = root @ root.T
    mean = propagate(state, preintegrate(T_NS, W, F))
    errors = []
    for got in drawn(noise, 4):
        e = root @ rng.normal(size=9)
        start = Transform(state.T_world_body.p_m + e[6:], q_mul(state.T_world_body.q_xyzw, q_exp(e[:3])))
        end = propagate(NavState(7, start, state.v_world_mps + e[3:6]), got)
        turn = q_log(q_mul(q_conj(mean.T_world_body.q_xyzw), end.T_world_body.q_xyzw))
        moved = end.T_world_body.p_m - mean.T_world_body.p_m
        errors.append(np.concatenate((turn, end.v_world_mps - mean.v_world_mps, moved)))
    seen = np.array(errors).T @ np.array(errors) / DRAWS
    P = increments_covariance(T_NS, W, F, noise)
    agree(propagated_covariance(state, preintegrate(T_NS, W, F), P_state, P), seen)


def test_white_noise_of_a_body_at_rest_grows_as_in_the_books() -> None:
    """Angle by the root of time, velocity too, position by t^3 / 3; without gravity nothing else mixes in."""
    noise = ImuNoise(0.01, 0.1, 0.0, 0.0)
    still = np.zeros_like(W)
    P = increments_covariance(T_NS, still, still, noise)
    t_s = 0.2
    np.testing.assert_allclose(np.diag(P)[:3], 0.01**2 * t_s, rtol=1e-9)
    np.testing.assert_allclose(np.diag(P)[3:6], 0.1**2 * t_s, rtol=1e-9)
    np.testing.assert_allclose(np.diag(P)[6:], 0.1**2 * t_s**3 / 3, rtol=1e-3)
    np.testing.assert_allclose(P[3, 6], 0.1**2 * t_s**2 / 2, rtol=1e-3)
    assert np.allclose(P, P.T) and (np.linalg.eigvalsh(P) > -1e-18).all()


def test_a_gyroscopes_bias_turns_gravity() -> None:
    """At rest: a turn of bias * t tilts g, so that the position is off by g * bias * t^3 / 6."""
    noise = ImuNoise(0.0, 0.0, 0.02, 0.0)
    f = np.tile([0.0, 0.0, 9.8], (len(T_NS), 1))
    P = increments_covariance(T_NS, np.zeros_like(f), f, noise)
    np.testing.assert_allclose(np.sqrt(P[6, 6]), 9.8 * 0.02 * 0.2**3 / 6, rtol=1e-3)
    np.testing.assert_allclose(np.sqrt(P[0, 0]), 0.02 * 0.2, rtol=1e-9)
    assert P[8, 8] < 1e-20, "along gravity nothing happens"


def test_the_example_of_the_manual_prints_what_the_manual_says() -> None:
    page = (ROOT / "docs" / "guides" / "imu.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, FloatArray] = {}
    exec(code, names)
    said = re.search(r"prints (\S+) rad, (\S+) m/s and (\S+) m, three times each", page)
    assert said is not None
    expected = np.repeat([float(figure) for figure in said.groups()], 3)
    np.testing.assert_allclose(np.sqrt(np.diag(names["P"])), expected, rtol=0.03)
