"""Tables of a report of races: summary, laps and splits, crossings.

As rows, and as CSV files next to the page.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_simulation.race.race_runs import RaceRun, RunGroup
from vil_simulation.race.results import BEST

_Row = Sequence[Any]


class GroupSummary(NamedTuple):
    """Figures of a group's runs.

    Attributes:
        best_s, mean_s, deviation_s: of the times of completed runs, with penalties; None = too few.
        score_mean, score_deviation: of all runs. best_mean: of the best five scores.

    Deviations are those of a sample (n - 1).
    """

    runs: int
    completed: int
    best_s: float | None
    mean_s: float | None
    deviation_s: float | None
    score_mean: float
    score_deviation: float | None
    best_mean: float


def summary_of(group: RunGroup) -> GroupSummary:
    """Return the figures of a group."""
    times = np.array([run.total_s for run in group.completed])
    scores = np.array([run.episode.score for run in group.runs])
    best_s: float | None = None
    mean_s: float | None = None
    if len(times):
        best_s = float(times.min())
        mean_s = float(times.mean())
    return GroupSummary(
        len(group.runs),
        len(times),
        best_s,
        mean_s,
        _deviation(times),
        float(scores.mean()),
        _deviation(scores),
        float(np.sort(scores)[::-1][:BEST].mean()),
    )


def _deviation(values: FloatArray) -> float | None:
    """Return the sample deviation; None of less than two values."""
    if len(values) > 1:
        return float(values.std(ddof=1))
    return None


class LapRow(NamedTuple):
    """One lap of a run.

    Attributes:
        splits_s: by gate of the lap, since the gate before; None = not passed.
        lap_s: of a complete lap. total_s: time of the race at its end, with penalties, in the row
            of the last lap.
    """

    run: RaceRun
    lap: int
    splits_s: tuple[float | None, ...]
    lap_s: float | None
    total_s: float | None


def lap_gates(course: Course) -> list[str]:
    """Return the names of the gates that end the splits of a lap.

    With a flying start the first gate is the last.
    """
    order = [course.gates[index].name for index in course.order]
    if _first_split(course):
        return order[1:] + order[:1]
    return order


def _first_split(course: Course) -> int:
    return int(course.rules.clock == "first_gate")


def lap_rows(run: RaceRun) -> list[LapRow]:
    """Return a run's laps that were begun; one at least."""
    count = len(run.course.order)
    first = _first_split(run.course)
    episode = run.episode
    splits = {gate.number: gate.split_s for gate in episode.gates}
    laps = {lap.lap: lap.lap_s for lap in episode.laps}
    begun = max(max(splits, default=0) - first, 0) // count + 1
    rows = []
    for number in range(begun):
        of_lap = tuple(splits.get(number * count + first + k) for k in range(count))
        total_s = run.total_s if run.finished and number == begun - 1 else None
        rows.append(LapRow(run, number + 1, of_lap, laps.get(number + 1), total_s))
    return rows


# --- files ----------------------------------------------------------------------------------------

_SUMMARY: Final = ("course", "group", *GroupSummary._fields)
_LAPS: Final = (
    *("course", "group", "run", "ended", "what", "gates_passed", "time_s", "penalty_s", "score"),
    *("number", "gate", "lap", "race_s", "split_s", "lap_s"),
)
_CROSSINGS: Final = (
    "course",
    "group",
    "run",
    "number",
    "gate",
    "lap",
    "race_s",
    "y_m",
    "z_m",
    "speed_mps",
)


def table_files(groups: Sequence[RunGroup], page: Path) -> dict[Path, str]:
    """Return the texts of the CSV files next to a page, by file."""
    tables = (
        ("summary", _SUMMARY, ((g.course.name, g.name, *summary_of(g)) for g in groups)),
        ("laps", _LAPS, _lap_lines(groups)),
        ("crossings", _CROSSINGS, _crossing_lines(groups)),
    )
    return {
        page.with_name(f"{page.stem}_{name}.csv"): _text(head, rows) for name, head, rows in tables
    }


def _lap_lines(groups: Sequence[RunGroup]) -> Iterator[_Row]:
    """Yield a line for each gate passed, and one without a gate for a run that passed none."""
    for group in groups:
        for run in group.runs:
            one = run.episode
            laps = {lap.t_ns: lap.lap_s for lap in one.laps}
            head = group.course.name, group.name, run.label, one.ended, one.what, one.passed
            figures = one.time_s, one.penalty_s, one.score
            for gate in one.gates:
                passed = (
                    gate.number + 1,
                    gate.gate,
                    gate.lap,
                    gate.race_s,
                    gate.split_s,
                    laps.get(gate.t_ns),
                )
                yield *head, *figures, *passed
            if not one.gates:
                yield *head, *figures, *(None,) * 6


def _crossing_lines(groups: Sequence[RunGroup]) -> Iterator[_Row]:
    for group in groups:
        for run in group.runs:
            for gate in run.episode.gates:
                place = gate.race_s, gate.y_m, gate.z_m, gate.speed_mps
                yield (
                    group.course.name,
                    group.name,
                    run.label,
                    gate.number + 1,
                    gate.gate,
                    gate.lap,
                    *place,
                )


def _text(head: _Row, rows: Iterator[_Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_rounded(value) for value in row])
    return out.getvalue()


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    return value
