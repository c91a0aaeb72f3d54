"""The race of a bridge: made from its configuration, and read by its people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from vil_bridge.config.course import load_course
from vil_bridge.config.race import MOST_GATES
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.frame_header import HeaderRace
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, ActorState, TrackingState
from vil_bridge.courses.course import Course
from vil_bridge.courses.variants import ruled
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.monitoring.race_view import RacerView, RaceView
from vil_bridge.world.race.live import Contacts, RaceMonitor
from vil_bridge.world.race.standing import RacerStanding
from vil_bridge.world.world import World

_GATE_DEPTH_M: Final = 0.2
_GATE_BAR: Final = 0.12
"""Of the renderers' model ``gate``: share of a bar in its side."""
_BELOW: Final = 0.7
"""Least upward part of the normal of what a vehicle stands on."""
_NEWEST: Final = 64
"""Splits and laps of a racer that a view has."""


def make_race(
    config: BridgeConfig, world: World, vehicles: VehicleCommandBus
) -> RaceMonitor | None:
    """Return the race of a configuration; None = it has none.

    Raises:
        ConfigError: the course cannot be read.
    """
    if config.race is None:
        return None

    def contacts(actor: str) -> Contacts | None:
        subject = simulated_racer(config, vehicles, actor)
        if subject is None:
            return None
        try:
            simulator = vehicles.of(subject)
            state = simulator.state(subject)
            newest = simulator.collision(subject, clear=False)
        except KeyError:
            return None
        if newest is None:
            return Contacts(state.collisions, state.t_ns, "something")
        below = newest.normal_world[2] > _BELOW
        return Contacts(
            state.collisions,
            newest.t_ns,
            newest.other or ("ground" if below else "something"),
            below,
        )

    radii_m = {name: 0.5 * min(config.actors[name].size_m) for name in config.race.racers}
    race = config.race
    course = ruled(load_course(race.course), race.seed, race.laps, race.timeout_s)
    if race.arcade:
        world.gates = gate_props(course)
    return RaceMonitor(world, course, radii_m, contacts)


def simulated_racer(config: BridgeConfig, vehicles: VehicleCommandBus, actor: str) -> str | None:
    """Return the name of the simulated vehicle that is an actor; None = another body is."""
    source = config.actors[actor].source
    subject = config.actors[actor].subject
    try:
        return subject if vehicles.of(subject).state(subject).source == source else None
    except KeyError:
        return None


def header_race(race: RaceMonitor | None, actor: str) -> Callable[[int], HeaderRace] | None:
    """Return the function that gives an actor's race at an instant, for headers.

    None = it does not race.
    """
    if race is None or actor not in race.racers:
        return None

    def now(t_ns: int) -> HeaderRace:
        one = race.standing(actor).instant
        return HeaderRace(
            state=one.phase,
            next_gate=one.next_gate,
            passed=one.passed,
            lap=one.lap,
            laps=one.laps,
            race_s=one.race_s(t_ns),
            penalty_s=one.penalty_s,
        )

    return now


def gate_props(course: Course) -> tuple[ActorState, ...]:
    """Return the gates and poles of a course as renderers draw them.

    Models ``gate`` whose openings are the gates'.

    Raises:
        ValueRefused: there are more than 64.
    """
    if len(course.gates) + len(course.obstacles) > MOST_GATES:
        raise ValueRefused(
            f"course {course.name!r} has more than {MOST_GATES} gates and poles: choose another one"
        )
    inner = 1.0 - 2.0 * _GATE_BAR
    gates = [
        ("gate", gate.T_world_gate, (_GATE_DEPTH_M, gate.width_m / inner, gate.height_m / inner))
        for gate in course.gates
    ]
    for pole in course.obstacles:
        height_m = max(float(pole.top_m[2]), 2.0 * pole.radius_m)
        middle = Transform(
            pole.top_m - np.array((0.0, 0.0, 0.5 * height_m)), np.array((0.0, 0.0, 0.0, 1.0))
        )
        gates.append(("", middle, (2.0 * pole.radius_m, 2.0 * pole.radius_m, height_m)))
    return tuple(
        # Renderers remember every name, so each race uses the same ones; no actor's name has a
        # space.
        ActorState(
            f"race {i}",
            ActorKind.PROP,
            TrackingState.TRACKED,
            0,
            place,
            prefab=prefab,
            size_m=size_m,
        )
        for i, (prefab, place, size_m) in enumerate(gates)
    )


def race_view(race: RaceMonitor | None, t_ns: int, *, arcade: bool = False) -> RaceView | None:
    """Return a race as people read it; ``arcade`` = they may choose its course."""
    if race is None:
        return None
    standings = race.standings()
    course = race.course
    racers = {
        one.name: _racer(one, standings[0], place, t_ns) for place, one in enumerate(standings, 1)
    }
    return RaceView(
        course.name, course.laps, len(course.order), course.rules.timeout_s, racers, arcade
    )


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
