"""The late warp's geometry.

Golden values G1 to G9, a general plane, depth, and the variants that are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from vil_bridge.core.geometry import (
    Transform,
    q_exp,
    q_from_euler_zyx,
    q_from_matrix,
    q_mul,
    q_to_matrix,
)
from vil_bridge.core.types import CameraModel, FloatArray
from vil_bridge.pipeline.warp.depth_reprojection import render_map
from vil_bridge.pipeline.warp.frame_warp import FrameWarp
from vil_bridge.pipeline.warp.homography import (
    homography,
    rotation_angle_rad,
    rotation_homography,
    rotation_translation,
    valid_fraction,
)
from vil_bridge.pipeline.warp.plane_fit import FittedPlane
from vil_bridge.pipeline.warp.rolling_shutter import CameraMotion, ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry
from vil_bridge.world.inertial.preintegration import NavState, preintegrate, propagate

K = np.array([[320.0, 0, 319.5], [0, 320, 239.5], [0, 0, 1]])
_Points = list[tuple[float, float]]
_Triple = tuple[float, float, float]
_Make = Callable[[FloatArray, FloatArray, float], FloatArray]

POINTS: _Points = [(319.5, 239.5), (100.0, 50.0), (600.0, 400.0)]
DEG = math.pi / 180

GOLDEN: dict[str, tuple[_Triple, _Triple, float, list[float], _Points]] = {
    "G1": ((0, 0, 0), (0, 0, 0), 5, [1, 0, 0, 0, 1, 0, 0, 0, 1], POINTS),
    "G2 yaw right": (
        (0, 10 * DEG, 0),
        (0, 0, 0),
        5,
        [
            1.4273360856,
            0,
            -136.74771457,
            0.16016743739,
            1.2323908286,
            -55.657603458,
            6.6875756739e-4,
            0,
            1,
        ],
        [(263.075366, 239.5), (5.610676, 20.600976), (513.578309, 380.658314)],
    ),
    "G3 tilt up": (
        (5 * DEG, 0, 0),
        (0, 0, 0),
        5,
        [
            0.9421293963,
            -0.081983687318,
            18.489657883,
            0,
            0.87708861901,
            40.994473809,
            0,
            -2.5659996031e-4,
            1,
        ],
        [(319.5, 267.496372), (110.014904, 85.951664), (613.994173, 436.647404)],
    ),
    "G4 roll clockwise": (
        (0, 0, 20 * DEG),
        (0, 0, 0),
        5,
        [
            0.9396926208,
            0.3420201433,
            -62.6456166676,
            -0.3420201433,
            0.9396926208,
            123.7190531143,
            0,
            0,
            1,
        ],
        [(319.5, 239.5), (48.424653, 136.50167), (637.978013, 294.384015)],
    ),
    "G5 forward": (
        (0, 0, 0),
        (0, 0, 0.5),
        5,
        [1.1111111111, 0, -35.5, 0, 1.1111111111, -26.6111111111, 0, 0, 1],
        [(319.5, 239.5), (75.611111, 28.944444), (631.166667, 417.833333)],
    ),
    "G6 right": (
        (0, 0, 0),
        (0.1, 0, 0),
        2,
        [1, 0, -16, 0, 1, 0, 0, 0, 1],
        [(303.5, 239.5), (84, 50), (584, 400)],
    ),
    "G7 down": (
        (0, 0, 0),
        (0, 0.2, 0),
        4,
        [1, 0, 0, 0, 1, -16, 0, 0, 1],
        [(319.5, 223.5), (100, 34), (600, 384)],
    ),
    "G8 combined": (
        (0.05, -0.10, 0.02),
        (0.05, -0.03, 0.12),
        3,
        [
            *(0.81993597037, -0.030531965867, 48.104969214),
            *(-0.088581060178, 0.87924489904, 43.922212202),
            *(-2.8403122252e-4, -1.4558770282e-4, 1),
        ],
        [(346.257692, 258.696152), (133.329499, 81.950552), (684.327965, 443.992)],
    ),
}
R_G8 = q_to_matrix(q_exp(np.array([0.05, -0.10, 0.02])))
DP_G8 = np.array([0.05, -0.03, 0.12])


def poses(R_rn: FloatArray, dp_render_m: FloatArray, seed: int = 1) -> tuple[Transform, Transform]:
    """Two world poses, anywhere, with that relation."""
    rng = np.random.default_rng(seed)
    T_world_render = Transform.of(rng.normal(size=3), rng.normal(size=4))
    return T_world_render, T_world_render @ Transform(dp_render_m, q_from_matrix(R_rn))


def mapped(H: FloatArray, points_px: list[tuple[float, float]]) -> FloatArray:
    image = np.column_stack((np.array(points_px), np.ones(len(points_px)))) @ H.T
    pixels: FloatArray = image[:, :2] / image[:, 2:]
    return pixels


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_homographies(case: str) -> None:
    rotvec, dp, d_m, expected, images = GOLDEN[case]
    R_rn, dp_render_m = rotation_translation(
        *poses(q_to_matrix(q_exp(np.array(rotvec, float))), np.array(dp, float))
    )
    H = homography(K, R_rn, dp_render_m, d_m)
    np.testing.assert_allclose(H / H[2, 2], np.array(expected).reshape(3, 3), rtol=0, atol=1e-6)
    np.testing.assert_allclose(mapped(H, POINTS), images, rtol=0, atol=1e-6)


def test_general_plane_and_inverse() -> None:
    normal = np.array([0.1, 0.3, 1.0]) / np.linalg.norm([0.1, 0.3, 1.0])
    H = homography(K, R_G8, DP_G8, 3.0, normal)
    expected = [
        [0.8046712459, -0.0454000769, 53.576952331],
        [-0.0892471703, 0.8630276369, 45.4858791794],
        [-0.000290903, -0.0001749769, 1],
    ]
    np.testing.assert_allclose(H / H[2, 2], expected, rtol=0, atol=1e-6)
    inverse = np.linalg.inv(homography(K, R_G8, DP_G8, 3.0)).astype(np.float64)
    np.testing.assert_allclose(
        mapped(inverse, [(100, 50)]), [(61.398588, 12.007098)], rtol=0, atol=1e-6
    )


def random_cases(count: int = 200) -> list[tuple[FloatArray, FloatArray, float, FloatArray]]:
    """Rotation, displacement, plane distance and unit normal, as in the table of wrong variants."""
    rng = np.random.default_rng(7)
    cases = []
    for _ in range(count):
        R_rn = q_to_matrix(q_exp(rng.uniform(-0.3, 0.3, 3)))
        normal = np.array([*rng.uniform(-0.3, 0.3, 2), 1.0])
        cases.append(
            (
                R_rn,
                rng.uniform(-0.4, 0.4, 3),
                float(rng.uniform(2, 10)),
                normal / np.linalg.norm(normal),
            )
        )
    return cases


def plane_error_px(
    H: FloatArray, R_rn: FloatArray, dp: FloatArray, d_m: float, normal: FloatArray
) -> float:
    """Largest error over points of the plane, projected through both cameras by hand."""
    rng = np.random.default_rng(3)
    rays = np.column_stack((rng.uniform(-0.4, 0.4, (50, 2)), np.ones(50)))
    X_render = rays * (d_m / (rays @ normal))[:, None]
    X_now = (X_render - dp) @ R_rn
    in_view = X_now[:, 2] > 0.3
    u_render = (X_render @ K.T)[:, :2] / X_render[:, 2:]
    u_now = (X_now @ K.T)[:, :2] / X_now[:, 2:]
    return float(np.max(np.abs(mapped(H, u_render.tolist()) - u_now)[in_view]))


def test_points_of_any_plane_land_where_they_should() -> None:
    e3 = np.array([0.0, 0.0, 1.0])
    for R_rn, dp, d_m, normal in random_cases():
        R, moved = rotation_translation(*poses(R_rn, dp))
        assert plane_error_px(homography(K, R, moved, d_m), R_rn, dp, d_m, e3) < 1e-6
        assert plane_error_px(homography(K, R, moved, d_m, normal), R_rn, dp, d_m, normal) < 1e-6


def variant(R: FloatArray, t: FloatArray, d_m: float) -> FloatArray:
    H: FloatArray = K @ (R + np.outer(t, [0, 0, 1]) / d_m) @ np.linalg.inv(K)
    return H


WRONG: dict[str, tuple[_Make, tuple[float, float]]] = {
    "t = +dp": (lambda R, dp, d: variant(R.T, dp, d), (156.739933, 87.688020)),
    "t = -dp": (lambda R, dp, d: variant(R.T, -dp, d), (134.223277, 82.227021)),
    "t = +RT dp": (lambda R, dp, d: variant(R.T, R.T @ dp, d), (157.600469, 87.952349)),
    "R for RT": (lambda R, dp, d: variant(R, -R.T @ dp, d), (25.113644, -1.521373)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_variants_are_told_apart(name: str) -> None:
    make, image = WRONG[name]
    np.testing.assert_allclose(
        mapped(make(R_G8, DP_G8, 3.0), [(100, 50)]), [image], rtol=0, atol=1e-6
    )
    right = mapped(homography(K, R_G8, DP_G8, 3.0), [(100, 50)])
    assert np.abs(right - np.array(image)).max() > 0.5
    e3 = np.array([0.0, 0.0, 1.0])
    errors = [plane_error_px(make(R, dp, d), R, dp, d, e3) for R, dp, d, _ in random_cases(40)]
    assert np.median(errors) > 1.0


def test_inertial_samples_to_homography() -> None:
    """G9: constant rate and force for 56 ms, gravity, lever arm and camera tilt."""
    T_s, t1_ns = 0.056, 56_000_000
    q_world_body = q_from_euler_zyx(40 * DEG, 10 * DEG, -5 * DEG)
    T_body_camera = Transform(
        np.array([0.10, 0, 0.05]),
        q_mul(
            q_from_matrix(np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])),
            q_exp(np.array([20 * DEG, 0, 0])),
        ),
    )
    expected_bc = np.array(
        [[0, 0.342020143, 0.939692621], [-1, 0, 0], [0, -0.939692621, 0.342020143]]
    )
    np.testing.assert_allclose(T_body_camera.rotation(), expected_bc, atol=1e-9)
    t_ns = np.array([0, t1_ns // 3, t1_ns])
    w, f = np.tile([0.3, -0.5, 1.2], (3, 1)), np.tile([0.2, -0.1, 9.9], (3, 1))
    increments = preintegrate(t_ns, w, f)
    assert increments.dt_s == pytest.approx(T_s)
    np.testing.assert_allclose(
        increments.beta_mps, (0.003724918, -0.010048861, 0.554415078), atol=1e-9
    )
    np.testing.assert_allclose(
        increments.alpha_m, (0.000173596, -0.000239066, 0.015523923), atol=1e-9
    )
    render = NavState(0, Transform(np.array([3.0, -2, 1]), q_world_body), np.array([2, -1, 0.5]))
    now = propagate(render, increments)
    assert now.t_ns == t1_ns
    dp_body = q_to_matrix(q_world_body).T @ (now.T_world_body.p_m - render.T_world_body.p_m)
    np.testing.assert_allclose(dp_body, (0.04702589, -0.116529749, 0.026509555), atol=1e-9)
    R_rn, dp_render_m = rotation_translation(
        render.T_world_body @ T_body_camera, now.T_world_body @ T_body_camera
    )
    expected_R = [
        [0.997602076, -0.039537776, -0.056805482],
        [0.037931284, 0.998856953, -0.029086183],
        [0.057890553, 0.026861732, 0.997961488],
    ]
    np.testing.assert_allclose(R_rn, expected_R, atol=1e-9)
    np.testing.assert_allclose(dp_render_m, (0.110725745, -0.012043031, 0.052686902), atol=1e-9)
    check_g9_homographies(R_rn, dp_render_m)


def check_g9_homographies(R_rn: FloatArray, dp_render_m: FloatArray) -> None:
    f = 548.408834588972
    K9 = np.array([[f, 0, 511.5], [0, f, 383.5], [0, 0, 1]])
    table: dict[float, tuple[list[float], list[float], _Points]] = {
        2.0: (
            [
                0.90138586698,
                0.010308228308,
                11.413813269,
                -0.075633925377,
                0.93373184142,
                55.248158213,
            ],
            [-9.8841550694e-5, -5.0609965306e-5],
            [(512.267381, 402.832281), (11.413813, 55.248158), (1094.609713, 806.968263)],
        ),
        5.0: (
            [
                0.88950949695,
                0.01017241041,
                35.517511963,
                -0.074637397122,
                0.92142929124,
                57.250497796,
            ],
            [-9.7539246239e-5, -4.9943144694e-5],
            [(531.070228, 400.063817), (35.517512, 57.250498), (1106.016760, 797.800167)],
        ),
        1e9: (
            [
                0.88176426887,
                0.010083836158,
                51.236847362,
                -0.073987506744,
                0.91340612787,
                58.55633255,
            ],
            [-9.6689942537e-5, -4.9508274636e-5],
            [(543.312541, 398.261302), (51.236847, 58.556333), (1113.429662, 791.842253)],
        ),
    }
    for d_m, (first, last, images) in table.items():
        H = homography(K9, R_rn, dp_render_m, d_m)
        np.testing.assert_allclose((H / H[2, 2]).ravel(), [*first, *last, 1], rtol=0, atol=1e-6)
        np.testing.assert_allclose(
            mapped(H, [(511.5, 383.5), (0, 0), (1023, 767)]), images, rtol=0, atol=1e-6
        )
    far, H = rotation_homography(K9, R_rn), homography(K9, R_rn, dp_render_m, 1e9)
    np.testing.assert_allclose(far / far[2, 2], (H / H[2, 2]), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("render_px", "depth_m", "now_px"),
    [
        ((100, 50), 2.0, (126.695458, 80.310067)),
        ((100, 50), 8.0, (141.287815, 83.918508)),
        ((600, 400), 1.5, (693.719310, 457.155778)),
    ],
)
def test_depth_aware_single_points(
    render_px: tuple[float, float], depth_m: float, now_px: tuple[float, float]
) -> None:
    """The map is inverse: ask at the pixel seen now, be sent to the render pixel.

    Linear between its nodes.
    """
    geometry = ViewGeometry(CameraModel("", 960, 640, 1.0, (320.0, 320.0, 319.5, 239.5)))
    found = render_map(geometry, CameraMotion(R_G8[None], DP_G8[None]), FittedPlane(depth_m))
    column, row = int(now_px[0]), int(now_px[1])
    fx, fy = now_px[0] - column, now_px[1] - row
    weights = np.outer([1 - fy, fy], [1 - fx, fx])
    for plane, expected in zip((found.x_px, found.y_px), render_px, strict=True):
        assert float(np.sum(weights * plane[row : row + 2, column : column + 2])) == pytest.approx(
            expected, abs=0.02
        )


@pytest.mark.parametrize(
    ("render_px", "depth_m", "now"),
    [
        ((100, 50), 2.0, (126.695458, 80.310067, 2.068182)),
        ((100, 50), 8.0, (141.287815, 83.918508, 8.620169)),
        ((600, 400), 1.5, (693.719310, 457.155778, 1.205989)),
    ],
)
def test_single_points_go_where_their_depth_says(
    render_px: tuple[float, float], depth_m: float, now: tuple[float, float, float]
) -> None:
    geometry = ViewGeometry(CameraModel("", 960, 640, 1.0, (320.0, 320.0, 319.5, 239.5)))
    T_world_render, T_world_now = poses(R_G8, DP_G8)
    frame = FrameWarp(geometry, T_world_render, ShutterPoses((T_world_now,)), "reproject")
    placed = frame.place(*render_px, depth_m)
    assert placed is not None
    np.testing.assert_allclose(placed, now, rtol=0, atol=1e-6)


def test_valid_fraction_counts_pixels() -> None:
    size = (320, 240)
    K_small = np.array([[200.0, 0, 159.5], [0, 200, 119.5], [0, 0, 1]])
    for R_rn, dp, d_m, _ in random_cases(40):
        H = homography(K_small, R_rn, dp, d_m)
        u, v = np.meshgrid(np.arange(size[0]), np.arange(size[1]))
        source = np.stack((u, v, np.ones_like(u)), axis=-1) @ np.linalg.inv(H).T
        x, y, w = (
            source[..., 0] / source[..., 2],
            source[..., 1] / source[..., 2],
            source[..., 2] * H[2, 2],
        )
        inside = (x > -0.5) & (x < size[0] - 0.5) & (y > -0.5) & (y < size[1] - 0.5) & (w > 0)
        assert valid_fraction(H, size, size) == pytest.approx(inside.mean(), abs=0.01)
    away = rotation_homography(K_small, q_to_matrix(q_exp(np.array([0.0, 2.5, 0.0]))))
    assert valid_fraction(away, size, size) == 0.0


@pytest.mark.parametrize(
    "shift_px", [(0, 0), (40, 0), (-40, 0), (0, 30), (0, -30), (100, -60), (-319, 0), (400, 0)]
)
@pytest.mark.parametrize("margin_px", [0, 24])
def test_valid_fraction_of_a_shift_is_the_area_left(
    shift_px: tuple[int, int], margin_px: int
) -> None:
    """A rendered picture with a margin on each side, shifted: the overlap of two rectangles."""
    (x, y), (width, height) = shift_px, (320, 240)
    H = np.array([[1.0, 0.0, x - margin_px], [0.0, 1.0, y - margin_px], [0.0, 0.0, 1.0]])
    left = max(0, width - max(0, abs(x) - margin_px)) * max(0, height - max(0, abs(y) - margin_px))
    source = (width + 2 * margin_px, height + 2 * margin_px)
    assert valid_fraction(H, source, (width, height)) == pytest.approx(
        left / (width * height), abs=1e-9
    )
    mirrored = np.array([[-1.0, 0.0, width - 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) @ H
    assert valid_fraction(mirrored, source, (width, height)) == pytest.approx(
        left / (width * height), abs=1e-9
    )


@pytest.mark.parametrize("corner", [(-1, -1), (1, -1), (-1, 1), (1, 1)])
def test_valid_fraction_of_a_corner_cut_off(corner: tuple[int, int]) -> None:
    """A square turned by 45 degrees about a corner keeps a kite: two triangles of 22.5 degrees."""
    s = math.sqrt(0.5)
    x, y = (side * 160.0 for side in corner)
    about = np.array([[1.0, 0.0, x + 159.5], [0.0, 1.0, y + 159.5], [0.0, 0.0, 1.0]])
    H = about @ np.array([[s, -s, 0.0], [s, s, 0.0], [0.0, 0.0, 1.0]]) @ np.linalg.inv(about)
    assert valid_fraction(H, (320, 320), (320, 320)) == pytest.approx(
        math.tan(math.radians(22.5)), abs=1e-6
    )


def test_a_turn_is_as_large_either_way_round() -> None:
    for angle in (0.0, 0.3, -0.3, 3.0, -3.0):
        q = q_exp(np.array([0.0, angle, 0.0]))
        for sign in (1.0, -1.0):
            turned = Transform(np.zeros(3), sign * q)
            assert rotation_angle_rad(Transform.identity(), turned) == pytest.approx(
                abs(angle), abs=1e-9
            )
