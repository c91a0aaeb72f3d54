"""Derivatives and noise of increments against differences and draws.

Covariance of a state against both.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.support.common import ROOT
from vil_bridge.core.geometry import q_conj, q_exp, q_log, q_mul, q_rotate
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.covariance import ImuNoise, increments_jacobians
from vil_bridge.world.inertial.error_state import (
    ACCEL_BIAS,
    ATTITUDE,
    GYRO_BIAS,
    LATE,
    LEVER,
    MOUNT,
    POSITION,
    SCALE,
    SIZE,
    VELOCITY,
    FilterState,
    measured,
    propagated,
    updated,
)
from vil_bridge.world.inertial.imu_buffer import ImuBuffer
from vil_bridge.world.inertial.preintegration import Preintegrated, integrate, preintegrate

T_NS = np.arange(0, 200_000_001, 4_000_000)
T = T_NS[:, None] * 1e-9
W = 3.0 * np.sin(T * [11.0, 17.0, 23.0] + [0.1, 0.7, 1.3])
F = 5.0 * np.cos(T * [13.0, 7.0, 19.0]) + [0.0, 0.0, 9.8]
DRAWS = 800


def nine(got: Preintegrated, mean: Preintegrated) -> FloatArray:
    turn = q_log(q_mul(q_conj(mean.dR_q_xyzw), got.dR_q_xyzw))
    return np.concatenate((turn, got.beta_mps - mean.beta_mps, got.alpha_m - mean.alpha_m))


def noise_of(w: FloatArray, f: FloatArray, noise: ImuNoise) -> FloatArray:
    return increments_jacobians(ImuWindow(T_NS, w, f), integrate(T_NS, w, f), noise).noise


def drawn(noise: ImuNoise, seed: int) -> list[Preintegrated]:
    """Increments of samples with noise that is white within each step, so one draw a step."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(DRAWS):
        w_step = rng.normal(size=(len(T_NS) - 1, 3)) * noise.gyro_density / np.sqrt(0.004)
        f_step = rng.normal(size=(len(T_NS) - 1, 3)) * noise.accel_density / np.sqrt(0.004)
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
    "all": ImuNoise(0.01, 0.1, 0.0, 0.0),
}


@pytest.mark.parametrize("name", NOISES)
def test_noise_of_increments_against_draws(name: str) -> None:
    """Entry by entry, in units of the standard deviations.

    What 800 draws leave open is 0.05 of them.
    """
    mean = preintegrate(T_NS, W, F)
    errors = np.array([nine(got, mean) for got in drawn(NOISES[name], 3)])
    expected, seen = noise_of(W, F, NOISES[name]), errors.T @ errors / DRAWS
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    known = scale > 0.0
    assert np.abs((expected - seen)[known] / scale[known]).max() < 0.2
    assert not seen[~known].any() or np.abs(seen[~known]).max() < 1e-18


def test_noise_grows_with_the_rate() -> None:
    expected = noise_of(W, F, ImuNoise(0.0, 0.0, 0.01, 0.02))
    middle_radps = np.linalg.norm(0.5 * (W[1:] + W[:-1]), axis=1)
    np.testing.assert_allclose(
        np.trace(expected[:3, :3]), 3 * (0.01 * middle_radps) ** 2 @ np.full(50, 0.004), rtol=1e-6
    )
    np.testing.assert_allclose(
        np.trace(expected[3:6, 3:6]),
        3 * (0.02 * middle_radps**2) ** 2 @ np.full(50, 0.004),
        rtol=0.2,
    )


@pytest.mark.parametrize(("part", "name"), [("w", "rate"), ("f", "force"), ("s", "scale")])
def test_derivatives_of_increments_against_differences(part: str, name: str) -> None:
    jacobian = getattr(
        increments_jacobians(ImuWindow(T_NS, W, F), integrate(T_NS, W, F), ImuNoise()), name
    )
    mean, h = preintegrate(T_NS, W, F), 1e-5
    for axis in range(3):
        e = h * np.eye(3)[axis]
        changed = {"w": (W + e, F), "f": (W, F + e), "s": (W * (1.0 + e), F)}[part]
        found = nine(preintegrate(T_NS, *changed), mean) / h
        np.testing.assert_allclose(jacobian[:, axis], found, atol=2e-3 * np.abs(jacobian).max())


def test_white_noise_of_a_body_at_rest_grows_as_in_the_books() -> None:
    """Angle by the root of time, velocity too, position by t^3 / 3.

    Without gravity nothing else mixes in.
    """
    still = np.zeros_like(W)
    P = noise_of(still, still, ImuNoise(0.01, 0.1, 0.0, 0.0))
    t_s = 0.2
    np.testing.assert_allclose(np.diag(P)[:3], 0.01**2 * t_s, rtol=1e-9)
    np.testing.assert_allclose(np.diag(P)[3:6], 0.1**2 * t_s, rtol=1e-9)
    np.testing.assert_allclose(np.diag(P)[6:], 0.1**2 * t_s**3 / 3, rtol=1e-3)
    np.testing.assert_allclose(P[3, 6], 0.1**2 * t_s**2 / 2, rtol=1e-3)
    assert np.allclose(P, P.T) and (np.linalg.eigvalsh(P) > -1e-18).all()


# --- the filter's state --------------------------------------------------------------------------


def state(P: FloatArray | None = None) -> FilterState:
    q = q_exp(np.array([0.3, -0.2, 1.0]))
    start = FilterState.unknown(np.array([0.1, -0.05, 0.02]))
    return replace(
        start,
        q_world_imu_xyzw=q,
        v_world_mps=np.array([1.0, -2.0, 0.5]),
        p_world_m=np.array([1.0, 2.0, 3.0]),
        w_imu_radps=np.array([4.0, -3.0, 5.0]),
        gyro_bias_radps=np.array([0.02, -0.01, 0.03]),
        mount_rad=np.array([0.02, 0.01, -0.03]),
        gyro_scale=np.array([0.01, -0.01, 0.005]),
        P=np.zeros((SIZE, SIZE)) if P is None else P,
    )


def moved(of: FilterState, e: FloatArray) -> FilterState:
    """The true state, where ``e`` is true minus estimated."""
    return replace(
        of,
        q_world_imu_xyzw=q_mul(of.q_world_imu_xyzw, q_exp(e[ATTITUDE])),
        v_world_mps=of.v_world_mps + e[VELOCITY],
        p_world_m=of.p_world_m + e[POSITION],
        gyro_bias_radps=of.gyro_bias_radps + e[GYRO_BIAS],
        accel_bias_mps2=of.accel_bias_mps2 + e[ACCEL_BIAS],
        late_s=of.late_s + float(e[LATE]),
        mount_rad=q_log(q_mul(q_exp(of.mount_rad), q_exp(e[MOUNT]))),
        gyro_scale=of.gyro_scale + e[SCALE],
        p_imu_body_m=of.p_imu_body_m + e[LEVER],
    )


def difference(a: FilterState, b: FilterState) -> FloatArray:
    """Attitude, velocity and position of a minus b."""
    turn = q_log(q_mul(q_conj(b.q_world_imu_xyzw), a.q_world_imu_xyzw))
    return np.concatenate((turn, a.v_world_mps - b.v_world_mps, a.p_world_m - b.p_world_m))


def test_covariance_of_a_propagated_state_against_differences() -> None:
    root = 1e-3 * np.random.default_rng(3).normal(size=(SIZE, SIZE))
    samples, noise = ImuWindow(T_NS, W, F), ImuNoise(0.0, 0.0, 0.0, 0.0)
    start = state(root @ root.T)
    mean = propagated(start, samples, noise)
    h = 1e-5
    F9 = np.array(
        [
            difference(propagated(moved(start, h * e), samples, noise), mean) / h
            for e in np.eye(SIZE)
        ]
    ).T
    whole = np.vstack((F9, np.eye(SIZE)[9:]))
    expected = whole @ start.P @ whole.T
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs((mean.P - expected) / scale)[:9].max() < 5e-3


def test_derivative_of_a_measured_pose_against_differences() -> None:
    at = state()
    p_m, q_xyzw = (
        at.p_world_m + 0.01,
        q_mul(at.q_world_imu_xyzw, q_exp(np.array([0.03, 0.02, -0.01]))),
    )
    residual, H, beyond = measured(at, p_m, q_xyzw)
    h = 1e-6
    for k, e in enumerate(np.eye(SIZE)):
        if k == LATE:
            continue
        found = (residual - measured(moved(at, h * e), p_m, q_xyzw)[0]) / h
        np.testing.assert_allclose(H[:, k], found, atol=0.03)
    assert not beyond.any(), "without uncertainty, lateness adds nothing"


def test_lateness_shows_in_motion_only() -> None:
    at = replace(state(), mount_rad=np.zeros(3))
    H = measured(at, at.p_world_m, at.q_world_imu_xyzw)[1]
    np.testing.assert_allclose(H[:3, LATE], at.w_imu_radps, rtol=0.01)
    swept_mps = q_rotate(at.q_world_imu_xyzw, np.cross(at.w_imu_radps, at.p_imu_body_m))
    np.testing.assert_allclose(H[3:, LATE], at.v_world_mps + swept_mps, rtol=0.02, atol=0.02)
    still = replace(
        at, w_imu_radps=np.full(3, 0.05), v_world_mps=np.full(3, 0.01), P=np.eye(SIZE) * 1e-4
    )
    H = measured(still, at.p_world_m, at.q_world_imu_xyzw)[1]
    assert np.abs(H[:3, LATE]).max() < 0.002 and np.abs(H[3:, LATE]).max() < 1e-3


def test_an_update_is_that_of_the_information_form() -> None:
    root = np.random.default_rng(4).normal(size=(SIZE, SIZE)) * 1e-2
    at = state(root @ root.T + 1e-6 * np.eye(SIZE))
    H = np.random.default_rng(5).normal(size=(6, SIZE))
    R = np.full(6, 1e-4)
    residual = np.full(6, 1e-3)
    after = updated(at, residual, H, H @ at.P @ H.T + np.diag(R), R)
    information = np.linalg.inv(at.P) + H.T @ np.diag(1.0 / R) @ H
    P = np.linalg.inv(information)
    np.testing.assert_allclose(after.P, P, atol=1e-8)
    e = P @ H.T @ (residual / R)
    np.testing.assert_allclose(after.p_world_m - at.p_world_m, e[POSITION], atol=1e-8)
    np.testing.assert_allclose(difference(after, at)[:3], e[ATTITUDE], atol=1e-6)
    np.testing.assert_allclose(after.p_imu_body_m - at.p_imu_body_m, e[LEVER], atol=1e-8)


def test_noise_is_learnt_from_the_samples() -> None:
    rng, imu, noise = np.random.default_rng(6), ImuBuffer(), ImuNoise()
    for k in range(1500):
        t_s = 0.004 * k
        motion = np.array([2.0 * np.sin(6.0 * t_s), 0.0, 1.0])
        w = motion + rng.normal(size=3) * 0.01 / np.sqrt(0.004)
        imu.append(4_000_000 * k, w, 3.0 * motion + rng.normal(size=3) * 0.1 / np.sqrt(0.004))
        noise.learn(imu, 4_000_000 * k)
    assert noise.gyro_density == pytest.approx(0.01, rel=0.1)
    assert noise.accel_density == pytest.approx(0.1, rel=0.1)


def test_the_example_of_the_manual_prints_what_the_manual_says() -> None:
    page = (ROOT / "docs" / "guides" / "imu.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, FloatArray] = {}
    exec(code, names)
    said = re.search(r"prints (\S+) rad, (\S+) m/s and (\S+) m, three times each", page)
    assert said is not None
    expected = np.repeat([float(figure) for figure in said.groups()], 3)
    np.testing.assert_allclose(np.sqrt(np.diag(names["P"])), expected, rtol=0.06)
