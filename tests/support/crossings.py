"""Product files that a pose and a picture pass through: ``python -m tests.support.crossings``.

A running bridge gets poses from an emulated Motive over loopback, and pictures of a fixed camera
from a function that draws; a client reads them raw. Counted are the files of the product in which a
Python function is called

- between the receive of a mocap datagram and the end of the world's ingest of its frame,
- between the arrival of a picture from the renderer and its send to a registered reader,

with ``sys.setprofile`` in every thread. Of all frames in the measured time, the one with the median
count is shown.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from types import FrameType
from typing import Any, Final, NamedTuple

from tests.support.bridge_rig import build, running
from tests.support.common import ROOT
from tests.support.events import until
from tests.support.flightgoggles import ports, server
from tests.support.packages import PRODUCT, relative_module
from tests.support.truth_rig import LabMotion, Painter
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_bridge.client import Receiver
from vil_bridge.core.clock import now_ns
from vil_renderer.flightgoggles.client import FlightGogglesClient

__all__ = ["Crossing", "measured"]

_PRODUCT: Final = tuple(f"{ROOT}/{part}/" for part in PRODUCT)
_CONFIG: Final = """
version: 1
rooms: {flight: {}}
sources: {motive: {type: optitrack, room: flight, server: 127.0.0.1, command_port: %d}}
actors: {drone: {kind: vehicle, source: motive, subject: cf1},
    other: {kind: prop, source: motive, subject: gate}}
renderers: {hall: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {renderer: hall, width_px: 64, height_px: 48, rate_hz: 10,
    latency_compensation: none}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""
_SENDS: Final = "record_send"  # by the ledger, just before the socket's send
_WARM_UP_S: Final = 1.0
_PICTURES: Final = 20
_KERNEL_STREAM: Final = "optitrack/compiled_stream.py"
_LIMITS: Final = {"pose": 16, "picture": 25}


class _Event(NamedTuple):
    """A call or a return in one thread; ``kind`` as ``sys.setprofile`` has it."""

    thread: int
    kind: str
    file: str
    function: str


class Crossing(NamedTuple):
    """Calls by product file, from the receive to the send of one pose or picture."""

    calls: Counter[str]


class _Profile:
    """Recorder of calls in all threads that start after it."""

    def __init__(self) -> None:
        self.events: list[_Event] = []
        self.records = False

    def __call__(self, frame: FrameType, kind: str, arg: Any) -> None:
        if not self.records:
            return
        code = frame.f_code
        function = arg.__name__ if kind.startswith("c_") else code.co_name
        self.events.append(_Event(threading.get_ident(), kind, code.co_filename, function))

    def install(self) -> None:
        """Profile this thread and those that start from now on."""
        threading.setprofile(self)
        sys.setprofile(self)

    def remove(self) -> None:
        """Stop profiling this thread, and recording in the others."""
        self.records = False
        threading.setprofile(None)
        sys.setprofile(None)


def _poses(events: list[_Event], loop: int) -> Iterator[Counter[str]]:
    """Yield the calls of each frame.

    From its receive, in the kernel or by ``recvfrom``, to the end of the ingest.
    """
    calls: Counter[str] | None = None
    for event in events:
        if event.thread != loop:
            continue
        if (event.kind, event.function) == ("c_return", "recvfrom"):
            calls = Counter()
        elif (
            event.kind == "call"
            and event.function == "receive"
            and event.file.endswith(_KERNEL_STREAM)
        ):
            calls = Counter({event.file: 1})
        elif calls is not None and event.kind == "call":
            calls[event.file] += 1
        elif calls is not None and event.kind == "return" and event.function == "ingest":
            if calls[event.file] and any(name.endswith("world/tracks.py") for name in calls):
                yield calls
            calls = None


def _pictures(events: list[_Event]) -> Iterator[Counter[str]]:
    """Yield the calls of each picture.

    From the receive in the connection's thread to the send in the relay's.
    """
    for end, event in enumerate(events):
        if (event.kind, event.function) != ("call", _SENDS):
            continue
        taken = _last(events, end, "renderer_load.py", "add")
        begin = _last(events, taken, "client.py", "receive")
        if begin < 0 or any(e.function == _SENDS for e in events[taken:end]):
            continue
        threads = {events[taken].thread, event.thread}
        yield Counter(e.file for e in events[begin:end] if e.kind == "call" and e.thread in threads)


def _last(events: list[_Event], before: int, file: str, function: str) -> int:
    """Return the index of the last call of a function before an index, -1 if there is none."""
    for index in range(before - 1, -1, -1):
        event = events[index]
        if event.kind == "call" and event.function == function and event.file.endswith(file):
            return index
    return -1


def _median(crossings: Iterator[Counter[str]]) -> Crossing:
    ours = [
        Counter({_short(f): n for f, n in calls.items() if f.startswith(_PRODUCT)})
        for calls in crossings
    ]
    return Crossing(sorted(ours, key=len)[len(ours) // 2])


def _short(file: str) -> str:
    return relative_module(file.removeprefix(f"{ROOT}/"))


async def _measured() -> dict[str, Crossing]:
    profile = _Profile()
    profile.install()
    try:
        async with AsyncExitStack() as stack:
            emulated = MotiveEmulatorConfig(command_port=0, data_port=0, rate_hz=50.0)
            motive = await stack.enter_async_context(
                MotiveEmulator(emulated, LabMotion(), now_ns())
            )
            bridge = build(_CONFIG % motive.command_port)
            (client,) = bridge.context.pool.renderers.values()
            assert isinstance(client, FlightGogglesClient)
            stack.enter_context(server(ports(client), Painter().draw))
            await stack.enter_async_context(running(bridge))
            with Receiver(
                bridge.context.hub.endpoint, "front", variant="raw", encoding="raw"
            ) as receiver:
                await until(lambda: receiver.next(0.0) is not None)
                await asyncio.sleep(_WARM_UP_S)
                profile.records = True
                for _ in range(_PICTURES):
                    await until(lambda: receiver.next(0.0) is not None)
                profile.records = False
    finally:
        profile.remove()
    events = profile.events
    return {
        "pose": _median(_poses(events, threading.get_ident())),
        "picture": _median(_pictures(events)),
    }


def measured() -> dict[str, Crossing]:
    """Return the crossings of a pose and of a picture."""
    return asyncio.run(_measured())


def main() -> int:
    """Print the files and the counts; 1 where there are more files than allowed."""
    too_many = False
    for name, crossing in measured().items():
        print(
            f"{name}: {len(crossing.calls)} files, {crossing.calls.total()} calls (at "
            f"most {_LIMITS[name]} files)"
        )
        for file, calls in sorted(crossing.calls.items()):
            print(f"  {calls:4} {file}")
        too_many |= len(crossing.calls) > _LIMITS[name]
    return int(too_many)


if __name__ == "__main__":
    sys.exit(main())
