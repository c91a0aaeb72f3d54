"""A race in a whole bridge.

Two simulated vehicles on a small course, in the status, REST, metrics, log, recording.

And an arcade: courses to choose, the vehicle at the start, gates in the world, results with
flights.
"""

from __future__ import annotations

import asyncio
import csv
import io
import logging
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from mcap.reader import make_reader

from tests.support.bridge_rig import build, running
from tests.support.common import wait_until
from tests.support.events import until
from tests.support.flightgoggles import ports, server
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.interfaces.vehicle_commands import VehicleCommand
from vil_bridge.services.race.bridge_race import BridgeRace
from vil_bridge.services.race.service import RaceService, race_of
from vil_bridge.web.client.api import BridgeApi
from vil_bridge.web.client.errors import RestError
from vil_bridge.web.schemas.race import RaceSetupBody
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.server import RenderedRequest
from vil_simulation.race.report import race_page
from vil_simulation.race.run_files import read_runs

pytestmark = pytest.mark.process

COURSE = """
course: line
start: {p_m: [0, 0, 1.5], yaw_deg: 0}
rules: {clock: motion}
gates:
  - {name: A, p_m: [2, 0, 1.5], yaw_deg: 0, width_m: 4, height_m: 2}
  - {name: B, p_m: [4, 0, 1.5], yaw_deg: 0, width_m: 4, height_m: 2}
"""
CONFIG = """
version: 1
rooms: {hall: {}}
sources:
  sim:
    type: simulated
    room: hall
    vehicles:
      one: {model: kinematic, p_m: [0, 1, 1.5], command_timeout_ms: 60000}
      other: {model: kinematic, p_m: [0, -1, 1.5], command_timeout_ms: 60000}
actors:
  one: {kind: vehicle, source: sim, subject: one}
  other: {kind: vehicle, source: sim, subject: other}
race: {course: %s, racers: [one, other]}
cameras: {}
require_cameras: false
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


CAMERAS = """
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras:
  eye: {actor: one, renderer: drawn, width_px: 32, height_px: 24, rate_hz: 20, max_age_ms: 60000}
  wall: {renderer: drawn, width_px: 32, height_px: 24, rate_hz: 20, max_age_ms: 60000}
"""


def black(views: tuple[View, ...], _world: WorldSnapshot) -> RenderedRequest:
    pixels = np.random.default_rng().integers(0, 9, (24, 32, 3), np.uint8)
    return RenderedRequest(tuple(RenderedImage(view, pixels) for view in views if view.due))


def running_race(bridge: Bridge) -> BridgeRace:
    service = bridge.context.services["race"].service
    assert isinstance(service, RaceService) and service.race is not None
    return service.race


async def test_two_simulated_vehicles_race_and_start_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    course, recorded = tmp_path / "line.yaml", tmp_path / "race.mcap"
    course.write_text(COURSE)
    caplog.set_level(logging.INFO)
    bridge = build(CONFIG % course, record=recorded)
    async with running(bridge), httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web:
        race = race_of(bridge.context.services["race"].service)
        vehicles = bridge.context.for_sources.vehicles
        assert race is not None
        await until(lambda: {one.phase for one in race.standings()} == {"ready"}, 100.0)
        for name, speed_mps in (("one", 2.0), ("other", 1.0)):
            vehicles.send(
                name, VehicleCommand("fly", "twist", [speed_mps, 0.0, 0.0, 0.0, 0.0, 0.0])
            )
        await until(lambda: {one.phase for one in race.standings()} == {"finished"}, 100.0)
        seen = (await web.get("/api/v1/race")).raise_for_status().json()
        status = (await web.get("/api/v1/status")).raise_for_status().json()["race"]
        metrics = (await web.get("/metrics")).raise_for_status().text
        log = [event["text"] for event in (await web.get("/api/v1/log")).raise_for_status().json()]
        again = (await web.post("/api/v1/race/reset")).raise_for_status().json()
        await until(lambda: {one.phase for one in race.standings()} <= {"ready", "racing"}, 100.0)
    one, other = seen["racers"]["one"], seen["racers"]["other"]
    assert list(seen["racers"]) == list(status["racers"])
    assert {racer["place"] for racer in seen["racers"].values()} == {1, 2}
    assert one["race_s"] == pytest.approx(1.95, abs=0.02)  # 3.9 m from the first motion of 0.1 m
    assert other["race_s"] == pytest.approx(3.9, abs=0.02)
    assert other["gap_s"] == pytest.approx(1.95, abs=0.04)
    assert one["splits_s"]["1"] - one["splits_s"]["0"] == pytest.approx(1.0, abs=0.01)
    assert 'vil_race_finished{racer="one"} 1.0' in metrics
    assert sum(text.startswith("other passes ") for text in log) == 2
    assert [racer["passed"] for racer in again["racers"].values()] == [0, 0]
    with recorded.open("rb") as file:
        lines = [message.data for _, _, message in make_reader(file).iter_messages(topics="/log")]
    assert sum(b"race: one finishes after " in line for line in lines) == 1
    check_report(recorded, one, other)


def check_report(recorded: Path, one: dict[str, Any], other: dict[str, Any]) -> None:
    """Check that a report judges the recorded race as the bridge did, and knows the second race
    that was set up.
    """
    (group,) = read_runs([recorded])
    runs = {run.label: run for run in group.runs}
    assert set(runs) == {"race 1, one", "race 1, other", "race 2, one", "race 2, other"}
    for name, live, speed_mps in (("one", one, 2.0), ("other", other, 1.0)):
        run = runs[f"race 1, {name}"]
        assert run.finished and run.track is not None
        assert run.episode.time_s == pytest.approx(live["race_s"], abs=1e-6)
        assert [gate.race_s for gate in run.episode.gates] == pytest.approx(
            list(live["splits_s"].values()), abs=1e-6
        )
        assert run.track.t_s[-1] == pytest.approx(run.episode.time_s)
        assert run.track.p_world_m[-1] == pytest.approx(
            (4.0, 1.0 if name == "one" else -1.0, 1.5), abs=5e-3
        )
        assert np.median(run.track.speed_mps) == pytest.approx(speed_mps, abs=0.02)
        assert np.median(run.track.thrust_mps2) == pytest.approx(9.80665, abs=0.05)
        assert runs[f"race 2, {name}"].episode.ended == "incomplete"
    page = race_page([group])
    assert "Time behind the best run" in page and "race 2, other" in page


async def test_a_recorded_contact_ends_a_run_of_a_report_where_it_happened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    course, recorded = tmp_path / "line.yaml", tmp_path / "fall.mcap"
    course.write_text(COURSE.replace("clock: motion", "clock: signal"))
    solid = (CONFIG % course).replace(
        "one: {model: kinematic,", "one: {model: airsim, contact: {floor_m: 0},"
    )
    bridge = build(solid.replace("racers: [one, other]", "racers: [one]"), record=recorded)
    async with running(bridge):
        race = race_of(bridge.context.services["race"].service)
        vehicles = bridge.context.for_sources.vehicles
        assert race is not None
        await until(lambda: race.standing("one").phase == "racing", 100.0)
        vehicles.send("one", VehicleCommand("fly", "velocity", [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
        await until(lambda: vehicles.of("one").state("one").p_world_m[0] > 2.3, 100.0)
        vehicles.send("one", VehicleCommand("fly", "velocity", [0.0, 0.0, -2.0, 0.0, 0.0, 1.0]))
        await until(lambda: race.standing("one").phase == "collision", 100.0)
        ended, splits_s = race.standing("one").ended, race.standing("one").splits_s
    assert ended is not None
    (group,) = read_runs([recorded])
    (run,) = group.runs
    assert (run.episode.ended, run.episode.what, run.episode.passed) == (
        "collision",
        "ground",
        len(splits_s),
    )
    # The signal is a pose near the log's line.
    assert run.episode.end_s == pytest.approx(ended.race_s, abs=0.05)
    assert run.episode.gates[0].race_s == pytest.approx(splits_s[0], abs=0.05)
    assert run.end_m is not None and 2.0 < run.end_m[0] < 4.0
    assert run.end_m[1:] == pytest.approx((1.0, 0.0), abs=0.1)
    page = race_page([group])
    assert "collision (ground)" in page and page.count('class="cross"') == 1


async def test_a_recording_without_a_race_is_refused(tmp_path: Path) -> None:
    recorded = tmp_path / "calm.mcap"
    without = "".join(line + "\n" for line in CONFIG.splitlines() if not line.startswith("race:"))
    bridge = build(without, record=recorded)
    async with running(bridge):
        pass
    with pytest.raises(ConfigError, match=r"calm\.mcap: its bridge judged no race\. Add race:"):
        read_runs([recorded])


async def test_headers_have_the_race_of_the_cameras_carrier(tmp_path: Path) -> None:
    course = tmp_path / "line.yaml"
    course.write_text(COURSE + "laps: 2\norder: [A]\n")
    bridge = build((CONFIG % course).replace("cameras: {}\nrequire_cameras: false\n", CAMERAS))
    (renderer,) = bridge.context.pool.renderers.values()
    assert isinstance(renderer, FlightGogglesClient)
    with server(ports(renderer), black):
        async with running(bridge):
            endpoint = bridge.context.hub.endpoint
            race = race_of(bridge.context.services["race"].service)
            with Receiver(endpoint, "eye") as eye, Receiver(endpoint, "wall") as wall:
                seen: list[Frame] = []

                def watch(state: str = "", beyond_m: float = -9.0, sign: float = 1.0) -> bool:
                    seen.extend(filter(None, [eye.next(0.0)]))
                    known = (
                        bool(seen) and seen[-1].race is not None and seen[-1].race.state == state
                    )
                    return (known or not state) and sign * (x_of(bridge) - beyond_m) > 0.0

                await until(lambda: watch("ready"), 100.0)
                for speed_mps in (2.0, -2.0, 2.0):  # through A, back over it, and through it again
                    values = [speed_mps, 0.0, 0.0, 0.0, 0.0, 0.0]
                    bridge.context.for_sources.vehicles.send(
                        "one", VehicleCommand("fly", "twist", values)
                    )
                    await until(partial(watch, "", 3.0 if speed_mps > 0.0 else 1.0, speed_mps))
                await until(lambda: watch("finished"), 100.0)
                fixed: list[Frame] = []
                await until(lambda: fixed.append(newest) if (newest := wall.next(0.0)) else fixed)
                assert race is not None
                splits_s = race.standing("one").splits_s
                check_races(seen, splits_s)
    assert fixed[0].race is None and "race" not in fixed[0].metadata


def x_of(bridge: Bridge) -> float:
    return float(bridge.context.for_sources.vehicles.of("one").state("one").p_world_m[0])


def check_races(seen: list[Frame], splits_s: dict[int, float]) -> None:
    """Compare what headers said with the splits, frame by frame."""
    races = [frame.race for frame in seen if frame.race is not None]
    assert [one.passed for one in races] == sorted(one.passed for one in races)
    assert {one.laps for one in races} == {2} and {one.penalty_s for one in races} == {0.0}
    for passed, lap, gate in ((0, 1, "A"), (1, 2, "A"), (2, 2, "")):
        some = {(one.lap, one.next_gate) for one in races if one.passed == passed}
        assert some == {(lap, gate)}
    flying = [frame for frame in seen if frame.race is not None and frame.race.state == "racing"]
    assert len(flying) > 10
    for one, other in pairwise(flying):
        assert one.race is not None and other.race is not None
        elapsed_s = 1e-9 * (other.t_bridge_ns - one.t_bridge_ns)
        if one.race.race_s > 0.0:  # the motion that started the time is known a little later
            assert other.race.race_s - one.race.race_s == pytest.approx(elapsed_s, abs=1e-6)
    assert races[-1].race_s == pytest.approx(splits_s[1], abs=1e-6)


GROUND = """
version: 1
rooms: {hall: {}}
sources:
  sim:
    type: simulated
    room: hall
    vehicles: {drone: {model: flightgoggles, p_m: [0, 0, 0.3], command_timeout_ms: 60000,
        contact: {radius_m: 0.15}}}
actors: {drone: {kind: vehicle, source: sim, subject: drone}}
race: {course: %s, racers: [drone]}
cameras: {}
require_cameras: false
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


async def test_landing_and_taking_off_are_no_collisions_and_a_fall_is_one(tmp_path: Path) -> None:
    course = tmp_path / "line.yaml"
    course.write_text(COURSE.replace("clock: motion", "clock: signal, collision: penalise"))
    async with running(GROUND % course) as bridge:
        race = race_of(bridge.context.services["race"].service)
        vehicles = bridge.context.for_sources.vehicles
        assert race is not None
        await until(lambda: race.standing("drone").phase == "racing", 100.0)

        async def fly(up_mps: float, ends: Callable[[], bool]) -> None:
            vehicles.send("drone", VehicleCommand("fly", "velocity", [0.0, 0.0, up_mps, 0.0]))
            await until(ends)

        await fly(-0.5, lambda: vehicles.of("drone").state("drone").collisions > 0)
        await fly(1.0, lambda: vehicles.of("drone").state("drone").p_world_m[2] > 4.0)
        assert race.standing("drone").collisions == 0
        vehicles.send("drone", VehicleCommand("disarm"))
        await until(lambda: race.standing("drone").collisions == 1)


async def test_a_bridge_without_a_race_says_so() -> None:
    text = "\n".join(line for line in CONFIG.splitlines() if not line.startswith("race:"))
    async with (
        running(text) as bridge,
        httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web,
    ):
        for answer in (await web.get("/api/v1/race"), await web.post("/api/v1/race/reset")):
            assert answer.status_code == 404
            assert "add the section `race`" in answer.json()["detail"]


ARCADE = (
    CONFIG.replace(
        "rooms: {hall: {}}", "rooms: {hall: {T_world_room: {p_m: [10, 0, 0], ypr_deg: [90, 0, 0]}}}"
    )
    .replace("racers: [one, other]", "racers: [one, other], arcade: true")
    .replace("model: kinematic", "model: flightgoggles")
)


async def test_an_arcade_puts_the_vehicle_to_the_start_and_the_gates_into_the_world(
    tmp_path: Path,
) -> None:
    (course := tmp_path / "line.yaml").write_text(COURSE)
    async with running(ARCADE % course) as bridge:
        await until(lambda: bridge.context.for_sources.vehicles.names(), 100.0)
        assert len(bridge.context.world.scene(0).actors) == 2 + 2  # vehicles, gates
        await asyncio.to_thread(_choose_and_fly, bridge)


def _choose_and_fly(bridge: Bridge) -> None:
    api, vehicles = BridgeApi(bridge.http.url, timeout_s=60.0), bridge.context.for_sources.vehicles
    courses = {one.name: one for one in api.get_race_courses()}
    assert next(iter(courses)) == "line" and len(courses) > 8
    assert courses["line"].gates == 2 and courses["line"].length_m == pytest.approx(4.0)
    race = api.put_race(RaceSetupBody(course="arcade_ground_1", laps=1))
    assert (race.course, race.laps, race.gates, race.arcade) == ("arcade_ground_1", 1, 6, True)
    scene = api.get_scene()
    assert scene.course is not None and (scene.course.name, scene.course.flying) == (
        "arcade_ground_1",
        True,
    )
    assert scene.course.bounds_m is not None and len(scene.gates) == 6
    for name, aside_m in (("one", 0.5), ("other", -0.5)):  # around (-4, -9, 1.5) in the world
        assert vehicles.of(name).state(name).p_world_m == pytest.approx(
            (-9.0 + aside_m, 14.0, 1.5), abs=0.05
        )
    things = {one.name: one for one in bridge.context.world.scene(0).actors}
    assert things["race 0"].prefab == "gate" and 0.76 * things["race 0"].size_m[1] == pytest.approx(
        2.4
    )
    race = api.put_race(RaceSetupBody(course="line", pilots={"one": "Ada"}))
    assert (race.racers["one"].pilot, race.racers["one"].due) == ("Ada", 0)
    wait_until(lambda: api.get_race().racers["one"].state != "waiting", 100.0)
    # Along the world's x.
    vehicles.send("one", VehicleCommand("fly", "velocity", [0.0, -2.0, 0.0, 0.0]))
    wait_until(api.get_race_results, 100.0)
    (result,) = api.get_race_results()
    assert (result.pilot, result.course, result.outcome, result.laps) == (
        "Ada",
        "line",
        "finished",
        (1,),
    )
    assert result.total_s == result.race_s == pytest.approx(result.laps_s[0])
    rows = list(csv.DictReader(io.StringIO(api.get_race_lap(1, 1).decode())))
    assert float(rows[-1]["drone_x"]) == pytest.approx(4.0, abs=0.1)
    for setup, status, words in (
        (RaceSetupBody(course="nowhere"), 422, "no course is named 'nowhere'"),
        (RaceSetupBody(pilots={"third": "Bob"}), 422, "'third' does not race"),
    ):
        with pytest.raises(RestError, match=words) as refused:
            api.put_race(setup)
        assert refused.value.status == status
    with pytest.raises(RestError, match="no lap 2"):
        api.get_race_lap(1, 2)


async def test_races_are_set_up_one_at_a_time(tmp_path: Path) -> None:
    """A request that comes during another one takes no thread to wait in."""
    (course := tmp_path / "line.yaml").write_text(COURSE)
    async with running(ARCADE % course) as bridge:
        await until(lambda: bridge.context.for_sources.vehicles.names(), 100.0)
        race = running_race(bridge)
        with race.monitor._lock:  # the first one cannot end
            first = asyncio.create_task(asyncio.to_thread(race.set_up, "line", None, {}))
            await until(race._lock.locked, 100.0)
            with pytest.raises(
                ValueError, match="another race is being set up now: try again in a few seconds"
            ):
                await asyncio.to_thread(race.set_up, "line", None, {})
        await first
        await asyncio.to_thread(race.set_up, "line", None, {})


async def test_a_recorded_race_of_an_arcade_has_the_laps_that_were_chosen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    course, recorded = tmp_path / "line.yaml", tmp_path / "laps.mcap"
    course.write_text(COURSE)
    bridge = build(ARCADE % course, record=recorded)
    async with running(bridge):
        race = running_race(bridge)
        await until(lambda: bridge.context.for_sources.vehicles.names(), 100.0)
        for chosen, laps in (("line", 3), ("line", 2), ("arcade_ground_1", 5)):
            await asyncio.to_thread(race.set_up, chosen, laps, {})
            await until(lambda: race.monitor.standing("one").phase != "waiting", 100.0)
    named = {(group.course.name, group.course.laps): group.name for group in read_runs([recorded])}
    assert (
        named.items()
        >= {
            ("line", 3): "laps, 3 laps",
            ("line", 2): "laps, 2 laps",
            ("arcade_ground_1", 5): "laps",
        }.items()
    )


async def test_a_race_with_a_fixed_course_is_not_set_up(tmp_path: Path) -> None:
    (course := tmp_path / "line.yaml").write_text(COURSE)
    async with (
        running(CONFIG % course) as bridge,
        httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web,
    ):
        refused = await web.put("/api/v1/race", json={"course": "oval"})
        assert (refused.status_code, (await web.get("/api/v1/race/courses")).json()) == (409, [])
        assert "arcade: true" in refused.json()["detail"]
