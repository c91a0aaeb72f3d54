"""Frames of samples for PX4, as pymavlink reads them: which readings are new."""

from __future__ import annotations

from typing import Any

import pytest
from pymavlink.dialects.v20 import common as reference

from tests.support.autopilot_links import MS, sample
from vil_simulation.autopilots.links.link import AirData
from vil_simulation.autopilots.links.px4_frames import SampleFrames

DIFF_PRESSURE = 1 << 10
"""HIL_SENSOR_UPDATED_DIFF_PRESSURE. PX4 takes the reading where it is set."""
OTHERS = 0x7 | 0x38 | 0x1C0 | 0x1A00


def hil_sensors(frames: bytes) -> list[Any]:
    found: Any = reference.MAVLink(None).parse_buffer(frames)
    return [message for message in found if message.get_type() == "HIL_SENSOR"]


def test_a_reading_of_the_pitot_tube_is_new_in_the_one_sample_of_its_time() -> None:
    """10 m/s at 1.225 kg/m3: half of density times the square of the speed are 61.25 Pa."""
    frames = SampleFrames()
    readings = {4: 61.25, 24: 0.0, 44: 245.0}
    sent = {}
    for t_ms in range(4, 64, 4):
        measured_ms = t_ms - (t_ms - 4) % 20
        air = AirData(measured_ms * MS, readings[measured_ms], 10.0, (0.0, 0.0, 0.0))
        (sent[t_ms],) = hil_sensors(frames.of(sample(t_ms * MS, air=air)))
    new = {
        t_ms: one.diff_pressure for t_ms, one in sent.items() if one.fields_updated & DIFF_PRESSURE
    }
    assert new == {4: pytest.approx(0.6125), 24: 0.0, 44: pytest.approx(2.45)}  # hPa
    assert {one.fields_updated & ~DIFF_PRESSURE for one in sent.values()} == {OTHERS}


@pytest.mark.parametrize(("late_ns", "is_new"), [(0, True), (1, False), (4 * MS, False)])
def test_a_reading_that_is_a_nanosecond_old_is_not_new(late_ns: int, is_new: bool) -> None:
    air = AirData(20 * MS - late_ns, 61.25, 10.0, (0.0, 0.0, 0.0))
    (sent,) = hil_sensors(SampleFrames().of(sample(20 * MS, air=air)))
    assert bool(sent.fields_updated & DIFF_PRESSURE) is is_new


def test_a_vehicle_without_a_pitot_tube_has_no_reading() -> None:
    (sent,) = hil_sensors(SampleFrames().of(sample(20 * MS)))
    assert (sent.fields_updated, sent.diff_pressure) == (OTHERS, 0.0)
