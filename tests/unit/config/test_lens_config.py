"""Lenses and effects in the configuration."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from vil_bridge import registry
from vil_bridge.config.camera import CameraConfig
from vil_bridge.config.load import load
from vil_bridge.core.camera_model import CameraModel, Distortion, Effects, LensModel
from vil_bridge.core.errors import ConfigError

CONFIG = """
version: 1
renderers: {unity: {type: flightgoggles}}
cameras:
  front:
    renderer: unity
    %s
"""


def camera(**keys: Any) -> CameraModel:
    return CameraConfig(renderer="unity", **keys).camera_model("front")


def test_the_default_is_ideal() -> None:
    assert camera() == CameraModel("front", 640, 480, math.radians(70.0))
    assert camera(lens={}, effects={}) == camera()


def test_a_calibrated_lens() -> None:
    got = camera(
        latency_compensation="none",
        lens={
            "pinhole_px": [400.0, 410.0, 310.5, 250.25],
            "distortion": "equidistant",
            "coefficients": [0.1, -0.02, 0.003, 0],
        },
        effects={"shutter": 0.5, "noise": 2.5, "auto_exposure": True},
    )
    assert got.intrinsics_px == (400.0, 410.0, 310.5, 250.25)
    assert got.distortion == Distortion(LensModel.EQUIDISTANT, (0.1, -0.02, 0.003, 0.0))
    assert got.effects == Effects(shutter=0.5, frame_ns=16_666_667, noise=2.5, auto_exposure=True)
    assert 2 * 410.0 * math.tan(0.5 * got.fov_y_rad) == pytest.approx(480.0)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (
            "lens: {distortion: plumb_bob}",
            "plumb_bob needs the coefficients k1, k2, p1, p2, k3, got 0",
        ),
        ("lens: {distortion: equidistant, coefficients: [1, 2, 3]}", "k1, k2, k3, k4, got 3"),
        ("lens: {coefficients: [1, 2, 3, 4]}", "none has no coefficients, got 4"),
        (
            "lens: {distortion: fisheye}",
            "should be 'none', 'plumb_bob' or 'equidistant', got 'fisheye'",
        ),
        ("lens: {pinhole_px: [400, 0, 1, 1]}", "lens.pinhole_px.1"),
        ("lens: {pinhole_px: [400, 400, 319.5, 239.5]}\n    fov_y_deg: 60", "leave out one"),
        (
            "lens: {pinhole_px: [400, 400, 9000, 9000], distortion: plumb_bob, "
            "coefficients: [-0.3, 0, 0, 0, 0]}",
            "nothing is seen through lens.coefficients",
        ),
        (
            "fov_y_deg: 150\n    margin_deg: 10",
            "sees 79 degrees from its axis; with a margin of 10 degrees",
        ),
        ("margin_deg: wide", "margin_deg"),
        ("latency_compensation: none\n    margin_deg: 2", "need the warp"),
        ("latency_compensation: none\n    rolling_shutter_ms: 10", "need the warp"),
        ("plane_depth_m: fitted", "plane_depth_m"),
        (
            "artificial_delay_ms: 10\n    artificial_jitter_ms: 11",
            "artificial_jitter_ms is more than artificial_delay_ms",
        ),
        ("latency_compensation: depth", "depth needs depth or depth32 among the modalities"),
        ("effects: {shutter: 1.5}", "effects.shutter"),
        ("effects: {auto_exposure: 3}", "effects.auto_exposure"),
        ("effects: {blur: 1}", "blur"),
    ],
)
def test_problems_are_told_with_their_place(tmp_path: Path, keys: str, problem: str) -> None:
    path = tmp_path / "bridge.yaml"
    path.write_text(CONFIG % keys)
    with pytest.raises(ConfigError) as caught:
        load(path, env={}, resolve=registry.resolve)
    (line,) = caught.value.problems
    assert problem in line and line.startswith(f"{path}:")
