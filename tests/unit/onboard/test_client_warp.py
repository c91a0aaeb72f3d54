"""The onboard warp as a file, its copies of the bridge's functions, and the golden values for
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.support.common import ROOT
from tests.support.one_file import check_python_3_8, companions
from vil_bridge import client_warp as onboard
from vil_bridge.client_warp import Plane
from vil_bridge.core import geometry
from vil_bridge.core.camera_model import Distortion, LensModel
from vil_bridge.core.geometry import T_FLU_OPTICAL
from vil_bridge.core.types import DEPTH_UNITS_PER_M, FloatArray
from vil_bridge.optics.lens import distort, undistort
from vil_bridge.pipeline.warp import homography as bridge_homography
from vil_bridge.pipeline.warp import plane_fit as bridge_plane
from vil_bridge.world.inertial import preintegration

FILE = ROOT / "vil_bridge" / "client_warp.py"
DEG = math.pi / 180
K = np.array([[320.0, 0, 319.5], [0, 320, 239.5], [0, 0, 1]])
CENTRE, UPPER_LEFT, LOWER_RIGHT = (319.5, 239.5), (100.0, 50.0), (600.0, 400.0)
E3 = np.array([0.0, 0.0, 1.0])
CAMERA = onboard._Camera((320.0, 320.0, 319.5, 239.5), (640, 480), None, onboard.T_FLU_OPTICAL)
_Triple = tuple[float, float, float]
_Wrong = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]

# Golden values: rotation vector, dp, d, and where centre, upper left and lower right go.
GOLDEN: dict[str, tuple[_Triple, _Triple, float, list[tuple[float, float]]]] = {
    "G1": ((0, 0, 0), (0, 0, 0), 5, [CENTRE, UPPER_LEFT, LOWER_RIGHT]),
    "G2": (
        (0, 10 * DEG, 0),
        (0, 0, 0),
        5,
        [(263.075366, 239.5), (5.610676, 20.600976), (513.578309, 380.658314)],
    ),
    "G3": (
        (5 * DEG, 0, 0),
        (0, 0, 0),
        5,
        [(319.5, 267.496372), (110.014904, 85.951664), (613.994173, 436.647404)],
    ),
    "G4": (
        (0, 0, 20 * DEG),
        (0, 0, 0),
        5,
        [CENTRE, (48.424653, 136.50167), (637.978013, 294.384015)],
    ),
    "G5": ((0, 0, 0), (0, 0, 0.5), 5, [CENTRE, (75.611111, 28.944444), (631.166667, 417.833333)]),
    "G6": ((0, 0, 0), (0.1, 0, 0), 2, [(303.5, 239.5), (84, 50), (584, 400)]),
    "G7": ((0, 0, 0), (0, 0.2, 0), 4, [(319.5, 223.5), (100, 34), (600, 384)]),
    "G8": (
        (0.05, -0.10, 0.02),
        (0.05, -0.03, 0.12),
        3,
        [(346.257692, 258.696152), (133.329499, 81.950552), (684.327965, 443.992)],
    ),
}


def mapped(H: FloatArray, points_px: list[tuple[float, float]]) -> FloatArray:
    image = np.column_stack((np.array(points_px), np.ones(len(points_px)))) @ H.T
    pixels: FloatArray = image[:, :2] / image[:, 2:]
    return pixels


def golden_motion(case: str) -> tuple[FloatArray, FloatArray, float]:
    rotvec, dp, d_m, _ = GOLDEN[case]
    anywhere = onboard.Pose(np.array([3.0, -2, 1]), onboard.q_exp(np.array([0.3, 1.0, -0.4])))
    moved = anywhere @ onboard.Pose(np.array(dp, float), onboard.q_exp(np.array(rotvec, float)))
    return *onboard.rotation_translation(anywhere, moved), d_m


# --- the file ------------------------------------------------------------------------------------


@pytest.mark.process
def test_it_is_python_3_8() -> None:
    check_python_3_8(FILE)


def test_it_imports_numpy_and_nothing_of_ours() -> None:
    assert companions(FILE) == {"numpy"}


# --- copies --------------------------------------------------------------------------------------


def test_rotations_are_the_bridges() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        a, b = geometry.q_normalize(rng.normal(size=(2, 4)))
        np.testing.assert_allclose(onboard.q_mul(a, b), geometry.q_mul(a, b), atol=1e-12)
        np.testing.assert_allclose(onboard.q_conj(a), geometry.q_conj(a), atol=0)
        np.testing.assert_allclose(onboard.q_to_matrix(a), geometry.q_to_matrix(a), atol=1e-12)
        ypr, p = rng.uniform(-math.pi, math.pi, 3), rng.normal(size=3)
        put = onboard.placed({"p_m": p.tolist(), "ypr_deg": np.degrees(ypr).tolist()})
        np.testing.assert_allclose(put.q_xyzw, geometry.q_from_euler_zyx(*ypr), atol=1e-12)
        np.testing.assert_allclose(put.p_m, p)
        ours = onboard.Pose(p, a) @ onboard.Pose(p, b).inverse()
        theirs = geometry.Transform(p, a) @ geometry.Transform(p, b).inverse()
        np.testing.assert_allclose(ours.p_m, theirs.p_m, atol=1e-12)
        np.testing.assert_allclose(ours.q_xyzw, theirs.q_xyzw, atol=1e-12)
    for rotvec in (np.zeros(3), np.array([1e-12, 0, 0]), *rng.normal(size=(20, 3))):
        np.testing.assert_allclose(onboard.q_exp(rotvec), geometry.q_exp(rotvec), atol=1e-12)
    np.testing.assert_allclose(
        onboard.q_to_matrix(onboard.T_FLU_OPTICAL.q_xyzw), T_FLU_OPTICAL.rotation(), atol=1e-12
    )


def test_homographies_are_the_bridges() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        p, q = rng.normal(size=(2, 3)), geometry.q_normalize(rng.normal(size=(2, 4)))
        R, dp = onboard.rotation_translation(onboard.Pose(p[0], q[0]), onboard.Pose(p[1], q[1]))
        R_bridge, dp_bridge = bridge_homography.rotation_translation(
            geometry.Transform(p[0], q[0]), geometry.Transform(p[1], q[1])
        )
        np.testing.assert_allclose(R, R_bridge, atol=1e-12)
        np.testing.assert_allclose(dp, dp_bridge, atol=1e-12)
        d_m = float(rng.uniform(1, 9))
        np.testing.assert_allclose(
            onboard.homography(K, R, dp, Plane(d_m)),
            bridge_homography.homography(K, R, dp, d_m),
            rtol=1e-12,
            atol=1e-12,
        )
        normal = np.array([*rng.uniform(-0.3, 0.3, 2), 1.0])
        normal /= np.linalg.norm(normal)
        np.testing.assert_allclose(
            onboard.homography(K, R, dp, Plane(d_m, normal)),
            bridge_homography.homography(K, R, dp, d_m, normal),
            rtol=1e-12,
            atol=1e-12,
        )
        np.testing.assert_allclose(
            onboard.homography(K, R, dp, Plane(math.inf)),
            bridge_homography.rotation_homography(K, R),
            rtol=1e-12,
            atol=1e-12,
        )


@pytest.mark.parametrize("rate_radps", [0.0, 1e-3, 1.0, 49.0, 51.0, 200.0])
def test_preintegration_is_the_bridges(rate_radps: float) -> None:
    rng = np.random.default_rng(3)
    t_ns = np.cumsum(rng.integers(1_000_000, 3_000_000, 30))
    w, f = rate_radps * rng.normal(size=(30, 3)), 10 * rng.normal(size=(30, 3))
    q, beta, alpha, dt_s = onboard.preintegrate(t_ns, w, f)
    expected = preintegration.preintegrate(t_ns, w, f)
    np.testing.assert_allclose(q, expected.dR_q_xyzw, atol=1e-12)
    np.testing.assert_allclose(beta, expected.beta_mps, atol=1e-12)
    np.testing.assert_allclose(alpha, expected.alpha_m, atol=1e-12)
    assert dt_s == expected.dt_s


def test_depth_of_a_slanted_plane_maps_as_its_homography() -> None:
    R, dp, _ = golden_motion("G8")
    normal = np.array([0.1, 0.3, 1.0]) / np.linalg.norm([0.1, 0.3, 1.0])
    u, v = np.meshgrid(np.arange(640), np.arange(480))
    rays = np.stack((u, v, np.ones_like(u)), axis=-1) @ np.linalg.inv(K).T
    units = np.rint(3.0 / (rays @ normal) * DEPTH_UNITS_PER_M).astype(np.uint16)
    nodes = onboard.grid_map(CAMERA, CAMERA, R, dp, units)[1:-1, 1:-1]
    in_view = np.all((nodes > 0) & (nodes < (639, 479)), axis=-1)
    assert in_view.mean() > 0.6
    row, column = np.nonzero(in_view)
    shown = mapped(bridge_homography.homography(K, R, dp, 3.0, normal), nodes[in_view].tolist())
    np.testing.assert_allclose(shown, np.column_stack((8 * column + 3.5, 8 * row + 3.5)), atol=0.1)


@pytest.mark.parametrize(
    ("model", "coefficients"),
    [("plumb_bob", (-0.28, 0.07, 1e-3, -2e-3, 0.01)), ("equidistant", (-0.01, 0.02, -0.01, 0.002))],
)
def test_lenses_are_the_bridges(model: str, coefficients: tuple[float, ...]) -> None:
    lens = Distortion(LensModel(model), coefficients)
    xy = np.random.default_rng(5).uniform(-0.8, 0.8, (200, 2))
    bent = onboard.distort(model, coefficients, xy)
    np.testing.assert_allclose(bent, distort(lens, xy), atol=1e-12)
    np.testing.assert_allclose(
        onboard.undistort(model, coefficients, bent), undistort(lens, bent), atol=1e-9
    )


@pytest.mark.parametrize(
    ("model", "coefficients"),
    [("radtan", (-0.3, 0.0, 0.0, 0.0)), ("equidistant", (0.0, 0.0, 0.0, 0.0))],
)
def test_nothing_is_seen_beyond_the_edge_of_a_lens(
    model: str, coefficients: tuple[float, ...]
) -> None:
    outside = np.array([[0.8, 0.8], [9.0, 9.0]])
    seen = np.isnan(onboard.undistort(model, coefficients, outside)).all(axis=1)
    assert seen.tolist() == [model == "radtan", True]


# --- golden values -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_homographies(case: str) -> None:
    R, dp, d_m = golden_motion(case)
    H = onboard.homography(K, R, dp, Plane(d_m))
    np.testing.assert_allclose(
        mapped(H, [CENTRE, UPPER_LEFT, LOWER_RIGHT]), GOLDEN[case][3], atol=1e-6
    )


def test_a_plane_is_the_same_from_elsewhere() -> None:
    rng = np.random.default_rng(6)
    T = onboard.Pose(rng.normal(size=3), onboard.q_exp(rng.normal(size=3)))
    normal = np.array([0.1, 0.3, 1.0]) / np.linalg.norm([0.1, 0.3, 1.0])
    there = Plane(5.0, normal).seen_from(T)
    expected = bridge_plane.FittedPlane(5.0, normal).seen_from(geometry.Transform(*T))
    np.testing.assert_allclose(there.normal, expected.normal, atol=1e-12)
    assert there.d_m == pytest.approx(expected.d_m, abs=1e-12)
    R, dp = onboard.rotation_translation(onboard.Pose(np.zeros(3), onboard.q_exp(np.zeros(3))), T)
    on_it = np.array([(0.3, -0.2, 0.0), (-1.0, 0.4, 0.0)])
    on_it[:, 2] = (5.0 - on_it @ normal) / normal[2]
    np.testing.assert_allclose((on_it - dp) @ R @ there.normal, there.d_m, atol=1e-12)


@pytest.mark.parametrize("case", GOLDEN)
def test_the_grid_maps_backwards_what_the_homography_maps_forwards(case: str) -> None:
    R, dp, d_m = golden_motion(case)
    grid = onboard.grid_map(CAMERA, CAMERA, R, dp, Plane(d_m))
    back = mapped(onboard.homography(K, R, dp, Plane(d_m)), grid[10, 10:60].tolist())
    np.testing.assert_allclose(
        back, [(8 * column - 4.5, 8 * 10 - 4.5) for column in range(10, 60)], atol=1e-9
    )


@pytest.mark.parametrize(
    ("wrong", "image"),
    [
        (lambda R, dp: (R.T, dp), (156.739933, 87.688020)),
        (lambda R, dp: (R.T, -dp), (134.223277, 82.227021)),
        (lambda R, dp: (R.T, R.T @ dp), (157.600469, 87.952349)),
        (lambda R, dp: (R, -R.T @ dp), (25.113644, -1.521373)),
    ],
    ids=["t=+dp", "t=-dp", "t=+RTdp", "R for RT"],
)
def test_wrong_variants_are_told_apart(wrong: _Wrong, image: tuple[float, float]) -> None:
    R, dp, d_m = golden_motion("G8")
    turn, t = wrong(R, dp)
    H = K @ (turn + np.outer(t, E3) / d_m) @ np.linalg.inv(K)
    np.testing.assert_allclose(mapped(H, [UPPER_LEFT]), [image], atol=1e-6)
    assert (
        np.abs(mapped(onboard.homography(K, R, dp, Plane(d_m)), [UPPER_LEFT]) - image).max() > 0.5
    )


@pytest.mark.parametrize(
    ("render_px", "depth_m", "now_px"),
    [
        (UPPER_LEFT, 2.0, (126.695458, 80.310067)),
        (UPPER_LEFT, 8.0, (141.287815, 83.918508)),
        (LOWER_RIGHT, 1.5, (693.719310, 457.155778)),
    ],
)
def test_depth_aware_single_points(
    render_px: tuple[float, float], depth_m: float, now_px: tuple[float, float]
) -> None:
    R, dp, _ = golden_motion("G8")
    camera = onboard._Camera((320.0, 320.0, 319.5, 239.5), (960, 640), None, onboard.T_FLU_OPTICAL)
    units = np.full((640, 960), round(depth_m * DEPTH_UNITS_PER_M), np.uint16)
    x, y = onboard._enlarged(onboard.grid_map(camera, camera, R, dp, units), (960, 640))
    column, row = int(now_px[0]), int(now_px[1])
    fx, fy = now_px[0] - column, now_px[1] - row
    weights = np.outer([1 - fy, fy], [1 - fx, fx])
    for plane, expected in zip((x, y), render_px, strict=True):
        assert float(np.sum(weights * plane[row : row + 2, column : column + 2])) == pytest.approx(
            expected, abs=0.02
        )
