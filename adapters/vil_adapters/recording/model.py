"""Result of every reader of this folder: one recording, to be played or streamed by an emulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_slerp
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import (
    BoolArray,
    FloatArray,
    Markers,
    MotionFrame,
    SkeletonFrame,
    SkeletonModel,
)

IntArray = npt.NDArray[np.int64]

_LONGEST_STEP: Final = 1.5  # nominal periods between two rows that may be interpolated


def held(tracked: BoolArray) -> IntArray:
    """Return the row whose values each row shows.

    Itself where tracked, else the last, else the first tracked one.

    ``tracked`` has shape (n, k); so has the result. Columns that are never tracked show row 0.
    """
    rows = np.where(tracked, np.arange(len(tracked))[:, None], -1)
    rows = np.maximum.accumulate(rows, axis=0)
    return np.where(rows < 0, tracked.argmax(axis=0), rows)


@dataclass(frozen=True, slots=True, eq=False)
class Bodies:
    """Rigid bodies in all rows: ``p_m`` (n, k, 3), ``q_xyzw`` (n, k, 4), ``tracked`` (n, k).

    Untracked poses may be anything; they are replaced by the last tracked one.
    """

    p_m: FloatArray
    q_xyzw: FloatArray
    tracked: BoolArray

    def __post_init__(self) -> None:
        rows = held(self.tracked)
        columns = np.arange(self.tracked.shape[1])
        p_m = self.p_m[rows, columns]
        q_xyzw = self.q_xyzw[rows, columns]
        never = ~self.tracked.any(axis=0)
        p_m[:, never] = 0.0
        q_xyzw[:, never] = (0.0, 0.0, 0.0, 1.0)
        object.__setattr__(self, "p_m", p_m)
        object.__setattr__(self, "q_xyzw", q_xyzw)

    @classmethod
    def none(cls, rows: int) -> Bodies:
        """Return no bodies at all."""
        return cls(
            np.empty((rows, 0, 3)), np.empty((rows, 0, 4)), np.empty((rows, 0), dtype=np.bool_)
        )

    @classmethod
    def concatenated(cls, *parts: Bodies) -> Bodies:
        """Concatenate the bodies of several parts that have the same rows."""
        return cls(
            np.concatenate([part.p_m for part in parts], axis=1),
            np.concatenate([part.q_xyzw for part in parts], axis=1),
            np.concatenate([part.tracked for part in parts], axis=1),
        )

    def between(self, row: int, fraction: float | None) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return poses and flags of a row, interpolated by a fraction to the next one.

        None = in a gap behind it.
        """
        p_m = self.p_m[row]
        q_xyzw = self.q_xyzw[row]
        tracked = self.tracked[row]
        if fraction is None:
            return p_m, q_xyzw, np.zeros_like(tracked)
        if fraction == 0.0:
            return p_m, q_xyzw, tracked
        both = tracked & self.tracked[row + 1]
        p_m = p_m + np.where(both, fraction, 0.0)[:, None] * (self.p_m[row + 1] - p_m)
        turned = q_slerp(q_xyzw, self.q_xyzw[row + 1], fraction)
        return p_m, np.where(both[:, None], turned, q_xyzw), both


@dataclass(frozen=True, slots=True, eq=False)
class RecordedSkeleton:
    """One skeleton in all rows; ``bones`` are global poses."""

    model: SkeletonModel
    bones: Bodies


@dataclass(frozen=True, slots=True, eq=False)
class MarkerTrack:
    """Single markers in all rows.

    Attributes:
        labels: as in :class:`~vil_bridge.core.types.Markers`, length k.
        p_m: shape (n, k, 3), anything where untracked. tracked: shape (n, k).
    """

    labels: tuple[str, ...]
    p_m: FloatArray
    tracked: BoolArray

    def __post_init__(self) -> None:
        p_m = self.p_m[held(self.tracked), np.arange(len(self.labels))]
        p_m[:, ~self.tracked.any(axis=0)] = 0.0
        object.__setattr__(self, "p_m", p_m)

    def between(self, row: int, fraction: float | None) -> Markers:
        """Interpolate as :meth:`Bodies.between`."""
        p_m = self.p_m[row]
        tracked = self.tracked[row]
        if fraction is None:
            return Markers(self.labels, p_m, np.zeros_like(tracked))
        if fraction == 0.0:
            return Markers(self.labels, p_m, tracked)
        both = tracked & self.tracked[row + 1]
        moved = p_m + np.where(both, fraction, 0.0)[:, None] * (self.p_m[row + 1] - p_m)
        return Markers(self.labels, moved, both)


@dataclass(frozen=True, eq=False)
class MotionFile:
    """Everything that a file holds, in the room frame (z up, metres); it is also a ``Motion``.

    Attributes:
        title: the file, for people. format: as in :data:`vil_adapters.recording.formats.FORMATS`.
        t_ns: shape (n,), the recording's own clock, strictly increasing.
        subjects: names of the bodies.
        imu: samples in the same clock and the axes of the first body's IMU, None where there are
            none.
    """

    title: str
    format: str
    t_ns: IntArray
    subjects: tuple[str, ...]
    bodies: Bodies
    skeletons: tuple[RecordedSkeleton, ...] = ()
    markers: MarkerTrack | None = None
    imu: ImuWindow | None = None

    @property
    def skeleton_models(self) -> tuple[SkeletonModel, ...]:
        """Return the models of the skeletons."""
        return tuple(track.model for track in self.skeletons)

    @cached_property
    def period_ns(self) -> int:
        """Return the nominal time between two rows (the median)."""
        return max(1, int(np.median(np.diff(self.t_ns)))) if len(self.t_ns) > 1 else NS_PER_S

    @property
    def duration_ns(self) -> int:
        """Return the time from the first row to the last."""
        return int(self.t_ns[-1] - self.t_ns[0])

    @property
    def rate_hz(self) -> float:
        """Return the nominal rate."""
        return NS_PER_S / self.period_ns

    def at(self, t_ns: int) -> MotionFrame:
        """Return the subjects at a time after the first row.

        The motion repeats one period after the last row.

        Between rows that follow each other poses are interpolated. Where rows are missing nothing
        is tracked, and everything stays where it was last seen.
        """
        t_rec_ns = int(self.t_ns[0]) + t_ns % (self.duration_ns + self.period_ns)
        row = int(np.searchsorted(self.t_ns, t_rec_ns, side="right")) - 1
        fraction = self._fraction(row, t_rec_ns - int(self.t_ns[row]))
        p_m, q_xyzw, tracked = self.bodies.between(row, fraction)
        skeletons = tuple(
            SkeletonFrame(s.model, *s.bones.between(row, fraction)) for s in self.skeletons
        )
        markers = None
        if self.markers is not None:
            markers = self.markers.between(row, fraction)
        return MotionFrame(
            subjects=self.subjects,
            p_m=p_m,
            q_xyzw=q_xyzw,
            tracked=tracked,
            skeletons=skeletons,
            markers=markers,
        )

    def _fraction(self, row: int, since_ns: int) -> float | None:
        """Return the fraction of the way to the next row; None = rows are missing here."""
        if since_ns == 0:
            return 0.0
        if row + 1 == len(self.t_ns):
            return None
        step_ns = int(self.t_ns[row + 1] - self.t_ns[row])
        return since_ns / step_ns if step_ns <= _LONGEST_STEP * self.period_ns else None

    def instants(self) -> Iterator[int]:
        """Yield the times of frames after the first row.

        Each row, and in a gap each nominal period.
        """
        last_ns = 0
        for t_ns in (self.t_ns - self.t_ns[0]).tolist():
            while t_ns - last_ns > _LONGEST_STEP * self.period_ns:
                last_ns += self.period_ns
                yield last_ns
            yield t_ns
            last_ns = t_ns
