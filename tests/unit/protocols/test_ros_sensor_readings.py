"""Readings of sensors as ROS messages and in the world's axes, of numbers that all differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vil_bridge.core.geometry import Transform, q_from_euler_zyx, q_mul
from vil_bridge.core.sensor_readings import (
    GpsReading,
    ImuReading,
    SensorDescription,
    SensorReading,
    SensorReadings,
)
from vil_bridge.protocols.ros_sensor_messages import SENSOR_TYPES, SensorMessages

FIX = GpsReading(0, 47.5, 8.5, 500.0, 2.0, 3.0, (1.0, 2.0, 3.0), 3, True, 0)


def read(reading: SensorReading, sensor: SensorDescription) -> Any:
    messages = SensorMessages("jazzy")
    data = messages.reading(0, "frame", reading, sensor)
    return messages.store.deserialize_cdr(data, SENSOR_TYPES[sensor.kind])


@pytest.mark.parametrize(
    ("fix", "valid", "status"), [(0, True, -1), (2, True, 0), (3, True, 0), (3, False, -1)]
)
def test_a_fix_counts_from_two_dimensions_on(fix: int, valid: bool, status: int) -> None:
    message = read(replace(FIX, fix=fix, valid=valid), SensorDescription("gps"))
    assert message.status.status == status
    assert message.position_covariance.reshape(3, 3).diagonal().tolist() == [4.0, 4.0, 9.0]


def test_each_axis_of_an_imu_has_its_own_variance() -> None:
    imu = ImuReading(0, (0.0, 0.0, 0.0, 1.0), (0.1, 0.2, 0.3), (1.0, 2.0, 3.0))
    message = read(imu, SensorDescription("imu", variances=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)))
    assert message.angular_velocity_covariance.reshape(3, 3).diagonal().tolist() == [1.0, 2.0, 3.0]
    assert message.linear_acceleration_covariance.reshape(3, 3).diagonal().tolist() == [
        4.0,
        5.0,
        6.0,
    ]


def test_the_attitude_of_a_tilted_body_is_turned_into_the_world() -> None:
    T_world_room = Transform.of((1.0, 2.0, 3.0), q_from_euler_zyx(1.0, 0.2, 0.0))
    q_room_body = q_from_euler_zyx(0.3, -0.4, 0.5)
    row = np.concatenate((q_room_body, np.arange(6.0)))
    (turned,) = (
        SensorReadings("sim", "imu", "imu", 0, 0, ("quad",), row[None])
        .in_world(T_world_room)
        .values
    )
    np.testing.assert_allclose(turned[:4], q_mul(T_world_room.q_xyzw, q_room_body), atol=1e-12)
    assert turned[4:].tolist() == list(range(6)), "rates and forces are the body's"
