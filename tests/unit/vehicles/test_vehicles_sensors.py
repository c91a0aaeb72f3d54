"""Sensors' building blocks and base.

When they measure, when it comes out, noise that remembers, sameness.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support.sensors import at_rest, moving
from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.barometer import Barometer
from vil_simulation.vehicles.sensors.components import GaussMarkov, LatencyLine, SampleSchedule
from vil_simulation.vehicles.sensors.gps import Gps, GpsParameters
from vil_simulation.vehicles.sensors.imu import ImuSensor, InertialNoise, Vibration
from vil_simulation.vehicles.sensors.magnetometer import Magnetometer, MagnetometerParameters
from vil_simulation.vehicles.sensors.mocap import Mocap, MocapParameters
from vil_simulation.vehicles.sensors.presets import IMU_PRESETS
from vil_simulation.vehicles.sensors.rangefinder import (
    DOWNWARDS,
    RangeParameters,
    RangeSensor,
    to_floor,
)
from vil_simulation.vehicles.sensors.sensor import Sensor, SensorMount

_ORIGIN = GeoOrigin(47.37, 8.54, 400.0)


def _due(limiter: SampleSchedule, step_ns: int, until_ns: int, start_ns: int = 0) -> list[int]:
    limiter.start(start_ns)
    return [t for t in range(start_ns, start_ns + until_ns, step_ns) if limiter.due(t)]


def test_a_rate_holds_on_average_whatever_the_step() -> None:
    assert len(_due(SampleSchedule(50.0), 3_000_000, 10**10)) == 500
    assert len(_due(SampleSchedule(50.0, compat="airsim"), 3_000_000, 10**10)) == 476
    assert _due(SampleSchedule(50.0), 1_000_000, 50_000_000) == [0, 20_000_000, 40_000_000]
    assert _due(SampleSchedule(50.0, compat="airsim"), 1_000_000, 50_000_000) == [
        20_000_000,
        40_000_000,
    ]


@pytest.mark.parametrize("compat", [None, "airsim"])
def test_a_startup_delay_comes_once(compat: Any) -> None:
    limiter = SampleSchedule(50.0, 1.0, compat)
    assert _due(limiter, 1_000_000, 1_030_000_000, 7)[:2] == [1_000_000_007, 1_020_000_007]


def test_a_rate_equal_to_the_steps_rate_misses_no_step_though_nanoseconds_are_rounded() -> None:
    limiter = SampleSchedule(960.0)
    times = [round(step * Fraction(1, 960) * 10**9) for step in range(1000, 4000)]
    limiter.start(times[0])
    assert sum(limiter.due(t) for t in times) == 3000
    limiter = SampleSchedule(240.0)
    limiter.start(times[0])
    assert [i for i, t in enumerate(times) if limiter.due(t)] == list(range(0, 3000, 4))


def test_without_a_rate_every_step_counts_but_none_twice() -> None:
    limiter = SampleSchedule(None)
    limiter.start(5)
    assert [limiter.due(t) for t in (5, 5, 6, 6, 9)] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("rate_hz", "startup_s"), [(0.0, 0.0), (-1.0, 0.0), (float("inf"), 0.0), (1.0, -1.0)]
)
def test_an_impossible_rate_or_delay_is_refused(rate_hz: float, startup_s: float) -> None:
    with pytest.raises(ValueError, match="must"):
        SampleSchedule(rate_hz, startup_s)


def test_a_latency_line_gives_one_item_at_each_update_in_order() -> None:
    line: LatencyLine[str] = LatencyLine()
    line.push(10, "a")
    line.push(10, "b")
    assert [line.release(t) for t in (9, 10, 11, 12)] == [None, "a", "b", None]
    line.push(0, "c")
    line.clear()
    assert line.release(100) is None


def _stationary_deviation(drift: GaussMarkov, dt_s: float) -> float:
    """From the answers to a unit of state and to a unit of noise."""
    drift.x = np.ones(1)
    kept = float(drift.advance(dt_s, np.zeros(1))[0])
    drift.x = np.zeros(1)
    return float(drift.advance(dt_s, np.ones(1))[0]) / float(np.sqrt(1.0 - kept * kept))


@pytest.mark.parametrize(("dt_s", "original"), [(0.003, 1.2e-6), (0.02, 3.0e-6), (1.0, 2.2e-5)])
def test_the_barometers_drift_has_its_deviation_at_any_step_and_the_originals_had_not(
    dt_s: float, original: float
) -> None:
    right = GaussMarkov(3600.0, 0.001825, (1,))
    assert _stationary_deviation(right, dt_s) == pytest.approx(0.001825, rel=1e-9)
    wrong = GaussMarkov(3600.0, 0.001825, (1,), "airsim")
    assert _stationary_deviation(wrong, dt_s) == pytest.approx(original, rel=0.04)


def test_a_drift_keeps_its_deviation_and_forgets_within_its_time() -> None:
    drift = GaussMarkov(2.0, 0.5, (20_000,))
    stream = NoiseStream(3, 0)
    drift.start(stream.normals(0, 20_000, 1)[:, 0])
    first = drift.x.copy()
    for step in range(1, 21):
        drift.advance(0.1, stream.normals(step, 20_000, 1)[:, 0])
    assert drift.x.std() == pytest.approx(0.5, rel=0.02)
    assert np.corrcoef(first, drift.x)[0, 1] == pytest.approx(np.exp(-1.0), abs=0.02)


_SENSORS: dict[str, Callable[[list[int], int], Sensor[Any]]] = {
    "imu": lambda who, seed: ImuSensor(who, IMU_PRESETS["pegasus"], seed=seed),
    "barometer": lambda who, seed: Barometer(who, _ORIGIN, seed=seed),
    "magnetometer": lambda who, seed: Magnetometer(
        who,
        lambda p: np.tile([1e-5, 2e-5, -4e-5], (len(p), 1)),
        MagnetometerParameters(bias_t=1e-6),
        seed=seed,
    ),
    "gps": lambda who, seed: Gps(
        who,
        _ORIGIN,
        GpsParameters(noise_horizontal_m=1.0, noise_vertical_m=2.0, noise_mps=0.1, startup_s=0.1),
        seed=seed,
    ),
    "range": lambda who, seed: RangeSensor(
        who, to_floor, RangeParameters(mounting=DOWNWARDS), seed=seed
    ),
    "mocap": lambda who, seed: Mocap(
        who,
        MocapParameters(
            position_m=5e-4,
            attitude_rad=5e-4,
            jitter_s=0.002,
            spikes=0.1,
            occlusions_hz=3.0,
            loss=0.1,
            rate_hz=100.0,
        ),
        seed=seed,
    ),
}


def _readings(sensor: Sensor[Any], who: list[int]) -> list[Any]:
    """Of half a second at 200 Hz; vehicles move by identity."""
    found = [sensor.sample(moving(step * 5_000_000, who)) for step in range(100)]
    return [reading for reading in found if reading is not None]


@pytest.mark.parametrize("name", _SENSORS)
def test_readings_belong_to_the_vehicle_in_any_batch_and_come_again_after_a_reset(
    name: str,
) -> None:
    everybody = _SENSORS[name](list(range(20)), 4)
    whole = _readings(everybody, list(range(20)))
    part = _readings(_SENSORS[name]([13, 4], 4), [13, 4])
    assert len(part) == len(whole) >= 10
    everybody.reset()
    again = _readings(everybody, list(range(20)))
    for a, b, c in zip(whole, part, again, strict=True):
        for x, y, z in zip(a, b, c, strict=True):
            np.testing.assert_array_equal(x, z)
            expected = x[[13, 4]] if isinstance(x, np.ndarray) else x
            np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", _SENSORS)
def test_another_seed_gives_other_readings(name: str) -> None:
    one, other = _SENSORS[name]([0, 1, 2], 4), _SENSORS[name]([0, 1, 2], 5)
    pairs = zip(_readings(one, [0, 1, 2]), _readings(other, [0, 1, 2]), strict=False)
    assert any(not np.array_equal(x, y) for a, b in pairs for x, y in zip(a, b, strict=True))


class _Airspeed(NamedTuple):
    t_ns: int
    speed_mps: FloatArray


class _Pitot(Sensor[_Airspeed]):
    """A sensor as a user writes it."""

    def measure(self, truth: TrueState) -> _Airspeed:
        return _Airspeed(
            truth.t_ns, np.linalg.norm(truth.v_world_mps, axis=1) + 0.1 * self.normals(1)[:, 0]
        )


def test_a_users_sensor_has_rate_latency_and_noise_from_the_base() -> None:
    pitot = _Pitot(2, seed=1, stream=9000, rate_hz=100.0, latency_s=0.05)
    seen = [(t, pitot.sample(at_rest(2, t * 1_000_000))) for t in range(200)]
    arrived = [(t, reading.t_ns // 1_000_000) for t, reading in seen if reading is not None]
    assert arrived == [(t, t - 50) for t in range(50, 200, 10)]
    speeds = np.array([reading.speed_mps for _, reading in seen if reading is not None])
    assert len(np.unique(speeds)) == speeds.size
    assert speeds.std() == pytest.approx(0.1, rel=0.4)


def test_misuse_is_named() -> None:
    pitot = _Pitot(2, seed=1, stream=9000)
    pitot.sample(at_rest(2, 10))
    with pytest.raises(ValueError, match="time went back"):
        pitot.sample(at_rest(2, 9))
    with pytest.raises(ValueError, match="the truth is of 3 vehicles"):
        pitot.sample(at_rest(3, 11))
    with pytest.raises(ValueError, match="latency_s"):
        _Pitot(2, seed=1, stream=9000, latency_s=-1.0)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: InertialNoise(white=-1.0), "white must not be negative"),
        (lambda: InertialNoise(white=(0.1, float("nan"), 0.1)), "white must not be negative"),
        (lambda: InertialNoise(white=0.0, correlation_s=0.0), "correlation_s must be positive"),
        (lambda: Vibration(reference_radps=0.0, accel_mps2=()), "reference_radps must be positive"),
        (lambda: GpsParameters(accuracy_s=0.0), "accuracy_s must be positive"),
        (lambda: RangeParameters(min_m=3.0, max_m=2.0), "less than max_m, got 3.0 and 2.0"),
        (
            lambda: SensorMount(q_body_sensor=(0.0, 0.0, 0.0, 0.0)),
            "q_body_sensor must have unit length",
        ),
    ],
)
def test_parts_that_cannot_be_are_refused(make: Callable[[], object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make()


def test_a_rounded_mounting_does_not_scale_what_is_measured() -> None:
    v_body = np.array([[1.0, 2.0, 3.0]])
    turned = SensorMount(q_body_sensor=(0.0, 0.707, 0.0, 0.707)).turned(v_body)
    np.testing.assert_allclose(turned, [[-3.0, 2.0, 1.0]], atol=1e-15)
