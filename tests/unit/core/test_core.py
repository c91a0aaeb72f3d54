"""Clock, supervisor, errors."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest

from vil_bridge.core.clock import NS_PER_S, Ticker, WallClock, now_ns
from vil_bridge.core.errors import ConfigError, ProtocolError, SourceUnavailable
from vil_bridge.core.types import CameraModel
from vil_bridge.runtime.supervisor import ComponentState, Status, supervise


async def test_ticks_keep_their_schedule_when_the_loop_is_late() -> None:
    ticks: list[tuple[int, int]] = []
    three, six = asyncio.Event(), asyncio.Event()

    def on_tick(due_ns: int, missed: int) -> None:
        ticks.append((due_ns, missed))
        if len(ticks) == 3:
            three.set()
        elif len(ticks) == 6:
            six.set()

    ticker = Ticker(2_000_000, on_tick)
    ticker.start()
    await three.wait()
    time.sleep(0.02)  # noqa: ASYNC251 - a loop that is held up is what this tests
    await six.wait()
    ticker.stop()
    ticker.stop()
    due = [t for t, _ in ticks]
    assert all((b - a) % 2_000_000 == 0 for a, b in pairwise(due))
    assert sum(missed for _, missed in ticks) >= 5
    assert due[-1] - due[0] == 2_000_000 * (len(ticks) - 1 + sum(m for _, m in ticks[1:]))


async def test_a_postponed_tick_comes_then_and_nothing_was_missed() -> None:
    ticks: list[tuple[int, int]] = []
    came = asyncio.Event()

    def on_tick(due_ns: int, missed: int) -> None:
        ticks.append((due_ns, missed))
        came.set()

    ticker = Ticker(NS_PER_S, on_tick)
    ticker.start()
    postponed_ns = ticker.next_ns - NS_PER_S // 2
    ticker.postpone(postponed_ns)
    await came.wait()
    ticker.stop()
    assert ticks == [(postponed_ns, 0)]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_ticker_that_ended_holds_no_descriptor() -> None:
    before = descriptors()
    for _ in range(20):
        ticker = Ticker(NS_PER_S, lambda _due, _missed: None)
        ticker.start()
        ticker.stop()
    assert descriptors() == before


def test_a_ticker_needs_a_period() -> None:
    with pytest.raises(ValueError, match="positive"):
        Ticker(0, lambda _due, _missed: None)


def test_wall_clock_is_unix_time() -> None:
    clock = WallClock.read()
    before_ns = time.time_ns()
    utc_ns = clock.utc_ns(now_ns())
    assert before_ns - 50_000_000 < utc_ns < time.time_ns() + 50_000_000


async def test_supervisor_retries_with_growing_back_off_and_reports() -> None:
    waits: list[float] = []
    status = Status("lab")

    async def run(_status: Status) -> None:
        raise SourceUnavailable("no route to 10.0.0.5")

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        assert status.report().state is ComponentState.RETRYING
        assert status.report().last_error == "no route to 10.0.0.5"
        if len(waits) == 7:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await supervise(run, status, sleep=sleep)
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert status.report().retries == 7
    assert status.state is ComponentState.STOPPED


async def test_a_bug_is_not_retried() -> None:
    async def run(_status: Status) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await supervise(run, Status("x"))


def test_status_keeps_since_when_while_the_state_stays() -> None:
    status = Status("x")
    status.running()
    since = status.report().since_ns
    status.running()
    assert status.report().since_ns == since
    status.waiting("silent")
    assert status.report().reason == "silent"


def test_errors_name_the_place() -> None:
    error = ProtocolError("section truncated", offset=12, length=40)
    assert str(error) == "section truncated at byte 12 of 40"
    assert ConfigError(["a", "b"]).problems == ["a", "b"]


def test_default_camera_has_the_published_focal_length() -> None:
    camera = CameraModel("front", 1024, 768, 70.0 * 3.141592653589793 / 180.0)
    assert camera.f_px == pytest.approx(548.408834588972, abs=1e-9)
    assert tuple(camera.K[:2, 2]) == (511.5, 383.5)
