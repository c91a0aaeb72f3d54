"""`vil-bridge bench path`.

What the bridge adds to poses and to images, and how it bears overload.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from vil_adapters.optitrack.config import MotiveEmulatorConfig, OptitrackConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_benchmarks import peers
from vil_benchmarks.report import Row, percentile_row, ratio_row
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    CameraModel,
    MotionFrame,
    SkeletonModel,
    SourceEvent,
    SourceFrame,
)
from vil_bridge.interfaces.ports import SourceContext
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.scheduler import Scheduler
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.codec import encode_pose
from vil_renderer.flightgoggles.compiled_writer import pose_writer
from vil_renderer.flightgoggles.config import FlightGogglesConfig
from vil_simulation.demo.child_processes import child, free_ports, stop_and_report

_BODIES: Final = 20
_POSE_RATE_HZ: Final = 240.0
_CAMERA_RATE_HZ: Final = 60.0
_LARGE_PX: Final = (1024, 768)
_SMALL_PX: Final = (640, 480)
_REPETITIONS: Final = 4
_WARM_UP_S: Final = 1.0
_PHASE_S: Final = 3.0
_ARRIVE_S: Final = 0.2
_LEAST_ARRIVED: Final = 0.95
_LINK: Final = "link-"
_ZEROMQ: Final = "ZMQ"
_OVERLOAD_DRAW_S: Final = 0.025
_OVERLOAD_S: Final = 6.0


def bench_path() -> list[Row]:
    """Run all measurements; about 70 s."""
    return [*_poses(), *_images(), *_overload()]


# --- poses -------------------------------------------------------------------------------------


class _Swarm:
    """Twenty bodies on circles."""

    subjects: tuple[str, ...] = tuple(f"body{i:02}" for i in range(_BODIES))
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def at(self, t_ns: int) -> MotionFrame:
        """Return the bodies at one instant."""
        phase = 1e-9 * t_ns + np.arange(_BODIES)
        p_m = np.stack(
            (np.cos(phase), np.sin(phase), 1.0 + 0.1 * np.arange(_BODIES)),
            axis=-1,
            dtype=np.float64,
        )
        q_xyzw = np.stack(
            (0 * phase, 0 * phase, np.sin(phase / 2), np.cos(phase / 2)), axis=-1, dtype=np.float64
        )
        return MotionFrame(self.subjects, p_m, q_xyzw, np.ones(_BODIES, dtype=np.bool_))


def _swarm_motive(conn: Connection, ports: tuple[int, int]) -> None:
    async def stream() -> None:
        config = MotiveEmulatorConfig(
            command_port=ports[0], data_port=ports[1], rate_hz=_POSE_RATE_HZ
        )
        async with MotiveEmulator(config, _Swarm(), now_ns()):
            conn.send("ready")
            await asyncio.to_thread(conn.recv)

    asyncio.run(stream())


def _poses() -> list[Row]:
    """Measure the way of poses with a stand-in renderer."""
    ports = free_ports(2, socket.SOCK_DGRAM)
    client = FlightGogglesClient("bench", FlightGogglesConfig(pose_port=0, image_port=0))
    renderer = (peers.standin_renderer, client.pose_port, client.image_port, (64, 48), 0.0)
    try:
        with child(_swarm_motive, tuple(ports)) as motive, child(*renderer) as drawing:
            motive.recv()
            ingest_ns, request_ns, wait_ns, warm_ns = asyncio.run(_measure_poses(ports[0], client))
            stop_and_report(drawing)
    finally:
        client.close()
    added = [(i + float(np.median(request_ns))) / 1e6 for i in ingest_ns]
    return [
        percentile_row("pose_added_ms_p50_20_bodies", added, 50, "ms"),
        percentile_row("pose_received_to_world_ms_p50", [v / 1e6 for v in ingest_ns], 50, "ms"),
        percentile_row("tick_to_pose_message_ms_p50", [v / 1e6 for v in request_ns], 50, "ms"),
        percentile_row("wait_for_tick_ms_p50", [v / 1e6 for v in wait_ns], 50, "ms"),
        percentile_row(
            "pose_world_and_message_warm_ms_p50_20_bodies", [v / 1e6 for v in warm_ns], 50, "ms"
        ),
    ]


async def _measure_poses(
    command_port: int, client: FlightGogglesClient
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Measure datagram received to world updated, tick to message handed over, the wait between,
    each ns.

    Between two frames and two ticks the caches cool down, which multiplies every time; the last
    list holds world update plus tick to encoded message back to back, without sockets, for
    comparison.
    """
    actors = [Actor(name, ActorKind.VEHICLE, "motive", name) for name in _Swarm.subjects]
    world = World({"motive": Transform.identity()}, actors)
    camera = BridgeCamera(
        CameraModel("front", 64, 48, 1.2), actors[0].name, Transform.identity(), _CAMERA_RATE_HZ
    )
    ingest_ns: list[int] = []
    request_ns: list[int] = []
    wait_ns: list[int] = []
    newest_arrival_ns = 0

    def emit(event: SourceEvent) -> None:
        nonlocal newest_arrival_ns
        world.ingest(event)
        if isinstance(event, SourceFrame):
            newest_arrival_ns = event.t_arrival_ns
            ingest_ns.append(now_ns() - event.t_arrival_ns)

    scheduler = Scheduler(
        client, [camera], world, lambda _camera: True, lambda _camera, _t_ns: None
    )
    source = OptitrackSource("motive", OptitrackConfig(command_port=command_port, room="lab"))
    running = asyncio.create_task(source.run(emit, Status("motive"), SourceContext()))
    loop = asyncio.get_running_loop()
    loop.add_reader(client.fileno(), lambda: _drain(client))
    end_s = time.monotonic() + 8.0
    while time.monotonic() < end_s:
        await asyncio.sleep(1.0 / _CAMERA_RATE_HZ)
        _drain(client)
        t_tick_ns = now_ns()
        if client.ready() and newest_arrival_ns:
            client.request(scheduler.build(t_tick_ns, (True,)))
            request_ns.append(now_ns() - t_tick_ns)
            wait_ns.append(t_tick_ns - newest_arrival_ns)
    loop.remove_reader(client.fileno())
    running.cancel()
    await asyncio.wait([running])
    return ingest_ns[100:], request_ns[20:], wait_ns[20:], _measure_warm(world, scheduler)


def _measure_warm(world: World, scheduler: Scheduler) -> list[int]:
    """Measure world update and encoded message back to back, ns."""
    writer = pose_writer("bench", dict.fromkeys(ActorKind, "Blackeagle"))
    swarm = _Swarm()
    warm_ns = []
    for number in range(500):
        bodies = swarm.at(number * 4_000_000)
        t_ns = now_ns()
        world.ingest(
            SourceFrame(
                "motive",
                number,
                None,
                t_ns,
                bodies.subjects,
                bodies.p_m,
                bodies.q_xyzw,
                bodies.tracked,
            )
        )
        encode_pose(writer.message(scheduler.build(now_ns(), (True,))))
        warm_ns.append(now_ns() - t_ns)
    return warm_ns[100:]


def _drain(client: FlightGogglesClient) -> None:
    while client.receive() is not None:
        pass


# --- images ------------------------------------------------------------------------------------

_CONFIG = """
version: 1
renderers:
  unity: {{type: flightgoggles, pose_port: {pose}, image_port: {image}}}
cameras:
  front:
    renderer: unity
    width_px: {width}
    height_px: {height}
    rate_hz: {rate}
    latency_compensation: none
stream: {{bind: "tcp://127.0.0.1:{stream}"}}
http: {{port: 0}}
realtime: {{fifo_priority: 0}}
"""


@contextlib.contextmanager
def _bridged(
    size_px: tuple[int, int], draw_s: float
) -> Iterator[tuple[Connection, Connection, Connection]]:
    """Run stand-in renderer, bridge and onboard client, each as a process."""
    pose, image, stream = free_ports(3, socket.SOCK_STREAM)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.yaml"
        path.write_text(
            _CONFIG.format(
                pose=pose,
                image=image,
                stream=stream,
                width=size_px[0],
                height=size_px[1],
                rate=_CAMERA_RATE_HZ,
            )
        )
        with (
            child(peers.bridge, path) as bridge,
            child(peers.standin_renderer, pose, image, size_px, draw_s) as renderer,
            child(peers.reader, f"tcp://127.0.0.1:{stream}", "front") as reader,
        ):
            bridge.recv()
            yield bridge, renderer, reader


class ImagePhase(NamedTuple):
    """Part of a run in which pictures flow through a relay.

    Attributes:
        cpu_ns: CPU time of the relay's threads by name.
        ages_ns: from the send to the reader, of the pictures sent in this time that arrived.
        sent: pictures sent in this time.
    """

    cpu_ns: dict[str, int]
    ages_ns: list[int]
    sent: int

    @property
    def arrived(self) -> float:
        """Share of the pictures sent that arrived; 0 where none was sent."""
        return len(self.ages_ns) / self.sent if self.sent else 0.0

    def cpu_ms(self, *threads: str) -> float:
        """Return the CPU time per picture that arrived, of threads whose names begin so.

        NaN without such a thread.
        """
        found = [ns for name, ns in self.cpu_ns.items() if name.startswith(threads)]
        return sum(found) / len(self.ages_ns) / 1e6 if found and self.ages_ns else math.nan


def _images() -> list[Row]:
    """Run interleaved repetitions of bridge and bare relay with the same pictures at the same
    rate.
    """
    ours: list[ImagePhase] = []
    bare: list[ImagePhase] = []
    for _ in range(_REPETITIONS):
        with _bridged(_LARGE_PX, 0.0) as (bridge, renderer, reader):
            ours.append(_phase(bridge, renderer, reader))
        first, second = free_ports(2, socket.SOCK_STREAM)
        with (
            child(peers.bare_relay, first, second) as relay,
            child(peers.bare_source, first, _LARGE_PX, _CAMERA_RATE_HZ) as source,
            child(peers.bare_reader, second) as sink,
        ):
            relay.recv()
            bare.append(_phase(relay, source, sink))
    return image_rows(ours, bare)


def image_rows(ours: Sequence[ImagePhase], bare: Sequence[ImagePhase]) -> list[Row]:
    """Compare the bridge with a bare relay of the same pictures.

    The CPU ratio counts the threads that touch images (the link's and ZeroMQ's own); what the loop
    spends on asking the renderer and on credits, and HTTP, is a row of its own. ``relay_own_share``
    is what the link's thread spends beyond the bare relay's thread, which receives and sends as
    well, over all that a picture costs the bare relay. Rows have no value where pictures were lost,
    which cost nothing, or where a thread was not found; the least share that arrived in a
    repetition is there in any case.
    """
    shares = [
        percentile_row("image_least_arrived", [p.arrived for p in ours], 0, "share"),
        percentile_row("image_least_arrived_bare_relay", [p.arrived for p in bare], 0, "share"),
    ]
    if not all(p.arrived >= _LEAST_ARRIVED for p in (*ours, *bare)):
        ours = bare = ()
    cpu = [p.cpu_ms(_LINK) + p.cpu_ms(_ZEROMQ) for p in ours]
    loop = [p.cpu_ms("") - c for p, c in zip(ours, cpu, strict=True)]
    bare_cpu = [p.cpu_ms("") for p in bare]
    own = [a.cpu_ms(_LINK) - b.cpu_ms("main") for a, b in zip(ours, bare, strict=True)]
    age = [float(np.median(p.ages_ns)) / 1e6 for p in ours]
    bare_age = [float(np.median(p.ages_ns)) / 1e6 for p in bare]
    rows = [
        ratio_row("image_added_ratio_1024x768_rgb", age, bare_age),
        ratio_row("image_cpu_ratio_1024x768_rgb", cpu, bare_cpu),
        replace(ratio_row("relay_own_share_1024x768_rgb", own, bare_cpu), unit="share"),
        percentile_row("image_age_ms_p50", age, 50, "ms"),
        percentile_row("image_age_ms_p50_bare_relay", bare_age, 50, "ms"),
        percentile_row("image_cpu_ms_per_frame", cpu, 50, "ms"),
        percentile_row("image_cpu_ms_per_frame_bare_relay", bare_cpu, 50, "ms"),
        percentile_row("image_loop_and_http_cpu_ms_per_frame", loop, 50, "ms"),
    ]
    return shares + [
        row if row.value is not None and math.isfinite(row.value) else replace(row, value=None)
        for row in rows
    ]


def _phase(middle: Connection, source: Connection, sink: Connection) -> ImagePhase:
    """Return the CPU time of the middle process over a phase, and what became of the pictures
    sent in it.
    """
    time.sleep(_WARM_UP_S + 1.0)
    middle.send("cpu")
    before = middle.recv()
    begin_ns = now_ns()
    time.sleep(_PHASE_S)
    middle.send("cpu")
    after = middle.recv()
    end_ns = now_ns()
    time.sleep(_ARRIVE_S)
    received: dict[int, Any] = stop_and_report(sink)
    sent = {
        number: t_ns
        for number, t_ns in stop_and_report(source).items()
        if begin_ns <= t_ns < end_ns
    }
    ages_ns = [
        _received_ns(received[number]) - t_ns for number, t_ns in sent.items() if number in received
    ]
    return ImagePhase(
        {name: after[name] - before.get(name, 0) for name in after}, ages_ns, len(sent)
    )


def _received_ns(reported: int | tuple[int, int]) -> int:
    """Return the time of reception, which the onboard client reports after the time of the
    request.
    """
    return reported[1] if isinstance(reported, tuple) else reported


def _overload() -> list[Row]:
    """Return a renderer at 40 Hz under a camera at 60 Hz: age from request to the client."""
    with _bridged(_SMALL_PX, _OVERLOAD_DRAW_S) as (_, renderer, reader):
        time.sleep(_WARM_UP_S + _OVERLOAD_S)
        received = stop_and_report(reader)
        stop_and_report(renderer)
    requested = sorted(request for request, _ in received.values())
    steady_ns = requested[0] + round(_WARM_UP_S * NS_PER_S) if requested else 0
    ages = [(t - request) / 1e6 for request, t in received.values() if request >= steady_ns]
    span_s = (requested[-1] - steady_ns) / NS_PER_S if requested else 0.0
    return [
        percentile_row("overload_age_ms_p95", ages, 95, "ms"),
        percentile_row("overload_age_ms_p50", ages, 50, "ms"),
        Row("overload_frames_per_s", len(ages) / span_s if span_s > 0 else None, "1/s", len(ages)),
    ]
