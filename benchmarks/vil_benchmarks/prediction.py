"""`vil-bridge bench prediction`: real motion, predicted by the world and compared with what came.

Recordings of bodies in real mocap rooms go into a world row by row. ``bridged``: mocap comes late
by the horizon, the IMU is there up to the target. ``forecast``: nothing newer than the mocap pose
is known. Each with the IMU (``imu``), by constant twist alone (``twist``) and by the newest pose
(``constant_pose``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from vil_benchmarks.recordings import (
    EPOCH_NS,
    BenchRecording,
    find_recordings,
    played,
    recorded_actor,
    recorded_world,
)
from vil_benchmarks.report import Row
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import GRAVITY_MPS2, Transform, q_conj, q_exp, q_log, q_mul
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.body_filter import BodyFilter

HORIZONS_MS: Final = (20, 56, 112)
_BODIES: Final = 20
_IMU_HZ: Final = 500
_POSE_EVERY: Final = 5
_EVERY: Final = 7  # rows per prediction: neighbours are redundant


def bench_prediction(data: Path | None) -> list[Row]:
    """Play all recordings under ``data``; about a minute.

    Raises:
        ConfigError: no folder was given, or a recording is absent.
    """
    rows: list[Row] = []
    for name, folder in find_recordings(data, "prediction").items():
        recording = BenchRecording.load(folder)
        if not len(recording.imu_ns):
            rows += _rows(f"forecast_{name}", prediction_errors(recording, lead_ns=0))
            continue
        for table, lead_ns in (("bridged", max(HORIZONS_MS) * NS_PER_MS), ("forecast", 0)):
            errors = prediction_errors(recording, lead_ns)
            rows += _rows(f"{table}_{name}", errors)
            rows += _gains(f"{table}_{name}", errors)
    rows.append(filter_cost())
    return rows


def filter_cost(seconds: float = 2.0) -> Row:
    """Return the CPU time of the filters of 20 bodies for one inertial sample of one body.

    Samples come at 500 Hz, poses at 100 Hz; every body's filter takes all of its own.
    """
    bodies = [BodyFilter(Transform.identity()) for _ in range(_BODIES)]
    samples = round(seconds * _IMU_HZ)
    up = np.array([0.0, 0.0, GRAVITY_MPS2])
    rng = np.random.default_rng(1)
    w_radps = 0.02 * rng.standard_normal((samples, 3))
    f_mps2 = up + 0.2 * rng.standard_normal((samples, 3))
    p_m = 1e-4 * rng.standard_normal((samples, 3))
    q_xyzw = q_exp(1e-3 * rng.standard_normal((samples, 3)))
    spent_ns = -time.process_time_ns()
    for k in range(samples):
        t_ns = k * (NS_PER_S // _IMU_HZ)
        for body in bodies:
            body.add_imu(t_ns, w_radps[k], f_mps2[k])
            if k % _POSE_EVERY == 0:
                body.add_pose(t_ns, p_m[k], q_xyzw[k])
    spent_ns += time.process_time_ns()
    return Row(
        "filter_us_per_imu_sample", 1e-3 * spent_ns / (samples * _BODIES), "us", samples * _BODIES
    )


Errors = dict[tuple[int, str], FloatArray]
"""By horizon in ms and method: shape (n, 2), degrees and millimetres."""


def prediction_errors(recording: BenchRecording, lead_ns: int, every: int = _EVERY) -> Errors:
    """Predict from every few rows and compare with the recorded pose, where there is one.

    Args:
        recording: what to play.
        lead_ns: how much newer than the newest pose the IMU may be; what lies beyond a target is
            not used.
        every: rows from one prediction to the next.
    """
    inertial = [recorded_actor("imu", "imu")] if len(recording.imu_ns) else []
    world = recorded_world(recorded_actor("twist", None), *inertial)
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for row, t_ns in played(recording, world, lead_ns):
        if row % every:
            continue
        for horizon_ms in HORIZONS_MS:
            target_ns = t_ns + horizon_ms * NS_PER_MS
            truth = recording.at(target_ns)
            if truth is None:
                continue
            poses = {
                a.name: world.pose_at(a.name, EPOCH_NS + target_ns).T_world_body
                for a in world.actors
            }
            poses["constant_pose"] = Transform(recording.p_m[row], recording.q_xyzw[row])
            for method, pose in poses.items():
                found.setdefault((horizon_ms, method), []).append(_error(truth, pose))
    return {key: np.array(errors) for key, errors in found.items()}


def _error(truth: Transform, pose: Transform) -> tuple[float, float]:
    turn_rad = np.linalg.norm(q_log(q_mul(q_conj(truth.q_xyzw), pose.q_xyzw)))
    return float(np.degrees(turn_rad)), float(1e3 * np.linalg.norm(pose.p_m - truth.p_m))


_UNITS: Final = (("rotation", "deg"), ("position", "mm"))


def _rows(prefix: str, errors: Errors) -> Iterator[Row]:
    for (horizon_ms, method), values in errors.items():
        for axis, (quantity, unit) in enumerate(_UNITS):
            name = f"{prefix}_{horizon_ms}ms_{method}_{quantity}"
            for suffix, value in (
                ("p50", np.median(values[:, axis])),
                ("p95", np.percentile(values[:, axis], 95)),
                ("mean", values[:, axis].mean()),
            ):
                yield Row(f"{name}_{suffix}", float(value), unit, len(values))


def _gains(prefix: str, errors: Errors) -> Iterator[Row]:
    """Yield the ratio of the mean errors without and with the IMU."""
    for horizon_ms in HORIZONS_MS:
        twist = errors[horizon_ms, "twist"]
        imu = errors[horizon_ms, "imu"]
        for axis, (quantity, _) in enumerate(_UNITS):
            gain = float(twist[:, axis].mean() / imu[:, axis].mean())
            yield Row(f"{prefix}_{horizon_ms}ms_{quantity}_gain", gain, "ratio", len(imu))
