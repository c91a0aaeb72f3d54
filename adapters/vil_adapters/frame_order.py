"""What the frame numbers of datagrams tell: losses, repeats, reordering, restarts."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

__all__ = ["FrameOrder", "Verdict"]


class Verdict(Enum):
    """What a frame's number says of it."""

    NEW = auto()
    DUPLICATE = auto()
    REORDERED = auto()
    RESTARTED = auto()


class FrameOrder:
    """Judges frame numbers.

    A few numbers back is a datagram that was overtaken on the way; further back, or back for good,
    the server restarted or its playback looped.

    Attributes:
        lost: numbers that were skipped so far (those that came too late among them).
        repeated: the number that the last frame had in common with the one before, None when it had none.
    """

    _WINDOW: Final = 8

    def __init__(self) -> None:
        self.lost = 0
        self.repeated: int | None = None
        self._newest: int | None = None
        self._backwards = 0

    def restart(self) -> None:
        """Take the next number for the first one."""
        self._newest = self.repeated = None
        self._backwards = 0

    def judge(self, number: int) -> Verdict:
        """Take note of a received frame."""
        step = 1 if self._newest is None else number - self._newest
        self.repeated = None if step else number
        if step == 0:
            return Verdict.DUPLICATE
        if -self._WINDOW <= step < 0 and self._backwards < self._WINDOW:
            self._backwards += 1
            return Verdict.REORDERED
        self._newest = number
        self._backwards = 0
        if step < 0:
            return Verdict.RESTARTED
        self.lost += step - 1
        return Verdict.NEW
