"""The processes around the bridge in a benchmark: renderers, readers and the bare relay.

Each is the target of a child process; it reports through its pipe and ends on request, or when the
pipe closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Final

import cv2
import numpy as np
import zmq

from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import ImageArray

if TYPE_CHECKING:
    from vil_bridge.daemon.bridge import Bridge

_POLL_MS: Final = 50
_PICTURES: Final = 16


def _payload(width_px: int, height_px: int) -> bytes:
    return textured(width_px, height_px).tobytes()


def textured(width_px: int, height_px: int) -> ImageArray:
    """Return a picture with shapes of all sizes, (h, w, 3) uint8, as hard for a JPEG encoder as
    a rendered hall.
    """
    rng = np.random.default_rng(1)
    picture = np.full((height_px, width_px, 3), 128.0)
    for cell_px, contrast in ((256, 60.0), (64, 40.0), (16, 25.0), (4, 16.0)):
        coarse = rng.normal(
            0.0, contrast, (-(-height_px // cell_px) + 1, -(-width_px // cell_px) + 1, 3)
        )
        picture += cv2.resize(coarse, (width_px, height_px), interpolation=cv2.INTER_CUBIC)
    pixels: ImageArray = np.clip(picture, 0.0, 255.0).astype(np.uint8)
    return pixels


def pictures(width_px: int, height_px: int) -> tuple[ImageArray, ...]:
    """Return pictures to be shown in turn.

    More than a bridge remembers, to which a renderer that repeats is frozen.
    """
    tall = textured(width_px, height_px + _PICTURES)
    return tuple(tall[n : n + height_px] for n in range(_PICTURES))


def standin_renderer(
    conn: Connection, pose_port: int, image_port: int, size_px: tuple[int, int], draw_s: float
) -> None:
    """Answer poses strictly in order, as v3 does, each after ``draw_s``.

    Report {ntime: t_send_ns}.
    """
    context = zmq.Context()
    poses = context.socket(zmq.SUB)
    images = context.socket(zmq.PUB)
    poses.subscribe(b"Pose")
    poses.connect(f"tcp://127.0.0.1:{pose_port}")
    images.connect(f"tcp://127.0.0.1:{image_port}")
    payloads = cycle([picture.tobytes() for picture in pictures(*size_px)])
    sent: dict[int, int] = {}
    while not conn.poll():
        if not poses.poll(_POLL_MS):
            continue
        pose = json.loads(poses.recv_multipart()[1])
        time.sleep(draw_s)
        ids = [c["ID"] for c in pose["cameras"]]
        header = {
            "ntime": pose["ntime"],
            "camWidth": size_px[0],
            "camHeight": size_px[1],
            "camDepthScale": 10.0,
            "cameraIDs": ids,
            "cameraIndexes": list(range(len(ids))),
            "channels": [3] * len(ids),
            "hasCameraCollision": False,
            "landmarksInView": [],
            "lidarReturn": 21.0,
        }
        sent[pose["ntime"]] = now_ns()
        images.send_multipart(
            [json.dumps(header).encode()] + [next(payloads)] * len(ids), copy=False
        )
    conn.send(sent)
    context.destroy(linger=0)


def bare_source(conn: Connection, port: int, size_px: tuple[int, int], rate_hz: float) -> None:
    """Publish numbered pictures at a rate; report {number: t_send_ns}."""
    context = zmq.Context()
    images = context.socket(zmq.PUB)
    images.connect(f"tcp://127.0.0.1:{port}")
    payload = _payload(*size_px)
    sent: dict[int, int] = {}
    due_s = time.monotonic()
    number = 0
    while not conn.poll(max(0.0, due_s - time.monotonic())):
        due_s += 1.0 / rate_hz
        number += 1
        sent[number] = now_ns()
        images.send_multipart([json.dumps({"ntime": number}).encode(), payload], copy=False)
    conn.send(sent)
    context.destroy(linger=0)


def bare_relay(conn: Connection, in_port: int, out_port: int) -> None:
    """Receive both parts and send them on, uncopied, as any relay must; report CPU by thread."""
    context = zmq.Context()
    source = context.socket(zmq.SUB)
    sink = context.socket(zmq.PUSH)
    source.subscribe(b"")
    source.bind(f"tcp://127.0.0.1:{in_port}")
    sink.bind(f"tcp://127.0.0.1:{out_port}")
    conn.send("ready")
    while True:
        if source.poll(_POLL_MS):
            sink.send_multipart(source.recv_multipart(copy=False), copy=False)
        if conn.poll():
            if conn.recv() == "stop":
                break
            conn.send(thread_cpu_ns())
    context.destroy(linger=0)


def bare_reader(conn: Connection, port: int) -> None:
    """Read the bare relay; report {number: t_receive_ns}."""
    context = zmq.Context()
    source = context.socket(zmq.PULL)
    source.connect(f"tcp://127.0.0.1:{port}")
    received: dict[int, int] = {}
    while not conn.poll():
        if source.poll(_POLL_MS):
            parts = source.recv_multipart(copy=False)
            received[json.loads(parts[0].bytes)["ntime"]] = now_ns()
    conn.send(received)
    context.destroy(linger=0)


def reader(conn: Connection, endpoint: str, camera: str) -> None:
    """Run the onboard client, raw RGB; report {frame_id: (t_request_ns, t_receive_ns)}."""
    from vil_bridge.client import Receiver

    received: dict[int, tuple[int, int]] = {}
    with Receiver(endpoint, camera, color="rgb", variant="raw", encoding="raw") as receiver:
        while not conn.poll():
            frame = receiver.next(timeout=0.05)
            if frame is not None:
                received[frame.frame_id] = (frame.stamps["request"], frame.stamps["received"])
    conn.send(received)


def bridge(
    conn: Connection,
    config_path: Path,
    companion: Callable[[Bridge], contextlib.AbstractContextManager[None]] = lambda _: (
        contextlib.nullcontext()
    ),
) -> None:
    """Run the whole daemon and ``companion`` for as long; report CPU by thread."""
    from vil_bridge import registry
    from vil_bridge.config.load import load
    from vil_bridge.daemon.bridge import Bridge

    whole = Bridge(load(config_path, env={}, resolve=registry.resolve))

    async def serve() -> None:
        running = asyncio.ensure_future(whole.run())

        def answer_orders() -> None:
            with companion(whole):
                conn.send("ready")
                while conn.recv() != "stop":
                    conn.send(thread_cpu_ns())

        await asyncio.to_thread(answer_orders)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(serve())


def thread_cpu_ns() -> dict[str, int]:
    """Return the CPU time of each thread of this process by ``name-tid``.

    The main thread is ``main``.
    """
    times = {}
    for task in Path("/proc/self/task").iterdir():
        name = (task / "comm").read_text().strip()
        own = (
            "main" if task.name == str(threading.main_thread().native_id) else f"{name}-{task.name}"
        )
        times[own] = int((task / "schedstat").read_text().split()[0])
    return times
