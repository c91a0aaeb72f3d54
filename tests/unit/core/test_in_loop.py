"""Work that a thread asks of an event loop: it is done, or refused for good."""

from __future__ import annotations

import asyncio
import threading

import pytest

from vil_bridge.interfaces import event_loop as module
from vil_bridge.interfaces.event_loop import LoopBusyError, in_loop

_STALLED_S = 10.0


async def test_what_the_work_raises_comes_back() -> None:
    done: list[str] = []

    async def work(name: str) -> None:
        await asyncio.sleep(0)
        if not name:
            raise KeyError(name)
        done.append(name)

    loop = asyncio.get_running_loop()
    await asyncio.to_thread(in_loop, loop, work("a"))
    assert done == ["a"]
    with pytest.raises(KeyError):
        await asyncio.to_thread(in_loop, loop, work(""))


async def test_what_was_called_not_done_is_not_done_when_the_loop_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    told: list[str] = []

    async def work(name: str) -> None:
        done.append(name)

    loop = asyncio.get_running_loop()

    def ask() -> None:
        try:
            in_loop(loop, work("late"))
        except LoopBusyError as exc:
            told.append(str(exc))

    with monkeypatch.context() as hasty:
        hasty.setattr(module, "_LIMIT_S", 0.2)
        asker = threading.Thread(target=ask)
        asker.start()
        asker.join(_STALLED_S)  # in the loop's thread: it does nothing else meanwhile
    assert len(told) == 1
    assert "did not get to it" in told[0]
    await asyncio.to_thread(in_loop, loop, work("next"))
    assert done == ["next"]
