"""A simulated world waits for its pictures.

A slow renderer skips none, and a dead one holds nobody up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.support.bridge_rig import build, drawn_bridge, running
from tests.support.events import until
from tests.support.flightgoggles import ports, server
from vil_bridge.core.bridge_time import REAL_TIME, machine_ns, now_ns
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import (
    RenderedImage,
    RenderRequest,
    SourceEvent,
    SourceFrame,
    View,
    WorldSnapshot,
)
from vil_bridge.daemon import readiness
from vil_bridge.world.world import World
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire


CONFIG = """
version: 1
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {actor: world, renderer: drawn, width_px: 32, height_px: 24, rate_hz: 50,
    latency_compensation: none}}
simulation: {clock: simulated, wait_for_cameras: true}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""
NOMINAL_NS = NS_PER_S // 50


class SlowPencil:
    """Draws grey pictures, each taking four periods of the camera."""

    def __init__(self) -> None:
        self.duration_s = 4 * NOMINAL_NS / NS_PER_S
        self.t_pose_ns: list[int] = []

    def __call__(self, views: Sequence[View], snapshot: WorldSnapshot) -> RenderedRequest:
        time.sleep(self.duration_s)
        self.t_pose_ns += [view.t_pose_ns for view in views[:1]]
        pixels = np.arange(32 * 24 * 3, dtype=np.uint8).reshape(24, 32, 3)
        return RenderedRequest(tuple(RenderedImage(view, pixels) for view in views))


def write(tmp_path: Path) -> Path:
    path = tmp_path / "bridge.yaml"
    path.write_text(CONFIG)
    return path


async def test_every_picture_comes_in_simulated_time(tmp_path: Path) -> None:
    pencil = SlowPencil()
    async with drawn_bridge(write(tmp_path), pencil) as bridge:
        await until(lambda: len(pencil.t_pose_ns) > 8)
        skipped = bridge.context.pool.skipped("front")
        first, begun_ns, t_ns = len(pencil.t_pose_ns), machine_ns(), now_ns()
        await until(lambda: len(pencil.t_pose_ns) >= first + 30)
        drawn, simulated_ns, real_ns = (
            len(pencil.t_pose_ns) - first,
            now_ns() - t_ns,
            machine_ns() - begun_ns,
        )
        assert bridge.context.pool.skipped("front") == skipped
        # One may be under way; all others were drawn, one each period of simulated time.
        assert abs(drawn - simulated_ns / NOMINAL_NS) <= 2.0
        assert simulated_ns < 0.35 * real_ns
        assert 0.0 < bridge.context.simulation.state().reached < 1.0
    assert bridge.context.simulation.clock.mapping == REAL_TIME


async def test_a_picture_waits_for_the_poses_of_its_instant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not what the pictures show, which is later by the delay: long on a busy computer.
    asked_ns: list[int] = []
    request = FlightGogglesClient.request

    def noting(client: FlightGogglesClient, one: RenderRequest) -> None:
        asked_ns.append(one.t_request_ns)
        request(client, one)

    monkeypatch.setattr(FlightGogglesClient, "request", noting)
    pencil = SlowPencil()
    pencil.duration_s = 0.0
    async with drawn_bridge(write(tmp_path), pencil) as bridge:
        await until(lambda: len(pencil.t_pose_ns) > 8)
        clock, vehicles = bridge.context.simulation.clock, object()
        # From here on time waits, however late this process goes on.
        clock.report(vehicles, now_ns())
        reported_ns = now_ns() + 5 * NOMINAL_NS
        clock.report(vehicles, reported_ns)
        await until(
            lambda: now_ns() >= reported_ns and bridge.context.simulation.state().reached == 0.0
        )
        assert now_ns() < reported_ns + NOMINAL_NS, (
            "time stands at the first picture that cannot be drawn"
        )
        assert reported_ns - NOMINAL_NS <= max(asked_ns) < reported_ns
        clock.report(vehicles, reported_ns + 3 * NOMINAL_NS)
        await until(lambda: max(asked_ns) >= reported_ns)
        clock.unbound(vehicles)
        await until(lambda: max(pencil.t_pose_ns) > reported_ns + 6 * NOMINAL_NS)


async def test_poses_that_come_late_do_not_keep_a_renderer_from_its_start(tmp_path: Path) -> None:
    pencil = SlowPencil()
    pencil.duration_s = 0.0
    bridge, vehicles = build(write(tmp_path)), object()
    (client,) = bridge.context.pool.renderers.values()
    assert isinstance(client, FlightGogglesClient)
    clock = bridge.context.simulation.clock
    clock.report(vehicles, 1)  # as of vehicles that are always behind a world without bounds
    async with running(bridge):
        with server(ports(client), pencil):
            await until(lambda: client.status.report().state == "running")
            await until(lambda: bridge.context.simulation.state().reached == 0.0)
            (camera,) = bridge.context.cameras.values()
            assert not camera.relay.rendered, "what it shows is not reported"
            clock.report(vehicles, now_ns() + NS_PER_S)
            await until(lambda: len(pencil.t_pose_ns) > 8)


async def test_time_goes_on_when_the_renderer_is_gone(tmp_path: Path) -> None:
    pencil = SlowPencil()
    async with drawn_bridge(write(tmp_path), pencil) as bridge:
        await until(lambda: len(pencil.t_pose_ns) > 3)
        pencil.duration_s = 3.0
        await until(lambda: bridge.context.simulation.state().reached == 0.0)
        held_ns = now_ns()
        (client,) = bridge.context.pool.renderers.values()
        await until(lambda: client.status.report().state != "running")
        await until(lambda: now_ns() > held_ns + NOMINAL_NS)
        pencil.duration_s = 0.0


FLIGHT = CONFIG.replace("actor: world", "actor: drone") + (
    "rooms: {hall: {}}\n"
    "sources:\n"
    "  sim:\n"
    "    type: simulated\n"
    "    room: hall\n"
    "    vehicles:\n"
    "      drone: {model: flightgoggles, autopilot: {kind: circle}, wind: {gusts_mps: "
    "3.0}, imu: {preset: mpu6000}}\n"
    "actors: {drone: {kind: vehicle, source: sim, subject: drone, imu: sim/drone}}\n"
)


async def flown(
    path: Path, pencil: SlowPencil, monkeypatch: pytest.MonkeyPatch
) -> dict[int, bytes]:
    """Poses of the first second, by their simulated time since the first."""
    poses: list[tuple[int, bytes]] = []
    ingest = World.ingest

    def noting(world: World, event: SourceEvent) -> None:
        if isinstance(event, SourceFrame) and event.t_foreign_ns is not None:
            poses.append((event.t_foreign_ns, event.p_m.tobytes() + event.q_xyzw.tobytes()))
        ingest(world, event)

    monkeypatch.setattr(World, "ingest", noting)
    async with drawn_bridge(path, pencil) as bridge:
        # Until its first answer nobody waits for a renderer.
        await until(lambda: len(pencil.t_pose_ns) > 8)
        skipped, drawn, t_ns = bridge.context.pool.skipped("front"), len(pencil.t_pose_ns), now_ns()
        await until(lambda: len(poses) > 1 and poses[-1][0] - poses[0][0] >= NS_PER_S)
        assert bridge.context.pool.skipped("front") == skipped
        # One picture each period of simulated time; one may be under way.
        assert abs(len(pencil.t_pose_ns) - drawn - (now_ns() - t_ns) / NOMINAL_NS) <= 2.0
    monkeypatch.setattr(World, "ingest", ingest)
    return {t_ns - poses[0][0]: pose for t_ns, pose in poses if t_ns - poses[0][0] <= NS_PER_S}


async def test_a_flight_is_the_same_however_slow_the_renderer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bridge.yaml"
    path.write_text(FLIGHT)
    slow, quick = SlowPencil(), SlowPencil()
    quick.duration_s = 0.0
    slowed = await flown(path, slow, monkeypatch)
    unslowed = await flown(path, quick, monkeypatch)
    both = slowed.keys() & unslowed.keys()
    assert len(both) >= 150  # 200 a second, but for those that a busy moment dropped
    assert all(slowed[t_ns] == unslowed[t_ns] for t_ns in both)


async def test_a_world_that_waits_in_vain_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "_LONGEST_WAIT_NS", NS_PER_S // 2)
    left_out = set[str]()

    def draw(views: Sequence[View], _snapshot: WorldSnapshot) -> RenderedRequest:
        pixels = np.arange(32 * 24 * 3, dtype=np.uint8).reshape(24, 32, 3)
        return RenderedRequest(
            tuple(RenderedImage(view, pixels) for view in views if view.camera.name not in left_out)
        )

    path = write(tmp_path)
    begins = CONFIG.index("cameras: {")
    front = CONFIG[begins : CONFIG.index("}}", begins) + 2]
    path.write_text(
        CONFIG.replace(
            front, front[:-1] + front.removeprefix("cameras: {").replace("front", ", side")
        )
    )
    async with drawn_bridge(path, draw) as bridge:
        await until(lambda: not bridge.readiness.reasons())
        left_out.add("side")
        await until(
            lambda: any("has waited for a picture" in text for text in bridge.readiness.reasons())
        )
        assert all(text.startswith("camera side: ") for text in bridge.readiness.reasons())
        left_out.clear()
        await until(lambda: not bridge.readiness.reasons())
