"""`vil-bridge bench stream`.

What the image path costs, and how old pictures are behind a bad link.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from vil_benchmarks import peers, stream_peers
from vil_benchmarks.report import Row, percentile_row, ratio_row
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import DEPTH_UNITS_PER_M, CameraModel, FloatArray, ImageArray
from vil_bridge.pipeline.warp.compensator import Compensator
from vil_bridge.pipeline.warp.homography import homography, rotation_translation
from vil_bridge.protocols.image_codecs import as_gray
from vil_simulation.demo.child_processes import child, free_ports, stop_and_report

_CAMERA: Final = CameraModel("front", 1024, 768, math.radians(70.0))
_WARP_TURNS: Final = 60
_WARM_UP_TURNS: Final = 8
_PLANE_M: Final = 6.0

_WARM_UP_S: Final = 1.0
_PHASE_S: Final = 6.0

_AGED_HZ: Final = 30.0

_LINK: Final = "down.rate=15Mbit"
_THIN_PX: Final = (250, 150)  # 37.5 kB as raw gray: 18 Mbit/s at 60 Hz
_THIN_HZ: Final = 60.0
_OVERLOAD_S: Final = 15.0
_LINK_HOST: Final = "127.0.0.2"  # so that the link has the same ports as what lies behind it


def bench_stream() -> list[Row]:
    """Run all measurements; about a minute."""
    return [*warp_rows(), *sustained_rows(), *shm_rows(), *overload_rows()]


# --- the warp alone ----------------------------------------------------------------------------


def warp_rows(turns: int = _WARP_TURNS) -> list[Row]:
    """Compare the CPU time of the compensator with that of ``cv2.warpPerspective``, on the same
    pictures in turns.

    One OpenCV thread, so that all work is in the thread that is measured.
    """
    image = peers.textured(_CAMERA.width_px, _CAMERA.height_px)
    depth = _depth_picture()
    compensator = Compensator(_PLANE_M)
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    spent: dict[str, list[float]] = defaultdict(list)
    try:
        for turn in range(_WARM_UP_TURNS + turns):
            render, now = _poses(turn)
            H = homography(_CAMERA.K, *rotation_translation(render, now), _PLANE_M)
            ways: dict[str, Callable[[], object]] = {
                "bare": partial(
                    cv2.warpPerspective, image, H, (_CAMERA.width_px, _CAMERA.height_px)
                ),
                "homography": partial(
                    compensator.compensate, image, _CAMERA.K, render, now, "homography"
                ),
                "reproject": partial(
                    compensator.compensate, image, _CAMERA.K, render, now, "reproject", depth
                ),
                "gray_first": partial(_gray_first, compensator, image, render, now),
                "gray_last": partial(_gray_last, compensator, image, render, now),
            }
            for name, way in ways.items():
                before_ns = time.thread_time_ns()
                way()
                if turn >= _WARM_UP_TURNS:
                    spent[name].append((time.thread_time_ns() - before_ns) / 1e6)
    finally:
        cv2.setNumThreads(threads)
    return [
        ratio_row("warp_ratio_1024x768_rgb", spent["homography"], spent["bare"]),
        ratio_row("depth_aware_ratio_1024x768_rgb", spent["reproject"], spent["bare"]),
        ratio_row("gray_before_warp_ratio_1024x768", spent["gray_first"], spent["gray_last"]),
        percentile_row("warp_cpu_ms_bare_1024x768_rgb", spent["bare"], 50, "ms"),
    ]


def _gray_first(
    compensator: Compensator, image: ImageArray, render: Transform, now: Transform
) -> object:
    """Convert, then warp one channel: what the relay does while all readers want gray."""
    return compensator.compensate(as_gray(image), _CAMERA.K, render, now, "homography")


def _gray_last(
    compensator: Compensator, image: ImageArray, render: Transform, now: Transform
) -> object:
    """Warp three channels, then convert: what a reader of gray next to one of colour costs."""
    return as_gray(compensator.compensate(image, _CAMERA.K, render, now, "homography").pixels)


def _poses(turn: int) -> tuple[Transform, Transform]:
    """Return a render pose and one 56 ms later at 1.2 rad/s and 2 m/s, in another direction each
    turn.
    """
    axis, way = np.random.default_rng(turn).normal(size=(2, 3))
    render = Transform.identity()
    step = Transform(0.11 * way / np.linalg.norm(way), q_exp(0.067 * axis / np.linalg.norm(axis)))
    return render, render @ step


def _depth_picture() -> ImageArray:
    """Return walls 8 m away and nearer things before them, uint16 (h, w)."""
    rng = np.random.default_rng(2)
    depth_m: FloatArray = np.full((_CAMERA.height_px, _CAMERA.width_px), 8.0)
    for _ in range(20):
        x = rng.integers(0, _CAMERA.width_px - 150)
        y = rng.integers(0, _CAMERA.height_px - 150)
        depth_m[y : y + 150, x : x + 100] = rng.uniform(2.0, 7.0)
    return (depth_m * DEPTH_UNITS_PER_M).astype(np.uint16)


# --- the whole path ----------------------------------------------------------------------------

_CONFIG: Final = """
version: 1
rooms: {{lab: {{}}}}
sources:
  motive: {{type: optitrack, room: lab, server: 127.0.0.1, command_port: {motive}}}
actors:
  drone: {{kind: vehicle, source: motive, subject: drone}}
renderers:
  unity: {{type: flightgoggles, pose_port: {pose}, image_port: {image}}}
cameras:
  front:
    actor: {carrier}
    renderer: unity
    width_px: {width}
    height_px: {height}
    rate_hz: {rate}
stream: {{bind: "tcp://127.0.0.1:{control}", data_port: {data}}}
http: {{port: 0}}
realtime: {{fifo_priority: 0}}
"""


@contextlib.contextmanager
def _configured(
    size_px: tuple[int, int], rate_hz: float, carrier: str
) -> Iterator[tuple[Path, dict[str, int]]]:
    """Write a bridge's configuration file; yield it and the ports in it."""
    names = ("motive", "pose", "image", "control", "data")
    ports: dict[str, int] = dict(
        zip(names, free_ports(len(names), socket.SOCK_STREAM), strict=True)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.yaml"
        path.write_text(
            _CONFIG.format(
                width=size_px[0], height=size_px[1], rate=rate_hz, carrier=carrier, **ports
            )
        )
        yield path, ports


def sustained_rows(phase_s: float = _PHASE_S) -> list[Row]:
    """Measure the pictures per second that a client gets when the renderer costs nothing, and
    the bridge's CPU.
    """
    with (
        _fed_bridge(period_s=0.0) as (bridge, control),
        child(stream_peers.reader, control, "rgb", "compensated", "jpeg") as reader,
    ):
        reader.recv()
        time.sleep(_WARM_UP_S)
        first_ns = time.monotonic_ns()
        cpu_ns = _cpu_ns(bridge)
        time.sleep(phase_s)
        last_ns = time.monotonic_ns()
        cpu_ns = _cpu_ns(bridge) - cpu_ns
        count = sum(first_ns <= t < last_ns for _, _, t in stop_and_report(reader))
    wall_s = (last_ns - first_ns) / NS_PER_S
    share = cpu_ns / NS_PER_S / wall_s / (os.cpu_count() or 1)
    name = "1024x768_rgb_warp_jpeg"
    return [
        Row(f"sustained_hz_{name}", count / wall_s, "1/s", count),
        Row(f"sustained_cpu_share_{name}", share, "share", count),
        Row(
            f"sustained_cpu_ms_per_frame_{name}",
            cpu_ns / 1e6 / count if count else None,
            "ms",
            count,
        ),
    ]


def shm_rows(phase_s: float = _PHASE_S / 2, repetitions: int = 2) -> list[Row]:
    """Measure the age of uncompressed pictures at a client on the same host, by shared memory
    and by TCP in turns.
    """
    ages_ms: dict[str, list[float]] = {"shm": [], "tcp": []}
    with _fed_bridge(period_s=1.0 / _AGED_HZ) as (_, control):
        for _ in range(repetitions):
            for transport, ages in ages_ms.items():
                with child(stream_peers.reader, control, "rgb", "raw", "raw", transport) as reader:
                    used = reader.recv()
                    time.sleep(phase_s)
                    seen = stop_and_report(reader)
                if used == transport:
                    ages += _ages_ms((image, delivered) for _, image, delivered in seen)
    return [
        ratio_row("shm_age_ratio", ages_ms["shm"], ages_ms["tcp"]),
        percentile_row("shm_age_ms_p50_1024x768_rgb_raw", ages_ms["shm"], 50, "ms"),
        percentile_row("tcp_age_ms_p50_1024x768_rgb_raw", ages_ms["tcp"], 50, "ms"),
    ]


@contextlib.contextmanager
def _fed_bridge(period_s: float) -> Iterator[tuple[Connection, str]]:
    """Run a bridge that makes its frames itself.

    Yield it and the address of its control channel.
    """
    with (
        _configured((_CAMERA.width_px, _CAMERA.height_px), 1.0, "drone") as (path, ports),
        child(stream_peers.fed_bridge, path, period_s) as bridge,
    ):
        bridge.recv()
        yield bridge, f"tcp://127.0.0.1:{ports['control']}"


def _cpu_ns(bridge: Connection) -> int:
    bridge.send("cpu")
    by_thread: dict[str, int] = bridge.recv()
    return sum(by_thread.values())


# --- a bad link --------------------------------------------------------------------------------


def overload_rows(duration_s: float = _OVERLOAD_S) -> list[Row]:
    """Measure the age of pictures behind a link of 15 Mbit/s that are 18 Mbit/s, and age of those
    of a plain publisher.

    Both run at the same time, each with a link of its own. The age of ours counts from the request
    to the renderer, that of the publisher's from the send.
    """
    with _configured(_THIN_PX, _THIN_HZ, "world") as (path, ports):
        (plain,) = free_ports(1, socket.SOCK_STREAM)
        links = [
            f"tcp:{_LINK_HOST}:{port}=127.0.0.1:{port}:{_LINK}"
            for port in (ports["control"], ports["data"], plain)
        ]
        with (
            child(peers.bridge, path) as bridge,
            child(peers.standin_renderer, ports["pose"], ports["image"], _THIN_PX, 0.0),
            child(stream_peers.links, *links) as relaying,
            child(stream_peers.plain_publisher, plain, _THIN_PX[0] * _THIN_PX[1], _THIN_HZ),
        ):
            for started in (bridge, relaying):
                started.recv()
            control = f"tcp://{_LINK_HOST}:{ports['control']}"
            with (
                child(stream_peers.reader, control, "gray", "compensated", "raw") as ours,
                child(stream_peers.plain_reader, f"tcp://{_LINK_HOST}:{plain}") as theirs,
            ):
                ours.recv()
                theirs.recv()
                time.sleep(duration_s)
                ages_ms = _ages_ms(
                    (request, delivered) for request, _, delivered in stop_and_report(ours)
                )
                plain_ms = _ages_ms(stop_and_report(theirs))
    return [
        percentile_row("overload_age_ms_p95", ages_ms, 95, "ms"),
        percentile_row("overload_age_ms_p50", ages_ms, 50, "ms"),
        percentile_row("overload_age_ms_p95_plain_pub", plain_ms, 95, "ms"),
    ]


def _ages_ms(seen: Iterable[tuple[int, int]]) -> list[float]:
    """Return the ages of all but those of the first second, which find an empty link."""
    times = sorted(seen)
    steady_ns = times[0][0] + NS_PER_S if times else 0
    return [(received - sent) / 1e6 for sent, received in times if sent >= steady_ns]
