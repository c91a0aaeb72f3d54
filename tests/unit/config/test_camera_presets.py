"""Real cameras in the configuration: what a preset sets, what replaces it, and what is refused."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from vil_bridge.config.camera import CameraConfig
from vil_bridge.config.camera_presets import CAMERA_PRESETS, CameraPreset
from vil_bridge.core.types import Modality
from vil_bridge.optics.camera_sensor import Mosaic


def camera(**keys: Any) -> CameraConfig:
    return CameraConfig.model_validate({"renderer": "unity", **keys})


def test_every_preset_is_a_camera_and_is_read_again_as_it_is_written() -> None:
    assert set(CAMERA_PRESETS) == set(get_args(CameraPreset))
    for name in CAMERA_PRESETS:
        made = camera(preset=name)
        assert made.image_sensor() is not None or made.depth_sensor() is not None
        assert CameraConfig.model_validate(made.model_dump()) == made
        assert CameraConfig.model_validate(made.model_dump(mode="json")) == made


def test_a_camera_without_a_preset_has_no_sensor() -> None:
    assert camera().image_sensor() is None and camera().depth_sensor() is None
    assert camera(preset=None) == camera()


def test_a_preset_sets_what_is_not_given() -> None:
    made = camera(preset="d435", rate_hz=15, sensor={"gain_db": 6, "exposure_ms": 10})
    sensor = made.image_sensor()
    assert sensor is not None
    assert (made.width_px, made.height_px, made.rate_hz, made.rolling_shutter_ms) == (
        1920,
        1080,
        15,
        16.0,
    )
    assert (sensor.mosaic, sensor.pixel_um, sensor.gain_db, sensor.exposure_s) == (
        Mosaic.BGGR,
        1.4,
        6.0,
        0.01,
    )
    # The sensor takes the light from the corners, after the renderer; the renderer blurs for as
    # long as it exposes.
    effects = made.camera_model("c").effects
    assert (sensor.vignetting, effects.vignetting) == (0.35, 0.0)
    assert effects.shutter == pytest.approx(0.01 * 15) and effects.frame_ns == round(1e9 / 15)


def test_euroc_has_its_calibration_scaled_with_the_size() -> None:
    own, half = (
        camera(preset="mt9v034").camera_model("c"),
        camera(preset="mt9v034", width_px=376, height_px=240),
    )
    assert own.intrinsics_px == (458.654, 457.296, 367.215, 248.375) and own.distortion is not None
    assert camera(preset="mt9v034").modalities == (Modality.GRAY,)
    fx, fy, cx, cy = half.camera_model("c").intrinsics_px
    assert (fx, fy, cx, cy) == pytest.approx(
        (458.654 / 2, 457.296 / 2, 367.715 / 2 - 0.5, 248.875 / 2 - 0.5)
    )
    assert camera(preset="mt9v034", fov_y_deg=60).lens.pinhole_px is None
    given = camera(preset="d435", lens={"pinhole_px": [1400, 1400, 960, 540]})
    assert given.camera_model("c").intrinsics_px == (1400, 1400, 960, 540)


def test_fields_of_view_are_those_of_the_data_sheets() -> None:
    for preset, across_deg in (
        ("d435", 69.4),
        ("d435_depth", 87.0),
        ("oak_d", 69.0),
        ("oak_d_depth", 71.9),
    ):
        model = camera(preset=preset).camera_model("c")
        got = 2.0 * math.degrees(math.atan(0.5 * model.width_px / model.intrinsics_px[0]))
        assert got == pytest.approx(across_deg, abs=0.6), preset


def test_without_the_warp_the_rows_of_a_preset_are_read_at_once() -> None:
    assert camera(preset="d435", latency_compensation="none").rolling_shutter_ms == 0.0


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"preset": "d455"}, "mt9v034"),
        ({"preset": ["d435"]}, "preset"),
        ({"sensor": {}, "effects": {"noise": 2.0}}, "are the sensor's"),
        ({"sensor": {}, "effects": {"auto_exposure": True}}, "are the sensor's"),
        ({"sensor": {"shortest_exposure_ms": 30}}, "exchange them"),
        ({"sensor": {"adc_bits": 20}}, "adc_bits"),
        ({"stereo_depth": {"baseline_m": 0.05}}, "subpixel_px"),
        (
            {
                "stereo_depth": {"baseline_m": 0.05, "subpixel_px": 0.1},
                "lens": {"distortion": "plumb_bob", "coefficients": [-0.1, 0, 0, 0, 0]},
            },
            "rectified",
        ),
    ],
)
def test_problems_name_their_key(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        camera(**keys)
