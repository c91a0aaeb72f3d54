"""The onboard warp's pictures, with cv2 and without it.

The augmented picture against its formula.
"""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest

from tests.support import onboard as rig
from tests.support.onboard import INFO, T0_NS, check_overlay, drawn, rgba
from tests.support.stream_rig import photo
from vil_bridge import client_warp as onboard
from vil_bridge.client import Motion
from vil_bridge.client_warp import ImuRing, LateWarper, composite
from vil_bridge.core.camera_model import Distortion, LensModel
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform, q_from_euler_zyx
from vil_bridge.core.types import DEPTH_UNITS_PER_M, FloatArray, ImageArray
from vil_bridge.optics.lens import distort

DT_NS = 56_000_000
LENS: dict[str, dict[str, Any]] = {
    "radtan": {"model": "radtan", "coefficients": [-0.28, 0.07, 1e-3, -5e-4]},
    "equidistant": {"model": "equidistant", "coefficients": [-0.01, 0.02, -0.01, 0.002]},
}


@pytest.fixture(params=["cv2", "numpy"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "numpy":
        monkeypatch.setattr(onboard, "_cv2", None)
    return str(request.param)


def ramps() -> ImageArray:
    """Column and row of each pixel, four pixels a level."""
    v, u = np.mgrid[0:768, 0:1024]
    return np.stack((u // 4, v // 4, (u + v) // 8), axis=-1).astype(np.uint8)


def test_a_ramp_moves_as_the_homography_says(library: str) -> None:
    late = LateWarper(rig.ring(), d_m=3.0).warp(rig.frame(ramps()), INFO, T0_NS + DT_NS)
    assert late.pose_display is not None and late.method == "homography" and late.d_m == 3.0
    T_render = onboard.Pose(late.frame.pose_display.p_m, late.frame.pose_display.q_xyzw)
    H = onboard.homography(
        late.K, *onboard.rotation_translation(T_render, late.pose_display), onboard.Plane(3.0)
    )
    v, u = np.mgrid[0:768, 0:1024]
    source = np.stack((u, v, np.ones_like(u)), axis=-1) @ np.linalg.inv(H).T
    source = source[..., :2] / source[..., 2:]
    inside = np.all((source > 1) & (source < (1022, 766)), axis=-1)
    # Steps of four pixels: the mean over each step is the coordinate, as far as both know it.
    for i in (0, 1):
        error_px = 4.0 * late.image[..., i][inside] + 1.5 - source[..., i][inside]
        assert abs(error_px.mean()) < 0.05 and np.abs(error_px).max() < 4.0
    assert np.all(
        late.image[~cv2.dilate(late.valid.astype(np.uint8), np.ones((5, 5))).astype(bool)] == 0
    )
    assert late.valid_fraction == pytest.approx(late.valid.mean(), abs=0.01)
    assert late.valid.mean() == pytest.approx(inside.mean(), abs=0.01)


def test_numpy_draws_what_cv2_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = rig.frame(photo(768, 1024)[::-1])  # rows came upside down
    assert frame.image.strides[0] < 0
    with_cv2 = LateWarper(rig.ring()).warp(frame, INFO, T0_NS + DT_NS)
    monkeypatch.setattr(onboard, "_cv2", None)
    without = LateWarper(rig.ring()).warp(frame, INFO, T0_NS + DT_NS)
    difference = np.abs(with_cv2.image.astype(int) - without.image)[with_cv2.valid & without.valid]
    assert np.mean(difference) < 0.3 and np.percentile(difference, 99) <= 2


def test_a_wide_camera_that_turned_far_shows_nothing_of_what_lies_behind(library: str) -> None:
    """With 120 degrees of view and a turn by 80, a homography also maps what lies behind the
    rendered camera.
    """
    wide = {**INFO, "fx": 295.6, "fy": 295.6}
    motion = Motion(np.zeros(3), np.array([0.0, 0.0, math.radians(80.0) / 0.056]), np.zeros(3))
    late = LateWarper(ImuRing()).warp(
        rig.frame(np.full((768, 1024), 200, np.uint8), motion=motion), wide, T0_NS + DT_NS
    )
    assert late.motion == "constant-rate" and 0.1 < late.valid_fraction < 0.6
    assert (late.image > 0).mean() == pytest.approx(late.valid_fraction, abs=0.02)


def test_labels_are_never_mixed(library: str) -> None:
    ids = (np.indices((768, 1024)).sum(axis=0) // 50 % 2 * 999 + 1).astype(np.uint16)
    late = LateWarper(rig.ring()).warp(rig.frame(ids, modality="semantic"), INFO, T0_NS + DT_NS)
    assert late.image.dtype == np.uint16 and set(np.unique(late.image)) == {0, 1, 1000}


def test_depth_moves_near_things_further(library: str) -> None:
    """Two planes, one picture: each lands where the homography of its own distance puts it."""
    depth_m = np.where(np.arange(1024) < 512, 2.0, 6.0)[None, :].repeat(768, axis=0)
    frame = rig.frame(photo(768, 1024)[:, :, 0])
    depth = rig.frame(np.rint(depth_m * DEPTH_UNITS_PER_M).astype(np.uint16), modality="depth")
    warper = LateWarper(rig.ring())
    late = warper.warp(frame, INFO, T0_NS + DT_NS, depth=depth)
    assert (late.method, late.d_m) == ("reproject", None)
    for d_m, columns in ((2.0, slice(100, 400)), (6.0, slice(620, 900))):
        flat = LateWarper(rig.ring(), d_m=d_m).warp(frame, INFO, T0_NS + DT_NS)
        difference = np.abs(flat.image.astype(int) - late.image)[80:700, columns]
        assert np.percentile(difference, 95) <= 2
    other = rig.frame(depth.image, dt_ns=2_000_000)
    with pytest.raises(ValueError, match="depth is of frame"):
        warper.warp(frame, INFO, T0_NS, depth=other)


def test_the_plane_that_the_bridge_fitted_is_taken_with_its_slant() -> None:
    """Told in the axes of the pose rendered for, used in those of the pose shown."""
    normal = np.array([0.3, 0.0, 1.0]) / np.linalg.norm([0.3, 0.0, 1.0])
    rendered = rig.frame(photo(768, 1024), dt_ns=-30_000_000)
    told = {"method": "homography", "d_m": 3.0, "normal": normal.tolist()}
    frame = rig.frame(photo(768, 1024), compensation=told, pose_rendered=rendered.pose_rendered)
    late = LateWarper(rig.ring()).warp(frame, INFO, T0_NS + DT_NS)
    assert frame.pose_display is not None and rendered.pose_display is not None
    shown, was = (
        onboard.Pose(p.p_m, p.q_xyzw) for p in (frame.pose_display, rendered.pose_display)
    )
    plane = onboard.Plane(3.0, normal).seen_from(was.inverse() @ shown)
    assert late.d_m == pytest.approx(plane.d_m) and abs(plane.d_m - 3.0) > 0.01
    assert late.pose_display is not None
    H = onboard.homography(late.K, *onboard.rotation_translation(shown, late.pose_display), plane)
    expected = cv2.warpPerspective(frame.image, H, (1024, 768))
    assert np.array_equal(late.image, expected)


def test_what_cannot_be_moved_is_refused() -> None:
    with pytest.raises(ValueError, match="flow pictures cannot be moved"):
        LateWarper(rig.ring()).warp(
            rig.frame(np.zeros((768, 1024, 2), np.float32), modality="flow"), INFO, T0_NS
        )


def test_a_lost_carrier_leaves_black() -> None:
    late = LateWarper(rig.ring()).warp(
        rig.frame(photo(768, 1024), pose_display=None), INFO, T0_NS + DT_NS
    )
    assert (
        not late.image.any()
        and late.problem == "no pose"
        and late.t_ns == T0_NS
        and not late.valid.any()
    )


def test_a_picture_of_another_size_than_its_camera_stays_and_changes_no_other_camera() -> None:
    made = rig.frame(photo(48, 64))
    own, other = (
        LateWarper(rig.ring()).warp(made, INFO, T0_NS + DT_NS, to_camera=to) for to in (None, INFO)
    )
    problem = "the camera is described with 1024 x 768 pixels, not 64 x 48"
    assert (
        own.image is made.image and own.problem == problem and own.t_ns == T0_NS and own.valid.all()
    )
    assert (
        other.image.shape == (768, 1024, 3) and other.problem == problem and not other.image.any()
    )


# --- augmented reality ----------------------------------------------------------------------------

MOUNT = {"p_m": [0.12, -0.03, 0.04], "ypr_deg": [3.0, -17.0, 2.0]}
T_BODY_REAL = (
    Transform.of((0.12, -0.03, 0.04), q_from_euler_zyx(3 * rig.DEG, -17 * rig.DEG, 2 * rig.DEG))
    @ T_FLU_OPTICAL
)
REAL: dict[str, Any] = {
    "width": 752,
    "height": 480,
    "fx": 458.0,
    "fy": 457.0,
    "cx": 367.2,
    "cy": 248.4,
}
REAL["T_body_camera"] = {"p_m": [0.12, -0.03, 0.04], "ypr_deg": [3.0, -17.0, 2.0]}


def quad(slant_m: float) -> FloatArray:
    """A sign's outline (n, 3) in the world, 4 m before the virtual camera.

    ``slant_m`` nearer on its right side.
    """
    side = np.linspace(-1.0, 1.0, 60)
    outline = np.array(
        [*((s, -0.8) for s in side), *((1, 0.8 * s) for s in side), *((-s, 0.8) for s in side)]
    )
    outline = np.concatenate((outline, [(-1, -0.8 * s) for s in side]))
    points = np.column_stack(
        (0.9 * outline[:, 0], 0.9 * outline[:, 1], 4.0 - slant_m * outline[:, 0])
    )
    return (rig.truth(0).T_world_body @ rig.T_BODY_OPTICAL).apply(points)


def layer(slant_m: float) -> ImageArray:
    """What the renderer makes of the sign: premultiplied RGBA."""
    camera = rig.truth(0).T_world_body @ rig.T_BODY_OPTICAL
    X = camera.inverse().apply(quad(slant_m))
    outline = X[:, :2] / X[:, 2:] * INFO["fx"] + (INFO["cx"], INFO["cy"])
    return rgba(drawn(outline, (1024, 768)))


def expected_cover(slant_m: float, lens: dict[str, Any] | None, dt_ns: int) -> FloatArray:
    """Where the real camera would see the sign."""
    X = (rig.truth(dt_ns).T_world_body @ T_BODY_REAL).inverse().apply(quad(slant_m))
    xy = X[:, :2] / X[:, 2:]
    if lens is not None:
        name = "plumb_bob" if lens["model"] == "radtan" else lens["model"]
        given = [*lens["coefficients"], 0.0] if name == "plumb_bob" else lens["coefficients"]
        xy = distort(Distortion(LensModel(name), tuple(given)), xy)
    return drawn(xy * (REAL["fx"], REAL["fy"]) + (REAL["cx"], REAL["cy"]), (752, 480))


@pytest.mark.parametrize(
    ("lens", "slant_m", "library"),
    [
        (None, 0.0, "cv2"),
        (None, 0.5, "cv2"),
        ("radtan", 0.0, "cv2"),
        ("equidistant", 0.5, "cv2"),
        ("radtan", 0.5, "numpy"),
    ],
    indirect=["library"],
)
def test_an_augmented_picture_is_its_formula(
    lens: str | None, slant_m: float, library: str
) -> None:
    """A sign on the homography's plane, and a slanted one with a depth picture."""
    frame, depth = rig.frame(layer(slant_m), modality="rgba"), None
    if slant_m:
        # Z = 4 - slant x / 0.9 along each column.
        rays = (np.arange(1024) - INFO["cx"]) / INFO["fx"]
        z_m = np.clip(4.0 / (1.0 + slant_m / 0.9 * rays), 0.5, 50.0)
        units = np.rint(z_m * DEPTH_UNITS_PER_M).astype(np.uint16)
        depth = rig.frame(np.tile(units, (768, 1)), modality="depth")
    real_camera = {**REAL, "distortion": None if lens is None else LENS[lens]}
    real = photo(480, 752)
    warper = LateWarper(rig.ring(), d_m=4.0)
    moved = warper.warp(frame, INFO, T0_NS + DT_NS, depth=depth, to_camera=real_camera)
    assert moved.image.shape == (480, 752, 4) and moved.motion == "inertial"
    picture = composite(real, moved.image)
    cover = expected_cover(slant_m, None if lens is None else LENS[lens], DT_NS)
    check_overlay(picture, real, cover)


def test_a_real_picture_older_than_the_layer_is_met_backwards() -> None:
    earlier_ns = T0_NS - 40_000_000
    moved = LateWarper(rig.ring(), d_m=4.0).warp(
        rig.frame(layer(0.0), modality="rgba"),
        INFO,
        earlier_ns,
        to_camera={**REAL, "distortion": None},
    )
    assert moved.t_ns == earlier_ns
    real = photo(480, 752)
    check_overlay(composite(real, moved.image), real, expected_cover(0.0, None, -40_000_000))


def test_gray_pictures_take_the_layers_brightness() -> None:
    real = np.full((4, 5), 100, np.uint8)
    over = np.zeros((4, 5, 4), np.uint8)
    over[1, 2] = (255, 255, 255, 255)
    over[2, 2] = (100, 50, 20, 128)
    picture = composite(real, over)
    assert picture[1, 2] == 255
    assert abs(picture[2, 2] - (0.299 * 100 + 0.587 * 50 + 0.114 * 20 + 100 * 127 / 255)) <= 1
    assert (np.delete(picture.ravel(), [7, 12]) == 100).all()
    with pytest.raises(ValueError, match="the layer is"):
        composite(real, over[:3])
