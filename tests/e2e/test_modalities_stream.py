"""Every kind of picture from the renderer to the reader on the vehicle, exactly."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np

from tests.bridge_rig import bridge_with_camera
from vil_bridge.app import Bridge
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.pixels import FORMAT_OF
from vil_bridge.core.types import ImageArray, Modality, RenderedImage, View, WorldSnapshot
from vil_renderer.flightgoggles.server import Drawn

ALL = f"modalities: [{', '.join(Modality)}]"
LENS = "lens: {pinhole_px: [30.5, 31.25, 15.0, 12.25], distortion: plumb_bob, coefficients: [-0.2, 0.05, 0.001, 0, 0]}"


def picture(modality: Modality) -> ImageArray:
    form = FORMAT_OF[modality]
    shape = form.shape(32, 24)
    return (np.arange(np.prod(shape)).reshape(shape) % 250 + 3).astype(form.dtype)


def studio(views: tuple[View, ...], _snapshot: WorldSnapshot) -> Drawn:
    known = picture(Modality.GRAY) % 3 > 0
    return Drawn(
        tuple(
            RenderedImage(v, picture(v.modality), known if v.modality is Modality.FLOW else None)
            for v in views
            if v.due
        )
    )


async def first_frame(bridge: Bridge, modality: str, **wish: Any) -> tuple[Frame, dict[str, Any]]:
    with Receiver(bridge.hub.endpoint, modality=modality, **wish) as receiver:
        async with asyncio.timeout(20):
            frame = None
            while frame is None or not np.isfinite(frame.image.astype(float)).any():  # flow begins with nothing
                frame = await asyncio.to_thread(receiver.next, 0.2)
        assert receiver.counters["malformed"] == 0
        return frame, receiver.camera_info


async def refusal(bridge: Bridge, modality: str, **wish: Any) -> str:
    with Receiver(bridge.hub.endpoint, modality=modality, **wish) as receiver:
        async with asyncio.timeout(20):
            while not receiver.problem.startswith(("camera", modality)):
                await asyncio.sleep(0.01)
        return receiver.problem


async def test_raw_pictures_of_every_modality_arrive_exactly(tmp_path: Path) -> None:
    async with bridge_with_camera(tmp_path, f"compensate: none, {ALL}", studio) as bridge:
        for modality in Modality:
            frame, info = await first_frame(bridge, modality, variant="raw", color="rgb", encoding="raw")
            expected = picture(modality)
            assert frame.image.dtype == FORMAT_OF[modality].dtype
            if modality is Modality.FLOW:
                unknown = picture(Modality.GRAY) % 3 == 0
                assert np.isnan(frame.image[unknown]).all()
                assert np.array_equal(frame.image[~unknown], expected[~unknown])
            else:
                assert np.array_equal(frame.image, expected)
            assert frame.metadata["format"] == FORMAT_OF[modality].name
            assert info["modalities"] == {str(m): ["raw"] for m in Modality}
        assert bridge.preview("front") is not None


async def test_every_modality_is_offered_compensated(tmp_path: Path) -> None:
    async with bridge_with_camera(tmp_path, ALL, studio) as bridge:
        for modality in Modality:
            frame, _ = await first_frame(bridge, modality, color="rgb", encoding="raw")
            # The camera stands still: the warp must change nothing, ids and alpha least of all.
            expected = picture(modality)
            if modality is Modality.FLOW:
                unknown = picture(Modality.GRAY) % 3 == 0
                assert np.isnan(frame.image[unknown]).all()
                np.testing.assert_allclose(frame.image[~unknown], expected[~unknown], atol=1e-3)
            else:
                assert np.array_equal(frame.image, expected)
            assert frame.metadata["compensated"] is True
            assert frame.metadata["compensation"]["method"] == "homography"
        assert "is sent as encoding 'raw' only" in await refusal(bridge, "semantic", encoding="jpeg")


async def test_readers_are_told_the_lens(tmp_path: Path) -> None:
    async with bridge_with_camera(tmp_path, f"compensate: none, {LENS}", studio) as bridge:
        frame, info = await first_frame(bridge, "rgb", variant="raw")
        assert [info[key] for key in ("fx", "fy", "cx", "cy")] == [30.5, 31.25, 15.0, 12.25]
        assert info["distortion"] == {"model": "plumb_bob", "coefficients": [-0.2, 0.05, 0.001, 0.0, 0.0]}
        assert frame.K is not None and frame.K.tolist() == [[30.5, 0, 15.0], [0, 31.25, 12.25], [0, 0, 1]]


async def test_a_lost_carrier_has_empty_pictures_of_every_kind(tmp_path: Path) -> None:
    async with bridge_with_camera(tmp_path, f"compensate: rotation, {ALL}", studio) as bridge:
        relay = bridge.paths["front"].relay
        relay.offer_blank(1)
        kinds = {f"{m}/{variant}" for m in Modality for variant in ("raw", "compensated")}
        async with asyncio.timeout(20):
            while set(relay.delivered) != kinds:
                await asyncio.sleep(0.01)
        assert bridge.pool.failed is None
