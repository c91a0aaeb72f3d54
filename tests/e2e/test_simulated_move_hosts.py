"""Moves, placements and collisions of simulated vehicles, asked of the bus.

In both hosts, and in a whole bridge.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.support.bridge_rig import running
from tests.support.common import ROOT, simulated_time
from tests.support.events import Received, receiving, until
from vil_bridge.core.bridge_time import bridge_clock, now_ns
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_bridge.interfaces.vehicle_commands import (
    CancelCommand,
    MoveCommand,
    VehicleCommand,
    VehicleCommandBus,
)
from vil_bridge.interfaces.vehicle_moves import (
    MOST_POINTS,
    HoverMove,
    Move,
    MoveEnd,
    PathMove,
    RotorsMove,
    TakeoffMove,
    VehiclePlacement,
    VelocityMove,
    YawGoal,
)
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.source import SimulatedSource

pytestmark = pytest.mark.process

LOAD_S = 300.0
LEVEL = (0.0, 0.0, 0.0, 1.0)
AWAY = VelocityMove((1.0, 0.0, 0.0), 3e38)
POSE_NS = 20 * NS_PER_MS
"""More than lies between two poses."""
BOTH = pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])


def source(process: bool, **vehicle: Any) -> SimulatedSource:
    standing = {"p_m": [0.0, 0.0, 0.0], "autopilot": {"kind": "none"}}
    vehicles = {
        "drone": {"model": "airsim", **standing, **vehicle},
        "car": {"model": "car", **standing},
    }
    rates = {"step_hz": 240, "rate_hz": 100, "control_hz": 60}
    config = {"type": "simulated", "process": process, "vehicles": vehicles, **rates}
    return SimulatedSource("sim", SimulatedConfig.model_validate(config))


class Ends:
    """Ends of moves, and the threads in which they were reported."""

    def __init__(self, vehicles: VehicleCommandBus) -> None:
        self.vehicles = vehicles
        self.reported: list[list[MoveEnd]] = []
        self.threads: set[int] = set()

    def start(self, move: Move, subject: str = "drone") -> list[MoveEnd]:
        """Start a move; the list gets its end."""
        ends: list[MoveEnd] = []

        def ended(end: MoveEnd) -> None:
            self.threads.add(threading.get_ident())
            ends.append(end)

        self.vehicles.send(subject, MoveCommand(move, ended))
        self.reported.append(ends)
        return ends

    async def fly(self, move: Move, subject: str = "drone") -> MoveEnd:
        """Fly a move to its end."""
        ends = self.start(move, subject)
        await until(lambda: ends, LOAD_S)
        return ends[0]


@asynccontextmanager
async def standing(process: bool, **vehicle: Any) -> AsyncIterator[tuple[Received, Ends]]:
    async with receiving(source(process, **vehicle)) as received:
        await received.until(
            lambda: "drone" in received.context.vehicles.names() and received.frames, LOAD_S
        )
        yield received, Ends(received.context.vehicles)


def flown_up_to(vehicles: VehicleCommandBus, t_ns: int) -> bool:
    """Return whether all steps before an instant are made.

    The last of them are not reported where time stands.
    """
    return now_ns() >= t_ns and vehicles.of("drone").state("drone").t_ns > t_ns - POSE_NS


@BOTH
async def test_each_move_ends_once_in_the_loops_thread(process: bool) -> None:
    with simulated_time(10.0):
        async with standing(process) as (received, moves):
            vehicles = received.context.vehicles
            took_off = await moves.fly(TakeoffMove(20.0))
            assert took_off == MoveEnd(reached=True)
            state = vehicles.of("drone").state("drone")
            assert (state.pilot, state.landed) == ("move", False)
            assert 1.5 < state.p_world_m[2] < 2.1
            assert [rotor.torque_nm > 0.0 for rotor in state.rotors] == [False, False, True, True]
            lift_n = sum(rotor.thrust_n for rotor in state.rotors)
            assert lift_n == pytest.approx(GRAVITY_MPS2 + state.a_world_mps2[2], abs=0.01), (
                "the vehicle has 1 kg"
            )
            speed_radps = 669.857 * math.sqrt(state.rotors[0].thrust_n / 4.17945)
            assert state.rotors[0].speed_radps == pytest.approx(speed_radps, rel=1e-5)
            problem = (
                await moves.fly(PathMove(((9.0, 0.0, 2.0),), 1.0, 60.0, lookahead_m=0.0))
            ).problem
            assert problem == "lookahead distance cannot be 0"
            overtaken = moves.start(AWAY)
            assert await moves.fly(VelocityMove((0.0, 0.0, 0.0), 0.5)) == MoveEnd(reached=True)
            assert overtaken == [MoveEnd(reached=False)]
            position = VehicleCommand(mode="position", values=(0.0, 0.0, 2.0, 0.0, 0.0, 0.0))
            orders: tuple[Callable[[], None], ...] = (
                lambda: vehicles.send("drone", CancelCommand()),
                lambda: vehicles.send("drone", position),
                lambda: vehicles.send("drone", VehiclePlacement((0.0, 0.0, 2.0), LEVEL)),
                lambda: vehicles.send("drone", VehicleCommand("reset")),
            )
            for order in orders:
                interrupted = moves.start(AWAY)
                order()
                await until(partial(bool, interrupted))
                assert interrupted == [MoveEnd(reached=False)]
            assert not (await moves.fly(HoverMove())).reached
            last = moves.start(AWAY)
    await until(lambda: last)
    assert last == [MoveEnd(reached=False)], "the source ended"
    assert all(len(ends) == 1 for ends in moves.reported)
    assert moves.threads == {threading.get_ident()}


@BOTH
async def test_a_paused_world_keeps_what_is_left_of_a_move(process: bool) -> None:
    clock = bridge_clock()
    with simulated_time(1.0):
        async with standing(process) as (received, moves):
            vehicles = received.context.vehicles
            clock.run(0.0)
            t_ns = now_ns()
            await until(lambda: flown_up_to(vehicles, t_ns))
            began_ns = vehicles.of("drone").state("drone").t_ns
            ends = moves.start(VelocityMove((0.0, 0.0, 1.0), 2.0))
            clock.run(10.0, 1900 * NS_PER_MS)
            await until(lambda: flown_up_to(vehicles, t_ns + 1900 * NS_PER_MS))
            await asyncio.sleep(0.1)
            assert not ends
            clock.run(10.0, 300 * NS_PER_MS)
            await until(lambda: ends)
            assert ends == [MoveEnd(reached=True)]
            took_s = (vehicles.of("drone").state("drone").t_ns - began_ns) / NS_PER_S
            assert 2.0 <= took_s < 2.25, "the clock stands after 2.2 s"


@BOTH
async def test_in_a_paused_world_orders_are_answered_and_seen(process: bool) -> None:
    with simulated_time(1.0):
        async with standing(process) as (received, moves):
            vehicles = received.context.vehicles
            bridge_clock().run(0.0)
            ends = moves.start(AWAY)
            vehicles.send("drone", CancelCommand())
            await until(lambda: ends)
            vehicles.send("drone", VehiclePlacement((1.0, 1.0, 1.0), LEVEL))
            await received.until(lambda: received.frames[-1].p_m[0].tolist() == [1.0, 1.0, 1.0])
            frames = len(received.frames)
            turned = (0.0, 0.0, math.sin(0.5), math.cos(0.5))
            vehicles.send(
                "drone",
                VehiclePlacement((3.0, -2.0, 5.0), turned, (0.5, 0.0, 0.0), (0.0, 0.0, 0.1)),
            )
            await until(lambda: vehicles.of("drone").state("drone").p_world_m == (3.0, -2.0, 5.0))
            state = vehicles.of("drone").state("drone")
            np.testing.assert_allclose(state.q_world_body, turned)
            assert (state.v_world_mps, state.w_body_radps) == ((0.5, 0.0, 0.0), (0.0, 0.0, 0.1))
            await received.until(lambda: len(received.frames) > frames)
            frame = received.frames[-1]
            assert frame.subjects == ("drone",)
            np.testing.assert_array_equal(frame.p_m, [[3.0, -2.0, 5.0]])
            reset = received.resets[-1]
            assert (reset.subjects, reset.clock) == (("drone",), False)
            assert received.events.index(reset) < received.events.index(frame)
            vehicles.send("drone", VehicleCommand("disarm"))
            await until(lambda: not vehicles.of("drone").state("drone").armed)


@BOTH
async def test_a_collision_is_latched_until_it_is_read(process: bool) -> None:
    with simulated_time(5.0):
        async with standing(process) as (received, _):
            vehicles = received.context.vehicles
            await received.more_frames(3)
            vehicles.of("drone").collision("drone", clear=True)
            vehicles.send("drone", VehiclePlacement((1.0, 2.0, -3.0), LEVEL, sweep=True))
            await until(lambda: vehicles.of("drone").collision("drone", clear=False))
            hit = vehicles.of("drone").collision("drone", clear=True)
            assert hit is not None
            assert hit.normal_world == (0.0, 0.0, 1.0)
            assert hit.point_world_m[2] == hit.p_world_m[2] == pytest.approx(0.0, abs=1e-6)
            assert hit.depth_m == 0.0
            assert abs(hit.t_ns - now_ns()) < 60 * NS_PER_S
            assert vehicles.of("car").collision("car", clear=False) is None
            with pytest.raises(KeyError):
                vehicles.of("ship").collision("ship", clear=True)


@BOTH
async def test_what_cannot_be_flown_is_refused_in_words(process: bool) -> None:
    async with standing(process) as (received, moves):
        vehicles = received.context.vehicles
        long = tuple((float(i), 0.0, 1.0) for i in range(MOST_POINTS))
        for subject, move, words in (
            (
                "car",
                AWAY,
                "car cannot fly moves: model 'car' lacks AirSim's modes. Use model airsim",
            ),
            (
                "drone",
                VelocityMove((math.nan, 0.0, 0.0), 1.0),
                "v_mps must be from -1000 to 1000 m/s, not nan",
            ),
            ("drone", VelocityMove((1e9, 0.0, 0.0), 1.0), "v_mps must be from -1000 to 1000 m/s"),
            ("drone", VelocityMove((1.0, 0.0, 0.0), math.inf), "duration_s must be from "),
            (
                "drone",
                VelocityMove((1.0, 0.0, 0.0), 1.0, YawGoal(math.inf)),
                "yaw must be from -10000 to 10000 rad",
            ),
            ("drone", PathMove(((0.0, 0.0, math.inf),), 1.0, 1.0), "points_m must be from "),
            ("drone", PathMove(((0.0, 0.0, 1.0),), -1.0, 1.0), "speed_mps must not be negative"),
            (
                "drone",
                PathMove((*long, (0.0, 0.0, 1.0)), 1.0, 1.0),
                "at most 5000 points, not 5001",
            ),
            ("drone", RotorsMove((0.5, 0.5), 1.0), "4 rotors, not 2"),
        ):
            with pytest.raises(ValueRefused, match=words):
                moves.start(move, subject)
        for placement, words in (
            (VehiclePlacement((math.nan, 0.0, 0.0), LEVEL), "p_world_m must be from "),
            (
                VehiclePlacement((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1e-9)),
                "q_world_body must not be zero",
            ),
            (
                VehiclePlacement((0.0, 0.0, 0.0), LEVEL, (1e300, 0.0, 0.0)),
                "v_world_mps must be from -1000 to",
            ),
        ):
            with pytest.raises(ValueRefused, match=words):
                vehicles.send("drone", placement)
        with pytest.raises(KeyError):
            moves.start(AWAY, "ship")
        ends = moves.start(PathMove(long, 1.0, 1.0))
        vehicles.send("drone", CancelCommand())
        await until(lambda: ends)
        assert ends == [MoveEnd(reached=False)]


CONFIG = """
version: 1
rooms: {hall: {T_world_room: {p_m: [0, 0, 0]}}}
sources:
  sim:
    type: simulated
    room: hall
    process: true
    step_hz: 240
    vehicles:
      drone: {model: airsim, p_m: [0, 0, 0], autopilot: {kind: none}}
actors:
  drone: {kind: vehicle, source: sim, subject: drone}
simulation: {clock: simulated, speed: %s}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


@pytest.mark.parametrize("rate", [0.5, 10.0])
async def test_a_bridge_flies_moves_in_its_time_and_sees_placements_at_once(rate: float) -> None:
    async with running(CONFIG % rate) as bridge:
        vehicles = bridge.context.for_sources.vehicles
        await until(
            lambda: "drone" in vehicles.names() and vehicles.of("drone").state("drone").steps > 10,
            LOAD_S,
        )
        moves, simulation = Ends(vehicles), bridge.context.simulation
        simulation.set_pace(paused=True)
        t_ns = now_ns()
        await until(lambda: flown_up_to(vehicles, t_ns))
        began_ns = vehicles.of("drone").state("drone").t_ns
        ends = moves.start(VelocityMove((0.0, 0.0, 1.0), 1.5))
        simulation.step(1400 * NS_PER_MS)
        await until(lambda: flown_up_to(vehicles, t_ns + 1400 * NS_PER_MS))
        assert not ends
        simulation.step(300 * NS_PER_MS)
        await until(lambda: ends)
        assert ends == [MoveEnd(reached=True)]
        state = vehicles.of("drone").state("drone")
        assert 1.5 <= (state.t_ns - began_ns) / NS_PER_S < 1.75
        assert state.p_world_m[2] > 0.8
        simulation.set_pace(paused=False)
        vehicles.send("drone", VehiclePlacement((5.0, 6.0, 7.0), LEVEL))
        await until(
            lambda: vehicles.of("drone").state("drone").p_world_m[0] == pytest.approx(5.0, abs=0.1)
        )
        newest = bridge.context.world.newest("drone")
        assert newest is not None
        np.testing.assert_allclose(newest[0].p_m, [5.0, 6.0, 7.0], atol=0.5)


async def test_the_pages_moves_work(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "guides" / "simulated.md").read_text(encoding="utf-8")
    _commands, code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    async with standing(process=False) as (received, _):
        vehicles = received.context.vehicles
        exec(compile(code, "simulated.md", "exec"), {"vehicles": vehicles})
        await until(
            lambda: vehicles.of("drone").state("drone").p_world_m[2] == pytest.approx(3.0, abs=0.5)
        )
        await asyncio.sleep(0)
    assert "False" in capsys.readouterr().out
