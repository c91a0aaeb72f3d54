"""`vil-bridge bench compensate`: how far from the truth a compensated picture shows what it shows.

Recordings of bodies in real mocap rooms are played into a world, as in a live run: mocap is known
up to the instant that a picture is rendered for, the IMU up to the instant that it is shown,
gyroscope bias and velocity are the world's own estimates. The truth is the recorded pose at that
instant. Simulated flights follow, with noise and without. Rows with ``noise`` and ``filtered``
compare the filter of mocap and IMU with the newest pose alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from vil_benchmarks.compensate_points import (
    T_BODY_OPTICAL,
    errors_px,
    seen_by,
    without_filter,
)
from vil_benchmarks.compensate_simulated import (
    CLASSES,
    NO_NOISE,
    QUIET,
    Noise,
    filtered_errors,
    simulated_errors,
)
from vil_benchmarks.recordings import (
    EPOCH_NS,
    BenchRecording,
    played,
    recorded_actor,
    recorded_world,
    recordings_with_imu,
)
from vil_benchmarks.report import Row
from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.geometry import Transform, q_exp, q_mul
from vil_bridge.core.types import FloatArray
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.world import World

DELAYS_MS: Final = (56, 112, 168, 224, 280)
_SIMULATED_DELAYS_MS: Final = (10, 20, *DELAYS_MS)
_K: Final[FloatArray] = np.array([[400.0, 0.0, 319.5], [0.0, 400.0, 239.5], [0.0, 0.0, 1.0]])
_SIZE_PX: Final = (640, 480)
_GRID: Final = (16, 12)
_PLANE_M: Final = 3.0
_MIXED_M: Final = (1.5, 6.0)
# By default nothing is predicted as far as 280 ms.
_LIMITS: Final = TrackingLimits(stale_after_ns=500 * NS_PER_MS)
_EVERY: Final = 14  # rows per picture: neighbours are redundant
_NOISY_DELAY_NS: Final = 56 * NS_PER_MS
_NOISE_RAD: Final = math.radians(0.1)
_NOISE_M: Final = 3e-4

Errors = dict[tuple[str, int, str], FloatArray]
"""By scene, delay in ms and method: pixels."""


def bench_compensate(data: Path | None) -> list[Row]:
    """Play the recordings under ``data``, and simulate; some minutes.

    Raises:
        ConfigError: no folder was given, or a recording is absent.
    """
    rows: list[Row] = []
    for name, recording in recordings_with_imu(data, "compensate"):
        rows += _rows(name, recorded_errors(recording))
        rows += _noisy_rows(f"{name}_noise/plane/56ms/homography", noisy_errors(recording))
    for name, flight in CLASSES.items():
        rows += _simulated_rows(f"simulated/{name}", simulated_errors(flight, _SIMULATED_DELAYS_MS))
        for kind, noise in (("simulated_filtered", Noise()), ("simulated_filtered_quiet", QUIET)):
            rows += _noisy_rows(f"{kind}/{name}/56ms/depth", filtered_errors(flight, noise))
        rows += _simulated_rows(
            f"simulated_without_noise/{name}", simulated_errors(flight, DELAYS_MS[:1], NO_NOISE)
        )
    return rows


def recorded_errors(recording: BenchRecording, every: int = _EVERY) -> Errors:
    """Show pictures rendered at every few rows after each of :data:`DELAYS_MS`.

    ``predict_depth`` renders for the pose forecast for the instant of showing, knowing nothing
    newer than the row, and warps by depth; the other methods render for the row's pose.

    Args:
        recording: what to play, with an IMU.
        every: rows from one picture to the next.
    """
    drone = replace(recorded_actor("drone", "imu"), limits=_LIMITS)
    now = recorded_world(drone)
    before = recorded_world(drone)
    scenes = _scenes()
    found: dict[tuple[str, int, str], list[FloatArray]] = {}
    playing = zip(
        played(recording, now, max(DELAYS_MS) * NS_PER_MS), played(recording, before), strict=True
    )
    for (row, t_ns), _ in playing:
        if row % every:
            continue
        render = _camera(now, t_ns)
        for delay_ms in DELAYS_MS:
            shown_ns = t_ns + delay_ms * NS_PER_MS
            truth = recording.at(shown_ns)
            if truth is None:
                continue
            known = _camera(now, shown_ns)
            true = truth @ T_BODY_OPTICAL
            ahead = _camera(before, shown_ns)
            for scene, (px, z_m) in scenes.items():
                errors = errors_px(_K, _SIZE_PX, render, known, true, px, z_m)
                forecast = errors_px(_K, _SIZE_PX, ahead, known, true, px, z_m, methods=("depth",))
                errors["predict_depth"] = forecast["depth"]
                for method, e in errors.items():
                    found.setdefault((scene, delay_ms, method), []).append(e)
    return {key: np.concatenate(errors) for key, errors in found.items()}


def noisy_errors(
    recording: BenchRecording, every: int = _EVERY, seed: int = 3
) -> tuple[FloatArray, FloatArray]:
    """Return the homography's errors at 56 ms in the scene ``plane`` with noise added to mocap,
    pixels.

    The noise goes to the estimator alone, not to the truth. First with the estimate, then with the
    newest noisy pose in its place (its velocity and biases are the estimate's): the anchor without
    a filter.

    Args:
        recording: what to play, with an IMU.
        every: rows from one picture to the next.
        seed: of the noise.
    """
    rng = np.random.default_rng(seed)
    turns_rad, shifts_m = (
        sigma * rng.standard_normal(recording.p_m.shape) for sigma in (_NOISE_RAD, _NOISE_M)
    )
    noisy = replace(
        recording, p_m=recording.p_m + shifts_m, q_xyzw=q_mul(recording.q_xyzw, q_exp(turns_rad))
    )
    world = recorded_world(replace(recorded_actor("drone", "imu"), limits=_LIMITS))
    predictor = world.predictor("drone")
    assert predictor is not None, "the actor has an IMU"
    px, z_m = _scenes()["plane"]
    filtered: list[FloatArray] = []
    unfiltered: list[FloatArray] = []
    for row, t_ns in played(noisy, world, _NOISY_DELAY_NS):
        truth = recording.at(t_ns + _NOISY_DELAY_NS)
        state = predictor.body.newest()
        if row % every or truth is None or state is None:
            continue
        render = noisy.at(t_ns)
        assert render is not None, "a row's own time"
        raw = without_filter(state, render)
        for errors, known in (
            (filtered, _camera(world, t_ns + _NOISY_DELAY_NS)),
            (unfiltered, seen_by(predictor.body, raw, EPOCH_NS + t_ns + _NOISY_DELAY_NS)),
        ):
            views = _K, _SIZE_PX, render @ T_BODY_OPTICAL, known, truth @ T_BODY_OPTICAL, px, z_m
            errors.append(errors_px(*views, methods=("homography",))["homography"])
    return np.concatenate(filtered), np.concatenate(unfiltered)


def _camera(world: World, t_ns: int) -> Transform:
    return world.pose_at("drone", EPOCH_NS + t_ns).T_world_body @ T_BODY_OPTICAL


def _scenes() -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return pixels (n, 2) on a grid over the picture, and their depths (n,).

    One plane, or each its own.
    """
    u, v = (
        (np.arange(n, dtype=np.float64) + 0.5) * (size / n) - 0.5
        for n, size in zip(_GRID, _SIZE_PX, strict=True)
    )
    px = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
    mixed_m = np.random.default_rng(5).uniform(*_MIXED_M, len(px))
    return {"plane": (px, np.full(len(px), _PLANE_M)), "mixed": (px, mixed_m)}


def _rows(prefix: str, errors: Errors) -> Iterator[Row]:
    for (scene, delay_ms, method), values in errors.items():
        yield Row(
            f"{prefix}/{scene}/{delay_ms}ms/{method}", float(values.mean()), "px", len(values)
        )
        if method == "homography":
            yield Row(
                f"{prefix}/{scene}/{delay_ms}ms/{method}_p50",
                float(np.median(values)),
                "px",
                len(values),
            )


def _noisy_rows(prefix: str, errors: tuple[FloatArray, FloatArray]) -> Iterator[Row]:
    """Yield mean, median and 95th percentile with and without a filter, and the ratios of the
    first two.
    """
    filtered, unfiltered = errors
    for suffix, of in (
        ("mean", np.mean),
        ("p50", np.median),
        ("p95", lambda e: np.percentile(e, 95)),
    ):
        with_filter = float(of(filtered))
        without = float(of(unfiltered))
        yield Row(f"{prefix}_{suffix}", with_filter, "px", len(filtered))
        yield Row(f"{prefix}_unfiltered_{suffix}", without, "px", len(unfiltered))
        yield Row(f"{prefix}_gain_{suffix}", without / with_filter, "ratio", len(filtered))


def _simulated_rows(prefix: str, errors: Mapping[tuple[int, str], FloatArray]) -> Iterator[Row]:
    for (delay_ms, method), values in errors.items():
        yield Row(f"{prefix}/{delay_ms}ms/{method}", float(values.mean()), "px", len(values))
