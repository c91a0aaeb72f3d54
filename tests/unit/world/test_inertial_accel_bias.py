"""The accelerometer's bias from rests: simulated, on real recordings, and what is no rest."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.common import data_dir
from vil_adapters.recording.formats import open_recording
from vil_bridge.core.geometry import q_conj, q_exp, q_rotate
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.bias import AccelBias, GyroBias
from vil_bridge.world.inertial.imu_buffer import ImuBuffer

G = 9.80665
BIAS = np.array([0.2, -0.1, 0.3])
TILTED = q_exp(np.array([0.3, -0.2, 1.0]))


def felt(q_xyzw: FloatArray, noise: float, seed: int = 0) -> FloatArray:
    """A rest of 0.7 s at 250 Hz."""
    f = q_rotate(q_conj(q_xyzw), np.array([0.0, 0.0, G])) + BIAS
    samples: FloatArray = f + noise * np.random.default_rng(seed).normal(size=(175, 3))
    return samples


def test_the_bias_is_found_within_a_few_rests_in_any_attitude() -> None:
    rng = np.random.default_rng(1)
    estimate = AccelBias()
    assert estimate.std_mps2 == pytest.approx(0.3), "what a sensor of a flight controller may be off"
    for k in range(6):
        seen = q_exp(np.array([0.3, -0.2, 1.0]) + rng.normal(size=3) * 1e-3)
        assert estimate.rest(0.7, seen, felt(TILTED, 0.1, k))
    assert np.abs(estimate.bias_mps2 - BIAS).max() < 0.025
    assert 0.005 < estimate.std_mps2 < 0.03
    assert estimate.updates == 6


def test_what_shakes_or_falls_is_no_rest() -> None:
    estimate = AccelBias()
    assert not estimate.rest(0.7, TILTED, felt(TILTED, 1.0))
    assert not estimate.rest(0.7, TILTED, np.zeros((175, 3)))
    assert not estimate.bias_mps2.any() and estimate.updates == 0


def test_rest_teaches_both_biases_and_both_are_taken_off() -> None:
    estimate, imu = GyroBias(), ImuBuffer()
    w_bias = np.array([0.05, -0.02, 0.01])
    samples = felt(TILTED, 0.02)[0:1].repeat(1000, axis=0)
    for k in range(1000):
        imu.append(k * 4_000_000, w_bias, samples[k])
        if k % 2 == 0:
            estimate.observe(k * 4_000_000, np.zeros(3), TILTED, imu)
    window = imu.between(0, 3_000_000_000)
    assert window is not None
    corrected = estimate.corrected(window)
    np.testing.assert_allclose(corrected.w_radps, 0.0, atol=2e-3)
    up = q_rotate(q_conj(TILTED), np.array([0.0, 0.0, G]))
    np.testing.assert_allclose(corrected.f_mps2, np.broadcast_to(up, corrected.f_mps2.shape), atol=0.03)


@pytest.mark.parametrize("name", ["broad_12_slow_translation", "broad_07_fast_rotation"])
def test_a_real_sensor_has_the_same_bias_before_and_after_minutes_of_motion(name: str) -> None:
    recording = open_recording(data_dir(name), subject="wand")
    assert recording.imu is not None
    found = []
    for begin_s, end_s in ((0.0, 5.0), (recording.duration_ns * 1e-9 - 5.0, recording.duration_ns * 1e-9)):
        span_ns = recording.t_ns[0] + (np.array([begin_s, end_s]) * 1e9).astype(np.int64)
        first, last = np.searchsorted(recording.imu.t_ns, span_ns)
        estimate = AccelBias()
        q_xyzw = recording.at(int(span_ns[0] - recording.t_ns[0])).q_xyzw[0]
        assert estimate.rest(5.0, q_xyzw, recording.imu.f_mps2[first:last])
        found.append(estimate.bias_mps2)
    np.testing.assert_allclose(found[0], found[1], atol=0.03)
    assert 0.01 < np.linalg.norm(found[0]) < 0.1
