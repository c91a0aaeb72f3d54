"""The late warp on pictures.

Ramps, flipped buffers, depth pictures, and a scene seen from two places.
"""

from __future__ import annotations

import tracemalloc

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import CameraModel, FloatArray, Modality
from vil_bridge.pipeline.warp.compensator import Compensator, Method
from vil_bridge.pipeline.warp.depth_reprojection import render_map
from vil_bridge.pipeline.warp.homography import (
    homography,
    rotation_translation,
    valid_fraction,
    warp,
)
from vil_bridge.pipeline.warp.opencv_remap import by_homography, by_map
from vil_bridge.pipeline.warp.plane_fit import FittedPlane, median_depth
from vil_bridge.pipeline.warp.rolling_shutter import ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry

CAMERA = CameraModel("test", 320, 240, 1.2)
K = CAMERA.K
SIZE = (320, 240)
RENDER = Transform.of((0.3, -0.2, 0.1), (0.1, -0.2, 0.3, 0.9))
MOTION = Transform(np.array([0.15, -0.05, 0.1]), q_exp(np.array([0.02, -0.04, 0.03])))
NOW = RENDER @ MOTION
NO_HIT = 65535


def ramps() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Pictures whose value is the pixel's own coordinate."""
    u, v = np.meshgrid(np.arange(SIZE[0], dtype=np.float32), np.arange(SIZE[1], dtype=np.float32))
    return u, v


def inside(x: FloatArray, y: FloatArray) -> npt.NDArray[np.bool_]:
    return (x > 1) & (x < SIZE[0] - 2) & (y > 1) & (y < SIZE[1] - 2)


def test_warped_ramp_shows_the_coordinates_of_the_map() -> None:
    R_rn, dp = rotation_translation(RENDER, NOW)
    H = homography(K, R_rn, dp, 4.0)
    u, v = ramps()
    source = np.stack((u, v, np.ones_like(u)), axis=-1).astype(np.float64) @ np.linalg.inv(H).T
    x, y = source[..., 0] / source[..., 2], source[..., 1] / source[..., 2]
    ok = inside(x, y)
    assert ok.mean() > 0.7
    tolerance = 1e-3 if int(cv2.__version__.split(".")[0]) >= 5 else 0.02
    for ramp, expected in ((u, x), (v, y)):
        valid = valid_fraction(H, SIZE, SIZE)
        warped = warp(ramp, H, SIZE, valid, cv2.INTER_LINEAR)
        assert np.abs(warped - expected)[ok].max() < tolerance
    assert valid == pytest.approx(
        ((x > -0.5) & (x < 319.5) & (y > -0.5) & (y < 239.5)).mean(), abs=0.01
    )


def test_coarse_grid_of_a_plane_equals_its_homography() -> None:
    R_rn, dp = rotation_translation(RENDER, NOW)
    inverse = np.linalg.inv(homography(K, R_rn, dp, 4.0))
    u, v = ramps()
    source = np.stack((u, v, np.ones_like(u)), axis=-1).astype(np.float64) @ inverse.T
    geometry = ViewGeometry(CAMERA)
    motion = ShutterPoses((NOW,)).motion_from(RENDER, geometry.nodes.rows, SIZE[1])
    found = render_map(geometry, motion, FittedPlane(4.0))
    np.testing.assert_allclose(found.x_px, source[..., 0] / source[..., 2], atol=0.02)
    np.testing.assert_allclose(found.y_px, source[..., 1] / source[..., 2], atol=0.02)


# --- a room of two planes, ray cast by hand ------------------------------------------------------

WALL_M, BOX_M = 6.0, 2.5  # z-planes of the render camera; the box covers -0.8 < x < 0.4, |y| < 0.6


def cast(T_render_camera: Transform) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
    """RGB and depth of a wall and a box, seen from anywhere.

    Smooth colours in the render camera's axes.
    """
    u, v = ramps()
    rays = np.stack((u, v, np.ones_like(u)), axis=-1).astype(np.float64) @ np.linalg.inv(K).T
    R, p = T_render_camera.rotation(), T_render_camera.p_m
    direction = rays @ R.T
    best = np.full(u.shape, np.inf)
    colour = np.zeros((*u.shape, 3))
    for plane_m, is_box in ((WALL_M, False), (BOX_M, True)):
        z = (plane_m - p[2]) / direction[..., 2]
        hit = p + direction * z[..., None]
        on = (z > 0) & (z < best)
        if is_box:
            on &= (hit[..., 0] > -0.8) & (hit[..., 0] < 0.4) & (np.abs(hit[..., 1]) < 0.6)
        shade = 120 + 60 * np.sin(hit[..., :2] * (9.0 if is_box else 4.0))
        colour[on] = np.concatenate((shade, shade[..., :1] * 0.5), axis=-1)[on]
        best[on] = z[on]
    return np.rint(colour).astype(np.uint8), np.rint(best * 655.35).astype(np.uint16)


PICTURE, DEPTH = cast(Transform.identity())
TRUTH, TRUTH_DEPTH = cast(MOTION)


def error(pixels: npt.NDArray[np.uint8]) -> float:
    """Mean absolute difference from the truth, away from the border."""
    return float(np.abs(pixels[30:-30, 40:-40].astype(float) - TRUTH[30:-30, 40:-40]).mean())


def test_each_method_is_better_than_the_one_before() -> None:
    compensator = Compensator()
    order: tuple[Method, ...] = ("none", "rotation", "homography", "reproject")
    results = [compensator.compensate(PICTURE, K, RENDER, NOW, mode, DEPTH) for mode in order]
    assert [r.method for r in results] == list(order)
    errors = [error(r.pixels) for r in results]
    assert errors == sorted(errors, reverse=True)
    assert errors[3] < 0.15 * errors[0]
    assert results[2].d_m == pytest.approx(median_depth(DEPTH)) == pytest.approx(WALL_M, rel=1e-3)
    assert all(r.angle_rad == pytest.approx(np.linalg.norm([0.02, -0.04, 0.03])) for r in results)
    assert results[0].pixels is PICTURE
    assert results[3].valid_fraction == pytest.approx(results[2].valid_fraction, abs=0.05)
    assert 0.7 < results[2].valid_fraction < 1.0


def test_reprojection_sees_through_to_the_truth() -> None:
    pixels = Compensator().compensate(PICTURE, K, RENDER, NOW, "reproject", DEPTH).pixels
    difference = np.abs(pixels.astype(float) - TRUTH).max(axis=-1)[30:-30, 40:-40]
    assert np.mean(difference < 6) > 0.93


@pytest.mark.parametrize("mode", ["rotation", "homography", "reproject"])
def test_flipped_buffers_give_the_same_picture(mode: Method) -> None:
    flipped, flipped_depth = PICTURE[::-1].copy()[::-1], DEPTH[::-1].copy()[::-1]
    assert flipped.strides[0] < 0
    for image, upright in ((flipped, PICTURE), (flipped_depth, DEPTH)):
        got = (
            Compensator().compensate(image, K, RENDER, NOW, mode, flipped_depth).pixels.astype(int)
        )
        expected = Compensator().compensate(upright, K, RENDER, NOW, mode, DEPTH).pixels.astype(int)
        # Equal but for rounding: nearest neighbours may tie, blends may round.
        close = np.abs(got - expected) <= 1
        assert close.mean() > 0.999


def test_depth_pictures_hold_the_depth_seen_from_now() -> None:
    for mode in ("homography", "reproject"):
        pixels = Compensator().compensate(DEPTH, K, RENDER, NOW, mode).pixels
        assert pixels.dtype == np.uint16
        relative = np.abs(pixels.astype(float) / TRUTH_DEPTH - 1)[30:-30, 40:-40]
        assert np.mean(relative < 2e-3) > (0.93 if mode == "reproject" else 0.8)
    unturned = np.abs(DEPTH.astype(float) / TRUTH_DEPTH - 1)[30:-30, 40:-40]
    assert np.mean(unturned < 2e-3) < 0.3


def test_no_hit_stays_no_hit() -> None:
    sky = np.full(SIZE[::-1], NO_HIT, dtype=np.uint16)
    for mode in ("rotation", "homography", "reproject"):
        assert (Compensator().compensate(sky, K, RENDER, NOW, mode).pixels == NO_HIT).all()


def test_missing_depth_falls_back_and_says_so() -> None:
    compensator = Compensator()
    blind = compensator.compensate(PICTURE, K, RENDER, NOW, "reproject")
    assert (blind.method, blind.d_m) == ("homography", 8.0)
    compensator.compensate(PICTURE, K, RENDER, NOW, "homography", DEPTH)
    assert compensator.compensate(PICTURE, K, RENDER, NOW, "homography").d_m == pytest.approx(
        WALL_M, rel=1e-3
    )
    assert Compensator(5.0).compensate(PICTURE, K, RENDER, NOW, "homography", DEPTH).d_m == 5.0


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="positive"):
        Compensator(0.0)
    with pytest.raises(ValueError, match="depth is"):
        Compensator().compensate(PICTURE, K, RENDER, NOW, "reproject", DEPTH[:-1])


@pytest.mark.parametrize("modality", [None, Modality.DEPTH32])
def test_metres_are_a_depth_picture_too(modality: Modality | None) -> None:
    metres = np.asarray(DEPTH / 655.35, np.float32)
    result = Compensator().compensate(metres, K, RENDER, NOW, "reproject", modality=modality)
    assert result.method == "reproject" and result.d_m is None
    assert result.pixels.dtype == np.float32
    relative = np.abs(result.pixels * 655.35 / TRUTH_DEPTH - 1)[30:-30, 40:-40]
    assert np.mean(relative < 2e-3) > 0.93


def test_numbers_of_things_are_not_mixed_when_named_so() -> None:
    """16 bits without a name are depths.

    Instances are numbers, and none comes up that was not there.
    """
    numbers = np.where(DEPTH < 4 * 655.35, 700, 9000).astype(np.uint16)
    result = Compensator(WALL_M).compensate(
        numbers, K, RENDER, NOW, "homography", DEPTH, modality=Modality.INSTANCE
    )
    assert set(np.unique(result.pixels).tolist()) == {0, 700, 9000}


def test_each_camera_matrix_and_size_counts() -> None:
    """One compensator, pictures of several cameras in turn.

    Unequal focal lengths and a centre off the middle.
    """
    compensator = Compensator(4.0)
    for width, height, fx, fy, cx, cy in (
        (320, 240, 300.0, 200.0, 150.0, 130.0),
        (160, 240, 300.0, 200.0, 150.0, 130.0),
        (160, 240, 200.0, 300.0, 90.0, 110.0),
    ):
        matrix = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
        u, v = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
        ray = np.stack(((u - cx) / fx, (v - cy) / fy, np.ones_like(u)), axis=-1)
        # A smooth pattern on the plane; at each pixel shown, the point of the plane that its ray
        # meets.
        there = ray @ MOTION.rotation().T
        met = MOTION.p_m + there * ((4.0 - MOTION.p_m[2]) / there[..., 2])[..., None]
        image, expected = (
            np.rint(127 + 60 * np.sin(3 * X[..., 0]) + 60 * np.cos(4 * X[..., 1])).astype(np.uint8)
            for X in (ray * 4.0, met)
        )
        shown = compensator.compensate(image, matrix, RENDER, NOW, "homography").pixels
        assert shown.shape == (height, width)
        off = np.abs(shown.astype(int) - expected)[24:-24, 24:-24]
        assert np.mean(off <= 3) > 0.99


def test_looking_the_other_way_shows_nothing() -> None:
    turned = RENDER @ Transform(np.array([0.0, 0.0, -0.5]), q_exp(np.array([0.0, np.pi, 0.0])))
    modes: tuple[Method, ...] = ("rotation", "homography", "reproject")
    for mode in modes:
        result = Compensator().compensate(PICTURE, K, RENDER, turned, mode, DEPTH)
        assert result.valid_fraction == 0.0
        assert not result.pixels.any()


def test_corner_of_gray_picture_with_depth_of_constant_plane() -> None:
    gray = PICTURE[..., 0].copy()
    flat: FloatArray = np.full(SIZE[::-1], 4.0 * 655.35)
    plane = np.rint(flat).astype(np.uint16)
    by_plane = Compensator(4.0).compensate(gray, K, RENDER, NOW, "homography").pixels.astype(int)
    by_depth = Compensator().compensate(gray, K, RENDER, NOW, "reproject", plane).pixels.astype(int)
    assert (np.abs(by_plane - by_depth) <= 2).mean() > 0.99


@pytest.mark.parametrize("flipped", [False, True], ids=["upright", "upside-down"])
def test_rgb_is_sampled_as_opencv_does_bit_by_bit(flipped: bool) -> None:
    """Four channels at once is only a quicker way.

    Also with another size after it, from kept memory.
    """
    rng = np.random.default_rng(5)
    H = np.array([[0.97, 0.03, 4.0], [-0.02, 1.01, -3.0], [2e-5, -1e-5, 1.0]])
    for height, width in ((48, 64), (96, 80), (48, 64)):
        image = cv2.GaussianBlur(rng.integers(0, 256, (height, width, 3), np.uint8), (5, 5), 1.5)
        given = image[::-1].copy()[::-1] if flipped else image
        first = by_homography(given, H, (width, height), cv2.INTER_LINEAR)
        want = cv2.warpPerspective(image, H, (width, height))
        # A flip is folded into the numbers of H.
        assert np.abs(first.astype(int) - want).max() <= flipped
        u, v = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
        x, y = 0.9 * u + 3.3, 0.9 * v + 0.01 * u - 2.2
        mapped = by_map(given, x, y, cv2.INTER_LINEAR, (0, 0, 0, 0))
        assert (
            np.abs(mapped.astype(int) - cv2.remap(image, x, y, cv2.INTER_LINEAR)).max() <= flipped
        )
        again = by_homography(given, np.eye(3), (width, height), cv2.INTER_LINEAR)
        np.testing.assert_array_equal(again, image)
        assert np.abs(first.astype(int) - want).max() <= flipped, (
            "a delivered picture is not overwritten"
        )


def test_an_upside_down_picture_is_not_copied() -> None:
    """OpenCV copies what does not lie in memory row after row.

    The result is all that needs memory.
    """
    image = np.zeros((1000, 1000), np.uint8)[::-1]
    tracemalloc.start()
    by_homography(image, np.eye(3), (1000, 1000), cv2.INTER_LINEAR)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert image.nbytes <= peak_bytes < 1.5 * image.nbytes
