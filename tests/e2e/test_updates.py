"""The stream of server-sent events, against a running bridge."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from tests.bridge_rig import bridge_with_camera
from tests.dashboard_rig import draw
from tests.events import until
from vil_bridge.app import Bridge
from vil_bridge.dashboard.events import MOST_READERS

logger = logging.getLogger("vil_bridge.tests")


class Events:
    """One reader of the stream."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()

    async def next(self, kind: str) -> tuple[int, dict[str, Any]]:
        """The next event of a kind: its id, 0 = none, and what it says."""
        event, number = "", 0
        async with asyncio.timeout(30):
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field == "event":
                    event, number = value, 0
                elif field == "id":
                    number = int(value)
                elif field == "data" and event == kind:
                    return number, json.loads(value)
        raise EOFError

    async def rest(self) -> None:
        """Until the bridge ends the stream."""
        async for _ in self._lines:
            pass


@contextlib.asynccontextmanager
async def reading(bridge: Bridge, after: int | None = None) -> AsyncIterator[Events]:
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    url = f"{bridge.http.url}api/v1/updates"
    async with httpx.AsyncClient(timeout=30) as web, web.stream("GET", url, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Events(answer)


async def test_a_reader_gets_states_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async with bridge_with_camera(tmp_path, "compensate: none", draw) as bridge:
        async with reading(bridge) as events:
            _, first = await events.next("status")
            _, second = await events.next("status")
            assert second["t_ns"] - first["t_ns"] > 100_000_000
            assert second["pages"]["reading"] == 1
            logger.warning("front: one")
            number, entry = await events.next("log")
            while entry["text"] != "one":
                number, entry = await events.next("log")
            assert (entry["id"], entry["level"], entry["component"]) == (number, "warning", "front")
        await until(lambda: bridge.web.updates.readers == 0)
        logger.warning("front: two")
        async with reading(bridge, after=number) as events:
            assert (await events.next("log"))[1]["text"] == "two"
        async with reading(bridge, after=1 << 40) as events:  # an id of another run
            assert (await events.next("log"))[0] >= 1


async def test_readers_share_one_state_and_are_not_too_many(tmp_path: Path) -> None:
    async with bridge_with_camera(tmp_path, "compensate: none", draw) as bridge, contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(reading(bridge)) for _ in range(3)]
        seen = await asyncio.gather(*(reader.next("status") for reader in readers))
        assert len({told["t_ns"] for _, told in seen}) <= 2  # of two slots when one ends between the readers
        readers += [await stack.enter_async_context(reading(bridge)) for _ in range(MOST_READERS - 3)]
        await until(lambda: bridge.web.updates.readers == MOST_READERS)
        async with httpx.AsyncClient() as web:
            answer = await web.get(f"{bridge.http.url}api/v1/updates", timeout=30)
        assert (answer.status_code, answer.json()["detail"]) == (503, "32 readers are connected already")
        bridge.web.close()
        await asyncio.gather(*(reader.rest() for reader in readers))
