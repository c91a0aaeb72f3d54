"""Poses served over NatNet.

What our source, an independent client and careless ones get of a live world.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from itertools import dropwhile, pairwise
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.support.events import receiving, until
from tests.support.filmed_room import PERSON, FilmedRoom, port_of, serving
from tests.support.independent import Bodies, motioncapture_reads
from tests.support.natnet_client import read_by_natnet
from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.source import OptitrackSource
from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.outputs.natnet import output as natnet_output
from vil_bridge.outputs.natnet.config import NatNetOutputConfig
from vil_bridge.outputs.natnet.output import NatNetOutput
from vil_bridge.protocols.natnet.codec import (
    Connect,
    EchoReply,
    MessageId,
    decode_echo_reply,
    decode_server_info,
    decode_text,
    encode,
    encode_connect,
    encode_echo_request,
    encode_text,
    message_id,
    response_f32,
    response_i32,
)
from vil_bridge.protocols.natnet.frame import TRACKED, NatNetFrame, Suffix
from vil_bridge.protocols.natnet.frame_codec import decode_frame
from vil_bridge.protocols.natnet.model_codec import decode_models
from vil_bridge.world.actors import TrackingLimits

pytestmark = pytest.mark.wire

LOOPBACK = "127.0.0.1"
DRONES = 20
V30, V31, V41 = (3, 0, 0, 0), (3, 1, 0, 0), (4, 1, 0, 0)


def output(**keys: Any) -> NatNetOutput:
    return NatNetOutput("poses", NatNetOutputConfig(**{"command_port": 0, "data_port": 0, **keys}))


def source_of(port: int, **keys: Any) -> OptitrackSource:
    return OptitrackSource("lab", OptitrackConfig(**{"command_port": port, "up_axis": "z", **keys}))


class Client:
    """A client of one socket that asks for what the test wants."""

    def __init__(self, port: int, host: str = LOOPBACK) -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        self._sock.bind((host, 0))
        self._server = LOOPBACK, port

    def send(self, datagram: bytes) -> None:
        self._sock.sendto(datagram, self._server)

    async def next(self, kind: MessageId) -> bytes:
        """Return the next datagram of a kind."""
        async with asyncio.timeout(60.0):
            while True:
                datagram = await asyncio.get_running_loop().sock_recv(self._sock, 65536)
                if message_id(datagram) == kind:
                    return datagram

    async def ask(self, datagram: bytes, kind: MessageId) -> bytes:
        self.send(datagram)
        return await self.next(kind)

    async def connect(self, connect: Connect) -> None:
        """Register, and answer as real clients do, which gets the frames."""
        await self.ask(encode_connect(connect), MessageId.SERVERINFO)
        self.send(encode(MessageId.KEEPALIVE))

    async def command(self, text: str) -> bytes:
        return await self.ask(encode_text(MessageId.REQUEST, text), MessageId.RESPONSE)

    def waiting(self) -> list[bytes]:
        """Return what has come and was not read."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self._sock.recv(65536))
        return found

    def close(self) -> None:
        self._sock.close()


@pytest.mark.parametrize("transport", ["unicast", "multicast"])
@pytest.mark.parametrize("up_axis", ["z", "y"])
@pytest.mark.parametrize("version", ["3.1", "4.1"])
async def test_our_source_reads_the_same_poses_at_their_own_times(
    transport: Any, up_axis: Any, version: Any
) -> None:
    room = FilmedRoom(DRONES, person=True)
    made = output(transport=transport, up_axis=up_axis, version=version)
    async with serving(room, made):
        source = source_of(await port_of(made), up_axis=up_axis, interface=LOOPBACK)
        async with receiving(source) as got:
            await got.until(
                lambda: sum(bool(f.skeletons) and f.tracked.all() for f in got.frames) >= 50
            )
    assert got.status.counters["malformed"] == 0
    for before, frame in pairwise(dropwhile(lambda frame: not frame.skeletons, got.frames)):
        assert frame.t_foreign_ns is not None and before.t_foreign_ns is not None
        # No frame was sent for so long: this process stood still.
        if frame.t_foreign_ns not in room.filmed:
            assert frame.t_foreign_ns - before.t_foreign_ns >= 100 * NS_PER_MS
            continue
        if not frame.tracked.any():
            assert served_late(room, frame.t_foreign_ns)
            continue
        p_m, q_xyzw = room.filmed[frame.t_foreign_ns]
        rows = [frame.subjects.index(name) for name in room.names]
        assert frame.tracked.all()
        np.testing.assert_allclose(frame.p_m[rows], p_m, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            np.abs(np.sum(frame.q_xyzw[rows] * q_xyzw, axis=1)), 1.0, atol=1e-6
        )
        (skeleton,) = frame.skeletons
        assert skeleton.model.name == PERSON and skeleton.tracked.all()
        root = frame.subjects.index(f"{PERSON}_root")
        np.testing.assert_allclose(frame.p_m[root], skeleton.p_m[0], atol=1e-4)


def served_late(room: FilmedRoom, t_ns: int) -> bool:
    """Return whether this process stood still behind a film until its poses were too old to
    count as tracked.
    """
    next_ns = min((t for t in room.filmed if t > t_ns), default=now_ns())
    return next_ns - t_ns > TrackingLimits().coast_after_ns


async def test_a_lost_actor_loses_its_bit_and_holds_its_pose() -> None:
    room, made, lost = FilmedRoom(2), output(), list[str]()
    async with serving(room, made, lost):
        client = Client(await port_of(made))
        await client.connect(Connect("test", bitstream=V41))

        async def frame_with(*params: int) -> NatNetFrame:
            while True:
                frame = decode_frame(await client.next(MessageId.FRAMEOFDATA), V41)
                if frame.bodies["params"].tolist() == [*params]:
                    return frame

        await frame_with(TRACKED, TRACKED)
        lost.append("cf1")
        first = await frame_with(TRACKED, 0)
        later = [await frame_with(TRACKED, 0) for _ in range(10)]
        np.testing.assert_array_equal(later[-1].bodies["p"][1], first.bodies["p"][1])
        assert later[-1].bodies["p"][0].tolist() != first.bodies["p"][0].tolist()
        lost.clear()
        await frame_with(TRACKED, TRACKED)
        client.close()


async def test_a_silent_world_is_served_as_lost() -> None:
    room, made = FilmedRoom(2), output()
    running = asyncio.create_task(made.run(room.world))
    client = Client(await port_of(made))
    await client.connect(Connect("test"))
    frame = decode_frame(await client.next(MessageId.FRAMEOFDATA), V41)
    assert frame.bodies["params"].tolist() == [0, 0]
    running.cancel()
    await asyncio.wait([running])
    client.close()


async def test_requests_are_answered_as_clients_expect() -> None:
    room, made = FilmedRoom(3, person=True), output(rate_hz=50.0, actors=("cf2", PERSON))
    async with serving(room, made):
        client = Client(await port_of(made))
        info = decode_server_info(
            await client.ask(encode(MessageId.DISCOVERY), MessageId.SERVERINFO)
        )
        assert (info.name, info.natnet_version, info.multicast, info.ticks_per_s) == (
            "VIL Bridge",
            V41,
            False,
            10**9,
        )
        assert f":{info.data_port}" in made.status.facts["data_address"]
        await client.connect(Connect("test", bitstream=V30))
        frame = decode_frame(await client.next(MessageId.FRAMEOFDATA), V30)
        assert frame.bodies["id"].tolist() == [3, 4], "ids are those of the world"
        assert decode_text(await client.command("Bitstream")) == "Bitstream,3.0"
        assert response_i32(await client.command("Bitstream,4.1")) == 0
        while True:
            datagram = await client.next(MessageId.FRAMEOFDATA)
            if int.from_bytes(datagram[-6:-4], "little") & Suffix.BITSTREAM_CHANGED:
                break
        frame = decode_frame(datagram, V41)
        assert [pose.id for pose in frame.skeletons] == [4]
        assert frame.suffix.mid_exposure <= frame.suffix.received <= frame.suffix.transmit
        models = decode_models(
            await client.ask(encode(MessageId.REQUEST_MODELDEF), MessageId.MODELDEF), V41
        )
        assert [(body.name, body.id, body.offset) for body in models.bodies] == [
            ("cf2", 3, (0.0, 0.0, 0.0)),
            (f"{PERSON}_root", 4, (0.0, 0.0, 0.0)),
        ]
        (skeleton,) = models.skeletons
        assert (skeleton.name, skeleton.id, len(skeleton.bones)) == (
            PERSON,
            4,
            len(frame.skeletons[0].bones),
        )
        assert response_f32(await client.command("UnitsToMillimeters")) == 1000.0
        assert response_f32(await client.command("FrameRate")) == 50.0
        echo = decode_echo_reply(await client.ask(encode_echo_request(77), MessageId.ECHORESPONSE))
        assert isinstance(echo, EchoReply) and echo.client == 77
        assert response_i32(await client.command("SubscribeToData,RigidBody,cf2")) == 0
        while (
            len((frame := decode_frame(await client.next(MessageId.FRAMEOFDATA), V41)).bodies) != 1
        ):
            pass
        assert not frame.skeletons
        await client.ask(
            encode_text(MessageId.REQUEST, "StartRecording"), MessageId.UNRECOGNIZED_REQUEST
        )
        client.send(encode(MessageId.DISCONNECT))
        await until(lambda: made.status.facts["clients"] == 0)
        client.close()


async def test_careless_clients_are_refused_and_counted_while_others_go_on() -> None:
    room, made = FilmedRoom(2), output(max_clients=2, registration_timeout_s=1.0)
    counters = made.status.counters
    async with serving(room, made), receiving(source_of(await port_of(made))) as got:
        await got.until(lambda: len(got.frames) > 5)
        clients = [Client(await port_of(made)) for _ in range(3)]
        for client in clients[:2]:
            await client.ask(encode_connect(Connect("test")), MessageId.SERVERINFO)
        await until(lambda: counters["refused"] >= 1)
        await until(lambda: counters["timed_out"] >= 1)  # it sent nothing more
        for garbage in (
            b"",
            b"\x00",
            b"\x02\x00\xff\xff",
            encode(MessageId.REQUEST, b"x" * 60_000),
        ):
            clients[2].send(garbage)
        await until(lambda: counters["malformed"] >= 3)
        for _ in range(1000):
            clients[2].send(encode(MessageId.REQUEST_MODELDEF))
        await until(lambda: counters["flooding"] > 0)
        seen = len(got.frames)
        await got.until(lambda: len(got.frames) > seen + 20)
        for client in clients:
            client.close()
    assert not got.resets


async def test_a_host_that_asks_from_many_ports_is_bounded_and_another_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So that a slow computer reaches the bound too.
    monkeypatch.setattr(natnet_output, "_HOST_REQUESTS_PER_S", 1.0)
    made = output()
    async with serving(FilmedRoom(1), made):
        port, clients = await port_of(made), list[Client]()
        for i in range(2400):
            if i % 100 == 0:  # one port may ask 200 times at once
                clients.append(Client(port))
            clients[-1].send(encode_echo_request(i))
            if i < 2000:
                await clients[-1].next(MessageId.ECHORESPONSE)
        await until(lambda: made.status.counters["flooding"] > 300)
        other = Client(port, "127.0.0.2")
        await other.ask(encode_echo_request(7), MessageId.ECHORESPONSE)
        for client in (*clients, other):
            client.close()


@pytest.mark.parametrize("request_", [encode(MessageId.CONNECT), encode_connect(Connect("forged"))])
async def test_an_address_that_does_not_answer_gets_an_announcement_and_little_else(
    request_: bytes,
) -> None:
    made = output()
    counters = made.status.counters
    async with serving(FilmedRoom(DRONES, person=True), made):
        port = await port_of(made)
        victim = Client(port)
        victim.send(request_)
        announced = await victim.next(MessageId.SERVERINFO)
        frames = counters["frames"]
        await until(lambda: counters["frames"] >= frames + 50)
        others = victim.waiting()
        assert len(announced) + sum(map(len, others)) <= max(len(announced), 3 * len(request_))
        assert counters["unproven"] > 0
        victim.send(encode(MessageId.KEEPALIVE))
        await victim.next(MessageId.FRAMEOFDATA)
        victim.close()


async def test_models_go_to_those_that_have_answered() -> None:
    made = output()
    async with serving(FilmedRoom(DRONES, person=True), made):
        port = await port_of(made)
        victim = Client(port)
        for _ in range(3):
            victim.send(encode(MessageId.REQUEST_MODELDEF))
        await until(lambda: made.status.counters["unproven"] >= 3)
        victim.close()
        honest = Client(port, "127.0.0.2")
        await honest.ask(encode(MessageId.DISCOVERY), MessageId.SERVERINFO)
        await honest.ask(encode(MessageId.REQUEST_MODELDEF), MessageId.MODELDEF)
        honest.close()


async def test_a_port_that_is_taken_is_reported_with_its_cure() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((LOOPBACK, 0))
        port = other.getsockname()[1]
        for keys in ({"command_port": port}, {"data_port": port}):
            with pytest.raises(
                SinkError,
                match=f"cannot serve NatNet at {LOOPBACK}:{port}: .*Give the output another",
            ):
                await output(**keys).run(FilmedRoom(1).world)


async def test_actors_that_do_not_fit_into_a_datagram_are_refused() -> None:
    with pytest.raises(SinkError, match=r"do not fit into one datagram .*\. List fewer `actors`"):
        await output().run(FilmedRoom(2500).world)


def test_two_ports_are_needed() -> None:
    with pytest.raises(ValidationError, match=r"both 1510\. Give them different ports"):
        NatNetOutputConfig(data_port=1510)


@pytest.mark.process
@pytest.mark.parametrize("version", ["3.1", "4.1"])
async def test_an_independent_client_reads_twenty_actors_and_a_person(version: Any) -> None:
    """It takes multicast alone, at the ports that the server announces."""
    pytest.importorskip("motioncapture", reason="the independent client is not installed")
    room, made = FilmedRoom(DRONES, person=True), output(transport="multicast", version=version)
    async with serving(room, made):
        keys = {
            "hostname": LOOPBACK,
            "interface_ip": LOOPBACK,
            "port_command": str(await port_of(made)),
        }
        async with motioncapture_reads("optitrack", keys) as frame:
            bodies: Bodies = {}
            while bodies.keys() != {*room.names, f"{PERSON}_root"}:
                bodies = await frame()
    assert made.status.counters["malformed"] == 0


@pytest.mark.process
@pytest.mark.parametrize(("version", "transport"), [("3.1", "multicast"), ("3.1", "unicast")])
async def test_a_second_client_reads_who_is_lost(version: Any, transport: Any) -> None:
    pytest.importorskip("natnet", reason="the independent client is not installed")
    room, made = FilmedRoom(DRONES, person=True), output(transport=transport, version=version)
    async with serving(room, made, lost=["cf7"]):
        ports = [await port_of(made), int(made.status.facts["data_address"].rpartition(":")[2])]
        read = await read_by_natnet(*ports, multicast=transport == "multicast")
    assert list(read["names"].values()) == [*room.names, f"{PERSON}_root"]
    flags = {name: read["bodies"][identity][7] for identity, name in read["names"].items()}
    assert [name for name, tracked in flags.items() if not tracked] == ["cf7"]
    assert len(read["skeleton"]) == len(read["bones"]) > 0
