"""A bridge with an emulated Motive, a renderer and one reader, on real sockets.

Each of them can be made to fail.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.support.bridge_rig import running
from tests.support.flightgoggles import ports, server
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_bridge.client import Receiver
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.core.types import (
    ImageArray,
    MotionFrame,
    RenderedImage,
    SkeletonModel,
    View,
    WorldSnapshot,
)
from vil_bridge.daemon.bridge import Bridge
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.server import RenderedRequest

LIMIT_S: Final = 180.0
"""For what must come sooner or later on a busy machine."""
TIMEOUT_S: Final = 0.3
"""Of the reader."""
_PAUSE_S: Final = 0.1
"""Between two looks, each of which asks the bridge three times."""

CONFIG = """
version: 1
name: truth
rooms: {flight: {}}
sources: {motive: {type: optitrack, room: flight, server: 127.0.0.1, command_port: %(port)d,
    %(source)s}}
actors:
  drone: {kind: vehicle, source: motive, subject: cf1}
  other: {kind: prop, source: motive, subject: gate}
renderers: {hall: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras:
  front: {actor: drone, renderer: hall, width_px: 64, height_px: 48, rate_hz: 30,
      latency_compensation: none,
          %(camera)s}
outputs: {mirror: {type: natnet, command_port: 0, data_port: 0}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
record: {folder: "%(folder)s"}
realtime: {fifo_priority: 0}
"""


class LabMotion:
    """Two bodies, of which the first sways and turns unless it is told otherwise.

    Poses carry noise.

    Attributes:
        frozen: poses repeat to the bit. rests: the bodies stand still, with noise.
        unseen: names of bodies that are not tracked.
    """

    subjects = ("cf1", "gate")
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def __init__(self) -> None:
        self.frozen = self.rests = False
        self.unseen: set[str] = set()
        self._noise = np.random.default_rng(1)
        self._newest: MotionFrame | None = None

    def at(self, t_ns: int) -> MotionFrame:
        """The bodies at one instant."""
        if self.frozen and self._newest is not None:
            return self._newest
        t_s = 0.0 if self.rests else 1e-9 * t_ns
        p_m = np.array([[math.sin(t_s), math.cos(t_s), 1.5], [2.0, 0.0, 1.0]]) + self._noise.normal(
            0.0, 5e-5, (2, 3)
        )
        yaw, tilt = math.sin(t_s), self._noise.normal(0.0, 1e-4, (2, 2))
        q = np.array([q_from_euler_zyx(yaw, *tilt[0]), q_from_euler_zyx(0.0, *tilt[1])])
        tracked = np.array([name not in self.unseen for name in self.subjects], dtype=np.bool_)
        self._newest = MotionFrame(self.subjects, p_m, q, tracked)
        return self._newest


class Painter:
    """Noise that the renderer draws, which differs from picture to picture.

    Attributes:
        in_turn: it repeats its last pictures, so many in turn; 0 = it draws. delay_s: it takes so
            long for each.
    """

    def __init__(self) -> None:
        self.in_turn = 0
        self.delay_s = 0.0
        self._random = np.random.default_rng(2)
        self._newest: deque[ImageArray] = deque(maxlen=3)

    def draw(self, views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        """The pictures of a request."""
        time.sleep(self.delay_s)
        if self.in_turn and len(self._newest) == self._newest.maxlen:
            picture = self._newest[-self.in_turn]
        else:
            picture = self._random.integers(0, 256, (48, 64, 3), np.uint8)
        self._newest.append(picture)
        return RenderedRequest(tuple(RenderedImage(view, picture) for view in views if view.due))


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that a vehicle and a person can read at one moment."""

    alive: bool
    problem: str
    readyz: int
    reasons: tuple[str, ...]
    degraded: tuple[str, ...]
    status: dict[str, Any]
    metrics: dict[str, float]

    def words(self) -> str:
        """Return what decides, for a failure."""
        sources = {name: source["report"] for name, source in self.status["sources"].items()}
        judged = (
            f"alive {self.alive} {self.problem!r}, {self.readyz} {self.reasons}, {self.degraded}"
        )
        return f"{judged}, modes {self.status['modes']}, {sources}, {self.camera}"

    @property
    def camera(self) -> dict[str, Any]:
        """The status of the camera ``front``."""
        found: dict[str, Any] = self.status["cameras"]["front"]
        return found


def _ask(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode()


async def seen_of(bridge: Bridge, receiver: Receiver) -> Seen:
    """Return everything that a bridge and one of its readers say now, over HTTP."""
    code, ready = await asyncio.to_thread(_ask, f"{bridge.http.url}readyz")
    _, status = await asyncio.to_thread(_ask, f"{bridge.http.url}api/v1/status")
    _, metrics = await asyncio.to_thread(_ask, f"{bridge.http.url}metrics")
    samples = (line.rpartition(" ") for line in metrics.splitlines() if line.startswith("vil_"))
    return Seen(
        receiver.alive,
        receiver.problem,
        code,
        tuple(json.loads(ready)["not_ready_because"]),
        tuple(json.loads(ready)["degraded_because"]),
        json.loads(status),
        {name: float(value) for name, _, value in samples},
    )


class TruthRig:
    """The parts, running; ``motion`` and ``painter`` say what they do."""

    def __init__(
        self, bridge: Bridge, motive: MotiveEmulator, motion: LabMotion, painter: Painter
    ) -> None:
        self.bridge, self.motive, self.motion, self.painter = bridge, motive, motion, painter
        self._renderer = ExitStack()
        self._reader = threading.Event()
        self.receiver = Receiver(
            bridge.context.hub.endpoint, "front", variant="raw", timeout_s=TIMEOUT_S
        )

    async def start_renderer(self) -> None:
        """Start the renderer."""
        client = self.bridge.context.pool.renderers["hall"]
        assert isinstance(client, FlightGogglesClient)
        self._renderer.enter_context(server(ports(client), self.painter.draw))

    async def stop_renderer(self) -> None:
        """End the renderer."""
        await asyncio.to_thread(self._renderer.close)  # which waits for its thread

    async def close(self) -> None:
        """End reader and renderer."""
        await asyncio.to_thread(self.receiver.close)
        await self.stop_renderer()

    async def get(self, path: str) -> tuple[int, str]:
        """Answer of the bridge's HTTP server: status and text."""
        return await asyncio.to_thread(_ask, f"{self.bridge.http.url}{path}")

    async def seen(self) -> Seen:
        """Everything as of now."""
        return await seen_of(self.bridge, self.receiver)

    async def until(self, holds: Callable[[Seen], object]) -> tuple[Seen, float]:
        """Wait until something holds; what was seen, and the seconds."""
        begun_s = time.monotonic()
        while not holds(now := await self.seen()):
            assert time.monotonic() - begun_s < LIMIT_S, now.words()
            await asyncio.sleep(_PAUSE_S)
        return now, time.monotonic() - begun_s

    async def well(self) -> Seen:
        """Wait until everything works."""
        return (await self.until(lambda s: s.alive and s.readyz == 200 and not s.problem))[0]

    async def log(self, after: int = 0) -> list[dict[str, Any]]:
        """Events after one of that id."""
        events: list[dict[str, Any]] = json.loads((await self.get(f"api/v1/log?after={after}"))[1])
        return events

    async def last_event(self) -> int:
        """Id of the newest event."""
        return max((event["id"] for event in await self.log()), default=0)

    async def logged(
        self, after: int, component: str, text: str, level: str, *, before: bool = False
    ) -> dict[str, Any]:
        """Wait for an event of a component with that text.

        With ``before``, the newest one of the component may be older than ``after``: on a busy
        machine a state may hold already when the test brings it about, and is not logged again.
        """
        begun_s = time.monotonic()
        while True:
            events = [event for event in await self.log() if event["component"] == component]
            newest = events[-1:] if before else []
            for event in [*(event for event in events if event["id"] > after), *newest]:
                if text in event["text"] and event["level"] == level:
                    return event
            assert time.monotonic() - begun_s < LIMIT_S, (component, text, level, events)
            await asyncio.sleep(_PAUSE_S)


@asynccontextmanager
async def truth_rig(
    folder: Path, camera: str = "max_age_ms: 1000", source: str = "", *, ready: bool = True
) -> AsyncIterator[TruthRig]:
    """A bridge whose every part works, waited for if ``ready``.

    Keys of camera and source in YAML's flow style.
    """
    motion, painter = LabMotion(), Painter()
    emulated = MotiveEmulatorConfig(command_port=0, data_port=0, rate_hz=50.0)
    async with AsyncExitStack() as stack:
        ours = logging.getLogger("vil_bridge")
        stack.callback(ours.setLevel, ours.level)
        ours.setLevel(logging.INFO)  # as vil-bridge run does
        motive = await stack.enter_async_context(MotiveEmulator(emulated, motion, now_ns()))
        values = {
            "port": motive.command_port,
            "camera": camera,
            "source": source,
            "folder": folder / "recordings",
        }
        bridge = await stack.enter_async_context(running(CONFIG % values))
        rig = TruthRig(bridge, motive, motion, painter)
        stack.push_async_callback(rig.close)
        await rig.start_renderer()
        if ready:
            await rig.well()
        yield rig
