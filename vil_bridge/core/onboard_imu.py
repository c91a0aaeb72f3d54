"""Inertial samples that onboard readers send, from the hub that hears them to the source that takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.motion import ImuWindow

__all__ = ["OnboardImuRouter"]


class OnboardImuRouter:
    """Who takes the samples of which reader. For one thread: that of the loop."""

    def __init__(self) -> None:
        self._takers: dict[str, Callable[[ImuWindow], None]] = {}

    @contextmanager
    def taking(self, reader: str, take: Callable[[ImuWindow], None]) -> Iterator[None]:
        """Give a reader's samples (bridge time, not necessarily in order) to ``take`` for a while.

        Raises:
            SourceUnavailable: somebody else takes them.
        """
        if reader in self._takers:
            raise SourceUnavailable(f"another source takes the inertial samples of {reader!r}")
        self._takers[reader] = take
        try:
            yield
        finally:
            del self._takers[reader]

    def deliver(self, reader: str, samples: ImuWindow) -> bool:
        """Hand samples over; False when nobody takes those of this reader."""
        take = self._takers.get(reader)
        if take is None:
            return False
        take(samples)
        return True
