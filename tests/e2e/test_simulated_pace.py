"""Simulated time and the steps of vehicles.

It waits for them, they wait for it, and a stop is told.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.common import simulated_time
from tests.support.events import receiving
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.interfaces.vehicle_commands import VehicleCommand
from vil_bridge.runtime.supervisor import ComponentState
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.hosts import ThreadHost
from vil_simulation.source.ipc import ClockUpdate, Order
from vil_simulation.source.source import SimulatedSource

pytestmark = pytest.mark.process


LOAD_S = 300.0


def source(**more: Any) -> SimulatedSource:
    config = {"type": "simulated", "vehicles": {"drone": {"model": "flightgoggles"}}, **more}
    return SimulatedSource("sim", SimulatedConfig.model_validate(config))


def _children() -> list[int]:
    """Processes of ours that step vehicles."""
    names = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [
        int(name)
        for name in names
        if b"source.worker" in Path(f"/proc/{name}/cmdline").read_bytes()
    ]


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
async def test_a_world_that_stands_from_the_start_shows_its_vehicles_and_takes_commands(
    process: bool,
) -> None:
    with simulated_time(0.0):
        async with receiving(source(process=process)) as received:
            await received.until(lambda: received.status.state is ComponentState.RUNNING, LOAD_S)
            state = received.context.vehicles.of("drone").state("drone")
            assert (state.steps, state.armed, state.p_world_m) == (0, True, (0.0, 0.0, 1.0))
            received.context.vehicles.send(
                "drone", VehicleCommand(mode="position", values=[0.0, 0.0, 2.0, 0.0])
            )
            bridge_clock().run(1.0, 100_000_000)
            bridge_clock().run(1.0, 150_000_000)  # behind the one that is under way
            await received.until(
                lambda: received.context.vehicles.of("drone").state("drone").steps >= 240
            )
            assert (
                received.context.vehicles.of("drone").state("drone").steps,
                received.context.vehicles.of("drone").state("drone").mode,
            ) == (
                240,
                "position",
            )


async def test_steps_follow_the_newest_of_two_changes_of_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that changes the clock first is interrupted before it has sent the change."""
    interrupted = threading.Event()
    overtaken = threading.Event()
    send = ThreadHost.send

    def interrupted_send(host: ThreadHost, order: Order) -> bool:
        if isinstance(order, ClockUpdate) and threading.current_thread() is first:
            interrupted.set()
            overtaken.wait(0.5)
        return send(host, order)

    with simulated_time(0.0):
        clock = bridge_clock()
        first = threading.Thread(target=clock.run, args=(1.0, 100_000_000))
        async with receiving(source(process=False)) as received:
            await received.until(lambda: received.status.state is ComponentState.RUNNING, LOAD_S)
            monkeypatch.setattr(ThreadHost, "send", interrupted_send)
            first.start()
            await asyncio.to_thread(interrupted.wait, LOAD_S)
            clock.run(1.0, 150_000_000)
            overtaken.set()
            first.join()
            await received.until(
                lambda: received.context.vehicles.of("drone").state("drone").steps >= 240
            )


@pytest.mark.parametrize("rate_hz", [200.0, 1.0])
async def test_time_does_not_run_away_from_vehicles_that_cannot_keep_up(rate_hz: float) -> None:
    with simulated_time(100.0):
        async with receiving(source(process=True, rate_hz=rate_hz)) as received:
            for _ in range(20):
                last = (await received.more_frames(1, LOAD_S))[-1]
                assert last.t_foreign_ns is not None
                assert bridge_clock().now_ns() - last.t_foreign_ns <= max(0.25, 2.0 / rate_hz) * 1e9
    assert bridge_clock().mapping.until_ns is None


async def test_a_process_that_is_stopped_is_told_and_flies_on() -> None:
    async with receiving(source(process=True)) as received:
        await received.more_frames(3, LOAD_S)
        (child,) = _children()
        os.kill(child, signal.SIGSTOP)
        try:
            await received.until(lambda: received.status.state is ComponentState.WAITING)
            assert "steps are due" in received.status.report().reason
        finally:
            os.kill(child, signal.SIGCONT)
        await received.until(lambda: received.status.counters["late"] > 960)
        assert received.status.state is ComponentState.RUNNING
        assert received.context.vehicles.of("drone").state("drone").p_world_m == pytest.approx(
            (0.0, 0.0, 1.0), abs=0.01
        )
