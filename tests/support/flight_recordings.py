"""Judge of stated uncertainty on recordings.

Poses of mocap that were held back, and the filter's innovations.

The region of a held-back pose is that of the estimate and of mocap's own noise, both as the filter
states them.

``python -m tests.support.flight_recordings`` prints the figures of the recordings under
VIL_TEST_DATA.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from tests.support.common import data_dir
from tests.support.flight_judge import autocorrelation
from vil_benchmarks.recordings import (
    EPOCH_NS,
    BenchRecording,
    played,
    recorded_actor,
    recorded_world,
)
from vil_bridge.core.geometry import q_conj, q_log, q_mul

__all__ = ["AHEAD_MS", "RECORDED", "HeldBack", "held_back"]

AHEAD_MS: Final = (0, 50, 100)
"""From the newest pose that the filter has; 0 is the very next one."""
RECORDED: Final = ("broad_07_fast_rotation", "broad_12_slow_translation")
_POSE: Final = [0, 1, 2, 6, 7, 8]
_WITHIN: Final = float(chi2.ppf(0.95, 6))


@dataclass(frozen=True, slots=True, eq=False)
class HeldBack:
    """Figures of one recording.

    Attributes:
        within: by :data:`AHEAD_MS`: share of the poses within the stated 95 % region.
        squared: by the same: mean of the squared error over its covariance, over its dimension.
        autocorrelation: shape (20,), of the innovations at lags 1 to 20.
    """

    within: dict[int, float]
    squared: dict[int, float]
    autocorrelation: npt.NDArray[np.float64]


def held_back(name: str, first: int, rows: int, every: int = 10) -> HeldBack:
    """Play a piece of a recording, whose IMU is there up to the pose asked for, and judge from
    ``first`` on.
    """
    recording = BenchRecording.load(data_dir(name))
    world = recorded_world(recorded_actor("body", "imu"))
    predictor = world.predictor("body")
    assert predictor is not None
    squared: dict[int, list[float]] = {ahead_ms: [] for ahead_ms in AHEAD_MS}
    whitened = []
    for row, t_ns in played(recording, world, max(AHEAD_MS) * 1_000_000):
        innovation = predictor.body.innovation
        if row >= first and innovation is not None:
            whitened.append(np.linalg.solve(np.linalg.cholesky(innovation.S), innovation.residual))
        if row >= first and row % every == 0:
            for ahead_ms, found in squared.items():
                after = int(np.searchsorted(recording.t_ns, t_ns + max(1, ahead_ms * 1_000_000)))
                motion = world.motion_at("body", EPOCH_NS + int(recording.t_ns[after]))
                assert motion.method == "inertial" and motion.covariance is not None
                turn_rad = q_log(q_mul(q_conj(motion.T_world_body.q_xyzw), recording.q_xyzw[after]))
                e = np.concatenate((turn_rad, recording.p_m[after] - motion.T_world_body.p_m))
                region = motion.covariance[np.ix_(_POSE, _POSE)] + np.diag(
                    predictor.body.mocap.variances
                )
                found.append(float(e @ np.linalg.solve(region, e)))
        if row == first + rows:
            break
    return HeldBack(
        {
            ahead_ms: float((np.array(found) <= _WITHIN).mean())
            for ahead_ms, found in squared.items()
        },
        {ahead_ms: float(np.mean(found)) / len(_POSE) for ahead_ms, found in squared.items()},
        autocorrelation([np.array(whitened)]),
    )


if __name__ == "__main__":
    for name in RECORDED:
        found = held_back(name, 1500, 6000)
        sys.stdout.write(
            f"{name}: within the 95 % region {found.within}, squared over dimension "
            f"{found.squared}\n"
        )
        sys.stdout.write(
            "  autocorrelation: " + " ".join(f"{r:.2f}" for r in found.autocorrelation) + "\n"
        )
