"""The source of another bridge's actors against its emulator: values, bad days, keys, reasons."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zmq

from tests.support.events import Received, elapse, until
from tests.support.federation import RoomMotion, far, joined
from vil_adapters.lab.link import LinkEmulator, LinkSpec
from vil_adapters.remote import source
from vil_adapters.remote.config import RemoteEmulatorConfig
from vil_adapters.remote.emulator import RemoteEmulator
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import ActorKind, ClockExchange, SourceFrame, SourceReset, TrackingState
from vil_bridge.interfaces.faults import Faults
from vil_bridge.protocols.federation.messages import (
    ActorInfo,
    ActorPose,
    Description,
    FrameMessage,
    Responder,
    encode_describe,
    encode_frame,
    records_of,
)
from vil_bridge.protocols.federation.zmq_link import ZmqPublisherLink
from vil_bridge.protocols.zmq.curve import read_public_key, read_public_keys, read_secret_key
from vil_bridge.runtime.supervisor import ComponentState
from vil_bridge.setup.keys import new_keys
from vil_bridge.world.clock_sync import ClockModel

pytestmark = pytest.mark.wire


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the patience after which a source says why nothing comes."""
    monkeypatch.setattr(source, "_WAITING_NS", NS_PER_S // 2)


def room(faults: str = "", **settings: object) -> RemoteEmulator:
    return RemoteEmulator(
        RemoteEmulatorConfig.model_validate(settings), RoomMotion(), now_ns(), Faults.parse(faults)
    )


def clock_of(received: Received) -> ClockModel:
    """The clock of the other room, by the exchanges so far."""
    clock = ClockModel()
    for e in received.of(ClockExchange):
        clock.add_exchange(e.t_sent_ns, e.t_foreign_ns, e.t_received_ns)
    return clock


async def test_poses_and_times_of_the_other_room() -> None:
    async with room(clock_offset_s=500.0) as emulator, joined(far(emulator.endpoint)) as received:
        await until(
            lambda: (
                (line := clock_of(received).line) is not None and line.uncertainty_ns < 3_000_000
            )
        )
        frames = await received.more_frames(20)
        frame = min(frames, key=lambda f: f.t_arrival_ns - (f.t_foreign_ns or 0))
        clock = clock_of(received)
        assert frame.t_foreign_ns is not None
        captured_ns = clock.to_bridge(frame.t_foreign_ns)
        assert captured_ns is not None
        assert 0 < frame.t_arrival_ns - captured_ns < 500_000_000
        assert min(f.latency_ns for f in frames) == pytest.approx(6e6, abs=5e6), (
            "a busy machine only adds to it"
        )
        # Frames are taken on an even grid, so the motion at the mapped time is the one that was
        # sent.
        seen = RoomMotion().at(captured_ns - emulator.server.epoch_ns)
        np.testing.assert_allclose(frame.p_m, seen.p_m, atol=0.02)
        np.testing.assert_allclose(frame.skeletons[0].p_m, seen.skeletons[0].p_m, atol=0.02)
        assert frame.subjects == ("drone",)
        assert frame.tracked.all()
        assert frame.skeletons[0].model.name == "Actor"
        assert received.status.facts["skeletons"] == ["Actor"]


async def test_a_bad_day_is_counted_and_a_restart_starts_over() -> None:
    async with (
        room("loss=5%,duplicate=5%,garbage=5%,seed=3") as emulator,
        joined(far(emulator.endpoint)) as received,
    ):
        await received.more_frames(120)
        counters = received.status.counters
        assert min(counters["lost"], counters["duplicates"], counters["malformed"]) > 0
        numbers = [frame.frame_number for frame in received.of(SourceFrame)]
        assert numbers == sorted(set(numbers))
        assert counters["malformed"] <= emulator.counters["garbage"]
        await emulator.restart()
        await until(lambda: received.of(SourceReset))
        await received.more_frames()
        assert [reset.reason for reset in received.of(SourceReset)] == [
            "the other bridge restarted"
        ]


async def test_a_clock_that_jumps_resets() -> None:
    async with room("step=700ms@1min") as emulator, joined(far(emulator.endpoint)) as received:
        await until(
            lambda: len(received.of(ClockExchange)) >= 8 and len(received.of(SourceFrame)) >= 8
        )
        elapse(emulator, 1)
        await until(lambda: received.of(SourceReset))
        assert received.of(SourceReset)[0].reason == "the other bridge's clock jumped"
        await received.more_frames()


async def test_occlusion_is_told_in_the_same_frame() -> None:
    async with (
        room("occlude=drone:1min@1min") as emulator,
        joined(far(emulator.endpoint)) as received,
    ):
        await received.more_frames()
        elapse(emulator, 1)
        await until(lambda: any(not f.tracked[0] for f in received.of(SourceFrame)))
        elapse(emulator, 2)
        await until(lambda: received.of(SourceFrame)[-1].tracked[0])
        assert all(f.skeletons[0].tracked.all() for f in received.of(SourceFrame))


async def test_a_half_open_line_is_opened_anew() -> None:
    async with room("halfopen=1min@1min") as emulator, joined(far(emulator.endpoint)) as received:
        await received.more_frames()
        elapse(emulator, 1)
        await until(lambda: received.status.counters["connections_given_up"] >= 1)
        elapse(emulator, 2)
        await received.more_frames()
        assert received.of(SourceReset) == []


async def test_a_narrow_line_loses_old_frames_at_the_sender() -> None:
    """Ten times more than the line carries: what arrives is young, the rest is counted."""
    async with room(rate_hz=240.0) as emulator:
        port = int(emulator.endpoint.rpartition(":")[2])
        async with (
            LinkEmulator(LinkSpec.parse(f"tcp:0=127.0.0.1:{port}:delay=10ms,rate=300kbit")) as link,
            joined(far(f"tcp://127.0.0.1:{link.port}")) as received,
        ):
            await received.more_frames(60)
            assert emulator.counters["superseded"] > 30
            newest = received.of(SourceFrame)[20:]
            assert all(frame.t_foreign_ns is not None for frame in newest)
            quickest = min(received.of(ClockExchange), key=lambda e: e.t_received_ns - e.t_sent_ns)
            offset_ns = quickest.t_foreign_ns - quickest.t_received_ns
            ages_s = sorted(
                1e-9 * (f.t_arrival_ns - (f.t_foreign_ns or 0) + offset_ns) for f in newest
            )
            assert ages_s[len(ages_s) // 2] < 0.4, ages_s


# --- keys -----------------------------------------------------------------------------------------


class Publishing:
    """A publisher of one motionless drone, for what the emulator does not do."""

    def __init__(self, site: str = "far", **keys: object) -> None:
        self.responder = Responder(
            7, Description(site, 1, (ActorInfo("drone", ActorKind.VEHICLE),))
        )
        self.link = ZmqPublisherLink("tcp://127.0.0.1:0", self.responder.answer, **keys)  # type: ignore[arg-type]
        self.sequence = 0

    def publish(
        self, state: TrackingState = TrackingState.TRACKED, sent_ago_ns: int = 0, revision: int = 1
    ) -> None:
        self.sequence += 1
        pose = ActorPose(0, state, np.ones(3), np.array([0.0, 0.0, 0.0, 1.0]))
        t_ns = now_ns() - sent_ago_ns
        self.link.publish(
            encode_frame(FrameMessage(7, self.sequence, revision, t_ns, t_ns, *records_of([pose])))
        )
        self.link.housekeep()

    async def publish_until(
        self, condition: Callable[[], bool], state: TrackingState = TrackingState.TRACKED
    ) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.publish(state)
                await asyncio.sleep(0.01)

    async def until_received(self, received: Received, count: int = 1) -> None:
        await self.publish_until(lambda: len(received.of(SourceFrame)) >= count)


_COPY = (
    "refuses this bridge. Copy stranger.key from here into its folder `federation.zmq.allowed_keys`"
)


async def test_curve_lets_in_the_allowed_key_only(tmp_path: Path, soon: None) -> None:
    for name in ("server", "friend", "stranger"):
        new_keys(tmp_path / name, name)
    server, friend = tmp_path / "server", tmp_path / "friend"
    publishing = Publishing(
        keys=read_secret_key(server / "server.key_secret"), allowed=read_public_keys(friend)
    )
    publishing.link.open()
    try:
        for name in ("friend", "stranger"):
            listener = far(
                publishing.link.endpoint,
                secret_key=tmp_path / name / f"{name}.key_secret",
                server_key=server / "server.key",
            )
            async with joined(listener) as received:
                if name == "friend":
                    await publishing.until_received(received)
                    assert publishing.link.counters["refused_key"] == 0
                else:
                    await until(lambda: publishing.link.counters["refused_key"] >= 1)
                    await until(lambda: received.status.counters["connections_given_up"] >= 1)
                    assert received.events == []
                    await until(lambda: _COPY in received.status.report().reason)
    finally:
        publishing.link.close()


async def test_a_plain_listener_and_a_false_server_get_nowhere(tmp_path: Path, soon: None) -> None:
    for name in ("server", "friend", "false"):
        new_keys(tmp_path, name)
    publishing = Publishing(
        keys=read_secret_key(tmp_path / "server.key_secret"),
        allowed={read_public_key(tmp_path / "friend.key"): "friend"},
    )
    publishing.link.open()
    try:
        wrong = {"secret_key": tmp_path / "friend.key_secret", "server_key": tmp_path / "false.key"}
        async with (
            joined(far(publishing.link.endpoint)) as plain,
            joined(far(publishing.link.endpoint, **wrong)) as deceived,
        ):
            await until(
                lambda: all(
                    r.status.counters["connections_given_up"] >= 1 for r in (plain, deceived)
                )
            )
            publishing.publish()
            assert plain.events == deceived.events == []
            assert publishing.link.subscribers == 0
            await until(lambda: "It wants keys: make a pair" in plain.status.report().reason)
            await until(
                lambda: (
                    "false.key is not its key, or it has none" in deceived.status.report().reason
                )
            )
    finally:
        publishing.link.close()


# --- judgement ------------------------------------------------------------------------------------


async def test_what_the_other_side_only_predicts_is_not_tracked_and_late_frames_are_dropped() -> (
    None
):
    publishing = Publishing()
    publishing.link.open()
    try:
        async with joined(far(publishing.link.endpoint)) as received:
            await publishing.until_received(received)
            await until(lambda: received.of(ClockExchange))
            for state in (TrackingState.COASTING, TrackingState.STALE, TrackingState.LOST):
                first = publishing.sequence + 1  # those of before may still be on their way
                await publishing.publish_until(
                    lambda: received.of(SourceFrame)[-1].frame_number >= first,  # noqa: B023 - awaited here
                    state,
                )
                assert not received.of(SourceFrame)[-1].tracked[0]
            late = received.status.counters["late"]  # a machine that stands still makes others so
            publishing.publish(sent_ago_ns=20_000_000_000)
            await until(lambda: received.status.counters["late"] > late)
            publishing.publish(revision=2)
            await until(lambda: received.status.counters["undescribed"] == 1)
            publishing.sequence -= 3
            publishing.publish()
            await until(lambda: received.status.counters["reordered"] == 1)
    finally:
        publishing.link.close()


async def test_another_site_is_not_listened_to(soon: None) -> None:
    publishing = Publishing(site="elsewhere")
    publishing.link.open()
    try:
        async with joined(far(publishing.link.endpoint)) as received:
            await until(lambda: publishing.link.subscribers == 1)
            await until(lambda: received.status.counters["foreign"] >= 1)
            await publishing.publish_until(lambda: received.status.counters["undescribed"] > 3)
            await publishing.publish_until(lambda: received.status.state is ComponentState.WAITING)
            assert "is the site 'elsewhere', not 'far'" in received.status.report().reason
            assert received.of(SourceFrame) == []
    finally:
        publishing.link.close()


async def test_a_subscriber_beyond_the_limit_and_rubbish_are_counted() -> None:
    publishing = Publishing()
    publishing.link.open()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    peer = context.socket(zmq.DEALER)
    peer.linger = 0
    try:
        peer.connect(publishing.link.endpoint)
        for rubbish in (
            [b"?"],
            [b"a", b"b"],
            [struct.pack("<4sBBHIIQ", b"VILR", 1, 3, 0, 0, 0, 0)],
        ):
            peer.send_multipart(rubbish)
        await until(lambda: publishing.link.counters["malformed"] == 3)
        assert publishing.link.subscribers == 0
        peer.send(bytes(5000))
        await publishing.publish_until(lambda: publishing.link.counters["disconnected"] == 1)
    finally:
        peer.close()
        context.term()
        publishing.link.close()


async def test_a_flood_of_questions_is_refused_and_one_address_cannot_take_all_places() -> None:
    publishing = Publishing()
    publishing.link.open()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    peers = [context.socket(zmq.DEALER) for _ in range(20)]
    try:
        async with joined(far(publishing.link.endpoint)) as received:
            await publishing.until_received(received)
            for peer in peers:
                peer.linger = 0
                peer.connect(publishing.link.endpoint)
                peer.send(encode_describe())
            # 16 of one address, the subscriber included.
            await until(lambda: publishing.link.counters["too_many"] == 5)
            assert publishing.link.subscribers == 16

            def flooded() -> bool:
                for _ in range(100):  # of 21 each, where 2000 at once are allowed
                    peers[0].send(encode_describe(), zmq.NOBLOCK)
                return publishing.link.counters["flood"] > 50

            await until(flooded)
            seen = len(received.of(SourceFrame))
            await publishing.publish_until(lambda: len(received.of(SourceFrame)) > seen)
        named = {row.reason: row for row in publishing.link.peer_faults.rows()}
        assert {reason: row.peer for reason, row in named.items()} == {
            "flood": "127.0.0.1",
            "too_many": "127.0.0.1",
        }
        assert named["flood"].port == "publish"
    finally:
        for peer in peers:
            peer.close()
        context.term()
        publishing.link.close()


# --- reasons --------------------------------------------------------------------------------------


async def reason_of(address: str, said: str) -> None:
    async with joined(far(address, insecure=True)) as received:
        await until(lambda: said in received.status.report().reason)


async def test_silence_is_explained(soon: None) -> None:
    with socket.socket() as taken, socket.create_server(("127.0.0.1", 0)) as mute:
        taken.bind(("127.0.0.1", 0))
        await asyncio.gather(
            reason_of(f"tcp://127.0.0.1:{taken.getsockname()[1]}", "refused the connection"),
            reason_of(
                f"tcp://127.0.0.1:{mute.getsockname()[1]}",
                "accepts connections from 127.0.0.1 and says nothing",
            ),
            reason_of("tcp://no-such-host.invalid:5570", "is unknown"),
        )
