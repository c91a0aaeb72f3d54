"""The homography's plane: fitted, robust, seen by another camera; and two more wrong variants."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.compensate.compensator import Compensator
from vil_bridge.compensate.exposure import Exposure
from vil_bridge.compensate.frame_warp import FrameWarp
from vil_bridge.compensate.homography import homography, rotation_translation
from vil_bridge.compensate.plane import Plane, fit_plane, median_depth
from vil_bridge.compensate.sight import Sight
from vil_bridge.core.geometry import Transform, q_exp, q_from_euler_zyx, q_from_matrix, q_mul
from vil_bridge.core.optics import CameraModel
from vil_bridge.core.types import FloatArray, ImageArray, Modality
from vil_bridge.inertial.preintegration import NavState, preintegrate, propagate

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
    plane = Plane(3.0, unit(0.1, 0.3, 1))
    T_here_there = Transform(np.array([0.32, 0.02, -0.1]), q_exp(np.array([0.1, -0.2, 0.05])))
    there = plane.seen_from(T_here_there)
    points = rays()[::60, ::60].reshape(-1, 3)
    points = points * (3.0 / (points @ plane.normal))[:, None]
    np.testing.assert_allclose(T_here_there.inverse().apply(points) @ there.normal, there.d_m, atol=1e-12)


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_median_of_both_kinds_of_depth(kind: type) -> None:
    depth: ImageArray = np.full((48, 64), 4.0 * (655.35 if kind is np.uint16 else 1.0)).astype(kind)
    assert median_depth(depth) == pytest.approx(4.0, rel=1e-3)


# --- from the IMU to the pixel: extrinsics and bias ------------------------------------------------

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
    """Largest error at points of a plane at 3 m after 112 ms, with that extrinsic and that bias taken off."""
    t_ns = np.arange(0, 112_000_001, 1_000_000)
    w, f = np.array([0.4, -0.8, 1.2]), np.array([0.5, -0.4, 9.9])
    samples_w, samples_f = np.tile(w + BIAS_RADPS, (len(t_ns), 1)), np.tile(f, (len(t_ns), 1))
    render = NavState(0, Transform(np.array([3.0, -2, 1]), q_from_euler_zyx(0.7, 0.1, -0.1)), np.array([2.0, -1, 0.5]))
    truth = propagate(render, preintegrate(t_ns, samples_w - BIAS_RADPS, samples_f))
    found = propagate(render, preintegrate(t_ns, samples_w - bias_radps, samples_f))
    H = homography(
        K, *rotation_translation(render.T_world_body @ T_body_camera, found.T_world_body @ T_body_camera), 3.0
    )
    R, dp = rotation_translation(render.T_world_body @ T_BODY_OPTICAL, truth.T_world_body @ T_BODY_OPTICAL)
    grid = rays()[40:-40:80, 40:-40:80].reshape(-1, 3)
    X_now = (grid * 3.0 - dp) @ R
    expected = (X_now @ K.T)[:, :2] / X_now[:, 2:]
    shown = grid @ K.T @ H.T
    return float(np.abs(shown[:, :2] / shown[:, 2:] - expected).max())


def test_missing_extrinsics_and_a_raw_bias_fail_where_the_right_one_passes() -> None:
    assert error_px(T_BODY_OPTICAL, BIAS_RADPS) < 1e-6
    assert error_px(T_BODY_OPTICAL, np.zeros(3)) > 1.0, "the gyroscope's bias left in"
    untilted = Transform(T_BODY_OPTICAL.p_m, q_from_matrix(np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])))
    assert error_px(untilted, BIAS_RADPS) > 1.0, "the camera's tilt forgotten"
    assert error_px(Transform(np.zeros(3), T_BODY_OPTICAL.q_xyzw), BIAS_RADPS) > 1.0, "the lever arm forgotten"


def test_a_beacon_lands_on_its_point() -> None:
    here = Transform.identity()
    now = Transform(np.array([0.2, -0.1, 0.3]), q_exp(np.array([0.02, -0.05, 0.1])))
    X = np.array([0.4, -0.3, 3.0])
    u, v = ((K @ X) / X[2])[:2].tolist()
    X_now = now.inverse().apply(X)
    expected = ((K @ X_now) / X_now[2])[:2]
    frame = FrameWarp(Sight(MODEL), here, Exposure((now,)), "homography", Plane(8.0))
    assert frame.place(u, v, 3.0) == pytest.approx((*expected, X_now[2]), abs=1e-9)
    assert frame.place(u, v, -1.0) is None
    pixels, mask = frame.show(Modality.FLOW, np.zeros((480, 640, 2), np.float32))
    assert mask is not None and not mask.any() and not pixels.any(), "flow without a picture before"
