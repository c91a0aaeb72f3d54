"""When the feeds of pages send, and how all of them share what is sent.

Time is cut into slots of one period of the machine's clock: clients of one rate are due together, so that
what one of them has made for its slot serves the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from fastapi import WebSocket
from websockets.frames import Frame, Opcode

from vil_bridge.core.clock import NS_PER_S, machine_ns

__all__ = ["POST", "CachedValue", "PeriodicTask", "SlotTimer", "framed", "poster", "until_left"]

logger = logging.getLogger(__name__)

POST: Final = "vil.post"
"""ASGI extension of our server: a WebSocket's function that writes a frame as it is."""

_T = TypeVar("_T")


class SlotTimer:
    """Lets one pass in each slot."""

    def __init__(self, rate_hz: float) -> None:
        self._period_ns = round(NS_PER_S / rate_hz)
        self._slot = machine_ns() // self._period_ns - 1

    def due(self) -> bool:
        """Whether one may pass now."""
        return machine_ns() // self._period_ns != self._slot

    def passed(self) -> int:
        """One did; how many slots nobody used before it."""
        before, self._slot = self._slot, machine_ns() // self._period_ns
        return max(0, self._slot - before - 1)

    def left_s(self) -> float:
        """Until the next one may pass."""
        return max(0, (self._slot + 1) * self._period_ns - machine_ns()) / NS_PER_S


class CachedValue(Generic[_T]):
    """A value made at most once in each slot, when somebody asks for it; for one thread."""

    def __init__(self, make: Callable[[], _T], rate_hz: float) -> None:
        self._make = make
        self._pace = SlotTimer(rate_hz)
        self._value: _T | None = None

    def get(self) -> _T:
        """The value of this slot."""
        if self._value is None or self._pace.due():
            self._value = self._make()
            self._pace.passed()
        return self._value


class PeriodicTask:
    """Calls ``turn`` in each slot as long as it says that somebody is left; for one event loop.

    Args:
        turn: serves everybody; False ends the beat until it is started again. Of those that raise, the first is
            logged.
        rate_hz: turns a second.
    """

    def __init__(self, turn: Callable[[], bool], rate_hz: float) -> None:
        self._turn = turn
        self._pace = SlotTimer(rate_hz)
        self._task: asyncio.Task[None] | None = None
        self._told = False

    def start(self) -> None:
        """Go on, if it does not already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            if self._pace.due():  # timers may be early
                if not self._served():
                    return
                self._pace.passed()
            await asyncio.sleep(self._pace.left_s())

    def _served(self) -> bool:
        """One turn; a bug in it must not end the feeds of all who listen."""
        try:
            return self._turn()
        except Exception:
            if not self._told:
                logger.exception("a turn of a feed failed; further ones are not told")
            self._told = True
            return True


def framed(message: str | bytes) -> bytes:
    """A message as a server writes it (RFC 6455), the same bytes for every client."""
    if isinstance(message, str):
        return Frame(Opcode.TEXT, message.encode()).serialize(mask=False)
    return Frame(Opcode.BINARY, message).serialize(mask=False)


def poster(websocket: WebSocket) -> Callable[[bytes], bool]:
    """Writes a frame to an accepted WebSocket; False = it has not taken the one before, or has left."""
    post: Any = websocket.scope["extensions"][POST]
    return post  # type: ignore[no-any-return]


async def until_left(websocket: WebSocket) -> None:
    """Until the client leaves; what it says is of no interest."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass
