"""The race of a bridge: made from its configuration, and read by its people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from vil_bridge.config.course import load_course
from vil_bridge.config.race import RaceConfig
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.course import Course
from vil_bridge.core.frame_header import HeaderRace
from vil_bridge.core.vehicle_commands import VehicleCommandBus
from vil_bridge.monitoring.race_view import RacerView, RaceView
from vil_bridge.vehicles.random.courses import perturbed
from vil_bridge.world.race.live import Contacts, RaceMonitor
from vil_bridge.world.race.standing import RacerStanding
from vil_bridge.world.world import World

_NEWEST: Final = 64
"""Splits and laps of a racer that a view has."""


def make_race(config: BridgeConfig, world: World, vehicles: VehicleCommandBus) -> RaceMonitor | None:
    """Return the race of a configuration; None = it has none.

    Raises:
        ConfigError: the course cannot be read.
    """
    if config.race is None:
        return None

    def contacts(actor: str) -> Contacts | None:
        source, subject = config.actors[actor].source, config.actors[actor].subject
        try:
            state = vehicles.state(subject)
            if state.source != source:
                return None
            newest = vehicles.collision(subject, clear=False)
        except KeyError:
            return None
        if newest is None:
            return Contacts(state.collisions, state.t_ns, "something")
        return Contacts(state.collisions, newest.t_ns, newest.other or "something")

    radii_m = {name: 0.5 * min(config.actors[name].size_m) for name in config.race.racers}
    return RaceMonitor(world, _course(config.race), radii_m, contacts)


def _course(race: RaceConfig) -> Course:
    course = load_course(race.course)
    if race.seed is not None:
        course = perturbed(course, race.seed)
    timeout_s = course.rules.timeout_s if race.timeout_s is None else race.timeout_s
    return replace(course, laps=race.laps or course.laps, rules=replace(course.rules, timeout_s=timeout_s))


def header_race(race: RaceMonitor | None, actor: str) -> Callable[[int], HeaderRace] | None:
    """Return the function that gives an actor's race at an instant, for headers; None = it does not race."""
    if race is None or actor not in race.racers:
        return None

    def now(t_ns: int) -> HeaderRace:
        one = race.standing(actor)
        progress = one.clock.progress
        return HeaderRace(
            state=one.phase,
            next_gate=one.next_gate,
            passed=len(one.splits_s),
            lap=progress.lap,
            laps=race.course.laps,
            race_s=one.race_s(t_ns),
            penalty_s=progress.penalty_s,
        )

    return now


def race_view(race: RaceMonitor | None, t_ns: int) -> RaceView | None:
    """Return a race as people read it."""
    if race is None:
        return None
    standings, course = race.standings(), race.course
    racers = {one.name: _racer(one, standings[0], place, t_ns) for place, one in enumerate(standings, 1)}
    return RaceView(course.name, course.laps, len(course.order), course.rules.timeout_s, racers)


def _racer(one: RacerStanding, leader: RacerStanding, place: int, t_ns: int) -> RacerView:
    progress = one.clock.progress
    return RacerView(
        state=one.phase,
        place=place,
        race_s=one.race_s(t_ns),
        penalty_s=progress.penalty_s,
        next_gate=one.next_gate,
        passed=len(one.splits_s),
        missed=one.missed,
        collisions=one.collisions,
        laps_s=tuple(one.laps_s[-_NEWEST:]),
        splits_s=dict(list(one.splits_s.items())[-_NEWEST:]),
        gap_s=one.gap_s(leader),
    )
