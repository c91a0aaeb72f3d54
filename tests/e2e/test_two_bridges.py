"""Two whole bridges in one process: vehicles, readers and clocks of the same names do not meet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import pytest

from tests.support.bridge_rig import running
from tests.support.events import until
from vil_bridge.client import Receiver
from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus, VehicleState
from vil_bridge.outputs.stream.vehicle_client import VehicleClient
from vil_bridge.runtime.supervisor import ComponentState

pytestmark = pytest.mark.wire


LOAD_S = 300.0
CONFIG = """
version: 1
rooms: {hall: {}}
sources:
  sim:
    type: simulated
    room: hall
    process: false
    vehicles: {drone: {model: flightgoggles, p_m: [0, 4, 1.5], command_timeout_ms: 60000}}
  %s
actors: {drone: {kind: vehicle, source: sim, subject: drone, imu: %s}}
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {renderer: drawn, width_px: 32, height_px: 24, rate_hz: 10}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
simulation: {%s}
"""
REAL = CONFIG % ("onboard: {type: onboard-imu, reader: jetson}", "onboard", "clock: real")
# An onboard IMU measures the real world.
PAUSED = CONFIG % ("", "null", "clock: simulated, paused: true")


@asynccontextmanager
async def two(first: str = REAL) -> AsyncIterator[tuple[Bridge, Bridge]]:
    async with AsyncExitStack() as stack:
        a, b = [await stack.enter_async_context(running(config)) for config in (first, REAL)]
        await until(lambda: all(vehicles(bridge).names() == ["drone"] for bridge in (a, b)), LOAD_S)
        yield a, b


def vehicles(bridge: Bridge) -> VehicleCommandBus:
    return bridge.context.for_sources.vehicles


def drone(bridge: Bridge) -> VehicleState:
    return vehicles(bridge).of("drone").state("drone")


async def test_a_command_moves_the_vehicle_of_its_own_bridge_only() -> None:
    async with two() as (a, b):

        def climb() -> None:
            with VehicleClient(a.context.hub.endpoint, timeout_s=20.0) as client:
                assert client.names() == ["drone"]
                client.fly("drone", "velocity", {"v_world_mps": [0.0, 0.0, 1.0], "yaw_radps": 0.0})

        await asyncio.to_thread(climb)
        await until(lambda: drone(a).p_world_m[2] > 2.5)
        assert (drone(a).pilot, drone(b).pilot) == ("command", "autopilot")
        assert abs(drone(b).p_world_m[2] - 1.5) < 0.1
        for bridge, lowest_m, highest_m in ((a, 2.0, 50.0), (b, 1.3, 1.7)):
            actor = bridge.snapshot().actors["drone"]
            assert actor.p_world_m is not None
            assert lowest_m < actor.p_world_m[2] < highest_m


async def test_inertial_samples_arrive_in_the_bridge_that_they_are_sent_to() -> None:
    async with two() as bridges:
        a, b = (bridge.context.sources["onboard"] for bridge in bridges)
        endpoints = [bridge.context.hub.endpoint for bridge in bridges]
        with (
            Receiver(endpoints[0], name="jetson") as idle,
            Receiver(endpoints[1], name="jetson") as receiver,
        ):
            await until(
                lambda: idle.counters["registrations"] and receiver.counters["registrations"]
            )

            def arrived() -> bool:
                receiver.send_imu(machine_ns(), np.zeros(3), np.array([0.0, 0.0, 9.81]))
                return b.meter.count > 20

            await until(arrived)
            assert b.status.state is ComponentState.RUNNING
        assert a.meter.count == 0 and a.status.state is not ComponentState.RUNNING


async def test_each_has_its_own_time() -> None:
    async with two(PAUSED) as (a, b):
        slow, real = a.context.simulation.clock, b.context.simulation.clock
        assert abs(real.now_ns() - machine_ns()) < NS_PER_S
        stands_ns = slow.now_ns()
        steps = drone(a).steps, drone(b).steps
        await until(lambda: drone(b).steps > steps[1] + 200)
        assert (slow.now_ns(), drone(a).steps) == (stands_ns, steps[0])
        a.context.simulation.step(NS_PER_S // 2)
        await until(lambda: slow.now_ns() == stands_ns + NS_PER_S // 2)
        await until(lambda: drone(a).steps > steps[0] + 400)
