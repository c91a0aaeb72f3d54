"""Prediction on real motion, as ``vil-bridge bench prediction`` measures it, on a piece of each
recording.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import data_dir
from vil_benchmarks.prediction import Errors, bench_prediction, prediction_errors
from vil_benchmarks.recordings import BenchRecording
from vil_bridge.core.errors import ConfigError

MS = 1_000_000


def means(errors: Errors, horizon_ms: int) -> tuple[np.ndarray, np.ndarray]:
    return errors[horizon_ms, "twist"].mean(axis=0), errors[horizon_ms, "imu"].mean(axis=0)


def piece(name: str, start: int, rows: int) -> BenchRecording:
    whole = BenchRecording.load(data_dir(name))
    kept = slice(start, start + rows)
    return dataclasses.replace(
        whole, t_ns=whole.t_ns[kept], p_m=whole.p_m[kept], q_xyzw=whole.q_xyzw[kept]
    )


def test_late_mocap_is_bridged_by_the_imu() -> None:
    """Mocap 56 ms late in fast rotation.

    Five times closer in angle and twice in place, in the mean.
    """
    errors = prediction_errors(piece("broad_07_fast_rotation", 12000, 3000), 112 * MS, every=16)
    twist, imu = means(errors, 56)
    print(f"\ntwist {twist.round(2)}, with IMU {imu.round(2)} (degrees, mm)")
    assert len(errors[56, "imu"]) >= 180
    assert (twist / imu >= (5.0, 2.0)).all()


def test_a_forecast_at_short_range_is_nearer_for_having_an_imu() -> None:
    """In place. The angle is told better by the filter of the attitudes."""
    errors = prediction_errors(piece("broad_12_slow_translation", 12000, 2000), 0, every=20)
    twist, imu = means(errors, 20)
    assert imu[1] < twist[1]


def test_recordings_without_an_imu_are_predicted_by_twist() -> None:
    recording = piece("tumvi_room1", 0, 1500)
    assert len(recording.imu_ns) == 0
    errors = prediction_errors(recording, 0, every=16)
    assert {method for _, method in errors} == {"twist", "constant_pose"}
    assert np.median(errors[20, "twist"][:, 1]) < 2.0


def test_missing_recordings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--data"):
        bench_prediction(None)
    with pytest.raises(ConfigError, match="no recording there"):
        bench_prediction(tmp_path)
