"""Races that were flown.

Laps with their flights as CSV, what does not count, and bounds of what is stored.
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.courses.course import Course, CourseGate, RaceRules
from vil_bridge.world.race.events import RaceEnded
from vil_bridge.world.race.flown import FlightTrack, FlownLap, FlownRace, RaceResults
from vil_bridge.world.race.standing import RacerStanding

STEP_NS = NS_PER_S // 200
TURN = q_from_euler_zyx(0.5, 0.0, 0.1)


def course(laps: int, rules: RaceRules) -> Course:
    """One gate at the origin of a ring of 10 m around (0, 10), flown counter-clockwise."""
    gates = (CourseGate("A", Transform.of((0, 0, 1), (0, 0, 0, 1)), 2.0, 1.0),)
    return Course("ring", gates, Transform.identity(), laps=laps, rules=rules)


def flown(rules: RaceRules, laps: int, seconds: float) -> FlownRace | None:
    """Fly around the ring at 10 m/s from 1 s before the gate, and return the result."""
    one = RacerStanding("drone", course(laps, rules), 0.1, "Ada")
    one.clock.signal(NS_PER_S)
    for step in range(round(seconds * NS_PER_S / STEP_NS)):
        t_ns = NS_PER_S + step * STEP_NS
        angle = 1e-9 * t_ns - 2.0
        p_m = 10.0 * np.array((np.sin(angle), 1.0 - np.cos(angle), 0.1))
        for event in one.feed(t_ns, Transform(p_m, TURN)):
            one.take(event)
    return one.flown(7)


def test_each_lap_has_its_flight_with_velocities() -> None:
    race = flown(RaceRules(clock="first_gate"), 2, 15.0)
    assert race is not None
    assert (race.number, race.racer, race.pilot, race.end.outcome) == (
        7,
        "drone",
        "Ada",
        "finished",
    )
    assert [(lap.number, lap.complete) for lap in race.laps] == [(1, True), (2, True)]
    texts = [race.lap_csv(lap, 5 * NS_PER_S) for lap in (1, 2)]
    assert race.lap_csv(3, 0) is None
    for number, text in enumerate(texts):
        assert text is not None
        rows = [
            {name: float(value) for name, value in row.items()}
            for row in csv.DictReader(io.StringIO(text))
        ]
        assert len(rows) == pytest.approx(628, abs=2)  # 2 pi s at 100 Hz
        first, last = rows[0], rows[-1]
        assert first["elapsed_time"] == pytest.approx(number * 2.0 * np.pi, abs=0.011)
        assert first["timestamp"] == pytest.approx(1e6 * (7.0 + first["elapsed_time"]), abs=1.0)
        assert last["elapsed_time"] - first["elapsed_time"] == pytest.approx(2.0 * np.pi, abs=0.02)
        assert (first["drone_roll"], first["drone_pitch"], first["drone_yaw"]) == pytest.approx(
            (0.1, 0.0, 0.5), abs=1e-6
        )
        speeds = np.hypot(
            *(np.array([row[f"drone_velocity_linear_{axis}"] for row in rows]) for axis in "xy")
        )
        assert speeds == pytest.approx(10.0, abs=0.06)  # chords of 10 ms


def test_a_race_that_ends_in_a_lap_has_that_part() -> None:
    race = flown(RaceRules(clock="first_gate", timeout_s=8.0), 3, 15.0)
    assert race is not None
    assert (race.end.outcome, [(lap.number, lap.complete) for lap in race.laps]) == (
        "timed_out",
        [(1, True), (2, False)],
    )
    assert race.laps[1].end_ns - race.laps[0].start_ns == 8 * NS_PER_S


def test_a_race_that_goes_on_or_never_began_has_no_result() -> None:
    assert flown(RaceRules(clock="first_gate"), 3, 5.0) is None
    one = RacerStanding("drone", course(1, RaceRules(clock="first_gate")), 0.1)
    one.take(RaceEnded(0, "out_of_bounds", 0.0, 0.0, 0))
    assert one.flown(1) is None


def test_a_racer_that_waits_for_hours_stores_a_second() -> None:
    track = FlightTrack()
    for step in range(5000):
        track.add(step * STEP_NS, Transform.identity(), flying=False)
    assert len(track.rows(0, 10**15)) == 101
    for step in range(5000, 100_000):
        track.add(step * STEP_NS, Transform.identity(), flying=True)
    assert len(track.rows(0, 10**15)) == 36_000


def test_old_flights_go_and_results_stay() -> None:
    results, ring = RaceResults(), course(1, RaceRules())
    rows = np.zeros((30_000, 8))
    for number in range(1, 1101):
        assert results.next_number == number
        end = RaceEnded(0, "finished", 1.0, 0.0, 1)
        race = FlownRace(number, ring, "drone", "", end, {}, (FlownLap(1, 0, 1),), rows)
        results.add(race if number % 2 else replace(race, track=rows[:10]))
    races = results.races()
    assert [one.number for one in races] == list(range(101, 1101))
    assert sum(len(one.track) for one in races) <= 500_000
    assert [len(one.track) for one in races[-4:]] == [30_000, 10, 30_000, 10]
    assert races[0].lap_csv(1, 0) is None
