"""Races of simulated vehicles, faster than real time: one vehicle an episode, all of them one fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np

from vil_bridge.core.course import Course
from vil_bridge.core.types import FloatArray
from vil_bridge.tools.race.alphapilot import POINTS_PER_GATE
from vil_bridge.vehicles.fleet import Fleet
from vil_bridge.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_bridge.vehicles.model import Model
from vil_bridge.vehicles.random.courses import perturbed
from vil_bridge.world.race.clock import RaceClock
from vil_bridge.world.race.events import GatePassed, Outcome, RaceCollision, RaceEnded, RaceEvent

BEST: Final = 5
"""Episodes that count in the ranking of FlightGoggles."""
_STEPS: Final = 4
"""Of the model between two commands: 240 Hz."""

EpisodeEnd = Literal[Outcome, "incomplete"]
"""``incomplete``: the pilot gave up with gates left, although nothing ended the race."""


class RacePilot(Protocol):
    """Pilot of n vehicles, each on a course of its own.

    Attributes:
        until_s: time of the race after which each gives up, (n,).
    """

    until_s: FloatArray

    def __call__(self, t_s: float, x: FloatArray) -> FloatArray:
        """Return commands of the model, (n, du), at a time of the race from the vehicles' states (n, dx)."""
        ...


PilotFactory = Callable[[Sequence[Course], Model], RacePilot]
"""Makes a pilot from courses, one a vehicle, and the vehicles' model."""


@dataclass(frozen=True, slots=True)
class RaceEpisode:
    """Result of one race.

    Attributes:
        course: name. seed: that moved its gates.
        passed: gates. time_s: of the last gate passed, or of the end without one; without penalties.
        penalty_s: for gates left out and collisions.
        score: 10 points a gate passed, minus the time and penalties of collisions; 0 unless ``ended`` is finished.
        what: with which it collided first, else empty.
    """

    course: str
    seed: int
    passed: int
    time_s: float
    penalty_s: float
    score: float
    ended: EpisodeEnd
    what: str = ""


@dataclass(frozen=True, slots=True)
class RaceResult:
    """Results of all episodes.

    Attributes:
        pilot: name.
    """

    course: str
    pilot: str
    episodes: tuple[RaceEpisode, ...]

    @property
    def completed(self) -> int:
        """Return the number of episodes that finished."""
        return sum(episode.ended == "finished" for episode in self.episodes)

    @property
    def best_mean(self) -> float:
        """Return the mean of the best five scores, as FlightGoggles ranks; of all where there are fewer."""
        return float(np.mean(sorted((episode.score for episode in self.episodes), reverse=True)[:BEST]))

    def figures(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {
            "course": self.course,
            "pilot": self.pilot,
            "completed": self.completed,
            f"mean_of_best_{BEST}": self.best_mean,
            "episodes": [{name: getattr(episode, name) for name in RaceEpisode.__slots__} for episode in self.episodes],
        }


def race(course: Course, pilot: str, make_pilot: PilotFactory, seeds: Sequence[int]) -> RaceResult:
    """Fly one race for each seed with FlightGoggles' vehicle, commanded by rotor speeds.

    Args:
        course: nominal course.
        pilot: its name, for the result.
        make_pilot: gets the moved courses.
        seeds: of the courses, one an episode.

    Raises:
        ValueError: no episode, or a course that the pilot cannot fly.
    """
    if not seeds:
        raise ValueError("a race needs at least one episode: give a seed")
    courses = [perturbed(course, seed) for seed in seeds]
    model = FlightGogglesMulticopter()
    records = fly(courses, model, make_pilot(courses, model))
    episodes = (record.episode(seed) for record, seed in zip(records, seeds, strict=True))
    return RaceResult(course.name, pilot, tuple(episodes))


def fly(courses: Sequence[Course], model: Model, pilot: RacePilot) -> list[RaceRecord]:
    """Fly vehicles over courses, one each, at 240 commands a second, and return their records.

    The signal is given at once, with the vehicle at rest at the start. The race clock gets every pose at which the
    vehicle is commanded. Below z = 0 is the floor.
    """
    radius_m = float(np.linalg.norm(model.rotor_places()[0], axis=1).max(initial=0.0))
    fleet = Fleet(model, len(courses))
    fleet.place(
        p_world_m=np.array([one.start.p_m for one in courses]),
        q_world_body=np.array([one.start.q_xyzw for one in courses]),
    )
    records = [
        RaceRecord(course, until_s, radius_m) for course, until_s in zip(courses, pilot.until_s.tolist(), strict=True)
    ]
    while racing := [index for index, record in enumerate(records) if record.ended is None]:
        for index in racing:
            records[index].feed(fleet.t_ns, fleet.x[index])
        fleet.command(pilot(1e-9 * fleet.t_ns, fleet.x))
        fleet.advance(_STEPS)
    return records


class RaceRecord:
    """Race of one vehicle, judged by the race clock.

    Args:
        course: where it flies.
        until_s: when its pilot gives up.
        radius_m: of the ball that collides.

    Attributes:
        ended: None = it flies.
    """

    def __init__(self, course: Course, until_s: float, radius_m: float) -> None:
        self._course: Final = course
        self._until_ns: Final = round(1e9 * until_s)
        self._clock: Final = RaceClock(course, radius_m=radius_m)
        self._clock.signal(0)
        self._events: list[RaceEvent] = []
        self.ended: EpisodeEnd | None = None

    def feed(self, t_ns: int, state: FloatArray) -> None:
        """Take the state of the vehicle, (dx,)."""
        if state[2] < 0.0:
            self._clock.collide(t_ns, "floor")
        events = self._clock.feed(t_ns, state[0:3].copy(), state[3:6].copy())
        if t_ns >= self._until_ns:
            events += self._clock.flush()
            self.ended = "incomplete"
        for event in events:
            if isinstance(event, RaceEnded):
                self.ended = event.outcome
        self._events += events

    def episode(self, seed: int) -> RaceEpisode:
        """Return the result of a race that has ended, on the course of a seed."""
        assert self.ended is not None
        gates = [event for event in self._events if isinstance(event, GatePassed)]
        collisions = [event for event in self._events if isinstance(event, RaceCollision)]
        end = next((event for event in self._events if isinstance(event, RaceEnded)), None)
        time_s = gates[-1].race_s if gates else 0.0 if end is None else end.race_s
        score = POINTS_PER_GATE * len(gates) - time_s - sum(event.penalty_s for event in collisions)
        return RaceEpisode(
            self._course.name,
            seed,
            len(gates),
            time_s,
            self._clock.progress.penalty_s,
            score if self.ended == "finished" else 0.0,
            self.ended,
            collisions[0].what if collisions else "",
        )
