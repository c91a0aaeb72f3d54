"""Deliveries at exact times: order, refusals, failures and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.events import until
from vil_bridge.core.clock import now_ns
from vil_bridge.runtime.delay_line import DelayLine

MS = 1_000_000


@contextmanager
def descriptors_kept() -> Iterator[None]:
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    yield
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


async def test_items_come_when_due_the_earliest_first() -> None:
    got: list[tuple[str, int]] = []
    with (
        descriptors_kept(),
        closing(DelayLine[str](lambda item: got.append((item, now_ns())))) as line,
    ):
        t_ns = now_ns()
        due = {
            "late": t_ns + 30 * MS,
            "soon": t_ns + 10 * MS,
            "past": t_ns - 5 * MS,
            "middle": t_ns + 20 * MS,
        }
        assert all(line.enqueue(due_ns, name) for name, due_ns in due.items())
        assert len(line) == 4
        await until(lambda: len(got) == 4)
    assert [name for name, _ in got] == ["past", "soon", "middle", "late"]
    assert all(at_ns >= due[name] for name, at_ns in got)


async def test_equal_times_keep_their_order() -> None:
    got: list[int] = []
    with closing(DelayLine[int](got.append)) as line:
        due_ns = now_ns() + MS
        for number in range(100):
            line.enqueue(due_ns, number)
        await until(lambda: len(got) == 100)
    assert got == list(range(100))


async def test_a_full_line_refuses() -> None:
    with closing(DelayLine[int](lambda _: None, limit=2)) as line:
        assert [line.enqueue(now_ns() + 10**12, n) for n in range(3)] == [True, True, False]
        assert line.clear() == 2
        assert line.enqueue(now_ns() + 10**12, 3)


async def test_a_closed_line_delivers_and_takes_nothing() -> None:
    got: list[int] = []
    with descriptors_kept():
        line = DelayLine[int](got.append)
        line.enqueue(now_ns() + 5 * MS, 1)
        line.close()
        line.close()
        assert not line.enqueue(now_ns(), 2)
        await asyncio.sleep(0.01)
    assert got == []
    assert len(line) == 0


async def test_a_delivery_may_close_the_line() -> None:
    got: list[int] = []

    def deliver(item: int) -> None:
        got.append(item)
        line.close()

    with descriptors_kept():
        line = DelayLine[int](deliver)
        line.enqueue(now_ns(), 1)
        line.enqueue(now_ns(), 2)
        await until(lambda: got)
    assert got == [1]


async def test_a_delivery_may_put_more() -> None:
    got: list[int] = []

    def deliver(item: int) -> None:
        got.append(item)
        if item < 5:
            line.enqueue(now_ns() + MS, item + 1)

    with closing(DelayLine[int](deliver)) as line:
        line.enqueue(now_ns(), 1)
        await until(lambda: got == [1, 2, 3, 4, 5])


async def test_a_failing_delivery_does_not_stop_the_others() -> None:
    got: list[int] = []
    told: list[BaseException | None] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: told.append(context.get("exception"))
    )

    def deliver(item: int) -> None:
        if item == 1:
            raise ValueError("one")
        got.append(item)

    with closing(DelayLine[int](deliver)) as line:
        for number in range(3):
            line.enqueue(now_ns() + number, number)
        await until(lambda: got == [0, 2])
    assert [type(exc) for exc in told] == [ValueError]


async def test_without_timerfd_the_loops_timers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "other")
    got: list[str] = []
    with closing(DelayLine[str](got.append)) as line:
        t_ns = now_ns()
        line.enqueue(t_ns + 20 * MS, "second")
        line.enqueue(t_ns + 5 * MS, "first")
        await until(lambda: got == ["first", "second"])
