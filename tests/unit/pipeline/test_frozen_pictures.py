"""A renderer that repeats its pictures while the camera moves is frozen.

Cameras at rest, sky and walls are not.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import ImageArray, Modality, RenderedImage, View
from vil_bridge.pipeline.renderer_load import PictureFreeze

CAMERA = CameraModel("front", 160, 120, 1.2)
NOISE = np.random.default_rng(1).integers(0, 256, (120, 160, 3), dtype=np.uint8)
OTHERS = np.random.default_rng(2).integers(0, 256, (9, 120, 160, 3), dtype=np.uint8)
F_PX = 60.0 / math.tan(0.6)
SKY = np.broadcast_to(np.linspace(0, 255, 120).astype(np.uint8)[:, None, None], (120, 160, 3))


class Flight:
    """A camera that turns and moves."""

    def __init__(self, rate_hz: float = 30.0, plane_depth_m: float = 8.0) -> None:
        self.freeze = PictureFreeze(plane_depth_m)
        self._number = 0
        self._rate_hz = rate_hz

    def fly(
        self, pictures: list[ImageArray], rate_dps: float = 0.0, speed_mps: float = 0.0
    ) -> list[bool]:
        held = []
        for pixels in pictures:
            self._number += 1
            t_s = self._number / self._rate_hz
            pose = Transform.of(
                (speed_mps * t_s, 0.0, 1.0), q_exp(np.radians([0.0, rate_dps * t_s, 0.0]))
            )
            t_ns = round(t_s * NS_PER_S)
            held.append(
                self.freeze.check(
                    RenderedImage(View(CAMERA, Modality.RGB, pose, t_ns), pixels), t_ns
                )
            )
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


@pytest.mark.parametrize("in_turn", [1, 2, 3, 8])
@pytest.mark.parametrize("rate_dps", [20.0, 60.0])
def test_pictures_in_turn_are_found_once_the_view_has_moved_by_5_px(
    in_turn: int, rate_dps: float
) -> None:
    flight = Flight()
    assert not any(flight.fly(list(OTHERS), rate_dps))
    first = OTHERS[-in_turn:]
    held = flight.fly(list(itertools.islice(itertools.cycle(first), 60)), rate_dps)
    step_px = F_PX * math.radians(rate_dps) / 30.0
    pictures = math.ceil(5.0 / step_px)
    assert 3 <= held.index(True) + 1 <= max(3, pictures)
    assert held.index(True) + in_turn >= 0.6 * pictures, "borders move by more than the centre"
    assert all(held[held.index(True) :])
    words = "repeats its picture, " if in_turn == 1 else f"repeats {in_turn} pictures, "
    assert flight.freeze.description.startswith(words)


def test_a_few_pictures_in_any_order_are_found() -> None:
    flight = Flight()
    assert not any(flight.fly(list(OTHERS[:3]), rate_dps=60.0))
    order = np.random.default_rng(3).integers(0, 3, 30)
    held = flight.fly([OTHERS[n] for n in order], rate_dps=60.0)
    assert all(held[5:])
    assert "repeats 3 pictures" in flight.freeze.description


def test_more_pictures_in_turn_than_are_remembered_are_new() -> None:
    assert not any(Flight().fly([*OTHERS] * 5, rate_dps=60.0))


@pytest.mark.parametrize(("plane_depth_m", "pictures"), [(4.0, 14), (8.0, 28), (16.0, 55)])
def test_a_translation_is_judged_at_the_depth_of_the_cameras_plane(
    plane_depth_m: float, pictures: int
) -> None:
    step_px = F_PX * 0.5 / 30.0 / plane_depth_m
    assert pictures == math.ceil(5.0 / step_px)
    held = Flight(plane_depth_m=plane_depth_m).fly([NOISE] * 80, speed_mps=0.5)
    assert held.index(True) in (pictures, pictures - 1), "of rounding"


@pytest.mark.parametrize("rate_hz", [100.0, 30.0, 2.0])
def test_a_picture_that_comes_three_times_is_not_frozen(rate_hz: float) -> None:
    flight = Flight(rate_hz)
    assert not any(flight.fly([NOISE] * 3, rate_dps=360.0))
    assert not any(flight.fly([OTHERS[0]] * 3, rate_dps=360.0))
    assert flight.fly([OTHERS[0]], rate_dps=360.0) == [True]


def test_a_camera_that_comes_back_sees_what_it_has_seen() -> None:
    freeze = PictureFreeze()
    for number in range(60):
        there = number % 2
        pose = Transform.of((0.0, 0.0, 0.0), q_exp(np.array([0.0, 0.2 * there, 0.0])))
        image = RenderedImage(View(CAMERA, Modality.RGB, pose, number), OTHERS[there])
        assert not freeze.check(image, number * NS_PER_S // 30)


def test_a_horizon_and_a_glow_may_repeat() -> None:
    v_px, u_px = np.mgrid[:120, :160]
    horizon = np.where(v_px - 60 > 0.3 * (u_px - 80), 90, 200).astype(np.uint8)
    glow = (220 - 0.2 * np.hypot(v_px - 20, u_px - 30)).astype(np.uint8)
    for flat in (horizon, glow):
        pixels = np.repeat(flat[:, :, None], 3, axis=2)
        assert not any(Flight().fly([pixels] * 60, rate_dps=60.0))


def test_pictures_that_change_are_not_frozen() -> None:
    assert not any(Flight().fly([np.roll(NOISE, n, axis=1) for n in range(60)], rate_dps=60.0))


def test_pictures_that_change_between_the_rows_looked_at_first_are_not_frozen() -> None:
    noise = np.tile(NOISE, (4, 1, 1))
    pictures = [np.roll(noise, n, axis=1) for n in range(60)]
    for pixels in pictures:
        pixels[48::96] = noise[48::96]
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
