"""Live feed ``/api/v1/live``: poses and previews for pages; newest wins, for each client by itself.

Everything here runs in the HTTP server's loop, but for the taps that relay threads fill. A message
is made once for all. A client that reads slowly has one slot per preview and none for poses, and
its socket's buffer is bounded by the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from vil_bridge.runtime.pacing import CachedValue, PeriodicTask, SlotTimer
from vil_bridge.web.live.frames import framed, poster
from vil_bridge.web.live.previews import PreviewTap, picture_message
from vil_bridge.web.schemas.body import problems_of
from vil_bridge.web.schemas.live import _POSES_HZ, Subscription, _Key

_BETWEEN_SUBSCRIPTIONS_S: Final = 0.05
_LONGEST_REASON: Final = 120
_WRONG: Final = 1008


class _Client:
    """WebSocket with its subscription and the frames that wait for it."""

    def __init__(self, post: Callable[[bytes], bool]) -> None:
        self.post = post
        self.poses: SlotTimer | None = None
        self.previews: dict[_Key, tuple[float, SlotTimer]] = {}
        self.waiting: dict[_Key, bytes] = {}

    def subscribe(self, wanted: Subscription) -> None:
        """Replace the subscription."""
        self.poses = SlotTimer(wanted.poses_hz) if wanted.poses_hz else None
        self.previews = {(p.camera, p.variant): (p.hz, SlotTimer(p.hz)) for p in wanted.previews}
        self.waiting = {key: frame for key, frame in self.waiting.items() if key in self.previews}

    def post_waiting(self) -> int:
        """Write waiting frames as long as the socket accepts them; return their number."""
        before = len(self.waiting)
        while self.waiting:
            key = next(iter(self.waiting))
            if not self.post(self.waiting[key]):
                break
            del self.waiting[key]
        return before - len(self.waiting)


class LiveFeed:
    """All clients of the live feed.

    Args:
        poses: returns the message of the actors; called at most 30 times a second, while a client
            wants it.
        taps: of the cameras, by name.
        variants: of pictures that each camera has.

    Attributes:
        counters: messages ``sent`` and ``skipped`` (a client did not read), subscriptions
            ``refused``.
    """

    def __init__(
        self,
        poses: Callable[[], bytes],
        taps: Mapping[str, PreviewTap],
        variants: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.counters: Counter[str] = Counter(sent=0, skipped=0, refused=0)
        self._poses = CachedValue(lambda: framed(poses()), _POSES_HZ)
        self._task = PeriodicTask(self._turn, _POSES_HZ)
        self._taps = taps
        self._variants = variants
        self._clients: set[_Client] = set()
        self._arrived: dict[_Key, None] = {}
        self._encoding: asyncio.Task[None] | None = None

    @property
    def clients(self) -> int:
        """Number of connected clients."""
        return len(self._clients)

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one client, until it leaves or is refused."""
        await websocket.accept()
        client = _Client(poster(websocket))
        self._clients.add(client)
        self._task.start()
        try:
            problem = await self._listen(client, websocket)
        finally:
            self._clients.discard(client)
            self._tune()
        if problem:
            self.counters["refused"] += 1
            with contextlib.suppress(WebSocketDisconnect):
                await websocket.close(
                    _WRONG, problem.encode()[:_LONGEST_REASON].decode(errors="ignore")
                )

    async def _listen(self, client: _Client, websocket: WebSocket) -> str:
        """Accept subscriptions until the client leaves.

        Return the problem of one, empty if it left.
        """
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return ""
            try:
                wanted = Subscription.model_validate_json(message.get("text") or b"")
            except ValidationError as exc:
                return problems_of(exc, "subscription")
            problem = self._unknown(wanted)
            if problem:
                return problem
            client.subscribe(wanted)
            self._tune()
            # No client needs to change its subscription more often.
            await asyncio.sleep(_BETWEEN_SUBSCRIPTIONS_S)

    def _unknown(self, wanted: Subscription) -> str:
        for preview in wanted.previews:
            variants = self._variants.get(preview.camera)
            if variants is None:
                return (
                    f"no camera {preview.camera!r}; known: "
                    f"{', '.join(sorted(self._variants)) or 'none'}"
                )
            if preview.variant not in variants:
                return (
                    f"camera {preview.camera!r} has no {preview.variant} pictures, only "
                    f"{', '.join(variants)}"
                )
        return ""

    def _tune(self) -> None:
        """Let the taps deliver the union of all subscriptions."""
        loop = asyncio.get_running_loop()
        rates_hz: dict[str, dict[str, float]] = {camera: {} for camera in self._taps}
        for client in self._clients:
            for (camera, variant), (hz, _) in client.previews.items():
                rates_hz[camera][variant] = max(hz, rates_hz[camera].get(variant, 0.0))
        for camera, tap in self._taps.items():
            tap.arrived = functools.partial(self._on_picture, loop, camera)
            tap.watch(rates_hz[camera])

    def _on_picture(self, loop: asyncio.AbstractEventLoop, camera: str, variant: str) -> None:
        """Schedule the encoding of a picture that lies in a tap (relay thread)."""
        with contextlib.suppress(RuntimeError):  # the server has stopped
            loop.call_soon_threadsafe(self._schedule, (camera, variant))

    def _schedule(self, key: _Key) -> None:
        self._arrived[key] = None
        if self._encoding is None or self._encoding.done():
            self._encoding = asyncio.create_task(self._encode())

    async def _encode(self) -> None:
        """Encode one picture after the other, in a worker thread, once for all clients."""
        while self._arrived:
            key = next(iter(self._arrived))
            del self._arrived[key]
            camera, variant = key
            found = self._taps[camera].take(variant)
            if found is not None:
                self._offer(key, framed(await asyncio.to_thread(picture_message, *found)))

    def _offer(self, key: _Key, frame: bytes) -> None:
        for client in self._clients:
            _, pace = client.previews.get(key, (0.0, None))
            if pace is not None and pace.due():
                pace.passed()
                self.counters["skipped"] += key in client.waiting
                client.waiting[key] = frame
                self.counters["sent"] += client.post_waiting()

    def _turn(self) -> bool:
        """Send poses that are due, and waiting previews; return False if no client is left."""
        for client in self._clients:
            if client.poses is not None and client.poses.due() and client.post(self._poses.get()):
                self.counters["skipped"] += client.poses.passed()
                self.counters["sent"] += 1
            self.counters["sent"] += client.post_waiting()
        return bool(self._clients)


def live_router(feed: LiveFeed) -> APIRouter:
    """Return the route ``/api/v1/live``."""
    router = APIRouter(prefix="/api/v1")

    @router.websocket("/live")
    async def live(websocket: WebSocket) -> None:
        await feed.serve(websocket)

    return router
