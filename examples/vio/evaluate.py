"""Error of a VIO's trajectory, in percent of the path.

    python examples/vio/evaluate.py out/vio/flight out/vio/estimate.txt

The truth is a session's folder, a TUM file or an EuRoC ``data.csv``, the estimate a TUM file. The
true positions are interpolated at the estimate's instants, where their rows are at most 20 ms
apart. The estimate is aligned once by heading and position, the four degrees of freedom that a
visual-inertial system cannot observe (Zhang and Scaramuzza, "A tutorial on quantitative trajectory
evaluation for visual(-inertial) odometry", IROS 2018, section III): evo has no such alignment.
"""

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from evo.core import lie_algebra, metrics
from evo.core.trajectory import PoseTrajectory3D
from evo.tools import file_interface

from vil_bridge.core.geometry import Transform, yaw_matrix
from vil_bridge.protocols.euroc import find_mocap
from vil_bridge.world.twin.metrics import heading_alignment

LONGEST_STEP_S = 0.020


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Absolute trajectory error (root mean square, metres), length of the true path, and their
    ratio.
    """

    ate_m: float
    path_m: float
    ate_percent: float
    poses: int


def tum_line(t_ns: int, T: Transform) -> str:
    """Return a pose as the TUM format has it: seconds, position, quaternion x, y, z, w."""
    return (
        f"{t_ns // 10**9}.{t_ns % 10**9:09d} "
        + " ".join(f"{v:.9f}" for v in (*T.p_m, *T.q_xyzw))
        + "\n"
    )


def evaluate(truth: PoseTrajectory3D, estimate: PoseTrajectory3D) -> Accuracy:
    """Associate by time, align by heading and position, compare positions.

    Raises:
        ValueError: no pose of the estimate lies between two of the truth.
    """
    truth, estimate = associated(truth, estimate)
    found = heading_alignment(truth.positions_xyz, estimate.positions_xyz)
    estimate.transform(lie_algebra.se3(yaw_matrix(found.yaw_rad), found.offset_m))
    ape = metrics.APE(metrics.PoseRelation.translation_part)
    ape.process_data((truth, estimate))
    ate_m = float(ape.get_statistic(metrics.StatisticsType.rmse))
    path_m = truth.path_length
    return Accuracy(ate_m, path_m, 100.0 * ate_m / path_m if path_m else math.inf, truth.num_poses)


def associated(
    truth: PoseTrajectory3D, estimate: PoseTrajectory3D
) -> tuple[PoseTrajectory3D, PoseTrajectory3D]:
    """Return both at the estimate's instants that lie between two poses of the truth.

    Attitudes are the next ones.
    """
    t_s = estimate.timestamps
    after = np.clip(np.searchsorted(truth.timestamps, t_s), 1, truth.num_poses - 1)
    first_s, last_s = truth.timestamps[after - 1], truth.timestamps[after]
    inside = (first_s <= t_s) & (t_s <= last_s) & (last_s - first_s <= LONGEST_STEP_S)
    if not inside.any():
        raise ValueError(
            "no pose of the estimate lies between two of the truth: are both stamped by one clock?"
        )
    p_m = np.column_stack(
        [np.interp(t_s[inside], truth.timestamps, axis) for axis in truth.positions_xyz.T]
    )
    estimate.reduce_to_ids(np.flatnonzero(inside))
    return PoseTrajectory3D(p_m, truth.orientations_quat_wxyz[after[inside]], t_s[inside]), estimate


def read(path: Path) -> PoseTrajectory3D:
    """Read a trajectory of any of the formats."""
    if path.is_dir():
        path = find_mocap(path)
    if path.suffix == ".csv":
        return file_interface.read_euroc_csv_trajectory(str(path))
    return file_interface.read_tum_trajectory_file(str(path))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("truth", type=Path)
    parser.add_argument("estimate", type=Path)
    parser.add_argument("--json", action="store_true", help="print them as JSON")
    o = parser.parse_args()
    found = evaluate(read(o.truth), read(o.estimate))
    text = (
        f"ATE {found.ate_m:.3f} m = {found.ate_percent:.2f} % of {found.path_m:.1f} m "
        f"({found.poses} poses)"
    )
    print(json.dumps(asdict(found)) if o.json else text)  # noqa: T201


if __name__ == "__main__":
    main()
