"""From the configuration over the renderer's wire to the reader.

Margins, lenses and pairs that are warped.
"""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

from tests.support.bridge_rig import bridge_with_camera
from tests.support.events import until
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.types import (
    CameraModel,
    ImageArray,
    Modality,
    RenderedImage,
    View,
    WorldSnapshot,
)
from vil_bridge.daemon.bridge import Bridge
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire


LENS = (
    "lens: {pinhole_px: [60, 61, 31, 24.5], distortion: plumb_bob, coefficients: [-0.25, "
    "0.05, 0.001, 0, 0]},"
    " latency_compensation: rotation, modalities: [gray]"
)


def pattern(width_px: int, height_px: int) -> ImageArray:
    v, u = np.mgrid[0:height_px, 0:width_px]
    return np.asarray((u * 2 + v + 20).astype(np.uint8))


class Studio:
    """Draws the pattern in the size that the wire asks for, and keeps the cameras."""

    def __init__(self) -> None:
        self.cameras: dict[str, CameraModel] = {}

    def __call__(self, views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        self.cameras |= {view.camera.name: view.camera for view in views}
        return RenderedRequest(tuple(RenderedImage(v, self._picture(v)) for v in views if v.due))

    def _picture(self, view: View) -> ImageArray:
        made = pattern(view.camera.width_px, view.camera.height_px)
        return made if view.modality is Modality.GRAY else np.full(made.shape, 2000, np.uint16)


async def frame_of(bridge: Bridge, camera: str, variant: str) -> Frame:
    with Receiver(
        bridge.context.hub.endpoint, camera=camera, variant=variant, modality="gray", encoding="raw"
    ) as receiver:
        async with asyncio.timeout(60):
            while (frame := await asyncio.to_thread(receiver.next, 0.2)) is None:
                pass
        return frame


async def test_a_pair_with_margin_is_rendered_wide_and_delivered_as_configured() -> None:
    studio = Studio()
    keys = (
        "latency_compensation: depth, modalities: [gray, depth], stereo_baseline_m: 0.2, "
        "margin_deg: 5"
    )
    async with bridge_with_camera(keys, studio, (64, 48)) as bridge:
        for name in ("front", "front_right"):
            raw = await frame_of(bridge, name, "raw")
            wide = next(
                camera for key, camera in studio.cameras.items() if key.split("/")[0] == name
            )
            across, along = (wide.width_px - 64) // 2, (wide.height_px - 48) // 2
            assert across > 2 and along > 2 and wide.pinhole_px is None
            assert raw.image.shape == (48, 64)
            expected = pattern(wide.width_px, wide.height_px)[
                along : along + 48, across : across + 64
            ]
            assert np.array_equal(raw.image, expected)
            f_px = 24.0 / math.tan(math.radians(35.0))
            assert raw.K is not None and np.allclose(
                raw.K, np.array([[f_px, 0, 31.5], [0, f_px, 23.5], [0, 0, 1]])
            )
            warped = await frame_of(bridge, name, "compensated")
            # Nothing moves: the warp shows the same, and the border is picture.
            assert np.abs(warped.image.astype(int) - expected).max() <= 1
            told = warped.metadata["compensation"]
            assert (
                told["method"] == "reproject"
                and told["margin_deg"] == 5.0
                and told["valid_fraction"] == 1.0
            )


async def test_a_lens_is_warped_from_an_ideal_picture() -> None:
    studio = Studio()
    async with bridge_with_camera(LENS, studio, (64, 48)) as bridge:
        raw = await frame_of(bridge, "front", "raw")
        warped = await frame_of(bridge, "front", "compensated")
        (drawn,) = studio.cameras.values()
        assert drawn.distortion is None and drawn.pinhole_px is None
        assert raw.image.shape == (48, 64) and raw.K is not None
        assert raw.K.tolist() == [[60, 0, 31], [0, 61, 24.5], [0, 0, 1]]
        assert raw.metadata["compensated"] is False and warped.metadata["compensated"] is True
        assert np.abs(raw.image.astype(int) - warped.image).max() <= 1, "nothing moves"
        # Where the optical axis is, the lens does nothing: the ideal picture's centre.
        _, _, cx, cy = drawn.intrinsics_px
        assert abs(int(raw.image[24, 31]) - (2 * cx + cy - 0.5 + 20)) <= 2
        assert raw.image.min() > 0, "the ideal picture holds all that the lens sees"


async def test_colour_is_warped_only_while_a_reader_wants_it() -> None:
    def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        return RenderedRequest(
            tuple(RenderedImage(v, np.stack([pattern(64, 48)] * 3, axis=2)) for v in views if v.due)
        )

    async with bridge_with_camera("modalities: [rgb]", draw, (64, 48)) as bridge:
        relay, endpoint = bridge.context.cameras["front"].relay, bridge.context.hub.endpoint

        def made() -> int:
            return 0 if relay.newest is None else relay.newest[1].ndim

        with Receiver(endpoint, color="gray", encoding="raw") as gray:
            await until(lambda: made() == 2 and gray.next(0.2) is not None)
            with Receiver(endpoint, color="rgb", encoding="raw") as colour:
                await until(
                    lambda: (frame := colour.next(0.2)) is not None and frame.image.ndim == 3
                )
                await until(lambda: made() == 3)  # set once the picture has left
            await until(lambda: made() == 2)
