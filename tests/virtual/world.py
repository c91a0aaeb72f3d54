"""A whole bridge with the emulated lab, a renderer, readers and a visitor of its pages around it, in one process.

What goes wrong is drawn from the seed: loss, jitter, order and silence of the motion capture, its restarts, hidden
bodies, and how long the renderer takes. The rest is the product, unchanged. :class:`World` checks each picture's header
as it comes, and the whole at the end; what does not hold becomes a line of ``failures``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from vil_bridge import client, registry
from vil_bridge.config.load import load_text
from vil_bridge.core.faults import Faults
from vil_bridge.core.types import ImageArray, RenderedImage, View, WorldSnapshot
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.tools.lab.motions import LabMotions, RoomMotion, Scenario
from vil_bridge.tools.lab.run import LabConfig, run_lab
from vil_bridge.tools.lab.servers import ServerSpec
from vil_renderer.flightgoggles.convert_renderer import RenderedRequest
from vil_renderer.flightgoggles.server import FlightGogglesServerConfig, serve

_CAMERAS: Final = ("front", "left", "right", "down")
_HTTP_PORT: Final = 31_080
_CONFIG: Final = """
version: 1
rooms: {flight: {}, actor: {T_world_room: {p_m: [4, 0, 0], ypr_deg: [120, 0, 0]}}}
sources:
  flight: {type: optitrack, room: flight, server: 127.0.0.1, command_port: 31510, data_port: 31511}
  actor: {type: optitrack, room: actor, server: 127.0.0.1, command_port: 31520, data_port: 31521}
actors:
  drone: {kind: vehicle, source: flight, subject: drone}
  human: {kind: human, source: actor, subject: Actor}
renderers: {hall: {type: flightgoggles, pose_port: 31001, image_port: 31002}}
cameras:
%s
stream: {bind: "tcp://127.0.0.1:31600"}
http: {port: 31080}
realtime: {fifo_priority: 0}
"""
_CAMERA: Final = "  %s: {actor: drone, renderer: hall, width_px: 32, height_px: 24, rate_hz: 10}"
_SERVERS: Final = ("flight@31510,31511", "actor@31520,31521")
_ROOM_HZ: Final = 60.0
_STAMPS: Final = ("capture", "arrival", "request", "image", "warp", "encode", "send")
_SETTLED_S: Final = 3.0
"""Files and threads are those of a running bridge from then on."""
_FARTHEST_M: Final = 0.1
"""Greatest distance of a measured pose from the true one at the same instant."""


class World:
    """A bridge and what is around it, the trace that they leave and what is wrong with it.

    Attributes:
        trace: lines of the bridge's events and of the headers of pictures, in their order.
        failures: what did not hold, a line each.
        pictures: number received, of each camera.
    """

    def __init__(self, seed: int) -> None:
        self.trace: list[str] = []
        self.failures: list[str] = []
        self.pictures: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._slowest_picture_s = self._random.choice((0.005, 0.03, 0.2))
        self._visits = 0
        self._stop = threading.Event()
        self._last_t_ns = dict.fromkeys(_CAMERAS, 0)
        self._epoch_ns = time.monotonic_ns()
        self._truth = Scenario.simulated().vehicle

    async def run(self, seconds: float) -> None:
        """Run for so many seconds of the machine's time. Raises what a part of it raises."""
        cameras = "\n".join(_CAMERA % name for name in _CAMERAS)
        bridge = Bridge(load_text(_CONFIG % cameras, "world.yaml", resolve=registry.resolve))
        events = _Events(self.trace)
        logging.getLogger("vil_bridge").addHandler(events)
        motions = LabMotions.simulated()
        slower = LabMotions(RoomMotion(motions.flight.motion, _ROOM_HZ), motions.actor, None)
        servers = tuple(replace(ServerSpec.parse("motive", text), faults=self._faults()) for text in _SERVERS)
        tasks = [
            asyncio.create_task(run_lab(slower, LabConfig(servers=servers, epoch_ns=self._epoch_ns)), name="lab"),
            asyncio.create_task(bridge.run(), name="bridge"),
            asyncio.create_task(self._visit(), name="visitor"),
        ]
        threads = [threading.Thread(target=serve, args=(self._drawn, _renderer(), self._stop), daemon=True)]
        threads += [threading.Thread(target=self._read, args=(name,), daemon=True) for name in _CAMERAS]
        for thread in threads:
            thread.start()
        await asyncio.sleep(_SETTLED_S)
        settled = _held()
        await asyncio.sleep(seconds - _SETTLED_S)
        held = _held()
        logging.getLogger("vil_bridge").removeHandler(events)
        self._stop.set()
        self._check_end(seconds, settled, held)
        for thread in threads:
            await asyncio.to_thread(thread.join)
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    # --- what goes wrong -----------------------------------------------------------------------

    def _faults(self) -> Faults:
        """Draw what goes wrong with a server."""
        chance = self._random
        texts = [
            f"loss={chance.choice((0, 1, 4))}%",
            f"jitter={chance.choice((0, 1, 4))}ms",
            f"reorder={chance.choice((0, 1))}%",
            f"duplicate={chance.choice((0, 1))}%",
        ]
        episodes = ("halfopen=2s", "burst=500ms", "restart=1s", "drift=50ppm", "step=100ms")
        episode = chance.choice((*episodes, ""))
        at_s = chance.randrange(5, 40)
        if episode.startswith("drift"):
            texts.append(episode)
        elif episode:
            texts.append(f"{episode}@{at_s}s")
        return Faults.parse(",".join([*texts, f"seed={chance.randrange(1 << 30)}"]))

    def _drawn(self, views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        """Draw noise, which takes a while that differs from picture to picture."""
        time.sleep(self._random.uniform(0.001, self._slowest_picture_s))
        images = tuple(RenderedImage(view, self._noise(view)) for view in views if view.due)
        return RenderedRequest(images, info={"renderer": "virtual"})

    def _noise(self, view: View) -> ImageArray:
        shape = view.camera.height_px, view.camera.width_px, 3
        return np.frombuffer(self._random.randbytes(math.prod(shape)), np.uint8).reshape(shape)

    # --- what is looked at ---------------------------------------------------------------------

    def _read(self, camera: str) -> None:
        """Read a camera's pictures as an onboard computer does."""
        with client.Receiver("tcp://127.0.0.1:31600", camera) as receiver:
            while not self._stop.is_set():
                frame = receiver.next(timeout=0.2)
                if frame is not None and not self._stop.is_set():
                    self.pictures[camera] += 1
                    self.trace.append(json.dumps(frame.metadata, sort_keys=True))
                    self._check(camera, frame.metadata)

    def _check(self, camera: str, header: Mapping[str, Any]) -> None:
        """Check one header: its instants, and its pose against the true motion."""
        now_ns = time.monotonic_ns()
        shown_ns = header["t_display_ns"]
        if shown_ns <= self._last_t_ns[camera]:
            self._fail(f"{camera}: a picture of {shown_ns} comes after one of {self._last_t_ns[camera]}")
        self._last_t_ns[camera] = shown_ns
        stamps = [header["stamps_ns"][name] for name in _STAMPS]
        if any(before > after for before, after in zip(stamps, [*stamps[1:], now_ns], strict=True)):
            self._fail(f"{camera}: stamps go back: {header['stamps_ns']}, read at {now_ns}")
        measured = (header["motion"] or {}).get("measured")
        if measured is None or header["tracking"] != "tracked":
            return
        if measured["t_ns"] > now_ns:
            self._fail(f"{camera}: a pose of the future: {measured['t_ns']}, read at {now_ns}")
        truth = self._truth.truth(measured["t_ns"] - self._epoch_ns)
        if truth is not None and np.linalg.norm(truth.p_m - measured["p_m"]) > _FARTHEST_M:
            self._fail(f"{camera}: measured at {measured['p_m']}, the vehicle was at {truth.p_m.tolist()}")

    def _check_end(self, seconds: float, settled: tuple[int, int], held: tuple[int, int]) -> None:
        if self._visits < seconds - _SETTLED_S:
            self._fail(f"/readyz answered {self._visits} times in {seconds} s")
        for camera in _CAMERAS:
            if not self.pictures[camera]:
                self._fail(f"{camera}: no picture came")
        for what, before, after in zip(("descriptors", "threads"), settled, held, strict=True):
            if after > before + 2:
                self._fail(f"{what} grow: {before} after {_SETTLED_S} s, {after} at the end")

    async def _visit(self) -> None:
        """Ask for the state each second, as a monitor does."""
        while True:
            await asyncio.sleep(1.0)
            reader, writer = await asyncio.open_connection("127.0.0.1", _HTTP_PORT)
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answer = (await reader.read()).decode()
            writer.close()
            self._visits += 1
            if answer.split()[1] not in ("200", "503"):
                self._fail(f"/readyz answers {answer[:200]!r}")

    def _fail(self, text: str) -> None:
        self.failures.append(f"{(time.monotonic_ns() - self._epoch_ns) / 1e9:.3f} s: {text}")


class _Events(logging.Handler):
    """Writes the bridge's events into the trace."""

    def __init__(self, trace: list[str]) -> None:
        super().__init__(logging.INFO)
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        self._trace.append(f"{time.monotonic_ns()} {record.name} {record.getMessage()}")


def _renderer() -> FlightGogglesServerConfig:
    return FlightGogglesServerConfig(pose_port=31001, image_port=31002)


def _held() -> tuple[int, int]:
    """Return how many descriptors and threads this process has."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
