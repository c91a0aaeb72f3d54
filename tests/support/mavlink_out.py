"""Help for the tests of the pose output.

A world in which a drone circles, and its autopilot by pymavlink.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import numpy as np
from pymavlink.dialects.v20 import common as reference

from tests.support.world import frame, vehicle
from vil_bridge.core.clock import Ticker, now_ns
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import FloatArray, SourceReset
from vil_bridge.interfaces.ports import Output
from vil_bridge.outputs.mavlink.config import MavlinkPoseConfig
from vil_bridge.registry import create
from vil_bridge.world.world import World

PERIOD_NS = 8_000_000
RADIUS_M = 1.5
TURN_RADPS = 1.0


class Flight:
    """A drone on a circle, nose along the way, seen at 125 Hz by a mocap system.

    The room is the world.
    """

    def __init__(self) -> None:
        self.world = World({"mocap": Transform.identity()}, [vehicle()])
        self.shift_m = np.zeros(3)
        self.seen = True
        self.epoch_ns = now_ns()

    def truth(self, t_ns: int) -> tuple[Transform, FloatArray]:
        """Pose, and velocity in the world."""
        angle = TURN_RADPS * (t_ns - self.epoch_ns) * 1e-9
        c, s = math.cos(angle), math.sin(angle)
        p_m = np.array([RADIUS_M * c, RADIUS_M * s, 1.2]) + self.shift_m
        v_mps = RADIUS_M * TURN_RADPS * np.array([-s, c, 0.0])
        return Transform(p_m, q_from_euler_zyx(angle + math.pi / 2, 0.0, 0.0)), v_mps

    def jump(self) -> None:
        """The mocap system restarts with another origin."""
        self.shift_m = self.shift_m + np.array([5.0, 0.0, 0.0])
        self.world.ingest(SourceReset("mocap", "restarted"))

    def _look(self, due_ns: int, missed: int) -> None:
        """Hand over the pictures since the last call.

        A busy machine makes them late, but leaves none out.
        """
        for t_ns in range(due_ns - missed * PERIOD_NS, due_ns + 1, PERIOD_NS):
            if self.seen:
                self.world.ingest(frame(t_ns, {"drone": self.truth(t_ns)[0]}))

    @contextmanager
    def filmed(self) -> Iterator[None]:
        ticker = Ticker(PERIOD_NS, self._look)
        ticker.start()
        try:
            yield
        finally:
            ticker.stop()


class UdpAutopilot:
    """One side of a UDP link, spoken to by the reference implementation."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._peer: tuple[str, int] | None = None
        self._mav = reference.MAVLink(self, srcSystem=1, srcComponent=1)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._on_readable)

    def __enter__(self) -> UdpAutopilot:
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()

    def write(self, data: bytes) -> None:
        assert self._peer is not None
        self._socket.sendto(bytes(data), self._peer)

    def send(self, message: Any) -> None:
        self._mav.send(message)

    def heartbeat(self) -> None:
        self.send(reference.MAVLink_heartbeat_message(2, 12, 0, 0, 4, 3))

    def of(self, name: str) -> list[Any]:
        return [message for message in self.heard if message.get_type() == name]

    def _on_readable(self) -> None:
        data, self._peer = self._socket.recvfrom(2048)
        self.heard += self._mav.parse_buffer(data) or []


def pose_output(**keys: Any) -> Output:
    output = create(
        "outputs",
        "fc",
        MavlinkPoseConfig(actors=("drone",), **{"port": 0, "rate_hz": 100.0} | keys),
    )
    assert isinstance(output, Output)
    return output


@asynccontextmanager
async def telling(flight: Flight, **keys: Any) -> AsyncIterator[Output]:
    """The output at work."""
    output = pose_output(**keys)
    task = asyncio.create_task(output.run(flight.world))
    try:
        with flight.filmed():
            yield output
            if task.done():
                task.result()
    finally:
        task.cancel()
        await asyncio.wait((task,))
        output.close()
