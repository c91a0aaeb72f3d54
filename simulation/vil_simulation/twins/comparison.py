"""Comparison of two recorded paths: a vehicle and its twin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray
from vil_bridge.world.twin.metrics import (
    Delay,
    HeadingAlignment,
    delay_of,
    hausdorff_m,
    heading_alignment,
    rms,
)
from vil_bridge.world.twin.pose_series import LONGEST_GAP_S, PairedPoses, PoseSeries, paired
from vil_simulation.dataset.plan import RecordedPath
from vil_simulation.dataset.recorded_trajectory import recorded_poses
from vil_simulation.twins.path_errors import (
    RelativeErrors,
    WarpedDistance,
    relative_errors,
    warped_distance,
)

Alignment = Literal["none", "posyaw"]
ClockPolicy = Literal["same", "start"]

STEP_S: Final = 0.01
_MOST_WARPED: Final = 1500
_LEAST_PAIRS: Final = 10


@dataclass(frozen=True, slots=True)
class TwinPath:
    """A recorded path.

    Attributes:
        file: the recording. name: of the body. poses: times from the zero that both paths share.
    """

    file: Path
    name: str
    poses: PoseSeries


@dataclass(frozen=True, slots=True)
class TwinComparison:
    """Two paths and their distances.

    Attributes:
        a, b: as recorded. alignment: of b; aligned: what it did, None = nothing.
        delay: of b behind a; None where it is not known.
        equal: poses at equal instants, b aligned. undelayed: likewise with the delay removed before
            the alignment.
        hausdorff_m: of the points of ``undelayed``. warped: of a thinned set of the same.
        relative: errors by travelled length, of ``undelayed``.
    """

    a: TwinPath
    b: TwinPath
    alignment: Alignment
    aligned: HeadingAlignment | None
    delay: Delay | None
    equal: PairedPoses
    undelayed: PairedPoses
    hausdorff_m: float
    warped: WarpedDistance
    relative: list[RelativeErrors]


def read_paths(
    first: tuple[Path, str], second: tuple[Path, str], clock: ClockPolicy
) -> tuple[TwinPath, TwinPath]:
    """Read two recorded bodies.

    Args:
        first: file and body; an empty name = the first body of the file.
        second: likewise.
        clock: ``same`` = both have stamps of one clock; ``start`` = each counts from its first
            pose.

    Raises:
        ConfigError: a file cannot be read, holds no such body, or never saw it twice.
        RecordingError: likewise, of our own recordings.
    """
    seen = [recorded_poses(RecordedPath(file=file, subject=name)) for file, name in (first, second)]
    begin_ns = [int(poses.t_ns[0]) for poses in seen]
    origins_ns = begin_ns if clock == "start" else [min(begin_ns)] * 2
    paths = []
    for (file, _), poses, origin_ns in zip((first, second), seen, origins_ns, strict=True):
        new = np.concatenate(([True], np.diff(np.maximum.accumulate(poses.t_ns)) > 0))
        t_s = (poses.t_ns[new] - origin_ns) / NS_PER_S
        paths.append(TwinPath(file, poses.name, PoseSeries(t_s, poses.p_m[new], poses.q_xyzw[new])))
    return paths[0], paths[1]


def compare(
    a: TwinPath, b: TwinPath, alignment: Alignment = "none", longest_delay_s: float = 0.5
) -> TwinComparison:
    """Compare ``b`` with ``a``.

    Args:
        a: the vehicle.
        b: its twin.
        alignment: ``none`` = both are in one frame, ``posyaw`` = b is turned about the vertical and
            shifted first.
        longest_delay_s: of the search to either side; 0 = the delay is not looked for.

    Raises:
        ConfigError: the two have hardly an instant in common.
    """
    one = a.poses
    other = b.poses
    delay: Delay | None = None
    shift_s = 0.0
    if longest_delay_s:
        delay = delay_of(one, other, longest_delay_s, same_frame=alignment == "none")
    if delay is not None:
        shift_s = -delay.delay_s
    undelayed = _paired(a, b, shift_s)
    aligned = heading_alignment(undelayed.a_m, undelayed.b_m) if alignment == "posyaw" else None
    if aligned is not None:
        b_aligned = TwinPath(b.file, b.name, aligned.poses(other))
        undelayed = _paired(a, b_aligned, shift_s)
        equal = _paired(a, b_aligned, 0.0)
    else:
        equal = _paired(a, b, 0.0)
    thin = slice(None, None, math.ceil(len(undelayed.t_s) / _MOST_WARPED))
    return TwinComparison(
        a,
        b,
        alignment,
        aligned,
        delay,
        equal,
        undelayed,
        hausdorff_m(undelayed.a_m, undelayed.b_m),
        warped_distance(undelayed.a_m[thin], undelayed.b_m[thin]),
        relative_errors(undelayed),
    )


def _paired(a: TwinPath, b: TwinPath, shift_s: float) -> PairedPoses:
    both = paired(a.poses, b.poses.shifted(shift_s), STEP_S, longest_gap_s=_longest_gap_s(a, b))
    if len(both.t_s) < _LEAST_PAIRS:
        (begin_a, end_a), (begin_b, end_b) = (
            (path.poses.t_s[0], path.poses.t_s[-1]) for path in (a, b)
        )
        raise ConfigError(
            f"{a.file} ({begin_a:.1f} to {end_a:.1f} s) and {b.file} ({begin_b:.1f} to "
            f"{end_b:.1f} s) have hardly an "
            "instant in common. Set --clock start if both began together, each by its own clock"
        )
    return both


def _longest_gap_s(a: TwinPath, b: TwinPath) -> float:
    """Return the longest time between poses that may be interpolated.

    Slow recordings have no gap at every step.
    """
    usual = max(float(np.median(np.diff(path.poses.t_s))) for path in (a, b))
    return max(LONGEST_GAP_S, 2.5 * usual)


def statistics(values: FloatArray) -> dict[str, float]:
    """Return root mean square, median, 95 % and largest of values (n,)."""
    return {
        "rms": rms(values),
        "median": float(np.median(values)),
        "p95": float(np.percentile(values, 95)),
        "max": float(values.max()),
    }


def figures_of_twin(found: TwinComparison) -> dict[str, Any]:
    """Return the figures as JSON values; lengths in metres, angles in degrees, times in seconds."""
    yaw_deg: float | None = None
    offset_m: list[float] | None = None
    if found.aligned is not None:
        yaw_deg = math.degrees(found.aligned.yaw_rad)
        offset_m = found.aligned.offset_m.tolist()
    delay_s: float | None = None
    correlation: float | None = None
    if found.delay is not None:
        delay_s = found.delay.delay_s
        correlation = found.delay.correlation
    return {
        "a": {"file": str(found.a.file), "body": found.a.name, "poses": len(found.a.poses.t_s)},
        "b": {"file": str(found.b.file), "body": found.b.name, "poses": len(found.b.poses.t_s)},
        "alignment": found.alignment,
        "yaw_deg": yaw_deg,
        "offset_m": offset_m,
        "compared_s": STEP_S * len(found.equal.t_s),
        "path_m": float(_path_m(found.undelayed)),
        "delay_s": delay_s,
        "delay_correlation": correlation,
        "equal_instants": _errors(found.equal),
        "delay_removed": _errors(found.undelayed),
        "hausdorff_m": found.hausdorff_m,
        "dtw": {
            "sum_m": found.warped.sum_m,
            "pairs": found.warped.pairs,
            "mean_m": found.warped.mean_m,
        },
        "relative": [
            {
                "length_m": errors.length_m,
                "stretches": len(errors.yaw_deg),
                "translation_m": statistics(errors.translation_m),
                "yaw_deg": statistics(errors.yaw_deg),
            }
            for errors in found.relative
        ],
    }


def figure_lines(found: TwinComparison) -> list[str]:
    """Return the main figures as text."""
    figures = figures_of_twin(found)
    equal = figures["equal_instants"]
    undelayed = figures["delay_removed"]
    delay = "not known" if found.delay is None else f"{1e3 * found.delay.delay_s:.1f} ms"
    return [
        f"{found.b.name} against {found.a.name}: {figures['compared_s']:.1f} s, alignment "
        f"{found.alignment}",
        f"  delay                       {delay}",
        f"  position RMS                {equal['position_m']['rms']:.4f} m",
        f"  position RMS, delay removed {undelayed['position_m']['rms']:.4f} m",
        f"  attitude RMS, delay removed {undelayed['attitude_deg']['rms']:.3f} deg",
        f"  Hausdorff                   {found.hausdorff_m:.4f} m",
        f"  time warping, per pair      {found.warped.mean_m:.4f} m",
    ]


def _errors(poses: PairedPoses) -> dict[str, Any]:
    return {
        "position_m": statistics(poses.distance_m),
        "offset_m": (poses.b_m - poses.a_m).mean(axis=0).tolist(),
        "attitude_deg": statistics(np.degrees(poses.angle_rad)),
    }


def _path_m(poses: PairedPoses) -> float:
    """Return the travelled length of ``a``, without the steps over gaps."""
    inside = np.diff(poses.t_s) < 1.5 * poses.step_s
    return float(np.linalg.norm(np.diff(poses.a_m, axis=0), axis=1)[inside].sum())
