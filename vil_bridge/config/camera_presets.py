"""Real cameras as defaults of a camera's keys.

docs/reference/cameras.md names the source of every number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

CameraPreset = Literal[
    "mt9v034", "d435", "d435_depth", "oak_d", "oak_d_depth", "rpi_global_shutter"
]

CAMERA_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "mt9v034": {
        "width_px": 752,
        "height_px": 480,
        "rate_hz": 20.0,
        "modalities": ("gray",),
        "lens": {
            "pinhole_px": (458.654, 457.296, 367.215, 248.375),
            "distortion": "plumb_bob",
            "coefficients": (-0.28340811, 0.07395907, 0.00019359, 1.76187114e-05, 0.0),
        },
        "effects": {"vignetting": 0.3},
        "sensor": {
            "mosaic": "mono",
            "pixel_um": 6.0,
            "quantum_efficiency": 0.45,
            "full_well_e": 12_000.0,
            "read_noise_e": 21.0,
            "dark_current_e_s": 1500.0,
            "response_nonuniformity": 0.012,
            "dark_nonuniformity_e": 8.0,
            "hot_pixels": 2e-5,
            "adc_bits": 10,
            "f_number": 2.0,
            "shortest_exposure_ms": 0.04,
            "longest_exposure_ms": 15.0,
            "gain_db": 12.0,
            "glare": 0.01,
        },
    },
    "d435": {
        "width_px": 1920,
        "height_px": 1080,
        "fov_y_deg": 42.5,
        "rate_hz": 30.0,
        "rolling_shutter_ms": 16.0,
        "effects": {"vignetting": 0.35},
        "sensor": {
            "mosaic": "bggr",
            "pixel_um": 1.4,
            "quantum_efficiency": 0.6,
            "full_well_e": 4300.0,
            "read_noise_e": 3.0,
            "dark_current_e_s": 10.0,
            "adc_bits": 10,
            "f_number": 2.0,
            "shortest_exposure_ms": 0.1,
            "longest_exposure_ms": 33.0,
            "gain_db": 18.0,
            "chromatic_aberration_px": 0.8,
            "glare": 0.015,
        },
    },
    "d435_depth": {
        "width_px": 848,
        "height_px": 480,
        "fov_y_deg": 56.5,
        "rate_hz": 30.0,
        "modalities": ("depth",),
        "stereo_depth": {
            "baseline_m": 0.05,
            "subpixel_px": 0.08,
            "most_disparity_px": 126.0,
            "most_m": 10.0,
        },
    },
    "oak_d": {
        "width_px": 1920,
        "height_px": 1080,
        "fov_y_deg": 42.3,
        "rate_hz": 30.0,
        "rolling_shutter_ms": 16.6,
        "effects": {"vignetting": 0.3},
        "sensor": {
            "mosaic": "rggb",
            "pixel_um": 1.55,
            "quantum_efficiency": 0.65,
            "full_well_e": 8200.0,
            "read_noise_e": 3.0,
            "dark_current_e_s": 5.0,
            "adc_bits": 10,
            "f_number": 1.8,
            "shortest_exposure_ms": 0.02,
            "longest_exposure_ms": 33.0,
            "gain_db": 24.0,
            "chromatic_aberration_px": 0.8,
            "glare": 0.015,
        },
    },
    "oak_d_depth": {
        "width_px": 640,
        "height_px": 400,
        "fov_y_deg": 48.8,
        "rate_hz": 30.0,
        "modalities": ("gray", "depth"),
        "stereo_depth": {
            "baseline_m": 0.075,
            "subpixel_px": 0.15,
            "disparity_step_px": 0.125,
            "most_disparity_px": 95.0,
            "most_m": 12.0,
            "least_contrast": 1.5,
        },
    },
    "rpi_global_shutter": {
        "width_px": 1456,
        "height_px": 1088,
        "fov_y_deg": 34.7,
        "rate_hz": 60.0,
        "effects": {"vignetting": 0.25},
        "sensor": {
            "mosaic": "rggb",
            "pixel_um": 3.45,
            "quantum_efficiency": 0.64,
            "full_well_e": 10_500.0,
            "read_noise_e": 2.3,
            "dark_current_e_s": 2.0,
            "adc_bits": 10,
            "f_number": 1.2,
            "shortest_exposure_ms": 0.03,
            "longest_exposure_ms": 16.0,
            "gain_db": 24.0,
            "chromatic_aberration_px": 0.5,
            "glare": 0.01,
        },
    },
}


def with_preset(given: Any) -> Any:
    """Return a camera's keys with those that its preset adds; what is given counts.

    A given size scales the preset's calibration, a given angle or calibration replaces it.
    """
    if not isinstance(given, Mapping):
        return given
    name = given.get("preset")
    if not isinstance(name, str) or (preset := CAMERA_PRESETS.get(name)) is None:
        return given
    added = {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in preset.items()
    }
    lens = added.get("lens", {})
    if "fov_y_deg" in given:
        lens.pop("pinhole_px", None)
    elif "pinhole_px" in lens:
        lens["pinhole_px"] = _scaled(lens["pinhole_px"], preset, given)
    if isinstance(given.get("lens"), Mapping) and given["lens"].get("pinhole_px") is not None:
        added.pop("fov_y_deg", None)
    if given.get("latency_compensation") == "none":
        added.pop("rolling_shutter_ms", None)
    made = {**added, **given}
    for key, value in added.items():
        if isinstance(value, dict) and isinstance(given.get(key), Mapping):
            made[key] = {**value, **given[key]}
    return made


def _scaled(
    pinhole_px: tuple[float, ...], preset: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[float, ...]:
    """Return a calibration for the size that is given, which shows the same."""
    sizes = [(given.get(key, preset[key]), preset[key]) for key in ("width_px", "height_px")]
    if not all(isinstance(size, int) for size, _ in sizes):
        return pinhole_px
    x, y = (size / own for size, own in sizes)
    fx, fy, cx, cy = pinhole_px
    return fx * x, fy * y, (cx + 0.5) * x - 0.5, (cy + 0.5) * y - 0.5
