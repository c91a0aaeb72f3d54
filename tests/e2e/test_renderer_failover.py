"""Two cameras on two embedded renderers that are stopped, killed and started again while readers
watch.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Any, Final

import pytest

from tests.support.bridge_rig import running
from tests.support.common import Stopwatch
from tests.support.programs import Program, queued_s
from vil_bridge.client import Receiver
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.monitoring.snapshot import BridgeSnapshot

pytestmark = [pytest.mark.process, pytest.mark.gl]

PROMISED_S: Final = 2.0
"""From the death of a renderer to a new picture of each of its cameras."""
LOAD_S: Final = 300.0
RETURN_S: Final = 60.0

CONFIG = """
version: 1
renderers:
  left: {type: flightgoggles, pose_port: 0, image_port: 0}
  right: {type: flightgoggles, pose_port: 0, image_port: 0}
cameras:
  north: {renderer: %(north)s, width_px: 160, height_px: 120, rate_hz: 20,
      latency_compensation: none,
          T_body_camera: {p_m: [0, 0, 1.5]}}
  south: {renderer: %(south)s, width_px: 160, height_px: 120, rate_hz: 20,
      latency_compensation: none,
          T_body_camera: {p_m: [0, 0, 1.5], ypr_deg: [180, 0, 0]}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


class Reader:
    """Pictures of a camera that one onboard client receives."""

    def __init__(self, endpoint: str, camera: str) -> None:
        self.ids: list[int] = []
        self._newest_request_ns = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(endpoint, camera))
        self._thread.start()

    def shows(self, t_ns: int) -> bool:
        """True once a picture came that was asked for after an instant (bridge clock)."""
        return self._newest_request_ns > t_ns

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self, endpoint: str, camera: str) -> None:
        with Receiver(endpoint, camera, variant="raw") as receiver:
            while not self._stop.is_set():
                frame = receiver.next(0.1)
                if frame is not None:
                    self.ids.append(frame.frame_id)
                    # Ids are the bridge's times of the requests.
                    self._newest_request_ns = frame.frame_id


class Theatre:
    """A bridge in this process, two renderers in theirs, a reader per camera."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.children: dict[str, Program] = {}
        self.readers: dict[str, Reader] = {}

    def start(self, name: str) -> None:
        client: Any = self.bridge.context.pool.renderers[name]
        ports = ("-input-port", client.pose_port, "-output-port", client.image_port)
        command = (
            sys.executable,
            "-m",
            "vil_renderer.embedded.servers.main",
            "-scene",
            "empty",
            *ports,
        )
        self.children[name] = Program(*command)

    def send(self, name: str, number: signal.Signals) -> int:
        """Signal a renderer; the instant before."""
        t_ns = time.monotonic_ns()
        self.children[name].send_signal(number)
        if number is signal.SIGKILL:
            self.children[name].wait()
        return t_ns

    def read(self) -> None:
        self.readers = {
            camera: Reader(self.bridge.context.hub.endpoint, camera)
            for camera in self.bridge.context.cameras
        }

    def now(self) -> BridgeSnapshot:
        return self.bridge.snapshot()

    def assigned(self) -> dict[str, str]:
        return {
            name: f"{view.renderer}, {view.assigned}" for name, view in self.now().cameras.items()
        }

    def running(self, name: str) -> bool:
        return self.now().renderers[name].report.state == "running"

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> float:
        begun_s, stopwatch = time.monotonic(), Stopwatch()
        while not condition():
            assert time.monotonic() - begun_s < timeout_s, (
                self.assigned(),
                self.now().not_ready_because,
            )
            await asyncio.sleep(0.01)
            stopwatch.turn()
        return stopwatch.seconds

    async def pictures_since(self, t_ns: int) -> float:
        """Seconds from now until each camera has delivered a picture that was asked for after an
        instant.

        Those in which threads waited for a processor are not counted.
        """
        waited_s = queued_s(self._pids())
        took_s = await self.until(
            lambda: all(reader.shows(t_ns) for reader in self.readers.values()), LOAD_S
        )
        return took_s - (queued_s(self._pids()) - waited_s)

    def _pids(self) -> list[int]:
        return [child.pid for child in self.children.values()]

    def close(self) -> None:
        for reader in self.readers.values():
            reader.close()
        for child in self.children.values():
            child.kill()


@asynccontextmanager
async def theatre(**renderers: str) -> AsyncIterator[Theatre]:
    async with running(CONFIG % renderers) as bridge:
        made = Theatre(bridge)
        try:
            yield made
        finally:
            await asyncio.to_thread(made.close)


@pytest.mark.long
async def test_cameras_leave_a_stopped_or_killed_renderer_and_return(record_property: Any) -> None:
    async with theatre(north="auto", south="[right, left]") as it:
        await it.until(lambda: it.assigned()["south"] == "right, waits for right or left", LOAD_S)
        assert not it.now().ready
        for name in ("left", "right"):  # the first to run draws both, and south prefers the other
            it.start(name)
            await it.until(partial(it.running, name), LOAD_S)
        it.read()
        await it.until(
            lambda: it.assigned() == {"north": "left, load", "south": "right, preferred"}, LOAD_S
        )
        await it.pictures_since(time.monotonic_ns())

        stopped_s = await it.pictures_since(it.send("left", signal.SIGSTOP))
        moved = {"north": "right, fail-over from left", "south": "right, preferred"}
        await it.until(lambda: it.assigned() == moved and it.now().ready, LOAD_S)
        assert it.now().renderers["left"].report.state == "waiting"
        it.send("left", signal.SIGCONT)
        await it.until(lambda: it.running("left"), LOAD_S)

        # Now one renderer serves both cameras, and the other stands by.
        killed_s = await it.pictures_since(it.send("right", signal.SIGKILL))
        await it.until(
            lambda: set(it.assigned().values()) == {"left, fail-over from right"}, LOAD_S
        )
        await it.until(lambda: it.now().renderers["right"].pictures_hz == 0.0, RETURN_S)

        def serves_both() -> bool:
            now = it.now()
            left, right = now.renderers["left"], now.renderers["right"]
            works = (
                left.pictures_hz > 0.0
                and left.render_ms is not None
                and 0.0 < left.utilisation <= 1.0
            )
            return (
                works and left.cameras == ("north", "south") and right.cameras == () and now.ready
            )

        await it.until(serves_both, LOAD_S)

        it.start("right")
        await it.until(lambda: it.running("right"), LOAD_S)
        returned_s = await it.until(lambda: it.assigned()["south"] == "right, preferred", RETURN_S)
        await it.pictures_since(time.monotonic_ns())

        report = {"stopped_s": stopped_s, "killed_s": killed_s, "returned_s": returned_s}
        record_property("failover", report)
        print(report)
        assert max(stopped_s, killed_s) < PROMISED_S
        for reader in it.readers.values():
            assert len(reader.ids) > 10 and all(a < b for a, b in pairwise(reader.ids))
