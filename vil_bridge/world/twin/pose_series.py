"""Poses of a body over time, and pairs of two bodies' poses at the same instants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.geometry import q_conj, q_exp, q_log, q_mul, q_normalize
from vil_bridge.core.types import BoolArray, FloatArray

LONGEST_GAP_S: Final = 0.05
"""Between poses that are farther apart nothing is interpolated: the body was not seen there."""


@dataclass(frozen=True, eq=False)
class PoseSeries:
    """Measured poses of a body, times strictly increasing.

    Attributes:
        t_s: shape (n,). p_m: shape (n, 3). q_xyzw: shape (n, 4).

    Raises:
        ValueError: shapes that do not fit, times that do not increase, or a value that is not
            finite.
    """

    t_s: FloatArray
    p_m: FloatArray
    q_xyzw: FloatArray

    def __post_init__(self) -> None:
        n = len(self.t_s)
        if self.t_s.shape != (n,) or self.p_m.shape != (n, 3) or self.q_xyzw.shape != (n, 4):
            raise ValueError(
                f"poses have shapes {self.t_s.shape}, {self.p_m.shape}, {self.q_xyzw.shape}"
            )
        if not all(np.isfinite(values).all() for values in (self.t_s, self.p_m, self.q_xyzw)):
            raise ValueError("poses must be finite")
        if not (np.diff(self.t_s) > 0.0).all():
            raise ValueError(
                "times of poses must strictly increase: leave out those that came late"
            )

    def shifted(self, by_s: float) -> PoseSeries:
        """Return the same poses, ``by_s`` later."""
        return PoseSeries(self.t_s + by_s, self.p_m, self.q_xyzw)

    def known_at(self, t_s: FloatArray, longest_gap_s: float = LONGEST_GAP_S) -> BoolArray:
        """Return True for instants between two poses that are at most ``longest_gap_s`` apart,
        shape of ``t_s``.
        """
        after = np.clip(np.searchsorted(self.t_s, t_s), 1, len(self.t_s) - 1)
        begin = self.t_s[after - 1]
        end = self.t_s[after]
        return np.asarray((begin <= t_s) & (t_s <= end) & (end - begin <= longest_gap_s))

    def positions_at(self, t_s: FloatArray) -> FloatArray:
        """Return positions (n, 3), straight between neighbours, gaps included."""
        return np.column_stack([np.interp(t_s, self.t_s, axis) for axis in self.p_m.T])

    def attitudes_at(self, t_s: FloatArray) -> FloatArray:
        """Return attitudes (n, 4) along the shortest arcs between neighbours, gaps included."""
        after = np.clip(np.searchsorted(self.t_s, t_s), 1, len(self.t_s) - 1)
        begin = self.t_s[after - 1]
        end = self.t_s[after]
        share = np.clip((t_s - begin) / (end - begin), 0.0, 1.0)[:, None]
        q = self.q_xyzw[after - 1]
        return q_normalize(q_mul(q, q_exp(share * q_log(q_mul(q_conj(q), self.q_xyzw[after])))))


class PairedPoses(NamedTuple):
    """Poses of two bodies at the same instants of an even grid.

    Instants in a gap of either are absent.

    Attributes:
        t_s: shape (n,), multiples of ``step_s``. a_m, b_m: shape (n, 3). a_xyzw, b_xyzw: shape (n,
            4).
    """

    step_s: float
    t_s: FloatArray
    a_m: FloatArray
    b_m: FloatArray
    a_xyzw: FloatArray
    b_xyzw: FloatArray

    @property
    def distance_m(self) -> FloatArray:
        """Distances at equal instants, shape (n,)."""
        return np.asarray(np.linalg.norm(self.a_m - self.b_m, axis=1))

    @property
    def angle_rad(self) -> FloatArray:
        """Angles between the attitudes, shape (n,)."""
        return np.asarray(np.linalg.norm(q_log(q_mul(q_conj(self.a_xyzw), self.b_xyzw)), axis=1))


def paired(
    a: PoseSeries, b: PoseSeries, step_s: float, longest_gap_s: float = LONGEST_GAP_S
) -> PairedPoses:
    """Return both at the multiples of ``step_s`` at which both were seen; there may be none."""
    empty = PairedPoses(step_s, *(np.zeros(shape) for shape in (0, (0, 3), (0, 3), (0, 4), (0, 4))))
    if min(len(a.t_s), len(b.t_s)) < 2:
        return empty
    begin_s = max(a.t_s[0], b.t_s[0])
    end_s = min(a.t_s[-1], b.t_s[-1])
    t_s = step_s * np.arange(
        np.ceil(begin_s / step_s - 1e-9), np.floor(end_s / step_s + 1e-9) + 1.0
    )
    t_s = t_s[a.known_at(t_s, longest_gap_s) & b.known_at(t_s, longest_gap_s)]
    if not len(t_s):
        return empty
    return PairedPoses(
        step_s,
        t_s,
        a.positions_at(t_s),
        b.positions_at(t_s),
        a.attitudes_at(t_s),
        b.attitudes_at(t_s),
    )
