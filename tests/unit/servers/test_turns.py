"""Turns of clients in the loop.

Their order and shares, by a clock and a processor time of the test's own.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

import pytest

from vil_simulation.airsim.turns import Shares, TurnAccount, Turns

SHARES = Shares(of_all=0.5, of_one=0.3)


class Machine:
    """A processor whose time passes as its steps say, and a clock that the loop's sleeps move."""

    def __init__(self) -> None:
        self.now_s = self.cpu_s = 0.0
        self.slowed: list[TurnAccount] = []
        self.turns = Turns(self.slowed.append, SHARES, lambda: self.now_s, lambda: self.cpu_s)

    def work(self, cpu_s: float) -> None:
        self.cpu_s += cpu_s
        self.now_s += cpu_s


def endless(
    machine: Machine, account: TurnAccount, cpu_s: float, used_s: defaultdict[int, float]
) -> Callable[[], None]:
    """Return a step that works, and asks for the next one."""

    def step() -> None:
        machine.work(cpu_s)
        used_s[account.port] += cpu_s
        machine.turns.ask(account, step)

    return step


async def pass_time(machine: Machine, until_s: float) -> None:
    """Let the machine's clock run ahead of the loop's, which waits for nothing."""
    while machine.now_s < until_s:
        before_s = machine.cpu_s
        machine.turns.ask_first(lambda: None)  # looks at the clock, whatever timer runs
        for _ in range(3):
            await asyncio.sleep(0)
        if machine.cpu_s == before_s:
            machine.now_s += 0.001


async def test_one_client_gets_its_share_and_all_get_theirs() -> None:
    machine = Machine()
    used_s = defaultdict[int, float](float)
    account = machine.turns.account("a", 1)
    machine.turns.ask(account, endless(machine, account, 0.0005, used_s))
    await pass_time(machine, 1.0)
    assert used_s[1] == pytest.approx(SHARES.of_one, abs=0.01)
    for port in (2, 3):
        account = machine.turns.account("a", port)
        machine.turns.ask(account, endless(machine, account, 0.0005, used_s))
    used_s.clear()
    await pass_time(machine, 2.0)
    assert sum(used_s.values()) == pytest.approx(SHARES.of_all, abs=0.01)
    assert max(used_s.values()) < SHARES.of_one  # less for the client that had used some before
    used_s.clear()
    await pass_time(machine, 3.0)
    assert min(used_s.values()) > 0.8 * max(used_s.values())


async def test_the_lightest_client_is_next() -> None:
    machine = Machine()
    used_s = defaultdict[int, float](float)
    for port in range(10):
        account = machine.turns.account("a", port)
        machine.turns.ask(account, endless(machine, account, 0.001, used_s))
    await pass_time(machine, 3.0)
    light = machine.turns.account("a", 99)
    waited_s = []
    for _ in range(20):
        asked_s = machine.now_s
        done = asyncio.Event()
        machine.turns.ask_now(light, done.set)
        while not done.is_set():
            await pass_time(machine, machine.now_s + 0.001)
        waited_s.append(machine.now_s - asked_s)
        await pass_time(machine, machine.now_s + 0.01)
    assert max(waited_s) < 0.01
    assert {account.port for account in machine.slowed} <= set(range(10)) and machine.slowed


async def test_a_program_that_connects_again_for_each_call_is_no_lighter_than_one_that_stays() -> (
    None
):
    """It asks ten times as much, and is named.

    A third program of another host begins with nothing.
    """
    machine = Machine()
    used_s = defaultdict[int, float](float)
    stays = machine.turns.account("a", 1)

    def patient() -> None:
        machine.work(0.0005)
        used_s[1] += 0.0005
        machine.turns.ask(stays, patient)

    def call(port: int) -> None:
        account = machine.turns.account("a", port)

        def burn() -> None:
            machine.work(0.005)
            used_s[2] += 0.005
            asyncio.get_running_loop().call_soon(connect_again)

        def connect_again() -> None:
            machine.turns.close(account)
            call(port + 1)

        machine.turns.ask(account, burn)

    machine.turns.ask(stays, patient)
    call(1000)
    await pass_time(machine, 2.0)
    used_s.clear()
    await pass_time(machine, 5.0)
    assert used_s[1] > 0.8 * used_s[2]
    assert used_s[2] < 1.1 * 3.0 * SHARES.of_one
    assert machine.turns.account("b", 1).used_s == 0.0


async def test_a_client_within_its_share_is_served_at_once_and_not_named() -> None:
    machine = Machine()
    done = []
    account = machine.turns.account("a", 1)
    for number in range(1000):
        machine.turns.ask_now(account, lambda: machine.work(0.0001))
        machine.turns.ask_now(account, lambda number=number: done.append(number))  # type: ignore[misc]
        assert done[-1] == number
        machine.now_s += 0.001
    assert not machine.slowed


async def test_a_coroutine_waits_for_a_turn_where_it_sleeps_for_nothing() -> None:
    machine = Machine()
    used_s = defaultdict[int, float](float)
    heavy = machine.turns.account("a", 1)
    other = machine.turns.account("a", 2)
    machine.turns.ask(other, endless(machine, other, 0.0005, used_s))

    async def work() -> str:
        for _ in range(1000):
            machine.work(0.0005)
            used_s[1] += 0.0005
            await asyncio.sleep(0)
        return "done"

    async def run() -> object:
        return await machine.turns.measured(heavy, work())

    call = asyncio.create_task(run())
    await pass_time(machine, 1.0)
    assert not call.done() and used_s[1] == pytest.approx(0.5 * SHARES.of_all, abs=0.02)
    await pass_time(machine, 2.5)
    assert call.done() and call.result() == "done"


async def test_a_coroutine_that_is_cancelled_ends_as_such() -> None:
    turns = Turns(lambda _: None)
    ended = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def run() -> None:
        await turns.measured(turns.account("a", 1), wait())

    call = asyncio.create_task(run())
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended == [True]


async def test_time_is_that_of_the_thread() -> None:
    turns = Turns(lambda _: None)
    turns.ask_now(turns.account("a", 1), lambda: time.sleep(0.05))
    assert turns.longest_s < 0.025
