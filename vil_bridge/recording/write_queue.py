"""Queues of a recorder: bounded, and never slow for the threads that fill them."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from vil_bridge.core.clock import now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray, SourceEvent
from vil_bridge.recording.topics import EVENTS, LOG, picture_topic
from vil_bridge.runtime.bounded_queue import BoundedQueue

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
    """Queues of a recorder: pictures, source events and log lines.

    Pictures and lines drop their oldest, beyond 64 MiB and 1,000; events refuse new ones once
    20,000 wait.

    Attributes:
        lost: messages that were not recorded, by topic.
    """

    def __init__(self) -> None:
        self.lost: Counter[str] = Counter()
        self._events: BoundedQueue[tuple[int, SourceEvent]] = BoundedQueue(
            _MOST_EVENTS,
            on_drop=lambda entry: self._lose(EVENTS + entry[1].source),
            keep_oldest=True,
        )
        self._lines: BoundedQueue[LogLine] = BoundedQueue(
            _MOST_LINES, on_drop=lambda _: self._lose(LOG)
        )
        self._pictures: BoundedQueue[WaitingPicture] = BoundedQueue(
            _MOST_PICTURE_BYTES,
            lambda picture: picture.pixels.nbytes,
            lambda picture: self._lose(picture_topic(picture.camera, picture.header.variant)),
        )
        self.events = self._events.drain
        self.lines = self._lines.drain
        self.picture = self._pictures.pop

    def enqueue_event(self, event: SourceEvent) -> None:
        """Add an event with the bridge time at which it comes (loop thread)."""
        self._events.enqueue((now_ns(), event))

    def enqueue_line(self, line: LogLine) -> None:
        """Add a line of the log (any thread)."""
        self._lines.enqueue(line)

    def enqueue_picture(self, picture: WaitingPicture) -> None:
        """Add a picture (relay thread)."""
        self._pictures.enqueue(picture)

    @property
    def waiting(self) -> bool:
        """True while anything waits."""
        return bool(self._events or self._pictures or self._lines)

    def _lose(self, topic: str) -> None:
        self.lost[topic] += 1
