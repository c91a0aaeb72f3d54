"""The race of a running bridge as people read it, and races that they set up.

The course, its gates in the world, racers at the start.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import numpy as np

from vil_bridge.config.course import load_course
from vil_bridge.config.courses import course_names
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.errors import ValueRefused
from vil_bridge.courses.course import Course
from vil_bridge.courses.variants import ruled
from vil_bridge.services.race.config import RaceConfig
from vil_bridge.services.race.gate_props import gate_props
from vil_bridge.services.race.racers import SimulatedRacers
from vil_bridge.services.race.view import RacerView, RaceView
from vil_bridge.services.service import ServiceHost
from vil_bridge.web.schemas.race import CourseOut, RaceResultOut
from vil_bridge.world.race.flown import FlownRace
from vil_bridge.world.race.live import RaceMonitor
from vil_bridge.world.race.standing import RacerStanding

__all__ = ["BridgeRace"]

_NEWEST: Final = 64
"""Splits and laps of a racer that a view has."""


class BridgeRace:
    """Race of a bridge; for worker threads.

    Attributes:
        monitor: judges it.

    Raises:
        ConfigError: the course cannot be read.
    """

    def __init__(self, config: RaceConfig, host: ServiceHost) -> None:
        self._config = config
        self._world = host.world
        self._lock = threading.Lock()
        self._racers = SimulatedRacers(config.racers, host.vehicles, host.config)
        course = ruled(load_course(config.course), config.seed, config.laps, config.timeout_s)
        if config.arcade:
            host.world.gates = gate_props(course)
        actors = host.config.actors
        radii_m = {name: 0.5 * min(actors[name].size_m) for name in config.racers}
        self.monitor: Final = RaceMonitor(host.world, course, radii_m, self._racers.contacts)

    def adopt(self, config: BridgeConfig) -> None:
        """Take over rooms that were moved."""
        self._racers.config = config

    def view(self) -> RaceView:
        """Return the race as it was judged last."""
        t_ns = now_ns()
        standings = self.monitor.standings()
        course = self.monitor.course
        leader = standings[0]
        racers = {
            one.name: _racer(one, leader, place, t_ns) for place, one in enumerate(standings, 1)
        }
        return RaceView(
            course.name,
            course.laps,
            len(course.order),
            course.rules.timeout_s,
            racers,
            self._config.arcade,
        )

    def newest_view(self) -> RaceView:
        """Return the race, judged by all poses that came."""
        self.monitor.check()
        return self.view()

    def courses(self) -> tuple[CourseOut, ...]:
        """Return the configured course and the shipped ones; none without an arcade."""
        if not self._config.arcade:
            return ()
        return tuple(_brief(course) for course in self._choices.values())

    @cached_property
    def _choices(self) -> dict[str, Course]:
        """Nominal courses by their names, the configured one first: its file is not read again."""
        own = load_course(self._config.course)
        return {own.name: own} | {
            name: load_course(name) for name in course_names() if name != own.name
        }

    def set_up(self, course: str | None, laps: int | None, pilots: Mapping[str, str]) -> None:
        """Set up a new race: gates in the world, simulated racers at the start.

        Their poses until then do not count.

        Raises:
            ValueRefused: there is no such course or racer.
            ValueError: it has a fixed course, or a vehicle cannot be placed now.
        """
        config = self._config
        if not config.arcade:
            raise ValueError(
                "this race has a fixed course. Set `race: {arcade: true}` to choose "
                "courses from pages"
            )
        if course is not None and course not in self._choices:
            raise ValueRefused(f"no course is named {course!r}; known: {', '.join(self._choices)}")
        if unknown := sorted(pilots.keys() - set(config.racers)):
            raise ValueRefused(
                f"pilots: {unknown[0]!r} does not race; racers: {', '.join(config.racers)}"
            )
        wanted = self.monitor.course
        if course is not None:
            seed: int | None = None
            timeout_s: float | None = None
            if course == next(iter(self._choices)):
                seed = config.seed
                timeout_s = config.timeout_s
            wanted = ruled(self._choices[course], seed, laps, timeout_s)
        # Requests that wait would take all worker threads.
        if not self._lock.acquire(blocking=False):
            raise ValueError("another race is being set up now: try again in a few seconds")
        try:
            gates = gate_props(wanted)
            after_ns = self._racers.place(wanted)
            self._world.gates = gates
            self.monitor.reset(wanted, pilots, after_ns)
        finally:
            self._lock.release()

    def results(self) -> tuple[RaceResultOut, ...]:
        """Return the races that have ended, the oldest first."""
        return tuple(_result(one) for one in self.monitor.results())

    def lap_csv(self, result: int, lap: int) -> str | None:
        """Return the flight of a lap as CSV; None = it is not stored."""
        results = self.monitor.results()
        found = next((one for one in results if one.number == result), None)
        if found is None:
            return None
        return found.lap_csv(lap, WallClock.of_run().offset_ns)


def _racer(one: RacerStanding, leader: RacerStanding, place: int, t_ns: int) -> RacerView:
    now = one.instant
    return RacerView(
        state=now.phase,
        place=place,
        race_s=now.race_s(t_ns),
        penalty_s=now.penalty_s,
        next_gate=now.next_gate,
        passed=now.passed,
        missed=one.missed,
        collisions=one.collisions,
        laps_s=tuple(one.laps_s[-_NEWEST:]),
        splits_s=dict(list(one.splits_s.items())[-_NEWEST:]),
        gap_s=one.gap_s(leader),
        due=now.due,
        pilot=one.pilot,
    )


def _brief(course: Course) -> CourseOut:
    points = np.vstack((course.start.p_m, course.centres_m[list(course.order)]))
    length_m = float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())
    return CourseOut(course.name, len(course.order), course.laps, length_m)


def _result(one: FlownRace) -> RaceResultOut:
    ended_s = 1e-9 * WallClock.of_run().utc_ns(one.end.t_ns)
    return RaceResultOut(
        result=one.number,
        ended_utc=datetime.fromtimestamp(ended_s, UTC).isoformat(timespec="milliseconds"),
        course=one.course.name,
        race_laps=one.course.laps,
        racer=one.racer,
        pilot=one.pilot,
        outcome=one.end.outcome,
        race_s=one.end.race_s,
        penalty_s=one.end.penalty_s,
        total_s=one.end.race_s + one.end.penalty_s,
        passed=one.end.passed,
        laps_s=tuple(1e-9 * (lap.end_ns - lap.start_ns) for lap in one.laps if lap.complete),
        splits_s=dict(one.splits_s),
        laps=tuple(lap.number for lap in one.laps) if len(one.track) else (),
    )
