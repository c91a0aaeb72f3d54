"""Planned flights that the command line gives to a running bridge, and gives again when its map
blocks them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from tests.support.bridge_rig import running, service_of
from tests.support.events import until
from tests.support.programs import Program
from vil_bridge.core.types import FloatArray
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.services.flights.service import FlightService
from vil_bridge.services.maps.service import MapService

pytest.importorskip("ompl", reason="the package is not installed (extra plan)")

pytestmark = [pytest.mark.process, pytest.mark.long]

LOAD_S = 300.0
GOAL_M = np.array([6.0, 0.0, 1.5])
WALL_X_M = 4.05
CONFIG = """
version: 1
rooms: {hall: {}}
sources:
  sim:
    type: simulated
    room: hall
    vehicles: {quad: {model: flightgoggles, p_m: [0, 0, 1.5], command_timeout_ms: 5000}}
actors: {drone: {kind: vehicle, source: sim, subject: quad}}
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {actor: drone, renderer: drawn, modalities: [depth32]}}
maps: {hall: {cameras: [front], min_m: [-3, -5, 0], max_m: [9, 5, 4]}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
simulation: {clock: simulated, speed: 0.3}
"""


@asynccontextmanager
async def flying() -> AsyncIterator[Bridge]:
    async with running(CONFIG) as bridge:
        await until(lambda: bridge.context.world.newest("drone") is not None, LOAD_S)
        yield bridge


def planning(bridge: Bridge, *words: str) -> Program:
    command = [sys.executable, "-m", "vil_bridge", "plan", "--to=6,0,1.5", "--speed", "2", *words]
    return Program(*command, "--send", f"{bridge.http.url.rstrip('/')}/drone")


def wall(low_y: float = -1.5, high_y: float = 1.5) -> FloatArray:
    """Points of a wall across the direct way."""
    y, z = np.meshgrid(np.arange(low_y, high_y, 0.05), np.arange(0.1, 3.5, 0.05))
    return np.column_stack((np.full(y.size, WALL_X_M), y.ravel(), z.ravel()))


async def ended(program: Program, bridge: Bridge) -> tuple[int, list[FloatArray]]:
    """Wait for the end of a program; return its code, and where the vehicle was meanwhile."""
    flown: list[FloatArray] = []

    def over() -> bool:
        newest = bridge.context.world.newest("drone")
        assert newest is not None
        flown.append(newest[0].p_m)
        return program.poll() is not None

    await until(over, LOAD_S)
    return await asyncio.to_thread(program.wait, 10.0), flown


async def test_a_flight_is_given_to_a_simulated_vehicle() -> None:
    async with flying() as bridge:
        with planning(bridge, "--scene", "empty") as program:
            code, _ = await ended(program, bridge)
        assert code == 0
        await until(
            lambda: service_of(bridge, FlightService).flights()["drone"].state == "done", LOAD_S
        )
        newest = bridge.context.world.newest("drone")
        assert newest is not None and np.linalg.norm(newest[0].p_m - GOAL_M) < 0.1


async def test_a_flight_that_the_map_blocks_is_planned_again() -> None:
    """A wall is seen while the vehicle flies towards it."""
    async with flying() as bridge:
        found = service_of(bridge, MapService).maps["hall"].map
        found.insert_points(np.array([[-2.0, -4.0, 0.3]]), np.array([-1.0, -4.0, 0.3]), 1)
        with planning(bridge, "--live-map", "hall", "--through-unknown") as program:

            def under_way() -> bool:
                newest = bridge.context.world.newest("drone")
                assert newest is not None
                return bool(newest[0].p_m[0] > 0.5) or program.poll() is not None

            await until(under_way, LOAD_S)
            first = service_of(bridge, FlightService).flights()["drone"].begins_t_ns
            found.insert_points(wall(), np.array([1.0, 0.0, 1.5]), 2)
            code, flown = await ended(program, bridge)
        assert code == 0
        assert service_of(bridge, FlightService).flights()["drone"].begins_t_ns > first
        assert np.linalg.norm(flown[-1] - GOAL_M) < 0.2
        nearest = min(float(np.linalg.norm(wall() - place, axis=1).min()) for place in flown[::10])
        print(f"{nearest:.2f} m from the wall at the nearest")
        assert nearest > 0.3, "the radius of the vehicle"
        assert max(abs(place[1]) for place in flown) > 1.5, "around the wall"
