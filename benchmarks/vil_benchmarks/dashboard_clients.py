"""Ten pages without a browser, in one process at low priority; all but one read all their feeds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from multiprocessing.connection import Connection
from typing import Final
from urllib.parse import urlsplit

from websockets.asyncio.client import connect

from vil_bridge.web.live.codec import LivePoses, decode_live

CLIENTS: Final = 10
_NICE: Final = 19
_LONGEST: Final = 1 << 24


def pages(conn: Connection, url: str, camera: str) -> None:
    """Come with ``on``, leave with ``off``.

    Each is answered with what was received since the last one.
    """
    # Whatever the benchmark was started with.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.nice(_NICE)
    asyncio.run(_serve(conn, url, camera))


async def _serve(conn: Connection, url: str, camera: str) -> None:
    received: Counter[str] = Counter()
    stack = contextlib.AsyncExitStack()
    while (order := await asyncio.to_thread(conn.recv)) != "stop":
        if order == "on":
            for number in range(CLIENTS):
                await stack.enter_async_context(_page(url, camera, received, reads=number > 0))
        else:
            await stack.aclose()
            stack = contextlib.AsyncExitStack()
        conn.send(dict(received))
        received.clear()
    await stack.aclose()


@contextlib.asynccontextmanager
async def _page(
    url: str, camera: str, received: Counter[str], *, reads: bool
) -> AsyncIterator[None]:
    """Connect one client with its four feeds."""
    place = urlsplit(url)
    socket_url = url.replace("http", "ws", 1)
    subscription = {
        "poses_hz": 30,
        "previews": [{"camera": camera, "variant": v, "hz": 10} for v in ("compensated", "raw")],
    }
    async with (
        connect(
            socket_url + "api/v1/live", max_size=_LONGEST, proxy=None, compression=None
        ) as live,
        connect(socket_url + "api/v1/plotjuggler", proxy=None, compression=None) as plots,
    ):
        updates, asking = await asyncio.open_connection(place.hostname, place.port, limit=_LONGEST)
        asking.write(f"GET /api/v1/updates HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
        await live.send(json.dumps(subscription))
        tasks = []
        if reads:

            async def hear_live() -> None:
                async for message in live:
                    assert isinstance(message, bytes), "the live feed is binary"
                    received[
                        "poses" if isinstance(decode_live(message), LivePoses) else "previews"
                    ] += 1

            async def hear_plots() -> None:
                async for _ in plots:
                    received["plots"] += 1

            async def hear_updates() -> None:
                while line := await updates.readline():
                    received["updates"] += line.startswith(b"event: status")

            tasks = [asyncio.create_task(hear()) for hear in (hear_live, hear_plots, hear_updates)]
        else:
            live.transport.pause_reading()
            plots.transport.pause_reading()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            asking.transport.abort()
            live.transport.abort()
            plots.transport.abort()
