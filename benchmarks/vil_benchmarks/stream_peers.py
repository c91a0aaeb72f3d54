"""The processes of `vil-bridge bench stream`; each is the target of a child process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import zmq

from vil_adapters.lab.link import LinkEmulator, LinkSpec
from vil_adapters.motions.drone import BRISK, DroneMotion
from vil_benchmarks import peers
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import (
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    SourceFrame,
    View,
)

if TYPE_CHECKING:
    from vil_bridge.daemon.bridge import Bridge

_POLL_MS: Final = 50
_LOOK_S: Final = 0.002
_TAKEN_WITHIN_S: Final = 0.1


def fed_bridge(conn: Connection, config_path: Path, period_s: float) -> None:
    """Run the whole daemon, its first camera fed from within as fast as its pictures leave.

    Report CPU by thread.

    ``period_s`` is the least time between two of them.
    """
    peers.bridge(conn, config_path, partial(_fed, period_s))


@contextlib.contextmanager
def _fed(period_s: float, bridge: Bridge) -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=_feed, args=(bridge, period_s, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _feed(bridge: Bridge, period_s: float, over: threading.Event) -> None:
    """Offer frames of a flying drone's camera.

    One always waits while the relay works on the one before it.
    """
    path = next(iter(bridge.context.cameras.values()))
    camera = path.camera
    subjects = ("drone",)
    tracked = np.ones(1, dtype=np.bool_)
    model = camera.geometry.rendered
    pictures = itertools.cycle(peers.pictures(model.width_px, model.height_px))
    flight = DroneMotion(path=BRISK)
    epoch_ns = now_ns()
    for number in itertools.count():
        begun_s = time.monotonic()
        t_ns = now_ns()
        pose = flight.truth(t_ns - epoch_ns)
        bridge.context.world.ingest(
            SourceFrame(
                "motive", number, None, t_ns, subjects, pose.p_m[None], pose.q_xyzw[None], tracked
            )
        )
        shown = camera.pose_to_render(bridge.context.world, t_ns, camera.delay.value_ns)
        view = View(model, Modality.RGB, shown.T_world_camera, shown.t_ns)
        request = RenderRequest(
            t_ns, t_ns, (view,), bridge.context.world.snapshot(t_ns), t_ns, t_ns
        )
        path.relay.offer(RenderedFrame(request, now_ns(), (RenderedImage(view, next(pictures)),)))
        while path.relay.due_ns is not None and time.monotonic() < begun_s + _TAKEN_WITHIN_S:
            if over.wait(_LOOK_S):
                return
        if over.wait(max(0.0, begun_s + period_s - time.monotonic())):
            return


def links(conn: Connection, *specs: str) -> None:
    """Run bad links, written as for ``vil-bridge lab link``."""

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for spec in specs:
                await stack.enter_async_context(LinkEmulator(LinkSpec.parse(spec)))
            conn.send("ready")
            await asyncio.to_thread(conn.recv)

    asyncio.run(run())


def reader(
    conn: Connection, endpoint: str, color: str, variant: str, encoding: str, transport: str = "tcp"
) -> None:
    """Run the onboard client.

    Announce the first picture, report [(t_request_ns, t_image_ns, t_delivered_ns)].
    """
    from vil_bridge.client import Receiver

    seen: list[tuple[int, int, int]] = []
    with Receiver(
        endpoint, "front", color=color, variant=variant, encoding=encoding, transport=transport
    ) as receiver:
        while not conn.poll():
            frame = receiver.next(timeout=1e-3 * _POLL_MS)
            if frame is not None:
                if not seen:
                    conn.send(receiver.transport)
                seen.append((frame.stamps["request"], frame.stamps["image"], now_ns()))
    conn.send(seen)


def plain_publisher(conn: Connection, port: int, size_bytes: int, rate_hz: float) -> None:
    """Publish by a PUB socket with default options, a high-water mark of a thousand messages
    included.
    """
    context = zmq.Context()
    pictures = context.socket(zmq.PUB)
    pictures.bind(f"tcp://127.0.0.1:{port}")
    payload = bytes(size_bytes)
    due_s = time.monotonic()
    while not conn.poll(max(0.0, due_s - time.monotonic())):
        due_s += 1.0 / rate_hz
        pictures.send_multipart([now_ns().to_bytes(8, "little"), payload], copy=False)
    context.destroy(linger=0)


def plain_reader(conn: Connection, endpoint: str) -> None:
    """Read the plain publisher; announce the first picture, report [(t_send_ns, t_receive_ns)]."""
    context = zmq.Context()
    pictures = context.socket(zmq.SUB)
    pictures.subscribe(b"")
    pictures.connect(endpoint)
    received: list[tuple[int, int]] = []
    while not conn.poll():
        if pictures.poll(_POLL_MS):
            stamp = pictures.recv_multipart(copy=False)[0].bytes
            if not received:
                conn.send("ready")
            received.append((int.from_bytes(stamp, "little"), now_ns()))
    conn.send(received)
    context.destroy(linger=0)
