"""The gyroscope's bias: simulated flights with a known bias, mistakes of the mocap system, rest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import chi2

from vil_bridge.core.geometry import q_exp, q_mul
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.bias import GyroBias
from vil_bridge.world.inertial.imu_buffer import ImuBuffer
from vil_bridge.world.inertial.preintegration import integrate

BIAS = np.array([0.08, -0.05, 0.03])
T0_NS = 10**15
IMU_NS = 4_000_000
MOCAP_EVERY = 2


class Simulation:
    """A turning body under a 125 Hz mocap (0.1 degrees) and a 250 Hz gyroscope with bias and noise."""

    def __init__(self, seconds: float, w_max_radps: float, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        n = round(seconds * 1e9 / IMU_NS)
        self.t_ns = T0_NS + np.arange(n) * IMU_NS
        t = np.arange(n)[:, None] * IMU_NS * 1e-9
        frequency, phase = rng.uniform(1, 5, (1, 3)), rng.uniform(0, 6, (1, 3))
        w_true = w_max_radps * np.sin(t * frequency + phase)
        q_true = integrate(self.t_ns, w_true, np.zeros((n, 3))).dR_q_xyzw
        self.w = w_true + BIAS + rng.normal(size=(n, 3)) * 0.03
        self.q = q_mul(q_true, q_exp(rng.normal(size=(n, 3)) * np.radians(0.1)))
        self.p = np.zeros((n, 3)) if w_max_radps == 0 else np.cumsum(rng.normal(size=(n, 3)) * 5e-3, axis=0)

    def feed(self, estimate: GyroBias, imu_lag: int = 0) -> Iterator[int]:
        """Play it; yields the index of each mocap frame after it was told, the IMU lagging some samples behind."""
        imu = ImuBuffer()
        for i in range(len(self.t_ns)):
            j = i - imu_lag
            if j >= 0:
                imu.append(int(self.t_ns[j]), self.w[j], np.zeros(3))
            if i % MOCAP_EVERY == 0 and self.seen(i):
                before = estimate.updates
                updated = estimate.observe(int(self.t_ns[i]), self.p[i], self.q[i], imu)
                assert estimate.updates == before + updated
                yield i

    def seen(self, _i: int) -> bool:
        return True


def worst(estimate: GyroBias) -> float:
    return float(np.abs(estimate.bias_radps - BIAS).max())


@pytest.mark.parametrize("w_max_radps", [0.0, 1.0, 6.0])
@pytest.mark.parametrize("imu_lag", [0, 4])
def test_bias_is_found_within_seconds(w_max_radps: float, imu_lag: int) -> None:
    estimate = GyroBias()
    for _ in Simulation(8.0, w_max_radps).feed(estimate, imu_lag):
        pass
    assert worst(estimate) < 0.005
    assert estimate.rejected == 0
    assert estimate.updates >= 8
    assert (estimate.std_radps < 0.016).all()
    assert (np.abs(estimate.bias_radps - BIAS) < 4 * estimate.std_radps).all()


class Mistaken(Simulation):
    """Half a second in which the mocap system takes the body for one turned by 90 degrees."""

    def __init__(self) -> None:
        super().__init__(14.0, 1.0)
        wrong = slice(round(6e9 / IMU_NS), round(6.5e9 / IMU_NS))
        self.q[wrong] = q_mul(self.q[wrong], q_exp(np.array([0.0, 0.0, np.pi / 2])))


def test_outliers_are_rejected() -> None:
    estimate = GyroBias()
    for _ in Mistaken().feed(estimate):
        pass
    assert estimate.rejected >= 1
    assert worst(estimate) < 0.005


class Lost(Simulation):
    """Mocap is lost for three seconds."""

    def seen(self, i: int) -> bool:
        return not 4e9 < i * IMU_NS < 7e9


def test_without_mocap_the_estimate_waits() -> None:
    estimate = GyroBias()
    simulation = Lost(10.0, 2.0)
    updates_before = 0
    for i in simulation.feed(estimate):
        if i * IMU_NS <= 4e9:
            updates_before = estimate.updates
        elif i * IMU_NS < 7.7e9:
            assert estimate.updates == updates_before
    assert estimate.updates > updates_before
    assert worst(estimate) < 0.006


def test_jump_of_the_bias_is_followed() -> None:
    simulation = Simulation(24.0, 1.0)
    simulation.w[: len(simulation.w) // 3] += [0.2, 0.0, -0.2]
    estimate = GyroBias()
    for _ in simulation.feed(estimate):
        pass
    assert estimate.rejected == 8, "so many windows in a row are no outliers"
    assert worst(estimate) < 0.005


@pytest.mark.parametrize(("over", "taken"), [(-0.2, True), (0.2, False)])
def test_what_one_bias_in_a_thousand_exceeds_is_refused(over: float, taken: bool) -> None:
    """At rest the rate is the bias, of which each axis has a deviation of 0.3 rad/s at first."""
    estimate, imu = GyroBias(), ImuBuffer()
    w_radps = np.full(3, 0.3 * np.sqrt((chi2.isf(1e-3, 3) + over) / 3))
    for k in range(200):
        imu.append(k * IMU_NS, w_radps, np.zeros(3))
    for t_ns in (0, 700_000_000):
        estimate.observe(t_ns, np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), imu)
    assert (estimate.updates, estimate.rejected) == (taken, not taken)


def test_corrected_subtracts_the_bias() -> None:
    estimate = GyroBias()
    estimate.bias_radps = BIAS
    imu = ImuBuffer()
    for i in range(3):
        imu.append(i, BIAS, np.ones(3))
    window = imu.between(0, 2)
    assert window is not None
    corrected = estimate.corrected(window)
    rates: FloatArray = corrected.w_radps
    np.testing.assert_allclose(rates, 0)
    np.testing.assert_allclose(corrected.f_mps2, 1)


def test_late_samples_tell_of_earlier_instants() -> None:
    bias = GyroBias()
    assert (bias.updates, bias.rejected) == (0, 0)
    bias.late_s = 0.01
    samples = ImuWindow(np.array([0, 4_000_000], np.int64), np.ones((2, 3)), np.ones((2, 3)))
    np.testing.assert_array_equal(bias.corrected(samples).t_ns, [-10_000_000, -6_000_000])
