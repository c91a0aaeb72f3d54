"""A signal from any thread that tasks wait for."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from vil_bridge.runtime.latch import Latch


def test_a_loop_that_was_closed_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    latch = Latch()
    other = asyncio.new_event_loop()
    forgotten = other.create_task(latch.passed())
    other.run_until_complete(asyncio.sleep(0))
    other.close()

    async def released() -> None:
        waiting = asyncio.create_task(latch.passed())
        await asyncio.sleep(0)
        latch.release()
        async with asyncio.timeout(30.0):
            await waiting

    asyncio.run(released())
    assert not forgotten.done()
    # It reports a task that is destroyed: here, in no other test.
    with caplog.at_level(logging.CRITICAL, "asyncio"):
        del forgotten
        gc.collect()


async def test_those_who_wait_and_those_who_come_later_pass() -> None:
    latch = Latch()
    waiting = [asyncio.create_task(latch.passed()) for _ in range(2)]
    given_up = asyncio.create_task(latch.passed())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    assert not any(task.done() for task in waiting)
    await asyncio.to_thread(latch.release)
    async with asyncio.timeout(30.0):
        await asyncio.gather(*waiting)
        latch.release()
        await latch.passed()
