"""Router of inertial samples from onboard readers to the sources that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.motion import ImuWindow


class OnboardImuRouter:
    """Receivers of inertial samples, by reader; loop thread only."""

    def __init__(self) -> None:
        self._receivers: dict[str, Callable[[ImuWindow], None]] = {}

    @contextmanager
    def receiving(self, reader: str, receive: Callable[[ImuWindow], None]) -> Iterator[None]:
        """Give a reader's samples (bridge time, not necessarily in order) to ``receive`` for a
        while.

        Raises:
            SourceUnavailable: another source takes them.
        """
        if reader in self._receivers:
            raise SourceUnavailable(f"another source takes the inertial samples of {reader!r}")
        self._receivers[reader] = receive
        try:
            yield
        finally:
            del self._receivers[reader]

    def deliver(self, reader: str, samples: ImuWindow) -> bool:
        """Hand samples over; return False when no source takes those of this reader."""
        receive = self._receivers.get(reader)
        if receive is None:
            return False
        receive(samples)
        return True
