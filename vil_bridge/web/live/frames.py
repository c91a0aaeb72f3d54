"""WebSocket frames of the feeds: built once for all clients, written without waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fastapi import WebSocket
from websockets.frames import Frame, Opcode

POST: Final = "vil.post"
"""ASGI extension of our server: a WebSocket's function that writes a frame unchanged."""


def framed(message: str | bytes) -> bytes:
    """Return a message as a server's WebSocket frame (RFC 6455), the same bytes for every
    client.
    """
    if isinstance(message, str):
        return Frame(Opcode.TEXT, message.encode()).serialize(mask=False)
    return Frame(Opcode.BINARY, message).serialize(mask=False)


def poster(websocket: WebSocket) -> Callable[[bytes], bool]:
    """Return the function that writes a frame to a WebSocket.

    False = it is still busy, or has left.
    """
    post: Any = websocket.scope["extensions"][POST]
    return post  # type: ignore[no-any-return]


async def until_left(websocket: WebSocket) -> None:
    """Wait until the client leaves; its messages are ignored."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass
