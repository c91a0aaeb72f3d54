"""A signal from any thread that tasks wait for."""

from __future__ import annotations

import asyncio

from vil_bridge.core.latch import Latch


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
