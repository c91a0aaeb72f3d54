"""Even calls in a thread of their own, for outputs whose sending may wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

__all__ = ["call_evenly"]


async def call_evenly(name: str, rate_hz: float, step: Callable[[], None]) -> None:
    """Call ``step`` in a thread until cancelled; calls that came too late are left out.

    Raises:
        BaseException: whatever ``step`` raised, which also ends the calls.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    stop = threading.Event()

    def settle(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def work() -> None:
        error: BaseException | None = None
        due_s = time.monotonic()
        try:
            while not stop.wait(max(0.0, due_s - time.monotonic())):
                step()
                due_s = max(due_s + 1.0 / rate_hz, time.monotonic())
        except BaseException as exc:  # a library's panic is no Exception
            error = exc
        loop.call_soon_threadsafe(settle, error)

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        await ended
    finally:
        stop.set()
        thread.join()
