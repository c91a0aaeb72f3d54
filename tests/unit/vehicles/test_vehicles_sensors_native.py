"""Compiled sensors against those of NumPy: the same noise, the same readings, the same memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

from tests.support.sensors import moving
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.environment.geomagnetism import LocalField, dipole_ned_t
from vil_simulation.vehicles.sensors.barometer import Barometer, BarometerParameters
from vil_simulation.vehicles.sensors.imu import ImuParameters, ImuSensor, InertialNoise, Vibration
from vil_simulation.vehicles.sensors.magnetometer import Magnetometer, MagnetometerParameters
from vil_simulation.vehicles.sensors.presets import IMU_PRESETS
from vil_simulation.vehicles.sensors.sensor import Sensor, SensorMount

pytest.importorskip("numba")

_HERE: Final = GeoOrigin(47.37, 8.54, 400.0)
_MOUNT = SensorMount((0.05, -0.02, 0.1), (0.1, 0.2, -0.3, 0.927))
_PINK = ImuParameters(
    gyro=InertialNoise(
        white=(1e-3, 2e-3, 0.0), bias_instability=1e-3, walk=1e-4, turn_on=0.01, limit=0.2
    ),
    accel=InertialNoise(
        white=0.02, walk=1e-2, correlation_s=5.0, bias_instability=2e-2, turn_on=0.1, limit=9.7
    ),
    rate_hz=200.0,
    mounting=_MOUNT,
    vibration=Vibration(
        reference_radps=1000.0, accel_mps2=((1.0, 0.5, 0.2),), gyro_radps=((0.01, 0.02, 0.03),)
    ),
)
_MAGNETIC = MagnetometerParameters(
    bias_t=1e-6, scale=1.1, mounting=_MOUNT, rate_hz=100.0, latency_s=0.02
)


def _inertial(part: ImuParameters, who: list[int], compiled: bool) -> ImuSensor:
    return ImuSensor(who, part, seed=3, compiled=compiled)


_MAKERS: dict[str, Callable[[list[int], bool], Sensor[Any]]] = {
    **{name: partial(_inertial, part) for name, part in IMU_PRESETS.items()},
    "vibrating, mounted, saturated": lambda who, compiled: ImuSensor(
        who, _PINK, seed=3, compiled=compiled
    ),
    "airsim": lambda who, compiled: ImuSensor(
        who, replace(_PINK, rate_hz=None), seed=3, compat="airsim", compiled=compiled
    ),
    "magnetometer": lambda who, compiled: Magnetometer(
        who, LocalField(_HERE, dipole_ned_t).enu_t, _MAGNETIC, seed=3, compiled=compiled
    ),
    "barometer": lambda who, compiled: Barometer(who, _HERE, seed=3, compiled=compiled),
    "barometer, high up": lambda who, compiled: Barometer(
        who,
        GeoOrigin(-75.0, 170.0, 24_000.0),
        BarometerParameters(qnh_hpa=990.0, rate_hz=None),
        compiled=compiled,
    ),
    "barometer, as airsim": lambda who, compiled: Barometer(
        who, _HERE, seed=3, compat="airsim", compiled=compiled
    ),
}


@pytest.mark.parametrize("name", _MAKERS)
@pytest.mark.parametrize("who", [[5], list(range(19))])
def test_a_compiled_sensor_reads_what_numpys_does(name: str, who: list[int]) -> None:
    sensors = [_MAKERS[name](who, compiled) for compiled in (True, False)]
    count = 0
    for again in range(2):
        for step in range(150):
            truth = moving(step * 3_000_000 + (step % 7) * 1000, who)
            found, expected = (sensor.sample(truth) for sensor in sensors)
            assert (found is None) == (expected is None)
            if found is None or expected is None:
                continue
            count += 1
            for column, values, right in zip(found._fields, found, expected, strict=True):
                # The Earth's radius has nine digits before the point: a height's last one is 1e-9
                # m.
                rounding = 1e-8 if column == "altitude_m" else 0.0
                tiny = 1e-12 * float(np.abs(right).max())
                np.testing.assert_allclose(
                    values, right, rtol=1e-12, atol=tiny + rounding, err_msg=f"{again} {column}"
                )
        for sensor in sensors:
            sensor.reset()
    assert count >= 40


def test_compiled_means_are_those_of_numpy_wherever_they_begin_and_end() -> None:
    mounted = ImuParameters(
        gyro=InertialNoise(white=0.0), accel=InertialNoise(white=0.0), mounting=_MOUNT
    )
    sensors = [ImuSensor(4, mounted, compiled=compiled) for compiled in (True, False)]
    for sensor in sensors:
        sensor.begin(moving(0, range(4)))
    elsewhere = (
        np.array([1.0, -2.0, 3.0]),
        np.array([0.0, 0.6, 0.0, 0.8]),
        np.array([0.1, 0.2, -0.3]),
    )
    begin_ns = 0
    for step in range(1, 60):
        truth = moving(step * 3_000_000, range(4))
        found = [sensor.sample(truth, truth.t_ns - step % 3 * 900_000) for sensor in sensors]
        assert found[0] is not None and found[1] is not None
        end_ns = truth.t_ns - step % 3 * 900_000
        assert found[0].t_ns == found[1].t_ns == (begin_ns + end_ns) // 2
        begin_ns = end_ns
        for one, other in zip(found[0][1:], found[1][1:], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(sensors[0].q_world_body, sensors[1].q_world_body, atol=1e-12)
        if step % 7 == 0:
            for sensor in sensors:
                sensor.restart(step % 4, truth.t_ns, *elsewhere)


def test_the_biases_to_come_are_those_of_numpy_too() -> None:
    compiled, reference = (ImuSensor(4, _PINK, seed=1, compiled=flag) for flag in (True, False))
    for step in range(50):
        for sensor in (compiled, reference):
            sensor.sample(moving(step * 5_000_000, range(4)))
    np.testing.assert_allclose(compiled.gyro_bias_radps, reference.gyro_bias_radps, rtol=1e-11)
    np.testing.assert_allclose(compiled.accel_bias_mps2, reference.accel_bias_mps2, rtol=1e-11)


def test_a_reading_is_not_overwritten_by_the_next() -> None:
    for name in ("mpu6000", "magnetometer", "barometer"):
        sensor = _MAKERS[name]([0], True)
        first = next(
            r for t in range(100) if (r := sensor.sample(moving(t * 10_000_000, [0]))) is not None
        )
        values = [np.copy(v) for v in first[1:]]
        for t in range(100, 150):
            sensor.sample(moving(t * 10_000_000, [0]))
        for was, value in zip(values, first[1:], strict=True):
            np.testing.assert_array_equal(was, value)
