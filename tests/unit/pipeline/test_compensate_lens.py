"""The late warp through a lens: what is rendered for it, where each pixel is found, and margins."""

from __future__ import annotations

import functools
import math
from typing import Any

import cv2
import numpy as np
import pytest

from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import FloatArray, ImageArray, Modality
from vil_bridge.optics.lens import rendered_model
from vil_bridge.pipeline.warp.depth_reprojection import render_map
from vil_bridge.pipeline.warp.frame_warp import FrameWarp, Method
from vil_bridge.pipeline.warp.homography import homography, rotation_translation, warp
from vil_bridge.pipeline.warp.plane_fit import FittedPlane
from vil_bridge.pipeline.warp.rolling_shutter import ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry

LENSES = {
    # The left camera of EuRoC, and a fisheye of 114 degrees across.
    "plumb_bob": CameraModel(
        "front",
        752,
        480,
        1.0,
        (458.654, 457.296, 367.215, 248.375),
        Distortion(LensModel.PLUMB_BOB, (-0.28340811, 0.07395907, 0.00019359, 1.76187114e-05, 0.0)),
    ),
    "equidistant": CameraModel(
        "front",
        640,
        480,
        1.0,
        (400.0, 401.0, 322.0, 236.0),
        Distortion(LensModel.EQUIDISTANT, (0.0034, 0.0007, -0.002, 0.0002)),
    ),
}
HERE = Transform.of((0.3, -0.2, 0.1), (0.1, -0.2, 0.3, 0.9))
NOW = HERE @ Transform(np.array([0.1, -0.04, 0.06]), q_exp(np.array([0.02, -0.04, 0.03])))


def by_opencv(model: CameraModel, rays: FloatArray) -> FloatArray:
    """Pixels (n, 2) at which OpenCV's own lens models show rays (n, 3)."""
    assert model.distortion is not None
    coefficients = np.array(model.distortion.coefficients)
    if model.distortion.model is LensModel.PLUMB_BOB:
        seen: Any = cv2.projectPoints(rays, np.zeros(3), np.zeros(3), model.K, coefficients)[0]
    else:
        seen = cv2.fisheye.projectPoints(
            rays[:, None], np.zeros(3), np.zeros(3), model.K, coefficients
        )[0]
    pixels: FloatArray = np.asarray(seen, np.float64).reshape(-1, 2)
    return pixels


def sampled(plane: ImageArray, pixels: FloatArray) -> FloatArray:
    """Bilinear values of a map at pixels (n, 2)."""
    column, row = np.floor(pixels).astype(int).T
    part = pixels - np.floor(pixels)
    above = plane[row, column] * (1 - part[:, 0]) + plane[row, column + 1] * part[:, 0]
    below = plane[row + 1, column] * (1 - part[:, 0]) + plane[row + 1, column + 1] * part[:, 0]
    value: FloatArray = above * (1 - part[:, 1]) + below * part[:, 1]
    return value


@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("moves", [False, True])
def test_the_map_undoes_opencvs_lens(lens: str, moves: bool) -> None:
    """Render pixels go to pixels shown by geometry and OpenCV's lens; the map must lead back."""
    shown = LENSES[lens]
    rendered = rendered_model(shown, 0.0, bends=True)
    assert rendered.distortion is None and rendered.pinhole_px is None
    geometry = ViewGeometry(shown, rendered)
    now, plane = (NOW, FittedPlane(3.0)) if moves else (HERE, None)
    motion = ShutterPoses((now,)).motion_from(HERE, geometry.nodes.rows, shown.height_px)
    found = render_map(geometry, motion, plane)
    u, v = np.meshgrid(
        np.linspace(5, rendered.width_px - 6, 40), np.linspace(5, rendered.height_px - 6, 30)
    )
    source = np.stack((u.ravel(), v.ravel()), axis=1)
    rays = np.column_stack((source, np.ones(len(source)))) @ np.linalg.inv(rendered.K).T
    R_rn, dp = rotation_translation(HERE, now)
    X_now = (rays * 3.0 - dp) @ R_rn
    pixels = by_opencv(shown, X_now)
    inside = (pixels > 1).all(axis=1) & (pixels < (shown.width_px - 2, shown.height_px - 2)).all(
        axis=1
    )
    assert inside.mean() > 0.5
    for axis, plane_px in enumerate((found.x_px, found.y_px)):
        assert np.abs(sampled(plane_px, pixels[inside]) - source[inside, axis]).max() < 0.02


@pytest.mark.parametrize("lens", LENSES)
def test_the_ideal_picture_holds_all_that_the_lens_sees(lens: str) -> None:
    shown = LENSES[lens]
    geometry = ViewGeometry(shown, rendered_model(shown, 0.0, bends=True))
    frame = FrameWarp(geometry, HERE, ShutterPoses((HERE,)), "none")
    white = np.full((geometry.rendered.height_px, geometry.rendered.width_px), 255, np.uint8)
    pixels, _ = frame.show(Modality.GRAY, white)
    assert pixels.shape == (shown.height_px, shown.width_px)
    assert (pixels == 255).all()
    assert frame.valid_fraction == 1.0
    assert geometry.window is None


def test_a_lens_without_distortion_is_the_homography() -> None:
    """Coefficients of zero: the map must show what the homography shows."""
    shown = CameraModel("front", 320, 240, 1.2, None, Distortion(LensModel.PLUMB_BOB, (0.0,) * 5))
    geometry = ViewGeometry(shown, rendered_model(shown, 0.0, bends=True))
    v, u = np.mgrid[0 : geometry.rendered.height_px, 0 : geometry.rendered.width_px]
    picture = np.rint(120 + 60 * np.sin(u / 17.0) + 50 * np.cos(v / 23.0)).astype(np.uint8)
    frame = FrameWarp(geometry, HERE, ShutterPoses((NOW,)), "homography", FittedPlane(4.0))
    bent, _ = frame.show(Modality.GRAY, picture)
    R_rn, dp = rotation_translation(HERE, NOW)
    H = homography(geometry.K_rendered, R_rn, dp, 4.0, K_shown=shown.K)
    straight = warp(picture, H, geometry.size_px, 1.0, cv2.INTER_LINEAR)
    both = (bent > 0) & (straight > 0)
    assert both.mean() > 0.8
    assert np.abs(bent.astype(int) - straight)[both].max() <= 2


# --- margins -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("margin_deg", "size_px", "fov_deg", "area"),
    [
        (2, (1098, 827), 74, 1.15),
        (3, (1137, 857), 76, 1.24),
        (5, (1220, 920), 80, 1.43),
        (8, (1356, 1023), 86, 1.76),
    ],
)
def test_margins_are_those_of_the_table(
    margin_deg: float, size_px: tuple[int, int], fov_deg: float, area: float
) -> None:
    shown = CameraModel("front", 1024, 768, math.radians(70.0))
    wide = rendered_model(shown, math.radians(margin_deg), bends=False)
    assert wide.pinhole_px is None, "the original renderers know a size and a field of view only"
    assert wide.f_px == pytest.approx(shown.f_px, rel=1e-12)
    assert abs(wide.width_px - size_px[0]) <= 2 and abs(wide.height_px - size_px[1]) <= 2
    assert math.degrees(wide.fov_y_rad) == pytest.approx(fov_deg, abs=0.15)
    assert wide.width_px * wide.height_px / (1024 * 768) == pytest.approx(area, abs=0.01)


def test_no_margin_is_the_camera_itself_and_too_much_is_refused() -> None:
    shown = CameraModel("front", 1024, 768, math.radians(70.0))
    assert rendered_model(shown, 0.0, bends=True) is shown
    with pytest.raises(ValueError, match="beyond 82"):
        rendered_model(shown, math.radians(40.0), bends=False)


@functools.cache
def sight_of(model: CameraModel, margin_deg: float) -> ViewGeometry:
    return ViewGeometry(model, rendered_model(model, math.radians(margin_deg), bends=True))


def rotated(rotvec_deg: tuple[float, float, float]) -> Transform:
    return HERE @ Transform(np.zeros(3), q_exp(np.radians(rotvec_deg)))


@pytest.mark.parametrize(
    "model", [CameraModel("f", 320, 240, 1.2), LENSES["plumb_bob"]], ids=["ideal", "lens"]
)
@pytest.mark.parametrize("rotvec_deg", [(4, 0, 0), (-4, 0, 0), (0, 4, 0), (0, -4, 0)])
def test_no_border_is_black_within_the_margin(
    model: CameraModel, rotvec_deg: tuple[float, float, float]
) -> None:
    now = rotated(rotvec_deg)
    covered = []
    for margin_deg in (0.0, 4.0):
        geometry = sight_of(model, margin_deg)
        white = np.full((geometry.rendered.height_px, geometry.rendered.width_px), 255, np.uint8)
        frame = FrameWarp(geometry, HERE, ShutterPoses((now,)), "rotation")
        pixels, _ = frame.show(Modality.GRAY, white)
        covered.append(float((pixels == 255).mean()))
        assert frame.valid_fraction == pytest.approx(covered[-1], abs=0.01)
    assert covered[0] < 0.999
    assert covered[1] == 1.0


def test_the_raw_picture_is_a_view_of_the_wide_one() -> None:
    model = CameraModel("f", 320, 240, 1.2, (300.0, 310.0, 150.0, 130.25))
    geometry = ViewGeometry(model, rendered_model(model, math.radians(3.0), bends=True))
    wide = np.zeros((geometry.rendered.height_px, geometry.rendered.width_px, 3), np.uint8)
    for stored in (wide, wide[::-1]):
        cut, _ = FrameWarp(geometry, HERE, ShutterPoses((NOW,)), "none").show(Modality.RGB, stored)
        assert cut.shape == (240, 320, 3)
        assert np.shares_memory(cut, wide)
    # The pixel on the optical axis is the same one.
    rx, ry = geometry.rendered.intrinsics_px[2:]
    assert geometry.window is not None
    assert (rx - geometry.window[1].start, ry - geometry.window[0].start) == pytest.approx(
        (150.0, 130.25)
    )


@pytest.mark.parametrize("mode", ["rotation", "homography", "reproject"])
def test_a_margin_changes_the_border_only(mode: Method) -> None:
    """The same scene rendered with and without margin: the same picture where both have one."""
    model = CameraModel("f", 320, 240, 1.2)
    made = []
    for margin_deg in (0.0, 5.0):
        geometry = ViewGeometry(model, rendered_model(model, math.radians(margin_deg), bends=True))
        width, height = geometry.rendered_size_px
        u, v = np.meshgrid(np.arange(width) - (width - 1) / 2, np.arange(height) - (height - 1) / 2)
        picture = np.rint(127 + 60 * np.sin(u / 11.0) + 60 * np.cos(v / 13.0)).astype(np.uint8)
        depth = np.full((height, width), round(4.0 * 655.35), np.uint16)
        frame = FrameWarp(geometry, HERE, ShutterPoses((NOW,)), mode, FittedPlane(4.0), depth)
        made.append(frame.show(Modality.GRAY, picture)[0].astype(int))
    small, wide = made
    inside = np.zeros(small.shape, bool)
    inside[30:-30, 40:-40] = True
    assert np.abs(small - wide)[inside].max() <= 1
    assert (wide > 0).mean() > (small > 0).mean()
