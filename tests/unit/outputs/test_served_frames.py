"""Details of served poses that no client of ours reads.

Stamps, rates, flags, time-outs and directions of turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import numpy as np
import pytest

from tests.support.common import PATIENCE_S
from tests.support.events import until
from tests.support.filmed_room import PERSON, FilmedRoom, serving
from tests.support.motions import DANCER
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.geometry import Transform, q_exp, q_mul
from vil_bridge.core.types import ActorKind, FloatArray, SkeletonFrame, SourceFrame
from vil_bridge.outputs.natnet.config import NatNetOutputConfig
from vil_bridge.outputs.natnet.frames import NatNetFrames
from vil_bridge.outputs.natnet.output import NatNetOutput
from vil_bridge.outputs.pose_server import PoseFeed, PoseFrame
from vil_bridge.outputs.vrpn.config import VrpnOutputConfig
from vil_bridge.outputs.vrpn.output import VrpnOutput
from vil_bridge.protocols.natnet.clients import ClientTable
from vil_bridge.protocols.natnet.codec import (
    Connect,
    MessageId,
    encode,
    encode_connect,
    encode_text,
    message_id,
    response_f32,
)
from vil_bridge.protocols.natnet.frame import TRACKED, NatNetFrame
from vil_bridge.protocols.natnet.frame_codec import decode_frame
from vil_bridge.protocols.vrpn import server as vrpn_server
from vil_bridge.protocols.vrpn.codec import COOKIE, VELOCITY, Velocity, decode_velocity
from vil_bridge.protocols.vrpn.id_mapping import Incoming
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

pytestmark = pytest.mark.wire

LOOPBACK = "127.0.0.1"
V41 = (4, 1, 0, 0)
CLIENT = ("10.0.0.1", 1)


# --- frames ---------------------------------------------------------------------------------------


async def test_a_rate_is_reached_and_nothing_is_sent_twice() -> None:
    room, frames = FilmedRoom(1), list[PoseFrame]()
    feed = PoseFeed(room.world, (), frames.append, Status("fed"), 50.0)
    running = asyncio.create_task(feed.run())

    def period_s(over: int) -> float:
        """Return the shortest mean period of some frames in a row."""
        spans = [1e-9 * (b.t_ns - a.t_ns) for a, b in zip(frames, frames[over:], strict=False)]
        return min(spans, default=1.0) / over

    async def film() -> None:
        while True:
            room.film()
            await asyncio.sleep(0.002)

    filming = asyncio.create_task(film())
    await until(lambda: period_s(over=12) < 0.03)
    filming.cancel()
    seen = len(frames)
    await until(lambda: len(frames) >= seen + 5)  # of a silent world, ten times a second
    running.cancel()
    await asyncio.wait([running, filming])
    assert period_s(over=1) > 0.0, "each frame is of another instant"


# --- NatNet ---------------------------------------------------------------------------------------


def test_a_client_is_removed_behind_its_time_out() -> None:
    table = ClientTable(V41, timeout_ns=NS_PER_S)
    table.register(Connect(), CLIENT, 0)
    assert table.due(99_999_999) == []
    assert table.due(100_000_000) == [CLIENT], "its answer comes first"
    table.renew(CLIENT, NS_PER_S)
    assert table.due(2 * NS_PER_S) == [CLIENT]
    assert table.due(2 * NS_PER_S + 1) == []
    assert (table.timed_out, table.addresses) == (1, ())


def test_bones_of_a_person_who_is_lost_are_lost_where_they_were() -> None:
    n = len(DANCER.bones)
    frames = NatNetFrames((PERSON,), (7,), (True,), "z")
    flags = np.arange(n) != 2
    bones_m = np.arange(3.0 * n).reshape(n, 3)
    level = np.tile((0.0, 0.0, 0.0, 1.0), (n, 1))

    def seen(t_ns: int, tracked: bool, offset_m: float) -> PoseFrame:
        skeleton = SkeletonFrame(DANCER, bones_m + offset_m, level, flags)
        place = np.full((1, 3), offset_m)
        return PoseFrame(t_ns, place, level[:1], np.array([tracked]), (skeleton,))

    first, changed = frames.frame(1, seen(1, True, 0.0))
    later, changed_again = frames.frame(2, seen(2, False, 5.0))
    assert (changed, changed_again) == (True, False)
    assert ((first.skeletons[0].bones["params"] & TRACKED) != 0).tolist() == flags.tolist()
    assert not later.skeletons[0].bones["params"].any()
    np.testing.assert_array_equal(later.skeletons[0].bones["p"], first.skeletons[0].bones["p"])
    assert later.bodies["p"].tolist() == [[0.0, 0.0, 0.0]]


class Receiver:
    """A socket of a NatNet client."""

    def __init__(self) -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        self._sock.bind((LOOPBACK, 0))
        self.port: int = self._sock.getsockname()[1]

    def send(self, datagram: bytes, made: NatNetOutput) -> None:
        self._sock.sendto(
            datagram, (LOOPBACK, int(made.status.facts["address"].rpartition(":")[2]))
        )

    async def next(self, kind: MessageId) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                datagram = await asyncio.get_running_loop().sock_recv(self._sock, 65536)
                if message_id(datagram) == kind:
                    return datagram

    async def frames(self, count: int) -> list[NatNetFrame]:
        return [decode_frame(await self.next(MessageId.FRAMEOFDATA), V41) for _ in range(count)]

    def close(self) -> None:
        self._sock.close()


@contextlib.asynccontextmanager
async def receivers(count: int) -> AsyncIterator[list[Receiver]]:
    opened = [Receiver() for _ in range(count)]
    try:
        yield opened
    finally:
        for one in opened:
            one.close()


async def test_frames_have_seconds_numbers_and_a_rate_that_agree() -> None:
    async with receivers(2) as (asking, listening):
        config = NatNetOutputConfig(command_port=0, data_port=0, client_port=listening.port)
        made = NatNetOutput("poses", config)
        async with serving(FilmedRoom(2), made):
            await until(lambda: "address" in made.status.facts)
            asking.send(encode_connect(Connect("test")), made)
            await asking.next(MessageId.SERVERINFO)
            asking.send(encode(MessageId.KEEPALIVE), made)
            frames = await listening.frames(100)
            asking.send(encode_text(MessageId.REQUEST, "FrameRate"), made)
            rate_hz = response_f32(await asking.next(MessageId.RESPONSE))
    first, last = frames[0], frames[-1]
    assert [frame.number - first.number for frame in frames] == list(range(100))
    assert first.suffix.timestamp_s is not None and last.suffix.timestamp_s is not None
    elapsed_s = 1e-9 * (last.suffix.mid_exposure - first.suffix.mid_exposure)
    assert 0.0 < first.suffix.timestamp_s < 60.0, "since the output started"
    assert last.suffix.timestamp_s - first.suffix.timestamp_s == pytest.approx(elapsed_s, abs=1e-6)
    measured_hz = 99 / elapsed_s
    assert measured_hz / 1.7 < rate_hz < 1.7 * measured_hz


# --- VRPN -----------------------------------------------------------------------------------------


class TurningPair:
    """Two vehicles that move and turn differently, about axes of their own bodies."""

    v_mps: FloatArray = np.array([[1.0, 0.0, 0.0], [0.0, -2.0, 0.5]])
    w_body_radps: FloatArray = np.array([[0.0, 0.0, 1.0], [0.5, 0.0, 0.0]])
    q_start: FloatArray = q_exp(np.array([[np.pi / 2, 0.0, 0.0], [0.0, 0.0, np.pi / 2]]))
    w_world_radps: FloatArray = np.array([[0.0, -1.0, 0.0], [0.0, 0.5, 0.0]])

    def __init__(self) -> None:
        self._names = "one", "two"
        self.world = World(
            {"mocap": Transform.identity()},
            [Actor(n, ActorKind.VEHICLE, "mocap", n) for n in self._names],
        )
        self._start_ns = now_ns()

    async def film(self) -> None:
        while True:
            t_ns = now_ns()
            t_s = 1e-9 * (t_ns - self._start_ns)
            q = q_mul(self.q_start, q_exp(self.w_body_radps * t_s))
            tracked = np.ones(2, np.bool_)
            self.world.ingest(
                SourceFrame("mocap", 0, None, t_ns, self._names, self.v_mps * t_s, q, tracked)
            )
            await asyncio.sleep(0.005)


async def velocities(reader: asyncio.StreamReader, count: int) -> list[tuple[str, Velocity]]:
    incoming, found = Incoming(), list[tuple[str, Velocity]]()
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            messages = [m for m in incoming.feed(await reader.read(65536)) if m.kind == VELOCITY]
            found += [(message.sender, decode_velocity(message.payload)) for message in messages]
    return found


async def test_velocities_are_each_actors_own_and_turn_in_the_world() -> None:
    pair, made = TurningPair(), VrpnOutput("poses", VrpnOutputConfig(port=0, actors=("two",)))
    tasks = [asyncio.create_task(made.run(pair.world)), asyncio.create_task(pair.film())]
    await until(lambda: "address" in made.status.facts)
    reader, writer = await asyncio.open_connection(
        LOOPBACK, int(made.status.facts["address"].rpartition(":")[2])
    )
    writer.write(COOKIE)
    sender, velocity = (await velocities(reader, 100))[-1]
    writer.close()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert sender == "two"
    np.testing.assert_allclose(velocity.v, pair.v_mps[1], atol=0.02)
    rate_radps = 2.0 * np.array(velocity.q_xyzw[:3]) / velocity.q_xyzw[3] / velocity.dt_s
    np.testing.assert_allclose(rate_radps, pair.w_world_radps[1], atol=0.05)


async def test_a_client_without_a_cookie_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vrpn_server, "_COOKIE_WITHIN_NS", NS_PER_S // 5)
    made = VrpnOutput("poses", VrpnOutputConfig(port=0))
    async with serving(FilmedRoom(1), made):
        await until(lambda: "address" in made.status.facts)
        port = int(made.status.facts["address"].rpartition(":")[2])
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(65536):
                pass
        assert made.status.counters["mute"] == 1
        await until(lambda: made.status.facts["clients"] == 0)
        writer.close()
