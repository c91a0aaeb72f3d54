"""Motions and readings of a recording for exports.

Rates in the body's axes, the IMU's speed, nothing twice.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.record import FACTS, HERE
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform, q_exp, q_from_euler_zyx, q_mul
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import FloatArray, SourceEvent, SourceFrame
from vil_bridge.recording.export.euroc import to_euroc
from vil_bridge.recording.export.measurements import motions, readings, sightings
from vil_bridge.recording.metadata import RecordedActor
from vil_bridge.recording.reader import Recording
from vil_bridge.recording.recorder import Recorder

W_BODY_RADPS = np.array([0.3, -0.5, 0.8])
ARM_M = np.array([0.1, -0.2, 0.05])
PERIOD_NS = 10_000_000
DRONE = RecordedActor("drone", "mocap", "body", False, HERE, HERE, "imu", Transform.of(ARM_M))
FLIGHT = replace(FACTS, actors=(DRONE,), cameras=())


def attitude(step: int) -> FloatArray:
    """Attitude of a tilted body that turns on the spot about an axis of its own."""
    return q_mul(q_from_euler_zyx(1.0, 0.4, -0.2), q_exp(W_BODY_RADPS * step * PERIOD_NS * 1e-9))


def capture_ns(event: SourceEvent) -> int | None:
    """Time of a reading, or of a frame."""
    return getattr(event, "t_ns", None) or getattr(event, "t_arrival_ns", None)


@pytest.fixture
def turning(tmp_path: Path) -> Path:
    """A recording of 40 poses, each of which came twice, as did a reading."""
    recorder = Recorder(
        tmp_path / "flight.mcap",
        FLIGHT,
        lambda event: getattr(event, "t_ns", None) or getattr(event, "t_arrival_ns", None),
    )
    begin_ns = now_ns()
    for step in range(40):
        t_ns, p_m, q_xyzw = (
            begin_ns + step * PERIOD_NS,
            np.array([[1.0, 2.0, 3.0]]),
            attitude(step)[None],
        )
        frame = SourceFrame("mocap", step, None, t_ns, ("body",), p_m, q_xyzw, np.array([True]))
        values = np.array([[1.0, 2.0, float(step)]])
        reading = SensorReadings("mocap", "baro", "barometer", t_ns, t_ns, ("body",), values)
        for event in (frame, reading, frame, reading):
            recorder.queue.enqueue_event(event)
    recorder.stop(30.0)
    return tmp_path / "flight.mcap"


def test_rates_are_the_bodys(turning: Path) -> None:
    with Recording(turning) as recording:
        found = [motion for _, motion in motions(recording, FLIGHT)]
    assert len(found) >= 30
    for motion in found:
        np.testing.assert_allclose(motion.w_body_radps, W_BODY_RADPS, atol=1e-6)


def test_nothing_is_exported_twice(turning: Path) -> None:
    with Recording(turning) as recording:
        assert len(list(sightings(recording, FLIGHT))) == 40
        assert [one.reading.qnh_hpa for one in readings(recording, FLIGHT)] == list(range(40))  # type: ignore[union-attr]


def test_the_ground_truth_has_the_speed_of_the_imu(turning: Path, tmp_path: Path) -> None:
    with Recording(turning) as recording:
        to_euroc(recording, FLIGHT, tmp_path / "euroc")
    (table,) = (tmp_path / "euroc").rglob("state_groundtruth_estimate0/data.csv")
    rows = np.loadtxt(table, delimiter=",", comments="#")
    assert len(rows) >= 30
    turns = [Transform.of((0.0, 0.0, 0.0), q_xyzw) for q_xyzw in rows[:, [5, 6, 7, 4]]]
    arms_m = [turn.apply(ARM_M) for turn in turns]
    speeds_mps = [turn.apply(np.cross(W_BODY_RADPS, ARM_M)) for turn in turns]
    np.testing.assert_allclose(rows[:, 8:11], speeds_mps, atol=1e-6)
    np.testing.assert_allclose(rows[:, 1:4], np.array([1.0, 2.0, 3.0]) + arms_m)
