"""Report of a comparison.

One page of HTML with vector graphics, light and dark, without scripts.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.monitoring.report.page import html_page
from vil_bridge.monitoring.report.svg_charts import histogram
from vil_bridge.monitoring.report.svg_paths import boxes, curves, legend, overlay
from vil_bridge.world.twin.metrics import Delay
from vil_bridge.world.twin.pose_series import PairedPoses
from vil_simulation.twins.comparison import TwinComparison, figures_of_twin, statistics

_ALIGNMENTS: Final = {
    "none": "Both in one frame, no alignment.",
    "posyaw": "The twin is aligned by heading and position.",
}


def twin_page(found: TwinComparison) -> str:
    """Return the page."""
    a, b = (escape(_title(found, side)) for side in "ab")
    parts = (
        _summary(found),
        _table(found),
        _paths(found),
        _over_time(found),
        _distribution(found),
        _relative(found),
    )
    return html_page(f"Twin {b} against {a}", "".join(parts))


def _title(found: TwinComparison, side: str) -> str:
    path = found.a if side == "a" else found.b
    return path.name if found.a.name != found.b.name else f"{path.name} ({path.file.name})"


def _delay(delay: Delay) -> str:
    side = "early"
    if delay.delay_s >= 0:
        side = "late"
    return (
        f"The twin is {1e3 * abs(delay.delay_s):.1f} ms {side} "
        f"(correlation of velocities {delay.correlation:.4f})."
    )


def _summary(found: TwinComparison) -> str:
    figures = figures_of_twin(found)
    files = f"{escape(str(found.a.file))} and {escape(str(found.b.file))}"
    late = "The delay is not known: there is too little motion or overlap."
    if found.delay is not None:
        late = _delay(found.delay)
    return (
        f'<p class="soft">{files}. '
        f"{_ALIGNMENTS[found.alignment]}</p><p>{figures['compared_s']:.1f} s compared,"
        f" {figures['path_m']:.1f} m of path; gaps of either are cut. {late}</p>"
    )


def _table(found: TwinComparison) -> str:
    figures = figures_of_twin(found)
    rows = "".join(
        _row(f"{name}, {when}", errors[key], unit, digits)
        for when, errors in (
            ("equal instants", figures["equal_instants"]),
            ("delay removed", figures["delay_removed"]),
        )
        for name, key, unit, digits in (
            ("position", "position_m", "m", 4),
            ("attitude", "attitude_deg", "deg", 3),
        )
    )
    dtw = figures["dtw"]
    return (
        "<h2>Distances</h2><table><tr><th></th><th>RMS</th><th>median</th><th>95 "
        "%</th><th>max</th><th></th></tr>"
        f"{rows}</table><p>Symmetric Hausdorff distance {found.hausdorff_m:.4f} m; time "
        "does not count in it, and it is"
        " the distance of the farthest point. Dynamic time warping"
        f" {dtw['mean_m']:.4f} m per pair ({dtw['pairs']} pairs).</p>"
    )


def _row(name: str, values: dict[str, Any], unit: str, digits: int) -> str:
    cells = "".join(f"<td>{values[key]:.{digits}f}</td>" for key in ("rms", "median", "p95", "max"))
    return f"<tr><td>{name}</td>{cells}<td>{unit}</td></tr>"


def _pieces(poses: PairedPoses, p_m: FloatArray) -> list[FloatArray]:
    """Return points (n, k) in pieces without gaps."""
    return np.split(p_m, np.flatnonzero(np.diff(poses.t_s) > 1.5 * poses.step_s) + 1)


def _paths(found: TwinComparison) -> str:
    poses = found.undelayed
    names = [_title(found, "a"), f"{_title(found, 'b')} (twin)"]
    drawn = f"<h2>Paths</h2>{legend(names)}"
    for title, axes, units in (
        ("From above", [0, 1], ("x, m", "y, m")),
        ("From the side", [0, 2], ("x, m", "z, m")),
    ):
        paths = {
            n: _pieces(poses, p[:, axes])
            for n, p in zip(names, (poses.a_m, poses.b_m), strict=True)
        }
        drawn += f"<h3>{title}; equal axes</h3>{overlay(paths, units, title)}"
    return drawn


def _over_time(found: TwinComparison) -> str:
    equal = found.equal
    undelayed = found.undelayed
    begin_s = equal.t_s[0]
    gap_s = 1.5 * equal.step_s
    distance = {"equal instants": equal.distance_m}
    drawn = "<h2>Over time</h2><h3>Distance at equal instants</h3>"
    drawn += curves(
        equal.t_s - begin_s, distance, "m", "distance at equal instants", longest_step=gap_s
    )
    t_s = undelayed.t_s - undelayed.t_s[0]
    offsets = dict(zip("xyz", (undelayed.b_m - undelayed.a_m).T, strict=True))
    for title, values, unit in (
        ("Distance with the delay removed", {"distance": undelayed.distance_m}, "m"),
        ("Offset of the twin by axis, delay removed", offsets, "m"),
        (
            "Angle between the attitudes, delay removed",
            {"angle": np.degrees(undelayed.angle_rad)},
            "deg",
        ),
    ):
        names = legend(list(values)) if len(values) > 1 else ""
        drawn += f"<h3>{title}</h3>{names}{curves(t_s, values, unit, title, longest_step=gap_s)}"
    return drawn


def _distribution(found: TwinComparison) -> str:
    charts = []
    for when, poses in (("equal instants", found.equal), ("delay removed", found.undelayed)):
        values = statistics(poses.distance_m)
        marks = [("median", values["median"]), ("95 %", values["p95"])]
        drawn = histogram(poses.distance_m, "s0", f"distances, {when}", marks, unit="m")
        charts.append(f"<div><h4>Distance, {when}</h4>{drawn}</div>")
    return f'<h2>Distribution; lines at 50 and 95 %</h2><div class="grid3">{"".join(charts)}</div>'


def _relative(found: TwinComparison) -> str:
    if not found.relative:
        return ""
    translation = [
        (f"{e.length_m:.3g} m", 100.0 * e.translation_m / e.length_m) for e in found.relative
    ]
    yaw = [(f"{e.length_m:.3g} m", e.yaw_deg) for e in found.relative]
    return (
        "<h2>Relative errors by travelled length</h2><p>Boxes from quartile to quartile "
        "with the median, lines from 5"
        " to 95 %.</p><h3>Translation, % of the "
        f"length</h3>{boxes(translation, '%', 'relative translation error')}"
        f"<h3>Heading</h3>{boxes(yaw, 'deg', 'relative heading error')}"
    )
