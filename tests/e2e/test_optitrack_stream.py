"""NatNet frames read by the compiled kernel, against a source that judges each datagram in Python.

Real sockets.
"""

from __future__ import annotations

import asyncio
import random
import socket
from functools import partial

import numpy as np
import pytest

from tests.support.events import Received, receiving
from tests.support.optitrack import client, emulated, following
from vil_adapters.optitrack import compiled_stream
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, Ticker, now_ns
from vil_bridge.kernel import library
from vil_bridge.protocols.natnet.frame import BODY, NatNetFrame, Suffix
from vil_bridge.protocols.natnet.frame_codec import encode_frame

pytestmark = [
    pytest.mark.wire,
    pytest.mark.skipif(library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"),
]

_TICK_NS = 100


class OddServer:
    """Sequence of usual and odd frames."""

    def __init__(self, seed: int, number: int, motive: MotiveEmulator) -> None:
        self.rng = random.Random(seed)
        self.number = number
        self.motive = motive
        self.t_ns = 0

    def frame(
        self,
        number: int,
        *,
        ago_ns: int = 0,
        stamped: bool = True,
        params: int = 0,
        bodies: int = 2,
    ) -> bytes:
        x_m = float("nan") if self.rng.random() < 0.1 else self.rng.uniform(-2.0, 2.0)
        poses = [(i + 1, (x_m, 1.0, 0.5 * i), (0.0, 0.6, 0.0, 0.8), 0.0, 1) for i in range(bodies)]
        self.t_ns = max(self.t_ns + _TICK_NS, self.motive.foreign_ns(now_ns()))
        ticks = (self.t_ns - ago_ns) // _TICK_NS
        suffix = (
            Suffix(0.0, ticks, ticks, ticks + 20_000, params)
            if stamped
            else Suffix(0.0, params=params)
        )
        return encode_frame(NatNetFrame(number, np.array(poses, BODY), suffix=suffix), (4, 1, 0, 0))

    def next(self) -> bytes:
        """Return the next frame, or one that is odd in one way."""
        before, self.number = self.number, self.number + 1
        odd = self.rng.randrange(20)
        if odd >= 10:
            return self.frame(self.number)
        match odd:
            case 0:
                self.number += 3
                return self.frame(self.number)
            case 1:
                return self.frame(before)
            case 2:
                return self.frame(before - 2)
            case 3:
                return self.frame(before + 50_000)
            case 4:
                return self.frame(self.number, stamped=False)
            case 5:
                return self.frame(self.number, ago_ns=NS_PER_S)
            case 6:
                return self.frame(self.number)[:-7]
            case 7:
                return self.frame(self.number, params=Suffix.MODELS_CHANGED)
            case 8:
                return self.frame(self.number, params=Suffix.PLAYBACK, ago_ns=5 * NS_PER_MS)
        return self.frame(self.number, bodies=1)


def described(lab: Received) -> bool:
    return bool(lab.status.facts.get("units_mm") and lab.status.facts.get("subjects"))


def ends_with(lab: Received, number: int) -> bool:
    return [f.frame_number for f in lab.frames[-1:]] == [number]


def emitted(lab: Received, first: int) -> list[tuple[object, ...]]:
    return [
        (
            f.frame_number,
            f.t_foreign_ns,
            f.latency_ns,
            f.subjects,
            f.p_m.tolist(),
            f.q_xyzw.tolist(),
            f.tracked.tolist(),
        )
        for f in lab.frames
        if f.frame_number >= first
    ]


@pytest.mark.parametrize("seed", range(4))
async def test_the_kernel_reads_judges_and_counts_as_python(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bursts reach both sources in one wake-up each.

    A source with a tap judges each datagram in Python.
    """
    read = 0
    receive = compiled_stream.CompiledStream.receive

    def counted(
        self: compiled_stream.CompiledStream, fd: int
    ) -> compiled_stream.StreamedBatch | None:
        nonlocal read
        batch = receive(self, fd)
        read += batch is not None and batch.converted
        return batch

    monkeypatch.setattr(compiled_stream.CompiledStream, "receive", counted)
    async with emulated(rate_hz=0.05, transport="multicast") as motive:
        plain = OptitrackSource("lab", client(motive))
        plain.tap = lambda _datagram: None
        async with following(client(motive)) as lab, receiving(plain) as twin:
            server = OddServer(seed, 1_000, motive)
            for each in (lab, twin):
                await each.until(partial(described, each))
            for burst in range(200):
                for _ in range(server.rng.choice((1, 1, 1, 2, 3))):
                    motive.inject(server.next())
                await asyncio.sleep(0.005 if burst % 20 else 0.02)
            last = server.number + 1
            motive.inject(server.frame(last))
            for each in (lab, twin):
                await each.until(partial(ends_with, each, last))
    assert read > 50
    assert emitted(lab, 1_000) == emitted(twin, 1_000)
    # A request is repeated while no answer comes: this depends on the machine.
    for each in (lab, twin):
        del each.status.counters["stray_responses"]
    assert lab.status.counters == twin.status.counters
    assert [reset.clock for reset in lab.resets] == [reset.clock for reset in twin.resets]


async def test_frames_do_the_work_of_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame asks what is due, and puts the timer off; requests go on."""
    postponed: list[int] = []
    postpone = Ticker.postpone

    def recorded(self: Ticker, due_ns: int) -> None:
        postponed.append(due_ns)
        postpone(self, due_ns)

    monkeypatch.setattr(Ticker, "postpone", recorded)
    async with emulated(rate_hz=200.0) as motive, following(client(motive)) as lab:
        await lab.more_frames(20)
        asked, count = len(lab.exchanges), len(postponed)
        await lab.until(lambda: len(lab.exchanges) >= asked + 5 and len(postponed) >= count + 5)
    assert set(postponed) <= {frame.t_arrival_ns + 40 * NS_PER_MS for frame in lab.frames}


async def test_a_frame_of_another_sender_is_foreign_and_stops_no_frames() -> None:
    async with emulated(rate_hz=100.0) as motive, following(client(motive)) as lab:
        await lab.more_frames(5)
        destination = next(destination for _, destination in motive._listeners(now_ns()))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.2", 0))
            sock.sendto(OddServer(1, 5_000, motive).next(), destination)
        await lab.until(lambda: lab.status.counters["foreign"] == 1)
        frames = await lab.more_frames(5)
    assert all(frame.frame_number < 5_000 for frame in frames)
