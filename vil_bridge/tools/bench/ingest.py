"""`vil-bridge bench ingest`: what a mocap frame costs from the socket to the world.

A Motive emulator in one process multicasts on loopback; the bridge's OptiTrack source feeds a world
in another, and the CPU time of that whole process is divided by its frames. PyPI ``motioncapture``,
a C++ client, hears the very same datagrams in the same run, with all its poses read from Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import socket
import statistics
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from struct import Struct
from typing import Any, Final

import numpy as np

from vil_adapters.optitrack.codec import parse_version
from vil_adapters.optitrack.config import MotiveEmulatorConfig, OptitrackConfig
from vil_adapters.optitrack.convert import ns_to_ticks
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.emulator_frames import FrameGenerator
from vil_adapters.optitrack.frame_codec import encode_frame
from vil_adapters.optitrack.reader import HEADER_BYTES
from vil_adapters.optitrack.source import OptitrackSource
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, Ticker, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.ports import SourceContext
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import ActorKind, MotionFrame, SkeletonFrame, SkeletonModel, SourceEvent, SourceFrame
from vil_bridge.daemon.realtime import freeze_heap
from vil_bridge.tools.bench.report import Row, ratio_row
from vil_bridge.tools.child_processes import child, free_ports
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

_RATE_HZ: Final = 240.0
_FAST_RATE_HZ: Final = 1000.0
_BONES: Final = 51
_REPETITIONS: Final = 5
_PHASE_S: Final = 1.5
_START_TIMEOUT_S: Final = 30.0
_TICKS_PER_S: Final = 10_000_000
_NUMBER: Final = Struct("<i")
_STAMPS: Final = Struct("<QQQ")
_STAMPS_FROM_END: Final = 38
"""Mid-exposure, received and transmitted, counted from the end of a frame of NatNet 4.1 and newer."""


@dataclass(frozen=True, slots=True)
class _Load:
    """Streamed elements and their rate."""

    bodies: int
    skeletons: int = 0
    rate_hz: float = _RATE_HZ


def bench_ingest() -> list[Row]:
    """Run all measurements; about 80 s."""
    loads = {"100_bodies": _Load(100), "100_bodies_2_skeletons": _Load(100, 2)}
    rows = [_per_frame("us_per_frame_1_bodies", _measure(_Load(1))[0]), *reference_rows()]
    rows += [_per_frame(f"us_per_frame_{name}", _measure(load)[0]) for name, load in loads.items()]
    ours, _, rates_hz = _measure(_Load(100, 2, _FAST_RATE_HZ))
    shares = [us * 1e-6 * _FAST_RATE_HZ for us in ours]  # a frame that is lost must not look like one that is cheap
    rows.append(Row("core_share_100_bodies_2_skeletons_1khz", statistics.median(shares), "cores", len(shares)))
    rows.append(Row("frames_per_s_100_bodies_2_skeletons_1khz", statistics.median(rates_hz), "1/s", len(rates_hz)))
    return rows


def reference_rows() -> list[Row]:
    """Measure 20 bodies and the reference on the same datagrams; about 12 s."""
    ours, reference, _ = _measure(_Load(20), against=True)
    return [
        _per_frame("us_per_frame_20_bodies", ours),
        _per_frame("us_per_frame_20_bodies_motioncapture", reference),
        ratio_row("ratio_to_motioncapture_20_bodies", ours, reference),
    ]


def _per_frame(name: str, us: list[float]) -> Row:
    return Row(name, statistics.median(us) if us else None, "us", len(us))


def _measure(load: _Load, *, against: bool = False) -> tuple[list[float], list[float], list[float]]:
    """Measure CPU microseconds per frame of ours and of the reference, frames per second of ours, by repetition."""
    command_port, data_port = free_ports(2, socket.SOCK_DGRAM)
    ours: list[float] = []
    reference: list[float] = []
    rates_hz: list[float] = []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(child(_motive, load, command_port, data_port))
        server.recv()
        peers = [(stack.enter_context(child(_bridge, load, command_port)), ours)]
        if against and importlib.util.find_spec("motioncapture") is not None:
            peers.append((stack.enter_context(child(_motioncapture, command_port)), reference))
        for conn, _ in peers:
            if not conn.poll(_START_TIMEOUT_S):
                raise TimeoutError("a receiver of the benchmark got no frames")
            conn.recv()
        for _ in range(_REPETITIONS):
            before = [_reading(conn) for conn, _ in peers]
            time.sleep(_PHASE_S)
            for (conn, values), (cpu_ns, frames, t_ns) in zip(peers, before, strict=True):
                cpu_after_ns, frames_after, t_after_ns = _reading(conn)
                values.append(1e-3 * (cpu_after_ns - cpu_ns) / max(1, frames_after - frames))
                if values is ours:
                    rates_hz.append((frames_after - frames) * NS_PER_S / (t_after_ns - t_ns))
    return ours, reference, rates_hz


def _reading(conn: Connection) -> tuple[int, int, int]:
    conn.send("read")
    reading: tuple[int, int, int] = conn.recv()
    return reading


# --- the server ----------------------------------------------------------------------------------


class _Crowd:
    """Bodies on circles and upright skeletons: one turn, computed before."""

    _FRAMES: Final = 1000  # one turn: 6 m/s at 1 kHz

    def __init__(self, load: _Load) -> None:
        self.subjects = _subjects(load)
        bones = tuple(f"bone{i:02}" for i in range(_BONES))
        offsets_m = np.tile((0.0, 0.0, 0.05), (_BONES, 1))
        self.skeleton_models = tuple(
            SkeletonModel(name, bones, tuple(range(-1, _BONES - 1)), offsets_m) for name in _humans(load)
        )
        self.frames = [self._frame(i / self._FRAMES) for i in range(self._FRAMES)]

    def at(self, t_ns: int) -> MotionFrame:
        """Return one of the frames computed before."""
        return self.frames[t_ns // NS_PER_MS % self._FRAMES]

    def _frame(self, t_s: float) -> MotionFrame:
        phase = 2 * np.pi * t_s + np.arange(len(self.subjects))
        zero = np.zeros_like(phase)
        p_m = np.stack((np.cos(phase), np.sin(phase), 1.0 + zero), axis=-1, dtype=np.float64)
        q_xyzw = np.stack((zero, zero, np.sin(phase / 2), np.cos(phase / 2)), axis=-1, dtype=np.float64)
        skeletons = []
        for i, model in enumerate(self.skeleton_models):
            bones_m = np.cumsum(model.offsets_m, axis=0)
            bones_m[:, 0] += 3.0 + i + 0.1 * np.sin(2 * np.pi * t_s)
            still = np.tile((0.0, 0.0, 0.0, 1.0), (_BONES, 1))
            skeletons.append(SkeletonFrame(model, bones_m, still, np.ones(_BONES, dtype=np.bool_)))
        return MotionFrame(self.subjects, p_m, q_xyzw, np.ones(len(phase), dtype=np.bool_), tuple(skeletons))


def _subjects(load: _Load) -> tuple[str, ...]:
    return tuple(f"body{i:03}" for i in range(load.bodies))


def _humans(load: _Load) -> tuple[str, ...]:
    return tuple(f"Actor{i}" for i in range(load.skeletons))


def _motive(conn: Connection, load: _Load, command_port: int, data_port: int) -> None:
    """Run the emulated server until a message comes; its frames are encoded before, so that 1 kHz costs little."""
    # Its own frames are put off for good: the frames of the crowd are injected.
    config = MotiveEmulatorConfig(command_port=command_port, data_port=data_port, transport="multicast", rate_hz=1e-3)
    crowd = _Crowd(load)
    generator = FrameGenerator(crowd, config)
    datagrams = [
        bytearray(encode_frame(generator.frame(0, frame), parse_version(config.version))) for frame in crowd.frames
    ]

    async def serve() -> None:
        async with MotiveEmulator(config, crowd, now_ns()) as server:
            number = 0

            def on_tick(due_ns: int, missed: int) -> None:
                nonlocal number
                number += 1 + missed
                datagram = datagrams[number % len(datagrams)]
                ticks = ns_to_ticks(server.foreign_ns(due_ns), _TICKS_PER_S)
                _NUMBER.pack_into(datagram, HEADER_BYTES, number)
                _STAMPS.pack_into(datagram, len(datagram) - _STAMPS_FROM_END, ticks, ticks, ticks)
                server.inject(bytes(datagram))

            ticker = Ticker(round(NS_PER_S / load.rate_hz), on_tick)
            ticker.start()
            conn.send("ready")
            await asyncio.to_thread(conn.recv)
            ticker.stop()

    asyncio.run(serve())


# --- the receivers -------------------------------------------------------------------------------


def _bridge(conn: Connection, load: _Load, command_port: int) -> None:
    """Run source and world as in the daemon; answer each message with (CPU ns, frames, now)."""

    async def receive() -> None:
        actors = [Actor(name, ActorKind.VEHICLE, "room", name) for name in _subjects(load)]
        actors += [Actor(name, ActorKind.HUMAN, "room", name) for name in _humans(load)]
        world = World({"room": Transform.identity()}, actors)
        source = OptitrackSource("room", OptitrackConfig(command_port=command_port))
        frames = 0
        receiving, stopped = asyncio.Event(), asyncio.Event()

        def emit(event: SourceEvent) -> None:
            nonlocal frames
            world.ingest(event)
            if isinstance(event, SourceFrame):
                frames += 1
                receiving.set()

        task = asyncio.create_task(source.run(emit, Status("room"), SourceContext()))
        await receiving.wait()
        freeze_heap()
        conn.send("receiving")

        def on_message() -> None:
            if conn.recv() == "stop":
                stopped.set()
            else:
                conn.send((time.process_time_ns(), frames, now_ns()))

        loop = asyncio.get_running_loop()
        loop.add_reader(conn.fileno(), on_message)
        await stopped.wait()
        loop.remove_reader(conn.fileno())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(receive())


def _motioncapture(conn: Connection, command_port: int) -> None:
    """Run the reference, with every pose read from Python; answer as :func:`_bridge` does."""
    import motioncapture

    os.dup2(2, 1)  # the library prints
    keys = {"hostname": "127.0.0.1", "interface_ip": "127.0.0.1", "port_command": str(command_port)}
    mocap: Any = motioncapture.connect("optitrack", keys)
    frames = 0
    while True:
        mocap.waitForNextFrame()
        poses = []
        for name, body in mocap.rigidBodies.items():
            p, q = body.position, body.rotation
            poses.append((name, p[0], p[1], p[2], q.x, q.y, q.z, q.w))
        frames += 1
        if frames == 1:
            conn.send("receiving")
        if conn.poll():
            if conn.recv() == "stop":
                os._exit(0)  # the library has no way to end
            conn.send((time.process_time_ns(), frames, now_ns()))
