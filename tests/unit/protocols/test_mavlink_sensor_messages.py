"""Sensors as autopilots read them: units, signs, and which groups are new.

Pymavlink reads the bytes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from pymavlink.dialects.v20 import common as reference
from pymavlink.quaternion import Quaternion

from vil_bridge.core.sensor_readings import (
    BarometerReading,
    DistanceReading,
    GpsReading,
    ImuReading,
    MagnetometerReading,
)
from vil_bridge.outputs.mavlink.config import MavlinkSensorsConfig
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.sensor_messages import distance_sensors, hil_gps, hil_sensor

T_NS = 7_654_321_987
LEVEL = ImuReading(T_NS, (0.0, 0.0, 0.0, 1.0), (0.1, -0.2, 0.3), (0.5, -0.25, 9.81))


def read(body: mavlink.Body) -> Any:
    parsed: Any = reference.MAVLink(None).parse_buffer(
        framing.encode(body, 0, system=1, component=191)
    )
    (message,) = parsed
    return message


def test_inertial_samples_are_forward_right_down() -> None:
    sent = read(hil_sensor(LEVEL, None, None, 1))
    assert (sent.time_usec, sent.id, sent.fields_updated) == (7_654_321, 1, 0x3F)
    assert (sent.xacc, sent.yacc, sent.zacc) == pytest.approx((0.5, 0.25, -9.81))
    assert (sent.xgyro, sent.ygyro, sent.zgyro) == pytest.approx((0.1, 0.2, -0.3))


def test_field_and_pressure_are_in_gauss_and_hectopascals() -> None:
    field = MagnetometerReading(T_NS, (18e-6, -4e-6, -50e-6))
    air = BarometerReading(T_NS, 488.0, 95_600.0, 1013.25)
    sent = read(hil_sensor(LEVEL, field, air, 0))
    assert sent.fields_updated == 0x3F | 0x1C0 | 0x1A00
    # Down in the northern hemisphere.
    assert (sent.xmag, sent.ymag, sent.zmag) == pytest.approx((0.18, 0.04, 0.5))
    assert (sent.abs_pressure, sent.pressure_alt) == pytest.approx((956.0, 488.0))
    assert sent.temperature == pytest.approx(15.0 - 0.0065 * 488.0)
    assert read(hil_sensor(LEVEL, field, None, 0)).fields_updated == 0x3F | 0x1C0


def test_a_fix_is_in_whole_numbers_with_velocities_north_east_down() -> None:
    fix = GpsReading(
        T_NS, 47.3977423, -8.5455944, 488.1234, 0.3, 0.45, (4.0, -3.0, 0.25), 3, True, 1
    )
    sent = read(hil_gps(fix))
    assert (sent.time_usec, sent.lat, sent.lon, sent.alt) == (
        7_654_321,
        473977423,
        -85455944,
        488123,
    )
    assert (sent.eph, sent.epv, sent.fix_type, sent.satellites_visible) == (30, 45, 3, 255)
    assert (sent.vn, sent.ve, sent.vd, sent.vel) == (-300, 400, -25, 500)
    assert sent.cog == round(math.degrees(math.atan2(4.0, -3.0)) * 100.0)
    still = GpsReading(T_NS, 0.0, 0.0, 0.0, 1e4, 1e4, (0.0, 0.0, 0.0), 3, False, 1)
    sent = read(hil_gps(still))
    assert (sent.fix_type, sent.cog, sent.eph) == (0, 65535, 65535)


@pytest.mark.parametrize(
    ("direction", "orientation"),
    [
        ((1.0, 0.0, 0.0), "MAV_SENSOR_ROTATION_NONE"),
        ((math.sqrt(0.5), -math.sqrt(0.5), 0.0), "MAV_SENSOR_ROTATION_YAW_45"),
        ((0.0, -1.0, 0.0), "MAV_SENSOR_ROTATION_YAW_90"),
        ((-1.0, 0.0, 0.0), "MAV_SENSOR_ROTATION_YAW_180"),
        ((0.0, 1.0, 0.0), "MAV_SENSOR_ROTATION_YAW_270"),
        ((0.0, 0.0, 1.0), "MAV_SENSOR_ROTATION_PITCH_90"),
        ((0.0, 0.0, -1.0), "MAV_SENSOR_ROTATION_PITCH_270"),
        ((0.8, 0.0, -0.6), "MAV_SENSOR_ROTATION_CUSTOM"),
    ],
)
def test_beams_have_their_directions(direction: Any, orientation: str) -> None:
    reading = DistanceReading(T_NS, 0.2, 40.0, (0.0, 0.0, 0.0), (direction,), (1.756,))
    sent = read(next(distance_sensors(reading, 64)))
    assert sent.orientation == getattr(reference, orientation)
    assert (sent.time_boot_ms, sent.min_distance, sent.max_distance, sent.current_distance) == (
        7654,
        20,
        4000,
        176,
    )
    assert (sent.type, sent.id, sent.covariance, sent.signal_quality) == (0, 64, 255, 100)
    if orientation == "MAV_SENSOR_ROTATION_CUSTOM":
        turned = Quaternion(sent.quaternion).dcm * reference_x()
        # Down is positive.
        assert (turned.x, turned.y, turned.z) == pytest.approx((0.8, 0.0, 0.6), abs=1e-6)
    else:
        assert not np.any(sent.quaternion)


def reference_x() -> Any:
    from pymavlink.rotmat import Vector3

    return Vector3(1.0, 0.0, 0.0)


def test_nothing_within_reach_is_farther_than_the_longest_range() -> None:
    reading = DistanceReading(
        T_NS, 0.2, 40.0, (0.0, 0.0, 0.0), ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), (40.0, 3.0)
    )
    first, second = (read(body) for body in distance_sensors(reading, 0))
    assert (first.current_distance, first.signal_quality, second.id) == (4001, 1, 1)
    far = DistanceReading(T_NS, 0.2, 1000.0, (0.0, 0.0, 0.0), ((1.0, 0.0, 0.0),), (900.0,))
    assert read(next(distance_sensors(far, 0))).current_distance == 65_534


def test_an_output_has_one_vehicle() -> None:
    with pytest.raises(ValidationError, match="name one actor and no cameras"):
        MavlinkSensorsConfig(actors=("a", "b"))
