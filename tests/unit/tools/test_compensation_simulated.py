"""Prediction and late warp on simulated flights.

The order of the methods, and how near to the truth they come.
"""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

from vil_benchmarks.compensate_simulated import CLASSES, NO_NOISE, Noise, simulated_errors

DELAYS_MS = (20, 56, 112)


@cache
def means_px(
    flight: str,
    noise: Noise = Noise(),  # noqa: B008
    samples: int = 60,
) -> dict[tuple[int, str], float]:
    errors = simulated_errors(CLASSES[flight], DELAYS_MS, noise, samples)
    return {key: float(e.mean()) for key, e in errors.items()}


def test_normal_motion_with_noise_is_at_the_floor_of_the_sensors() -> None:
    px = means_px("normal")
    assert px[56, "none"] > 25.0
    assert px[56, "predict_depth"] <= 2.0
    assert px[112, "predict_depth"] <= 2.6


def test_without_noise_only_the_method_is_left() -> None:
    px = means_px("normal", NO_NOISE)
    assert px[56, "predict_depth"] <= 0.1
    assert (
        max(px[delay, method] for delay in DELAYS_MS for method in ("depth", "predict_depth"))
        < 0.01
    )
    assert px[56, "predict_rotation"] < 0.2


@pytest.mark.parametrize("flight", ["slow", "normal", "racing"])
@pytest.mark.parametrize("delay_ms", DELAYS_MS)
def test_each_step_is_worth_its_work(flight: str, delay_ms: int) -> None:
    px = {method: value for (delay, method), value in means_px(flight).items() if delay == delay_ms}
    assert px["depth"] < px["homography"] < px["homography_4m"] < px["rotation"] < px["none"]
    assert px["predict_depth"] < px["predict"] < px["none"]
    # What is left to warp after a good prediction is so little that any warp will do; without one
    # it is not.
    assert px["predict_depth"] <= px["predict_homography"] + 0.02
    assert px["predict_homography"] <= px["predict_rotation"] + 0.02
    assert px["predict_rotation"] < px["rotation"]
    assert abs(px["predict_depth"] - px["depth"]) < 0.2


def test_faster_flights_and_longer_delays_need_it_more() -> None:
    for method in ("none", "rotation", "homography", "predict"):
        by_class = [means_px(flight)[56, method] for flight in CLASSES]
        by_delay = [means_px("normal")[delay, method] for delay in DELAYS_MS]
        assert by_class == sorted(by_class)
        assert by_delay == sorted(by_delay)


@pytest.mark.parametrize(
    "noise",
    [
        dataclasses.replace(NO_NOISE, gyro_bias_radps=0.05),
        dataclasses.replace(NO_NOISE, velocity_mps=0.5),
        dataclasses.replace(NO_NOISE, attitude_rad=np.radians(0.1)),
    ],
    ids=["bias", "velocity", "attitude"],
)
def test_what_is_not_known_shows(noise: Noise) -> None:
    assert means_px("normal", noise, samples=20)[56, "predict_depth"] > 1.0


def test_the_same_seed_gives_the_same_figures() -> None:
    first, second, other = (
        simulated_errors(CLASSES["slow"], (56,), None, 10, seed) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first[56, "depth"], second[56, "depth"])
    assert first[56, "depth"].mean() != other[56, "depth"].mean()
