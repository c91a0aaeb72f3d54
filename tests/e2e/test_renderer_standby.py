"""Two renderers for one camera as they see it themselves: who is asked for what, and what they tell is shown."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from vil_bridge import registry
from vil_bridge.app import Bridge
from vil_bridge.config.load import load
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_renderer.flightgoggles.server import Drawn, ServerConfig, serve
from vil_renderer.flightmare.server import ServerConfig as FlightmareServerConfig
from vil_renderer.flightmare.server import serve as serve_flightmare

CONFIG = """
version: 1
renderers:
  main: {type: flightgoggles, pose_port: 0, image_port: 0}
  spare: {type: %s, pose_port: 0, image_port: 0}
cameras:
  front: {renderer: [main, spare], width_px: 64, height_px: 48, rate_hz: 50, compensate: none}
  back: {renderer: main, width_px: 64, height_px: 48, rate_hz: 50, compensate: none}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


class Painter:
    """A renderer in a thread; remembers what it was asked for."""

    def __init__(self, client: Any, protocol: str) -> None:
        self.due: Counter[str] = Counter()
        self.lists: set[tuple[str, ...]] = set()
        self.info: dict[str, str] = {}
        self._stop = threading.Event()
        run: Any = serve if protocol == "flightgoggles" else serve_flightmare
        peer: Any = ServerConfig if protocol == "flightgoggles" else FlightmareServerConfig
        ports = peer(pose_port=client.pose_port, image_port=client.image_port)
        self._thread = threading.Thread(target=run, args=(self._draw, ports, self._stop))
        self._thread.start()

    def _draw(self, views: tuple[View, ...], _snapshot: WorldSnapshot) -> Drawn:
        due = [view for view in views if view.due]
        self.due.update(view.key for view in due)
        self.lists.add(tuple(view.key for view in views))
        noise = np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8)
        return Drawn(tuple(RenderedImage(view, noise) for view in due), info=dict(self.info))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@asynccontextmanager
async def painted(folder: Path, spare: str = "flightgoggles") -> AsyncIterator[tuple[Bridge, dict[str, Painter]]]:
    path = folder / "bridge.yaml"
    path.write_text(CONFIG % spare)
    bridge = Bridge(load(path, env={}, resolve=registry.resolve))
    painters = {name: Painter(client, bridge.config.renderers[name].type) for name, client in bridge.renderers.items()}
    running = asyncio.create_task(bridge.run())
    try:
        async with asyncio.timeout(30):
            while not all(r.report.state == "running" for r in bridge.snapshot().renderers.values()):
                await asyncio.sleep(0.01)
            yield bridge, painters
    finally:
        for painter in painters.values():
            await asyncio.to_thread(painter.close)
        running.cancel()
        await asyncio.wait([running])


async def test_a_spare_renderer_is_asked_for_no_picture_until_it_is_needed(tmp_path: Path) -> None:
    async with painted(tmp_path) as (bridge, painters):
        main, spare = painters["main"], painters["spare"]
        while bridge.snapshot().cameras["front"].renderer != "main":
            await asyncio.sleep(0.01)
        asked = spare.due["front"]
        while main.due["front"] < 75:  # three times as long as a renderer is left alone
            await asyncio.sleep(0.01)
        assert spare.due["front"] <= asked + 2, "what was under way"
        assert spare.lists == {("front",)} and main.lists == {("front", "back")}
        await asyncio.to_thread(main.close)
        while bridge.snapshot().cameras["front"].renderer != "spare":
            await asyncio.sleep(0.01)
        begun = spare.due["front"]
        while spare.due["front"] < begun + 20:
            await asyncio.sleep(0.01)
        assert spare.lists == {("front",)}, "the list never changes"
        now = bridge.snapshot()
        assert now.cameras["back"].assigned == "waits for main" and not now.ready


async def test_a_profile_that_fell_back_is_noted_and_nothing_stops(tmp_path: Path) -> None:
    async with painted(tmp_path) as (bridge, painters):
        told = {"profile": "medium", "profile_wanted": "high", "profile_reason": "30 ms of 16 ms"}
        painters["main"].info = told
        while not (note := bridge.snapshot().renderers["main"].note):
            await asyncio.sleep(0.01)
        assert note == "draws with profile medium instead of high: 30 ms of 16 ms"
        assert bridge.snapshot().ready and bridge.snapshot().renderers["main"].report.facts["info"] == told
        painters["main"].info = told | {"profile": "high", "profile_reason": ""}
        while bridge.snapshot().renderers["main"].note:
            await asyncio.sleep(0.01)


async def test_a_program_of_the_other_protocol_can_stand_by(tmp_path: Path) -> None:
    async with painted(tmp_path, "flightmare") as (bridge, painters):
        await asyncio.to_thread(painters["main"].close)
        while bridge.snapshot().cameras["front"].assigned != "fail-over from main":
            await asyncio.sleep(0.01)
        begun = bridge.paths["front"].meter.count
        while bridge.paths["front"].meter.count < begun + 20:
            await asyncio.sleep(0.01)
        assert bridge.snapshot().renderers["spare"].utilisation > 0.0
