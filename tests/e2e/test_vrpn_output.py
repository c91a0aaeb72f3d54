"""Poses served over VRPN.

What our source, the official library and careless clients get of a live world.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.support.events import receiving, until
from tests.support.filmed_room import PERSON, FilmedRoom, port_of, serving
from tests.support.independent import Bodies, motioncapture_reads
from vil_adapters.vrpn.config import VrpnConfig
from vil_adapters.vrpn.source import VrpnSource
from vil_bridge.core.clock import WallClock
from vil_bridge.core.errors import SinkError
from vil_bridge.core.types import SourceFrame
from vil_bridge.outputs.vrpn.config import VrpnOutputConfig
from vil_bridge.outputs.vrpn.output import VrpnOutput
from vil_bridge.protocols.vrpn.codec import COOKIE, PING, PONG, VELOCITY, decode_velocity
from vil_bridge.protocols.vrpn.id_mapping import Incoming, Outgoing, ResolvedMessage

pytestmark = pytest.mark.wire

LOOPBACK = "127.0.0.1"
DRONES = 20


def output(**keys: Any) -> VrpnOutput:
    return VrpnOutput("poses", VrpnOutputConfig(**{"port": 0, **keys}))


def subjects_of(frames: list[SourceFrame], name: str) -> list[tuple[SourceFrame, int]]:
    return [(frame, frame.subjects.index(name)) for frame in frames if name in frame.subjects]


async def messages_of(reader: asyncio.StreamReader, kind: str, count: int) -> list[ResolvedMessage]:
    """Return the next messages of a kind."""
    incoming, found = Incoming(), list[ResolvedMessage]()
    async with asyncio.timeout(60.0):
        while len(found) < count:
            found += [
                message
                for message in incoming.feed(await reader.read(65536))
                if message.kind == kind
            ]
    return found


def has_refused(counters: Counter[str], reason: str) -> bool:
    return counters[reason] + counters["malformed"] >= 1


@pytest.mark.parametrize("up_axis", ["z", "y"])
async def test_our_source_reads_the_same_poses_at_their_own_times(up_axis: Any) -> None:
    room, made = FilmedRoom(DRONES, person=True), output(up_axis=up_axis)
    async with serving(room, made):
        source = VrpnSource("lab", VrpnConfig(port=await port_of(made), up_axis=up_axis))
        async with receiving(source) as got:
            await got.until(lambda: len(got.frames) >= 100)
    assert got.status.counters["malformed"] == got.status.counters["undescribed"] == 0
    by_us = {WallClock.of_run().utc_ns(t_ns) // 1000: pose for t_ns, pose in room.filmed.items()}
    compared = 0
    for frame in got.frames:
        if frame.t_foreign_ns is None or frame.t_foreign_ns // 1000 not in by_us:
            continue  # of an instant at which the silent world was asked
        p_m, q_xyzw = by_us[frame.t_foreign_ns // 1000]
        rows = [frame.subjects.index(name) for name in room.names]
        assert frame.tracked.all()
        assert set(frame.subjects) == {*room.names, PERSON}
        np.testing.assert_allclose(frame.p_m[rows], p_m, atol=1e-9)
        np.testing.assert_allclose(
            np.abs(np.sum(frame.q_xyzw[rows] * q_xyzw, axis=1)), 1.0, atol=1e-12
        )
        compared += 1
    assert compared > 50


async def test_velocities_are_those_of_the_flight() -> None:
    room, made = FilmedRoom(2), output(actors=("cf1",))
    async with serving(room, made):
        reader, writer = await asyncio.open_connection(LOOPBACK, await port_of(made))
        writer.write(COOKIE)
        *_, last = await messages_of(reader, VELOCITY, 100)
        writer.close()
    assert last.sender == "cf1"
    velocity = decode_velocity(last.payload)
    np.testing.assert_allclose(velocity.v, (0.3, -0.2, 0.1), atol=0.02)
    assert velocity.dt_s == pytest.approx(1e-3)
    rate_radps = 2.0 * np.linalg.norm(velocity.q_xyzw[:3]) / velocity.dt_s
    assert rate_radps == pytest.approx(np.linalg.norm((0.2, -0.1, 0.4)), abs=0.05)


async def test_a_lost_actor_has_no_message_until_it_comes_back() -> None:
    room, made, lost = FilmedRoom(2), output(), list[str]()
    async with (
        serving(room, made, lost),
        receiving(VrpnSource("lab", VrpnConfig(port=await port_of(made)))) as got,
    ):
        await got.until(lambda: any(f.tracked[i] for f, i in subjects_of(got.frames, "cf1")))
        lost.append("cf1")
        await got.until(lambda: not subjects_of(got.frames, "cf1")[-1][0].tracked[-1])
        seen = len(got.frames)
        await got.until(lambda: len(got.frames) >= seen + 20)
        assert not any(f.tracked[i] for f, i in subjects_of(got.frames[seen:], "cf1"))
        assert any(f.tracked[i] for f, i in subjects_of(got.frames[seen:], "cf0"))
        lost.clear()
        await got.until(lambda: subjects_of(got.frames, "cf1")[-1][0].tracked.all())


async def test_pings_are_answered_and_those_of_unknown_trackers_are_counted() -> None:
    room, made, asking = FilmedRoom(1), output(), Outgoing()
    async with serving(room, made):
        reader, writer = await asyncio.open_connection(LOOPBACK, await port_of(made))
        writer.write(COOKIE + asking.describe(("stranger", "cf0"), (PING,)))
        writer.write(asking.message("stranger", PING, 0) + asking.message("cf0", PING, 0))
        (pong,) = await messages_of(reader, PONG, 1)
        writer.close()
    assert pong.sender == "cf0"
    assert made.status.counters["unknown_trackers"] == 1


async def test_careless_clients_are_dropped_and_counted_while_others_go_on() -> None:
    room, made = FilmedRoom(DRONES), output(max_clients=2)
    async with serving(room, made):
        port = await port_of(made)
        async with receiving(VrpnSource("lab", VrpnConfig(port=port))) as got:
            await got.until(lambda: len(got.frames) > 5)
            counters = made.status.counters
            for data, reason in (
                (b"GET / HTTP/1.1\r\n" * 4, "malformed"),
                (COOKIE + b"\0" * (1 << 20), "flooding"),
            ):
                reader, writer = await asyncio.open_connection(LOOPBACK, port)
                writer.write(data)
                await until(partial(has_refused, counters, reason))
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1 << 22)
                writer.close()
            with socket.create_connection((LOOPBACK, port)) as deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                deaf.send(COOKIE)
                while not counters["slow"]:  # its buffers are full the sooner the more is filmed
                    room.film()
                    await asyncio.sleep(0)
            with (
                socket.create_connection((LOOPBACK, port)),
                socket.create_connection((LOOPBACK, port)),
            ):
                await until(lambda: counters["refused"] >= 1)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.sendto(b"203.0.113.9 80\0", (LOOPBACK, port))
                asking.sendto(b"\xff" * 60_000, (LOOPBACK, port))
                await until(lambda: counters["foreign"] == 1 and counters["malformed"] >= 2)
            seen = len(got.frames)
            await got.until(lambda: len(got.frames) > seen + 20)
    assert not got.resets


async def test_a_port_that_is_taken_is_reported_with_its_cure() -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            SinkError,
            match=f"cannot serve VRPN at {LOOPBACK}:{port}: .*Give the output another port",
        ):
            await output(port=port).run(FilmedRoom(1).world)


@pytest.mark.process
@pytest.mark.parametrize("scheme", ["", "tcp://"], ids=["connect-back", "tcp"])
async def test_the_official_library_reads_twenty_actors_and_a_person(scheme: str) -> None:
    pytest.importorskip("motioncapture", reason="the independent client is not installed")
    room, made = FilmedRoom(DRONES, person=True), output()
    async with (
        serving(room, made),
        motioncapture_reads(
            "vrpn", {"hostname": f"{scheme}{LOOPBACK}:{await port_of(made)}"}
        ) as frame,
    ):
        bodies: Bodies = {}
        while bodies.keys() != {*room.names, PERSON}:
            bodies = await frame()
    first_m = np.array([1.0, 0.0, 1.0])
    assert np.linalg.norm(np.array(bodies["cf1"][:3]) - first_m) < 0.4 * len(room.filmed)
    assert made.status.counters["malformed"] == made.status.counters["refused"] == 0


EXHAUSTED = """
import asyncio, logging, os, resource, socket, sys, time
from vil_bridge.protocols.vrpn.codec import COOKIE
from vil_bridge.protocols.vrpn.server import VrpnHooks, VrpnServer

async def main():
    logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
    server = VrpnServer(["drone"], VrpnHooks(clock=time.time_ns, count=print), 4)
    port = server.listen("127.0.0.1", 0)
    clients = [socket.socket() for _ in range(2)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (clients[-1].fileno() + 1, limits[1]))
    for client in clients:
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    before_s = time.process_time()
    await asyncio.sleep(2.5)  # the pause passes twice
    assert server.connected == 0
    print("busy" if time.process_time() - before_s > 1.0 else "idle")
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for client in clients:
        greeting = await asyncio.get_running_loop().sock_recv(client, len(COOKIE))
        assert greeting == COOKIE
    print("accepted")
    server.close()

asyncio.run(main())
"""


@pytest.mark.process
def test_a_server_without_descriptors_pauses_and_says_so_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXHAUSTED], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    warning, *rest = done.stdout.splitlines()
    assert warning == (
        "WARNING VRPN clients wait to be accepted: Too many open files. Raise the limit "
        "of open files (ulimit -n), or "
        "close some"
    )
    assert rest == ["idle", "accepted"]
