"""Two renderers for one camera as they see it themselves.

Who is asked for what, and what they tell is shown.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from tests.support.bridge_rig import build, running
from tests.support.events import until
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_bridge.daemon.bridge import Bridge
from vil_renderer.flightgoggles.server import FlightGogglesServerConfig, RenderedRequest, serve
from vil_renderer.flightmare.server import FlightmareServerConfig
from vil_renderer.flightmare.server import serve as serve_flightmare

pytestmark = pytest.mark.wire


CONFIG = """
version: 1
renderers:
  main: {type: flightgoggles, pose_port: 0, image_port: 0}
  spare: {type: %s, pose_port: 0, image_port: 0}
cameras:
  front: {renderer: [main, spare], width_px: 64, height_px: 48, rate_hz: 50,
      latency_compensation: none}
  back: {renderer: main, width_px: 64, height_px: 48, rate_hz: 50, latency_compensation: none}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


class Painter:
    """A renderer in a thread; remembers what it was asked for."""

    def __init__(self, client: Any, protocol: str) -> None:
        self.due: Counter[str] = Counter()
        self.lists: set[tuple[str, ...]] = set()
        self.newest: tuple[str, ...] = ()
        self.info: dict[str, str] = {}
        self._stop = threading.Event()
        run: Any = serve if protocol == "flightgoggles" else serve_flightmare
        peer: Any = (
            FlightGogglesServerConfig if protocol == "flightgoggles" else FlightmareServerConfig
        )
        ports = peer(pose_port=client.pose_port, image_port=client.image_port)
        self._thread = threading.Thread(target=run, args=(self._draw, ports, self._stop))
        self._thread.start()

    def _draw(self, views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        due = [view for view in views if view.due]
        self.newest = tuple(view.key for view in due)
        self.due.update(self.newest)
        self.lists.add(tuple(view.key for view in views))
        noise = np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8)
        return RenderedRequest(
            tuple(RenderedImage(view, noise) for view in due), info=dict(self.info)
        )

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@asynccontextmanager
async def painted(spare: str = "flightgoggles") -> AsyncIterator[tuple[Bridge, dict[str, Painter]]]:
    bridge = build(CONFIG % spare)
    painters = {
        name: Painter(client, bridge.context.config.renderers[name].type)
        for name, client in bridge.context.pool.renderers.items()
    }
    async with running(bridge):
        try:
            await until(
                lambda: all(
                    r.report.state == "running" for r in bridge.snapshot().renderers.values()
                )
            )
            yield bridge, painters
        finally:
            for painter in painters.values():
                await asyncio.to_thread(painter.close)


async def test_a_spare_renderer_is_asked_for_no_picture_until_it_is_needed() -> None:
    async with painted() as (bridge, painters):
        main, spare = painters["main"], painters["spare"]
        await until(lambda: bridge.snapshot().cameras["front"].renderer == "main")
        asked = spare.due["front"]
        # Three times as long as a renderer is left alone.
        await until(lambda: main.due["front"] >= 75)
        assert spare.due["front"] <= asked + 2, "what was under way"
        assert spare.lists == {("front",)} and main.lists == {("front", "back")}
        await asyncio.to_thread(main.close)
        await until(lambda: bridge.snapshot().cameras["front"].renderer == "spare")
        begun = spare.due["front"]
        await until(lambda: spare.due["front"] >= begun + 20)
        assert spare.lists == {("front",)}, "the list never changes"
        now = bridge.snapshot()
        assert now.cameras["back"].assigned == "waits for main" and not now.ready


async def test_a_renderer_that_loses_its_last_camera_is_asked_to_draw_none() -> None:
    """Its newest request is what it draws again and again."""
    async with painted() as (bridge, painters):
        main, spare = painters["main"], painters["spare"]
        await asyncio.to_thread(main.close)
        await until(lambda: spare.newest == ("front",))
        painters["main"] = Painter(bridge.context.pool.renderers["main"], "flightgoggles")
        await until(
            lambda: bridge.snapshot().cameras["front"].renderer == "main" and not spare.newest
        )


async def test_a_profile_that_fell_back_is_noted_and_nothing_stops() -> None:
    async with painted() as (bridge, painters):
        info = {"profile": "medium", "profile_wanted": "high", "profile_reason": "30 ms of 16 ms"}
        painters["main"].info = info
        note = "draws with profile medium instead of high: 30 ms of 16 ms"

        def noted() -> bool:
            now = bridge.snapshot()
            main = now.renderers["main"]
            return now.ready and main.note == note and main.report.facts["info"] == info

        await until(noted)
        painters["main"].info = info | {"profile": "high", "profile_reason": ""}
        await until(lambda: not bridge.snapshot().renderers["main"].note)


async def test_a_program_of_the_other_protocol_can_stand_by() -> None:
    async with painted("flightmare") as (bridge, painters):
        await asyncio.to_thread(painters["main"].close)
        await until(lambda: bridge.snapshot().cameras["front"].assigned == "fail-over from main")
        begun = bridge.context.cameras["front"].meter.count
        await until(lambda: bridge.context.cameras["front"].meter.count >= begun + 20)
        assert bridge.snapshot().renderers["spare"].utilisation > 0.0
