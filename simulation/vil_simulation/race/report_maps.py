"""Maps of a report of races: tracks, crossings in the gates' planes, crashes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_bridge.monitoring.report.svg_maps import MapGate, MapMark, MapPath, course_map, gate_plane
from vil_bridge.monitoring.report.svg_paths import legend
from vil_simulation.race.race_runs import RaceRun, RunGroup

_MOST_RUNS: Final = 100
"""On a map, the best ones."""


def map_of_tracks(group: RunGroup, most_mps: float) -> str:
    """Return the tracks of a group from above, coloured by speed, the best one broadly, with
    their gates.
    """
    best = group.best
    runs = group.ranked[:_MOST_RUNS]
    paths = [
        MapPath(run.track.p_world_m[:, :2], run.track.speed_mps, run is best)
        for run in runs
        if run.track
    ]
    return _map(runs, best, f"tracks of {group.name}", paths, most_mps)


def bare_map(group: RunGroup) -> str:
    """Return the course of a group from above."""
    return _map(group.ranked[:_MOST_RUNS], group.best, f"course {group.course.name}", [], 1.0)


def _map(
    runs: Sequence[RaceRun],
    shown: RaceRun,
    label: str,
    paths: Sequence[MapPath],
    most_mps: float,
    marks: Sequence[MapMark] = (),
) -> str:
    """Return the course of one run with its gates named, and the moved gates of all runs behind
    it.
    """
    others = [gate for run in runs if run is not shown for gate in _gates(run.course, named=False)]
    course = shown.course
    poles = [(pole.top_m[:2], pole.radius_m) for run in runs for pole in run.course.obstacles]
    gates = [*others, *_gates(course, named=True)]
    start_m = course.start.p_m[:2]
    return course_map(gates, paths, label, most=most_mps, marks=marks, poles=poles, start_m=start_m)


def _gates(course: Course, *, named: bool) -> list[MapGate]:
    """Return the gates of a course.

    Names are their numbers in a lap, and those of gates not flown are crosses.
    """
    made = []
    for index, gate in enumerate(course.gates):
        numbers = [str(number) for number, flown in enumerate(course.order, 1) if flown == index]
        name = ("/".join(numbers) or "-") if named else ""
        made.append(MapGate(name, gate.corners_m[:, :2], gate.T_world_gate.rotation()[:2, 0]))
    return made


def gate_planes(groups: Sequence[RunGroup]) -> str:
    """Return the crossings of all groups in the plane of each gate of a lap."""
    course = groups[0].course
    charts = []
    for index in dict.fromkeys(course.order):
        gate = course.gates[index]
        numbers = "/".join(
            str(number) for number, flown in enumerate(course.order, 1) if flown == index
        )
        points = {group.name: _crossings(group, gate.name) for group in groups}
        marks = [
            mark for group in groups for run in group.runs for mark in _contacts(run, gate.name)
        ]
        title = (
            f'{numbers} {escape(gate.name)} <span class="soft">{gate.width_m:.2f} x '
            f"{gate.height_m:.2f} m</span>"
        )
        size = gate.width_m, gate.height_m
        drawn = gate_plane(
            points,
            marks,
            size,
            f"crossings of {gate.name}",
            margin_m=gate.margin_m,
            bar_m=gate.bar_m,
        )
        charts.append(f"<div><h4>{title}</h4>{drawn}</div>")
    return (
        "<h3>Crossings in the gates' planes, as the pilot sees them</h3>"
        f'{legend([group.name for group in groups])}<div class="planes">{"".join(charts)}</div>'
        '<p class="soft">Grid 0.5 m, frame grey. Crosses: collisions with the gate.</p>'
    )


def _crossings(group: RunGroup, gate: str) -> FloatArray:
    """Return places in a gate's plane, (n, 2): right and up from the centre, metres."""
    places = [
        (-one.y_m, one.z_m) for run in group.runs for one in run.episode.gates if one.gate == gate
    ]
    return np.array(places, np.float64).reshape(-1, 2)


def _contacts(run: RaceRun, gate: str) -> list[MapMark]:
    """Return the collisions of a run with a gate, in its plane."""
    if run.track is None:
        return []
    pose = next(one.T_world_gate for one in run.course.gates if one.name == gate)
    marks = []
    for collision in run.episode.collisions:
        if collision.what == gate:
            place = run.track.place_at(1e-9 * (collision.t_ns - run.episode.started_ns))
            _, y, z = pose.inverse().apply(place)
            marks.append(MapMark(np.array((-y, z)), f"{run.label} hits it"))
    return marks


def crash_map(groups: Sequence[RunGroup]) -> str:
    """Return a map and a table of the places where runs ended without having finished.

    Empty = all finished.
    """
    failed = [(group, run) for group in groups for run in group.runs if not run.finished]
    if not failed:
        return "<h3>Crashes</h3><p>None: all runs finished.</p>"
    ends = Counter(end_of(run) for _, run in failed)
    lines = "".join(
        f"<tr><td>{escape(group.name)}</td><td>{escape(run.label)}</td><td>"
        f"{escape(end_of(run))}</td>"
        f"<td>{run.episode.passed}</td><td>{run.episode.end_s:.2f}</td><td>{_place(run)}</td></tr>"
        for group, run in failed
    )
    marks = [
        MapMark(run.end_m[:2], f"{group.name}, {run.label}: {end_of(run)}")
        for group, run in failed
        if run.end_m is not None
    ]
    shown = failed[0][1]
    paths = [
        MapPath(run.track.p_world_m[:, :2], np.zeros(len(run.track.t_s)))
        for _, run in failed
        if run.track
    ]
    drawn = _map([run for _, run in failed], shown, "places of the ends", paths, 1.0, marks)
    counts = ", ".join(f"{escape(end)}: {count}" for end, count in ends.most_common())
    return (
        f"<h3>Runs that did not finish: where they ended</h3><p>{counts}</p>"
        f'<div class="charts"><div>{drawn}</div></div>'
        '<div class="scroll"><table><tr><th>runs</th><th>run</th><th>end</th><th>gates</'
        "th><th>at, s</th>"
        f"<th>x, y, z, m</th></tr>{lines}</table></div>"
    )


def end_of(run: RaceRun) -> str:
    """Return the end of a run in words."""
    words = run.episode.ended.replace("_", " ")
    return f"{words} ({run.episode.what})" if run.episode.what else words


def _place(run: RaceRun) -> str:
    return "-" if run.end_m is None else ", ".join(f"{value:.2f}" for value in run.end_m)
