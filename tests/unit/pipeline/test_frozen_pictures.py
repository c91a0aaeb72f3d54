"""A renderer that repeats its picture while the camera moves is frozen; cameras at rest, sky and walls are not."""

from __future__ import annotations

import numpy as np
import pytest

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import ImageArray, Modality, RenderedImage, View
from vil_bridge.pipeline.renderer_load import PictureFreeze

CAMERA = CameraModel("front", 160, 120, 1.2)
NOISE = np.random.default_rng(1).integers(0, 256, (120, 160, 3), dtype=np.uint8)
SKY = np.broadcast_to(np.linspace(0, 255, 120).astype(np.uint8)[:, None, None], (120, 160, 3))


class Flight:
    """A camera that turns and moves."""

    def __init__(self, rate_hz: float = 30.0) -> None:
        self.freeze = PictureFreeze()
        self._number = 0
        self._rate_hz = rate_hz

    def fly(self, pictures: list[ImageArray], rate_dps: float = 0.0, speed_mps: float = 0.0) -> list[bool]:
        held = []
        for pixels in pictures:
            self._number += 1
            t_s = self._number / self._rate_hz
            pose = Transform.of((speed_mps * t_s, 0.0, 1.0), q_from_euler_zyx(np.radians(rate_dps) * t_s, 0.0, 0.0))
            t_ns = round(t_s * NS_PER_S)
            held.append(self.freeze.check(RenderedImage(View(CAMERA, Modality.RGB, pose, t_ns), pixels), t_ns))
        return held


@pytest.mark.parametrize("motion", [{"rate_dps": 30.0}, {"speed_mps": 8.0}])
@pytest.mark.parametrize("upside_down", [False, True])
def test_repeated_pixels_of_a_moving_camera_are_found_within_half_a_second(
    motion: dict[str, float], upside_down: bool
) -> None:
    flight = Flight()
    pixels = NOISE[::-1] if upside_down else NOISE
    held = flight.fly([pixels.copy() for _ in range(30)], **motion)
    assert 3 <= held.index(True) <= 15 and all(held[held.index(True) :])
    assert "while the view moved by" in flight.freeze.description
    assert flight.fly([NOISE[:, ::-1]], **motion) == [False]
    assert flight.freeze.description == ""


@pytest.mark.parametrize(("rate_hz", "repeats"), [(100.0, 20), (30.0, 6), (15.0, 3), (2.0, 3)])
def test_frozen_is_what_repeats_three_times_and_for_a_fifth_of_a_second(rate_hz: float, repeats: int) -> None:
    held = Flight(rate_hz).fly([NOISE] * (repeats + 1), rate_dps=360.0)
    assert held == [False] * repeats + [True]


def test_pictures_that_change_are_not_frozen() -> None:
    assert not any(Flight().fly([np.roll(NOISE, n, axis=1) for n in range(60)], rate_dps=60.0))


def test_pictures_that_change_between_the_rows_looked_at_first_are_not_frozen() -> None:
    noise = np.tile(NOISE, (4, 1, 1))
    pictures = [np.roll(noise, n, axis=1) for n in range(60)]
    for pixels in pictures:
        pixels[128::256] = noise[128::256]
    assert not any(Flight().fly(pictures, rate_dps=60.0))
    assert any(Flight().fly([pictures[7]] * 30, rate_dps=60.0))


@pytest.mark.parametrize(
    ("pixels", "rate_dps"),
    [(NOISE, 0.0), (NOISE, 0.2), (SKY, 60.0), (np.zeros_like(NOISE), 60.0)],
    ids=["at rest", "hovering", "sky", "one colour"],
)
def test_what_may_repeat_is_not_frozen(pixels: ImageArray, rate_dps: float) -> None:
    assert not any(Flight().fly([pixels] * 60, rate_dps))


def test_a_camera_that_stops_in_front_of_a_frozen_renderer_stays_frozen() -> None:
    flight = Flight()
    assert flight.fly([NOISE] * 30, 30.0)[-1]
    assert all(flight.fly([NOISE] * 5, 0.0))
