"""Real cameras from the configuration over the renderer's wire to the reader."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from tests.support.bridge_rig import bridge_with_camera
from tests.support.common import PATIENCE_S
from tests.support.render import linear
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.types import (
    DEPTH_NO_HIT,
    DEPTH_UNITS_PER_M,
    Modality,
    RenderedImage,
    View,
    WorldSnapshot,
)
from vil_bridge.daemon.bridge import Bridge
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire

WIDTH_PX, HEIGHT_PX = 160, 120


def even(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
    """Draw a gray wall 2 m ahead."""
    made = []
    for view in views:
        shape = view.camera.height_px, view.camera.width_px
        if view.modality is Modality.DEPTH:
            pixels = np.full(shape, round(2.0 * DEPTH_UNITS_PER_M), np.uint16)
        else:
            pixels = np.full(
                shape if view.modality is Modality.GRAY else (*shape, 3), 110, np.uint8
            )
        made.append(RenderedImage(view, pixels))
    return RenderedRequest(tuple(made))


async def frames(bridge: Bridge, count: int, **wish: Any) -> list[Frame]:
    with Receiver(bridge.context.hub.endpoint, encoding="raw", **wish) as receiver:
        got: list[Frame] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(got) < count:
                if (frame := await asyncio.to_thread(receiver.next, 0.2)) is not None:
                    got.append(frame)
        return got


@pytest.mark.parametrize("variant", ["raw", "compensated"])
async def test_a_global_shutter_camera_delivers_noisy_well_exposed_pictures(variant: str) -> None:
    keys = "preset: rpi_global_shutter"
    async with bridge_with_camera(keys, even, (WIDTH_PX, HEIGHT_PX)) as bridge:
        one, other = await frames(bridge, 2, variant=variant, modality="rgb", color="rgb")
    assert one.image.shape == (HEIGHT_PX, WIDTH_PX, 3)
    middle = linear(one.image)[40:80, 50:110]
    assert middle.mean() == pytest.approx(0.18, rel=0.1)
    # Shot noise of the green pixels of a Bayer mosaic, where no pixel is interpolated or four are.
    shot = 1.0 / math.sqrt(0.18 * 10_500.0)
    relative = middle[..., 1].std() / middle[..., 1].mean()
    assert 0.4 * shot < relative < 1.6 * shot
    assert not np.array_equal(one.image, other.image), "the noise stands still"


async def test_a_depth_camera_delivers_the_noise_of_its_data_sheet() -> None:
    keys = "preset: d435_depth"
    async with bridge_with_camera(keys, even, (WIDTH_PX, HEIGHT_PX)) as bridge:
        (frame,) = await frames(bridge, 1, variant="compensated", modality="depth")
    depth = frame.image
    seen = depth < DEPTH_NO_HIT
    assert frame.K is not None
    f_px = float(frame.K[0, 0])
    left_px = math.ceil(f_px * 0.05 / 2.0) + 1
    assert seen[:, left_px:].mean() > 0.99 and not seen[:, 0].any()
    spread_m = float((depth[seen] / DEPTH_UNITS_PER_M).std())
    assert spread_m == pytest.approx(4.0 * 0.08 / (f_px * 0.05), rel=0.06)
