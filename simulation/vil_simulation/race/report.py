"""Report of races: one page of HTML with vector graphics, light and dark, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

import numpy as np

from vil_bridge.monitoring.report.page import html_page
from vil_bridge.monitoring.report.svg_maps import means, shades_legend, shares
from vil_simulation.race.race_runs import RunGroup
from vil_simulation.race.report_curves import along_course, behind_best
from vil_simulation.race.report_maps import (
    bare_map,
    crash_map,
    end_of,
    gate_planes,
    map_of_tracks,
)
from vil_simulation.race.report_tables import LapRow, lap_gates, lap_rows, summary_of
from vil_simulation.race.results import BEST

_MOST_RUNS: Final = 50
"""In a table of laps, the best ones."""


def race_page(groups: Sequence[RunGroup]) -> str:
    """Return the page.

    Args:
        groups: of one course or of several, with one run at least each.
    """
    courses: dict[tuple[str, tuple[str, ...]], list[RunGroup]] = {}
    for group in groups:
        courses.setdefault((group.course.name, tuple(lap_gates(group.course))), []).append(group)
    names = dict.fromkeys(escape(name) for name, _ in courses)
    sections = "".join(_course(of_course) for of_course in courses.values())
    return html_page(f"Races: {', '.join(names)}", _summary(groups) + sections)


def _summary(groups: Sequence[RunGroup]) -> str:
    one = len({group.course.name for group in groups}) == 1
    named = ["runs"]
    if not one:
        named.append("course")
    head = (*named, "completed", "best, s", "mean, s", "score", f"best {BEST}")
    rows = "".join(_summary_row(group, one=one) for group in groups)
    titled = {
        group.name if one else f"{group.course.name}, {group.name}": group for group in groups
    }
    completed = [(title, len(group.completed), len(group.runs)) for title, group in titled.items()]
    times = []
    scores = []
    for title, group in titled.items():
        times.append((title, np.array([run.total_s for run in group.completed])))
        scores.append((title, np.array([run.episode.score for run in group.runs])))
    return (
        f'<h2>Results</h2><div class="scroll"><table>{_row(head)}{rows}</table></div>'
        '<p class="soft">Times are of completed runs, with penalties. Score: 10 points a '
        "gate minus time and penalties"
        f" of collisions, 0 unless completed. Best {BEST}: mean of the best {BEST} "
        "scores. &#177; sample deviation.</p>"
        '<div class="charts"><div><h4>Completed '
        f"runs</h4>{shares(completed, 'completed runs')}</div>"
        "<div><h4>Times of completed runs, mean and "
        f"deviation</h4>{means(times, 's', 'times')}</div>"
        "<div><h4>Scores of all runs, mean and "
        f"deviation</h4>{means(scores, '', 'scores')}</div></div>"
    )


def _summary_row(group: RunGroup, *, one: bool) -> str:
    names = [escape(group.name)]
    if not one:
        names.append(escape(group.course.name))
    return _row((*names, *_figures(group)), "td")


def _figures(group: RunGroup) -> tuple[str, ...]:
    one = summary_of(group)
    mean = _spread(one.mean_s, one.deviation_s)
    score = _spread(one.score_mean, one.score_deviation)
    return (
        f"{one.completed} of {one.runs}",
        _spread(one.best_s, None),
        mean,
        score,
        _spread(one.best_mean, None),
    )


def _spread(value: float | None, deviation: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if deviation is None else f"{value:.2f} &#177; {deviation:.2f}"


def _row(cells: Sequence[str], cell: str = "th") -> str:
    return f"<tr>{''.join(f'<{cell}>{text}</{cell}>' for text in cells)}</tr>"


def _course(groups: Sequence[RunGroup]) -> str:
    laps = "".join(_laps(group) for group in groups)
    parts = (
        _maps(groups),
        laps,
        gate_planes(groups),
        along_course(groups),
        behind_best(groups),
        crash_map(groups),
    )
    return f"<h2>{escape(groups[0].course.name)}</h2>{''.join(parts)}"


def _has_tracks(group: RunGroup) -> bool:
    return any(run.track for run in group.runs)


def _maps(groups: Sequence[RunGroup]) -> str:
    flown = [group for group in groups if _has_tracks(group)]
    if not flown:
        drawn = f'<div class="charts"><div>{bare_map(groups[0])}</div></div>'
        return (
            "<h3>Course from above</h3><p>The tracks are not there: a .tracks.npz file next "
            f"to the results.</p>{drawn}"
        )
    most = max(
        float(run.track.speed_mps.max()) for group in flown for run in group.runs if run.track
    )
    charts = "".join(
        f"<div><h4>{escape(group.name)}</h4>{map_of_tracks(group, most)}</div>" for group in flown
    )
    return (
        f"<h3>Tracks from above, coloured by speed</h3>{shades_legend(most, 'm/s')}"
        f'<div class="charts">{charts}</div>'
        '<p class="soft">The best run is broad, with its gates and their numbers; thin '
        "lines are the other runs and"
        " their gates. The dot is the start.</p>"
    )


def _laps(group: RunGroup) -> str:
    """Return the table of laps and splits, the best run first.

    The best value of each column is bold.
    """
    ranked = group.ranked[:_MOST_RUNS]
    rows = [row for run in ranked for row in lap_rows(run)]
    columns = zip(*((*row.splits_s, row.lap_s, row.total_s) for row in rows), strict=True)
    bests = [_least(column) for column in columns]
    laps = group.course.laps > 1
    gates = [escape(name) for name in lap_gates(group.course)]
    head = ["run", "total", "behind", *gates, "end"]
    if laps:
        head = ["run", "lap", "total", "behind", *gates, "lap time", "end"]
    lines = "".join(_lap_line(row, bests, laps=laps) for row in rows)
    left = len(group.runs) - len(ranked)
    more = ""
    if left:
        more = f'<p class="soft">{left} more runs are in the CSV file.</p>'
    return (
        f"<h3>Laps and splits: {escape(group.name)}</h3>"
        f'<div class="scroll"><table>{_row(head)}{lines}</table></div>{more}'
    )


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _lap_line(row: LapRow, bests: Sequence[float | None], *, laps: bool) -> str:
    shown = [*row.splits_s, row.lap_s, row.total_s]
    cells = [_timed(value, best) for value, best in zip(shown, bests, strict=True)]
    *splits, lap, total = cells
    best_s = bests[-1]
    behind = "-" if row.total_s is None or best_s is None else f"+{row.total_s - best_s:.3f}"
    name = escape(row.run.label)
    end = escape(end_of(row.run))
    if laps:
        return _row([name, str(row.lap), total, behind, *splits, lap, end], "td")
    return _row([name, total, behind, *splits, end], "td")


def _timed(value: float | None, best: float | None) -> str:
    if value is None:
        return "-"
    return f'<span class="best">{value:.3f}</span>' if value == best else f"{value:.3f}"
