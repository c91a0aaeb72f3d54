"""Errors of one path against another that need all of both.

Dynamic time warping and relative errors by length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_conj, q_mul, q_rotate, q_to_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.world.twin.pose_series import PairedPoses

_FRACTIONS: Final = (0.1, 0.2, 0.3, 0.4, 0.5)
_MOST_STARTS: Final = 1000


class WarpedDistance(NamedTuple):
    """Dynamic time warping of two paths.

    Attributes:
        sum_m: least sum of distances over all monotone alignments. pairs: in the alignment that has
            it.
    """

    sum_m: float
    pairs: int

    @property
    def mean_m(self) -> float:
        """Sum over the number of pairs."""
        return self.sum_m / self.pairs


def warped_distance(a_m: FloatArray, b_m: FloatArray) -> WarpedDistance:
    """Align two paths (n, d), (m, d) with steps (1, 0), (0, 1), (1, 1) and Euclidean cost.

    O(n m) time and memory.

    Raises:
        ValueError: a path is empty.
    """
    n = len(a_m)
    m = len(b_m)
    if not n or not m:
        raise ValueError("dynamic time warping needs a point on either side")
    # Step into a cell: 0 = diagonal, 1 = from the row above, 2 = from the left.
    origin = np.zeros((n, m), np.int8)
    # Cells of one anti-diagonal i + j do not depend on each other; index i + 1, the border is
    # infinite.
    last = np.full(n + 1, np.inf)
    before = np.full(n + 1, np.inf)
    for diagonal in range(n + m - 1):
        i = np.arange(max(0, diagonal - m + 1), min(n, diagonal + 1))
        j = diagonal - i
        ways = np.stack((before[i], last[i], last[i + 1]))
        step = ways.argmin(axis=0)
        origin[i, j] = step
        here = np.full(n + 1, np.inf)
        cost = np.linalg.norm(a_m[i] - b_m[j], axis=1)
        if diagonal:
            cost = cost + ways[step, np.arange(len(i))]
        here[i + 1] = cost
        last, before = here, last
    return WarpedDistance(float(last[n]), _pairs(origin))


def _pairs(origin: npt.NDArray[np.int8]) -> int:
    """Return the length of the alignment, from its end."""
    i = origin.shape[0] - 1
    j = origin.shape[1] - 1
    pairs = 1
    while i or j:
        step = 2
        if i and j:
            step = int(origin[i, j])
        elif i:
            step = 1
        i = i - (step != 2)
        j = j - (step != 1)
        pairs += 1
    return pairs


class RelativeErrors(NamedTuple):
    """Errors of the relative pose over stretches of one travelled length.

    KITTI; Geiger et al. 2012.

    Attributes:
        length_m: of ``a``'s path. translation_m, yaw_deg: shape (k,), of k stretches.
    """

    length_m: float
    translation_m: FloatArray
    yaw_deg: FloatArray


def relative_errors(poses: PairedPoses, lengths_m: Sequence[float] = ()) -> list[RelativeErrors]:
    """Return the errors of ``b`` against ``a``, by length; lengths with no stretch are absent.

    Args:
        poses: of both, in one frame or not.
        lengths_m: empty = 10, 20, ... 50 % of the whole. A stretch does not cross a gap.
    """
    if len(poses.t_s) < 2:
        return []
    steps_m = np.linalg.norm(np.diff(poses.a_m, axis=0), axis=1)
    gaps = np.concatenate(([0], np.cumsum(np.diff(poses.t_s) > 1.5 * poses.step_s)))
    steps_m[np.diff(gaps) > 0] = 0.0
    travelled_m = np.concatenate(([0.0], np.cumsum(steps_m)))
    wanted = lengths_m or [share * float(travelled_m[-1]) for share in _FRACTIONS]
    found = [
        _stretches(poses, travelled_m, gaps, length_m) for length_m in wanted if length_m > 0.0
    ]
    return [errors for errors in found if len(errors.yaw_deg)]


def _stretches(
    poses: PairedPoses, travelled_m: FloatArray, gaps: npt.NDArray[np.int64], length_m: float
) -> RelativeErrors:
    begin = np.arange(0, len(travelled_m), math.ceil(len(travelled_m) / _MOST_STARTS))
    end = np.searchsorted(travelled_m, travelled_m[begin] + length_m)
    inside = end < len(travelled_m)
    begin = begin[inside]
    end = end[inside]
    whole = gaps[begin] == gaps[end]
    begin = begin[whole]
    end = end[whole]
    moved = []
    for p_m, q in ((poses.a_m, poses.a_xyzw), (poses.b_m, poses.b_xyzw)):
        back = q_conj(q[begin])
        moved.append((q_rotate(back, p_m[end] - p_m[begin]), q_mul(back, q[end])))
    (a_m, a_q), (b_m, b_q) = moved
    # The error E = inverse(A) B has the translation R_A^T (b - a) and the rotation R_A^T R_B.
    turns = q_mul(q_conj(a_q), b_q)
    yaw_deg = np.degrees(np.abs([q_to_euler_zyx(turn)[0] for turn in turns]))
    return RelativeErrors(
        length_m, np.asarray(np.linalg.norm(b_m - a_m, axis=1)), np.asarray(yaw_deg)
    )
