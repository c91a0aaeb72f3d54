"""A bridge for tests of what pages are told.

Its sources stay silent, so that the test says who is where.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import numpy as np

from tests.support.bridge_rig import drawn_bridge
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import (
    RenderedImage,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
    View,
    WorldSnapshot,
)
from vil_bridge.daemon.bridge import Bridge
from vil_renderer.flightgoggles.server import RenderedRequest

CONFIG = """
version: 1
name: seat
rooms:
  flight: {walls: {min_m: [-3, -2, 0], max_m: [3, 2, 3]}}
  stage: {T_world_room: {p_m: [4, 0, 0], ypr_deg: [90, 0, 0]}, margin_m: 0.25}
sources:
  mocap: {type: optitrack, room: flight, server: 127.0.0.1, command_port: 9}
  second: {type: optitrack, room: stage, server: 127.0.0.1, command_port: 9}
actors:
  drone: {kind: vehicle, source: mocap, subject: cf1, size_m: [0.3, 0.2, 0.1]}
  person: {kind: human, source: second, subject: Actor}
  unseen: {kind: prop, source: mocap, subject: gate}
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras:
  front: {renderer: drawn, width_px: 64, height_px: 48, rate_hz: 50,
      T_body_camera: {p_m: [1, 2, 3]}}
  plain: {renderer: drawn, width_px: 32, height_px: 24, rate_hz: 20, latency_compensation: none}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
record: {folder: "%s"}
realtime: {fifo_priority: 0}
"""
GRAY = 90
PERSON = SkeletonModel(
    "Actor", ("Hip", "Head"), (-1, 0), np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.7]])
)


def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
    """Flat gray."""
    due = (v for v in views if v.due)
    return RenderedRequest(
        tuple(
            RenderedImage(v, np.full((v.camera.height_px, v.camera.width_px, 3), GRAY, np.uint8))
            for v in due
        )
    )


def seat(folder: Path) -> AbstractAsyncContextManager[Bridge]:
    """The bridge at work."""
    return drawn_bridge(CONFIG % (folder / "recordings"), draw)


def film(bridge: Bridge, number: int, p_m: tuple[float, float, float]) -> None:
    """Both rooms' next frame: the drone there in its room, the person at its room's origin."""
    t_ns = now_ns()
    still = np.array([[0.0, 0.0, 0.0, 1.0]])
    bridge.context.world.ingest(
        SourceFrame(
            "mocap",
            number,
            None,
            t_ns,
            ("cf1",),
            np.array([p_m]),
            still,
            np.ones(1, dtype=np.bool_),
        )
    )
    bones_m = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.7]])
    human = SkeletonFrame(PERSON, bones_m, np.repeat(still, 2, axis=0), np.ones(2, dtype=np.bool_))
    nobody = np.empty((0, 3)), np.empty((0, 4)), np.empty(0, dtype=np.bool_)
    bridge.context.world.ingest(SourceFrame("second", number, None, t_ns, (), *nobody, (human,)))
