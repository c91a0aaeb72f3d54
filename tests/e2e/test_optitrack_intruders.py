"""OptiTrack: late datagrams, restarts, other senders, impossible poses, names; on real sockets."""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from tests.support.events import Received, receiving
from tests.support.optitrack import SpinMotion, client, emulated, following
from vil_adapters.optitrack import server_state as dialogue
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.core.types import SourceReset
from vil_bridge.protocols.natnet.codec import MessageId, encode, message_id
from vil_bridge.protocols.natnet.frame import BODY, NatNetFrame, Suffix
from vil_bridge.protocols.natnet.frame_codec import encode_frame
from vil_bridge.runtime.datagrams import Address, Datagram

pytestmark = pytest.mark.wire


V41 = (4, 1, 0, 0)


@asynccontextmanager
async def tapped(motive: MotiveEmulator) -> AsyncIterator[tuple[Received, list[Datagram]]]:
    """A source at work and the frames that reached it, as datagrams."""
    seen: list[Datagram] = []

    def tap(datagram: Datagram) -> None:
        if message_id(datagram.payload) == MessageId.FRAMEOFDATA:
            seen.append(datagram)

    source = OptitrackSource("lab", client(motive))
    source.tap = tap
    async with receiving(source) as lab:
        yield lab, seen


# --- late datagrams and restarts ------------------------------------------------------------------


async def test_late_copies_of_datagrams_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with emulated() as motive, tapped(motive) as (lab, seen):
        await lab.more_frames(40)
        copies, before = seen[:3], lab.status.counters.copy()
        for turn in range(20):
            for copy in copies if turn % 2 else copies[:1]:
                motive.inject(copy.payload)
            await lab.more_frames(1)
        counters = lab.status.counters - before
        assert counters["out_of_sequence"] == 40, "ten single ones, ten bursts of three in order"
        assert not lab.resets
        assert "undescribed" not in counters, "names and units stay known"
        numbers = [frame.frame_number for frame in lab.frames]
        assert numbers == sorted(set(numbers))
    assert "histories start over" not in caplog.text


@pytest.mark.parametrize("first", [0, 1_000_000])
async def test_names_units_and_poses_survive_a_proved_restart(first: int) -> None:
    """From the second frame of the new sequence on, without a question to the server."""
    async with emulated(rate_hz=0.05) as motive, following(client(motive)) as lab:
        await lab.until(
            lambda: motive.clients and {"units_mm", "subjects"} <= lab.status.facts.keys()
        )
        numbers = itertools.count(500)

        def seen() -> bool:
            motive.inject(posed(motive, next(numbers)))
            return bool(lab.frames)

        await lab.until(seen)
        before = len(lab.frames)
        for number in range(first, first + 4):
            motive.inject(posed(motive, number))
        await lab.until(lambda: lab.frames[-1].frame_number == first + 3)
        frames = lab.frames[before:]
        assert all(frame.subjects == ("drone", "gate") and frame.tracked.all() for frame in frames)
        assert lab.resets == [
            SourceReset("lab", f"frame numbers go on from {first + 1}", clock=True)
        ]
        assert lab.status.counters["out_of_sequence"] == lab.status.counters["resets"] == 1
        assert lab.status.facts["last_reset"]["reason"] == lab.resets[0].reason


async def test_many_resets_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with emulated(rate_hz=0.05) as motive, following(client(motive)) as lab:
            await lab.until(
                lambda: motive.clients and {"units_mm", "subjects"} <= lab.status.facts.keys()
            )
            starts = itertools.count(0, 10_000)

            def restarted_often() -> bool:
                for number in range(start := next(starts), start + 3):
                    motive.inject(posed(motive, number))
                return lab.status.counters["resets"] >= 5

            await lab.until(restarted_often)
    assert len([r for r in caplog.records if "histories start over" in r.getMessage()]) == 1


def posed(
    motive: MotiveEmulator, number: int, *poses: tuple[float, float, float], params: int = 0
) -> bytes:
    """A frame of now with the bodies 1 and 2."""
    places = poses or ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    bodies = np.array([(i, p, (0, 0, 0, 1), 0, 1) for i, p in enumerate(places, 1)], dtype=BODY)
    ticks = motive.foreign_ns(now_ns()) // 100
    return encode_frame(NatNetFrame(number, bodies, suffix=Suffix(0.0, ticks, params=params)), V41)


# --- other senders --------------------------------------------------------------------------------


async def test_other_ports_of_the_server_s_address_are_foreign() -> None:
    async with emulated() as motive, following(client(motive)) as lab:
        newest = (await lab.more_frames())[-1].frame_number
        (here,) = motive.clients
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", 0))
            for i in range(5):
                other.sendto(posed(motive, newest + 5000 + i), here)
                other.sendto(encode(MessageId.RESPONSE, b"\0\0\x80\x3f"), here)
        await lab.until(lambda: lab.status.counters["foreign"] == 10)
        await lab.more_frames()
        assert max(frame.frame_number for frame in lab.frames) < newest + 5000
        motive.inject(encode(MessageId.RESPONSE, b"\0\0\x80\x3f"))
        await lab.until(lambda: lab.status.counters["malformed"] == 1)
    assert not lab.resets
    assert lab.status.counters["foreign"] == 10


async def test_frames_of_another_port_are_read_while_the_announced_one_is_silent() -> None:
    """Behind a relay everything comes from one port."""
    async with emulated(rate_hz=0.05) as motive, following(client(motive)) as lab:
        await lab.until(
            lambda: motive.clients and {"units_mm", "subjects"} <= lab.status.facts.keys()
        )
        (here,) = motive.clients
        numbers = itertools.count(500)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as relay:
            relay.bind(("127.0.0.1", 0))

            def seen() -> bool:
                relay.sendto(posed(motive, next(numbers)), here)
                return len(lab.frames) > 3

            await lab.until(seen)

            def refused() -> bool:
                motive.inject(posed(motive, next(numbers)))
                relay.sendto(posed(motive, next(numbers)), here)
                return lab.status.counters["foreign"] > 0

            await lab.until(refused)


# --- what no tracking system can mean -------------------------------------------------------------


async def test_poses_beyond_10_km_are_untracked_and_counted() -> None:
    async with emulated(rate_hz=20.0) as motive, following(client(motive)) as lab:
        number = (await lab.more_frames())[-1].frame_number + 100
        motive.inject(posed(motive, number, (1e30, 0.0, 0.0), (9_999.0, 0.0, 0.0)))
        await lab.until(lambda: lab.status.counters["implausible"] == 1)
    (frame,) = [frame for frame in lab.frames if frame.frame_number == number]
    assert frame.tracked.tolist() == [False, True]
    assert np.abs(frame.p_m[0]).max() == 0.0


async def test_of_two_bodies_with_one_name_the_first_is_used_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = "2 rigid bodies are named 'drone' (ids 1, 3): id 1 is used. Rename the others in Motive"
    async with (
        emulated(SpinMotion(("drone", "gate", "drone"))) as motive,
        following(client(motive)) as lab,
    ):
        frames = await lab.more_frames()
        assert lab.status.facts["shared_names"] == [line]
        assert frames[-1].subjects == ("drone", "gate")
    assert caplog.text.count(line) == 1


async def test_a_body_that_is_renamed_without_the_flag_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialogue, "_MODELS_CHECK_PERIOD_NS", 100 * NS_PER_MS)
    async with emulated() as motive, following(client(motive)) as lab:
        await lab.more_frames()
        motive.set_motion(SpinMotion(("uav", "gate")), announce=False)
        await lab.until(lambda: lab.frames[-1].subjects == ("uav", "gate"))
        assert lab.status.facts["subjects"] == ["uav", "gate"]
    assert not lab.resets, "the gate is the same"


# --- units ----------------------------------------------------------------------------------------


class SlowToTell(MotiveEmulator):
    """A server that leaves questions for its units unanswered; the first ones, or all."""

    unanswered = 1 << 30

    def _answer(self, address: Address, datagram: bytes) -> None:
        if b"UnitsToMillimeters" in datagram and self.unanswered > 0:
            self.unanswered -= 1
            return
        super()._answer(address, datagram)


def slow_to_tell(units_mm: float) -> SlowToTell:
    config = MotiveEmulatorConfig(
        command_port=0, data_port=0, rate_hz=100.0, units_to_millimeters=units_mm
    )
    return SlowToTell(config, SpinMotion(), now_ns())


async def test_a_server_that_does_not_tell_its_units_delays_no_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_ns: list[int] = []  # how long it has lacked them, as often as it looked
    left_out: list[int] = []  # frames so far, as often as it looked with them
    housekeep = dialogue.ServerState.housekeep

    def watched(state: dialogue.ServerState, t_ns: int) -> None:
        housekeep(state, t_ns)
        if state.converter is not None:
            left_out.append(state._status.counters["undescribed"])
        elif state.info is not None and state._scale_m is None:
            without_ns.append(t_ns - state._announced_ns)

    monkeypatch.setattr(dialogue.ServerState, "housekeep", watched)
    async with slow_to_tell(1000.0) as motive, following(client(motive)) as lab:
        assert await lab.until(lambda: len(lab.frames) > 2 and len(left_out) > 2) < 5.0
        assert lab.status.facts["units_mm"] == 1000.0
    assert max(without_ns, default=0) <= 200 * NS_PER_MS, (
        "poses wait for the units for so long at most"
    )
    assert len(set(left_out)) == 1, "none is left out from then on"


async def test_units_that_are_told_late_are_used_from_then_on() -> None:
    motive = slow_to_tell(1.0)
    motive.unanswered = 12  # all tries of the first question
    async with motive, following(client(motive)) as lab:
        await lab.until(lambda: lab.status.facts.get("units_mm") == 1.0)
        frame = (await lab.more_frames())[-1]
    assert np.linalg.norm(frame.p_m[0, :2]) == pytest.approx(1.0, abs=1e-5)
    assert lab.resets == [SourceReset("lab", "units are 1 mm, 1000 mm before", clock=False)]
