"""The late warp on real motion, as ``vil-bridge bench compensate`` measures it, on a piece of
each recording.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.support.common import data_dir
from vil_benchmarks.compensate import DELAYS_MS, Errors, bench_compensate, recorded_errors
from vil_benchmarks.compensate_points import METHODS, errors_px, reprojected, shown_px
from vil_benchmarks.recordings import BenchRecording
from vil_bridge.cli.main import app
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_exp, q_to_matrix

K = np.array([[320.0, 0.0, 319.5], [0.0, 320.0, 239.5], [0.0, 0.0, 1.0]])
SIZE_PX = (640, 480)
MS = 1_000_000


def test_points_agree_with_the_golden_values() -> None:
    px, z_m = np.array([[100.0, 50.0], [100.0, 50.0], [600.0, 400.0]]), np.array([2.0, 8.0, 1.5])
    R_rn = q_to_matrix(q_exp(np.array([0.05, -0.10, 0.02])))
    there_px, there_m = reprojected(K, R_rn, np.array([0.05, -0.03, 0.12]), px, z_m)
    expected = [[126.695458, 80.310067], [141.287815, 83.918508], [693.719310, 457.155778]]
    np.testing.assert_allclose(there_px, expected, atol=1e-6)
    np.testing.assert_allclose(there_m, [2.068182, 8.620169, 1.205989], atol=1e-6)


RENDER = Transform.of((1.0, 2.0, 0.5), (0.1, 0.2, -0.1, 0.9))
SHOWN = RENDER @ Transform(np.array([0.1, -0.05, 0.2]), q_exp(np.array([0.05, -0.08, 0.03])))
GRID_PX = np.stack(
    np.meshgrid(np.arange(20.0, 640.0, 60.0), np.arange(20.0, 480.0, 60.0)), axis=-1
).reshape(-1, 2)
MIXED_M = np.random.default_rng(1).uniform(1.5, 6.0, len(GRID_PX))


def test_what_is_known_is_shown_where_it_belongs() -> None:
    mixed = errors_px(K, SIZE_PX, RENDER, SHOWN, SHOWN, GRID_PX, MIXED_M)
    assert set(mixed) == set(METHODS)
    assert mixed["depth"].max() < 1e-9
    assert 0.1 < mixed["homography"].mean() < mixed["rotation"].mean() < mixed["none"].mean()
    plane = errors_px(K, SIZE_PX, RENDER, SHOWN, SHOWN, GRID_PX, np.full(len(GRID_PX), 3.0))
    assert plane["homography"].max() < 1e-9
    turned = Transform(RENDER.p_m, SHOWN.q_xyzw)
    assert errors_px(K, SIZE_PX, RENDER, turned, turned, GRID_PX, MIXED_M)["rotation"].max() < 1e-9
    nearer_px = shown_px("homography", K, RENDER, SHOWN, GRID_PX, MIXED_M, d_m=2.0)
    assert not np.allclose(nearer_px, shown_px("homography", K, RENDER, SHOWN, GRID_PX, MIXED_M))


def test_points_out_of_view_do_not_count() -> None:
    beside = RENDER @ Transform(np.zeros(3), q_exp(np.array([0.0, 0.8, 0.0])))
    errors = errors_px(K, SIZE_PX, RENDER, RENDER, beside, GRID_PX, MIXED_M)
    true_px, _ = reprojected(
        K, q_to_matrix(q_exp(np.array([0.0, 0.8, 0.0]))), np.zeros(3), GRID_PX, MIXED_M
    )
    assert (
        0
        < len(errors["none"])
        == np.count_nonzero((true_px > -0.5).all(axis=1) & (true_px[:, 1] < 479.5))
    )
    behind = RENDER @ Transform(np.zeros(3), q_exp(np.array([0.0, 3.0, 0.0])))
    assert not len(errors_px(K, SIZE_PX, RENDER, RENDER, behind, GRID_PX, MIXED_M)["none"])


loaded = cache(BenchRecording.load)


def rest_and_piece(name: str, start: int, rows: int) -> BenchRecording:
    """The rest at the start, which tells the gyroscope's bias, tracking lost, and a piece of the
    motion.
    """
    whole = loaded(data_dir(name))
    kept = np.r_[0:500, start : start + rows]
    t_ns = whole.t_ns[kept]
    near = (whole.imu_ns < t_ns[499]) | (
        (whole.imu_ns > t_ns[500] - 100 * MS) & (whole.imu_ns < t_ns[-1] + 300 * MS)
    )
    return dataclasses.replace(
        whole,
        t_ns=t_ns,
        p_m=whole.p_m[kept],
        q_xyzw=whole.q_xyzw[kept],
        imu_ns=whole.imu_ns[near],
        imu=whole.imu[near],
    )


def mean_px(errors: Errors, scene: str, delay_ms: int, method: str) -> float:
    return float(errors[scene, delay_ms, method].mean())


def test_slow_motion_is_compensated_to_the_pixel() -> None:
    recording = rest_and_piece("broad_12_slow_translation", 12000, 1500)
    errors = recorded_errors(recording, every=20)
    # The demands are 1.2 and 1.8 px; the gyroscope's raw bias would pass them.
    assert mean_px(errors, "plane", 56, "homography") <= 0.6
    assert mean_px(errors, "plane", 280, "homography") <= 1.2
    for delay_ms in DELAYS_MS:
        none, rotation, plane = (
            mean_px(errors, "plane", delay_ms, m) for m in ("none", "rotation", "homography")
        )
        assert plane < rotation < none
        for method in ("depth", "predict_depth"):
            assert mean_px(errors, "mixed", delay_ms, method) <= plane + 0.3


def test_a_wrong_clock_shows_where_it_is_too_wrong_to_be_found() -> None:
    recording = rest_and_piece("broad_12_slow_translation", 12000, 1500)
    for late_ms, is_found in ((60, True), (250, False)):
        late = dataclasses.replace(recording, imu_ns=recording.imu_ns + late_ms * MS)
        error_px = mean_px(recorded_errors(late, every=40), "plane", 56, "homography")
        assert error_px < 0.5 if is_found else error_px > 1.2


def test_fast_rotation_is_compensated_eight_times() -> None:
    errors = recorded_errors(rest_and_piece("broad_07_fast_rotation", 16000, 1000), every=20)
    plane = mean_px(errors, "plane", 56, "homography")
    assert mean_px(errors, "plane", 56, "none") >= 8.0 * plane
    assert mean_px(errors, "mixed", 56, "depth") <= plane + 0.3


def test_missing_recordings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="compensate needs"):
        bench_compensate(None)
    with pytest.raises(ConfigError, match="no recording there"):
        bench_compensate(tmp_path)


def test_recordings_beside_the_checkout_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIL_TEST_DATA", raising=False)
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    unknown = CliRunner().invoke(app, ["bench", "compensate"])
    assert unknown.exit_code == 2 and "--data" in unknown.stderr
    (tmp_path / "shared" / "data").mkdir(parents=True)
    empty = CliRunner().invoke(app, ["bench", "compensate"])
    assert empty.exit_code == 2 and "../shared/data: no recording there" in empty.stderr
