"""A whole bridge whose camera a foreign player shows."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.support.bridge_rig import drawn_bridge
from tests.support.events import until
from tests.support.rtp import (
    HEIGHT_PX,
    NUMBERS,
    WIDTH_PX,
    Player,
    free_pair,
    gstreamer,
    number_in,
    painted,
    playing,
)
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.process


_BRIDGE = """
version: 1
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {renderer: drawn, width_px: %d, height_px: %d, rate_hz: 50,
    latency_compensation: none}}
outputs: {video: {type: rtp, cameras: [front], port: %d, bitrate_mbps: 2, sdp_folder: "%s"}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


async def test_a_whole_bridge_sends_video(tmp_path: Path) -> None:
    drawn = itertools.count()

    def draw(views: tuple[View, ...], _: WorldSnapshot) -> RenderedRequest:
        picture = painted(next(drawn) % NUMBERS)
        return RenderedRequest(tuple(RenderedImage(view, picture) for view in views if view.due))

    async with drawn_bridge(_BRIDGE % (WIDTH_PX, HEIGHT_PX, free_pair(), tmp_path), draw) as bridge:
        await until(lambda: bridge.snapshot().outputs["video"].report.state == "running")
        with playing(gstreamer(tmp_path / "front.sdp", "h264")) as player:
            numbers = await asyncio.to_thread(some_numbers, player, 100)
        facts = bridge.snapshot().outputs["video"].report.facts["front"]
        assert facts["sdp"].startswith("v=0\r\n")
        assert facts["image_to_sent_ms"] > 0
    steps = np.diff(numbers) % NUMBERS
    assert np.all((steps > 0) & (steps < 20))  # in order; a busy machine may skip some


def some_numbers(player: Player, count: int) -> list[int]:
    planes = (plane for plane, _ in itertools.islice(player.pictures(20.0), 3 * count))
    found = list(
        itertools.islice((n for plane in planes if (n := number_in(plane)) is not None), count)
    )
    assert len(found) == count
    return found
