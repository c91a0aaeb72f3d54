"""Poses and inertial samples on one even grid, without bridging gaps.

What hand-eye calibration works on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.interpolate import CubicSpline

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_normalize
from vil_bridge.core.types import FloatArray
from vil_bridge.setup.align.segmentation import CalibrationError, ImuTrack, PoseTrack

STEP_S: Final = 0.005
LARGEST_OFFSET_S: Final = 0.5
_GAP_S: Final = 0.05
_SHORTEST_S: Final = 0.5
_LEAST_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Uninterrupted tracking on the grid.

    Attributes:
        t_s: shape (n,), even. p_room_m: shape (n, 3). q_room_markers: shape (n, 4).
    """

    t_s: FloatArray
    p_room_m: FloatArray
    q_room_markers: FloatArray


@dataclass(frozen=True, slots=True)
class Samples:
    """Both sensors.

    The IMU keeps its own stamps, since the offset between the clocks is to be found.

    Attributes:
        imu_t_s: shape (k,). imu: shape (k, 6), angular rate and specific force.
    """

    stretches: tuple[Stretch, ...]
    imu_t_s: FloatArray
    imu: FloatArray

    def imu_at(self, stretch: Stretch, offset_s: float) -> FloatArray:
        """Return the angular rate and specific force (n, 6) at the grid, ``offset_s`` later in
        the IMU's stamps.
        """
        t_s = stretch.t_s + offset_s
        return np.stack([np.interp(t_s, self.imu_t_s, column) for column in self.imu.T], axis=1)


def resample(poses: PoseTrack, imu: ImuTrack) -> Samples:
    """Cut the poses at their gaps and put them on the grid; cubic in position and quaternion.

    Raises:
        CalibrationError: fewer than five seconds in which both sensors speak.
    """
    if len(poses) < 2 or len(imu.t_ns) < 2:
        raise CalibrationError(
            "no poses or no inertial samples were received: are both sources running?"
        )
    t0_ns = int(poses.t_ns[0])
    t_s, imu_t_s = ((t_ns - t0_ns) / NS_PER_S for t_ns in (poses.t_ns, imu.t_ns))
    inside = (t_s >= imu_t_s[0] + LARGEST_OFFSET_S) & (t_s <= imu_t_s[-1] - LARGEST_OFFSET_S)
    rows = np.flatnonzero(inside & np.concatenate(([True], np.diff(t_s) > 0.0)))
    cuts = np.flatnonzero(np.diff(t_s[rows]) > _GAP_S) + 1
    stretches = tuple(
        _stretch(t_s[part], poses.p_room_m[part], poses.q_room_markers[part])
        for part in np.split(rows, cuts)
        if len(part) > 4 and t_s[part[-1]] - t_s[part[0]] > _SHORTEST_S
    )
    seconds = sum(len(s.t_s) for s in stretches) * STEP_S
    if seconds < _LEAST_S:
        raise CalibrationError(
            f"only {seconds:.0f} s of uninterrupted poses with inertial samples; "
            f"at least {_LEAST_S:.0f} s are wanted, a minute is good"
        )
    return Samples(stretches, imu_t_s, np.concatenate((imu.w_radps, imu.f_mps2), axis=1))


def _stretch(t_s: FloatArray, p_m: FloatArray, q_xyzw: FloatArray) -> Stretch:
    grid = np.arange(t_s[0], t_s[-1], STEP_S)
    flips = np.cumprod(
        np.concatenate(([1.0], np.where((q_xyzw[1:] * q_xyzw[:-1]).sum(axis=1) < 0.0, -1.0, 1.0)))
    )
    q_grid = q_normalize(CubicSpline(t_s, q_xyzw * flips[:, None])(grid))
    return Stretch(grid, CubicSpline(t_s, p_m)(grid), q_grid)
