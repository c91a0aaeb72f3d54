"""Feeds ``/api/v1/maps/NAME/live``: the whole map first, then changed voxels.

For each client by itself.

A client that reads slowly gets more changes in one message; one that is too far behind gets the
whole map again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter, WebSocket

from vil_bridge.interfaces.voxels import VoxelMap
from vil_bridge.web.live.frames import framed, poster, until_left
from vil_bridge.web.live.map_codec import encode_changes, encode_snapshot

_RATE_HZ: Final = 10.0
_WRONG: Final = 1008


def map_feed_router(maps: Mapping[str, VoxelMap]) -> APIRouter:
    """Return the routes of the feeds of some maps, by name."""
    router = APIRouter(prefix="/api/v1/maps")

    @router.websocket("/{name}/live")
    async def live(websocket: WebSocket, name: str) -> None:
        await websocket.accept()
        found = maps.get(name)
        if found is None:
            known = ", ".join(sorted(maps)) or "none"
            await websocket.close(_WRONG, f"no map is named {name[:40]!r}; known: {known[:60]}")
            return
        async with asyncio.TaskGroup() as group:  # the connection ends with either
            sending = group.create_task(_send(found, websocket))
            await until_left(websocket)
            sending.cancel()

    return router


async def _send(found: VoxelMap, websocket: WebSocket) -> None:
    """Send until cancelled.

    What a busy socket does not take is tried again, and newer changes come after it.
    """
    post = poster(websocket)
    sent = None
    number = 0
    frame = b""
    while True:
        if not frame:
            number, message = await asyncio.to_thread(_next_message, found, sent)
            frame = framed(message) if message else b""
        if frame and post(frame):
            sent = number
            frame = b""
        await asyncio.sleep(1.0 / _RATE_HZ)


def _next_message(found: VoxelMap, sent: int | None) -> tuple[int, bytes]:
    """Return the number that a client knows after a message, and the message.

    Empty = nothing changed.
    """
    changes = None if sent is None else found.changes(sent)
    if changes is None:
        snapshot = found.snapshot()
        return snapshot.number, encode_snapshot(snapshot)
    if changes.number == sent:
        return changes.number, b""
    return changes.number, encode_changes(changes)
