"""Bridge time: mappings, holding, ticks and deliveries while it is scaled or stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.events import until
from vil_bridge.core.bridge_time import (
    REAL_TIME,
    BridgeTime,
    TimeMapping,
    bridge_clock,
    machine_ns,
    now_ns,
)
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, Ticker
from vil_bridge.core.threads import ContextThread
from vil_bridge.runtime.delay_line import DelayLine

DAY_NS = 86_400 * NS_PER_S


@pytest.fixture(autouse=True)
def real_time_again() -> Iterator[None]:
    yield
    bridge_clock().real()


def test_real_time_is_the_machines_clock() -> None:
    before = machine_ns()
    t_ns = now_ns()
    assert before <= t_ns <= machine_ns()
    assert REAL_TIME.when(t_ns) == t_ns


@given(
    st.integers(0, DAY_NS),
    st.integers(-DAY_NS, DAY_NS),
    st.floats(0.001, 100.0),
    st.integers(0, 100 * NS_PER_S),
)
def test_when_is_the_first_instant_at_which_a_time_is_reached(
    machine: int, bridge: int, rate: float, ahead: int
) -> None:
    mapping = TimeMapping(machine, bridge, rate)
    due = mapping.when(bridge + ahead)
    assert due is not None
    assert mapping.at(due) >= bridge + ahead
    assert mapping.at(due - 3 - int(2 / rate)) < bridge + ahead


def test_standing_time_reaches_nothing_later() -> None:
    standing = TimeMapping(5, 100, 0.0)
    assert standing.at(10**12) == 100
    assert standing.when(101) is None
    assert standing.when(100) is not None
    stepping = TimeMapping(5, 100, 2.0, until_ns=120)
    assert stepping.at(10**12) == 120
    assert stepping.when(121) is None


def test_time_never_runs_backwards() -> None:
    clock = BridgeTime()
    seen = [clock.now_ns()]
    changes: list[Callable[[], None]] = [
        lambda: clock.run(0.25),
        lambda: clock.bound("picture", 5),
        lambda: clock.run(100.0),
        lambda: clock.unbound("picture"),
        lambda: clock.run(0.0),
        lambda: clock.run(1.0, 1_000),
    ]
    for change in changes:
        change()
        seen.append(clock.now_ns())
    assert seen == sorted(seen)
    with pytest.raises(ValueError, match="backwards"):
        clock.run(-1.0)


def test_the_earliest_bound_holds() -> None:
    clock = BridgeTime()
    clock.run(100.0)
    t_ns = clock.now_ns()
    clock.bound("a", t_ns + NS_PER_S)
    clock.bound("b", t_ns + 2 * NS_PER_S)
    assert clock.mapping.until_ns == t_ns + NS_PER_S
    clock.run(0.5)
    clock.bound("a", t_ns + 3 * NS_PER_S)
    assert clock.mapping.until_ns == t_ns + 2 * NS_PER_S
    clock.bound("b", t_ns - NS_PER_S)  # gone already: time stands where it is
    assert clock.now_ns() == clock.now_ns() > t_ns
    clock.unbound("b")
    clock.unbound("a")
    assert clock.mapping[2:] == (0.5, None)


def test_a_bound_alone_does_not_slow_time() -> None:
    clock = BridgeTime()
    clock.bound("a", clock.now_ns() + 3600 * NS_PER_S)
    assert clock.mapping.rate == 1.0


def test_a_step_ends_exactly() -> None:
    clock = BridgeTime()
    clock.run(0.0)
    t_ns = clock.now_ns()
    clock.run(100.0, 7_000_001)
    until_ns = clock.mapping.when(t_ns + 7_000_001)
    assert until_ns is not None
    while machine_ns() < until_ns + 1000:
        pass
    assert clock.now_ns() == t_ns + 7_000_001


async def test_ticks_follow_bridge_time() -> None:
    ticks: list[tuple[int, int]] = []
    bridge_clock().run(0.0)
    t_ns = now_ns()
    ticker = Ticker(10 * NS_PER_MS, lambda due, missed: ticks.append((due - t_ns, missed)))
    ticker.start()
    awake = 0

    def on_machine_tick(_due_ns: int, _missed: int) -> None:
        nonlocal awake
        awake += 1

    by_machine = Ticker(NS_PER_MS, on_machine_tick, machine=True)
    by_machine.start()
    await until(lambda: awake >= 5)
    assert not ticks  # time stands for them, not for the machine
    bridge_clock().run(10.0, 35 * NS_PER_MS)
    await until(lambda: now_ns() == t_ns + 35 * NS_PER_MS)
    await until(lambda: sum(1 + missed for _, missed in ticks) == 3)
    assert all(
        due == sum(1 + m for _, m in ticks[: i + 1]) * 10 * NS_PER_MS
        for i, (due, _) in enumerate(ticks)
    )
    bridge_clock().run(1.0)
    await until(lambda: len(ticks) > 3)
    ticker.stop()
    by_machine.stop()


async def test_ticks_follow_a_clock_that_stands_from_instant_to_instant() -> None:
    """Instants far beyond the tick are the machine's past, before it was started."""
    ticks: list[int] = []
    bridge_clock().stand_at(0)
    ticker = Ticker(NS_PER_MS, lambda _due, missed: ticks.append(1 + missed))
    ticker.start()
    for t_ns in (NS_PER_S, 3 * NS_PER_S):
        bridge_clock().stand_at(t_ns)
        while sum(ticks) < t_ns // NS_PER_MS:
            await asyncio.sleep(0.001)
    assert sum(ticks) == 3000
    ticker.stop()


async def test_deliveries_wait_while_time_stands() -> None:
    got: list[int] = []
    bridge_clock().run(0.0)
    with closing(DelayLine[int](got.append)) as line:
        line.enqueue(now_ns() + 5 * NS_PER_MS, 1)
        await asyncio.sleep(0.02)
        assert not got
        bridge_clock().run(0.5)
        await until(lambda: got == [1])


async def test_the_clock_in_force_is_that_of_the_context() -> None:
    """Tasks, threads of the pool and context threads inherit it.

    Plain threads have the clock of the machine.
    """
    clock = BridgeTime()
    clock.stand_at(7)
    seen: dict[str, int] = {}

    def look(name: str) -> None:
        seen[name] = now_ns()

    async def task() -> None:
        look("task")

    with clock.in_force():
        await asyncio.create_task(task())
        await asyncio.to_thread(look, "pool")
        threads = [
            ContextThread(target=look, args=("context",)),
            Thread(target=look, args=("plain",)),
        ]
        for thread in threads:
            thread.start()
            thread.join()
        assert bridge_clock() is clock
    assert bridge_clock() is not clock
    assert {name for name, t_ns in seen.items() if t_ns == 7} == {"task", "pool", "context"}
    assert abs(seen["plain"] - machine_ns()) < NS_PER_S


def test_the_system_knows_a_thread_by_its_name() -> None:
    seen: list[str] = []
    name = "link-" + 20 * "x"
    thread = ContextThread(
        target=lambda: seen.append(Path("/proc/thread-self/comm").read_text()), name=name
    )
    thread.start()
    thread.join()
    assert seen == [name[:15] + "\n"]
