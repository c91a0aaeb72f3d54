"""The bars of `vil-bridge bench compensate`, on whole recordings: `pytest tests/perf`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import ROOT, data_dir
from vil_bridge.bench.compensate import DELAYS_MS, bench_compensate

pytestmark = [pytest.mark.perf, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def px() -> dict[str, float]:
    data_dir("broad_12_slow_translation")
    data = Path(os.environ.get("VIL_TEST_DATA", ROOT.parent / "shared" / "data"))
    return {row.name: row.value for row in bench_compensate(data) if row.value is not None}


def test_slow_motion(px: dict[str, float]) -> None:
    assert px["broad_12/plane/56ms/homography"] <= 1.2
    assert px["broad_12/plane/280ms/homography"] <= 1.8


def test_fast_rotation(px: dict[str, float]) -> None:
    assert px["broad_07/plane/56ms/none"] >= 8.0 * px["broad_07/plane/56ms/homography"]


@pytest.mark.parametrize("recording", ["broad_12", "broad_07"])
@pytest.mark.parametrize("delay_ms", DELAYS_MS)
@pytest.mark.parametrize("method", ["depth", "predict_depth"])
def test_depth_makes_every_scene_a_plane(px: dict[str, float], recording: str, delay_ms: int, method: str) -> None:
    left_px = px[f"{recording}/plane/{delay_ms}ms/homography"]
    assert px[f"{recording}/mixed/{delay_ms}ms/{method}"] <= left_px + 0.3


def test_simulated_flights(px: dict[str, float]) -> None:
    assert px["simulated/normal/56ms/predict_depth"] <= 2.0
    assert px["simulated_without_noise/normal/56ms/predict_depth"] <= 0.1
