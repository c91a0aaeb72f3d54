"""The one-slot mailbox of every realtime edge: newest wins, the loser is counted."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

__all__ = ["Mailbox"]

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Hands the newest value from one thread to another.

    Attributes:
        superseded: values replaced before anybody took them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._item: T | None = None
        self.superseded = 0

    def put(self, item: T) -> T | None:
        """Store ``item``; returns the value it replaced, if one was waiting."""
        with self._lock:
            loser, self._item = self._item, item
            if loser is not None:
                self.superseded += 1
            return loser

    def take(self) -> T | None:
        """Remove and return the waiting value, None when there is none."""
        with self._lock:
            item, self._item = self._item, None
            return item
