"""What waits to be written: bounded, never slow for whoever hands it over, and honest about what it refused."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Final, NamedTuple

from vil_bridge.core.clock import now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray, SourceEvent
from vil_bridge.recording.topics import EVENTS, LOG, picture_topic

__all__ = ["LogLine", "WaitingPicture", "WriteQueue"]

_MOST_EVENTS: Final = 20_000
_MOST_LINES: Final = 1_000
_MOST_PICTURE_BYTES: Final = 64 << 20


class WaitingPicture(NamedTuple):
    """A picture, not encoded yet; ``t_ns`` is when it was handed over, bridge time."""

    camera: str
    header: FrameHeader
    pixels: ImageArray
    t_ns: int


class LogLine(NamedTuple):
    """A line of the log; ``t_ns`` is bridge time."""

    t_ns: int
    level: int
    component: str
    text: str


class WriteQueue:
    """Three queues. A full one loses pictures first, the oldest of them; events only after 20,000 wait.

    Of the log's lines the newest 1,000 wait.

    Attributes:
        lost: by topic.
    """

    def __init__(self) -> None:
        self.lost: Counter[str] = Counter()
        self._events: deque[tuple[int, SourceEvent]] = deque()
        self._lines: deque[LogLine] = deque()
        self._lock = threading.RLock()  # whatever is freed meanwhile may log, in the same thread
        self._pictures: deque[WaitingPicture] = deque()
        self._picture_bytes = 0

    def put_event(self, event: SourceEvent) -> None:
        """From the loop: one append."""
        if len(self._events) < _MOST_EVENTS:
            self._events.append((now_ns(), event))
        else:
            self.lost[EVENTS + event.source] += 1

    def put_line(self, line: LogLine) -> None:
        """From any thread; makes room by dropping the oldest."""
        with self._lock:
            if len(self._lines) == _MOST_LINES:
                self._lines.popleft()
                self.lost[LOG] += 1
            self._lines.append(line)

    def put_picture(self, picture: WaitingPicture) -> None:
        """From a relay thread; makes room by dropping the oldest."""
        with self._lock:
            self._pictures.append(picture)
            self._picture_bytes += picture.pixels.nbytes
            while self._picture_bytes > _MOST_PICTURE_BYTES and len(self._pictures) > 1:
                old = self._take_picture()
                self.lost[picture_topic(old.camera, old.header.variant)] += 1

    def events(self) -> list[tuple[int, SourceEvent]]:
        """Those that wait now, in the order in which they came, each with the bridge time at which it did."""
        return [self._events.popleft() for _ in range(len(self._events))]

    def lines(self) -> list[LogLine]:
        """Lines that wait now."""
        with self._lock:
            return [self._lines.popleft() for _ in range(len(self._lines))]

    def picture(self) -> WaitingPicture | None:
        """The oldest that waits."""
        with self._lock:
            return self._take_picture() if self._pictures else None

    def _take_picture(self) -> WaitingPicture:
        picture = self._pictures.popleft()
        self._picture_bytes -= picture.pixels.nbytes
        return picture

    @property
    def waiting(self) -> bool:
        """Whether anything does."""
        return bool(self._events or self._pictures or self._lines)
