"""Dashboard clients without a browser: ``python -m tests.soak.readers PORT``.

One process reads every live feed as pages do: status by REST, the stream of updates, poses and
previews by WebSocket, metrics; one more WebSocket subscribes to everything and never reads. A feed
that ends is opened again; one that the bridge does not have is left out. Each second a JSON line of
what came so far goes to stdout.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

import httpx
import websockets

from vil_bridge.monitoring.heap_profile import watch_heap

EVERYTHING = json.dumps(
    {
        "poses_hz": 30,
        "previews": [
            {"camera": "front", "variant": "compensated", "hz": 5},
            {"camera": "plain", "variant": "raw", "hz": 2},
        ],
    }
)
AGAIN_S = 0.5
_LOST = (OSError, httpx.HTTPError, websockets.WebSocketException, asyncio.TimeoutError)


class Readers:
    """The feeds and what came of them."""

    def __init__(self, port: int) -> None:
        self.base = f"127.0.0.1:{port}"
        self.came: Counter[str] = Counter()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for feed in (self.updates, self.live, self.deaf, self.polls):
                group.create_task(self.kept(feed))
            group.create_task(self.told())

    async def kept(self, feed: Callable[[], Awaitable[None]]) -> None:
        while True:
            with contextlib.suppress(*_LOST):
                await feed()
            self.came[f"{feed.__name__} again"] += 1
            await asyncio.sleep(AGAIN_S)

    async def told(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            print(json.dumps(self.came), flush=True)

    async def updates(self) -> None:
        """Server-Sent Events."""
        client = httpx.AsyncClient(timeout=30.0)
        async with client, client.stream("GET", f"http://{self.base}/api/v1/updates") as answer:
            if answer.status_code != 200:
                return
            async for line in answer.aiter_lines():
                if line.startswith("event:"):
                    self.came[f"event {line[6:].strip()}"] += 1

    async def live(self) -> None:
        """Poses and previews."""
        async with websockets.connect(
            f"ws://{self.base}/api/v1/live", max_size=1 << 22, ping_interval=None
        ) as socket:
            await socket.send(EVERYTHING)
            async for message in socket:
                assert isinstance(message, bytes)
                self.came[f"live {message[0]}"] += 1

    async def deaf(self) -> None:
        """Asks for everything and never reads; whether the bridge hangs up is its affair."""
        async with websockets.connect(
            f"ws://{self.base}/api/v1/live", max_queue=1, ping_interval=None
        ) as socket:
            await socket.send(EVERYTHING)
            await socket.wait_closed()

    async def polls(self) -> None:
        """What scripts and Prometheus ask."""
        async with httpx.AsyncClient(timeout=30.0) as client:
            while True:
                for path in (
                    "api/v1/status",
                    "metrics",
                    "api/v1/cameras/front/preview.jpg",
                    "readyz",
                ):
                    await client.get(f"http://{self.base}/{path}")
                    self.came["answers"] += 1
                await asyncio.sleep(1.0)


if __name__ == "__main__":
    watch_heap()
    asyncio.run(Readers(int(sys.argv[1])).run())
