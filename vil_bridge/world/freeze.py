"""Poses that go on coming and say nothing: repeated to the bit, or contradicted by the body's IMU.

A measured pose carries noise: in 71,900 poses of four recordings of real rooms none repeats the one
before. A system that repeats all seven numbers does not measure. Three repetitions are needed as
well as a time, so that a server that sends each pose several times is not suspected. Simulations
and recordings may repeat poses; for them the IMU decides alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import q_conj, q_log, q_mul
from vil_bridge.core.types import FloatArray
from vil_bridge.world.actors import TrackingLimits

LEAST_REPEATS: Final = 3
_SPAN_NS: Final = 300 * NS_PER_MS
_PERIOD_NS: Final = 50 * NS_PER_MS
_STILL_M: Final = 2e-3
_STILL_RAD: Final = 5e-3
_TURNED_RAD: Final = 0.15

_Rows = npt.NDArray[np.int64] | slice


class Repeats:
    """For how long the newest pose of each row has repeated to the bit.

    Attributes:
        count: shape (n,), of repetitions.
        first_ns, newest_ns: shape (n,), arrival of the first and the newest of equal poses.
    """

    def __init__(self, rows: int) -> None:
        self.count = np.zeros(rows, dtype=np.int64)
        self.first_ns = np.zeros(rows, dtype=np.int64)
        self.newest_ns = np.zeros(rows, dtype=np.int64)

    def add(
        self,
        rows: _Rows,
        t_before_ns: npt.NDArray[np.int64],
        t_arrival_ns: int,
        same: npt.NDArray[np.bool_],
    ) -> None:
        """Account one pose per row.

        Args:
            rows: of the poses.
            t_before_ns: (k,) arrival of the pose before, -1 = there was none.
            t_arrival_ns: of these poses.
            same: (k,) equal to the pose before.
        """
        count = self.count[rows]
        self.first_ns[rows] = np.where(count > 0, self.first_ns[rows], t_before_ns)
        self.count[rows] = (count + 1) * (same & (t_before_ns >= 0))
        self.newest_ns[rows] = t_arrival_ns

    def standing_ns(self, row: int) -> int:
        """Return the time from the first to the newest of equal poses.

        0 while fewer than three repeated it.
        """
        if self.count.item(row) < LEAST_REPEATS:
            return 0
        return self.newest_ns.item(row) - self.first_ns.item(row)


class PoseAgainstImu:
    """Comparison of a body's poses with its gyroscope.

    The pose is frozen when it stands within 2 mm and 0.3 degrees for 0.3 s in which the gyroscope
    turned by 8.6 degrees. Accelerations are not compared: a wrongly mounted IMU would contradict a
    body at rest.

    Args:
        turned_rad: returns the net angle of the gyroscope, free of its bias, between two instants;
            None = unknown.

    Attributes:
        frozen: as of the newest pose.
    """

    def __init__(self, turned_rad: Callable[[int, int], float | None]) -> None:
        self.frozen = False
        self._turned_rad = turned_rad
        self._anchor: tuple[int, FloatArray, FloatArray] | None = None
        self._t_checked_ns = 0

    def add(self, t_ns: int, p_m: FloatArray, q_xyzw: FloatArray) -> None:
        """Account a tracked pose, captured at ``t_ns``."""
        if self._anchor is None or not self._stands(p_m, q_xyzw) or t_ns < self._anchor[0]:
            self._anchor = (t_ns, p_m, q_xyzw)
            self.frozen = False
        elif t_ns - self._anchor[0] >= _SPAN_NS and t_ns - self._t_checked_ns >= _PERIOD_NS:
            self._t_checked_ns = t_ns
            turned_rad = self._turned_rad(t_ns - _SPAN_NS, t_ns)
            self.frozen = turned_rad is not None and turned_rad > _TURNED_RAD

    def _stands(self, p_m: FloatArray, q_xyzw: FloatArray) -> bool:
        assert self._anchor is not None, "the caller has looked"
        _, p_before_m, q_before = self._anchor
        if np.abs(p_m - p_before_m).max() > _STILL_M:
            return False
        return float(np.linalg.norm(q_log(q_mul(q_conj(q_before), q_xyzw)))) <= _STILL_RAD


class FreezeWatch:
    """Judge of one actor: by the bits of its poses, and by its IMU where it has one."""

    def __init__(
        self, limits: TrackingLimits, repeats: Repeats, row: int, by_imu: PoseAgainstImu | None
    ) -> None:
        self._limit_ns = limits.frozen_after_ns
        self._repeats = repeats
        self._row = row
        self._by_imu = by_imu

    def reason(self) -> str:
        """Return the sign that the poses are frozen; empty while nothing does."""
        if self._by_imu is not None and self._by_imu.frozen:
            return "its pose stands while its IMU turns"
        standing_ns = 0 if self._limit_ns is None else self._repeats.standing_ns(self._row)
        if self._limit_ns is None or standing_ns <= self._limit_ns:
            return ""
        return f"its pose has repeated to the bit for {standing_ns / NS_PER_S:.1f} s"
