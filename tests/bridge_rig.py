"""A whole bridge in this process, whose renderer draws with a function, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tests.events import until
from tests.served import served
from vil_bridge import registry
from vil_bridge.app import Bridge
from vil_bridge.config.load import load
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.server import Draw, ServerConfig, serve

_CONFIG = """
version: 1
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {renderer: drawn, width_px: %d, height_px: %d, rate_hz: 50, %s}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


@asynccontextmanager
async def running(bridge: Bridge) -> AsyncIterator[None]:
    """The bridge at work, from the moment on at which it asks for pictures."""
    task = asyncio.create_task(bridge.run())
    try:
        await until(lambda: "scheduling" in bridge.startup, 60.0)
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def drawn_bridge(path: Path, draw: Draw) -> AsyncIterator[Bridge]:
    """A bridge of that configuration, whose only renderer draws with a function."""
    bridge = Bridge(load(path, env={}, resolve=registry.resolve))
    (client,) = bridge.renderers.values()
    assert isinstance(client, FlightGogglesClient)
    with served(serve, draw, ServerConfig(pose_port=client.pose_port, image_port=client.image_port)):
        async with running(bridge):
            yield bridge


def bridge_with_camera(
    folder: Path, camera: str, draw: Draw, size_px: tuple[int, int] = (32, 24)
) -> AbstractAsyncContextManager[Bridge]:
    """A bridge with the camera ``front``, fixed in the world.

    Args:
        folder: for the configuration.
        camera: further keys of the camera, in YAML's flow style.
        draw: makes its pictures.
        size_px: their width and height.
    """
    path = folder / "bridge.yaml"
    path.write_text(_CONFIG % (*size_px, camera))
    return drawn_bridge(path, draw)
