"""The OptiTrack source against the Motive emulator, over real sockets on loopback."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

import numpy as np
import pytest

from tests.support.common import free_port
from tests.support.events import harmed, receiving, until
from tests.support.optitrack import (
    OLD_VERSIONS,
    VERSIONS,
    SpinMotion,
    client,
    datagram,
    emulated,
    following,
    full_frame,
)
from vil_adapters.optitrack import server_state as dialogue
from vil_adapters.optitrack import source as source_module
from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.types import ClockExchange, SourceFrame, SourceReset
from vil_bridge.protocols.natnet.codec import (
    TICKS_SINCE,
    MessageId,
    message_id,
    parse_version,
)
from vil_bridge.protocols.natnet.frame import BODY, NatNetFrame, Suffix
from vil_bridge.protocols.natnet.frame_codec import encode_frame
from vil_bridge.runtime.datagrams import Datagram
from vil_bridge.runtime.supervisor import ComponentState, Status

pytestmark = pytest.mark.wire


RESUME_S = 2.0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed several times sooner, for tests of what is then said and done."""
    monkeypatch.setattr(source_module, "_WAITING_NS", NS_PER_S)
    monkeypatch.setattr(dialogue, "_SILENCE_NS", NS_PER_S // 4)
    monkeypatch.setattr(dialogue, "_CONNECT_PERIOD_NS", NS_PER_S // 4)
    monkeypatch.setattr(dialogue, "_KEEPALIVE_PERIOD_NS", NS_PER_S // 4)


def assert_true_poses(
    frames: list[SourceFrame], motive: MotiveEmulator, motion: SpinMotion
) -> None:
    """Every pose is the motion's at the time the frame says it was captured."""
    assert frames
    for frame in frames:
        truth = motion.at(true_time_ns(motive, frame))
        assert frame.subjects == truth.subjects
        assert frame.p_m == pytest.approx(truth.p_m, abs=2e-6)
        assert np.abs(np.sum(frame.q_xyzw * truth.q_xyzw, axis=1)) == pytest.approx(
            np.ones(len(truth.subjects))
        )
        assert frame.tracked.all()
        for seen, real in zip(frame.skeletons, truth.skeletons, strict=True):
            assert (seen.model.name, seen.model.bones, seen.model.parents) == (
                "Actor",
                real.model.bones,
                real.model.parents,
            )
            assert seen.model.offsets_m == pytest.approx(real.model.offsets_m, abs=1e-6)
            assert seen.p_m == pytest.approx(real.p_m, abs=5e-6)
            assert np.abs(np.sum(seen.q_xyzw * real.q_xyzw, axis=1)) == pytest.approx(np.ones(5))


def true_time_ns(motive: MotiveEmulator, frame: SourceFrame) -> int:
    """Time of the motion when a frame was captured.

    Without a stamp (2.5) any, the motion must stand still.
    """
    if frame.t_foreign_ns is None:
        return 0
    # Before 3.0 stamps count from the server's start.
    since_start = frame.t_foreign_ns < motive.foreign_ns(0)
    return motive_time_ns(
        motive, frame.t_foreign_ns + since_start * motive.foreign_ns(motive.epoch_ns)
    )


def motive_time_ns(motive: MotiveEmulator, t_foreign_ns: int) -> int:
    """Time of the motion at a time of the server's clock."""
    t_ns = t_foreign_ns - motive.foreign_ns(0)
    for _ in range(3):
        t_ns += t_foreign_ns - motive.foreign_ns(t_ns)
    return t_ns - motive.epoch_ns


# --- what is received -----------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["unicast", "multicast"])
@pytest.mark.parametrize("version", [".".join(map(str, v[:2])) for v in OLD_VERSIONS + VERSIONS])
async def test_poses_are_true_in_every_version(version: str, transport: str) -> None:
    motion = SpinMotion(still_ns=987_654_321 if version == "2.5" else None)
    told = {} if parse_version(version) >= TICKS_SINCE else {"transport": transport}
    async with (
        emulated(motion, version=version, transport=transport) as motive,
        following(client(motive, **told)) as lab,
    ):
        frames = await lab.more_frames(5)
    assert_true_poses(frames, motive, motion)
    report = lab.status.report()
    assert (report.state, report.facts["version"]) == (ComponentState.RUNNING, version)
    assert report.facts["mode"].startswith(transport)
    assert (report.facts["subjects"], report.facts["skeletons"]) == (["drone", "gate"], ["Actor"])
    assert not harmed(report.counters) and "resets" not in report.counters


@pytest.mark.parametrize("up_axis", ["y", "z"])
@pytest.mark.parametrize("coordinates", ["local", "global"])
async def test_local_skeletons_equal_global_ones(coordinates: str, up_axis: str) -> None:
    motion = SpinMotion()
    async with (
        emulated(motion, skeleton_coordinates=coordinates, up_axis=up_axis) as motive,
        following(client(motive, up_axis=up_axis)) as lab,
    ):
        assert_true_poses(await lab.more_frames(), motive, motion)
        await lab.until(
            lambda: lab.status.facts.get("skeleton_coordinates") == {"Actor": coordinates}
        )


async def test_units_are_asked_for() -> None:
    motion = SpinMotion()
    async with (
        emulated(motion, units_to_millimeters=1.0) as motive,
        following(client(motive)) as lab,
    ):
        assert_true_poses(await lab.more_frames(), motive, motion)
    assert lab.status.facts["units_mm"] == 1.0


async def test_clock_exchanges_tell_foreign_minus_bridge() -> None:
    async with emulated(clock_offset_s=500.0) as motive, following(client(motive)) as lab:
        await lab.until(lambda: len(lab.exchanges) >= 6)
        (frame, *_) = await lab.more_frames()
    for exchange in lab.exchanges:
        assert exchange.source == "lab"
        early, late = (
            motive.foreign_ns(exchange.t_sent_ns),
            motive.foreign_ns(exchange.t_received_ns),
        )
        assert early - 100 <= exchange.t_foreign_ns <= late, (
            "the tick lies between sending and receiving"
        )
    offset_ns = min(exchange.t_foreign_ns - exchange.t_sent_ns for exchange in lab.exchanges)
    assert frame.t_foreign_ns is not None
    assert frame.t_arrival_ns - (frame.t_foreign_ns - offset_ns) > 0, "captured before it arrived"
    latency = lab.status.facts["latency_ms"]
    assert latency["system"] == pytest.approx(latency["camera"] + latency["software"])
    assert latency["system"] >= 4.5


async def test_a_lost_body_is_untracked_and_frozen() -> None:
    motion = SpinMotion()
    async with emulated(motion) as motive, following(client(motive)) as lab:
        await lab.more_frames()
        motion.occluded |= {"drone", "Actor"}
        await lab.until(lambda: not lab.frames[-1].tracked[0])
        first, second = (await lab.more_frames(2))[:2]
    assert (first.tracked.tolist(), second.tracked.tolist()) == ([False, True], [False, True])
    assert not second.skeletons[0].tracked.any()
    assert first.p_m[0].tolist() == second.p_m[0].tolist()
    assert first.p_m[1].tolist() != second.p_m[1].tolist()
    assert np.linalg.norm(first.p_m[0, :2]) == pytest.approx(1.0, abs=1e-6), (
        "the last pose, not the origin"
    )


async def test_a_changed_scene_is_described_again() -> None:
    motion = SpinMotion()
    async with emulated(motion) as motive, following(client(motive)) as lab:
        await lab.more_frames()
        motive.set_motion(SpinMotion(("drone", "gate", "wand")))
        await lab.until(lambda: lab.frames[-1].subjects == ("drone", "gate", "wand"))
        assert not lab.resets, "more subjects are no reason to forget the others"
        motive.set_motion(SpinMotion(("gate", "drone")))
        await lab.until(lambda: lab.frames[-1].subjects == ("gate", "drone"))
        assert lab.resets == [SourceReset("lab", "described again: gate, drone", clock=False)]


async def test_a_wanted_subject_that_is_absent_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        async with (
            emulated() as motive,
            following(client(motive, subjects=("Drone", "gate"))) as lab,
        ):
            await lab.more_frames()
            motive.set_motion(SpinMotion(("drone", "gate", "wand")))
            await lab.until(lambda: "wand" in lab.frames[-1].subjects)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning == "lab: config wants 'Drone'; stream has 'drone', 'gate', 'Actor'"


# --- what is dropped ------------------------------------------------------------------------------


async def test_garbage_is_counted_and_survived() -> None:
    motion = SpinMotion()
    async with emulated(motion) as motive, following(client(motive)) as lab:
        await lab.more_frames()
        whole = full_frame((4, 1, 0, 0))
        garbage = [os.urandom(size) for size in (0, 1, 3, 5, 100, 1400, 60000)]
        garbage += [whole[:size] for size in range(0, len(whole), 7)]
        garbage += [
            datagram(identity, os.urandom(50)) for identity in range(16) if identity not in (8, 12)
        ]
        for bad in garbage:
            motive.inject(bad)
        await lab.until(lambda: lab.status.counters["malformed"] > len(garbage) // 2)
        frames = await lab.more_frames()
    assert_true_poses(frames[1:], motive, motion)


async def test_other_senders_are_dropped() -> None:
    async with emulated() as motive, following(client(motive)) as lab:
        await lab.more_frames()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("127.0.0.2", 0))
            stranger.sendto(full_frame((4, 1, 0, 0)), motive.clients[0])
        await lab.until(lambda: lab.status.counters["foreign"] == 1)
    assert not lab.resets


async def test_lost_frames_are_counted() -> None:
    async with emulated(faults="loss=30%") as motive, following(client(motive)) as lab:
        await lab.more_frames(1)
        before, start = lab.status.counters.copy(), len(lab.frames) - 1
        await lab.more_frames(20)
        happened = lab.status.counters - before
        numbers = [frame.frame_number for frame in lab.frames[start:]]
    assert numbers == sorted(set(numbers))
    assert (
        happened["lost"] == numbers[-1] - numbers[0] + 1 - len(numbers) - happened["superseded"] > 0
    )


async def test_only_the_newest_frame_of_a_wake_up_is_emitted() -> None:
    async with emulated(rate_hz=1.0) as motive, following(client(motive)) as lab:
        newest = (await lab.more_frames(1))[-1].frame_number
        before = lab.status.counters.copy()
        numbers = [newest + 1000, newest + 1001, newest + 1001, newest + 999, newest + 1002]
        for number in numbers:
            motive.inject(numbered(number, ticks_now(motive)))
        await lab.until(lambda: lab.frames[-1].frame_number == newest + 1002)
    counters = lab.status.counters - before
    assert newest + 1000 not in [frame.frame_number for frame in lab.frames]
    assert (counters["superseded"], counters["duplicates"], counters["reordered"]) == (2, 1, 1)


async def test_nan_poses_are_untracked_and_counted() -> None:
    async with emulated(rate_hz=20.0) as motive, following(client(motive)) as lab:
        number = (await lab.more_frames())[-1].frame_number + 100
        bodies = np.array(
            [(1, (0, float("nan"), 0), (0, 0, 0, 1), 0, 1), (2, (0, 0, 0), (0, 0, 0, 1), 0, 1)],
            dtype=BODY,
        )
        motive.inject(
            encode_frame(
                NatNetFrame(number, bodies, suffix=Suffix(0.0, ticks_now(motive))), (4, 1, 0, 0)
            )
        )
        await lab.until(lambda: lab.status.counters["nonfinite"] == 1)
    (frame,) = [frame for frame in lab.frames if frame.frame_number == number]
    assert frame.tracked.tolist() == [False, True]


# --- restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["unicast", "multicast"])
async def test_a_restarted_server_is_resumed(transport: str) -> None:
    """Also when it comes back with another layout; the source stays in ``run`` all the time."""
    motion = SpinMotion()
    async with (
        emulated(motion, transport=transport, version="4.2") as motive,
        following(client(motive)) as lab,
    ):
        await lab.more_frames(10)
        for version in ("4.0", "4.1"):
            resets = len(lab.resets)
            await motive.restart(version)
            seen = len(lab.frames)
            assert await lab.until(lambda: len(lab.frames) >= seen + 3) < RESUME_S  # noqa: B023 - awaited here
            assert lab.status.facts["version"] == version
            assert len(lab.resets) > resets
            assert all(reset.clock for reset in lab.resets), "a new server may have a new clock"
            assert_true_poses(await lab.more_frames(), motive, motion)
    assert lab.status.state is ComponentState.RUNNING


async def test_a_server_with_another_clock_resets_the_clock_fit() -> None:
    async with emulated(clock_offset_s=1000.0) as before, following(client(before)) as lab:
        await lab.more_frames(3)
        before.stop()
        ports: dict[str, Any] = {"command_port": before.command_port, "data_port": before.data_port}
        async with emulated(clock_offset_s=5000.0, **ports):
            await lab.until(
                lambda: "the server's clock jumped" in [reset.reason for reset in lab.resets]
            )
            jump = [isinstance(e, SourceReset) and "clock" in e.reason for e in lab.events].index(
                True
            )
            await lab.until(lambda: len(lab.exchanges) > 8)
    assert all(reset.clock for reset in lab.resets)
    exchanges = [event for event in lab.events[jump:] if isinstance(event, ClockExchange)]
    assert {round((e.t_foreign_ns - e.t_received_ns) * 1e-9) for e in exchanges} == {5000}


def ticks_now(motive: MotiveEmulator) -> int:
    return motive.foreign_ns(now_ns()) // 100


def numbered(number: int, ticks: int, params: int = Suffix.PLAYBACK) -> bytes:
    return encode_frame(NatNetFrame(number, suffix=Suffix(0.0, ticks, params=params)), (4, 1, 0, 0))


@pytest.mark.parametrize(
    ("params", "ticks", "clock"),
    [(Suffix.PLAYBACK, 3000, False), (Suffix.PLAYBACK, 1000, True), (0, 3000, True)],
    ids=["loop", "loop with recorded stamps", "restart"],
)
async def test_a_looped_playback_keeps_the_clock_if_its_stamps_go_on(
    params: int, ticks: int, clock: bool
) -> None:
    async with emulated(rate_hz=0.05) as motive, following(client(motive)) as lab:
        await lab.until(
            lambda: motive.clients and {"units_mm", "subjects"} <= lab.status.facts.keys()
        )

        def first_seen() -> bool:
            motive.inject(numbered(500, 2000))
            return bool(lab.frames)

        await lab.until(first_seen)
        motive.inject(numbered(1, ticks, params))
        await lab.until(lambda: lab.status.counters["out_of_sequence"] == 1)
        assert not lab.resets, "one datagram proves nothing"
        motive.inject(numbered(2, ticks + 1, params))
        await lab.until(lambda: lab.resets)
    assert lab.resets == [SourceReset("lab", "frame numbers go on from 2", clock=clock)]


@pytest.mark.usefixtures("impatient")
async def test_a_paused_playback_is_waited_for_by_its_name() -> None:
    async with emulated(rate_hz=0.05) as motive, following(client(motive)) as lab:
        await lab.until(
            lambda: motive.clients and {"units_mm", "subjects"} <= lab.status.facts.keys()
        )

        def waiting() -> bool:
            motive.inject(numbered(7, 1000))
            return bool(lab.frames) and lab.status.state is ComponentState.WAITING

        await lab.until(waiting)
        assert (
            lab.status.report().reason
            == "127.0.0.1 sends only repeats of frame 7: is playback paused?"
        )
        assert [frame.frame_number for frame in lab.frames] == [7]
        motive.inject(numbered(8, 2000))
        await lab.until(lambda: lab.status.state is ComponentState.RUNNING)


@pytest.mark.usefixtures("impatient")
async def test_the_server_may_start_last_and_waiting_says_why() -> None:
    port = free_port(socket.SOCK_DGRAM)
    async with following(OptitrackConfig(command_port=port)) as lab:
        await lab.until(lambda: lab.status.state is ComponentState.WAITING)
        reason = lab.status.report().reason
        assert reason.startswith(
            f"no answer from 127.0.0.1:{port} via interface 127.0.0.1 (refused: "
        )
        assert "streaming pane" in reason
        async with emulated(command_port=port):
            assert await lab.until(lambda: len(lab.frames) >= 3) < RESUME_S
            assert lab.status.report().reason == ""


@pytest.mark.usefixtures("impatient")
async def test_keep_alives_hold_the_registration() -> None:
    """Of a server that answers no echoes: nothing else is sent to it while frames come."""
    old: dict[str, Any] = {"version": "2.9", "registration_timeout_s": 0.8}
    async with emulated(**old) as motive:
        source = OptitrackSource("lab", client(motive, transport="unicast"))
        connected_ns: list[int] = []

        def tap(datagram: Datagram) -> None:
            if message_id(datagram.payload) == MessageId.CONNECT:
                connected_ns.append(datagram.t_ns)

        source.tap = tap
        async with receiving(source) as lab:
            await lab.more_frames()
            # A client that was forgotten gets no frames until it connects again.
            await lab.until(lambda: lab.frames[-1].t_arrival_ns - connected_ns[-1] > 1.7e9)
            assert len(motive.clients) == 1


async def test_leaving_tells_the_server() -> None:
    async with emulated() as motive:
        async with following(client(motive)) as lab:
            await lab.more_frames()
        await until(lambda: not motive.clients)


async def test_a_newer_server_is_asked_for_a_known_layout() -> None:
    motion = SpinMotion()
    async with emulated(motion, version="4.2") as motive:
        await motive.restart("4.4")
        async with following(client(motive)) as lab:
            assert_true_poses(await lab.more_frames(), motive, motion)
    assert (lab.status.facts["version"], lab.status.facts["server_version"]) == ("4.2", "4.4")


async def test_an_unknown_host_is_unavailable() -> None:
    status = Status("lab")
    for config in (
        OptitrackConfig(server="no-such-host.invalid"),
        OptitrackConfig(interface="192.0.2.77"),
    ):
        with pytest.raises(SourceUnavailable, match="cannot reach"):
            async with following(config) as lab:
                await lab.until(lambda: status.facts)
