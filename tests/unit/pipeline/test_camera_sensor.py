"""Sensors of cameras against closed forms: photon transfer, colours, lens, exposure, JPEG."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import simplejpeg

from tests.support.render import linear, srgb
from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import FloatArray, ImageArray, Modality
from vil_bridge.optics.camera_sensor import ImageSensor, Mosaic
from vil_bridge.optics.tone_curve import light_of_levels, toned
from vil_bridge.pipeline.sensor.exposure import Exposure
from vil_bridge.pipeline.sensor.image_chain import ImageChain, through_jpeg
from vil_bridge.pipeline.sensor.lens_light import with_chromatic_aberration, with_glare
from vil_bridge.pipeline.sensor.pixel_array import PixelArray
from vil_bridge.pipeline.sensor.stage import SensorStage

MODEL = CameraModel("front", 320, 240, 1.2)
EVEN: dict[str, Any] = {
    "response_nonuniformity": 0.0,
    "dark_nonuniformity_e": 0.0,
    "dark_current_e_s": 0.0,
}
FINE = ImageSensor(**EVEN, adc_bits=16, full_well_e=12_000.0, read_noise_e=8.0)
"""Its ADC adds nothing to see."""


def rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(seed))


def electrons(
    sensor: ImageSensor, mean_e: float, seeds: tuple[int, int] = (1, 2)
) -> list[FloatArray]:
    """Two pictures of an even surface that gives each pixel that many electrons."""
    pixels = PixelArray(sensor, MODEL, 7)
    exposure = Exposure(0.01, 1.0)
    light = np.full((240, 320), mean_e / (0.01 * sensor.white_e_s), np.float32)
    raw = [pixels.expose(light, exposure, rng(seed)).astype(float) for seed in seeds]
    return [(picture - pixels.black) / pixels.raw_per_e for picture in raw]


def full(level: int, channels: int = 0) -> ImageArray:
    return np.full((240, 320, channels) if channels else (240, 320), level, np.uint8)


def test_photon_transfer_has_the_slope_of_the_gain_and_the_read_noise_at_zero() -> None:
    means_e = np.array([0.0, 50.0, 200.0, 1000.0, 3000.0, 6000.0, 9000.0])
    measured = [electrons(FINE, mean) for mean in means_e]
    mean = np.array([np.mean(pair) for pair in measured])
    # Of the difference: without the fixed pattern.
    variance = np.array([0.5 * np.var(a - b) for a, b in measured])
    assert mean == pytest.approx(means_e, rel=0.002, abs=0.2)
    slope, intercept = np.polyfit(mean, variance, 1, w=1.0 / variance)
    assert slope == pytest.approx(1.0, rel=0.01)
    assert math.sqrt(intercept) == pytest.approx(FINE.read_noise_e, rel=0.02)


@pytest.mark.parametrize("mean_e", [100.0, 1000.0, 8000.0])
def test_the_signal_to_noise_ratio_is_that_of_shot_noise(mean_e: float) -> None:
    quiet = replace(FINE, read_noise_e=0.0)
    (picture,) = electrons(quiet, mean_e, (5,))  # type: ignore[arg-type]
    assert picture.mean() / picture.std() == pytest.approx(math.sqrt(mean_e), rel=0.01)


def test_dim_light_is_as_skew_as_poissons_law() -> None:
    (picture,) = electrons(replace(FINE, read_noise_e=0.0), 9.0, (3,))  # type: ignore[arg-type]
    deviation = picture - picture.mean()
    skewness = (deviation**3).mean() / picture.std() ** 3
    assert skewness == pytest.approx(1.0 / math.sqrt(9.0), rel=0.08)


def test_the_fixed_pattern_has_its_size_and_stays() -> None:
    sensor = replace(FINE, response_nonuniformity=0.02, dark_nonuniformity_e=30.0)
    for mean_e, expected_e in ((0.0, 30.0), (6000.0, math.hypot(30.0, 0.02 * 6000.0))):
        one, other = electrons(sensor, mean_e)
        shared = float(np.mean((one - one.mean()) * (other - other.mean())))
        assert math.sqrt(shared) == pytest.approx(expected_e, rel=0.03)


def test_dark_current_grows_with_the_exposure_and_hot_pixels_shine() -> None:
    sensor = replace(FINE, dark_current_e_s=1000.0, hot_pixels=0.001)
    pixels = PixelArray(sensor, MODEL, 7)
    dark = np.zeros((240, 320), np.float32)
    for time_s in (0.01, 0.1):
        raw = pixels.expose(dark, Exposure(time_s, 1.0), rng(4)).astype(float)
        got_e = (raw - pixels.black) / pixels.raw_per_e
        assert np.median(got_e) == pytest.approx(1000.0 * time_s, rel=0.05)
    assert (got_e > 10_000.0).sum() == pytest.approx(0.001 * dark.size, rel=0.35)


def test_the_well_is_full_and_the_adc_has_its_bits() -> None:
    sensor = replace(FINE, adc_bits=10)
    pixels = PixelArray(sensor, MODEL, 7)
    light = np.linspace(0.0, 3.0, 240 * 320, dtype=np.float32).reshape(240, 320)
    raw = pixels.expose(light, Exposure(sensor.full_well_e / sensor.white_e_s, 1.0), rng(1))
    assert raw.max() == 1023 and (raw[light > 1.2] == 1023).all()
    assert len(np.unique(raw)) > 990


@pytest.mark.parametrize("mosaic", [m for m in Mosaic if m is not Mosaic.MONO])
@pytest.mark.parametrize("balance", ["fixed", "off"])
def test_demosaiced_colours_of_an_even_patch_are_those_that_were_drawn(
    mosaic: Mosaic, balance: str
) -> None:
    drawn = full(0, 3)
    drawn[...] = (200, 120, 60)
    sensor = replace(
        FINE, mosaic=mosaic, white_balance=balance, exposure_s=FINE.full_well_e / FINE.white_e_s
    )
    made = ImageChain(sensor, MODEL, 1).picture(drawn, 0, rng(1))
    assert made.shape == drawn.shape
    response = np.ones(3) if balance == "fixed" else np.array(sensor.channel_response)
    expected = srgb(linear(drawn[0, 0]) * response)
    assert linear(made).mean(axis=(0, 1)) == pytest.approx(linear(expected), rel=0.02)


def test_automatic_white_balance_makes_a_gray_world_gray_in_any_light() -> None:
    drawn = full(0, 3)
    drawn[...] = srgb(np.array([0.3, 0.2, 0.1])).round()
    made = ImageChain(replace(FINE, mosaic=Mosaic.RGGB), MODEL, 1).picture(drawn, 0, rng(1))
    light = linear(made).mean(axis=(0, 1))
    assert light == pytest.approx(np.full(3, light[1]), rel=0.02)


def test_automatic_exposure_finds_middle_gray_by_time_and_then_by_gain() -> None:
    sensor = replace(FINE, longest_s=0.01, gain_db=20.0)
    for lux, limited in ((2000.0, False), (150.0, True)):
        chain = ImageChain(replace(sensor, illuminance_lux=lux), MODEL, 1)
        made = chain.picture(full(128), 0, rng(1))
        assert linear(made).mean() == pytest.approx(0.18, rel=0.03)
        exposure = chain._exposure.of(float(linear(128)), 0)
        assert (exposure.gain > 1.0) == limited == (exposure.time_s == 0.01)


def test_automatic_exposure_follows_with_its_time_constant() -> None:
    chain = ImageChain(FINE, MODEL, 1)
    chain.picture(full(188), 0, rng(1))
    light = [linear(chain.picture(full(137), k * 100_000_000, rng(k))).mean() for k in range(1, 6)]
    missing_ev = np.log2(0.18 / np.array(light))
    assert missing_ev[1:] / missing_ev[:-1] == pytest.approx(
        np.full(4, math.exp(-1.0 / 3.0)), abs=0.05
    )


def test_vignetting_takes_its_share_of_light_from_the_corners() -> None:
    sensor = replace(FINE, vignetting=0.4, exposure_s=0.5 * FINE.full_well_e / FINE.white_e_s)
    light = linear(ImageChain(sensor, MODEL, 1).picture(full(255), 0, rng(1)))
    assert light[:8, :8].mean() / light[112:128, 152:168].mean() == pytest.approx(0.6, abs=0.02)


@pytest.mark.parametrize("shift_px", [2.0, -1.5])
def test_chromatic_aberration_moves_red_out_and_blue_in_by_its_pixels(shift_px: float) -> None:
    y, x = np.indices((240, 320))
    corner_px = math.hypot(159.5, 119.5)
    angle = math.atan2(119.5, 159.5)
    along = (x - 159.5) * math.cos(angle) + (y - 119.5) * math.sin(angle)  # towards the corner
    across = -(x - 159.5) * math.sin(angle) + (y - 119.5) * math.cos(angle)
    blob = np.exp(-((along - 180.0) ** 2 + across**2) / (2.0 * 3.0**2)).astype(np.float32)
    light = with_chromatic_aberration(np.repeat(blob[..., None], 3, axis=2), MODEL, shift_px)
    places = [float((light[..., c] * along).sum() / light[..., c].sum()) for c in range(3)]
    scale = shift_px / corner_px
    assert places[1] == pytest.approx(180.0, abs=0.01)
    assert places[0] - 180.0 == pytest.approx(180.0 * scale, abs=0.05)
    assert places[2] - 180.0 == pytest.approx(-180.0 * scale, abs=0.05)


def test_glare_leaves_even_light_alone_and_lifts_the_black_next_to_a_window() -> None:
    even = with_glare(np.full((240, 320, 3), 0.4, np.float32), 0.1)
    assert np.abs(even - 0.4).max() < 1e-4
    half = np.zeros((240, 320), np.float32)
    half[:, :160] = 0.5
    veiled = with_glare(half.copy(), 0.1)
    # Half of the share is a Gaussian of a quarter of the width; its integral beyond a distance is
    # an error function.
    expected = 0.5 * 0.1 * 0.5 * 0.5 * math.erfc(80.0 / 80.0 / math.sqrt(2.0))
    assert veiled[120, 240] == pytest.approx(expected, rel=0.1)


def test_a_lamp_has_ghosts_on_the_other_side_of_the_middle() -> None:
    night = np.zeros((240, 320, 3), np.float32)
    night[40:56, 60:76] = 1.0
    flared = with_glare(night, 0.05)
    mirrored = (159.5 - 0.6 * (67.5 - 159.5), 119.5 - 0.6 * (47.5 - 119.5))
    elsewhere = float(flared[200, 40].max())
    assert float(flared[round(mirrored[1]), round(mirrored[0])].max()) > elsewhere + 0.02


def test_a_white_sky_throws_no_ghosts() -> None:
    outside = np.full((240, 320, 3), 0.2, np.float32)
    outside[:80] = 1.0
    veiled = with_glare(outside.copy(), 0.05)
    # A third of the picture is white: its light is 19 * 0.005 / (1 / 3) = 0.29 above white.
    assert np.abs(veiled[160:] - 0.2).max() < 0.015


def test_photons_are_those_of_the_light_before_the_tone_curve() -> None:
    """A drawn level that the curve rolled off has the electrons of its light.

    noise-free it comes back to a level.
    """
    lights = np.array([0.02, 0.1, 0.3, 1.0, 2.0])
    shown = np.rint(
        255.0 * toned(np.where(lights > 0, 1.055 * lights ** (1.0 / 2.4) - 0.055, 0.0))
    ).astype(np.uint8)
    sensor = replace(FINE, full_well_e=1e6, read_noise_e=0.0, exposure_s=0.2 * 1e6 / FINE.white_e_s)
    chain = ImageChain(sensor, MODEL, 7)
    for light, level in zip(lights.tolist(), shown.tolist(), strict=True):
        raw = chain.raw(full(level), 0, rng(1), tone_curve=True).astype(float) - chain.pixels.black
        next_level = abs(float(np.diff(light_of_levels(tone_curve=True)[level - 1 : level + 1])[0]))
        assert raw.mean() / chain.pixels.raw_per_e == pytest.approx(
            0.2e6 * light, abs=0.2e6 * next_level
        )
        assert raw.std() / chain.pixels.raw_per_e == pytest.approx(
            math.sqrt(0.2e6 * light), rel=0.1
        )


def test_a_bright_sky_below_the_white_of_the_tone_curve_is_no_lamp() -> None:
    outside = np.full((240, 320, 3), 0.2, np.float32)
    outside[:10, :60] = 2.0
    calm, flared = with_glare(outside.copy(), 0.05, 4.13), with_glare(outside.copy(), 0.05)
    assert flared.max() > calm.max() + 0.05
    assert calm[:10, :60].max() <= 2.0 and abs(float(calm[200:].mean()) - 0.2) < 0.01


@pytest.mark.parametrize(("quality", "least_db"), [(95, 38.0), (75, 32.0), (30, 27.0)])
def test_jpeg_costs_what_its_quality_says(quality: int, least_db: float) -> None:
    y, x = np.indices((240, 320))
    smooth = 128.0 + 60.0 * np.sin(x / 9.0) * np.cos(y / 13.0) + 40.0 * (x > 160)
    pixels = np.repeat(smooth.clip(0, 255).astype(np.uint8)[..., None], 3, axis=2)
    made = through_jpeg(pixels, quality)
    assert made.shape == pixels.shape and not np.array_equal(made, pixels)
    error = np.mean((made.astype(float) - pixels) ** 2)
    assert 10.0 * math.log10(255.0**2 / error) > least_db
    sizes = [
        len(simplejpeg.encode_jpeg(pixels, quality=q, colorsubsampling="420")) for q in (30, 75, 95)
    ]
    assert sizes == sorted(sizes)


def test_the_same_instant_has_the_same_bits_and_each_camera_its_own_noise() -> None:
    sensor = replace(FINE, exposure_s=0.005)
    stages = [
        SensorStage(replace(MODEL, name=name), sensor, None) for name in ("front", "front", "back")
    ]
    one, again, other = (s.picture(Modality.GRAY, full(128), 5, lambda: None) for s in stages)
    later = stages[0].picture(Modality.GRAY, full(128), 6, lambda: None)
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other) and not np.array_equal(one, later)


@pytest.mark.parametrize(
    ("mosaic", "modality"), [(Mosaic.MONO, Modality.RGB), (Mosaic.RGGB, Modality.GRAY)]
)
def test_a_picture_has_the_shape_of_what_was_asked_for(mosaic: Mosaic, modality: Modality) -> None:
    stage = SensorStage(MODEL, replace(FINE, mosaic=mosaic), None)
    rendered = full(128, 3 if modality is Modality.RGB else 0)
    made = stage.picture(modality, rendered, 0, lambda: None)
    assert made.shape == rendered.shape and made.dtype == np.uint8
    ids = np.zeros((240, 320), np.uint16)
    assert stage.picture(Modality.SEMANTIC, ids, 0, lambda: None) is ids
