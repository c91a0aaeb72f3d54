"""Races that people set up in a running bridge.

The course, its gates in the world, racers at the start.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import numpy as np

from vil_bridge.config.course import load_course
from vil_bridge.config.courses import course_names
from vil_bridge.config.race import RaceConfig
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.geometry import Transform
from vil_bridge.courses.course import Course
from vil_bridge.courses.variants import ruled
from vil_bridge.daemon.context import BridgeContext
from vil_bridge.daemon.race_service import gate_props, race_view, simulated_racer
from vil_bridge.interfaces.vehicle_commands import VehicleCommand
from vil_bridge.interfaces.vehicle_moves import VehiclePlacement
from vil_bridge.monitoring.race_view import RaceView
from vil_bridge.web.schemas.race import CourseOut, RaceResultOut
from vil_bridge.world.race.flown import FlownRace

_SPACING_M: Final = 1.0
_PATIENCE_S: Final = 3.0
_LOOK_S: Final = 0.01


class RaceSetup:
    """The bridge's side of :class:`~vil_bridge.web.schemas.race.Races`; for worker threads."""

    def __init__(self, context: BridgeContext) -> None:
        self._context = context
        self._lock = threading.Lock()

    @property
    def _config(self) -> RaceConfig:
        config = self._context.config.race
        assert config is not None, "asked only with a race"
        return config

    def view(self) -> RaceView | None:
        """Return the race, judged by all poses that came; None = the bridge has none."""
        race = self._context.race
        if race is not None:
            race.check()
        return race_view(race, now_ns(), arcade=race is not None and self._config.arcade)

    def reset(self) -> None:
        """Set the race up again; vehicles stay where they are."""
        if self._context.race is not None:
            self._context.race.reset()

    def courses(self) -> tuple[CourseOut, ...]:
        """Return the configured course and the shipped ones; none without an arcade."""
        if self._context.race is None or not self._config.arcade:
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
        race = self._context.race
        config = self._config
        if race is None or not config.arcade:
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
        wanted = race.course
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
            after_ns = self._place_racers(wanted)
            self._context.world.gates = gates
            race.reset(wanted, pilots, after_ns)
        finally:
            self._lock.release()

    def _place_racers(self, course: Course) -> int:
        """Put the simulated racers side by side at the start.

        Return the bridge time by which all are there.
        """
        config = self._context.config
        vehicles = self._context.for_sources.vehicles
        racers = self._config.racers
        after_ns = -1
        for index, actor in enumerate(racers):
            subject = simulated_racer(config, vehicles, actor)
            if subject is None:
                continue
            aside_m = _SPACING_M * (0.5 * (len(racers) - 1) - index)
            place = course.start @ Transform.of((0.0, aside_m, 0.0), (0.0, 0.0, 0.0, 1.0))
            room = config.rooms[getattr(config.sources[config.actors[actor].source], "room", "")]
            place = room.T_world_room.transform().inverse() @ place
            before = vehicles.of(subject).state(subject).placements
            # Armed, without a pilot's last command.
            vehicles.send(subject, VehicleCommand("reset"))
            vehicles.send(
                subject,
                VehiclePlacement(tuple(place.p_m.tolist()), tuple(place.q_xyzw.tolist())),
            )
            after_ns = max(after_ns, self._await_placement(subject, before + 2))
        return after_ns

    def _await_placement(self, subject: str, placements: int) -> int:
        vehicles = self._context.for_sources.vehicles
        until_s = time.monotonic() + _PATIENCE_S
        while (state := vehicles.of(subject).state(subject)).placements < placements:
            if time.monotonic() > until_s:
                raise ValueError(
                    f"vehicle {subject!r} does not reach the start: its source simulates "
                    "nothing now"
                )
            time.sleep(_LOOK_S)
        return state.t_ns

    def results(self) -> tuple[RaceResultOut, ...]:
        """Return the races that have ended, the oldest first."""
        race = self._context.race
        if race is None:
            return ()
        return tuple(self._result(one) for one in race.results())

    def _result(self, one: FlownRace) -> RaceResultOut:
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

    def lap_csv(self, result: int, lap: int) -> str | None:
        """Return the flight of a lap as CSV; None = it is not stored."""
        race = self._context.race
        if race is None:
            return None
        found = next((one for one in race.results() if one.number == result), None)
        if found is None:
            return None
        return found.lap_csv(lap, WallClock.of_run().offset_ns)


def _brief(course: Course) -> CourseOut:
    points = np.vstack((course.start.p_m, course.centres_m[list(course.order)]))
    length_m = float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())
    return CourseOut(course.name, len(course.order), course.laps, length_m)
