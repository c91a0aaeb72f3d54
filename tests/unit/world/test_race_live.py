"""Live races: racers in their own capture times, contacts, time-out without poses, reset, and
what the log says.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vil_bridge.cli.top import rows_of
from vil_bridge.config.load import load, load_text
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, SourceFrame
from vil_bridge.courses.course import Course, CourseGate, RaceRules
from vil_bridge.monitoring.prometheus import metrics_registry
from vil_bridge.offline.playback import Timeline
from vil_bridge.registry import resolve
from vil_bridge.services.race.view import RacerView, RaceView
from vil_bridge.web.routes.status import status_json
from vil_bridge.web.schemas.status import BridgeStatus
from vil_bridge.world.actors import Actor
from vil_bridge.world.race.live import Contacts, RaceMonitor
from vil_bridge.world.race.standing import RacerStanding
from vil_bridge.world.world import World

LATE_NS = 60 * NS_PER_MS
STEP_NS = 10 * NS_PER_MS


def course(rules: RaceRules) -> Course:
    """Two gates of 1 m on the x axis, 2 m and 4 m from the origin."""
    gates = tuple(
        CourseGate(n, Transform.of((x, 0, 1), (0, 0, 0, 1)), 1.0, 1.0)
        for n, x in (("A", 2.0), ("B", 4.0))
    )
    return Course("line", gates, Transform.identity(), rules=rules)


class Track:
    """A world with a racer that arrives at once and one that arrives 60 ms late, both filmed at
    100 Hz.
    """

    def __init__(self, rules: RaceRules) -> None:
        here = Transform.identity()
        actors = [
            Actor(n, ActorKind.VEHICLE, s, n) for n, s in (("drone", "mocap"), ("ghost", "far"))
        ]
        self.world = World({"mocap": here, "far": here}, actors)
        self.contacts: dict[str, Contacts] = {}
        self.race = RaceMonitor(
            self.world, course(rules), {"drone": 0.1, "ghost": 0.1}, self.contacts.get
        )
        self.t_ns = 1000 * NS_PER_S
        self.number = 0
        self.z_m = 1.0
        self.late: list[tuple[int, SourceFrame]] = []

    def frame(self, source: str, name: str, x_m: float, latency_ns: int) -> SourceFrame:
        p_m, q = np.array([[x_m, 0.0, self.z_m]]), np.array([[0.0, 0.0, 0.0, 1.0]])
        stamps = self.t_ns, self.t_ns + latency_ns
        return SourceFrame(
            source, self.number, *stamps, (name,), p_m, q, np.array([True]), latency_ns=latency_ns
        )

    def fly(
        self, seconds: float, x_m: dict[str, float], speed_mps: float = 0.0, down_mps: float = 0.0
    ) -> None:
        """Fly racers from places on the x axis; those without a place are not seen."""
        for step in range(round(seconds * NS_PER_S / STEP_NS)):
            self.t_ns += STEP_NS
            self.number += 1
            self.z_m -= down_mps * STEP_NS / NS_PER_S
            away_m = speed_mps * step * STEP_NS / NS_PER_S
            if "ghost" in x_m:
                self.late.append(
                    (
                        self.t_ns + LATE_NS,
                        self.frame("far", "ghost", x_m["ghost"] + away_m, LATE_NS),
                    )
                )
            bridge_clock().stand_at(self.t_ns)
            while self.late and self.late[0][0] <= self.t_ns:
                self.world.ingest(self.late.pop(0)[1])
            if "drone" in x_m:
                self.world.ingest(self.frame("mocap", "drone", x_m["drone"] + away_m, 0))
            if self.number % 20 == 0:
                self.race.check()

    def standing(self, name: str) -> RacerStanding:
        return next(one for one in self.race.standings() if one.name == name)


@pytest.fixture
def _time() -> Iterator[None]:
    with Timeline().running():
        yield


@pytest.mark.usefixtures("_time")
def test_each_racer_is_judged_in_its_own_capture_time(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        track = Track(RaceRules("signal"))
        track.fly(3.0, {"drone": 0.0})
        assert track.standing("drone").phase == "waiting"  # for the other one
        track.fly(3.0, {"drone": 0.0, "ghost": 0.0})
        assert {one.phase for one in track.race.standings()} == {"racing"}
        track.fly(3.0, {"drone": 0.5, "ghost": 0.0}, 2.0)
    drone, ghost = track.race.standings()
    assert (drone.name, drone.phase, ghost.phase) == ("drone", "finished", "finished")
    assert list(drone.splits_s) == list(ghost.splits_s) == [0, 1]
    assert ghost.gap_s(drone) == pytest.approx(0.25, abs=1e-3)  # not 0.31: latency does not count
    assert drone.gap_s(drone) == 0.0
    assert drone.instant.next_gate == ""
    texts = [
        record.getMessage()
        for record in caplog.records
        if record.getMessage().startswith("race: drone")
    ]
    assert [text.split(" after")[0] for text in texts] == [
        "race: drone starts",
        "race: drone passes A (gate 1, lap 1)",
        "race: drone passes B (gate 2, lap 1)",
        texts[3],
        "race: drone finishes",
    ]
    assert texts[3].startswith("race: drone completes lap 1 in ")


def test_what_other_threads_read_belongs_together() -> None:
    """A header that is made between a crossing and its event has neither the new lap nor the new
    count.
    """
    one = RacerStanding("drone", replace(course(RaceRules("signal")), laps=2, order=(0,)), 0.1)
    one.clock.signal(0)
    one.signalled = True
    events = []
    for step in range(200):
        events += one.feed(step * STEP_NS, Transform.of((0.02 * step, 0, 1), (0, 0, 0, 1)))
        assert (one.instant.lap, one.instant.passed, one.instant.phase) == (1, 0, "waiting")
    for event in events:
        one.take(event)
    assert one.clock.progress.lap == 2 and one.instant.lap == 1
    one.publish()
    assert (one.instant.lap, one.instant.passed, one.instant.due, one.instant.phase) == (
        2,
        1,
        1,
        "racing",
    )


def raced(
    name: str, speed_mps: float, *, to_m: float = 5.0, hit_s: float | None = None
) -> RacerStanding:
    """A racer that leaves the origin at the signal and flies evenly; a collision costs 3 s."""
    one = RacerStanding(name, course(RaceRules("signal", collision="penalise", penalty_s=3.0)), 0.1)
    one.clock.signal(0)
    if hit_s is not None:
        one.clock.collide(round(hit_s * NS_PER_S), "pole")
    for t_ns in range(0, round(to_m / speed_mps * NS_PER_S), STEP_NS):
        for event in one.feed(
            t_ns, Transform.of((speed_mps * t_ns / NS_PER_S, 0, 1), (0, 0, 0, 1))
        ):
            one.take(event)
    return one


def test_places_and_gaps_count_penalties() -> None:
    """At gate B, 4 m on: 4 s; 2 s and 3 s; 5 s and 3 s.

    A racer with gate A alone is behind, the idle one last.
    """
    clean = raced("clean", 1.0)
    hit = raced("hit", 2.0, hit_s=0.5)
    slow = raced("slow", 0.8, hit_s=0.5)
    half = raced("half", 4.0, to_m=3.0)
    idle = raced("idle", 1.0, to_m=1.0)
    order = sorted((idle, half, slow, hit, clean), key=lambda one: one.place)
    assert [one.name for one in order] == ["clean", "hit", "slow", "half", "idle"]
    assert [one.gap_s(clean) for one in order[:3]] == pytest.approx([0.0, 1.0, 4.0])
    assert slow.gap_s(hit) == pytest.approx(3.0)  # the leader's penalty counts too
    assert half.gap_s(hit) == pytest.approx(0.5 - (1.0 + 3.0))  # both at gate A
    assert hit.gap_s(half) is None and idle.gap_s(clean) is None


@pytest.mark.usefixtures("_time")
def test_the_signal_is_the_newest_capture_of_all_racers() -> None:
    """Checks come each 200 ms.

    The far racer's newest pose then is 60 ms old; the other one's is of the check.
    """
    track = Track(RaceRules("signal"))
    begun_ns = track.t_ns
    track.fly(0.6, {"drone": 0.0})
    track.fly(0.2, {"ghost": 0.0})
    assert {one.phase for one in track.race.standings()} == {"ready"}, (
        "no pose is later than the signal"
    )
    track.fly(0.6, {"drone": 0.0, "ghost": 0.0})
    # The one racer was seen before, the other one at this check; later poses do not give it again.
    signal_ns = begun_ns + 800 * NS_PER_MS - LATE_NS
    assert {one.clock.progress.started_ns for one in track.race.standings()} == {signal_ns}
    track.race.reset(after_ns=track.t_ns + 200 * NS_PER_MS - LATE_NS)
    track.fly(0.8, {"drone": 0.0, "ghost": 0.0})
    # Of the second check: at the first one the far racer's newest pose is that.
    again_ns = begun_ns + 1800 * NS_PER_MS
    assert {one.clock.progress.started_ns for one in track.race.standings()} == {again_ns}


@pytest.mark.usefixtures("_time")
def test_a_race_runs_out_of_time_without_poses_and_starts_again() -> None:
    track = Track(RaceRules("signal", timeout_s=4.0))
    track.fly(3.0, {"drone": 0.0, "ghost": 0.0})
    track.fly(2.0, {})
    assert track.standing("drone").phase == "racing"
    track.fly(4.0, {})
    ended = track.standing("drone").ended
    assert ended is not None
    assert (ended.outcome, ended.race_s) == ("timed_out", 4.0)
    track.race.reset()
    track.fly(1.0, {})
    # Poses of before do not start it.
    assert {one.phase for one in track.race.standings()} == {"waiting"}
    track.fly(1.0, {"drone": 0.0, "ghost": 0.0})
    assert {one.phase for one in track.race.standings()} == {"racing"}
    assert track.standing("drone").instant.race_s(track.t_ns) < 1.0


@pytest.mark.usefixtures("_time")
@pytest.mark.parametrize(
    ("rules", "phase", "penalty_s"),
    [
        (RaceRules("signal", collision="stop"), "collision", 0.0),
        (RaceRules("signal", collision="penalise"), "racing", 3.0),
    ],
)
def test_contacts_of_a_simulated_vehicle_count_as_the_rules_say(
    rules: RaceRules, phase: str, penalty_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    track = Track(rules)
    track.contacts["ghost"] = Contacts(5, 0, "")  # of before the race
    with caplog.at_level(logging.INFO):
        track.fly(3.0, {"drone": 0.0, "ghost": 0.0})
        track.contacts["ghost"] = Contacts(6, track.t_ns, "wall")
        track.fly(1.0, {"drone": 0.0, "ghost": 0.0})
    ghost = track.standing("ghost")
    assert (ghost.phase, ghost.collisions, ghost.clock.progress.penalty_s) == (phase, 1, penalty_s)
    assert track.standing("drone").collisions == 0
    assert sum("ghost collides with wall" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.usefixtures("_time")
@pytest.mark.parametrize(("descent_mps", "collisions"), [(0.0, 0), (0.8, 0), (3.0, 1)])
def test_landing_on_the_ground_is_no_collision_and_falling_onto_it_is(
    descent_mps: float, collisions: int
) -> None:
    track = Track(RaceRules("signal", collision="penalise"))
    track.contacts["drone"] = Contacts(0, 0, "")
    track.fly(1.0, {"drone": 0.0, "ghost": 0.0})
    track.fly(0.5, {"drone": 0.0, "ghost": 0.0}, down_mps=descent_mps)
    track.contacts["drone"] = Contacts(1, track.t_ns, "ground", below=True)
    track.fly(1.0, {"drone": 0.0, "ghost": 0.0})
    assert track.standing("drone").collisions == collisions
    # A wall counts however slowly it is touched.
    track.contacts["drone"] = Contacts(2, track.t_ns, "wall")
    track.fly(1.0, {"drone": 0.0, "ghost": 0.0})
    assert track.standing("drone").collisions == collisions + 1


def two_racers() -> BridgeStatus:
    lead = RacerView("racing", 1, 3.5, 0.0, "B", 1, 0, 0, (), {0: 2.0}, 0.0)
    idle = RacerView("ready", 2, 0.0, 3.0, "A", 0, 0, 1)
    race = RaceView("line", 1, 2, None, {"drone": lead, "ghost": idle})
    return BridgeStatus(t_ns=1, name="lab", version="1", uptime_s=1.0, ready=True, race=race)


def test_metrics_of_a_race() -> None:
    value = metrics_registry(two_racers).get_sample_value
    assert value("vil_race_seconds", {"racer": "drone"}) == 3.5
    assert value("vil_race_gates_passed", {"racer": "drone"}) == 1.0
    assert value("vil_race_gap_seconds", {"racer": "drone"}) == 0.0
    assert value("vil_race_gap_seconds", {"racer": "ghost"}) is None
    assert value("vil_race_penalty_seconds", {"racer": "ghost"}) == 3.0
    assert value("vil_race_place", {"racer": "ghost"}) == 2.0
    assert value("vil_race_finished", {"racer": "drone"}) == 0.0


def test_rows_of_a_race_for_a_terminal() -> None:
    rows = rows_of(json.loads(status_json(two_racers())))
    racers = [row for row in rows if row["kind"] == "racer"]
    assert [(row["name"], row["state"], row["note"]) for row in racers] == [
        ("drone", "racing", "3.5 s, 1 gates, next B"),
        ("ghost", "ready", "0.0 s, 0 gates, next A"),
    ]


@pytest.mark.parametrize(
    ("race", "problem"),
    [
        ("{course: oval, racers: [dron]}", "no actor is named 'dron'"),
        ("{course: oval, racers: [drone, drone]}", "named twice"),
        ("{course: oval, racers: [person]}", "is a human"),
        ("{course: ovall, racers: [drone]}", "no course is named 'ovall'"),
        ("{course: oval, racers: []}", "racers"),
    ],
)
def test_races_that_cannot_be_judged_are_refused(race: str, problem: str) -> None:
    text = f"""
version: 1
rooms: {{hall: {{}}}}
sources: {{sim: {{type: simulated, room: hall, vehicles: {{drone: {{model: flightgoggles}}}}}}}}
actors:
  drone: {{kind: vehicle, source: sim, subject: drone}}
  person: {{kind: human, source: sim, subject: person}}
race: {race}
"""
    with pytest.raises(ConfigError, match=problem):
        load_text(text, "test", resolve=resolve)


def test_racers_of_a_count_are_known_in_a_file_with_other_problems() -> None:
    text = """
version: 1
rooms: {hall: {}}
sources: {sim: {type: simulated, room: hall, vehicles: {drone: {model: flightgoggles, count: 2}}}}
actors: {drone: {kind: vehicle, source: sim, subject: drone, count: 2}}
race: {course: oval, racers: [drone_1, drone_3]}
colour: red
"""
    with pytest.raises(ConfigError) as caught:
        load_text(text, "test", resolve=resolve)
    wrong, colour = caught.value.problems
    assert "race.racers.1: no actor is named 'drone_3'; known: drone_1, drone_2" in wrong
    assert "colour: unknown key" in colour


def test_a_course_file_is_relative_to_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lab"
    (folder / "courses").mkdir(parents=True)
    small = (
        "course: small\nstart: {p_m: [0, 0, 1], yaw_deg: 0}\ngates: [{name: A, p_m: [2, 0, "
        "1], yaw_deg: 0, %s}]\n"
    )
    (folder / "courses" / "small.yaml").write_text(small % "width_m: 1, height_m: 1")
    path = folder / "bridge.yaml"
    path.write_text(
        "version: 1\nrooms: {hall: {}}\n"
        "sources: {sim: {type: simulated, room: hall, vehicles: {drone: {model: kinematic}}}}\n"
        "actors: {drone: {kind: vehicle, source: sim, subject: drone}}\n"
        "race: {course: courses/small.yaml, racers: [drone]}\n"
    )
    monkeypatch.chdir(tmp_path)
    config = load(path.relative_to(tmp_path), env={}, resolve=resolve)
    assert config.section("race").course == str(folder / "courses" / "small.yaml")
    path.write_text(path.read_text().replace("courses/small", "courses/other"))
    with pytest.raises(ConfigError, match=r"other\.yaml"):
        load(path, env={}, resolve=resolve)
    path.write_text(path.read_text().replace("courses/other", 300 * "a"))
    with pytest.raises(ConfigError, match=r"bridge\.yaml:5:8: race\.course: .*too long"):
        load(path, env={}, resolve=resolve)


def test_a_course_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        load_text(
            f"version: 1\nrace: {{course: {tmp_path / 'none.yaml'}, racers: [a]}}\n",
            "test",
            resolve=resolve,
        )
