"""A bridge in this process on real sockets; where a test needs pictures, a function draws them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from tests.support.events import until
from tests.support.flightgoggles import ports, server
from vil_bridge import registry
from vil_bridge.config.load import load, load_text
from vil_bridge.config.root import BridgeConfig
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.services.recording.service import RecordingService
from vil_bridge.services.service import Service
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.server import Draw

_Service = TypeVar("_Service", bound=Service)
_CONFIG = """
version: 1
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {renderer: drawn, width_px: %d, height_px: %d, rate_hz: 50, %s}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


def read(config: str | Path) -> BridgeConfig:
    """Return the configuration of a file or of a text; the environment changes nothing."""
    if isinstance(config, Path):
        return load(config, env={}, resolve=registry.resolve)
    return load_text(config, "bridge.yaml", resolve=registry.resolve)


def service_of(bridge: Bridge, kind: type[_Service]) -> _Service:
    """Return the bridge's service of a class."""
    running = [runner.service for runner in bridge.context.services.values()]
    (found,) = (service for service in running if isinstance(service, kind))
    return found


def recordings_of(bridge: Bridge) -> RecordingService:
    """Return the bridge's service that records and replays."""
    return service_of(bridge, RecordingService)


def build(config: str | Path, record: Path | None = None) -> Bridge:
    """Return a bridge that does not run yet; it can read a file again.

    Args:
        config: file or text.
        record: recording to write from the start on.
    """
    bridge = Bridge(read(config), (lambda: read(config)) if isinstance(config, Path) else None)
    recordings_of(bridge).first_file = record
    return bridge


@asynccontextmanager
async def running(bridge: Bridge | str | Path) -> AsyncIterator[Bridge]:
    """Run a bridge, or the one of a configuration, from the moment on at which it asks for
    pictures.

    Its clock is the one that the test reads in the meantime.
    """
    one = bridge if isinstance(bridge, Bridge) else build(bridge)
    task = asyncio.create_task(one.run())
    try:
        await until(lambda: task.done() or "scheduling" in one.context.health.startup, 60.0)
        if task.done():
            task.result()
        with one.context.simulation.clock.in_force():
            yield one
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def drawn_bridge(config: str | Path, draw: Draw) -> AsyncIterator[Bridge]:
    """Run the bridge of a configuration whose only renderer draws with a function."""
    bridge = build(config)
    (client,) = bridge.context.pool.renderers.values()
    assert isinstance(client, FlightGogglesClient)
    with server(ports(client), draw):
        async with running(bridge):
            yield bridge


def bridge_with_camera(
    camera: str, draw: Draw, size_px: tuple[int, int] = (32, 24)
) -> AbstractAsyncContextManager[Bridge]:
    """Run a bridge with the camera ``front``, fixed in the world.

    Args:
        camera: further keys of the camera, in YAML's flow style.
        draw: makes its pictures.
        size_px: their width and height.
    """
    return drawn_bridge(_CONFIG % (*size_px, camera), draw)
