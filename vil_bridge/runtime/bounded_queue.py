"""Queue between threads that never blocks its producers: bounded, and it counts what it drops."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class BoundedQueue(Generic[_T]):
    """First-in, first-out queue with a limit; any thread.

    A full queue drops its oldest entries, but never the one just added; with ``keep_oldest`` it
    refuses the new one. An entry may be freed, and log, while the lock is held: the same thread may
    enter again.

    Args:
        limit: total size of the entries that wait.
        size: of one entry; None = each counts one.
        on_drop: called with each entry that is dropped or refused.

    Attributes:
        total: size of the entries that wait.
    """

    def __init__(
        self,
        limit: int,
        size: Callable[[_T], int] | None = None,
        on_drop: Callable[[_T], None] = lambda _: None,
        *,
        keep_oldest: bool = False,
    ) -> None:
        self._limit = limit
        self._size = size
        self._on_drop = on_drop
        self._keep_oldest = keep_oldest
        self._entries: deque[tuple[_T, int]] = deque()
        self.total = 0
        self._closed = False
        self._changed = threading.Condition(threading.RLock())

    def __len__(self) -> int:
        return len(self._entries)

    def enqueue(self, entry: _T) -> None:
        """Add an entry, unless the queue is closed."""
        size = 1 if self._size is None else self._size(entry)
        with self._changed:
            if self._closed or (self._keep_oldest and self.total + size > self._limit):
                self._on_drop(entry)
                return
            self._entries.append((entry, size))
            self.total += size
            while self.total > self._limit and len(self._entries) > 1:
                self._on_drop(self._pop())
            self._changed.notify()

    def peek(self) -> _T | None:
        """Return the oldest entry and leave it there; None = empty."""
        with self._changed:
            return self._entries[0][0] if self._entries else None

    def pop(self) -> _T | None:
        """Remove and return the oldest entry; None = empty."""
        with self._changed:
            return self._pop() if self._entries else None

    def pop_wait(self) -> _T | None:
        """Remove and return the oldest entry, which is waited for; None = closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._entries or self._closed)
            return self.pop()

    def drain(self) -> list[_T]:
        """Remove and return all entries, oldest first."""
        with self._changed:
            return [self._pop() for _ in range(len(self._entries))]

    def close(self) -> None:
        """Accept nothing more and end :meth:`pop_wait` once the queue is empty."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _pop(self) -> _T:
        entry, size = self._entries.popleft()
        self.total -= size
        return entry
