"""Poses served to mocap clients, the same for NatNet and VRPN.

A whole bridge, and every frame of twenty actors.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection

import pytest

from tests.support.bridge_rig import running
from tests.support.events import receiving
from tests.support.filmed_room import port_of
from tests.support.motions import Circling
from vil_adapters.optitrack.config import MotiveEmulatorConfig, OptitrackConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_adapters.vrpn.config import VrpnConfig
from vil_adapters.vrpn.source import VrpnSource
from vil_benchmarks.poses import CLIENTS
from vil_benchmarks.poses_peers import (
    BODIES,
    RATE_HZ,
    READERS,
    NumberedBodies,
    frame_number,
)
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, SourceEvent, SourceFrame
from vil_bridge.interfaces.ports import PoseSource, SourceContext
from vil_bridge.outputs.natnet.config import NatNetOutputConfig
from vil_bridge.outputs.natnet.output import NatNetOutput
from vil_bridge.outputs.vrpn.config import VrpnOutputConfig
from vil_bridge.outputs.vrpn.output import VrpnOutput
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_simulation.demo.child_processes import child

LOOPBACK = "127.0.0.1"
FRAMES = 120
PATIENCE_S = 180.0
_BRIDGE = """
version: 1
rooms: {hall: {T_world_room: {p_m: [100, 0, 0]}}}
sources: {motive: {type: optitrack, room: hall, server: 127.0.0.1, command_port: %d}}
actors: {cf: {kind: vehicle, source: motive, subject: cf, count: 20}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
outputs: {poses: %s}
"""


def source_of(protocol: str, port: int) -> PoseSource:
    if protocol == "natnet":
        return OptitrackSource(
            "lab", OptitrackConfig(command_port=port, up_axis="z", interface=LOOPBACK)
        )
    return VrpnSource("lab", VrpnConfig(port=port))


@pytest.mark.wire
@pytest.mark.parametrize(
    ("protocol", "output"),
    [
        ("natnet", "{type: natnet, command_port: 0, data_port: 0}"),
        ("vrpn", "{type: vrpn, port: 0}"),
    ],
)
async def test_a_bridge_serves_tracked_actors_where_the_world_has_them(
    protocol: str, output: str
) -> None:
    motion = Circling(*(f"cf_{i}" for i in range(1, BODIES + 1)))
    lab = MotiveEmulator(MotiveEmulatorConfig(command_port=0, data_port=0), motion, now_ns())
    async with lab, running(_BRIDGE % (lab.command_port, output)) as bridge:
        made = bridge.context.outputs.outputs["poses"][0]
        async with receiving(source_of(protocol, await port_of(made))) as got:
            await got.until(
                lambda: any(len(f.subjects) == BODIES and f.tracked.all() for f in got.frames)
            )
        assert min(got.frames[-1].p_m[:, 0]) > 50.0, "poses are the world's, not the room's"
        assert made.status.report().state == "running"


class HeldRoom:
    """Mocap that films a frame when asked, 1/240 s of bridge time after the one before.

    Time stands in between.

    Attributes:
        number: of the newest frame.
    """

    def __init__(self, clock: BridgeTime) -> None:
        self.number = 0
        self._motion = NumberedBodies()
        self._clock, self._start_ns = clock, now_ns()
        actors = [Actor(name, ActorKind.VEHICLE, "mocap", name) for name in self._motion.subjects]
        self.world = World({"mocap": Transform.identity()}, actors)
        self._clock.stand_at(self._start_ns)

    def film(self) -> None:
        """Let the world take the next frame."""
        self.number += 1
        t_ns = self._start_ns + round(self.number * NS_PER_S / RATE_HZ)
        self._clock.stand_at(t_ns)
        seen = self._motion.frame(self.number)
        self.world.ingest(
            SourceFrame(
                "mocap", self.number, None, t_ns, seen.subjects, seen.p_m, seen.q_xyzw, seen.tracked
            )
        )


class Program:
    """A client's program, which sends the number of each frame that it reads whole."""

    def __init__(self, name: str, conn: Connection) -> None:
        self.name = name
        self.read: list[int] = []
        self._conn = conn

    @property
    def reads(self) -> bool:
        return self._conn.poll()

    async def until(self, number: int) -> None:
        """Wait for a frame."""
        while not self.read or self.read[-1] < number:
            waits = await asyncio.to_thread(self._conn.poll, PATIENCE_S)
            assert waits, (
                f"{self.name} has not read frame {number}; its newest are {self.read[-3:]}"
            )
            self.read.append(self._conn.recv())


class OwnSource:
    """One of our sources, in this process: it follows the same clock."""

    def __init__(self, name: str, source: PoseSource) -> None:
        self.name = name
        self.read: list[int] = []
        self.task = asyncio.create_task(source.run(self._emit, Status(name), SourceContext()))

    @property
    def reads(self) -> bool:
        return bool(self.read)

    async def until(self, number: int) -> None:
        """Wait for a frame."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.reads or self.read[-1] < number:
                await asyncio.sleep(0.001)

    def _emit(self, event: SourceEvent) -> None:
        if isinstance(event, SourceFrame):
            number = frame_number(event.p_m[event.tracked, 0].tolist())
            if number is not None:
                self.read.append(number)


@pytest.mark.process
async def test_every_client_reads_every_frame_of_twenty_actors_at_240_hz() -> None:
    """The next frame is filmed once all clients have read the last one, so that the machine's
    speed has no say.
    """
    with (clock := BridgeTime()).in_force():
        room = HeldRoom(clock)
        natnet = NatNetOutput(
            "natnet",
            NatNetOutputConfig(command_port=0, data_port=0, transport="multicast", version="3.1"),
        )
        vrpn = VrpnOutput("vrpn", VrpnOutputConfig(port=0))
        async with AsyncExitStack() as stack:
            serving = [asyncio.create_task(output.run(room.world)) for output in (natnet, vrpn)]
            ports = {"natnet": [await port_of(natnet)], "vrpn": [await port_of(vrpn)]}
            clients: list[OwnSource | Program] = [
                OwnSource(f"{protocol}/source", source_of(protocol, *ports[protocol]))
                for protocol in ports
            ]
            ports["natnet"] += [int(natnet.status.facts["data_address"].rpartition(":")[2])]
            for there in (
                client for client in CLIENTS if client.program != "source" and client.there
            ):
                reader = READERS[there.protocol, there.program]
                clients.append(
                    Program(
                        there.name, stack.enter_context(child(reader, True, *ports[there.protocol]))
                    )
                )
            async with asyncio.timeout(PATIENCE_S):
                while not all(client.reads for client in clients):
                    room.film()
                    await asyncio.sleep(1.0 / RATE_HZ)
            first = room.number + 1
            for _ in range(FRAMES):
                for client in clients:
                    await client.until(room.number)
                room.film()
            for client in clients:
                await client.until(room.number)
    for client in clients:
        assert [number for number in client.read if number >= first] == list(
            range(first, room.number + 1)
        ), client.name
    assert natnet.status.counters["unsent"] == 0
    for task in [*serving, *(client.task for client in clients if isinstance(client, OwnSource))]:
        assert not task.done()
        task.cancel()
