"""Recent events for people: a bounded ring of the bridge's log."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import takewhile
from typing import Final

from vil_bridge.core.clock import now_ns
from vil_bridge.core.installation import PACKAGES

_KEPT: Final = 1000
_LONGEST_TEXT: Final = 1000


class EventLevel(StrEnum):
    """Importance of an event."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class EventView:
    """One event.

    Attributes:
        id: rises by one with each event of a run.
        t_ns: bridge time. utc: ISO 8601, milliseconds.
        component: the source, renderer or part of the bridge that it concerns.
    """

    id: int
    t_ns: int
    utc: str
    level: EventLevel
    component: str
    text: str


class EventLog(logging.Handler):
    """Keeps the newest 1000 events; any thread writes and reads.

    A message that begins as ``NAME: `` concerns the component of that name; others the module that
    logged them.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._ring: deque[EventView] = deque(maxlen=_KEPT)
        self._guard = threading.Lock()
        self._last = 0

    @property
    def last_id(self) -> int:
        """Of the newest event, 0 = there was none."""
        return self._last

    def open(self) -> None:
        """Listen to everything that our own modules log from INFO on."""
        for name in PACKAGES:
            logging.getLogger(name).addHandler(self)

    def close(self) -> None:
        """Listen no longer."""
        for name in PACKAGES:
            logging.getLogger(name).removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what was logged."""
        try:
            message = record.getMessage()[:_LONGEST_TEXT]
        except Exception:  # whatever a bad line raises is none of its writer's business
            self.handleError(record)
            return
        component, colon, text = message.partition(": ")
        if not colon or " " in component:
            component = record.name.rpartition(".")[2]
            text = message
        utc = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        level = _level(record.levelno)
        with self._guard:
            self._last += 1
            self._ring.append(EventView(self._last, now_ns(), utc, level, component, text))

    def since(self, after: int, level: EventLevel = EventLevel.INFO) -> list[EventView]:
        """Events newer than ``after``, at least of a level, oldest first."""
        with self._guard:
            newer = list(takewhile(lambda event: event.id > after, reversed(self._ring)))
        least = tuple(EventLevel).index(level)
        return [event for event in reversed(newer) if tuple(EventLevel).index(event.level) >= least]


def _level(number: int) -> EventLevel:
    if number >= logging.ERROR:
        return EventLevel.ERROR
    return EventLevel.WARNING if number >= logging.WARNING else EventLevel.INFO
