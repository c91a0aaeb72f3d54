"""A short run of a real bridge with a moving carrier, a renderer and a reader.

Ledger over REST, report by the verb.
"""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.support.bridge_rig import drawn_bridge
from tests.support.common import PATIENCE_S
from tests.support.events import until
from tests.support.ledger import NAMES
from tests.support.programs import VIL_BRIDGE, output
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import RenderedImage, SourceFrame, View, WorldSnapshot
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.monitoring.frame_records import PARTS, STAGES, CameraLedger, read_ledger, stage_ns
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.process


_CONFIG = """
version: 1
name: short
rooms: {lab: {}}
sources: {imu: {type: mavlink-imu, device: /nowhere, room: lab}}
actors: {drone: {kind: vehicle, source: imu, subject: drone}}
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {actor: drone, renderer: drawn, width_px: 64, height_px: 48, rate_hz: 50}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""
FRAMES = 100


def draw(views: tuple[View, ...], _: WorldSnapshot) -> RenderedRequest:
    return RenderedRequest(
        tuple(RenderedImage(v, np.full((48, 64, 3), 128, np.uint8)) for v in views if v.due)
    )


async def fly(bridge: Bridge) -> None:
    """Poses of a turning body at 100 Hz."""
    while True:
        t_ns = now_ns()
        half = 0.5 * math.sin(2e-9 * (t_ns % 10**12))
        q = np.array([[0.0, 0.0, math.sin(half), math.cos(half)]])
        bridge.context.world.ingest(
            SourceFrame("imu", 0, None, t_ns, ("drone",), np.zeros((1, 3)), q, np.ones(1, np.bool_))
        )
        await asyncio.sleep(0.01)


def read(endpoint: str) -> list[Frame]:
    with Receiver(endpoint) as receiver:
        found: list[Frame] = []
        while len(found) < FRAMES:
            frame = receiver.next(PATIENCE_S)
            assert frame is not None, receiver.problem
            # Of a rendering that is shown again there is no row.
            if "render_age_ns" not in frame.metadata:
                found.append(frame)
    return found


def reported(*arguments: str) -> str:
    return output(*VIL_BRIDGE, "report", *arguments)


def whole_rows(ledger: CameraLedger) -> int:
    return sum(stage_ns(row, "capture_to_received") is not None for row in ledger.rows)


async def test_every_frame_has_its_row_and_the_report_every_stage(tmp_path: Path) -> None:
    page, saved, again = tmp_path / "a.html", tmp_path / "a.jsonl", tmp_path / "b.html"
    async with drawn_bridge(_CONFIG, draw) as bridge:
        flight = asyncio.create_task(fly(bridge))
        frames = await asyncio.to_thread(read, bridge.context.hub.endpoint)
        flight.cancel()
        ledger = bridge.context.cameras["front"].ledger
        await until(lambda: all(row.stamps.send is not None for row in ledger.rows()[-20:-10]))
        said = await asyncio.to_thread(
            reported, "--url", bridge.http.url, "-o", str(page), "--save", str(saved)
        )
        async with httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web:
            assert (await web.get("/api/v1/ledger/rear")).status_code == 404
            assert (await web.get("/api/v1/ledger/front?last=0")).status_code == 422
            newest = (await web.get("/api/v1/ledger/front?last=3")).content
    assert [len(found.rows) for found in read_ledger(newest.splitlines())] == [3]
    (front,) = read_ledger(saved.read_bytes().splitlines())
    assert f"frames of front {len(front.rows)}" in said
    rows = {row.frame_id: row for row in front.rows}
    assert whole_rows(front) > FRAMES // 2
    for frame in frames:
        row = rows[frame.frame_id]
        assert {k: v for k, v in frame.metadata["stamps_ns"].items() if k != "received"} == {
            name: getattr(row.stamps, name) for name in NAMES[:-1]
        }
        assert row.compensation == frame.metadata["compensation"]
        parts = [stage_ns(row, part) for part in PARTS]
        if None not in parts:
            assert sum(p for p in parts if p is not None) == stage_ns(row, "capture_to_received")
    html = page.read_text()
    for stage in STAGES:
        counted = html.split(f"{stage.replace('_', ' ')}</td><td>")[1].split("</td>")[0]
        assert (
            int(counted)
            == sum(stage_ns(row, stage) is not None for row in front.rows)
            > FRAMES // 2
        )
    reported(str(saved), "-o", str(again))
    assert again.read_text() == html
