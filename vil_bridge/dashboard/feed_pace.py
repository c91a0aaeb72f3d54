"""When the feeds of pages send, and how all of them share what is sent.

Time is cut into slots of one period of the machine's clock: clients of one rate are due together, so that
what one of them has made for its slot serves the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from fastapi import WebSocket, WebSocketDisconnect

from vil_bridge.core.clock import NS_PER_S, machine_ns

__all__ = ["Pace", "Shared", "deliver"]

_T = TypeVar("_T")


class Pace:
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


class Shared(Generic[_T]):
    """A value made at most once in each slot, when somebody asks for it; for one thread."""

    def __init__(self, make: Callable[[], _T], rate_hz: float) -> None:
        self._make = make
        self._pace = Pace(rate_hz)
        self._value: _T | None = None

    def get(self) -> _T:
        """The value of this slot."""
        if self._value is None or self._pace.due():
            self._value = self._make()
            self._pace.passed()
        return self._value


async def deliver(websocket: WebSocket, message: str | bytes) -> None:
    """Send a message; waits while the client's buffer is full.

    Raises:
        WebSocketDisconnect: the client has left, or the server has ended the connection.
    """
    try:
        if isinstance(message, str):
            await websocket.send_text(message)
        else:
            await websocket.send_bytes(message)
    except RuntimeError:  # the server has said goodbye: it stops, or a ping was not answered
        raise WebSocketDisconnect(1006) from None
