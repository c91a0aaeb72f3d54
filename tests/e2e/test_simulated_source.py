"""The source of simulated vehicles.

Exact steps in bridge time, in a thread and in a process, commands, restarts.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.support.common import simulated_time
from tests.support.events import receiving, until
from tests.support.fork_server import without_forking
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, ImuSample
from vil_bridge.interfaces.vehicle_commands import VehicleCommand
from vil_bridge.runtime.supervisor import ComponentState
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.source import SimulatedSource

pytestmark = pytest.mark.process


LOAD_S = 300.0
BOTH = pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])


def source(process: bool, name: str = "sim", **vehicle: Any) -> SimulatedSource:
    entry = {"model": "flightgoggles", **vehicle}
    config = {"type": "simulated", "process": process, "vehicles": {"drone": entry}}
    return SimulatedSource(name, SimulatedConfig.model_validate(config))


@BOTH
async def test_poses_and_samples_have_the_exact_bridge_times_of_their_steps(process: bool) -> None:
    async with receiving(
        source(process, count=3, imu={"rate_hz": 100}, autopilot={"kind": "circle"})
    ) as received:
        frames = (await received.more_frames(60, LOAD_S))[-60:]
        assert received.status.state is ComponentState.RUNNING
    assert frames[0].subjects == ("drone_1", "drone_2", "drone_3")
    start = received.frames[0].t_foreign_ns
    assert start is not None
    # Poses are after steps 5, 10, 15, 20, 24, 29...: the first is 5/960 s after the start.
    start -= round(5e9 / 960)
    for frame in received.frames:
        assert frame.t_foreign_ns is not None
        steps = (frame.t_foreign_ns - start) * 960 / 1e9
        assert steps == pytest.approx(round(steps), abs=1e-5)
        assert frame.t_foreign_ns <= frame.t_arrival_ns
        assert frame.tracked.all()
    assert [f.frame_number for f in received.frames] == list(range(1, len(received.frames) + 1))
    assert all(e.t_sent_ns == e.t_foreign_ns == e.t_received_ns for e in received.exchanges)
    samples = [s for s in received.of(ImuSample) if s.source == "sim/drone_2"]
    assert len(samples) >= 20
    assert set(np.diff([s.t_arrival_ns for s in samples]).round(-6)) <= {
        9_000_000,
        10_000_000,
        11_000_000,
    }
    counters = received.status.counters
    assert counters["steps"] >= 288
    assert counters["dropped"] == 0


async def test_the_world_takes_the_stamps_as_they_are() -> None:
    world = World(
        {"sim": Transform.identity()},
        [Actor("a", ActorKind.VEHICLE, "sim", "drone", imu="sim/drone")],
    )
    async with receiving(source(process=False, imu={})) as received:
        await received.more_frames(40, LOAD_S)
    for event in received.events:
        world.ingest(event)
    newest = world.newest("a")
    assert newest is None, "the end of the source makes histories start over"
    for event in received.events[: received.events.index(received.frames[-1]) + 1]:
        world.ingest(event)
    newest = world.newest("a")
    assert newest is not None
    assert newest[1] == received.frames[-1].t_foreign_ns
    samples = world.imu_since("a", 0)
    assert samples is not None
    assert len(samples.t_ns) > 10


async def test_a_motion_capture_room_stands_between() -> None:
    mocap = {"latency_s": 0.02, "position_m": 1e-3, "clock_offset_s": 5.0, "loss": 0.2}
    entry = {"model": "flightgoggles"}
    config = {"type": "simulated", "process": False, "mocap": mocap, "vehicles": {"drone": entry}}
    made = SimulatedSource("sim", SimulatedConfig.model_validate(config))
    async with receiving(made) as received:
        await received.more_frames(80, LOAD_S)
    frames = received.frames
    late_ns = [
        f.t_arrival_ns - f.t_foreign_ns + 5_000_000_000
        for f in frames
        if f.t_foreign_ns is not None
    ]
    assert late_ns == [20_000_000] * len(frames)
    numbers = [f.frame_number for f in frames]
    assert numbers[-1] - numbers[0] + 1 > len(frames) + 5, "some are lost"
    assert np.std([f.p_m[0] for f in frames], axis=0) == pytest.approx(1e-3 * 10.0, rel=0.4), (
        "density sqrt(rate/2)"
    )
    assert received.exchanges == [], "a room's clock is found by its stamps"
    assert received.context.vehicles.names() == []
    with pytest.raises(
        ValidationError, match="mocap has no parameter 'latency'; known: rate_hz, latency_s"
    ):
        SimulatedConfig.model_validate({**config, "mocap": {"latency": 1}})


@BOTH
async def test_commands_are_taken_or_refused_with_a_reason(process: bool) -> None:
    """A process is executed here, and forked in the other cases."""
    async with receiving(source(process, command_timeout_ms=60_000)) as received:
        with without_forking():
            await received.more_frames(1, LOAD_S)
        assert received.context.vehicles.names() == ["drone"]
        values: dict[str, float | list[float]] = {"v_world_mps": [0.0, 0.0, 1.0], "yaw_radps": 0.0}
        received.context.vehicles.send("drone", VehicleCommand(mode="velocity", values=values))
        await received.until(
            lambda: received.context.vehicles.of("drone").state("drone").v_world_mps[2] > 0.8
        )
        state = received.context.vehicles.of("drone").state("drone")
        assert (state.mode, state.pilot, state.commands, state.armed) == (
            "velocity",
            "command",
            1,
            True,
        )
        received.context.vehicles.send("drone", VehicleCommand("disarm"))
        await received.until(lambda: not received.context.vehicles.of("drone").state("drone").armed)
        received.context.vehicles.send("drone", VehicleCommand("reset"))
        await received.until(lambda: received.context.vehicles.of("drone").state("drone").armed)
        for wrong, reason in (
            (
                VehicleCommand(mode="sideways"),
                "has no mode 'sideways'; known: motor_speeds, rates",
            ),
            (
                VehicleCommand(mode="velocity", values=[1.0]),
                r"takes v_world_mps \(3, m/s\), yaw_radps .* got 1 n",
            ),
            (VehicleCommand(mode="velocity", values={"v": 1.0}), "got v"),
            (
                VehicleCommand(mode="velocity", values={**values, "v_world_mps": 1.0}),
                "has 3 numbers",
            ),
            (
                VehicleCommand(mode="velocity", values=[float("nan")] * 4),
                "must be from -1000 to 1000 m/s",
            ),
        ):
            with pytest.raises(ValueError, match=reason):
                received.context.vehicles.send("drone", wrong)
    assert received.context.vehicles.names() == []
    assert [(reset.source, reset.subjects) for reset in received.resets] == [
        ("sim", ("drone",)),
        ("sim", ()),
    ]


@BOTH
async def test_vehicles_stand_go_on_and_hurry_with_the_bridges_time(process: bool) -> None:
    with simulated_time(1.0):
        async with receiving(source(process)) as received:
            await received.more_frames(10, LOAD_S)
            bridge_clock().run(0.0)
            stopped_ns = bridge_clock().now_ns()
            await received.until(lambda: received.frames[-1].t_foreign_ns > stopped_ns - 6_000_000)  # type: ignore[operator]
            count = len(received.frames)
            await asyncio.sleep(0.1)
            assert len(received.frames) <= count + 1
            assert all(
                f.t_foreign_ns is not None and f.t_foreign_ns <= stopped_ns for f in received.frames
            )
            bridge_clock().run(1.0, 100_000_000)
            await received.until(lambda: received.frames[-1].t_foreign_ns > stopped_ns + 94_000_000)  # type: ignore[operator]
            assert received.frames[-1].t_foreign_ns <= stopped_ns + 100_000_000  # type: ignore[operator]
            bridge_clock().run(4.0)
            await received.more_frames(100)


@BOTH
async def test_an_added_vehicle_flies_while_time_stands_and_passes(process: bool) -> None:
    with simulated_time(1.0):
        async with receiving(source(process)) as received:
            await received.more_frames(5, LOAD_S)
            bridge_clock().run(0.0)
            bus = received.context.vehicles
            bus.add("sim", "second", {"model": "flightgoggles", "p_m": [3.0, 0.0, 1.0]})
            await until(lambda: bus.of("second").state("second").mode)
            assert received.frames[-1].subjects[-1] == "second"
            assert received.resets[-1].subjects == ("second",)
            bridge_clock().run(1.0)
            frames = (await received.more_frames(10))[-10:]
            assert [frame.subjects for frame in frames] == [("drone", "second")] * 10
            np.testing.assert_allclose(frames[-1].p_m[1], (3.0, 0.0, 1.0), atol=0.02)
            await until(lambda: received.status.facts["subjects"] == ["drone", "second"])


async def test_a_process_that_is_killed_is_started_again_and_histories_start_over() -> None:
    async with receiving(source(process=True), supervised=True) as received:
        await received.more_frames(5, LOAD_S)
        received.context.vehicles.add(
            "sim", "second", {"model": "flightgoggles", "p_m": [3.0, 0.0, 1.0]}
        )
        await received.until(lambda: len(received.frames[-1].subjects) == 2)
        (child,), before = _children(), len(received.resets)
        os.kill(child, signal.SIGKILL)
        await until(lambda: len(received.resets) > before)
        await received.more_frames(5, LOAD_S)
        assert received.status.report().retries == 1
        assert "process that steps the vehicles of sim is gone" in str(
            received.status.report().last_error
        )
        assert received.context.vehicles.names() == ["drone", "second"]
        await received.until(lambda: received.frames[-1].subjects == ("drone", "second"))
    assert _children() == []


@BOTH
async def test_a_scene_that_does_not_exist_is_named(process: bool) -> None:
    config = {"type": "simulated", "process": process, "contact": {"scene": "nowhere"}}
    vehicles = {"drone": {"model": "flightgoggles"}}
    made = SimulatedSource("sim", SimulatedConfig.model_validate(config | {"vehicles": vehicles}))
    async with receiving(made, supervised=True) as received:
        await until(lambda: received.status.report().last_error is not None)
        assert "no scene is named 'nowhere'; known: alphapilot, blocks" in str(
            received.status.report().last_error
        )


def _children() -> list[int]:
    """Processes of ours that step vehicles."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
            line = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if (
            int(words[1]) == os.getpid()
            and b"vil_simulation.source.worker" in line
            and words[0] != "Z"
        ):
            found.append(int(stat.parent.name))
    return found


async def test_two_sources_cannot_simulate_one_vehicle() -> None:
    async with receiving(source(process=False)) as first:
        await first.more_frames(1, LOAD_S)
        other = source(process=False, name="again")
        async with receiving(other, supervised=True, context=first.context) as second:
            await second.until(lambda: second.status.report().retries > 0, LOAD_S)
            assert "'sim' simulates a vehicle 'drone' already" in str(
                second.status.report().last_error
            )


def test_a_wrong_model_is_told_at_once() -> None:
    config = SimulatedConfig.model_validate(
        {"type": "simulated", "vehicles": {"drone": {"model": "flightgoggles"}}}
    )
    wrong = config.vehicles["drone"].model_copy(update={"model": "zeppelin"})
    with pytest.raises(
        ConfigError, match=r"sources\.sim\.vehicles\.drone: unknown model 'zeppelin'; known: airsim"
    ):
        SimulatedSource("sim", config.model_copy(update={"vehicles": {"drone": wrong}}))
