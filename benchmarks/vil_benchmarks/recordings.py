"""Recordings of bodies in real mocap rooms, played into a world row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_mul, q_normalize, q_slerp, q_to_matrix
from vil_bridge.core.types import ActorKind, FloatArray, ImuSample, SourceFrame
from vil_bridge.protocols.euroc import (
    IMU,
    IMU_VALUES,
    POSE_VALUES,
    ROOT,
    find_imu,
    find_mocap,
    read_placement,
    read_rows,
)
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

RECORDINGS: Final = {
    "broad_12": "broad_12_slow_translation",
    "broad_07": "broad_07_fast_rotation",
    "tumvi": "tumvi_room1",
}
EPOCH_NS: Final = 10**12
"""Bridge time of a recording's first pose."""

_LONGEST_STEP: Final = 1.5  # median periods between two rows that may be interpolated
_TRACKED: Final = np.ones(1, dtype=np.bool_)

_Times = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BenchRecording:
    """Rows as recorded, times from the first pose on.

    Attributes:
        t_ns: shape (n,). p_m: shape (n, 3), world. q_xyzw: shape (n, 4), world from body.
        imu_ns: shape (m,), 0 rows without an IMU. imu: shape (m, 6), angular rate and specific
            force.
    """

    t_ns: _Times
    p_m: FloatArray
    q_xyzw: FloatArray
    imu_ns: _Times
    imu: FloatArray

    @classmethod
    def load(cls, folder: Path) -> BenchRecording:
        """Read a folder in EuRoC's layout (``mav0``), or one with a single file of poses.

        Poses become those of the IMU by the ``T_BS`` of the tracked sensor and of the IMU, since
        the body is both.

        Raises:
            ConfigError: a file is absent or malformed (``file:line``).
        """
        poses_csv, imu_csv = _tables(folder)
        t_ns, poses = read_rows(poses_csv, POSE_VALUES)
        T_sensor_imu = read_placement(poses_csv).inverse()
        imu_ns = np.empty(0, np.int64)
        imu = np.empty((0, IMU_VALUES))
        if imu_csv is not None:
            imu_ns, imu = read_rows(imu_csv, IMU_VALUES)
            T_sensor_imu = T_sensor_imu @ read_placement(imu_csv)
        q_xyzw = q_normalize(poses[:, [4, 5, 6, 3]])
        p_m = poses[:, :3] + (q_to_matrix(q_xyzw) @ T_sensor_imu.p_m)
        return cls(t_ns - t_ns[0], p_m, q_mul(q_xyzw, T_sensor_imu.q_xyzw), imu_ns - t_ns[0], imu)

    @cached_property
    def period_ns(self) -> int:
        """Median time between two poses."""
        return int(np.median(np.diff(self.t_ns)))

    def at(self, t_ns: int) -> Transform | None:
        """Return the pose at an instant, None where tracking was lost."""
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


def data_folder(data: Path | None, bench: str) -> Path:
    """Return the folder that was given.

    Raises:
        ConfigError: none was.
    """
    if data is None:
        raise ConfigError(
            f"bench {bench} needs the folder of the recordings: --data or VIL_TEST_DATA"
        )
    return data


def find_recordings(data: Path | None, bench: str) -> dict[str, Path]:
    """Return the folders of recordings by row name.

    The folder itself where it is one, else those in it.

    The name is the folder's, short for those of :data:`RECORDINGS`, which come first and in this
    order.

    Raises:
        ConfigError: no folder was given, or it holds none.
    """
    folder = data_folder(data, bench)
    if (folder / ROOT).is_dir():
        return {folder.resolve().name: folder}
    known = {
        name: folder / recorded
        for name, recorded in RECORDINGS.items()
        if (folder / recorded).is_dir()
    }
    others = sorted(
        path.parent for path in folder.glob(f"*/{ROOT}") if path.parent not in known.values()
    )
    if not known and not others:
        raise ConfigError(
            f"{folder}: no recording there. Give a folder that holds {ROOT} (EuRoC), or its parent"
        )
    return known | {other.name: other for other in others}


def recordings_with_imu(data: Path | None, bench: str) -> Iterator[tuple[str, BenchRecording]]:
    """Yield the recordings of :func:`find_recordings` that have inertial samples, each with its row
    name.

    Raises:
        ConfigError: there is none.
    """
    found = False
    for name, folder in find_recordings(data, bench).items():
        recording = BenchRecording.load(folder)
        if len(recording.imu_ns):
            found = True
            yield name, recording
    if not found:
        raise ConfigError(
            f"{data}: no recording there has inertial samples. Give one that holds {ROOT}/{IMU}"
        )


def _tables(folder: Path) -> tuple[Path, Path | None]:
    """Return the files of poses and of inertial samples, None without the latter."""
    if (folder / ROOT).is_dir():
        return find_mocap(folder), find_imu(folder)
    single = sorted(folder.glob("*.csv.gz"))
    if not single:
        raise ConfigError(
            f"{folder}: no recording there (give its parent with --data or VIL_TEST_DATA)"
        )
    return single[0], None


def recorded_actor(name: str, imu: str | None) -> Actor:
    """Return an actor that follows the recorded body."""
    return Actor(name, ActorKind.VEHICLE, "mocap", "body", imu=imu)


def recorded_world(*actors: Actor) -> World:
    """Return a world for one recording, whose room is the world."""
    return World({"mocap": Transform.identity()}, actors)


def played(recording: BenchRecording, world: World, lead_ns: int = 0) -> Iterator[tuple[int, int]]:
    """Feed the rows to a world one by one.

    Yields each row's number and recording time once the world knows it.

    Args:
        recording: what to play; its time 0 is :data:`EPOCH_NS` in the world.
        world: from :func:`recorded_world`.
        lead_ns: how much newer than the newest pose the IMU may be; a query uses what is before its
            own instant.
    """
    samples = _samples(recording, lead_ns)
    for row, t_ns in enumerate(recording.t_ns.tolist()):
        for sample in next(samples):
            world.ingest(sample)
        world.ingest(_frame(recording, row))
        yield row, t_ns


def _frame(recording: BenchRecording, row: int) -> SourceFrame:
    one = slice(row, row + 1)
    t_ns = EPOCH_NS + int(recording.t_ns[row])
    return SourceFrame(
        "mocap", row, None, t_ns, ("body",), recording.p_m[one], recording.q_xyzw[one], _TRACKED
    )


def _samples(recording: BenchRecording, lead_ns: int) -> Iterator[list[ImuSample]]:
    """Yield for each pose the inertial samples since the one before."""
    first = 0
    for end in np.searchsorted(recording.imu_ns, recording.t_ns + lead_ns, side="right").tolist():
        yield [
            ImuSample(
                "imu",
                None,
                EPOCH_NS + int(recording.imu_ns[i]),
                recording.imu[i, :3],
                recording.imu[i, 3:],
            )
            for i in range(first, end)
        ]
        first = end
