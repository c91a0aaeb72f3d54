"""IMUs: published variances, Allan deviations of all presets, lever arm, vibration, saturation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from tests.support.felt_motion import matrix
from tests.support.sensors import at_rest
from vil_bridge.core.geometry import q_conj, q_exp, q_mul, q_rotate
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.allan import allan_deviation, allan_variance_of_walk, fit_allan
from vil_simulation.vehicles.sensors.imu import (
    ImuCompat,
    ImuParameters,
    ImuSensor,
    InertialNoise,
    Vibration,
    without_limits,
)
from vil_simulation.vehicles.sensors.presets import IMU_PRESETS
from vil_simulation.vehicles.sensors.sensor import SensorMount

_QUIET = InertialNoise(white=0.0)


def _run(
    parameters: ImuParameters,
    n: int,
    samples: int,
    dt_s: float,
    compat: ImuCompat = None,
    truth: TrueState | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Rates and forces less the true ones, each (samples, n, 3)."""
    imu = ImuSensor(n, parameters, seed=11, compat=compat)
    truth = at_rest(n, 0) if truth is None else truth
    w, f = np.empty((samples, n, 3)), np.empty((samples, n, 3))
    for i in range(samples):
        reading = imu.sample(truth._replace(t_ns=round(i * dt_s * 1e9)))
        assert reading is not None
        w[i], f[i] = reading.w_radps, reading.f_mps2
    return w - truth.w_body_radps, f - truth.f_body_mps2


def test_airsims_published_variances_at_rest_come_out_of_20_000_samples_every_31_ms() -> None:
    w, f = _run(IMU_PRESETS["mpu6000"], 5, 4001, 0.031, "airsim")
    # The first sample is of an interval of 1 ms.
    assert w[1:].var(axis=0).mean() == pytest.approx(2.47e-7, rel=0.03)
    assert f[1:].var(axis=0).mean() == pytest.approx(1.78e-4, rel=0.03)


@pytest.mark.parametrize("name", IMU_PRESETS)
def test_the_variance_at_1_khz_is_the_squared_density_over_the_interval(name: str) -> None:
    part = replace(IMU_PRESETS[name], rate_hz=1000.0)
    w, f = _run(part, 40, 250, 0.001)
    for seen, noise in ((w, part.gyro), (f, part.accel)):
        expected = np.square(noise.white) / 0.001
        np.testing.assert_allclose(
            seen.var(axis=0).mean(axis=0), np.broadcast_to(expected, 3), rtol=0.05
        )


def test_airsims_shortest_interval_is_a_millisecond() -> None:
    w, _ = _run(IMU_PRESETS["mpu6000"], 40, 250, 1e-4, "airsim")
    assert w.var() == pytest.approx(7.6e-6, rel=0.03)


def test_flightgoggles_has_its_variances_per_sample_at_any_step() -> None:
    for dt_s in (1.0 / 960.0, 0.02):
        w, f = _run(IMU_PRESETS["mti1"], 60, 200, dt_s, "flightgoggles")
        assert np.diff(w, axis=0).var() / 2.0 == pytest.approx(0.003, rel=0.03)
        assert np.diff(f, axis=0).var() / 2.0 == pytest.approx(0.005, rel=0.03)
    with pytest.raises(ValueError, match="needs rate_hz"):
        ImuSensor(1, IMU_PRESETS["mpu6000"], compat="flightgoggles")


def test_presets_are_the_references_figures() -> None:
    mpu, mti, rotorpy = IMU_PRESETS["mpu6000"], IMU_PRESETS["mti1"], IMU_PRESETS["rotorpy"]
    assert mpu.gyro.white == pytest.approx(8.7266e-5, rel=1e-4)
    assert mpu.gyro.walk == pytest.approx(9.974e-7, rel=1e-4)
    assert mpu.accel.white == pytest.approx(2.3536e-3, rel=1e-4)
    assert mpu.accel.walk == pytest.approx(1.2482e-5, rel=1e-4)
    assert mti.gyro.white == pytest.approx(1.77e-3, rel=2e-3)
    assert mti.accel.white == pytest.approx(2.28e-3, rel=2e-3)
    # rotorpy adds noise of deviation density sqrt(rate / 2).
    assert np.asarray(rotorpy.accel.white) * math.sqrt(500.0) == pytest.approx(
        0.038**2 * math.sqrt(250.0)
    )


@pytest.mark.parametrize("kind", ["gyro", "accel"])
@pytest.mark.parametrize("name", IMU_PRESETS)
def test_the_allan_deviation_of_every_preset_recovers_its_parameters(
    name: str, kind: Literal["gyro", "accel"]
) -> None:
    part = replace(IMU_PRESETS[name], rate_hz=None)
    noise: InertialNoise = getattr(part, kind)
    # White noise and walk are equal at sqrt(3) N / K: fifty samples until there, twenty times as
    # long in all.
    dt_s = math.sqrt(3.0) * np.max(noise.white) / noise.walk / 50.0 if noise.walk else 1.0
    # The first sample, of an interval not known, is left out.
    seen = _run(part, 100, 1000, dt_s)[kind == "accel"][1:]
    tau_s, deviation = allan_deviation(seen, dt_s)
    for axis, white in enumerate(np.broadcast_to(noise.white, 3)):
        found = fit_allan(
            tau_s, deviation[..., axis], flicker=False, correlation_s=noise.correlation_s
        )
        assert found.white == pytest.approx(white, rel=0.1)
        if noise.walk:
            assert found.walk == pytest.approx(noise.walk, rel=0.1)
        else:
            assert found.walk * math.sqrt(tau_s[-1] / 3.0) < 0.5 * white / math.sqrt(tau_s[-1])


def test_all_three_allan_parameters_of_one_sensor_are_recovered() -> None:
    noise = InertialNoise(white=1e-3, bias_instability=4e-4, walk=3e-5)
    w, _ = _run(ImuParameters(gyro=noise, accel=_QUIET), 60, 3000, 1.0)
    found = fit_allan(*allan_deviation(w[1:], 1.0))
    assert found.white == pytest.approx(noise.white, rel=0.1)
    assert found.bias_instability == pytest.approx(noise.bias_instability, rel=0.1)
    assert found.walk == pytest.approx(noise.walk, rel=0.1)


def test_flicker_noise_is_flat_at_0_664_b() -> None:
    part = ImuParameters(gyro=InertialNoise(white=0.0, bias_instability=1.0), accel=_QUIET)
    w, _ = _run(part, 40, 1500, 1.0)
    tau_s, deviation = allan_deviation(w, 1.0)
    flat = np.sqrt(np.square(deviation).mean(axis=(1, 2)))[(tau_s >= 4.0) & (tau_s <= 200.0)]
    np.testing.assert_allclose(flat, 0.664, rtol=0.1)


def test_the_overlapping_allan_deviation_agrees_with_its_definition() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2)).cumsum(axis=0)
    tau_s, deviation = allan_deviation(x, 0.5, np.array([1, 7]))
    for count, found in zip((1, 7), deviation, strict=True):
        means = np.array([x[i : i + count].mean(axis=0) for i in range(60 - count + 1)])
        expected = np.sqrt(0.5 * np.square(means[count:] - means[:-count]).mean(axis=0))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_array_equal(tau_s, [0.5, 3.5])
    with pytest.raises(ValueError, match="clusters are of 1 to 30"):
        allan_deviation(x, 0.5, np.array([31]))


def test_a_forgetting_walk_is_a_random_walk_at_first_and_keeps_its_deviation_in_the_end() -> None:
    tau_s = np.array([1e-4, 0.01, 0.1])
    np.testing.assert_allclose(allan_variance_of_walk(tau_s, 1e3), tau_s / 3.0, rtol=2e-4)
    noise = InertialNoise(white=0.0, walk=0.2, correlation_s=0.5, turn_on=3.0)
    w, _ = _run(ImuParameters(gyro=noise, accel=_QUIET), 2000, 60, 0.05)
    assert w[0].std() == pytest.approx(3.0, rel=0.03)
    assert (w[-1] - w[0]).std() == pytest.approx(0.2 * math.sqrt(0.25), rel=0.03)


def test_a_lever_arm_feels_what_its_point_of_the_body_does() -> None:
    arm = (0.1, -0.05, 0.02)

    def place(t_s: float) -> FloatArray:
        turn = q_exp(np.array([0.0, 0.0, t_s + 0.3 * t_s * t_s]))
        return q_rotate(turn, np.array(arm))

    t_s, h = 0.7, 1e-4
    a_world = (place(t_s + h) - 2.0 * place(t_s) + place(t_s - h)) / h**2
    q = q_exp(np.array([0.0, 0.0, t_s + 0.3 * t_s * t_s]))
    truth = at_rest(1, 0, q_world_body=q)._replace(
        w_body_radps=np.array([[0.0, 0.0, 1.0 + 0.6 * t_s]]),
        alpha_body_radps2=np.array([[0.0, 0.0, 0.6]]),
    )
    turned = SensorMount(arm, (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)))
    _, f = _run(
        ImuParameters(gyro=_QUIET, accel=_QUIET, mounting=SensorMount(arm)), 1, 1, 0.01, truth=truth
    )
    np.testing.assert_allclose(q_rotate(q, f[0, 0]), a_world, atol=1e-6)
    imu = ImuSensor(1, ImuParameters(gyro=_QUIET, accel=_QUIET, mounting=turned))
    reading = imu.sample(truth)
    assert reading is not None
    # The sensor's x axis is the body's y: it reads the body's y on x, and minus the body's x on y.
    body = f[0, 0] + truth.f_body_mps2[0]
    np.testing.assert_allclose(reading.f_mps2[0], [body[1], -body[0], body[2]], atol=1e-12)
    np.testing.assert_allclose(reading.w_radps[0], truth.w_body_radps[0], atol=1e-12)


def test_rotors_shake_at_their_frequency_with_their_speed_squared() -> None:
    vibration = Vibration(
        reference_radps=500.0,
        accel_mps2=((1.0, 2.0, 0.0), (0.0, 0.0, 3.0)),
        gyro_radps=((0.1, 0.0, 0.0),),
    )
    part = ImuParameters(gyro=_QUIET, accel=_QUIET, vibration=vibration, rate_hz=1000.0)
    speed = 2.0 * math.pi * 100.0
    rotors = np.array(
        [[speed, 0.0, 0.0, 0.0], [2.0 * speed, 0.0, 0.0, 0.0], [speed, 1.3 * speed, 0.0, 0.0]]
    )
    w, f = _run(part, 3, 1000, 0.001, truth=at_rest(3, 0, rotors=rotors))
    strength = (speed / 500.0) ** 2
    one = np.array([1.0, 4.0, 9.0]) / 2.0 * strength**2
    np.testing.assert_allclose(f[:, 0].var(axis=0), one, rtol=1e-3)
    np.testing.assert_allclose(f[:, 1].var(axis=0), 16.0 * one, rtol=1e-3)
    np.testing.assert_allclose(f[:, 2].var(axis=0), (1.0 + 1.3**4) * one, rtol=0.01)
    np.testing.assert_allclose(
        w[:, 0].var(axis=0), [0.005 * strength**2, 0.0, 0.0], rtol=1e-3, atol=1e-12
    )
    spectrum = np.abs(np.fft.rfft(f[:, 0], axis=0))
    np.testing.assert_array_equal(spectrum.argmax(axis=0), [100, 100, 200])


def test_readings_saturate() -> None:
    part = IMU_PRESETS["vn100"]
    fast = at_rest(1, 0)._replace(
        w_body_radps=np.array([[50.0, -50.0, 1.0]]), f_body_mps2=np.array([[0.0, -300.0, 99.0]])
    )
    imu = ImuSensor(1, part)
    reading = imu.sample(fast)
    assert reading is not None
    assert reading.w_radps[0, :2].tolist() == pytest.approx(
        [math.radians(2000.0), -math.radians(2000.0)]
    )
    assert reading.f_mps2[0, 1] == pytest.approx(-16.0 * 9.80665)
    assert 0.9 < reading.w_radps[0, 2] < 1.1
    assert imu.clipped.tolist() == [1]
    imu.sample(at_rest(1, 1_000_000_000))
    assert imu.clipped.tolist() == [1], "readings within the range are not counted"
    imu.reset()
    assert imu.clipped.tolist() == [0]
    assert without_limits(part).accel.limit == math.inf


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("rate_hz", [20.0, 37.0, 100.0, 400.0])
def test_readings_times_their_period_are_the_change_of_velocity_and_of_attitude(
    rate_hz: float, compiled: bool
) -> None:
    """A body on a circle of 2 m at 3 rad/s that turns with it, and rolls.

    The sensor is off its centre.
    """
    arm = (0.1, -0.05, 0.02)
    still = ImuParameters(gyro=_QUIET, accel=_QUIET, mounting=SensorMount(arm))
    imu = ImuSensor(1, still, compiled=compiled)
    imu.begin(_circling(0))
    turned = matrix(_circling(0).q_world_body[0])
    felt = np.zeros(3)
    for k in range(1, round(2.0 * rate_hz) + 1):
        begin = _circling(round((k - 1) * 1e9 / rate_hz))
        end = _circling(round(k * 1e9 / rate_hz))
        reading = imu.sample(end)
        assert reading is not None
        span_s = 1e-9 * (end.t_ns - begin.t_ns)
        middle = begin.q_world_body[0] + end.q_world_body[0]
        felt += (matrix(middle) @ reading.f_mps2[0] - (0.0, 0.0, 9.81)) * span_s
        turned = turned @ matrix(q_exp(reading.w_radps[0] * span_s))
    change = _speed(end, arm) - _speed(_circling(0), arm)
    np.testing.assert_allclose(felt, change, atol=1e-9)
    np.testing.assert_allclose(turned, matrix(end.q_world_body[0]), atol=1e-9)


def test_a_gyroscope_counts_full_turns_within_its_period() -> None:
    imu = ImuSensor(1, ImuParameters(gyro=_QUIET, accel=_QUIET))
    spin = np.array([[0.0, 0.0, 30.0]])
    for k in range(1, 4):
        level = np.array([0.0, 0.0, 30.0 * 0.5 * k])
        truth = at_rest(1, 500_000_000 * k, q_world_body=q_exp(level))._replace(w_body_radps=spin)
        reading = imu.sample(truth)
        assert reading is not None
        np.testing.assert_allclose(reading.w_radps, spin, atol=1e-9)


@pytest.mark.parametrize("compiled", [True, False])
def test_readings_and_their_attitudes_fit_the_instant_of_their_stamp(compiled: bool) -> None:
    imu = ImuSensor(1, ImuParameters(gyro=_QUIET, accel=_QUIET), compiled=compiled)
    imu.begin(_swinging(0))
    for k in range(1, 101):
        reading = imu.sample(_swinging(20_000_000 * k))
        assert reading is not None
        assert reading.t_ns == 20_000_000 * k - 10_000_000
        fitting = _swinging(reading.t_ns)
        np.testing.assert_allclose(reading.w_radps, fitting.w_body_radps, atol=3e-3)
        np.testing.assert_allclose(imu.q_world_body, fitting.q_world_body, atol=2e-4)
    restarted = ImuSensor(1, ImuParameters(gyro=_QUIET, accel=_QUIET), compiled=compiled)
    first = restarted.sample(_swinging(20_000_000))
    assert first is not None
    assert first.t_ns == 20_000_000, "the first reading without a beginning is of its instant"
    np.testing.assert_allclose(
        restarted.q_world_body, _swinging(20_000_000).q_world_body, atol=1e-12
    )


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("used", [False, True], ids=["never measured", "reset"])
def test_a_vehicle_put_elsewhere_before_the_first_measurement_leaves_that_reading_to_its_instant(
    used: bool, compiled: bool
) -> None:
    imu = ImuSensor(2, ImuParameters(gyro=_QUIET, accel=_QUIET, rate_hz=100.0), compiled=compiled)
    if used:
        for k in range(5):
            imu.sample(at_rest(2, 10_000_000 * k))
        imu.reset()
    imu.restart(
        1,
        2_000_000,
        np.array((8.0, 0.0, 0.0)),
        np.array((0.0, 0.0, 0.0, 1.0)),
        np.array((0.0, 0.0, 3.0)),
    )
    truth = at_rest(2, 5_000_000)
    first = imu.sample(truth)
    assert first is not None
    assert first.t_ns == truth.t_ns
    np.testing.assert_allclose(first.w_radps, truth.w_body_radps, atol=1e-12)
    np.testing.assert_allclose(first.f_mps2, truth.f_body_mps2, atol=1e-12)


def _swinging(t_ns: int) -> TrueState:
    """A body that turns to and fro about x by 1 rad, with 5 rad/s^2 at its ends.

    Half a period late is 0.05 rad/s.
    """
    phase = 2.2 * 1e-9 * t_ns
    spin = np.array([[2.2 * math.cos(phase), 0.0, 0.0]])
    return at_rest(1, t_ns, q_world_body=q_exp(np.array((math.sin(phase), 0.0, 0.0))))._replace(
        w_body_radps=spin
    )


def _circling(t_ns: int) -> TrueState:
    """A body on a circle, seen from its centre; the attitude is a turn about z after a roll."""
    t_s = 1e-9 * t_ns
    angle = 3.0 * t_s
    along = np.array((-math.sin(angle), math.cos(angle), 0.0))
    inwards = -np.array((math.cos(angle), math.sin(angle), 0.0))
    q = q_mul(q_exp(np.array((0.0, 0.0, angle))), q_exp(np.array((0.4, 0.0, 0.0))))
    w = q_rotate(q_conj(q), np.array((0.0, 0.0, 3.0)))
    a = 18.0 * inwards
    f = q_rotate(q_conj(q), a + np.array((0.0, 0.0, 9.81)))
    return at_rest(1, t_ns, p_world_m=-2.0 * inwards, q_world_body=q)._replace(
        v_world_mps=6.0 * along[None],
        a_world_mps2=a[None],
        w_body_radps=w[None],
        f_body_mps2=f[None],
    )


def _speed(truth: TrueState, arm: tuple[float, float, float]) -> FloatArray:
    """Return the velocity of the sensor."""
    spin = np.cross(truth.w_body_radps[0], arm)
    return np.asarray(truth.v_world_mps[0] + matrix(truth.q_world_body[0]) @ spin)
