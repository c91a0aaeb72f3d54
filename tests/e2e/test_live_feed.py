"""The live feed of pages, against a running bridge: poses, previews, who reads slowly, who asks for nonsense."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.bridge_rig import bridge_with_camera
from tests.events import until
from vil_bridge.app import Bridge
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_bridge.dashboard.feed_codec import LivePoses, LivePreview, decode_live
from vil_renderer.flightgoggles.server import Drawn


def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> Drawn:
    """Flat gray, by the camera."""
    pictures = (np.full((v.camera.height_px, v.camera.width_px, 3), 90, np.uint8) for v in views)
    return Drawn(tuple(RenderedImage(v, picture) for v, picture in zip(views, pictures, strict=True) if v.due))


@asynccontextmanager
async def feed_of(bridge: Bridge) -> AsyncIterator[ClientConnection]:
    url = bridge.http.url.replace("http", "ws", 1) + "api/v1/live"
    async with connect(url, max_size=1 << 24) as socket_:
        yield socket_


async def hear(feed: ClientConnection) -> LivePoses | LivePreview:
    message = await asyncio.wait_for(feed.recv(), 10)
    assert isinstance(message, bytes)
    return decode_live(message)


async def test_poses_and_both_variants(tmp_path: Path) -> None:
    async with bridge_with_camera(tmp_path, "", draw, (64, 48)) as bridge, feed_of(bridge) as feed:
        previews = [{"camera": "front", "variant": v, "hz": 15} for v in ("compensated", "raw")]
        await feed.send(json.dumps({"poses_hz": 30, "previews": previews}))
        heard: dict[str, list[LivePreview]] = {"compensated": [], "raw": []}
        poses = []
        while len(poses) < 3 or min(map(len, heard.values())) < 3:
            message = await hear(feed)
            if isinstance(message, LivePreview):
                heard[message.header["variant"]].append(message)
            else:
                poses.append(message)
        print(poses[0], heard["raw"][0].header)
        assert simplejpeg.decode_jpeg(heard["raw"][0].jpeg).shape == (48, 64, 3)
