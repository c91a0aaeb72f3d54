"""Time of a simulation over a real HTTP server: pause, step, speed, and refusals that say why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from prometheus_client import CollectorRegistry

from tests.support.common import wait_until
from tests.support.sample_snapshot import sample_snapshot
from tests.support.web_server import web_server
from vil_bridge.config.simulation import SimulationConfig
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.daemon.simulation_clock import SimulationClock
from vil_bridge.web.app import create_app
from vil_bridge.world.world import World

pytestmark = pytest.mark.wire


@contextmanager
def served(config: SimulationConfig) -> Iterator[tuple[httpx.Client, BridgeTime]]:
    simulation = SimulationClock(config)
    app = create_app(
        sample_snapshot,
        CollectorRegistry(),
        preview=lambda _: None,
        light=World({}, []),
        clock=simulation,
    )
    with web_server(app) as server, httpx.Client(base_url=server.url, timeout=60.0) as web:
        yield web, simulation.clock


def reached(clock: BridgeTime, t_ns: int) -> bool:
    wait_until(lambda: clock.now_ns() >= t_ns, period_s=0.001)
    return clock.now_ns() == t_ns


def test_a_simulation_is_paused_stepped_and_sped_up() -> None:
    with served(SimulationConfig(clock="simulated")) as (web, clock):
        state = (
            web.patch("/api/v1/simulation", json={"paused": True, "speed": 50.0})
            .raise_for_status()
            .json()
        )
        assert (state["clock"], state["paused"], state["speed"]) == ("simulated", True, 50.0)
        assert clock.now_ns() == state["t_ns"] == web.get("/api/v1/simulation").json()["t_ns"]
        web.post("/api/v1/simulation/step", json={"seconds": 2.5}).raise_for_status()
        assert reached(clock, state["t_ns"] + 2_500_000_000)
        running = web.patch("/api/v1/simulation", json={"paused": False}).raise_for_status().json()
        assert not running["paused"]
        assert clock.mapping.rate == 50.0
        refused = web.post("/api/v1/simulation/step", json={"seconds": 1.0})
        assert refused.status_code == 409
        assert "pause it" in refused.json()["detail"]


def test_real_time_is_not_touched() -> None:
    with served(SimulationConfig()) as (web, clock):
        for answer in (
            web.patch("/api/v1/simulation", json={"speed": 0.5}),
            web.post("/api/v1/simulation/step", json={"seconds": 1}),
        ):
            assert answer.status_code == 409
            assert "clock: simulated" in answer.json()["detail"]
        assert clock.mapping.rate == 1.0


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("", {"speed": 0}, "speed"),
        ("", {"speed": 1e9}, "speed"),
        ("", {"pause": True}, "pause"),
        ("/step", {"seconds": -1}, "seconds"),
        ("/step", {}, "seconds"),
    ],
)
def test_wrong_bodies_name_the_place(path: str, body: dict[str, object], place: str) -> None:
    with served(SimulationConfig(clock="simulated")) as (web, _):
        answer = web.request("POST" if path else "PATCH", f"/api/v1/simulation{path}", json=body)
        assert answer.status_code == 422
        assert place in answer.json()["detail"]


async def test_time_that_goes_on_is_at_its_speed_at_once() -> None:
    """A pause is no sign of pictures that take long, wherever in it time goes on."""
    time_of = SimulationClock(
        SimulationConfig(clock="simulated", wait_for_cameras=True, paused=True)
    )
    with time_of.passing():
        for late_s in (0.30, 0.31, 0.24, 0.25, 0.26):
            await asyncio.sleep(late_s)
            time_of.set_pace(paused=False)
            await asyncio.sleep(0.6)
            assert time_of.clock.mapping.rate > 0.7
            time_of.set_pace(paused=True)
