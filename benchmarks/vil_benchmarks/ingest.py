"""`vil-bridge bench ingest`: what a mocap frame costs from the socket to the world.

A Motive emulator in one process multicasts on loopback; the bridge's OptiTrack source feeds a world
in another, and the CPU time of that whole process is divided by its frames. PyPI ``motioncapture``,
a C++ client, hears the very same datagrams in the same run, with all its poses read from Python. So
does a loop that only receives. A figure of frames that were not all handed on is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import select
import socket
import statistics
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from struct import Struct
from typing import Any, Final

import numpy as np

from vil_adapters.optitrack.config import MotiveEmulatorConfig, OptitrackConfig
from vil_adapters.optitrack.convert import ns_to_ticks
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.emulator_frames import FrameGenerator
from vil_adapters.optitrack.source import OptitrackSource
from vil_benchmarks.report import Row, percentile_row, ratio_row
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, Ticker, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    MotionFrame,
    SkeletonFrame,
    SkeletonModel,
    SourceEvent,
    SourceFrame,
)
from vil_bridge.interfaces.ports import SourceContext
from vil_bridge.protocols.natnet.codec import parse_version
from vil_bridge.protocols.natnet.frame_codec import encode_frame
from vil_bridge.protocols.natnet.reader import HEADER_BYTES
from vil_bridge.runtime.heap import freeze_heap
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_simulation.demo.child_processes import child, free_ports

_RATE_HZ: Final = 240.0
_FAST_RATE_HZ: Final = 1000.0
_LEAST_PASSED_ON: Final = 0.995
_LEAST_FRAME_BYTES: Final = 100
_AHEAD_NS: Final = 20 * NS_PER_MS
_BONES: Final = 51
_REPETITIONS: Final = 5
_PHASE_S: Final = 1.5
_START_TIMEOUT_S: Final = 30.0
_TICKS_PER_S: Final = 10_000_000
_NUMBER: Final = Struct("<i")
_STAMPS: Final = Struct("<QQQ")
_STAMPS_FROM_END: Final = 38
"""Mid-exposure, received and transmitted, counted from the end of a frame of NatNet 4.1 and
newer.
"""


@dataclass(frozen=True, slots=True)
class _Load:
    """Streamed elements and their rate."""

    bodies: int
    skeletons: int = 0
    rate_hz: float = _RATE_HZ


def bench_ingest() -> list[Row]:
    """Run all measurements; about 80 s."""
    loads = {"100_bodies": _Load(100), "100_bodies_2_skeletons": _Load(100, 2)}
    rows = [_per_frame("us_per_frame_1_bodies", _measure(_Load(1))["bridge"]), *reference_rows()]
    rows += [
        _per_frame(f"us_per_frame_{name}", _measure(load)["bridge"]) for name, load in loads.items()
    ]
    fast = _measure(_Load(100, 2, _FAST_RATE_HZ))["bridge"]
    share = None if (us := fast.us_per_frame) is None else us * 1e-6 * _FAST_RATE_HZ
    suffix = "100_bodies_2_skeletons_1khz"
    rows.append(Row(f"core_share_{suffix}", share, "cores", len(fast.us)))
    rows.append(Row("passed_on_share", fast.passed_on, "ratio", len(fast.shares)))
    rows.append(
        percentile_row(f"received_to_tracks_us_p50_{suffix}", fast.to_tracks_us, 50.0, "us")
    )
    return rows + cold_rows()


def reference_rows() -> list[Row]:
    """Measure 20 bodies and the reference on the same datagrams; about 12 s."""
    found = _measure(_Load(20), against=True)
    ours = found["bridge"]
    reference = found.get("motioncapture", Taken())
    whole = ours.us_per_frame is not None and reference.us_per_frame is not None
    return [
        _per_frame("us_per_frame_20_bodies", ours),
        _per_frame("us_per_frame_20_bodies_motioncapture", reference),
        _per_frame("us_per_frame_20_bodies_receive_only", found["loop"]),
        ratio_row("ratio_to_motioncapture_20_bodies", ours.us if whole else (), reference.us),
        percentile_row("received_to_tracks_us_p50", ours.to_tracks_us, 50.0, "us"),
    ]


def cold_rows(turns: int = 200) -> list[Row]:
    """Measure 20 bodies from frame to tracks and from tracks to snapshot.

    At once, and after 16 ms of sleep.
    """
    load = _Load(20)
    world = World({"room": Transform.identity()}, _actors(load))
    frames = _Crowd(load).frames
    rows = []
    for name, sleep_s in (("warm", 0.0), ("cold", 0.016)):
        into_us = []
        out_us = []
        for number in range(turns):
            frame = frames[4 * number % len(frames)]
            time.sleep(sleep_s)
            t0_ns = now_ns()
            world.ingest(
                SourceFrame(
                    "room",
                    number,
                    None,
                    t0_ns,
                    frame.subjects,
                    frame.p_m,
                    frame.q_xyzw,
                    frame.tracked,
                )
            )
            into_us.append(1e-3 * (now_ns() - t0_ns))
            time.sleep(sleep_s)
            t1_ns = now_ns()
            world.snapshot(t1_ns + _AHEAD_NS)
            out_us.append(1e-3 * (now_ns() - t1_ns))
        rows += [percentile_row(f"{name}_ingest_us_p50_20_bodies", into_us, 50.0, "us")]
        rows += [percentile_row(f"{name}_snapshot_us_p50_20_bodies", out_us, 50.0, "us")]
    return rows


@dataclass(frozen=True, slots=True)
class Taken:
    """Figures of one receiver, by repetition.

    Attributes:
        us: CPU time per frame, microseconds.
        shares: frames handed on over frames sent.
        to_tracks_us: from the arrival of a datagram until its poses are in the world, of every
            frame.
    """

    us: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    to_tracks_us: list[float] = field(default_factory=list)

    @property
    def passed_on(self) -> float | None:
        """Median of the shares."""
        return statistics.median(self.shares) if self.shares else None

    @property
    def us_per_frame(self) -> float | None:
        """Median of the costs.

        None where frames were lost, which must not look like frames that are cheap.
        """
        passed_on = self.passed_on
        return (
            statistics.median(self.us)
            if passed_on is not None and passed_on >= _LEAST_PASSED_ON
            else None
        )


def _per_frame(name: str, taken: Taken) -> Row:
    return Row(name, taken.us_per_frame, "us", len(taken.us))


def _measure(load: _Load, *, against: bool = False) -> dict[str, Taken]:
    """Measure the receivers ``bridge``, and with ``against`` also ``loop`` and ``motioncapture``
    where it is there.
    """
    command_port, data_port = free_ports(2, socket.SOCK_DGRAM)
    found: dict[str, Taken] = {"bridge": Taken()}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(child(_motive, load, command_port, data_port))
        server.recv()
        peers = {"bridge": stack.enter_context(child(_bridge, load, command_port))}
        if against:
            peers["loop"] = stack.enter_context(child(_receive_only, data_port))
        if against and importlib.util.find_spec("motioncapture") is not None:
            peers["motioncapture"] = stack.enter_context(child(_motioncapture, command_port))
        found = {name: Taken() for name in peers}
        for conn in peers.values():
            if not conn.poll(_START_TIMEOUT_S):
                raise TimeoutError("a receiver of the benchmark got no frames")
            conn.recv()
        for _ in range(_REPETITIONS):
            sent = -_ask(server)
            before = {name: _ask(conn) for name, conn in peers.items()}
            time.sleep(_PHASE_S)
            sent += _ask(server)
            for name, conn in peers.items():
                cpu_ns, frames, to_tracks_us = _ask(conn)
                frames -= before[name][1]
                found[name].us.append(1e-3 * (cpu_ns - before[name][0]) / max(1, frames))
                found[name].shares.append(frames / sent)
                found[name].to_tracks_us.extend(to_tracks_us)
    return found


def _ask(conn: Connection) -> Any:
    conn.send("read")
    return conn.recv()


# --- the server ----------------------------------------------------------------------------------


class _Crowd:
    """Bodies on circles and upright skeletons: one turn, computed before."""

    _FRAMES: Final = 1000  # one turn: 6 m/s at 1 kHz

    def __init__(self, load: _Load) -> None:
        self.subjects = _subjects(load)
        bones = tuple(f"bone{i:02}" for i in range(_BONES))
        offsets_m = np.tile((0.0, 0.0, 0.05), (_BONES, 1))
        self.skeleton_models = tuple(
            SkeletonModel(name, bones, tuple(range(-1, _BONES - 1)), offsets_m)
            for name in _humans(load)
        )
        self.frames = [self._frame(i / self._FRAMES) for i in range(self._FRAMES)]

    def at(self, t_ns: int) -> MotionFrame:
        """Return one of the frames computed before."""
        return self.frames[t_ns // NS_PER_MS % self._FRAMES]

    def _frame(self, t_s: float) -> MotionFrame:
        phase = 2 * np.pi * t_s + np.arange(len(self.subjects))
        zero = np.zeros_like(phase)
        p_m = np.stack((np.cos(phase), np.sin(phase), 1.0 + zero), axis=-1, dtype=np.float64)
        q_xyzw = np.stack(
            (zero, zero, np.sin(phase / 2), np.cos(phase / 2)), axis=-1, dtype=np.float64
        )
        skeletons = []
        for i, model in enumerate(self.skeleton_models):
            bones_m = np.cumsum(model.offsets_m, axis=0)
            bones_m[:, 0] += 3.0 + i + 0.1 * np.sin(2 * np.pi * t_s)
            still = np.tile((0.0, 0.0, 0.0, 1.0), (_BONES, 1))
            skeletons.append(SkeletonFrame(model, bones_m, still, np.ones(_BONES, dtype=np.bool_)))
        return MotionFrame(
            self.subjects, p_m, q_xyzw, np.ones(len(phase), dtype=np.bool_), tuple(skeletons)
        )


def _actors(load: _Load) -> list[Actor]:
    vehicles = [Actor(name, ActorKind.VEHICLE, "room", name) for name in _subjects(load)]
    return vehicles + [Actor(name, ActorKind.HUMAN, "room", name) for name in _humans(load)]


def _subjects(load: _Load) -> tuple[str, ...]:
    return tuple(f"body{i:03}" for i in range(load.bodies))


def _humans(load: _Load) -> tuple[str, ...]:
    return tuple(f"Actor{i}" for i in range(load.skeletons))


def _motive(conn: Connection, load: _Load, command_port: int, data_port: int) -> None:
    """Run the emulated server.

    Answer each message with the frames sent, which are encoded before.
    """
    # Its own frames are put off for good: the frames of the crowd are injected.
    config = MotiveEmulatorConfig(
        command_port=command_port, data_port=data_port, transport="multicast", rate_hz=1e-3
    )
    crowd = _Crowd(load)
    generator = FrameGenerator(crowd, config)
    datagrams = [
        bytearray(encode_frame(generator.frame(0, frame), parse_version(config.version)))
        for frame in crowd.frames
    ]

    async def serve() -> None:
        async with MotiveEmulator(config, crowd, now_ns()) as server:
            number = sent = 0

            def on_tick(due_ns: int, missed: int) -> None:
                nonlocal number, sent
                number += 1 + missed
                sent += 1
                datagram = datagrams[number % len(datagrams)]
                ticks = ns_to_ticks(server.foreign_ns(due_ns), _TICKS_PER_S)
                _NUMBER.pack_into(datagram, HEADER_BYTES, number)
                _STAMPS.pack_into(datagram, len(datagram) - _STAMPS_FROM_END, ticks, ticks, ticks)
                server.inject(bytes(datagram))

            ticker = Ticker(round(NS_PER_S / load.rate_hz), on_tick)
            ticker.start()
            conn.send("ready")
            while await asyncio.to_thread(conn.recv) != "stop":
                conn.send(sent)
            ticker.stop()

    asyncio.run(serve())


# --- the receivers -------------------------------------------------------------------------------


def _bridge(conn: Connection, load: _Load, command_port: int) -> None:
    """Run source and world as in the daemon.

    Answer each message with CPU ns, frames, and times to the tracks.
    """

    async def receive() -> None:
        world = World({"room": Transform.identity()}, _actors(load))
        source = OptitrackSource("room", OptitrackConfig(command_port=command_port))
        frames = 0
        to_tracks_us: list[float] = []
        receiving, stopped = asyncio.Event(), asyncio.Event()

        def emit(event: SourceEvent) -> None:
            nonlocal frames
            world.ingest(event)
            if isinstance(event, SourceFrame):
                frames += 1
                to_tracks_us.append(1e-3 * (now_ns() - event.t_arrival_ns))
                receiving.set()

        task = asyncio.create_task(source.run(emit, Status("room"), SourceContext()))
        await receiving.wait()
        freeze_heap()
        conn.send("receiving")

        def on_message() -> None:
            if conn.recv() == "stop":
                stopped.set()
            else:
                conn.send((time.process_time_ns(), frames, to_tracks_us))
                to_tracks_us.clear()

        loop = asyncio.get_running_loop()
        loop.add_reader(conn.fileno(), on_message)
        await stopped.wait()
        loop.remove_reader(conn.fileno())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(receive())


def _receive_only(conn: Connection, data_port: int) -> None:
    """Wake up for each datagram of the group, read it and count; answer as :func:`_bridge` does."""
    config = OptitrackConfig()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((config.multicast_group, data_port))
        sock.setsockopt(
            socket.IPPROTO_IP,
            socket.IP_ADD_MEMBERSHIP,
            socket.inet_aton(config.multicast_group) + socket.inet_aton("127.0.0.1"),
        )
        frames = 0
        while True:
            readable, _, _ = select.select((sock.fileno(), conn.fileno()), (), ())
            if sock.fileno() in readable:
                frames += len(sock.recv(65_536)) > _LEAST_FRAME_BYTES
                if frames == 1:
                    conn.send("receiving")
            if conn.fileno() in readable:
                if conn.recv() == "stop":
                    return
                conn.send((time.process_time_ns(), frames, ()))


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
            p = body.position
            q = body.rotation
            poses.append((name, p[0], p[1], p[2], q.x, q.y, q.z, q.w))
        frames += 1
        if frames == 1:
            conn.send("receiving")
        if conn.poll():
            if conn.recv() == "stop":
                os._exit(0)  # the library has no way to end
            conn.send((time.process_time_ns(), frames, ()))
