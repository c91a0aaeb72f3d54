"""Work for an event loop, asked for by another thread that waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final

from vil_bridge.core.errors import VilBridgeError

__all__ = ["LoopBusyError", "in_loop"]

_LIMIT_S: Final = 10.0


class LoopBusyError(VilBridgeError):
    """The loop did not get to it in time; it was not done."""


def in_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Have it done, and wait for that.

    Raises:
        LoopBusyError: the loop does not get to it within 10 s; it is cancelled then. And whatever the work raises.
    """
    given_up = threading.Event()
    doing = asyncio.run_coroutine_threadsafe(_done(work, given_up), loop)
    try:
        doing.result(_LIMIT_S)
    except TimeoutError:
        given_up.set()  # or a loop that comes back would take its first step before it hears of the end
        if not doing.cancel():  # it was done at the last moment
            return doing.result()
        raise LoopBusyError(f"the bridge did not get to it within {_LIMIT_S:.0f} s: its status says why") from None


async def _done(work: Coroutine[Any, Any, None], given_up: threading.Event) -> None:
    if given_up.is_set():
        work.close()
    else:
        await work
