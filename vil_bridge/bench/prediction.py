"""`vil-bridge bench prediction`: real motion, predicted by the world and compared with what came.

Recordings of bodies in real mocap rooms go into a world row by row. ``bridged``: mocap comes late by
the horizon, the IMU is there up to the target. ``forecast``: nothing newer than the mocap pose is
known. Each with the IMU (``imu``) and by constant twist alone (``twist``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.bench.report import Row
from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_conj, q_log, q_mul, q_normalize, q_slerp
from vil_bridge.core.types import ActorKind, FloatArray, ImuSample, SourceFrame
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

__all__ = ["Recording", "bench_prediction", "prediction_errors"]

HORIZONS_MS: Final = (20, 56, 112)
_RECORDINGS: Final = {
    "broad_12": "broad_12_slow_translation",
    "broad_07": "broad_07_fast_rotation",
    "tumvi": "tumvi_room1",
}
_EVERY: Final = 7  # rows per prediction: neighbours tell the same
_EPOCH_NS: Final = 10**12
_LONGEST_STEP: Final = 1.5  # median periods between two rows that may be interpolated
_TRACKED: Final = np.ones(1, dtype=np.bool_)

_Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Rows as recorded, times from the first pose on.

    Attributes:
        t_ns: shape (n,). p_m: shape (n, 3), world. q_xyzw: shape (n, 4), world from body.
        imu_ns: shape (m,), 0 rows without an IMU. imu: shape (m, 6), angular rate and specific force.
    """

    t_ns: _Times
    p_m: FloatArray
    q_xyzw: FloatArray
    imu_ns: _Times
    imu: FloatArray

    @classmethod
    def load(cls, folder: Path) -> Recording:
        """Read an EuRoC folder (``mav0``), or one with a single file of poses.

        Raises:
            ConfigError: a file is absent.
        """
        mav0 = folder / "mav0"
        found = [mav0 / "mocap0/data.csv"] if mav0.is_dir() else sorted(folder.glob("*.csv.gz"))
        imu_csv = mav0 / "imu0/data.csv"
        if not found or not found[0].is_file():
            raise ConfigError(f"{folder}: no recording there (give its parent with --data or VIL_TEST_DATA)")
        t_ns, poses = _read(found[0], 8)
        imu_ns, imu = _read(imu_csv, 7) if imu_csv.is_file() else (np.empty(0, np.int64), np.empty((0, 6)))
        return cls(t_ns - t_ns[0], poses[:, :3], q_normalize(poses[:, [4, 5, 6, 3]]), imu_ns - t_ns[0], imu)

    @property
    def period_ns(self) -> int:
        """Median time between two poses."""
        return int(np.median(np.diff(self.t_ns)))

    def at(self, t_ns: int) -> Transform | None:
        """The pose at an instant, None where tracking was lost."""
        after = int(np.searchsorted(self.t_ns, t_ns))
        if after == len(self.t_ns) or (after == 0 and self.t_ns[0] != t_ns):
            return None
        before = max(0, after - 1)
        span_ns = int(self.t_ns[after] - self.t_ns[before])
        if span_ns > _LONGEST_STEP * self.period_ns:
            return None
        fraction = (t_ns - int(self.t_ns[before])) / span_ns if span_ns else 0.0
        p_m = self.p_m[before] + fraction * (self.p_m[after] - self.p_m[before])
        return Transform(p_m, q_slerp(self.q_xyzw[before], self.q_xyzw[after], fraction))


def _read(path: Path, columns: int) -> tuple[_Times, FloatArray]:
    t_ns = np.loadtxt(path, delimiter=",", usecols=0, dtype=np.int64)
    return t_ns, np.loadtxt(path, delimiter=",", usecols=range(1, columns))


def bench_prediction(data: Path | None) -> list[Row]:
    """Play all recordings under ``data``; about a minute.

    Raises:
        ConfigError: no folder was given, or a recording is absent.
    """
    if data is None:
        raise ConfigError("bench prediction needs the folder of the recordings: --data or VIL_TEST_DATA")
    rows: list[Row] = []
    for name, folder in _RECORDINGS.items():
        recording = Recording.load(data / folder)
        if not len(recording.imu_ns):
            rows += _rows(f"forecast_{name}", prediction_errors(recording, lead_ns=0))
            continue
        for table, lead_ns in (("bridged", max(HORIZONS_MS) * NS_PER_MS), ("forecast", 0)):
            errors = prediction_errors(recording, lead_ns)
            rows += _rows(f"{table}_{name}", errors)
            rows += _gains(f"{table}_{name}", errors)
    return rows


Errors = dict[tuple[int, str], FloatArray]
"""By horizon in ms and method: shape (n, 2), degrees and millimetres."""


def prediction_errors(recording: Recording, lead_ns: int, every: int = _EVERY) -> Errors:
    """Predict from every few rows and compare with the recorded pose, where there is one.

    Args:
        recording: what to play.
        lead_ns: how much newer than the newest pose the IMU may be; what lies beyond a target is not used.
        every: rows from one prediction to the next.
    """
    world = World({"mocap": Transform.identity()}, [_actor("twist", None), *_inertial_actor(recording)])
    samples = _samples(recording, lead_ns)
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for row, t_ns in enumerate(recording.t_ns.tolist()):
        for sample in next(samples):
            world.ingest(sample)
        world.ingest(_frame(recording, row))
        if row % every:
            continue
        for horizon_ms in HORIZONS_MS:
            target_ns = t_ns + horizon_ms * NS_PER_MS
            truth = recording.at(target_ns)
            if truth is None:
                continue
            for actor in world.actors:
                pose = world.pose_at(actor.name, _EPOCH_NS + target_ns).T_world_body
                found.setdefault((horizon_ms, actor.name), []).append(_error(truth, pose))
    return {key: np.array(errors) for key, errors in found.items()}


def _actor(name: str, imu: str | None) -> Actor:
    return Actor(name, ActorKind.VEHICLE, "mocap", "body", imu=imu)


def _inertial_actor(recording: Recording) -> list[Actor]:
    return [_actor("imu", "imu")] if len(recording.imu_ns) else []


def _frame(recording: Recording, row: int) -> SourceFrame:
    one = slice(row, row + 1)
    t_ns = _EPOCH_NS + int(recording.t_ns[row])
    return SourceFrame("mocap", row, None, t_ns, ("body",), recording.p_m[one], recording.q_xyzw[one], _TRACKED)


def _samples(recording: Recording, lead_ns: int) -> Iterator[list[ImuSample]]:
    """What the IMU says between one pose and the next, for each pose."""
    first = 0
    for end in np.searchsorted(recording.imu_ns, recording.t_ns + lead_ns, side="right").tolist():
        yield [
            ImuSample("imu", None, _EPOCH_NS + int(recording.imu_ns[i]), recording.imu[i, :3], recording.imu[i, 3:])
            for i in range(first, end)
        ]
        first = end


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
    """How many times closer the IMU is, by means."""
    for horizon_ms in HORIZONS_MS:
        twist, imu = errors[horizon_ms, "twist"], errors[horizon_ms, "imu"]
        for axis, (quantity, _) in enumerate(_UNITS):
            gain = float(twist[:, axis].mean() / imu[:, axis].mean())
            yield Row(f"{prefix}_{horizon_ms}ms_{quantity}_gain", gain, "ratio", len(imu))
