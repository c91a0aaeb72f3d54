"""A renderer on real sockets that stalls.

Its reader still gets a picture for every tick, marked.
"""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

from tests.support.bridge_rig import drawn_bridge
from tests.support.events import until
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire

_SPEED = 0.2
"""Simulated seconds per second: a busy machine's hesitation is small beside a period."""
_PERIOD_NS = 20 * NS_PER_MS
_CONFIG = """
version: 1
renderers: {unity: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {renderer: unity, width_px: 64, height_px: 48, rate_hz: 50}}
simulation: {clock: simulated, speed: 0.2}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


class _Painter:
    """Noise, in which the picture is known again; stops when it is asked to."""

    def __init__(self) -> None:
        self.stall_s = 0.0
        self._random = np.random.default_rng(3)

    def draw(self, views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        stall_s, self.stall_s = self.stall_s, 0.0
        time.sleep(stall_s)
        pixels = self._random.integers(0, 256, (48, 64, 3), np.uint8)
        return RenderedRequest(tuple(RenderedImage(view, pixels) for view in views if view.due))


async def test_a_stalled_renderer_leaves_no_gap() -> None:
    painter, frames, over = _Painter(), list[Frame](), threading.Event()

    def read(endpoint: str) -> None:
        with Receiver(endpoint, color="rgb", encoding="raw", queue=50) as receiver:
            while not over.is_set():
                if (frame := receiver.next(0.05)) is not None:
                    frames.append(frame)

    async with drawn_bridge(_CONFIG, painter.draw) as bridge:
        relay = bridge.context.cameras["front"].relay
        reading = asyncio.create_task(asyncio.to_thread(read, bridge.context.hub.endpoint))
        await until(lambda: len(frames) > 20)
        painter.stall_s = 0.3 / _SPEED
        await until(lambda: relay.repeated >= 10)
        marked = len(frames)
        await until(lambda: len(frames) > marked + 20)
        over.set()
        await reading
        status = bridge.snapshot().cameras["front"]
    ages = [frame.metadata.get("render_age_ns") for frame in frames]
    again = [age_ns for age_ns in ages if age_ns is not None]
    assert status.frames["repeated"] == relay.repeated >= len(again) >= 10
    assert max(again) <= 250 * NS_PER_MS
    content = [frame.image.tobytes() for frame in frames]
    assert all(
        (a == b) == (age is not None)
        for (a, b), age in zip(pairwise(content), ages[1:], strict=True)
    )
    filled = [
        b.t_bridge_ns - a.t_bridge_ns
        for (a, b), age in zip(pairwise(frames), ages[1:], strict=True)
        if age
    ]
    assert np.median(filled) == pytest.approx(_PERIOD_NS, abs=1 * NS_PER_MS)
    assert [f.frame_id for f in frames] == sorted({f.frame_id for f in frames})


async def test_a_renderer_that_draws_no_more_is_not_hidden() -> None:
    painter, goes_on = _Painter(), threading.Event()
    goes_on.set()

    def draw(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        goes_on.wait()
        return painter.draw(views, snapshot)

    async with drawn_bridge(_CONFIG.replace("speed: 0.2", "speed: 1.0"), draw) as bridge:
        relay = bridge.context.cameras["front"].relay
        try:
            with Receiver(bridge.context.hub.endpoint, encoding="raw", timeout_s=0.3) as receiver:
                while not receiver.alive:
                    await asyncio.to_thread(receiver.next, 0.1)
                goes_on.clear()
                await until(lambda: not receiver.alive)
                await until(lambda: bridge.readiness.reasons())
                ended = relay.repeated
                await asyncio.sleep(5 * _PERIOD_NS / NS_PER_S)
                assert relay.repeated == ended
                assert (bridge.snapshot().cameras["front"].age_s or 0.0) > 0.25
        finally:
            goes_on.set()
        await until(lambda: not bridge.readiness.reasons())
