"""Runs of races with known numbers: straight flights at constant speed over gates on a line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course, CourseGate, CourseObstacle, RaceRules
from vil_bridge.world.race.clock import RaceClock
from vil_bridge.world.race.events import RaceEnded, RaceEvent
from vil_simulation.race.flown_tracks import FlownTrack
from vil_simulation.race.race_runs import RaceRun, RunGroup
from vil_simulation.race.results import EpisodeEnd, RaceEpisode

GRAVITY = 9.80665
HEIGHT_M = 2.0


def line_course(
    *, gates: int = 3, laps: int = 1, rules: RaceRules | None = None, pole_m: float | None = None
) -> Course:
    """Gates of 2 x 1 m every 5 m along x, 2 m high, flown from the origin.

    A pole stands at ``pole_m``.
    """
    made = tuple(
        CourseGate(
            f"G{k + 1}",
            Transform.of((5.0 * (k + 1), 0.0, HEIGHT_M), (0, 0, 0, 1)),
            2.0,
            1.0,
            0.05,
            0.2,
        )
        for k in range(gates)
    )
    poles = () if pole_m is None else (CourseObstacle("pole", np.array((pole_m, 0.0, 4.0)), 0.1),)
    start = Transform.of((0.0, 0.0, HEIGHT_M))
    return Course(
        "line",
        made,
        start,
        laps=laps,
        obstacles=poles,
        rules=rules or RaceRules("signal", "penalise", "stop", 10.0),
    )


def straight_run(
    label: str,
    course: Course,
    speed_mps: float,
    y_m: float = 0.0,
    z_m: float = 0.0,
    far_m: float = 17.0,
) -> RaceRun:
    """Fly along x at one speed, beside the centres, judged by the race clock at 100 Hz."""
    t_ns = 10_000_000 * np.arange(int(100.0 * far_m / speed_mps))
    t_s = 1e-9 * t_ns
    p_m = np.column_stack(
        (speed_mps * t_s, np.full_like(t_s, y_m), np.full_like(t_s, HEIGHT_M + z_m))
    )
    v_mps = np.tile((speed_mps, 0.0, 0.0), (len(t_s), 1))
    return judged_run(label, course, t_ns.tolist(), p_m, v_mps)


def judged_run(
    label: str, course: Course, t_ns: list[int], p_m: FloatArray, v_mps: FloatArray
) -> RaceRun:
    """Return a level flight, judged by the race clock from its first pose on."""
    clock = RaceClock(course, radius_m=0.1)
    clock.signal(t_ns[0])
    events: list[RaceEvent] = []
    for t, p, v in zip(t_ns, p_m, v_mps, strict=True):
        events += clock.feed(t, p, v)
    events += clock.flush()
    ends = [event for event in events if isinstance(event, RaceEnded)]
    ended: EpisodeEnd = ends[0].outcome if ends else "incomplete"
    episode = RaceEpisode.of(course.name, 0, ended, events)
    n = len(t_ns)
    q, w = np.tile((0.0, 0.0, 0.0, 1.0), (n, 1)), np.tile((0.1, 0.2, 0.3), (n, 1))
    track = FlownTrack(1e-9 * (np.array(t_ns) - t_ns[0]), p_m, v_mps, q, w, np.full(n, GRAVITY))
    return RaceRun(label, course, episode, track.until(episode.end_s))


def group_of(name: str, *runs: RaceRun) -> RunGroup:
    return RunGroup(name, runs[0].course, runs)


def without_track(run: RaceRun) -> RaceRun:
    return replace(run, track=None)
