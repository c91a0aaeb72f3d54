"""Faults of the product that are planted on purpose, to show that the virtual world's checks
find them.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.virtual.machine import replace, set_clock_of

__all__ = ["PLANTED", "SECONDS", "SEED"]


def _wall_clock() -> None:
    """Stamp arrivals with the wall clock."""
    from vil_adapters.optitrack import sockets
    from vil_bridge.kernel.library import KERNEL

    replace(sockets, now_ns=time.time_ns)
    if KERNEL is not None:
        set_clock_of(KERNEL, time.time_ns)


def _mirrored_room() -> None:
    """Take one of the streamed axes the other way."""
    from vil_adapters.optitrack import convert

    original = vars(convert)["pose_matrix"]

    def mirrored(scale_m: float, up_axis: Any) -> Any:
        matrix = original(scale_m, up_axis)
        matrix[:3, 0] *= -1.0
        return matrix

    replace(convert, pose_matrix=mirrored)


def _repeated_picture() -> None:
    """Hand a reader now and then the picture before once more, in place of the new one."""
    from vil_bridge import client

    original = client.Receiver._on_picture
    held: dict[int, tuple[dict[str, Any], Any, int]] = {}

    def repeating(self: Any, header: dict[str, Any], payload: Any, t_received_ns: int) -> None:
        before = held.get(id(self))
        held[id(self)] = header, payload, t_received_ns
        if before is not None and header["t_display_ns"] % 7 == 0:
            self._last_t_ns = self._last_t_bridge_ns = self._handed_t_ns = -(1 << 63)
            original(self, *before)
        else:
            original(self, header, payload, t_received_ns)

    replace(client.Receiver, _on_picture=repeating)


def _held_descriptor() -> None:
    """Keep a duplicate of each connection of the pages."""
    original = socket.socket.accept
    held: list[Any] = []

    def accept(self: Any) -> Any:
        connection, address = original(self)
        held.append(connection.dup())
        return connection, address

    replace(socket.socket, accept=accept)


def _leaked_reader() -> None:
    """Let readers that have gone stay among those of their camera."""
    from vil_bridge.outputs.stream import zmq_sink

    replace(zmq_sink.ZmqStreamSink, detach=lambda _self, _subscriber: None)


def _reversed_queue() -> None:
    """Write the events that wait for the recorder in the wrong order."""
    from vil_bridge.recording import write_queue

    queue: Any = vars(write_queue)["BoundedQueue"]
    original = queue.drain
    replace(queue, drain=lambda self: reversed(list(original(self))))


def _lost_wakeup() -> None:
    """Lose the wake-up of a camera's ticker after some time."""
    from vil_bridge.core import clock

    original = clock.Ticker._fire
    fired: dict[int, int] = {}

    def fire(self: Any, expirations: int) -> None:
        owner = type(getattr(self._on_tick, "__self__", None)).__name__
        fired[id(self)] = fired.get(id(self), 0) + 1
        if owner != "Scheduler" or fired[id(self)] < 30:
            original(self, expirations)

    replace(clock.Ticker, _fire=fire)


def _doubled_frames() -> None:
    """Hand each event on twice."""
    from vil_bridge.daemon import sources

    original = sources.SourceRunner.into_world

    def twice(self: Any, event: Any) -> None:
        original(self, event)
        original(self, event)

    replace(sources.SourceRunner, into_world=twice)


def _mixed_cameras() -> None:
    """Give the readers of one camera the pictures of another."""
    from vil_bridge.outputs.stream import hub

    original = hub.StreamHub.add_camera

    def add(self: Any, sink: Any, info: Any, wake: Any) -> None:
        original(self, sink, info, wake)
        if {"left", "right"} <= self._cameras.keys():
            self._cameras["left"] = self._cameras["right"]

    replace(hub.StreamHub, add_camera=add)


def _always_ready() -> None:
    """Say that the bridge is ready, whatever it is."""
    from vil_bridge.daemon import readiness

    replace(readiness.Readiness, reasons=lambda _self: ())


SEED: Final = 7
SECONDS: Final = 14.0
"""The world of this seed finds each fault within that time, and nothing where none is planted."""
PLANTED: Final[Mapping[str, Callable[[], None]]] = {
    "wall clock": _wall_clock,
    "mirrored room": _mirrored_room,
    "repeated picture": _repeated_picture,
    "held descriptor": _held_descriptor,
    "leaked reader": _leaked_reader,
    "reversed queue": _reversed_queue,
    "lost wake-up": _lost_wakeup,
    "doubled frames": _doubled_frames,
    "mixed cameras": _mixed_cameras,
    "always ready": _always_ready,
}
"""By name; each is called once the product is imported."""
