"""A camera that moves actors in its warp asks its renderer for ids, and offers them to no
reader.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
import pytest

from tests.support.bridge_rig import bridge_with_camera
from tests.support.events import until
from vil_bridge.client import Receiver
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire

_CAMERA = "modalities: [rgb, depth], latency_compensation: depth, moving_actors: true"


async def test_ids_are_drawn_for_the_warp_alone() -> None:
    asked: Counter[str] = Counter()

    random = np.random.default_rng(1)

    def picture(view: View) -> RenderedImage:
        form = FORMAT_OF[view.modality]
        shape = form.shape(view.camera.width_px, view.camera.height_px)
        return RenderedImage(view, random.integers(1, 255, shape).astype(form.dtype))

    def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        due = [view for view in views if view.due]
        asked.update(view.key for view in due)
        return RenderedRequest(tuple(map(picture, due)))

    async with bridge_with_camera(_CAMERA, draw) as bridge:
        with Receiver(bridge.context.hub.endpoint) as receiver:
            frame = None
            while frame is None:
                frame = await asyncio.to_thread(receiver.next, 1.0)
            assert (
                frame.compensation["moved_actors"] == [] and frame.compensation["fallback"] is None
            )
        with Receiver(bridge.context.hub.endpoint, modality="instance") as receiver:
            await until(lambda: "instance" in receiver.problem)
    assert asked["front/instance"] == asked["front"] > 0
