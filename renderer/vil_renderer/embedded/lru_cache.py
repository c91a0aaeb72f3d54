"""Cache with a limit on its memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class LruByteCache(Generic[_K, _V]):
    """Values by key; the least recently used ones are dropped while all together exceed the limit.

    Args:
        limit_bytes: for all; the latest one is retained even if it alone is larger.
        size_of: bytes of a value; 1 for each makes the limit a number of values.
        release: called with each value that is dropped.
    """

    def __init__(
        self,
        limit_bytes: int,
        size_of: Callable[[_V], int],
        release: Callable[[_V], object] | None = None,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._size_of = size_of
        self._release = release
        self._values: dict[_K, _V] = {}
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """Return the value of a key, made if it is missing."""
        with self._lock:
            value = self._values.pop(key, None)
            if value is None:
                value = make()
                self._bytes += self._size_of(value)
            self._values[key] = value  # the one used longest ago comes first
            while self._bytes > self._limit_bytes and len(self._values) > 1:
                oldest = self._values.pop(next(iter(self._values)))
                self._bytes -= self._size_of(oldest)
                if self._release is not None:
                    self._release(oldest)
            return value
