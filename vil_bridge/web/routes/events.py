"""Events for pages: one stream of server-sent events, and the log behind it."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Header, HTTPException, Query
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter

from vil_bridge.monitoring.event_log import EventLevel, EventLog, EventView
from vil_bridge.runtime.pacing import CachedValue, SlotTimer
from vil_bridge.web.schemas.status import ErrorOut

MOST_READERS: Final = 32
_STATUS_HZ: Final = 2.0
_CHECK_S: Final = 0.1
_HISTORY: Final = 200
_EVENT: Final = TypeAdapter(EventView)
_MOST_IDS: Final = 1 << 53
_LONGEST_ID: Final = 40


class Updates:
    """Readers of the stream, and the parts that they share.

    Args:
        status: the whole bridge as JSON; called twice a second while a page reads.
        states: further ones as JSON by event, passed on when they change; empty = none now.
        log: whose entries are passed on.

    Attributes:
        counters: ``skipped``: states of the bridge that a reader was too slow for. ``refused``:
            readers too many.
    """

    def __init__(
        self, status: Callable[[], bytes], states: Mapping[str, Callable[[], bytes]], log: EventLog
    ) -> None:
        self.counters: Counter[str] = Counter(skipped=0, refused=0)
        self.readers = 0
        self.log = log
        self._status = CachedValue(lambda: _sse("status", status()), _STATUS_HZ)
        self._states = {event: CachedValue(state, _STATUS_HZ) for event, state in states.items()}
        self._run = secrets.token_hex(4)
        self._ended = False

    def end(self) -> None:
        """End all streams soon (any thread)."""
        self._ended = True

    def seen(self, identity: str) -> int:
        """Return the log's newest entry that a reader has, from the newest identity that it
        received.

        Each run numbers its entries from the start: an identity of another run is ignored, and a
        reader without one gets the latest entries.
        """
        run, _, number = identity.partition("-")
        known = (
            run == self._run
            and number.isascii()
            and number.isdigit()
            and int(number) <= self.log.last_id
        )
        return int(number) if known else max(0, self.log.last_id - _HISTORY)

    async def stream(self, after: int) -> AsyncIterator[bytes]:
        """Yield one reader's stream, with the log's entries after ``after``."""
        pace = SlotTimer(_STATUS_HZ)
        sent = dict.fromkeys(self._states, b"")
        self.readers += 1
        try:
            while not self._ended:
                parts = []
                if pace.due():
                    self.counters["skipped"] += pace.passed()
                    parts.append(self._status.get())
                for event, state in self._states.items():
                    newest = state.get()
                    if newest and newest != sent[event]:
                        sent[event] = newest
                        parts.append(_sse(event, newest))
                for entry in self.log.since(after):
                    parts.append(_sse("log", _EVENT.dump_json(entry), f"{self._run}-{entry.id}"))
                    after = entry.id
                if parts:
                    yield b"".join(parts)
                await asyncio.sleep(_CHECK_S)
        finally:
            self.readers -= 1


def _sse(event: str, data: bytes, identity: str = "") -> bytes:
    """Return one server-sent event; our JSON has no line breaks."""
    line = f"id: {identity}\n" if identity else ""
    return f"event: {event}\n{line}data: ".encode() + data + b"\n\n"


def events_router(updates: Updates) -> APIRouter:
    """Return the routes ``/api/v1/updates`` and ``/api/v1/log``."""
    router = APIRouter(prefix="/api/v1", tags=["bridge"])

    @router.get(
        "/updates",
        operation_id="get_updates",
        response_class=StreamingResponse,
        responses={
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
            503: {"model": ErrorOut},
        },
    )
    async def get_updates(
        last_event_id: Annotated[str, Header(max_length=_LONGEST_ID)] = "",
    ) -> StreamingResponse:
        """Stream server-sent events without end.

        `status` twice a second, `log` and `recording` on change.
        """
        if updates.readers >= MOST_READERS:
            updates.counters["refused"] += 1
            raise HTTPException(503, f"{MOST_READERS} readers are connected already")
        stream = updates.stream(updates.seen(last_event_id))
        return StreamingResponse(stream, media_type="text/event-stream")

    @router.get("/log", operation_id="get_log", response_model=list[EventView])
    async def get_log(
        after: Annotated[
            int, Query(ge=0, le=_MOST_IDS, description="Only newer ones than this id.")
        ] = 0,
        level: Annotated[
            EventLevel, Query(description="Only these and worse ones.")
        ] = EventLevel.INFO,
    ) -> list[EventView]:
        """Return the latest log entries, oldest first, at most a thousand."""
        return updates.log.since(after, level)

    return router
