"""RGB that every reader turns to gray becomes gray once, before the warp.

Who wants colour gets colour.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.stream_rig import StreamRig, first
from tests.unit.pipeline.test_compensate_pipeline import camera, flying, frame_for
from vil_bridge.client import Receiver
from vil_bridge.core.clock import now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.interfaces.ports import FrameSink
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.pipeline.camera_relay import CameraRelay, FanOut
from vil_bridge.pipeline.frame_ledger import FrameLedger, LedgerSink

MS = 1_000_000


class Colours(FrameSink):
    """Takes RGB as it is."""

    def __init__(self, *variants: str) -> None:
        self.variants = variants
        self.pictures: dict[str, ImageArray] = {}

    def wanted(self, modality: str, variant: str) -> bool:
        return modality == "rgb" and variant in self.variants

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        assert header.modality == "rgb"
        self.pictures[header.variant] = pixels


class Grays(Colours):
    """Turns RGB to gray."""

    def wants_gray(self, variant: str) -> bool:
        return True


def relayed(*sinks: Colours, latency_compensation: str = "homography") -> None:
    """Let a camera's relay hand one picture, upside down in memory as from the wire, to the
    sinks.
    """
    made: Any = camera(modalities=(Modality.RGB,), compensate=latency_compensation, margin_rad=0.05)
    world, end_ns = flying((0, 300))
    rendered = made.geometry.rendered
    pixels = np.random.default_rng(1).integers(
        1, 255, (rendered.height_px, rendered.width_px, 3), np.uint8
    )
    pixels = cv2.GaussianBlur(pixels, (0, 0), 3.0)[::-1]
    ledger = FrameLedger()
    relay = CameraRelay(made, world, FanOut((LedgerSink(FanOut(sinks), ledger),)), ledger, Meter())
    relay.offer(frame_for(made, world, end_ns - 30 * MS, {Modality.RGB: pixels}))
    relay.step()
    relay.close()


def gray(pixels: ImageArray) -> ImageArray:
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY))


def test_gray_readers_get_the_same_picture_from_one_channel() -> None:
    first, second = Grays("compensated", "raw"), Grays("compensated")
    relayed(first, second)
    assert first.pictures["compensated"].ndim == first.pictures["raw"].ndim == 2
    assert first.pictures["compensated"] is second.pictures["compensated"]


@pytest.mark.parametrize("variant", ["compensated", "raw"])
def test_a_reader_of_colour_keeps_it_for_all(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    t_ns = now_ns()
    # Both are shown for one instant.
    monkeypatch.setattr("vil_bridge.pipeline.camera_relay.now_ns", lambda: t_ns)
    monkeypatch.setattr("tests.unit.pipeline.test_compensate_pipeline.now_ns", lambda: t_ns)
    colours, with_colours, alone = Colours(variant), Grays(variant), Grays(variant)
    relayed(colours, with_colours)
    assert colours.pictures[variant].shape[2:] == (3,)
    assert with_colours.pictures[variant] is colours.pictures[variant]
    relayed(alone)
    difference = np.abs(alone.pictures[variant].astype(int) - gray(colours.pictures[variant]))
    assert difference.max() <= 2, "rounding alone"


def test_who_comes_between_the_question_and_the_picture_gets_none_in_gray() -> None:
    """Sinks come from other threads: colours are never replaced by gray for one of them."""
    late, fan = Colours("raw"), FanOut((Grays("raw"),))
    assert fan.wants_gray("raw")
    fan.add(late)
    assert not fan.wants_gray("raw") and not fan.wants_gray("compensated")
    header = FrameHeader(
        camera="front", width=4, height=3, K=(1.0, 1.0, 0.0, 0.0), frame_id=1, t_display_ns=1,
        tracking="fixed",
        compensation={"method": "none"}, modality="rgb", variant="raw",
    )  # fmt: skip
    fan.offer(header, np.zeros((3, 4), np.uint8))
    assert not late.pictures


@pytest.mark.wire
def test_the_stream_asks_for_gray_while_no_reader_wants_colour() -> None:
    gray_pixels, pixels = np.full((48, 64), 90, np.uint8), np.full((48, 64, 3), 120, np.uint8)
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, color="gray", encoding="raw") as gray_reader,
        rig.playing(gray_pixels, variant="compensated"),
    ):
        assert first(gray_reader).image.shape == (48, 64)
        assert rig.sink().wants_gray("compensated")
        with Receiver(rig.endpoint, color="rgb", encoding="raw") as reader:
            wait_until(lambda: not rig.sink().wants_gray("compensated"))
            first(gray_reader)
            assert reader.next(0.2) is None, "gray in the place of colour"
            with rig.playing(pixels, variant="compensated"):
                assert first(reader).image.shape == (48, 64, 3)
