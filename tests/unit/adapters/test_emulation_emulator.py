"""The server of all emulators.

What it captures, when it sends, and that every message is accounted for.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.events import until
from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import MotionFrame, SkeletonModel
from vil_bridge.interfaces.faults import Faults

MS = 1_000_000


class Line:
    """A body that moves 1 m/s along x."""

    subjects: tuple[str, ...] = ("drone",)
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def at(self, t_ns: int) -> MotionFrame:
        p_m = np.array([[t_ns * 1e-9, 0.0, 0.0]])
        return MotionFrame(
            self.subjects, p_m, np.array([[0.0, 0.0, 0.0, 1.0]]), np.ones(1, dtype=np.bool_)
        )


class Counting(Emulator):
    """Sends the number of every frame to a list, through the server."""

    def __init__(
        self,
        faults: str = "",
        *,
        rate_hz: float = 200.0,
        stream: bool = False,
        latency_ns: int = 0,
        own_clock: bool = False,
    ) -> None:
        self.frames: list[EmulatedFrame] = []
        self.sent: list[tuple[int, bytes]] = []
        self.power: list[bool] = []
        self.opened = 0
        self.latency_ns = latency_ns
        own = {"offset_s": 100.0, "drift_ppm": 10.0} if own_clock else {}
        super().__init__(Line(), rate_hz, now_ns(), Faults.parse(faults), stream=stream, **own)

    def listen(self) -> None:
        self.opened += 1

    def close(self) -> None:
        pass

    def _on_power(self, up: bool) -> None:
        self.power.append(up)

    def _on_frame(self, frame: EmulatedFrame) -> None:
        self.frames.append(frame)
        self.server.send(
            self.deliver, frame.number.to_bytes(4, "big") * 2, latency_ns=self.latency_ns
        )

    def deliver(self, message: bytes) -> None:
        self.sent.append((now_ns(), message))

    @property
    def numbers(self) -> list[int]:
        """Of the frames that arrived unbroken."""
        return [
            int.from_bytes(m[:4], "big") for _, m in self.sent if len(m) == 8 and m[:4] == m[4:]
        ]


@pytest.fixture
def standing() -> Iterator[None]:
    """Bridge time that goes on with :func:`tick` only."""
    bridge_clock().stand_at(now_ns())
    yield
    bridge_clock().real()


async def tick(emulator: Counting, count: int) -> None:
    """Let time pass from one tick of the server to the next."""
    ticker = emulator.server._ticker
    assert ticker is not None
    for due_ns in range(ticker.next_ns, ticker.next_ns + count * 5 * MS, 5 * MS):
        bridge_clock().stand_at(due_ns)
        await until(lambda due_ns=due_ns: ticker.next_ns > due_ns)  # type: ignore[misc]


def assert_accounted(emulator: Counting) -> None:
    c = emulator.counters
    on_its_way = c["offered"] + c["duplicated"] + c["garbage"]
    assert (
        on_its_way == c["lost"] + c["silenced"] + c["delivered"] + c["undelivered"] + c["overflow"]
    )
    assert c["delivered"] == len(emulator.sent)


async def test_frames_are_filmed_evenly_and_tell_the_truth() -> None:
    async with Counting() as emulator:
        await until(lambda: len(emulator.frames) >= 20)
    numbers = [frame.number for frame in emulator.frames]
    steps = np.diff([frame.t_ns for frame in emulator.frames])
    assert (steps % (5 * MS) == 0).all(), "always on the grid of the rate"
    assert np.diff(numbers).tolist() == (steps // (5 * MS)).tolist(), "numbers follow time"
    assert numbers[0] + sum(np.diff(numbers) - 1) - 1 == emulator.counters["missed_ticks"]
    for frame in emulator.frames:
        assert frame.seen.p_m[0, 0] == pytest.approx((frame.t_ns - emulator.server.epoch_ns) * 1e-9)
    assert emulator.numbers == numbers[: len(emulator.numbers)]
    assert_accounted(emulator)


async def test_latency_is_kept() -> None:
    async with Counting(latency_ns=30 * MS) as emulator:
        await until(lambda: len(emulator.sent) >= 5)
    filmed = {frame.number: frame.t_ns for frame in emulator.frames}
    for number, (at_ns, _) in zip(emulator.numbers, emulator.sent, strict=True):
        assert at_ns - filmed[number] >= 30 * MS
    assert emulator.counters["undelivered"] > 0, "what was on its way ended with the server"
    assert_accounted(emulator)


@pytest.mark.parametrize("stream", [False, True])
async def test_every_message_is_accounted_for(stream: bool) -> None:
    faults = "loss=20%,duplicate=20%,reorder=10%,garbage=10%,delay=5ms±4,jitter=2ms,seed=11"
    async with Counting(faults, rate_hz=500.0, stream=stream) as emulator:
        await until(lambda: emulator.counters["offered"] >= 200)
    c = emulator.counters
    assert min(c["lost"], c["duplicated"], c["reordered"], c["garbage"]) > 5
    assert_accounted(emulator)
    in_order = [a <= b for a, b in itertools.pairwise(emulator.numbers)]
    assert all(in_order) is stream, "a stream keeps its order, datagrams do not"


async def test_a_half_open_server_goes_on_filming_and_says_nothing(standing: None) -> None:
    async with Counting("halfopen=200ms@100ms") as emulator:
        await tick(emulator, 80)  # 5 ms each
    assert len(emulator.frames) == 80
    assert emulator.counters["silenced"] == 40
    assert emulator.power == []
    gap_ns = max(b[0] - a[0] for a, b in itertools.pairwise(emulator.sent))
    assert gap_ns == 205 * MS
    assert_accounted(emulator)


async def test_a_burst_comes_at_once_and_in_order(standing: None) -> None:
    async with Counting("burst=200ms@100ms,jitter=3ms") as emulator:
        for latency_ms in itertools.islice(itertools.cycle((4, 5, 3)), 80):
            emulator.latency_ns = latency_ms * MS
            await tick(emulator, 1)
    begin_ns, end_ns = (emulator.server.started_ns + ms * MS for ms in (100, 300))
    caught = {
        frame.number for frame in emulator.frames if begin_ns <= frame.t_ns <= end_ns - 10 * MS
    }
    held = [n for n in emulator.numbers if n in caught]
    assert len(held) == len(caught) == 39
    assert held == sorted(held)
    assert {
        at_ns for n, (at_ns, _) in zip(emulator.numbers, emulator.sent, strict=True) if n in caught
    } == {end_ns}


async def test_a_restart_begins_again_with_frame_one(standing: None) -> None:
    async with Counting("restart=150ms@100ms", latency_ns=20 * MS) as emulator:
        await tick(emulator, 60)  # 5 ms each
    assert emulator.power == [False, True]
    assert [frame.number for frame in emulator.frames] == [*range(1, 20), *range(1, 12)]
    assert emulator.frames[19].t_ns - emulator.frames[18].t_ns == 155 * MS
    assert emulator.counters["restarts"] == 1
    assert emulator.counters["undelivered"] > 0, "what a dying server had sent does not arrive"
    assert_accounted(emulator)


async def test_a_commanded_restart_goes_on_with_the_same_faults() -> None:
    async with Counting("drift=1000ppm") as emulator:
        await until(lambda: emulator.frames)
        origin_ns = emulator.server.started_ns
        await emulator.restart()
        assert (emulator.opened, emulator.server.started_ns) == (2, origin_ns)
        t_ns = origin_ns + 10**9
        assert emulator.server.foreign_ns(t_ns) == t_ns + 10**6
    async with Counting("drift=1000ppm", own_clock=True) as emulator:
        t_ns = emulator.server.started_ns + 10**9
        assert emulator.foreign_ns(t_ns) == t_ns + 10**6 + 100 * 10**9 + round(
            (t_ns - emulator.server.epoch_ns) * 1e-5
        )


async def test_subjects_are_troubled_as_told() -> None:
    async with Counting("occlude=drone:100ms@100ms") as emulator:
        await until(lambda: emulator.counters["occluded"] > 5)
        await until(lambda: emulator.frames[-1].seen.tracked[0])
    hidden = [frame for frame in emulator.frames if not frame.seen.tracked[0]]
    assert len(hidden) == emulator.counters["occluded"]
    epoch_ns = emulator.server.epoch_ns
    inside = [frame for frame in emulator.frames if 110 * MS <= frame.t_ns - epoch_ns < 190 * MS]
    assert inside and not any(frame.seen.tracked[0] for frame in inside)
    assert all(90 * MS <= frame.t_ns - epoch_ns <= 210 * MS for frame in hidden)
    assert hidden[-1].t_ns - hidden[0].t_ns <= 100 * MS


class Broken(Counting):
    def _on_frame(self, frame: EmulatedFrame) -> None:
        raise ValueError("no film")


async def test_a_bug_in_a_callback_ends_the_run() -> None:
    with pytest.raises(ValueError, match="no film"):
        async with asyncio.timeout(60):
            await Broken().run()


async def test_a_bug_is_told_at_the_end_of_the_block() -> None:
    with pytest.raises(ValueError, match="no film"):
        async with Broken() as emulator:
            assert emulator.server.failed is not None
            await asyncio.wait([emulator.server.failed], timeout=60.0)


class Bound(Counting):
    closed = 0

    def listen(self) -> None:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(one.getsockname())

    def close(self) -> None:
        self.closed += 1


@pytest.mark.wire
async def test_a_taken_port_is_an_error_that_leaves_nothing_open() -> None:
    emulator = Bound()
    with pytest.raises(OSError, match="in use"):
        await emulator.start()
    assert emulator.closed == 1
    assert emulator.frames == []


async def test_closed_connections_of_a_stream_are_forgotten() -> None:
    async with Counting(stream=True) as emulator:
        got: list[bytes] = []
        for _ in range(500):
            connection: list[bytes] = []
            emulator.server.send(connection.append, b"hello")
            got.append(b"")
            await asyncio.sleep(0)
        await until(lambda: emulator.counters["delivered"] >= 500)
        emulator.server.send(lambda _: None, b"one more")
        assert len(emulator.server._last_due_ns) < 200
