"""Stereo pairs: one key makes two cameras, whose pictures belong to one instant and whose
disparity is f b / Z.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.support.bridge_rig import bridge_with_camera, build, read
from tests.support.common import needs_gl
from tests.support.events import until
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray, ImageArray, View, WorldSnapshot
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.daemon.cameras import CameraRunner
from vil_bridge.pipeline.assignment import Assigner
from vil_bridge.pipeline.camera import RunningDelay
from vil_bridge.pipeline.scheduler import Scheduler
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.flightgoggles.server import RenderedRequest

BASELINE_M = 0.32
WALL_M = 4.0
SIZE_PX = (320, 240)
FRAMES = 4
WALL = f"""
scene: a wall
environment: {{sky: [0.6, 0.6, 0.6], ground: [0.6, 0.6, 0.6], sun: null}}
objects:
  - name: wall
    box: {{size_m: [0.2, 12, 8]}}
    p_m: [{WALL_M + 0.1}, 0, -4]
    material: {{surface: wall_brick, tile_m: 2.3}}
"""
BRIDGE = """
version: 1
rooms: {flight: {}}
sources: {mocap: {type: optitrack, room: flight}}
actors: {drone: {kind: vehicle, source: mocap, subject: drone}}
renderers:
  a: {type: flightgoggles, pose_port: 0, image_port: 0}
  b: {type: flightgoggles, pose_port: 0, image_port: 0}
cameras:
  front: {%s}
  other: {renderer: a}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
"""
PAIR = "actor: drone, renderer: auto, latency_compensation: none, stereo_baseline_m: 0.32"


class Studio:
    """The embedded renderer before a wall; made in the thread that draws, as OpenGL wants it."""

    def __init__(self, scene: Path) -> None:
        self._scene = scene
        self._renderer: EmbeddedRenderer | None = None

    def __call__(self, views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        if self._renderer is None:
            self._renderer = EmbeddedRenderer(self._scene)
        return RenderedRequest(self._renderer.render(views, snapshot))


async def frames_of(
    bridge: Bridge, camera: str, found: dict[int, Frame], enough: asyncio.Event
) -> dict[str, Any]:
    """Collect frames by id until ``enough``; what the reader is told about the camera."""
    with Receiver(
        bridge.context.hub.endpoint, camera=camera, variant="raw", color="gray", encoding="raw"
    ) as receiver:
        while not enough.is_set():
            frame = await asyncio.to_thread(receiver.next, 0.1)
            if frame is not None:
                found[frame.frame_id] = frame
        return receiver.camera_info


def disparities(left: ImageArray, right: ImageArray) -> FloatArray:
    """Measured in the pictures.

    Left x minus right x, and how far rows differ, of well tracked corners (n, 2).
    """
    lucas_kanade: Any = partial(
        cv2.calcOpticalFlowPyrLK, nextPts=None, winSize=(21, 21), maxLevel=4
    )
    corners: Any = cv2.goodFeaturesToTrack(left, 200, 0.01, 7)
    corners = corners[corners[:, 0, 0] > 60]  # what is farther left is not in the right picture
    moved, found, _ = lucas_kanade(left, right, corners)
    back, again, _ = lucas_kanade(right, left, moved)
    good = (found * again)[:, 0].astype(bool) & (np.linalg.norm(back - corners, axis=2)[:, 0] < 0.1)
    difference: FloatArray = (corners - moved)[good, 0].astype(np.float64)
    return difference


@pytest.mark.wire
@pytest.mark.gl
async def test_disparity_through_bridge_and_renderer_is_f_b_over_z(tmp_path: Path) -> None:
    needs_gl()
    scene = tmp_path / "wall.yaml"
    scene.write_text(WALL)
    pair = f"latency_compensation: none, stereo_baseline_m: {BASELINE_M}"
    async with bridge_with_camera(pair, Studio(scene), SIZE_PX) as bridge:
        left: dict[int, Frame] = {}
        right: dict[int, Frame] = {}
        enough = asyncio.Event()
        readers = [
            asyncio.create_task(frames_of(bridge, name, found, enough))
            for name, found in (("front", left), ("front_right", right))
        ]
        await until(lambda: len(left.keys() & right.keys()) >= FRAMES)
        enough.set()
        told, told_right = await asyncio.gather(*readers)

    assert (
        told["stereo"]
        == told_right["stereo"]
        == {"left": "front", "right": "front_right", "baseline_m": BASELINE_M}
    )
    assert told_right["T_body_camera"]["p_m"] == pytest.approx((0.0, -BASELINE_M, 0.0))
    together = sorted(left.keys() & right.keys())
    for number in together:
        one, two = left[number], right[number]
        assert one.t_bridge_ns == two.t_bridge_ns
        assert one.K is not None and two.K is not None and np.array_equal(one.K, two.K)
        assert one.pose_display is not None and two.pose_display is not None
        apart = two.pose_display.p_m - one.pose_display.p_m
        assert apart == pytest.approx((0.0, -BASELINE_M, 0.0), abs=1e-12)
    one, two = left[together[-1]], right[together[-1]]
    assert one.K is not None
    measured = disparities(np.ascontiguousarray(one.image), np.ascontiguousarray(two.image))
    assert len(measured) > 60
    expected = one.K[0, 0] * BASELINE_M / WALL_M
    assert expected == pytest.approx(120.0 / math.tan(math.radians(35.0)) * 0.08)
    errors = measured - (expected, 0.0)
    assert np.abs(np.median(errors, axis=0)).max() < 0.05
    assert np.percentile(np.abs(errors).max(axis=1), 90) < 0.1


def test_the_right_camera_is_moved_along_the_images_x() -> None:
    config = read(
        BRIDGE % (PAIR + ", T_body_camera: {p_m: [0.1, 0.02, 0.3], ypr_deg: [30, 20, 10]}")
    )
    cameras = config.every_camera()
    assert list(cameras) == ["front", "front_right", "other"]
    assert [config.left_of(name) for name in cameras] == ["", "front", ""]
    T_left, T_right = (cameras[name].T_body_camera.transform() for name in ("front", "front_right"))
    between = T_left.inverse() @ T_right  # axes: x ahead, y left, z up
    assert between.p_m == pytest.approx((0.0, -0.32, 0.0), abs=1e-12)
    assert np.abs(between.q_xyzw) == pytest.approx((0.0, 0.0, 0.0, 1.0), abs=1e-12)


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        (
            PAIR + "}\n  front_right: {renderer: a",
            r"stereo_baseline_m: the right camera .* 'front_right', as another",
        ),
        (PAIR.replace("0.32", "0"), "stereo_baseline_m: .*greater than 0"),
    ],
)
def test_pairs_that_cannot_be_are_refused(front: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read(BRIDGE % front)


class Restless(RunningDelay):
    """A delay that a relay thread changes between any two looks at it."""

    @property
    def value_ns(self) -> int:
        self.add(super().value_ns + 1_000_000)
        return super().value_ns


@pytest.mark.wire
async def test_both_cameras_are_asked_for_one_instant_while_the_delay_is_measured() -> None:
    bridge = build(BRIDGE % PAIR)
    cameras = [bridge.context.cameras[name].camera for name in ("front", "front_right")]
    assert cameras[0].delay is cameras[1].delay
    delay = Restless(30_000_000)
    cameras = [replace(camera, delay=delay) for camera in cameras]
    scheduler = Scheduler(
        bridge.context.pool.renderers["a"],
        cameras,
        bridge.context.world,
        lambda _c: True,
        lambda _c, _t: None,
    )
    for i in range(3):
        left, right = scheduler.build(1_000_000_000 * (i + 1), (True, True)).views
        assert left.t_pose_ns == right.t_pose_ns
        expected = (left.T_world_camera.inverse() @ right.T_world_camera).p_m
        assert expected == pytest.approx((BASELINE_M, 0.0, 0.0), abs=1e-12)
    close(bridge)


@pytest.mark.wire
async def test_a_pair_is_never_torn_apart() -> None:
    bridge = build(BRIDGE % PAIR)
    preferences = {
        name: path.preference(bridge.context.config)
        for name, path in bridge.context.cameras.items()
    }
    close(bridge)
    assert (preferences["front_right"].stereo_left, preferences["front"].stereo_left) == (
        "front",
        "",
    )
    cost_ns = {"a": 8e6, "b": 8e6}
    assigner = Assigner(preferences)
    homes = []
    for step, working in enumerate(({"a", "b"}, {"b"}, {"a", "b"}, {"a"}, {"a", "b"}), 1):
        for tick in range(200):
            t_ns = (step * 200 + tick) * 100_000_000
            assigner.update(t_ns, working, lambda _camera, renderer: cost_ns[renderer])
            place = assigner.place_of("front")
            assert assigner.place_of("front_right") == place
            both = {"front", "front_right"} & set(assigner.cameras_of(place.renderer))
            assert both == {"front", "front_right"}
        homes.append(place.renderer)
    assert homes == ["b", "b", "b", "a", "b"], (
        "renderer a has the other camera: the pair costs twice as much"
    )


def close(bridge: Bridge) -> None:
    """Release what a bridge that never ran holds."""
    for path in bridge.context.cameras.values():
        assert isinstance(path, CameraRunner)
        path.relay.close()
        path.sink.close()
    for renderer in bridge.context.pool.renderers.values():
        renderer.close()
    bridge.http.stop()
