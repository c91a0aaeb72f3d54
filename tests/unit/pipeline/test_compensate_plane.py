"""The homography's plane: fitted, robust, seen by another camera; and two more wrong variants."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform, q_exp, q_from_euler_zyx, q_from_matrix, q_mul
from vil_bridge.core.types import FloatArray, ImageArray, Modality
from vil_bridge.pipeline.warp.compensator import Compensator
from vil_bridge.pipeline.warp.frame_warp import FrameWarp
from vil_bridge.pipeline.warp.homography import homography, rotation_translation
from vil_bridge.pipeline.warp.plane_fit import FittedPlane, fit_plane, median_depth
from vil_bridge.pipeline.warp.rolling_shutter import ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry
from vil_bridge.world.inertial.preintegration import NavState, preintegrate, propagate

MODEL = CameraModel("front", 640, 480, 1.2)
K = MODEL.K
NO_HIT = 65535


def rays() -> FloatArray:
    v, u = np.mgrid[0:480, 0:640]
    return np.asarray(np.stack((u, v, np.ones_like(u)), axis=-1) @ np.linalg.inv(K).T, np.float64)


def depth_of(normal: FloatArray, d_m: float) -> ImageArray:
    return np.rint(np.clip(d_m / (rays() @ normal), 0, 99) * 655.35).astype(np.uint16)


def unit(*v: float) -> FloatArray:
    found: FloatArray = np.array(v) / np.linalg.norm(v)
    return found


@pytest.mark.parametrize("normal", [unit(0, 0, 1), unit(0.1, 0.3, 1), unit(-0.5, 0, 0.8)])
@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_a_plane_is_found(normal: FloatArray, kind: type) -> None:
    depth = depth_of(normal, 3.0)
    if kind is np.float32:
        depth = (depth / 655.35).astype(np.float32)
    plane = fit_plane(depth, K)
    if normal[2] == 1.0:
        assert plane is None, "a distance says as much"
        return
    assert plane is not None and plane.fitted
    assert plane.d_m == pytest.approx(3.0, abs=0.005)
    np.testing.assert_allclose(plane.normal, normal, atol=2e-3)
    assert np.linalg.norm(plane.normal) == pytest.approx(1.0, abs=1e-12)


def test_things_before_the_plane_do_not_bend_it() -> None:
    normal = unit(0.1, 0.35, 1)
    depth = depth_of(normal, 4.0)
    rng = np.random.default_rng(5)
    for _ in range(9):
        x, y = rng.integers(0, 520), rng.integers(0, 380)
        depth[y : y + 90, x : x + 110] = round(float(rng.uniform(0.8, 2.5)) * 655.35)
    depth[:40] = NO_HIT
    assert 0.5 < np.mean(depth == depth_of(normal, 4.0)) < 0.8
    plane = fit_plane(depth, K)
    assert plane is not None
    assert plane.d_m == pytest.approx(4.0, rel=0.01)
    np.testing.assert_allclose(plane.normal, normal, atol=0.01)


def test_what_is_no_plane_is_a_distance() -> None:
    sky = np.full((480, 640), NO_HIT, np.uint16)
    assert fit_plane(sky, K) is None
    beside = depth_of(unit(1.0, 0.0, 0.3), 1.0)  # half of what is seen lies beyond its horizon
    beside[:, : 640 // 2 - 120] = NO_HIT
    assert fit_plane(beside, K) is None
    compensator = Compensator("fit")
    assert compensator.plane(None, K).d_m == 8.0
    assert compensator.plane(sky, K).d_m == pytest.approx(100.0)
    fitted = compensator.plane(depth_of(unit(0.1, 0.3, 1), 3.0), K)
    assert fitted.fitted and compensator.plane(None, K) is fitted, "the newest counts"


def seen_as(z_m: FloatArray, kind: type) -> ImageArray:
    """A depth picture of z-depths; negative ones, and those of 100 m and more, are sky."""
    full = np.where((z_m <= 0.0) | (z_m > 100.0), 100.0, z_m)
    return (
        np.rint(full * 655.35).astype(np.uint16) if kind is np.uint16 else full.astype(np.float32)
    )


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
@pytest.mark.parametrize(
    ("sky_share", "found"), [(0.0, True), (0.4, True), (0.6, True), (0.7, True), (0.8, False)]
)
def test_sky_is_not_a_surface(kind: type, sky_share: float, found: bool) -> None:
    """A slope below the sky.

    The plane is the slope, unless it fills less than a quarter of the picture.
    """
    normal = unit(0.3, 0.1, 1)
    z_m = 5.0 / (rays() @ normal)
    z_m[: round(480 * sky_share)] = 100.0
    plane = fit_plane(seen_as(z_m, kind), K)
    assert (plane is not None) == found
    if plane is not None:
        assert plane.d_m == pytest.approx(5.0, rel=1e-3)
        np.testing.assert_allclose(plane.normal, normal, atol=1e-3)


@pytest.mark.parametrize("pitch_rad", [0.0, 0.25, 0.9])
def test_a_floor_with_its_horizon_in_the_picture_is_no_plane(pitch_rad: float) -> None:
    """A floor 1.5 m below; above its horizon, sky.

    What lies there must not be taken for a point behind the camera.
    """
    normal = unit(0.0, math.cos(pitch_rad), math.sin(pitch_rad))
    horizon_seen = bool(((rays() @ normal) <= 0.0).any())
    assert horizon_seen == (pitch_rad < 0.6)
    plane = fit_plane(seen_as(1.5 / (rays() @ normal), np.float32), K)
    assert (plane is None) == horizon_seen
    if plane is not None:
        assert plane.d_m == pytest.approx(1.5, rel=1e-4)


def test_pixels_without_depth_and_near_things_leave_a_far_plane_exact() -> None:
    """A wall 30 m away, of which a fifth is hidden by things at 20 m.

    Pixels of depth 0 hold no measurement.
    """
    normal = unit(0.25, 0.0, 1)
    z_m = 30.0 / (rays() @ normal)
    z_m[120:360, :260] = 20.0
    depth = seen_as(z_m, np.uint16)
    depth[200:300, 300:400] = 0
    plane = fit_plane(depth, K)
    assert plane is not None
    assert plane.d_m == pytest.approx(30.0, rel=2e-3)
    np.testing.assert_allclose(plane.normal, normal, atol=2e-3)


@pytest.mark.parametrize("size", [(20, 28), (33, 65), (480, 640)])
def test_a_plane_is_found_in_pictures_of_every_size(size: tuple[int, int]) -> None:
    height, width = size
    small = CameraModel(
        "", width, height, 1.0, (0.9 * width, 1.1 * height, 0.45 * width, 0.6 * height)
    )
    v, u = np.mgrid[0:height, 0:width]
    normal = unit(-0.2, 0.3, 1)
    z_m = 4.0 / (np.stack((u, v, np.ones_like(u)), axis=-1) @ np.linalg.inv(small.K).T @ normal)
    plane = fit_plane(z_m.astype(np.float32), small.K)
    assert plane is not None
    assert plane.d_m == pytest.approx(4.0, rel=1e-5)
    np.testing.assert_allclose(plane.normal, normal, atol=1e-5)


@pytest.mark.parametrize(
    ("near_share", "median_m"), [(0.0, 9.0), (0.42, 9.0), (0.58, 2.0), (1.0, 2.0)]
)
def test_the_median_is_the_depth_of_the_greater_half(near_share: float, median_m: float) -> None:
    depth = np.full((480, 640), 9.0, np.float32)
    depth.reshape(-1)[np.random.default_rng(3).random(depth.size) < near_share] = 2.0
    assert median_depth(depth) == median_m
    depth = np.full((480, 640), 9.0, np.float32)
    depth[480 - round(480 * near_share) :] = 2.0
    assert median_depth(depth) == median_m


def test_the_median_is_of_every_eighth_pixel_of_every_eighth_row() -> None:
    depth = np.full((480, 640), 9.0, np.float32)
    depth[4::8, 4::8] = 2.0
    assert median_depth(depth) == 2.0


def test_a_plane_keeps_its_distance_from_the_camera() -> None:
    """A distance of 0 would move the picture infinitely far.

    At a touched wall 10 cm, elsewhere the truth.
    """
    for z_m, expected_m in ((0.0, 0.1), (0.04, 0.1), (0.12, 0.12), (0.3, 0.3), (50.0, 50.0)):
        for choice in (None, "fit"):
            compensator = Compensator(choice)
            assert compensator.plane(np.full((480, 640), z_m, np.float32), K).d_m == pytest.approx(
                expected_m
            )


@pytest.mark.parametrize("wrong", [0, 0.0, -1, -0.5, math.nan, -math.inf])
def test_a_plane_at_no_distance_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="plane depth must be positive"):
        Compensator(wrong)


@pytest.mark.parametrize("fixed", [3, 3.0, 0.02])
def test_a_fixed_distance_is_taken_whatever_the_depth(fixed: float) -> None:
    depth = depth_of(unit(0.1, 0.3, 1), 7.0)
    plane = Compensator(fixed).plane(depth, K)
    assert plane.d_m == fixed and not plane.fitted
    assert plane.normal.tolist() == [0.0, 0.0, 1.0]


def test_a_fitted_plane_shows_the_truth_where_a_distance_does_not() -> None:
    normal = unit(0.0, 0.5, 1)
    depth: ImageArray = depth_of(normal, 3.0)
    here = Transform.identity()
    now = Transform(np.array([0.2, -0.1, 0.1]), q_exp(np.array([0.01, -0.02, 0.02])))
    R_rn, dp = rotation_translation(here, now)
    X_render = rays() * (depth / 655.35)[..., None]
    X_now = (X_render - dp) @ R_rn
    true_px = (X_now @ K.T)[..., :2] / X_now[..., 2:]
    errors = {}
    for choice in (None, "fit"):
        plane = Compensator(choice).plane(depth, K)
        H = homography(K, R_rn, dp, plane.d_m, plane.normal)
        found = rays() @ K.T @ H.T
        errors[choice] = float(np.abs(found[..., :2] / found[..., 2:] - true_px).max())
    assert errors["fit"] < 0.05 < 5.0 < errors[None]


def test_a_plane_seen_by_the_other_camera_is_the_same_points() -> None:
    plane = FittedPlane(3.0, unit(0.1, 0.3, 1))
    T_here_there = Transform(np.array([0.32, 0.02, -0.1]), q_exp(np.array([0.1, -0.2, 0.05])))
    there = plane.seen_from(T_here_there)
    points = rays()[::60, ::60].reshape(-1, 3)
    points = points * (3.0 / (points @ plane.normal))[:, None]
    np.testing.assert_allclose(
        T_here_there.inverse().apply(points) @ there.normal, there.d_m, atol=1e-12
    )


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_median_of_both_kinds_of_depth(kind: type) -> None:
    depth: ImageArray = np.full((48, 64), 4.0 * (655.35 if kind is np.uint16 else 1.0)).astype(kind)
    assert median_depth(depth) == pytest.approx(4.0, rel=1e-3)


# --- from the IMU to the pixel: extrinsics and bias -----------------------------------------------

T_BODY_OPTICAL = Transform(
    np.array([0.10, 0.02, 0.05]),
    q_mul(
        q_from_matrix(np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])),
        q_exp(np.array([math.radians(20.0), 0.0, 0.0])),
    ),
)
BIAS_RADPS = np.array([0.02, -0.03, 0.025])
DELAY_S = 0.112


def error_px(T_body_camera: Transform, bias_radps: FloatArray) -> float:
    """Largest error at points of a plane at 3 m after 112 ms, with that extrinsic and that bias
    taken off.
    """
    t_ns = np.arange(0, 112_000_001, 1_000_000)
    w, f = np.array([0.4, -0.8, 1.2]), np.array([0.5, -0.4, 9.9])
    samples_w, samples_f = np.tile(w + BIAS_RADPS, (len(t_ns), 1)), np.tile(f, (len(t_ns), 1))
    render = NavState(
        0,
        Transform(np.array([3.0, -2, 1]), q_from_euler_zyx(0.7, 0.1, -0.1)),
        np.array([2.0, -1, 0.5]),
    )
    truth = propagate(render, preintegrate(t_ns, samples_w - BIAS_RADPS, samples_f))
    found = propagate(render, preintegrate(t_ns, samples_w - bias_radps, samples_f))
    H = homography(
        K,
        *rotation_translation(
            render.T_world_body @ T_body_camera, found.T_world_body @ T_body_camera
        ),
        3.0,
    )
    R, dp = rotation_translation(
        render.T_world_body @ T_BODY_OPTICAL, truth.T_world_body @ T_BODY_OPTICAL
    )
    grid = rays()[40:-40:80, 40:-40:80].reshape(-1, 3)
    X_now = (grid * 3.0 - dp) @ R
    expected = (X_now @ K.T)[:, :2] / X_now[:, 2:]
    shown = grid @ K.T @ H.T
    return float(np.abs(shown[:, :2] / shown[:, 2:] - expected).max())


def test_missing_extrinsics_and_a_raw_bias_fail_where_the_right_one_passes() -> None:
    assert error_px(T_BODY_OPTICAL, BIAS_RADPS) < 1e-6
    assert error_px(T_BODY_OPTICAL, np.zeros(3)) > 1.0, "the gyroscope's bias left in"
    untilted = Transform(
        T_BODY_OPTICAL.p_m, q_from_matrix(np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]]))
    )
    assert error_px(untilted, BIAS_RADPS) > 1.0, "the camera's tilt forgotten"
    assert error_px(Transform(np.zeros(3), T_BODY_OPTICAL.q_xyzw), BIAS_RADPS) > 1.0, (
        "the lever arm forgotten"
    )


def test_a_beacon_lands_on_its_point() -> None:
    here = Transform.identity()
    now = Transform(np.array([0.2, -0.1, 0.3]), q_exp(np.array([0.02, -0.05, 0.1])))
    X = np.array([0.4, -0.3, 3.0])
    u, v = ((K @ X) / X[2])[:2].tolist()
    X_now = now.inverse().apply(X)
    expected = ((K @ X_now) / X_now[2])[:2]
    frame = FrameWarp(
        ViewGeometry(MODEL), here, ShutterPoses((now,)), "homography", FittedPlane(8.0)
    )
    assert frame.place(u, v, 3.0) == pytest.approx((*expected, X_now[2]), abs=1e-9)
    assert frame.place(u, v, -1.0) is None
    pixels, mask = frame.show(Modality.FLOW, np.zeros((480, 640, 2), np.float32))
    assert mask is not None and not mask.any() and not pixels.any(), "flow without a picture before"
