"""Planned flights of a running bridge.

A simulated vehicle flies them, a tracked one gets an offer and no command.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.bridge_rig import running, service_of
from tests.support.events import until
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import FloatArray, SourceFrame
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.interfaces.trajectory import Trajectory
from vil_bridge.services.flights.service import FlightService
from vil_bridge.web.schemas.flights import FlightBody, FlightOut
from vil_simulation.vehicles.trajectories import minimum_snap

pytestmark = pytest.mark.process

LOAD_S = 300.0
OFFSET_M = np.array([2.0, -1.0, 0.0])
CONFIG = """
version: 1
rooms: {hall: {T_world_room: {p_m: [2, -1, 0], ypr_deg: [90, 0, 0]}}, cage: {}}
sources:
  sim:
    type: simulated
    room: hall
    step_hz: 480
    rate_hz: 200
    vehicles: {quad: {model: flightgoggles, p_m: [0, 0, 1.5], command_timeout_ms: 2000}}
%s
actors:
  drone: {kind: vehicle, source: sim, subject: quad}
%s
require_cameras: false
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""
SLOWLY = CONFIG % ("", "") + "simulation: {clock: simulated, speed: 0.3}"
"""Time that passes slowly, so that a busy machine gives set-points in time."""
WITH_REAL = CONFIG % (
    "  mocap: {type: optitrack, room: cage}",
    "  real: {kind: vehicle, source: mocap, subject: real}",
)


def rows_of(curve: Trajectory, yaw_rad: float = 0.0) -> list[list[float]]:
    times = np.linspace(0.0, curve.duration_s, math.ceil(5.0 * curve.duration_s) + 1)
    found = curve.at(times)
    yaw = np.full(len(times), yaw_rad)
    rows = np.column_stack((times, found.p_world_m, *found[1:4], yaw))
    return [list(map(float, row)) for row in rows.round(5)]


@asynccontextmanager
async def flying(config: str = SLOWLY) -> AsyncIterator[tuple[Bridge, httpx.AsyncClient]]:
    async with (
        running(config) as bridge,
        httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web,
    ):
        vehicles = bridge.context.for_sources.vehicles
        await until(
            lambda: (
                vehicles.names() == ["quad"] and bridge.context.world.newest("drone") is not None
            ),
            LOAD_S,
        )
        yield bridge, web


def place(bridge: Bridge, actor: str = "drone") -> FloatArray:
    newest = bridge.context.world.newest(actor)
    assert newest is not None
    return newest[0].p_m


async def put(
    web: httpx.AsyncClient, actor: str, rows: list[list[float]], **more: Any
) -> httpx.Response:
    return await web.put(f"/api/v1/flights/{actor}", json={"rows": rows, **more})


async def test_a_simulated_vehicle_flies_along_a_trajectory_in_the_world() -> None:
    corners = OFFSET_M + np.array(
        [[0.0, 0.0, 1.5], [2.0, 1.0, 2.0], [3.0, -1.0, 1.5], [1.0, -2.0, 1.8]]
    )
    curve = minimum_snap(corners, speed_mps=2.0)
    async with flying() as (bridge, web):
        given = (await put(web, "drone", rows_of(curve, 1.2))).raise_for_status().json()
        assert given["state"] == "flying" and given["duration_s"] == pytest.approx(curve.duration_s)
        errors: list[float] = []
        begins_ns = given["begins_t_ns"]

        def ended() -> bool:
            newest = bridge.context.world.newest("drone")
            assert newest is not None
            wanted = curve.at((newest[1] - begins_ns) * 1e-9).p_world_m[0]
            errors.append(float(np.linalg.norm(newest[0].p_m - wanted)))
            return service_of(bridge, FlightService).flights()["drone"].state == "done"

        await until(ended, LOAD_S)
        await until(lambda: np.linalg.norm(place(bridge) - corners[-1]) < 0.05)
        print(f"largest error {max(errors):.3f} m in {len(errors)} looks")
        assert max(errors) < 0.15
        q = bridge.context.world.newest("drone")
        assert q is not None
        heading = math.atan2(q[0].rotation()[1, 0], q[0].rotation()[0, 0])
        assert heading == pytest.approx(1.2, abs=0.05)


async def test_another_flight_takes_over_at_its_time_and_a_cancelled_one_holds() -> None:
    line = minimum_snap(OFFSET_M + np.array([[0.0, 0.0, 1.5], [4.0, 0.0, 1.5]]), speed_mps=1.5)
    async with flying() as (bridge, web):
        first = (await put(web, "drone", rows_of(line))).raise_for_status().json()
        turn_s = 0.5 * line.duration_s
        at = line.at(turn_s)
        start, v, a, j = (values[0].tolist() for values in at[:4])
        stop = [start[0] + 0.5 * v[0], start[1] + 1.0, start[2]]
        rows = [[0.0, *start, *v, *a, *j, 0.0], [2.0, *stop, *[0.0] * 9, 0.0]]
        second = await put(web, "drone", rows, t_ns=first["begins_t_ns"] + round(turn_s * 1e9))
        assert second.status_code == 200, second.text
        await until(
            lambda: service_of(bridge, FlightService).flights()["drone"].state == "done", LOAD_S
        )
        await until(lambda: np.linalg.norm(place(bridge) - stop) < 0.05)
        here = place(bridge)
        away = minimum_snap(np.stack((here, np.add(here, (0.0, 0.0, 3.0)))), speed_mps=1.0)
        (await put(web, "drone", rows_of(away))).raise_for_status()
        await until(lambda: place(bridge)[2] > here[2] + 0.5)
        cancelled = (await web.delete("/api/v1/flights/drone")).raise_for_status().json()
        assert cancelled["state"] == "cancelled"
        held = place(bridge)
        await until(
            lambda: (
                np.linalg.norm(
                    bridge.context.for_sources.vehicles.of("quad").state("quad").v_world_mps
                )
                < 0.05
            )
        )
        assert np.linalg.norm(place(bridge) - held) < 0.6


async def test_a_tracked_vehicle_gets_an_offer_and_no_command() -> None:
    rows = [[0.0, 5.0, 5.0, 1.0, *[0.0] * 9, 0.0], [4.0, 6.0, 5.0, 1.0, *[0.0] * 9, 0.0]]
    async with flying(WITH_REAL) as (bridge, web):
        frame = SourceFrame(
            "mocap", 1, None, now_ns(), ("real",), np.zeros((1, 3)), np.eye(4)[3:], np.array([True])
        )
        bridge.context.world.ingest(frame)
        before = bridge.context.for_sources.vehicles.of("quad").state("quad").commands
        offered = (await put(web, "real", rows)).raise_for_status().json()
        assert (offered["state"], offered["rows"], offered["flown_s"]) == ("offered", rows, 0.0)
        service_of(bridge, FlightService).step(now_ns() + 10**9)
        assert (await web.get("/api/v1/flights")).json()["real"]["state"] == "offered"
        assert bridge.context.for_sources.vehicles.of("quad").state("quad").commands == before
        assert (await web.delete("/api/v1/flights/real")).json()["state"] == "cancelled"


async def test_what_cannot_be_flown_is_refused() -> None:
    far = [[0.0, 9.0, 9.0, 1.0, *[0.0] * 9, 0.0], [4.0, 6.0, 5.0, 1.0, *[0.0] * 9, 0.0]]
    async with flying() as (_bridge, web):
        for actor, rows, status, reason in (
            ("nobody", far, 404, "no actor 'nobody'"),
            ("drone", far, 409, "m from the begin of the flight: plan it from where it is"),
            ("drone", [far[1], far[0]], 422, "the times must begin with 0"),
            ("drone", [far[0], [4.0, 1e9, *far[1][2:]]], 422, "every number must be less"),
            ("drone", [far[0]], 422, "rows"),
        ):
            answer = await put(web, actor, rows)
            assert (answer.status_code, reason in answer.json()["detail"]) == (status, True), (
                answer.text
            )
        late = await put(web, "drone", far, t_ns=now_ns() + 10**12)
        assert late.status_code == 409 and "within a minute" in late.json()["detail"]
        assert (await web.get("/api/v1/flights/drone")).status_code == 404


def test_bodies_are_those_of_the_client() -> None:
    body = FlightBody(rows=[[0.0] * 14, [1.0] * 14])
    assert body.t_ns is None and len(FlightOut.__dataclass_fields__) == 7
