"""The stream of server-sent events, against a running bridge."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.bridge_rig import bridge_with_camera
from tests.support.dashboard_rig import draw
from tests.support.events import until
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.web.routes.events import MOST_READERS

pytestmark = pytest.mark.wire


logger = logging.getLogger("vil_bridge.tests")


class Events:
    """One reader of the stream."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()

    async def next(self, kind: str) -> tuple[str, dict[str, Any]]:
        """The next event of a kind: its id, empty = none, and what it says."""
        event, identity = "", ""
        async with asyncio.timeout(60):
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field == "event":
                    event, identity = value, ""
                elif field == "id":
                    identity = value
                elif field == "data" and event == kind:
                    return identity, json.loads(value)
        raise EOFError

    async def rest(self) -> None:
        """Until the bridge ends the stream."""
        async for _ in self._lines:
            pass


@contextlib.asynccontextmanager
async def reading(bridge: Bridge, after: str | None = None) -> AsyncIterator[Events]:
    headers = {} if after is None else {"Last-Event-ID": after}
    url = f"{bridge.http.url}api/v1/updates"
    async with (
        httpx.AsyncClient(timeout=60.0) as web,
        web.stream("GET", url, headers=headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Events(answer)


async def test_a_reader_gets_states_and_goes_on_where_it_was() -> None:
    async with bridge_with_camera("latency_compensation: none", draw) as bridge:
        async with reading(bridge) as events:
            _, first = await events.next("status")
            _, second = await events.next("status")
            _, third = await events.next("status")
            assert first["t_ns"] < second["t_ns"] < third["t_ns"]
            assert third["t_ns"] - first["t_ns"] > 400_000_000  # a whole slot lies between them
            assert third["pages"]["reading"] == 1
            logger.warning("front: one")
            identity, entry = await events.next("log")
            while entry["text"] != "one":
                identity, entry = await events.next("log")
            assert (entry["level"], entry["component"]) == ("warning", "front")
        await until(lambda: bridge.web.updates.readers == 0)
        for i in range(300):  # more than a new reader gets
            logger.warning("front: %d", i)
        async with reading(bridge, after=identity) as events:
            assert [(await events.next("log"))[1]["text"] for _ in range(300)] == [
                str(i) for i in range(300)
            ]
        run, _, number = identity.partition("-")
        assert int(number) == entry["id"]
        for strange in (f"0{run[1:]}x-{number}", number, f"{run}-{1 << 40}", f"{run}-\u0662", "-"):
            assert bridge.web.updates.seen(strange) == bridge.web.updates.log.last_id - 200
        async with reading(bridge, after=f"another-{number}") as events:
            assert (await events.next("log"))[1]["text"] == "100"


async def test_readers_share_one_state_and_are_not_too_many() -> None:
    async with (
        bridge_with_camera("latency_compensation: none", draw) as bridge,
        contextlib.AsyncExitStack() as stack,
    ):
        readers = [await stack.enter_async_context(reading(bridge)) for _ in range(3)]
        seen: list[set[int]] = [set() for _ in readers]
        # One state for all: they join in different slots on a busy machine.
        while not set.intersection(*seen):
            for one, (_, told) in zip(
                seen, await asyncio.gather(*(r.next("status") for r in readers)), strict=True
            ):
                one.add(told["t_ns"])
        readers += [
            await stack.enter_async_context(reading(bridge)) for _ in range(MOST_READERS - 3)
        ]
        await until(lambda: bridge.web.updates.readers == MOST_READERS)
        async with httpx.AsyncClient(timeout=60.0) as web:
            answer = await web.get(f"{bridge.http.url}api/v1/updates", timeout=60.0)
        assert (answer.status_code, answer.json()["detail"]) == (
            503,
            "32 readers are connected already",
        )
        bridge.web.close()
        await asyncio.gather(*(reader.rest() for reader in readers))
