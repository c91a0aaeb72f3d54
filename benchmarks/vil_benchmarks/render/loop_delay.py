"""Delay of the bridge's event loop while the renderer, its own process, draws as fast as it can."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from vil_benchmarks.render.yardstick import CAMERA, camera_pose
from vil_benchmarks.report import Row
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import VilBridgeError
from vil_bridge.core.types import Modality, RenderRequest, View, WorldSnapshot
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.config import FlightGogglesConfig
from vil_simulation.demo.child_processes import ProcessGroup

_TICK_S: Final = 0.001
_PHASE_S: Final = 2.0
_START_S: Final = 30.0
_MODALITIES: Final = (Modality.RGB, Modality.DEPTH)


def loop_delay_rows(phases: int) -> list[Row]:
    """Measure the delay of 1 ms timers, with the renderer idle and flat out in turn."""
    return asyncio.run(_measure(phases))


async def _measure(phases: int) -> list[Row]:
    client = FlightGogglesClient("bench", FlightGogglesConfig(pose_port=0, image_port=0))
    try:
        with tempfile.TemporaryDirectory() as folder, ProcessGroup(Path(folder)) as processes:
            ports = ("--input-port", str(client.pose_port), "--output-port", str(client.image_port))
            processes.start("renderer", "renderer", *ports)
            await _first_picture(client, processes)
            idle: list[float] = []
            busy: list[float] = []
            pictures = 0
            for _ in range(phases):
                idle += (await _ticks(client, asking=False))[0]
                delays, answered = await _ticks(client, asking=True)
                busy += delays
                pictures += answered
    finally:
        client.close()
    added_ms = float(np.percentile(busy, 99) - np.percentile(idle, 99))
    return [
        Row("loop_delay_added_ms_p99", added_ms, "ms", len(busy)),
        Row("loop_delay_idle_ms_p99", float(np.percentile(idle, 99)), "ms", len(idle)),
        Row("loop_delay_requests_per_s", pictures / (phases * _PHASE_S), "Hz", pictures),
    ]


async def _first_picture(client: FlightGogglesClient, processes: ProcessGroup) -> None:
    """Ask until the renderer answers.

    Raises:
        VilBridgeError: it does not, or has ended; the message says what was waited for, or how.
    """
    give_up_s = time.monotonic() + _START_S
    while not _exchange(client):
        processes.check()
        if time.monotonic() > give_up_s:
            raise VilBridgeError(
                f"no picture came within {_START_S:g} s: {client.status.report().reason}"
            )
        await asyncio.sleep(0.01)


async def _ticks(client: FlightGogglesClient, *, asking: bool) -> tuple[list[float], int]:
    """Return the milliseconds by which each timer of a phase was late, and how many requests
    were answered.
    """
    delays: list[float] = []
    answered = 0
    end_s = time.perf_counter() + _PHASE_S
    while (now_s := time.perf_counter()) < end_s:
        await asyncio.sleep(_TICK_S)
        delays.append(1e3 * (time.perf_counter() - now_s - _TICK_S))
        if asking:
            answered += _exchange(client)
    return delays, answered


def _exchange(client: FlightGogglesClient) -> int:
    """Receive the answers, send the requests that are allowed, return the number of answers."""
    answered = 0
    while client.receive() is not None:
        answered += 1
    if client.ready():
        t_ns = now_ns()
        camera = replace(CAMERA, name="rgb")
        pose = camera_pose(int(t_ns // 33_000_000) % 100, along_m=-3.0)
        views = tuple(View(camera, modality, pose, t_ns) for modality in _MODALITIES)
        client.request(RenderRequest(t_ns, t_ns, views, WorldSnapshot(t_ns, ())))
    return answered
