"""Curves of a report of races over the progress on the course."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

import numpy as np

from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_bridge.core.types import FloatArray
from vil_bridge.monitoring.report.svg_maps import NARROW
from vil_bridge.monitoring.report.svg_paths import curves, legend
from vil_simulation.race.course_progress import CourseProgress
from vil_simulation.race.flown_tracks import FlownTrack
from vil_simulation.race.race_runs import RaceRun, RunGroup

_MOST_RUNS: Final = 100
"""In a chart of times behind the best run, the best ones."""
_VALUES: Final[tuple[tuple[str, str, Callable[[FlownTrack], FloatArray]], ...]] = (
    ("Speed", "m/s", lambda track: track.speed_mps),
    ("Thrust", "g", lambda track: track.thrust_mps2 / GRAVITY_MPS2),
    ("Roll rate", "deg/s", lambda track: np.degrees(track.w_body_radps[:, 0])),
    ("Pitch rate", "deg/s", lambda track: np.degrees(track.w_body_radps[:, 1])),
    ("Yaw rate", "deg/s", lambda track: np.degrees(track.w_body_radps[:, 2])),
)


def along_course(groups: Sequence[RunGroup]) -> str:
    """Return speed, thrust and rates of the best run of each group, and the time behind the best
    of all.
    """
    bests = [(group, run) for group in groups if (run := best_tracked(group)) is not None]
    progress = progress_of([run for _, run in bests])
    if progress is None:
        return ""
    names = [f"{group.name}, {run.label}" for group, run in bests]
    charts = []
    for title, unit, value in _VALUES:
        of_run = {
            name: progress.values_at(run, value(run.track))
            for name, (_, run) in zip(names, bests, strict=True)
            if run.track
        }
        charts.append(f"<div><h4>{title}, {unit}</h4>{_chart(progress, of_run, unit, title)}</div>")
    if len(bests) > 1:
        behind = _behind(progress, dict(zip(names, (run for _, run in bests), strict=True)))
        title = "Time behind the best run of all"
        charts.append(f"<div><h4>{title}, s</h4>{_chart(progress, behind, 's', title)}</div>")
    return (
        "<h3>Over the course: the best run of each group</h3>"
        f'{legend(names)}<div class="charts">{"".join(charts)}</div>'
        '<p class="soft">Metres along the best run of all; upright lines are gates. '
        "Thrust: specific force along the"
        " body's z.</p>"
    )


def behind_best(groups: Sequence[RunGroup]) -> str:
    """Return the time of all runs of each group behind its best run, along the course."""
    charts = []
    for group in groups:
        best = best_tracked(group)
        progress = progress_of([] if best is None else [best])
        runs = {run.label: run for run in group.ranked if run.track is not None}
        if progress is None or len(runs) < 2:
            continue
        behind = _behind(progress, dict(list(runs.items())[:_MOST_RUNS]))
        title = f"{group.name}: {len(behind)} runs"
        charts.append(
            f'<div class="plain"><h4>{escape(title)}</h4>'
            f"{_chart(progress, behind, 's', title)}</div>"
        )
    if not charts:
        return ""
    return (
        "<h3>Time behind the best run of the group, along the course</h3><div "
        f'class="charts">{"".join(charts)}</div>'
    )


def best_tracked(group: RunGroup) -> RaceRun | None:
    """Return the best run with a track; None = there is none."""
    return next((run for run in group.ranked if run.track is not None), None)


def progress_of(runs: Sequence[RaceRun]) -> CourseProgress | None:
    """Return the progress along the best of runs; None = none of them moves."""
    for run in sorted(runs, key=lambda run: run.episode.rank):
        try:
            return CourseProgress(run)
        except ValueError:
            continue
    return None


def _behind(progress: CourseProgress, runs: dict[str, RaceRun]) -> dict[str, FloatArray]:
    reference = progress.times_at(progress.reference)
    return {name: progress.times_at(run) - reference for name, run in runs.items()}


def _chart(progress: CourseProgress, values: dict[str, FloatArray], unit: str, title: str) -> str:
    marks = [(str(number + 1), at) for number, at in progress.gates_m.items()]
    return curves(
        progress.grid_m,
        values,
        unit,
        title,
        longest_step=1.0,
        x_unit="m",
        marks=marks,
        width=NARROW,
        height=210,
    )
