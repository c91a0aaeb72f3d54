"""The VRPN source against the emulated server on loopback, on good days and bad ones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.support.events import elapse, receiving, until
from tests.support.motions import Circling
from vil_adapters.vrpn import source as source_module
from vil_adapters.vrpn.config import VrpnConfig, VrpnEmulatorConfig
from vil_adapters.vrpn.discovery import discover
from vil_adapters.vrpn.emulator import VrpnEmulator
from vil_adapters.vrpn.source import VrpnSource
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.types import FloatArray, SourceFrame
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import PoseSource, SourceContext
from vil_bridge.protocols.vrpn.codec import (
    COOKIE,
    POSE,
    VELOCITY,
    TrackerPose,
    Velocity,
    encode_pose,
    encode_velocity,
)
from vil_bridge.protocols.vrpn.id_mapping import Outgoing
from vil_bridge.runtime.supervisor import ComponentState, Status

pytestmark = pytest.mark.wire


NAMES = ("cf1", "cf2", "wand", "wand/1")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed six times sooner, for tests of what is then said and done."""
    monkeypatch.setattr(source_module, "_WAITING_NS", NS_PER_S // 2)
    monkeypatch.setattr(source_module, "_PING_AFTER_NS", NS_PER_S // 6)
    monkeypatch.setattr(source_module, "_DEAD_AFTER_NS", NS_PER_S // 2)
    monkeypatch.setattr(source_module, "_FACTS_PERIOD_NS", NS_PER_S // 5)


def server(faults: str = "", motion: Circling | None = None, **options: Any) -> VrpnEmulator:
    config = VrpnEmulatorConfig(port=0, **options)
    return VrpnEmulator(config, motion or Circling(*NAMES), now_ns(), Faults.parse(faults))


def source(peer: VrpnEmulator, **options: Any) -> VrpnSource:
    found = VrpnSource("lab", VrpnConfig(port=peer.port, **options))
    assert isinstance(found, PoseSource)
    return found


def pose_of(frame: SourceFrame, subject: str) -> tuple[FloatArray, FloatArray, bool]:
    i = frame.subjects.index(subject)
    return frame.p_m[i], frame.q_xyzw[i], bool(frame.tracked[i])


def check_truth(frame: SourceFrame, peer: VrpnEmulator, tolerance: float = 1e-8) -> None:
    """Each tracked pose is the one of the capture time that the frame tells, within its
    microsecond.
    """
    assert frame.t_foreign_ns is not None
    offset_ns = peer.foreign_ns(peer.server.epoch_ns) - peer.server.epoch_ns
    t_ns = frame.t_foreign_ns - offset_ns
    truth = peer.server.motion.at(t_ns - peer.server.epoch_ns)
    for name, p_m, q, tracked in zip(
        frame.subjects, frame.p_m, frame.q_xyzw, frame.tracked, strict=True
    ):
        i = truth.subjects.index(name)
        if tracked:
            np.testing.assert_allclose(p_m, truth.p_m[i], atol=tolerance + 4e-6)
            np.testing.assert_allclose(q, truth.q_xyzw[i], atol=tolerance + 4e-6)


@pytest.mark.parametrize("connect_back", [False, True])
@pytest.mark.parametrize(("units", "up_axis"), [("m", "z"), ("mm", "y")])
async def test_poses_arrive_in_room_axes_with_the_servers_time(
    connect_back: bool, units: str, up_axis: str
) -> None:
    async with (
        server(units=units, up_axis=up_axis, clock_drift_ppm=0.0) as peer,
        receiving(source(peer, connect_back=connect_back, units=units, up_axis=up_axis)) as got,
    ):
        await got.until(lambda: sum(frame.tracked.all() for frame in got.frames) >= 20)
        assert got.status.state is ComponentState.RUNNING
        await got.until(lambda: "speed_mps" in got.status.facts)
    for before, frame in pairwise([got.frames[0], *got.frames]):
        assert frame.subjects == NAMES
        # This process stood still: all bodies are lost once, until the next pose.
        if frame.t_foreign_ns is None:
            assert frame.t_arrival_ns - before.t_arrival_ns > 100 * NS_PER_MS
            assert before.tracked.all() and not frame.tracked.any()
            continue
        assert frame.tracked.all()
        check_truth(frame, peer)
        assert frame.t_arrival_ns >= frame.t_foreign_ns - 1_700_000_000 * NS_PER_S
    assert got.status.facts["subjects"] == list(NAMES)
    assert got.status.facts["version"] == "07.38"
    assert set(got.status.facts["speed_mps"]) == set(NAMES)
    assert {name for name, count in got.status.counters.items() if count} <= {"superseded", "pongs"}


@pytest.mark.usefixtures("impatient")
async def test_speeds_are_metres_per_second() -> None:
    async with (
        server(units="mm", motion=Circling("cf1")) as peer,
        receiving(source(peer, units="mm")) as got,
    ):
        await got.until(lambda: "speed_mps" in got.status.facts)
        told = got.status.facts["speed_mps"]["cf1"]
    t_s = [(f.t_arrival_ns - peer.server.epoch_ns) / 1e9 for f in got.frames]
    speeds = [
        np.linalg.norm(Circling.pose(0, t + 5e-4)[0] - Circling.pose(0, t - 5e-4)[0]) / 1e-3
        for t in t_s
    ]
    assert min(speeds) - 0.05 <= told <= max(speeds) + 0.05


@pytest.mark.parametrize("habit", ["omit", "repeat", "zero"])
async def test_an_occluded_body_is_flagged_whatever_the_servers_habit(habit: str) -> None:
    async with (
        server("occlude=cf2:1min@1min", untracked=habit) as peer,
        receiving(source(peer)) as got,
    ):
        await got.more_frames()
        elapse(peer, 1)

        def flagged() -> list[SourceFrame]:
            """Frames in which it alone is.

            A server that stands still on a busy machine loses all.
            """
            whole = [f for f in got.frames if {"cf1", "cf2"} <= set(f.subjects)]
            return [f for f in whole if pose_of(f, "cf1")[2] and not pose_of(f, "cf2")[2]]

        await got.until(lambda: bool(flagged()))
        lost = flagged()[-1]
        elapse(peer, 2)
        await got.until(
            lambda: "cf2" in got.frames[-1].subjects and pose_of(got.frames[-1], "cf2")[2]
        )
    assert np.linalg.norm(pose_of(lost, "cf2")[0]) > 0.1, "an untracked body is shown where it was"


async def test_a_body_that_leaves_alone_is_flagged_without_a_message() -> None:
    async with (
        server("occlude=cf1:1min@1min", motion=Circling("cf1")) as peer,
        receiving(source(peer)) as got,
    ):
        await got.more_frames()
        elapse(peer, 1)
        await got.until(lambda: bool(got.frames) and not got.frames[-1].tracked.any())
    assert got.frames[-1].subjects == ("cf1",)
    assert got.frames[-1].t_foreign_ns is None


async def test_only_the_wanted_are_taken() -> None:
    async with server() as peer, receiving(source(peer, subjects=("wand",))) as got:
        await got.until(lambda: len(got.frames) >= 5)
    assert {f.subjects for f in got.frames} == {("wand",)}
    assert got.status.counters["unwanted"] >= 8


@pytest.mark.usefixtures("impatient")
async def test_a_wrong_name_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async with server(motion=Circling("CF1", "wand")) as peer:
        with caplog.at_level(logging.WARNING):
            async with receiving(source(peer, subjects=("cf1",))) as got:
                await got.until(
                    lambda: "config wants 'cf1'; stream has 'CF1', 'wand'" in caplog.text
                )
                await got.until(lambda: got.status.state is ComponentState.WAITING)
    assert "config wants 'cf1'; stream has 'CF1', 'wand'" in got.status.report().reason
    assert not got.frames


async def test_a_restarted_server_is_resumed_within_two_seconds() -> None:
    async with server() as peer, receiving(source(peer)) as got:
        await got.until(lambda: len(got.frames) >= 5)
        await peer.restart()
        noticed_s = await got.until(lambda: bool(got.resets))
        resumed_s = await got.until(lambda: got.events[-1] is not got.resets[-1])
    (reset,) = got.resets
    assert not reset.clock, "the computer's clock went on"
    assert noticed_s + resumed_s < 2.0
    check_truth(got.frames[-1], peer, 1e-4)


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_is_away_is_explained_and_found_when_it_returns() -> None:
    async with server("restart=1min@1min") as peer, receiving(source(peer)) as got:
        await got.more_frames()
        elapse(peer, 1)
        await got.until(lambda: got.status.state is ComponentState.WAITING)
        reason = got.status.report().reason
        elapse(peer, 2)
        await got.until(lambda: got.status.state is ComponentState.RUNNING)
    assert f"127.0.0.1:{peer.port} (from 127.0.0.1) refuses" in reason
    assert "VRPN streaming enabled?" in reason


@pytest.mark.usefixtures("impatient")
async def test_a_silent_server_is_given_up_and_resumed_when_it_speaks() -> None:
    async with server("halfopen=1min@1min") as peer, receiving(source(peer)) as got:
        await got.more_frames()
        elapse(peer, 1)
        await got.until(lambda: got.status.state is ComponentState.WAITING)
        elapse(peer, 2)
        seen = len(got.frames)
        assert await got.until(lambda: len(got.frames) > seen) < 2.0
        await got.until(lambda: got.status.state is ComponentState.RUNNING)
        assert peer.counters["silenced"] > 0


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_hangs_after_it_spoke_is_given_up_and_asked_again() -> None:
    asked: list[tuple[int, bytes]] = []

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun_ns, outgoing = now_ns(), Outgoing()
        pose = encode_pose(TrackerPose(0, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0)))
        writer.write(
            COOKIE
            + outgoing.describe(("cf1",), (POSE,))
            + outgoing.message("cf1", POSE, begun_ns, pose)
        )
        heard = await reader.read()  # until the client ends the connection
        asked.append((now_ns() - begun_ns, heard))
        writer.close()

    hung = await asyncio.start_server(hang, "127.0.0.1", 0)
    config = VrpnConfig(port=hung.sockets[0].getsockname()[1])
    async with hung, receiving(VrpnSource("lab", config)) as got:
        await got.until(lambda: len(asked) >= 2)
        assert "fell silent: is it hung, or the network cut?" in got.status.report().reason
    for held_ns, heard in asked[:2]:
        assert held_ns > NS_PER_S // 2, "it had its time to answer"
        assert len(heard) > len(COOKIE), "it was asked for a sign of life"
    assert {reset.reason for reset in got.resets} == {"the connection was lost"}


@pytest.mark.usefixtures("impatient")
async def test_an_idle_server_answers_pings_and_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives by its pongs alone for twice the time after which a silent one is dead."""
    dead_ns = 2 * NS_PER_S  # longer than this process stands still
    monkeypatch.setattr(source_module, "_DEAD_AFTER_NS", dead_ns)
    async with (
        server("occlude=cf1:60min@1min", motion=Circling("cf1")) as peer,
        receiving(source(peer)) as got,
    ):
        await got.until(lambda: len(got.frames) >= 3)
        elapse(peer, 1)

        def since_last_pose_ns() -> int:
            return now_ns() - max(
                frame.t_arrival_ns for frame in got.frames if frame.t_foreign_ns is not None
            )

        await got.until(
            lambda: since_last_pose_ns() > 2 * dead_ns and got.status.counters["pongs"] >= 3
        )
        assert peer.clients == 1
        assert "sends no poses" in got.status.report().reason
    assert not got.resets


async def test_garbage_in_the_stream_costs_a_moment() -> None:
    async with server("garbage=3%,seed=4", rate_hz=250.0) as peer, receiving(source(peer)) as got:
        await got.until(lambda: got.status.counters["malformed"] >= 3 and len(got.frames) > 100)
    assert not got.resets, "the server and its clock are still the same"
    numbers = [f.frame_number for f in got.frames]
    assert numbers == sorted(set(numbers))
    gaps_ns = np.diff([f.t_arrival_ns for f in got.frames])
    assert np.median(gaps_ns) < 50_000_000


async def test_a_clock_that_is_set_resets_the_fit() -> None:
    async with server("step=-5s@1min") as peer, receiving(source(peer)) as got:
        await got.more_frames()
        elapse(peer, 1)
        await got.until(lambda: bool(got.resets))
        await got.until(lambda: isinstance(got.events[-1], SourceFrame))
    (reset,) = got.resets
    assert reset.clock
    assert got.status.counters["implausible_stamps"] <= 3


@pytest.mark.usefixtures("impatient")
async def test_a_peer_that_is_no_vrpn_server_is_told() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    web = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with web:
        port = web.sockets[0].getsockname()[1]
        async with receiving(VrpnSource("lab", VrpnConfig(port=port))) as got:
            await got.until(lambda: got.status.state is ComponentState.WAITING)
    assert "sends something else than VRPN" in got.status.report().reason
    assert got.status.counters["malformed"] >= 1


async def test_a_message_that_says_nonsense_costs_only_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A server that divides by a zero interval sends infinite speeds.

    Its poses are as good as ever.
    """
    outgoing = Outgoing()
    greeting = COOKIE + outgoing.describe(("cf1",), (POSE, VELOCITY))
    endless = encode_velocity(Velocity(0, (math.inf, 0.0, math.nan), (0.0, 0.0, 0.0, 1.0), 0.0))

    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        stray = Outgoing()
        stray.describe(("x", "y", "z"), (POSE, VELOCITY, POSE, "other"))
        for i in range(1, 31):
            pose = encode_pose(TrackerPose(0, (0.01 * i, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0)))
            writer.write(outgoing.message("cf1", VELOCITY, now_ns(), endless))
            writer.write(stray.message("z", "other", now_ns(), b""))
            writer.write(outgoing.message("cf1", POSE, now_ns(), pose))
            await asyncio.sleep(0.01)
        with contextlib.suppress(ConnectionError):  # it leaves what it has not read
            await reader.read()
        writer.close()
        served.set()

    careless = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with careless:
        port = careless.sockets[0].getsockname()[1]
        with caplog.at_level(logging.WARNING):
            async with receiving(VrpnSource("lab", VrpnConfig(port=port))) as got:
                await got.until(lambda: len(got.frames) + got.status.counters["superseded"] == 30)
        await asyncio.wait_for(served.wait(), 60.0)
    assert got.status.counters["malformed"] == got.status.counters["undescribed"] == 30
    assert not got.resets
    assert caplog.text.count("dropped a message of 'cf1': velocity that is not finite") == 1


@pytest.mark.usefixtures("impatient")
async def test_nobody_else_may_connect_back() -> None:
    """The listener is known only to the server; what others could send reaches no frame."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.bind(("127.0.0.1", 0))
        asked.setblocking(False)
        config = VrpnConfig(port=asked.getsockname()[1], connect_back=True)
        async with receiving(VrpnSource("lab", config)) as got:
            request = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(asked, 100), 60.0)
            port = int(request.split(b"\0")[0].split()[1])
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stranger:
                stranger.bind(("127.0.0.2", 0))
                stranger.connect(("127.0.0.1", port))
                outgoing = Outgoing()
                pose = encode_pose(TrackerPose(0, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0)))
                stranger.sendall(
                    COOKIE
                    + outgoing.describe(("x",), (POSE,))
                    + outgoing.message("x", POSE, 1, pose)
                )
                await got.until(lambda: got.status.state is ComponentState.WAITING)
    assert not got.events
    assert "does not answer" in got.status.report().reason


async def test_an_unknown_computer_is_for_the_supervisor() -> None:
    unknown = VrpnSource("lab", VrpnConfig(server="no-such-computer.invalid"))
    with pytest.raises(SourceUnavailable, match="cannot reach no-such-computer"):
        await unknown.run(lambda _event: None, Status("lab"), SourceContext())


async def test_discovery_names_trackers_and_rates() -> None:
    async with server(rate_hz=50.0) as peer:
        (found,) = await discover((f"127.0.0.1:{peer.port}",), 5.0)
    assert found.type == "vrpn"
    VrpnConfig(**found.config)
    assert found.config == {"server": "127.0.0.1", "port": peer.port}
    assert found.title == "VRPN server 07.38"
    assert [name for name, _ in found.bodies] == list(NAMES)
    for _, rate_hz in found.bodies:
        assert rate_hz == pytest.approx(50.0, rel=0.2)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert await discover((f"127.0.0.1:{closed.getsockname()[1]}",), 0.3) == []


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    async with server(motion=Circling(*(f"body{i}" for i in range(60))), rate_hz=1000.0) as peer:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", peer.port))
            await until(lambda: peer.clients == 1)
            await until(lambda: peer.clients == 0)
