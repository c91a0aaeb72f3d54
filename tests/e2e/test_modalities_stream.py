"""Every kind of picture from the renderer to the reader on the vehicle, exactly."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.support.bridge_rig import bridge_with_camera
from tests.support.common import PATIENCE_S
from tests.support.events import until
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.types import ImageArray, Modality, RenderedImage, View, WorldSnapshot
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire


ALL = f"modalities: [{', '.join(Modality)}]"
LENS = (
    "lens: {pinhole_px: [30.5, 31.25, 15.0, 12.25], distortion: plumb_bob, coefficients: "
    "[-0.2, 0.05, 0.001, 0, 0]}"
)


def picture(modality: Modality) -> ImageArray:
    form = FORMAT_OF[modality]
    shape = form.shape(32, 24)
    return (np.arange(np.prod(shape)).reshape(shape) % 250 + 3).astype(form.dtype)


@dataclass
class Studio:
    """The renderer; ``drawn_ns`` are the instants that it drew, in order."""

    drawn_ns: list[int] = field(default_factory=list)

    def __call__(self, views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        known = picture(Modality.GRAY) % 3 > 0
        due = [view for view in views if view.due]
        self.drawn_ns += [view.t_pose_ns for view in due[:1]]
        return RenderedRequest(
            tuple(
                RenderedImage(
                    v, picture(v.modality), known if v.modality is Modality.FLOW else None
                )
                for v in due
            )
        )


async def first_frame(bridge: Bridge, modality: str, **wish: Any) -> tuple[Frame, dict[str, Any]]:
    with Receiver(bridge.context.hub.endpoint, modality=modality, **wish) as receiver:
        frame = await another(receiver)
        assert receiver.counters["malformed"] == 0
        return frame, receiver.camera_info


async def first_flow(bridge: Bridge, studio: Studio, **wish: Any) -> tuple[Frame, dict[str, Any]]:
    """Return a flow picture whose predecessor was delivered too: it looks back to that one."""
    with Receiver(bridge.context.hub.endpoint, modality="flow", queue=1000, **wish) as receiver:
        before, frame = await another(receiver), await another(receiver)
        while (before.metadata["t_render_ns"], frame.metadata["t_render_ns"]) not in pairwise(
            studio.drawn_ns
        ):
            before, frame = frame, await another(receiver)
        assert receiver.counters["malformed"] == 0
        return frame, receiver.camera_info


async def another(receiver: Receiver) -> Frame:
    async with asyncio.timeout(PATIENCE_S):
        frame = None
        while frame is None:
            frame = await asyncio.to_thread(receiver.next, 0.2)
    return frame


async def refusal(bridge: Bridge, modality: str, **wish: Any) -> str:
    with Receiver(bridge.context.hub.endpoint, modality=modality, **wish) as receiver:
        await until(lambda: receiver.problem.startswith(("camera", modality)))
        return receiver.problem


async def test_raw_pictures_of_every_modality_arrive_exactly() -> None:
    studio = Studio()
    async with bridge_with_camera(f"latency_compensation: none, {ALL}", studio) as bridge:
        for modality in Modality:
            wish = {"variant": "raw", "color": "rgb", "encoding": "raw"}
            flows = modality is Modality.FLOW
            frame, info = await (
                first_flow(bridge, studio, **wish)
                if flows
                else first_frame(bridge, modality, **wish)
            )
            expected = picture(modality)
            assert frame.image.dtype == FORMAT_OF[modality].dtype
            if flows:
                unknown = picture(Modality.GRAY) % 3 == 0
                assert np.isnan(frame.image[unknown]).all()
                assert np.array_equal(frame.image[~unknown], expected[~unknown])
            else:
                assert np.array_equal(frame.image, expected)
            assert frame.metadata["format"] == FORMAT_OF[modality].name
            assert info["modalities"] == {str(m): ["raw"] for m in Modality}
        await until(lambda: bridge.context.cameras["front"].preview_jpeg() is not None)


async def test_every_modality_is_offered_compensated() -> None:
    studio = Studio()
    async with bridge_with_camera(ALL, studio) as bridge:
        for modality in Modality:
            wish = {"color": "rgb", "encoding": "raw"}
            flows = modality is Modality.FLOW
            frame, _ = await (
                first_flow(bridge, studio, **wish)
                if flows
                else first_frame(bridge, modality, **wish)
            )
            # The camera stands still: the warp must change nothing, ids and alpha least of all.
            expected = picture(modality)
            if flows:
                unknown = picture(Modality.GRAY) % 3 == 0
                assert np.isnan(frame.image[unknown]).all()
                np.testing.assert_allclose(frame.image[~unknown], expected[~unknown], atol=1e-3)
            else:
                assert np.array_equal(frame.image, expected)
            assert frame.metadata["compensated"] is True
            assert frame.metadata["compensation"]["method"] == "homography"
        assert "is sent as encoding 'raw' only" in await refusal(
            bridge, "semantic", encoding="jpeg"
        )


async def test_readers_are_told_the_lens() -> None:
    async with bridge_with_camera(f"latency_compensation: none, {LENS}", Studio()) as bridge:
        frame, info = await first_frame(bridge, "rgb", variant="raw")
        assert [info[key] for key in ("fx", "fy", "cx", "cy")] == [30.5, 31.25, 15.0, 12.25]
        assert info["distortion"] == {
            "model": "plumb_bob",
            "coefficients": [-0.2, 0.05, 0.001, 0.0, 0.0],
        }
        assert frame.K is not None and frame.K.tolist() == [
            [30.5, 0, 15.0],
            [0, 31.25, 12.25],
            [0, 0, 1],
        ]


async def test_a_lost_carrier_has_empty_pictures_of_every_kind() -> None:
    async with bridge_with_camera(f"latency_compensation: rotation, {ALL}", Studio()) as bridge:
        relay = bridge.context.cameras["front"].relay
        relay.offer_blank(1)
        kinds = {f"{m}/{variant}" for m in Modality for variant in ("raw", "compensated")}
        await until(lambda: set(relay.delivered) == kinds)
        assert bridge.context.pool.failed is None
