"""A race in a whole bridge: two simulated vehicles on a small course, in the status, REST, metrics, log, recording."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest
from mcap.reader import make_reader

from tests.support.bridge_rig import build, running
from tests.support.events import until
from vil_bridge.core.vehicle_commands import VehicleCommand

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


async def test_two_simulated_vehicles_race_and_start_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    course, recorded = tmp_path / "line.yaml", tmp_path / "race.mcap"
    course.write_text(COURSE)
    caplog.set_level(logging.INFO)
    bridge = build(CONFIG % course, record=recorded)
    async with running(bridge), httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web:
        race, vehicles = bridge.context.race, bridge.context.for_sources.vehicles
        assert race is not None
        await until(lambda: {one.phase for one in race.standings()} == {"ready"}, 100.0)
        for name, speed_mps in (("one", 2.0), ("other", 1.0)):
            vehicles.command(VehicleCommand(name, "fly", "twist", [speed_mps, 0.0, 0.0, 0.0, 0.0, 0.0]))
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


async def test_a_bridge_without_a_race_says_so() -> None:
    text = "\n".join(line for line in CONFIG.splitlines() if not line.startswith("race:"))
    async with running(text) as bridge, httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web:
        for answer in (await web.get("/api/v1/race"), await web.post("/api/v1/race/reset")):
            assert answer.status_code == 404
            assert "add the section `race`" in answer.json()["detail"]
