"""Turns of a server's clients in the loop.

Short steps, those of the lightest client first, within a share of time.

What a client asks for is done in steps of at most a millisecond, so that the rest of the loop runs
between them. All clients together have a share of the loop's time, and one client a part of it. A
client beyond its share waits, and is named.
"""

from __future__ import annotations

import asyncio
import math
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final

STEP_S: Final = 0.0003
"""Processor time after which a step ends, where it can be cut."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the loop's time: for all clients together, and for one of them."""

    of_all: float
    of_one: float


NEXT_TO_PICTURES: Final = Shares(0.4, 0.2)
"""For a loop that has pictures to send, too."""
ALONE: Final = Shares(0.9, 0.9)
"""For a loop that has little else to do."""
_SAVED_S: Final = 0.002
"""Processor time that is saved up: timers of the loop are that coarse."""
_MEMORY_S: Final = 1.0
"""Time after which a third of what a client used counts."""
_LEAST_USED_S: Final = 0.001
"""Use that is remembered of a client that has gone."""
_MOST_GONE: Final = 64
_NAMED_AFTER_S: Final = 1.0
"""Time that turns have to wait until the client that used the most is named."""

Step = Callable[[], object]


class _Budget:
    """Processor time that comes in at a share of time, and is saved up to a bound."""

    def __init__(self, share: float, now_s: float) -> None:
        self._share = share
        self._saved_s = _SAVED_S
        self._at_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Return the time until some is there; 0 = now."""
        self._saved_s = min(self._saved_s + self._share * (now_s - self._at_s), _SAVED_S)
        self._at_s = now_s
        return max(-self._saved_s / self._share, 0.0)

    def spend(self, cpu_s: float) -> None:
        """Take away what was used, whether it was there or not."""
        self._saved_s -= cpu_s


class TurnAccount:
    """Processor time of one client in the loop.

    Attributes:
        host, port: of the client.
        used_s: used recently, seconds; older use counts less.
        budget: what it may use. steps: what it has asked for.
    """

    def __init__(self, host: str, port: int, share: float, now_s: float) -> None:
        self.host = host
        self.port = port
        self.used_s = 0.0
        self.budget = _Budget(share, now_s)
        self.steps: deque[Step] = deque()
        self._at_s = now_s

    def age(self, now_s: float) -> None:
        """Let older use count less."""
        self.used_s *= math.exp((self._at_s - now_s) / _MEMORY_S)
        self._at_s = now_s


class Turns:
    """Order of the steps of all clients of a server; loop thread.

    Args:
        on_slowed: called with the client that used the most, once for each second for which steps
            had to wait.
        shares: of the loop's time.
        now_s: seconds that never run backwards. cpu_s: processor time of this thread, seconds.

    Attributes:
        longest_s: processor time of the longest step so far.
        used_s: processor time of all steps so far.
    """

    def __init__(
        self,
        on_slowed: Callable[[TurnAccount], object],
        shares: Shares = NEXT_TO_PICTURES,
        now_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self.longest_s = 0.0
        self.used_s = 0.0
        self._on_slowed = on_slowed
        self._shares = shares
        self._now_s = now_s
        self._cpu_s = cpu_s
        self._budget = _Budget(shares.of_all, now_s())
        self._accounts: set[TurnAccount] = set()
        self._gone: deque[TurnAccount] = deque(maxlen=_MOST_GONE)
        self._waiting: set[TurnAccount] = set()
        self._first: deque[Step] = deque()
        self._next: asyncio.Handle | None = None
        self._waits_since_s: float | None = None
        self._waited_s = 0.0

    def account(self, host: str, port: int) -> TurnAccount:
        """Open the account of a client.

        It goes on with the use of one of its host that has gone: with the most.
        """
        now_s = self._now_s()
        account = TurnAccount(host, port, self._shares.of_one, now_s)
        self._accounts.add(account)
        for gone in self._gone:
            gone.age(now_s)
        before = max(
            (gone for gone in self._gone if gone.host == host),
            key=lambda gone: gone.used_s,
            default=None,
        )
        if before is not None:
            self._gone.remove(before)
            account.used_s = before.used_s
            account.budget = before.budget
        return account

    def close(self, account: TurnAccount) -> None:
        """Close an account; its steps are dropped."""
        account.steps.clear()
        self._accounts.discard(account)
        self._waiting.discard(account)
        account.age(self._now_s())
        if account.used_s > _LEAST_USED_S:
            self._gone.append(account)

    def ask(self, account: TurnAccount, step: Step) -> None:
        """Run a step of a client in a later turn of the loop."""
        if account not in self._accounts:
            return
        account.steps.append(step)
        self._waiting.add(account)
        self._plan()

    def ask_first(self, step: Step) -> None:
        """Run a step of the server itself before those of its clients.

        The time counts as that of all clients.
        """
        self._first.append(step)
        self._plan()

    def ask_now(self, account: TurnAccount, step: Step) -> None:
        """Run a step of a client at once where no step has to wait, otherwise in a later turn of
        the loop.
        """
        now_s = self._now_s()
        if (
            self._waiting
            or self._first
            or self._budget.wait_s(now_s)
            or account.budget.wait_s(now_s)
        ):
            self.ask(account, step)
        else:
            self._run(account, step)

    async def turn(self, account: TurnAccount) -> None:
        """Wait for a client's turn."""
        if account not in self._accounts:
            await asyncio.sleep(0)
            return
        come = asyncio.Event()
        self.ask(account, come.set)
        await come.wait()

    def charge(self, account: TurnAccount | None, cpu_s: float) -> None:
        """Charge a client, or all of them, for a step."""
        if account is not None:
            account.age(self._now_s())
            account.used_s += cpu_s
            account.budget.spend(cpu_s)
        self._budget.spend(cpu_s)
        self.used_s += cpu_s
        self.longest_s = max(self.longest_s, cpu_s)

    @types.coroutine
    def measured(
        self, account: TurnAccount, coroutine: Coroutine[Any, Any, Any]
    ) -> Generator[object, None, object]:
        """Run a coroutine to its end and charge a client for its steps.

        ``asyncio.sleep(0)`` waits for a turn.
        """
        error: BaseException | None = None
        while True:
            begun_s = self._cpu_s()
            try:
                awaited = coroutine.send(None) if error is None else coroutine.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                self.charge(account, self._cpu_s() - begun_s)
            error = None
            try:
                if awaited is None:
                    yield from self.turn(account).__await__()
                else:
                    yield awaited
            except BaseException as exc:  # goes on into the coroutine, as a cancellation does
                error = exc

    def _plan(self, wait_s: float = 0.0) -> None:
        """Have the next step made after a time; an earlier one does not wait for a later one."""
        if isinstance(self._next, asyncio.TimerHandle):
            self._next.cancel()
        elif self._next is not None:
            return
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(wait_s, self._serve) if wait_s else loop.call_soon(self._serve)

    def _serve(self) -> None:
        """Make one step of the lightest client that has time left, or wait until one has."""
        self._next = None
        now_s = self._now_s()
        self._note_wait(now_s)
        if not self._waiting and not self._first:
            return
        own_s = {account: account.budget.wait_s(now_s) for account in self._waiting}
        wait_s = self._budget.wait_s(now_s)
        if not self._first:
            wait_s = max(wait_s, min(own_s.values()))
        if wait_s:
            self._waits_since_s = now_s
            self._plan(wait_s)
            return
        try:
            if self._first:
                self._run(None, self._first.popleft())
            else:
                self._run_lightest(
                    [account for account, wait_s in own_s.items() if not wait_s], now_s
                )
        finally:
            if self._waiting or self._first:
                self._plan()

    def _run_lightest(self, accounts: Sequence[TurnAccount], now_s: float) -> None:
        for account in accounts:
            account.age(now_s)
        lightest = min(accounts, key=lambda account: account.used_s)
        step = lightest.steps.popleft()
        if not lightest.steps:
            self._waiting.discard(lightest)
        self._run(lightest, step)

    def _run(self, account: TurnAccount | None, step: Step) -> None:
        begun_s = self._cpu_s()
        try:
            step()
        finally:
            self.charge(account, self._cpu_s() - begun_s)

    def _note_wait(self, now_s: float) -> None:
        """Count the time for which steps have waited, and name the client that used the most."""
        if self._waits_since_s is None:
            return
        self._waited_s += now_s - self._waits_since_s
        self._waits_since_s = None
        known = [*self._accounts, *self._gone]
        if self._waited_s < _NAMED_AFTER_S or not known:
            return
        self._waited_s = 0.0
        for account in known:
            account.age(now_s)
        self._on_slowed(max(known, key=lambda account: account.used_s))
