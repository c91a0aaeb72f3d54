"""The simulated flight: rest, bounds, and an IMU that agrees with the path."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from vil_adapters.motions.drone import DroneMotion, ImuErrors
from vil_bridge.core.geometry import GRAVITY_MPS2, q_conj, q_exp, q_log, q_mul, q_rotate
from vil_bridge.core.types import FloatArray

S = 1_000_000_000
PERFECT = ImuErrors(gyro_bias_radps=(0.0, 0.0, 0.0), gyro_density=0.0, accel_density=0.0)


def velocity_mps(motion: DroneMotion, t_ns: int) -> FloatArray:
    """Central difference, good to 1e-7 m/s."""
    h_ns = 100_000
    return (motion.truth(t_ns + h_ns).p_m - motion.truth(t_ns - h_ns).p_m) / (2e-9 * h_ns)


def test_the_drone_rests_level_for_a_second_and_is_always_tracked() -> None:
    motion = DroneMotion("alpha")
    start, later = motion.at(0), motion.at(S)
    assert start.subjects == motion.subjects == ("alpha",)
    np.testing.assert_array_equal(start.p_m, later.p_m)
    np.testing.assert_array_equal(start.q_xyzw, later.q_xyzw)
    np.testing.assert_allclose(
        q_rotate(start.q_xyzw[0], np.array([0.0, 0.0, 1.0])), [0.0, 0.0, 1.0], atol=1e-12
    )
    assert start.tracked.all() and motion.at(50 * S).tracked.all()
    w, f = np.array(DroneMotion(imu=PERFECT).imu_between(0, S)[-1][1:])
    np.testing.assert_allclose(w, 0.0, atol=1e-12)
    np.testing.assert_allclose(f, [0.0, 0.0, GRAVITY_MPS2], atol=1e-12)


def test_the_flight_stays_in_its_volume_at_a_walking_pace_and_looks_ahead() -> None:
    motion = DroneMotion(imu=PERFECT)
    times_ns = range(4 * S, 100 * S, S // 5)
    p_m = np.array([motion.truth(t).p_m for t in times_ns])
    assert (p_m.min(0) > [-3.2, -2.1, 1.0]).all()
    assert (p_m.max(0) < [0.2, 2.1, 2.2]).all()
    speed_mps = np.linalg.norm([velocity_mps(motion, t) for t in times_ns], axis=1)
    assert 1.0 < np.sqrt(np.mean(speed_mps**2)) < 1.5
    w_radps = np.linalg.norm([w for _, w, _ in motion.imu_between(4 * S, 100 * S)], axis=1)
    assert 0.5 < w_radps.mean() < 1.0
    ahead = np.array(
        [q_rotate(motion.truth(t).q_xyzw, np.array([1.0, 0.0, 0.0])) for t in times_ns]
    )
    assert ahead[:, 0].min() > np.cos(0.65)


def _integrate(
    motion: DroneMotion, begin_ns: int, end_ns: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Strap-down integration by the trapezoidal rule, from the true state at ``begin_ns``."""
    samples = motion.imu_between(begin_ns - 1, end_ns)
    start = motion.truth(begin_ns)
    p, q, v = start.p_m, start.q_xyzw, velocity_mps(motion, begin_ns)
    gravity = np.array([0.0, 0.0, -GRAVITY_MPS2])
    for (t0, w0, f0), (t1, w1, f1) in itertools.pairwise(samples):
        dt_s = (t1 - t0) * 1e-9
        q_next = q_mul(q, q_exp(0.5 * (w0 + w1) * dt_s))
        a = 0.5 * (q_rotate(q, f0) + q_rotate(q_next, f1)) + gravity
        p, v, q = p + v * dt_s + 0.5 * a * dt_s**2, v + a * dt_s, q_next
    return p, q, v


@pytest.mark.parametrize("begin_s", [0, 2, 20])
def test_integrating_the_noise_free_imu_reproduces_the_flight(begin_s: int) -> None:
    motion = DroneMotion(imu=PERFECT, imu_rate_hz=2000)
    end_ns = (begin_s + 5) * S
    p_m, q_xyzw, v_mps = _integrate(motion, begin_s * S, end_ns)
    truth = motion.truth(end_ns)
    assert np.linalg.norm(p_m - truth.p_m) < 3e-5
    assert np.linalg.norm(v_mps - velocity_mps(motion, end_ns)) < 3e-5
    assert np.linalg.norm(q_log(q_mul(q_conj(truth.q_xyzw), q_xyzw))) < 3e-5


def test_bias_and_noise_have_the_stated_size() -> None:
    bias = (0.1, -0.2, 0.3)
    clean = DroneMotion(imu=PERFECT).imu_between(10 * S, 50 * S)
    noisy = DroneMotion(imu=ImuErrors(gyro_bias_radps=bias)).imu_between(10 * S, 50 * S)
    gyro = np.array([w for _, w, _ in noisy]) - [w for _, w, _ in clean]
    accel = np.array([f for _, _, f in noisy]) - [f for _, _, f in clean]
    assert len(noisy) == 40 * 500
    np.testing.assert_allclose(gyro.mean(0), bias, atol=2e-3)
    np.testing.assert_allclose(gyro.std(0), 2e-3 * np.sqrt(500), rtol=0.03)
    np.testing.assert_allclose(accel.mean(0), 0.0, atol=2e-2)
    np.testing.assert_allclose(accel.std(0), 2e-2 * np.sqrt(500), rtol=0.03)


def test_idling_motors_shake_the_imu_and_not_the_mean() -> None:
    motors = replace(PERFECT, gyro_vibration_radps=0.05, accel_vibration_mps2=1.0)
    clean, shaken = (
        DroneMotion(rest_s=30.0, imu=imu, imu_rate_hz=250).imu_between(0, 20 * S)
        for imu in (PERFECT, motors)
    )
    gyro = np.array([w for _, w, _ in shaken]) - [w for _, w, _ in clean]
    accel = np.array([f for _, _, f in shaken]) - [f for _, _, f in clean]
    np.testing.assert_allclose(gyro.std(0), 0.05, rtol=0.02)
    np.testing.assert_allclose(accel.std(0), 1.0, rtol=0.02)
    quarters = accel[: 62 * 80].reshape(80, 62, 3)
    weighted = np.einsum("s,nsa->na", np.hanning(64)[1:-1] / np.hanning(64).sum(), quarters)
    assert np.abs(weighted).max() < 0.01, "too quick for an estimator that looks for rest"


def test_the_seed_decides_the_noise() -> None:
    one, same, other = (
        DroneMotion(imu=ImuErrors(seed=seed)).imu_between(0, S // 10) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal([w for _, w, _ in one], [w for _, w, _ in same])
    assert not np.array_equal([w for _, w, _ in one], [w for _, w, _ in other])


def test_samples_are_half_open_and_evenly_spaced() -> None:
    motion = DroneMotion(imu_rate_hz=250)
    assert [t for t, *_ in motion.imu_between(-1, 8_000_000)] == [0, 4_000_000, 8_000_000]
    assert [t for t, *_ in motion.imu_between(0, 7_999_999)] == [4_000_000]
    assert motion.imu_between(4_000_000, 4_000_000) == []
    assert motion.imu_between(S, 0) == []
