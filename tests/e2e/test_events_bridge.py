"""Events through a whole bridge.

A renderer draws a bar that moves, an onboard client reads its edges.
"""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest

from tests.support.bridge_rig import bridge_with_camera
from tests.support.common import PATIENCE_S
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire

_STEPS = itertools.count()


def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
    """A bright bar of 8 pixels that goes round to the right."""
    pixels = np.full((48, 64, 3), 40, np.uint8)
    pixels[:, (next(_STEPS) + np.arange(8)) % 64] = 220
    return RenderedRequest(tuple(RenderedImage(view, pixels) for view in views))


async def test_both_edges_of_a_moving_bar_make_events() -> None:
    async with bridge_with_camera("latency_compensation: none", draw, (64, 48)) as bridge:
        frames = await asyncio.to_thread(read, bridge.context.hub.endpoint)
    events = np.concatenate([frame.image for frame in frames])
    assert set(events["polarity"].tolist()) == {1, -1}
    assert abs(int(events["polarity"].sum())) < 0.1 * len(events)  # as much light goes as comes
    assert len(np.unique(events["y"])) == 48
    for frame, before in zip(frames[1:], frames, strict=False):
        span_ns = frame.t_bridge_ns - before.t_bridge_ns
        assert len(frame.image) == 0 or frame.image["dt_ns"].min() >= -span_ns


def read(endpoint: str) -> list[Frame]:
    with Receiver(endpoint, variant="raw", encoding="events", queue=100) as receiver:
        frames: list[Frame] = []
        while len(frames) < 12:
            frame = receiver.next(PATIENCE_S)
            assert frame is not None
            frames.append(frame)
    return frames
