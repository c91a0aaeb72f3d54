"""Races of simulated vehicles, faster than real time.

One vehicle an episode, all of them one fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_bridge.courses.variants import perturbed
from vil_bridge.world.race.clock import RaceClock
from vil_bridge.world.race.events import RaceEnded, RaceEvent
from vil_simulation.race.flown_tracks import TrackRecorder
from vil_simulation.race.results import EpisodeEnd, RaceEpisode, RaceResult
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.model import Model

_COMMAND_S: Final = 1.0 / 240.0


class RacePilot(Protocol):
    """Pilot of n vehicles, each on a course of its own.

    Attributes:
        until_s: time of the race after which each gives up, (n,).
    """

    until_s: FloatArray

    def __call__(self, t_s: float, x: FloatArray) -> FloatArray:
        """Return commands of the model, (n, du), at a time of the race from the vehicles' states.

        N, dx.
        """
        ...


PilotFactory = Callable[[Sequence[Course], Model], RacePilot]
"""Makes a pilot from courses, one a vehicle, and the vehicles' model.

It may have an attribute ``model``: the vehicle that it flies, in place of FlightGoggles'.
"""

Watch = Callable[[Fleet, Sequence[int]], None]
"""Sees the fleet before each command, with the indices of the vehicles that race."""


def race(course: Course, pilot: str, make_pilot: PilotFactory, seeds: Sequence[int]) -> RaceResult:
    """Fly one race for each seed with the pilot's vehicle, or FlightGoggles', commanded by rotor
    speeds.

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
    model: Model = getattr(make_pilot, "model", None) or FlightGogglesMulticopter()
    recorder = TrackRecorder(len(courses))
    records = fly(courses, model, make_pilot(courses, model), recorder.record)
    episodes = tuple(record.episode(seed) for record, seed in zip(records, seeds, strict=True))
    tracks = recorder.tracks([1e-9 * episode.started_ns for episode in episodes])
    return RaceResult(course.name, pilot, episodes, tuple(tracks))


def fly(
    courses: Sequence[Course],
    model: Model,
    pilot: RacePilot,
    watch: Watch = lambda _fleet, _racing: None,
    *,
    margin_m: float = 0.0,
) -> list[RaceRecord]:
    """Fly vehicles over courses, one each, at 240 commands a second or one a step, and return their
    records.

    The signal is given at once, with the vehicle at rest at the start. The race clock gets every
    pose at which the vehicle is commanded. Below z = 0 is the floor. ``margin_m`` enlarges the ball
    that collides.
    """
    radius_m = ball_radius_m(model) + margin_m
    steps = max(1, round(_COMMAND_S / float(model.dt_s)))
    fleet = Fleet(model, len(courses))
    fleet.place(
        p_world_m=np.array([one.start.p_m for one in courses]),
        q_world_body=np.array([one.start.q_xyzw for one in courses]),
    )
    records = [
        RaceRecord(course, until_s, radius_m)
        for course, until_s in zip(courses, pilot.until_s.tolist(), strict=True)
    ]
    while racing := [index for index, record in enumerate(records) if record.ended is None]:
        for index in racing:
            records[index].feed(fleet.t_ns, fleet.x[index])
        watch(fleet, racing)
        fleet.command(pilot(1e-9 * fleet.t_ns, fleet.x))
        fleet.advance(steps)
    return records


def ball_radius_m(model: Model) -> float:
    """Return the radius of the ball around a vehicle's rotors that collides."""
    return float(np.linalg.norm(model.rotor_places()[0], axis=1).max(initial=0.0))


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
        return RaceEpisode.of(self._course.name, seed, self.ended, self._events)
