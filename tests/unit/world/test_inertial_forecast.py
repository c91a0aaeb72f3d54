"""Beyond the newest inertial sample: what is known goes on, what is guessed dies away."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.geometry import GRAVITY_MPS2, Transform, q_conj, q_exp, q_log, q_mul
from vil_bridge.core.motion import ImuWindow
from vil_bridge.world.inertial.extrapolation import RECENT_NS, forecast, forecast_variances
from vil_bridge.world.inertial.imu_buffer import ImuBuffer
from vil_bridge.world.inertial.preintegration import NavState

MS = 1_000_000
TILTED = q_exp(np.array([0.3, -0.2, 0.5]))


def window(w_radps: np.ndarray, f_mps2: np.ndarray) -> ImuWindow:
    return ImuWindow(np.arange(len(w_radps), dtype=np.int64) * 4 * MS, w_radps, f_mps2)


def state(v_mps: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> NavState:
    return NavState(20 * MS, Transform(np.zeros(3), TILTED), np.array(v_mps))


def felt(a_world_mps2: tuple[float, float, float]) -> np.ndarray:
    """Six samples of an accelerometer with that attitude."""
    force = np.add(a_world_mps2, (0.0, 0.0, GRAVITY_MPS2))
    return np.tile(Transform(np.zeros(3), q_conj(TILTED)).apply(force), (6, 1))


def test_even_motion_goes_on_and_a_tilted_body_at_rest_stays() -> None:
    w_radps = np.array([0.4, -1.0, 2.0])
    later, _ = forecast(
        state((1.0, 2.0, -0.5)), window(np.tile(w_radps, (6, 1)), felt((0.0, 0.0, 0.0))), 120 * MS
    )
    np.testing.assert_allclose(later.T_world_body.p_m, (0.1, 0.2, -0.05), rtol=0.03)
    np.testing.assert_allclose(later.v_world_mps, (1.0, 2.0, -0.5), atol=1e-12)
    turned_rad = q_log(q_mul(q_conj(TILTED), later.T_world_body.q_xyzw))
    np.testing.assert_allclose(turned_rad, 0.1 * w_radps, rtol=2e-3)


def test_a_changing_rate_goes_on_for_a_moment() -> None:
    """10 rad/s^2: right at once, and no more than the trend of 20 ms in the end."""
    t_s = np.arange(6)[:, None] * 0.004
    changing = window(t_s * np.array([0.0, 0.0, 10.0]), felt((0.0, 0.0, 0.0)))
    for dt_ms, expected_rad in (
        (4, 0.2 * 0.004 + 0.5 * 10 * 0.004**2),
        (200, 0.2 * 0.2 + 10 * 0.02 * (0.2 - 0.02)),
    ):
        later, _ = forecast(state(), changing, (20 + dt_ms) * MS)
        turned_rad = q_log(q_mul(q_conj(TILTED), later.T_world_body.q_xyzw))
        assert turned_rad[2] == pytest.approx(expected_rad, rel=0.02)


def test_two_samples_of_a_burst_make_no_trend() -> None:
    """Read from a FIFO and stamped on arrival, they lie 20 us apart, so that their noise has any
    slope.
    """
    t_ns = np.array([20 * MS - 20_000, 20 * MS])
    burst = ImuWindow(
        t_ns,
        np.array([[0.0, 0.0, 0.5], [0.0, 0.0, 0.51]]),
        np.tile((0.0, 0.0, GRAVITY_MPS2), (2, 1)),
    )
    _, w_radps = forecast(state(), burst, 40 * MS)
    assert w_radps == pytest.approx([0.0, 0.0, 0.51])


def test_acceleration_stays_in_the_world_while_the_body_spins_and_dies_away() -> None:
    spinning = window(np.tile(np.array([30.0, 0.0, 0.0]), (6, 1)), felt((3.0, 0.0, 0.0)))
    soon, _ = forecast(state(), spinning, 30 * MS)
    np.testing.assert_allclose(soon.T_world_body.p_m, (0.5 * 3.0 * 0.01**2, 0.0, 0.0), atol=2e-5)
    late, _ = forecast(state(), spinning, 1220 * MS)
    np.testing.assert_allclose(late.v_world_mps, (3.0 * 0.12, 0.0, 0.0), rtol=1e-3, atol=1e-9)


def test_recent_samples_are_the_newest_ones_and_at_least_two() -> None:
    imu = ImuBuffer(capacity=16)
    assert imu.recent(RECENT_NS) is None
    for k in range(40):
        imu.append(k * 5 * MS, np.full(3, float(k)), np.zeros(3))
    recent = imu.recent(12 * MS)
    assert recent is not None
    assert recent.t_ns.tolist() == [185 * MS, 190 * MS, 195 * MS]
    assert recent.w_radps[:, 0].tolist() == [37.0, 38.0, 39.0]
    shortest = imu.recent(1)
    assert shortest is not None
    assert len(shortest.t_ns) == 2
    imu.shift(-5 * MS)
    assert imu.newest_t_ns == 190 * MS


def test_a_rate_that_grows_goes_on_growing_for_a_moment() -> None:
    """The growth dies away with 20 ms, so that it turns by its double integral."""
    rates = np.zeros((6, 3))
    rates[:, 2] = 1.0 + 2.5 * 0.004 * np.arange(6)
    later, _ = forecast(state(), window(rates, felt((0.0, 0.0, 0.0))), 120 * MS)
    turned_rad = q_log(q_mul(q_conj(TILTED), later.T_world_body.q_xyzw))
    grown_rad = 2.5 * 0.02 * (0.1 + 0.02 * math.expm1(-5.0))
    np.testing.assert_allclose(
        turned_rad, (0.0, 0.0, 0.1 * rates[-1, 2] + grown_rad), rtol=1e-4, atol=1e-9
    )


def test_only_the_parts_that_come_true_are_forecast() -> None:
    spinning = window(np.tile(np.array([0.0, 20.0, 0.0]), (6, 1)), felt((0.0, 0.0, 0.0)))
    for of_v, of_w in ((1.0, 1.0), (0.5, 0.25), (0.0, 0.0)):
        later, w_radps = forecast(
            state((1.0, 0.0, 0.0)), spinning, 70 * MS, np.array([[of_v, of_w], [0.0, 0.0]])
        )
        turned_rad = q_log(q_mul(q_conj(TILTED), later.T_world_body.q_xyzw))
        np.testing.assert_allclose(turned_rad, (0.0, of_w, 0.0), atol=1e-9)
        np.testing.assert_allclose(later.T_world_body.p_m, (0.05 * of_v, 0.0, 0.0), atol=1e-12)
        assert w_radps[1] == pytest.approx(20.0 * of_w) and later.v_world_mps[0] == pytest.approx(
            of_v
        )


def test_variances_grow_with_what_just_changed() -> None:
    t_ns = np.arange(50, dtype=np.int64) * 4 * MS
    ramp = 1e-9 * t_ns[:, None]
    changing = ImuWindow(t_ns, ramp * np.array([3.0, 0.0, 0.0]), ramp * np.array([0.0, 30.0, 0.0]))
    attitude, velocity, position = forecast_variances(changing, 0.1)
    assert attitude == pytest.approx((3.0 / math.sqrt(3.0) * 0.1**2 / 2.0) ** 2)
    assert velocity == pytest.approx((30.0 / math.sqrt(3.0) * 0.1**2 / 2.0) ** 2)
    assert position == pytest.approx((30.0 / math.sqrt(3.0) * 0.1**3 / 6.0) ** 2)


def test_noise_within_a_burst_is_no_change() -> None:
    t_ns = np.repeat(np.arange(6, dtype=np.int64) * 40 * MS, 2) + np.tile((0, 2_000), 6)
    noisy = np.tile([[0.01], [-0.01]], (6, 3))
    attitude, _, _ = forecast_variances(ImuWindow(t_ns, noisy, noisy), 0.1)
    assert math.sqrt(attitude) < 0.01
