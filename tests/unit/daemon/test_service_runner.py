"""Services that fail: alone and by name once they have begun, with the bridge before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.support.events import until
from vil_bridge.core.errors import SinkError
from vil_bridge.core.types import SourceEvent, SourceReset
from vil_bridge.daemon.service_runner import ServiceRunner
from vil_bridge.interfaces.ports import Emit
from vil_bridge.runtime.supervisor import ComponentState, Status
from vil_bridge.services.service import Service


class Faulty(Service):
    """Does what a plug-in with a bug may do.

    Attributes:
        starts: how often it was started. bug: raised by whatever is asked next.
        taken: events of sources.
    """

    def __init__(self, *, begins: bool = True) -> None:
        self.starts = 0
        self.bug: BaseException | None = None
        self.taken: list[SourceEvent] = []
        self._begins = begins

    async def run(self, status: Status) -> None:
        self.starts += 1
        if not self._begins:
            raise SinkError("faulty: 127.0.0.1:41451: the address is taken")
        await super().run(status)

    def check(self) -> Sequence[str]:
        self._fail()
        return ("the light is low",)

    def view(self) -> Any:
        self._fail()
        return "seen"

    def taps(self) -> Sequence[Emit]:
        return (self.taken.append, lambda _event: self._fail())

    def modes(self) -> Sequence[str]:
        self._fail()
        return ("LIT",)

    def updates(self) -> Mapping[str, Callable[[], Any]]:
        return {"light": self.view}

    def _fail(self) -> None:
        if (bug := self.bug) is not None:
            self.bug = None
            raise bug


async def test_one_that_cannot_begin_ends_the_bridge_with_its_reason() -> None:
    runner = ServiceRunner("faulty", Faulty(begins=False))
    with pytest.raises(SinkError, match=r"127\.0\.0\.1:41451: the address is taken"):
        await runner.run()


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        (KeyError("gate"), "KeyError: 'gate'"),
        (SinkError("faulty: the scene cannot be drawn"), "the scene cannot be drawn"),
    ],
)
async def test_one_that_has_begun_fails_alone_and_is_started_again(
    bug: BaseException, words: str
) -> None:
    service = Faulty()
    runner = ServiceRunner("faulty", service)
    running = asyncio.create_task(runner.run())
    await until(lambda: runner.status.state is ComponentState.RUNNING)
    assert (runner.check(), runner.view()) == (("the light is low",), "seen")
    service.bug = bug
    runner.check()
    assert runner.view() is None  # until it runs again
    await until(lambda: runner.status.state is ComponentState.RETRYING)
    (sentence,) = runner.check()
    assert sentence.startswith("service faulty failed and is started again: ") and words in sentence
    await until(lambda: service.starts == 2)
    await until(lambda: runner.status.state is ComponentState.RUNNING)
    assert (runner.check(), runner.view()) == (("the light is low",), "seen")
    assert runner.status.report().retries == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_a_bug_in_a_tap_does_not_reach_the_source() -> None:
    service = Faulty()
    runner = ServiceRunner("faulty", service)
    event = SourceReset("motive", "restart")
    taps = runner.taps()
    states = runner.updates()
    for tap in taps:
        tap(event)
    assert (service.taken, runner.modes(), states["light"]()) == ([event], ("LIT",), "seen")
    service.bug = KeyError("gate")
    for tap in taps:
        tap(event)
    assert service.taken == [event, event]
    assert (runner.modes(), states["light"]()) == ((), None)
