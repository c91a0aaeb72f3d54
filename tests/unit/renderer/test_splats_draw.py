"""Splats in pictures against the formula, written out in NumPy for every pixel of every splat."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.embedded import looking, rotation
from tests.support.splat import Splat, dense, turned, write
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray
from vil_renderer.embedded.splats import (
    arranged,
    kernels,
    project,
    rasterise,
    read_splats,
    tile_kernels,
)

pytest.importorskip("numba", reason="numba (extra splat) is not installed")

CAMERA = CameraModel("small", 90, 70, math.radians(60.0))
SKEWED = CameraModel("skewed", 75, 52, 1.0, pinhole_px=(62.0, 48.0, 30.5, 31.0))
AHEAD = looking((0.0, 0.0, 1.0))
ELSEWHERE = looking((-1.0, 2.0, 0.5), yaw_deg=-30.0, pitch_deg=-8.0, roll_deg=17.0)
FAR = 1.0e6

THREE = (
    Splat((4.0, 0.2, 1.1), (0.5, 0.1, 0.05), (0.9, 0.2, 0.1), 0.8, turned(30.0, 20.0, -50.0)),
    Splat((5.0, -0.1, 0.9), (0.3, 0.6, 0.2), (0.1, 0.8, 0.3), 0.95, turned(-70.0, 5.0, 10.0)),
    Splat((3.0, 0.4, 0.8), (0.05, 0.05, 0.2), (0.2, 0.3, 1.0), 0.5, turned(0.0, 60.0, 0.0)),
)


def drawn(
    folder: Path,
    splats: tuple[Splat, ...],
    camera: CameraModel = CAMERA,
    T_world_camera: Transform = AHEAD,
    T_world_splats: FloatArray | None = None,
    z_m: npt.NDArray[np.float32] | None = None,
) -> npt.NDArray[np.float32]:
    cloud = arranged(read_splats(write(folder / "scan.ply", list(splats))))
    depth = np.full((camera.height_px, camera.width_px), FAR, np.float32) if z_m is None else z_m
    m = np.eye(4) if T_world_splats is None else T_world_splats
    return rasterise(project(cloud, camera, T_world_camera, m), depth)


def many(count: int, seed: int = 1) -> tuple[Splat, ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        Splat(
            tuple(rng.uniform((1.0, -3.0, -1.0), (7.0, 3.0, 3.0))),
            tuple(np.exp(rng.normal(-2.5, 0.8, 3))),
            tuple(rng.uniform(0.0, 1.0, 3)),
            float(rng.uniform(0.05, 0.99)),
            tuple(rng.normal(size=4)),
        )
        for _ in range(count)
    )


@pytest.mark.parametrize("camera", [CAMERA, SKEWED], ids=lambda c: c.name)
@pytest.mark.parametrize("pose", [AHEAD, ELSEWHERE], ids=["ahead", "elsewhere"])
def test_three_splats_follow_the_formula(
    tmp_path: Path, camera: CameraModel, pose: Transform
) -> None:
    expected = dense(THREE, camera, pose)
    assert expected[..., 3].max() > 0.7
    np.testing.assert_allclose(drawn(tmp_path, THREE, camera, pose), expected, atol=1e-3)


def test_one_round_splat_is_where_the_pinhole_puts_it(tmp_path: Path) -> None:
    # 0.5 m to the left and 0.25 m above the axis, 5 m ahead: up and to the left in the picture.
    splat = Splat((5.0, 0.5, 1.25), (0.02, 0.02, 0.02), (1.0, 0.5, 0.0), 0.9)
    picture = drawn(tmp_path, (splat,))
    f = 35.0 / math.tan(math.radians(30.0))
    u, v = np.meshgrid(np.arange(90), np.arange(70))
    weight = picture[..., 3] / picture[..., 3].sum()
    assert (weight * u).sum() == pytest.approx(44.5 - 0.1 * f, abs=2e-3)
    assert (weight * v).sum() == pytest.approx(34.5 - 0.05 * f, abs=2e-3)
    variance = (0.02 * f / 5.0) ** 2 + 0.3
    assert (weight * (u - (44.5 - 0.1 * f)) ** 2).sum() == pytest.approx(variance, rel=0.02)


def test_a_scan_is_placed_turned_and_scaled(tmp_path: Path) -> None:
    m = np.eye(4)
    m[:3, :3], m[:3, 3] = 1.7 * rotation(25.0, 10.0, -5.0), (-1.0, 0.5, 0.3)
    picture = drawn(tmp_path, THREE, CAMERA, AHEAD, m)
    expected = dense(THREE, CAMERA, AHEAD, m)
    assert expected[..., 3].max() > 0.5
    np.testing.assert_allclose(picture, expected, atol=1e-3)


def test_many_splats_agree_with_the_second_implementation(tmp_path: Path) -> None:
    splats = many(600)
    picture = drawn(tmp_path, splats)
    expected = dense(splats, CAMERA, AHEAD, faintest=kernels.FAINTEST, bounded=True)
    difference = np.abs(picture - expected)
    assert np.median(difference) < 1e-5
    assert difference.max() < tile_kernels.OPAQUE + kernels.FAINTEST
    assert np.median(expected[..., 3]) > 0.5


def test_order_in_the_file_does_not_matter(tmp_path: Path) -> None:
    splats = many(200, seed=2)
    first = drawn(tmp_path, splats)
    np.testing.assert_array_equal(first, drawn(tmp_path, splats[::-1]))
    shuffled = tuple(splats[i] for i in np.random.default_rng(3).permutation(200))
    np.testing.assert_array_equal(first, drawn(tmp_path, shuffled))


def test_depth_hides_what_is_behind_it_pixel_by_pixel(tmp_path: Path) -> None:
    z_m = np.full((70, 90), FAR, np.float32)
    z_m[:, :40], z_m[30:, 40:] = 3.5, 4.5
    expected = dense(THREE, CAMERA, AHEAD, z_m=z_m)
    np.testing.assert_allclose(drawn(tmp_path, THREE, z_m=z_m), expected, atol=1e-3)
    hidden = dense(THREE, CAMERA, AHEAD) - expected
    assert hidden[..., 3].max() > 0.3


def test_what_is_behind_beside_or_too_near_is_not_drawn(tmp_path: Path) -> None:
    away = (
        Splat((-4.0, 0.0, 1.0)),
        Splat((0.19, 0.0, 1.0)),
        Splat((4.0, 5.0, 1.0)),
        Splat((4.0, 0.0, -4.0)),
        Splat((4.0, 0.0, 1.0), opacity=kernels.FAINTEST / 2.0),
    )
    cloud = arranged(read_splats(write(tmp_path / "away.ply", list(away))))
    assert len(project(cloud, CAMERA, AHEAD, np.eye(4)).rows) == 0
    assert not drawn(tmp_path, away).any()


def test_a_near_splat_beside_the_picture_does_not_smear_over_it(tmp_path: Path) -> None:
    # 80 degrees aside and 0.25 m ahead: by the bare formula its derivative spreads it over
    # everything.
    beside = Splat((0.25, 1.42, 1.0), (0.1, 0.1, 0.1), (1.0, 1.0, 1.0), 0.99)
    assert dense([beside], CAMERA, AHEAD)[..., 3].max() > 0.05
    assert drawn(tmp_path, (beside,))[..., 3].max() < 0.02


@pytest.mark.parametrize("p", [(1.0, 0.0, 1.0), (1.0, 900.0, 1.0), (1e5, 1e5, -1e5)])
@pytest.mark.parametrize("scale", [(9e5, 9e5, 9e5), (9e5, 1e-9, 1e-9), (1e5, 1e5, 1e-7)])
def test_huge_and_thin_splats_stay_finite(
    tmp_path: Path, p: tuple[float, float, float], scale: tuple[float, float, float]
) -> None:
    picture = drawn(
        tmp_path, (Splat(p, scale, (0.3, 0.6, 0.9), 0.9, turned(20.0, 30.0, 40.0)), *THREE)
    )
    assert np.isfinite(picture).all()
    assert picture.min() >= 0.0
    assert picture.max() <= 1.0


def test_a_long_thin_splat_whose_middle_is_far_outside_is_still_straight(tmp_path: Path) -> None:
    # A cable in the picture's plane, 400 m long with its middle 100 m to the left: one line across
    # the picture.
    cable = Splat((4.0, 100.0, 1.0), (0.001, 200.0, 0.001), (1.0, 1.0, 1.0), 0.9)
    picture = drawn(tmp_path, (cable,))
    f = 35.0 / math.tan(math.radians(30.0))
    sigma2 = (0.001 * f / 4.0) ** 2 + 0.3
    rows = np.exp(-0.5 * (np.arange(70) - 34.5) ** 2 / sigma2)
    along = 0.9 * math.exp(-0.5 * (100.0 / 200.0) ** 2)
    np.testing.assert_allclose(
        picture[:, 10:80, 3], np.repeat(along * rows[:, None], 70, axis=1), atol=0.02
    )


def test_more_splats_than_there_is_room_for_are_taken_in_portions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splats = many(300, seed=5)
    whole = drawn(tmp_path, splats)
    monkeypatch.setattr("vil_renderer.embedded.splats.raster._LIST_LENGTH", 1)
    np.testing.assert_allclose(drawn(tmp_path, splats), whole, atol=1e-6)


def test_stopping_early_costs_less_than_a_third_of_a_level(tmp_path: Path) -> None:
    # A hundred opaque veils over the whole picture, white behind black: whatever is left out is
    # white.
    veils = tuple(
        Splat((2.0 + 0.05 * i, 0.0, 1.0), (0.001, 9.0, 9.0), (float(i > 8),) * 3, 0.6)
        for i in range(100)
    )
    picture = drawn(tmp_path, veils)
    expected = dense(veils, CAMERA, AHEAD)
    assert np.abs(picture - expected).max() < 1e-3
    assert 1.0 - expected[..., 3].min() < 1e-6
    assert (1.0 - picture[..., 3]).max() > 1e-5, "it did stop before the last veil"


@pytest.mark.parametrize("terms", [4, 9, 16])
def test_colour_depends_on_the_side_one_looks_from(tmp_path: Path, terms: int) -> None:
    rng = np.random.default_rng(terms)
    rest = rng.normal(0.0, 0.15, (3, terms - 1))
    splat = Splat(
        (4.0, 0.3, 1.2), (0.3, 0.3, 0.3), (0.5, 0.4, 0.6), 0.9, rest=rest.ravel().tolist()
    )
    m = np.eye(4)
    m[:3, :3] = rotation(35.0, -20.0, 50.0)
    p_world = m[:3, :3] @ splat.p
    for eye in ((0.0, 0.0, 1.0), (-1.0, 2.0, 0.0), (1.0, -1.5, 3.0)):
        # Seen from there, in the middle of the picture.
        ahead = p_world - eye
        yaw, pitch = math.atan2(ahead[1], ahead[0]), -math.asin(ahead[2] / np.linalg.norm(ahead))
        camera = replace(CAMERA, width_px=91, height_px=71)
        picture = drawn(
            tmp_path, (splat,), camera, looking(eye, math.degrees(yaw), math.degrees(pitch)), m
        )
        direction = m[:3, :3].T @ ahead / np.linalg.norm(ahead)
        expected = np.clip(splat.colour + rest @ harmonics(direction)[1:terms], 0.0, 1.0)
        middle = picture[35, 45]
        np.testing.assert_allclose(middle[:3] / middle[3], expected, atol=1e-3)


def harmonics(d: FloatArray) -> FloatArray:
    """Real spherical harmonics of degrees 0 to 3 by m = -l..l, with the Condon-Shortley phase,
    from SciPy's.
    """
    from scipy.special import sph_harm_y

    theta, phi = math.acos(d[2]), math.atan2(d[1], d[0])
    made = []
    for degree in range(4):
        for m in range(-degree, degree + 1):
            y = sph_harm_y(degree, abs(m), theta, phi)
            part = y.real if m >= 0 else y.imag
            made.append(part * (math.sqrt(2.0) if m else 1.0))
    return np.array(made)


def test_exposure_scales_what_is_shown(tmp_path: Path) -> None:
    cloud = arranged(read_splats(write(tmp_path / "scan.ply", list(THREE))))
    z_m = np.full((70, 90), FAR, np.float32)
    half = rasterise(project(cloud, CAMERA, AHEAD, np.eye(4), 0.5), z_m)
    full = rasterise(project(cloud, CAMERA, AHEAD, np.eye(4)), z_m)
    np.testing.assert_allclose(half[..., :3], 0.5 * full[..., :3], atol=1e-6)
    np.testing.assert_array_equal(half[..., 3], full[..., 3])
