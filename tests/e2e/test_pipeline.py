"""From camera tick to delivered picture.

A whole bridge in this process, a renderer and a client on real sockets.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AbstractAsyncContextManager
from itertools import pairwise

import numpy as np
import pytest

from tests.support.bridge_rig import drawn_bridge
from tests.support.common import wait_until_most
from tests.support.events import until
from tests.support.stream_rig import first
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.types import ImageArray, Landmark, Modality, RenderedImage, View, WorldSnapshot
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.daemon.snapshots import camera_points
from vil_bridge.web.live.codec import LivePreview, decode_live
from vil_bridge.web.live.previews import picture_message
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire


_CONFIG = """
version: 1
rooms: {lab: {}}
sources: {imu: {type: mavlink-imu, device: /nowhere, room: lab}}
actors: {drone: {kind: vehicle, source: imu, subject: drone, tracking: {on_loss: blank}}}
renderers: {unity: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: %s
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""
_FIXED = "{front: {renderer: unity, width_px: 64, height_px: 48, rate_hz: 50, collision: true, %s}}"


class _Studio:
    """A renderer whose pictures are a vertical ramp, bright at the top.

    Counts the views it was asked for.
    """

    def __init__(self, draw_s: float = 0.0) -> None:
        self.asked: Counter[str] = Counter()
        self.lists: set[tuple[str, ...]] = set()
        self._draw_s = draw_s

    def draw(self, views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        self.lists.add(tuple(v.key for v in views))
        due = [v for v in views if v.due]
        self.asked.update(v.key for v in due)
        time.sleep(self._draw_s)
        beacon = Landmark("Gate1_1", 10.0, 20.0, 3.0)
        pictures = tuple(RenderedImage(v, _ramp(v)) for v in due)
        return RenderedRequest(pictures, collision=True, landmarks=(beacon,), range_m=1.5)


def _ramp(view: View) -> ImageArray:
    height, width = view.camera.height_px, view.camera.width_px
    if view.modality is Modality.DEPTH:
        return np.full((height, width), 5 * 655, np.uint16)
    rows = np.linspace(250, 10, height).astype(np.uint8)
    return np.broadcast_to(rows[:, None, None], (height, width, 3)).copy()


def _bridge(cameras: str, studio: _Studio) -> AbstractAsyncContextManager[Bridge]:
    return drawn_bridge(_CONFIG % cameras, studio.draw)


def _check_rates(bridge: Bridge, studio: _Studio, fast_hz: int, slow_hz: int) -> None:
    """Pictures were due at these rates.

    Drawn, or skipped by the bridge or the renderer on a busy machine.
    """
    fast, slow = (
        studio.asked[name] + bridge.context.pool.skipped(name).total() for name in ("fast", "slow")
    )
    passed_over = bridge.context.pool.renderers["unity"].status.counters["skipped"]
    assert abs(slow_hz * fast - fast_hz * slow) <= fast_hz * (2 + passed_over), (
        fast,
        slow,
        passed_over,
    )


async def _take(receiver: Receiver, count: int) -> list[Frame]:
    frames: list[Frame] = []
    while len(frames) < count:
        frame = await asyncio.to_thread(receiver.next, 1.0)
        if frame is not None:
            frames.append(frame)
    return frames


def _received_after_sent(receiver: Receiver) -> bool:
    """Read a picture, whose stamp of receipt passed through the client's estimate of the clock."""
    frame = first(receiver)
    return bool(frame.stamps["received"] > frame.stamps["send"] - frame.clock_uncertainty_ns)


async def test_pictures_arrive_upright_with_every_stamp_in_order() -> None:
    async with _bridge(_FIXED % "latency_compensation: none", _Studio()) as bridge:
        with Receiver(bridge.context.hub.endpoint, variant="raw") as receiver:
            frames = await _take(receiver, 20)
            await asyncio.to_thread(wait_until_most, lambda: _received_after_sent(receiver))
        stages = ("request", "image", "warp", "encode", "send", "received")
        for frame in frames[5:]:
            assert int(frame.image[0, 0]) > 200 > 60 > int(frame.image[-1, 0])
            stamps = [frame.stamps[stage] for stage in stages]
            assert stamps[:-1] == sorted(stamps[:-1])
            assert frame.metadata["collision"] is True
            assert frame.metadata["range_m"] == 1.5
            assert frame.metadata["compensated"] is False
            assert frame.tracking_state == "fixed"
        ids = [f.frame_id for f in frames]
        assert ids == sorted(set(ids))
        view = bridge.snapshot().cameras["front"]
        assert view.latency["request_to_image"].since_start.count >= 20
        snapshot = bridge.snapshot
        await until(
            lambda: snapshot().cameras["front"].latency["send_to_received"].since_start.count >= 10
        )
        assert view.collision is True
        assert [(b.name, round(b.u_px), round(b.v_px)) for b in view.landmarks] == [
            ("Gate1_1", 10, 20)
        ]
        assert bridge.context.cameras["front"].preview_jpeg() is not None


async def test_status_and_preview_follow_the_renderer_without_any_reader() -> None:
    async with _bridge(_FIXED % "latency_compensation: homography", _Studio()) as bridge:
        while bridge.snapshot().cameras["front"].frames["received"] < 5:
            await asyncio.sleep(0.02)
        await until(lambda: (bridge.snapshot().cameras["front"].age_s or 9.0) < 1.0)
        view = bridge.snapshot().cameras["front"]
        assert view.range_m == 1.5
        assert bridge.context.cameras["front"].preview_jpeg() is not None
        assert not view.frames.get("rgb/raw")


async def test_artificial_delay_shifts_pictures_without_thinning_them() -> None:
    async with _bridge(
        _FIXED % "latency_compensation: none, artificial_delay_ms: 120", _Studio()
    ) as bridge:
        with Receiver(bridge.context.hub.endpoint, variant="raw") as receiver:
            frames = await _take(receiver, 60)
        delays = [f.stamps["warp"] - f.stamps["image"] for f in frames]
        assert min(delays) >= 120_000_000
        # A delay line and not a pause: pictures are asked for while others before them wait.
        waiting = [b.stamps["request"] < a.stamps["warp"] for a, b in pairwise(frames)]
        assert sum(waiting) > len(waiting) / 2


async def test_too_old_pictures_are_dropped_and_counted() -> None:
    studio = _Studio(draw_s=0.08)
    async with _bridge(_FIXED % "latency_compensation: none, max_age_ms: 50", studio) as bridge:
        with Receiver(bridge.context.hub.endpoint, variant="raw") as receiver:
            relay = bridge.context.cameras["front"].relay
            while relay.dropped["too_old"] < 5:
                await asyncio.sleep(0.02)
            assert receiver.counters["received"] == 0
        assert bridge.snapshot().cameras["front"].dropped["too_old"] >= 5


async def test_cameras_share_a_message_and_keep_their_own_rates() -> None:
    studio = _Studio()
    cameras = """
  fast: {renderer: unity, width_px: 64, height_px: 48, rate_hz: 40, latency_compensation: none,
         modalities: [rgb, depth]}
  slow: {renderer: unity, width_px: 64, height_px: 48, rate_hz: 10, latency_compensation: none}"""
    async with _bridge(cameras, studio) as bridge:
        with Receiver(bridge.context.hub.endpoint, "fast", "depth", variant="raw") as receiver:
            frames = await _take(receiver, 60)
        assert np.unique(frames[-1].image).tolist() == [5 * 655]
    assert studio.lists == {("fast", "fast/depth", "slow")}
    assert studio.asked["fast"] == studio.asked["fast/depth"]
    _check_rates(bridge, studio, fast_hz=4, slow_hz=1)


async def test_rates_need_not_divide_each_other_and_beacons_belong_to_the_first_camera() -> None:
    studio = _Studio()
    cameras = """
  fast: {renderer: unity, width_px: 64, height_px: 48, rate_hz: 40, latency_compensation: none}
  slow: {renderer: unity, width_px: 64, height_px: 48, rate_hz: 30, latency_compensation: none}"""
    async with _bridge(cameras, studio) as bridge:
        with Receiver(bridge.context.hub.endpoint, "slow", variant="raw") as receiver:
            frames = await _take(receiver, 60)
        assert frames[-1].metadata["landmarks"] == []
        assert frames[-1].metadata["range_m"] is None
        assert frames[-1].metadata["collision"] is None  # not asked for
        assert bridge.snapshot().cameras["fast"].range_m == 1.5
    _check_rates(bridge, studio, fast_hz=4, slow_hz=3)


async def test_a_reader_is_told_which_variants_a_camera_has() -> None:
    async with _bridge(_FIXED % "latency_compensation: none", _Studio()) as bridge:
        with Receiver(bridge.context.hub.endpoint) as receiver:
            while "raw" not in receiver.problem:
                await asyncio.sleep(0.02)
            assert "no 'compensated' rgb, only raw" in receiver.problem


async def test_a_lost_carrier_gives_black_pictures_that_say_so() -> None:
    studio = _Studio()
    camera = (
        "{front: {actor: drone, renderer: unity, width_px: 64, height_px: 48, rate_hz: 50, "
        "modalities: [gray, depth]}}"
    )
    async with _bridge(camera, studio) as bridge:
        for modality, shown in (("gray", 0), ("depth", 65535)):
            for variant in ("compensated", "raw"):
                with Receiver(
                    bridge.context.hub.endpoint, modality=modality, variant=variant
                ) as receiver:
                    frames = await _take(receiver, 3)
                for frame in frames:
                    assert frame.tracking_state == "lost"
                    assert frame.metadata["blank"] is True
                    assert np.unique(frame.image).tolist() == [shown]
        assert bridge.snapshot().cameras["front"].dropped["tracking_lost"] >= 5
        newest = bridge.context.cameras["front"].relay.newest
        assert newest is not None
        preview = decode_live(picture_message(newest[0], newest[1]))
        assert isinstance(preview, LivePreview)
        assert preview.header["blank"] is True
        assert bridge.context.cameras["front"].preview_jpeg() is None, (
            "a black picture says nothing"
        )
        assert bridge.reporter.summary_status()["actors"] == {"drone": "lost"}
        view, point = bridge.snapshot().cameras["front"], camera_points(bridge.context)["front"]
        assert view.problem.startswith("actor drone is lost")
        assert (view.age_s, point.picture_age_s) == (None, None), "black pictures have no age"
    assert not studio.asked
