"""Moves whose ends their pilots wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from itertools import count

from vil_bridge.interfaces.vehicle_moves import MoveEnd
from vil_simulation.source.ipc import MoveReport

Ended = Callable[[MoveEnd], None]


class PendingMoves:
    """Calls back in the loop's thread, once for each move; any thread may add moves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, Ended] = {}
        self._number = count(1)
        self._flies = False

    def begin(self) -> None:
        """Take moves from now on."""
        self._flies = True

    def add(self, ended: Ended) -> int:
        """Return the number of a new move.

        Raises:
            ValueError: nothing flies now.
        """
        with self._lock:
            if not self._flies:
                raise ValueError("the vehicle does not fly: its source is starting or has ended")
            number = next(self._number)
            self._waiting[number] = ended
            return number

    def discard(self, number: int) -> None:
        """Drop a move that could not be sent, without a call."""
        with self._lock:
            self._waiting.pop(number, None)

    def report(self, ends: Iterable[MoveReport]) -> None:
        """Call back those whose moves ended; in the loop's thread."""
        for end in ends:
            with self._lock:
                ended = self._waiting.pop(end.number, None)
            if ended is not None:
                asyncio.get_running_loop().call_soon(ended, MoveEnd(end.reached, end.problem))

    def end(self) -> None:
        """Call back all that wait: their moves did not reach their goals; in the loop's thread."""
        with self._lock:
            self._flies = False
            waiting = self._waiting
            self._waiting = {}
        for ended in waiting.values():
            asyncio.get_running_loop().call_soon(ended, MoveEnd(reached=False))
