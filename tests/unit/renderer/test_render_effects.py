"""Lenses and what a sensor adds to a picture, against their formulas."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from tests.support.render import (
    AHEAD,
    PERIOD_NS,
    Renderers,
    at,
    camera,
    everybody,
    facing,
    linear,
    moved,
    pixels_of,
    plate,
    projected,
    rays,
    scene_of,
    shot,
    shots,
    srgb,
    texture,
    thing,
    turn,
)
from vil_bridge.core.camera_model import Distortion, Effects, LensModel
from vil_bridge.core.types import CameraModel, FloatArray, ImageArray, Modality
from vil_renderer.embedded.assets.model import Material
from vil_renderer.embedded.optics.lens import distort, pixel_rays, project, undistort
from vil_renderer.embedded.scene import Scene

pytestmark = pytest.mark.gl

LENSES = {
    "plumb_bob": Distortion(LensModel.PLUMB_BOB, (-0.28, 0.09, 0.0006, -0.0004, -0.01)),
    "equidistant": Distortion(LensModel.EQUIDISTANT, (-0.012, 0.006, -0.003, 0.0005)),
}
INTRINSICS = (410.5, 408.25, 321.75, 236.5)


def bent_camera(name: str, **more: object) -> CameraModel:
    return camera(
        f"{name}{len(more)}",
        (640, 480),
        pinhole_px=INTRINSICS,
        distortion=LENSES[name],
        **more,  # type: ignore[arg-type]
    )


# --- lenses ------------------------------------------------------------------------------------


def through_opencv(model: CameraModel, p_camera_m: FloatArray) -> FloatArray:
    """Pixels (n, 2) of points (n, 3), by OpenCV's own lens models."""
    assert model.distortion is not None
    k, nothing = np.array(model.distortion.coefficients), np.zeros(3)
    points = np.ascontiguousarray(p_camera_m.reshape(-1, 1, 3))
    if model.distortion.model is LensModel.PLUMB_BOB:
        found = cv2.projectPoints(points, nothing, nothing, model.K, k)[0]
    else:
        found = cv2.fisheye.projectPoints(points, nothing, nothing, model.K, k)[0]
    return np.asarray(found, np.float64).reshape(-1, 2)


@pytest.mark.parametrize("name", LENSES)
def test_a_lens_is_opencvs_and_its_inverse_undoes_it(name: str) -> None:
    model = bent_camera(name)
    ideal = pixel_rays(model)
    assert np.abs(project(model, ideal) - pixels_of(model).reshape(-1, 2)).max() < 0.05
    assert np.abs(project(model, ideal) - through_opencv(model, ideal)).max() < 1e-6
    assert (
        np.abs(
            undistort(model.distortion, distort(model.distortion, ideal[:, :2])) - ideal[:, :2]
        ).max()
        * 410
        < 0.05
    )
    assert model.intrinsics_px == INTRINSICS


CELLS = (7, 6)
CELL_M = 0.2


def _board() -> Scene:
    """A chessboard with a white rim, 40 texels to a cell."""
    x, y = np.indices((CELLS[0], CELLS[1]))
    cells = np.where((x + y) % 2, 235, 20).astype(np.uint8).T
    board = np.pad(np.kron(cells, np.ones((40, 40), np.uint8)), 40, constant_values=235)
    half = (0.5 * CELL_M * (CELLS[0] + 2), 0.5 * CELL_M * (CELLS[1] + 2))
    material = Material(base=texture(np.repeat(board[..., None], 3, axis=2)))
    part = plate((0, 0, 0), (half[0], 0, 0), (0, -half[1], 0), material, 12)
    return scene_of(thing("wall", facing(9.0, 60.0, Material(base_colour=(0.3, 0.3, 0.3, 1))),
    instance=1),
                    thing("board", part, instance=2, movable=True))  # fmt: skip


BOARD = _board()


@pytest.mark.parametrize("profile", ["low", "high"])
@pytest.mark.parametrize("name", LENSES)
def test_the_corners_of_a_chessboard_are_found_where_they_are_projected(
    renderers: Renderers, name: str, profile: str
) -> None:
    model = bent_camera(name)
    for place, R in (
        ((0.0, 0.0, 1.2), turn((1, 1, 0), 12.0)),
        ((0.15, -0.1, 1.35), turn((0, 1, 0), -15.0)),
    ):
        picture = shot(
            renderers.of(BOARD, profile),
            model,
            Modality.GRAY,
            AHEAD,
            everybody(moved("board", place, R)),
        )
        size = (CELLS[0] - 1, CELLS[1] - 1)
        ok, found = cv2.findChessboardCornersSB(picture, size, flags=cv2.CALIB_CB_ACCURACY)
        assert ok
        v, u = np.indices(size[::-1]).reshape(2, -1)
        corners = (
            np.stack((u - 0.5 * (size[0] - 1), v - 0.5 * (size[1] - 1), 0 * u), axis=1) * CELL_M
        )
        expected = through_opencv(model, corners @ R.T + place)
        apart = np.linalg.norm(expected[:, None] - found.reshape(-1, 2), axis=-1).min(axis=1)
        assert np.quantile(apart, 0.95) < 0.1
        nearest = found.reshape(-1, 2)[
            np.linalg.norm(expected[:, None] - found.reshape(-1, 2), axis=-1).argmin(axis=1)
        ]
        assert np.abs((nearest - expected).mean(axis=0)).max() < 0.04


@pytest.mark.parametrize("name", LENSES)
def test_a_lens_never_mixes_what_is_no_colour(renderers: Renderers, name: str) -> None:
    model = bent_camera(name)
    snapshot = everybody(moved("board", (0.3, 0.1, 1.3), turn((0, 0, 1), 20.0)))
    asked = (Modality.INSTANCE, Modality.DEPTH32, Modality.NORMALS, Modality.RGB)
    ids, depth, normals, _ = (
        i.pixels for i in shots(renderers.of(BOARD), model, asked, AHEAD, snapshot)
    )
    assert set(np.unique(ids).tolist()) == {1, 2}
    assert np.allclose(depth, np.where(ids == 2, 1.3, 9.0), atol=1e-4)
    assert np.all(normals == (0.0, 0.0, -1.0))
    # Each pixel is what its own ray meets, to the half pixel of the nearest neighbour.
    p = pixel_rays(model).reshape(480, 640, 3)[..., :2] * 1.3 - (0.3, 0.1)
    p = p @ turn((0, 0, 1), 20.0)[:2, :2]
    border = np.max(np.abs(p) / (0.5 * CELL_M * np.array([CELLS[0] + 2, CELLS[1] + 2])), axis=-1)
    margin = 1.5 * 1.3 / 400.0 / 0.6
    assert np.all(ids[border < 1.0 - margin] == 2)
    assert np.all(ids[border > 1.0 + margin] == 1)


@pytest.mark.parametrize("name", LENSES)
def test_flow_through_a_lens_is_the_difference_of_what_it_shows(
    renderers: Renderers, name: str
) -> None:
    model = bent_camera(name, fov_deg=71.0)
    renderer = renderers.of(BOARD)
    aside = everybody(moved("board", (0.0, 0.0, -5.0)))
    T_was, T_now = AHEAD, at((0.05, -0.02, 0.1), turn((0.3, 1, 0.2), 2.5))
    shots(renderer, model, (Modality.FLOW,), T_was, aside, t_ns=0)
    made = shots(renderer, model, (Modality.FLOW,), T_now, aside, t_ns=PERIOD_NS)[0]
    d = pixel_rays(model) @ T_now.rotation().T
    wall_m = T_now.p_m + d * ((9.0 - T_now.p_m[2]) / d[:, 2])[:, None]
    expected = pixels_of(model).reshape(-1, 2) - project(model, T_was.inverse().apply(wall_m))
    assert made.valid is not None
    assert made.valid.all()
    # The flow of the nearest ideal pixel: half a pixel aside it differs by its slope.
    assert np.abs(made.pixels.reshape(-1, 2) - expected).max() < 0.05
    assert np.median(np.abs(made.pixels.reshape(-1, 2) - expected)) < 0.01


# --- shutter -----------------------------------------------------------------------------------


def _edge() -> Scene:
    """Black on the left, white on the right of x = 0, 4 m ahead: one thing, moved as one."""
    black, white = (Material(base_colour=(c, c, c, 1.0)) for c in (0.0, 1.0))
    sides = (plate((x, 0, 0), (20, 0, 0), (0, -8, 0), m) for x, m in ((-20, black), (20, white)))
    return scene_of(thing("edge", *sides, movable=True))


EDGE = _edge()


@pytest.mark.parametrize("profile", ["low", "medium"])
@pytest.mark.parametrize(("v_px", "shutter"), [(24.0, 0.5), (16.0, 1.0), (-20.0, 0.75)])
def test_a_moving_edge_becomes_a_ramp_of_the_shutters_share(
    renderers: Renderers, profile: str, v_px: float, shutter: float
) -> None:
    model = camera(f"blur{v_px}{shutter}", effects=Effects(shutter=shutter))
    renderer = renderers.of(EDGE, profile)
    step_m = v_px / model.f_px * 4.0
    for number in range(2):
        actors = everybody(moved("edge", (number * step_m - 0.5 * step_m, 0.0, 4.0)))
        picture = shot(renderer, model, Modality.RGB, AHEAD, actors, t_ns=number * PERIOD_NS)
    light = linear(picture[120, :, 1])
    middle_px = 159.5 + 0.5 * v_px
    length_px = shutter * abs(v_px)
    ramp = np.flatnonzero((light > 0.02) & (light < 0.98))
    u = np.arange(320)
    expected = np.clip((u - middle_px) / length_px + 0.5, 0.0, 1.0)
    assert np.abs(light - expected).max() < 1.2 / length_px + 0.01
    # Length and place of the ramp, from the line through it.
    slope, offset = np.polyfit(ramp[1:-1], light[ramp[1:-1]], 1)
    assert 1.0 / slope == pytest.approx(length_px, abs=0.5)
    assert (0.5 - offset) / slope == pytest.approx(middle_px, abs=0.5)


@pytest.mark.parametrize("missed", [3, 15])
def test_after_a_gap_an_edge_is_blurred_by_its_motion_in_one_frame_interval(
    renderers: Renderers, missed: int
) -> None:
    v_px, shutter, gap = 6.0, 0.8, missed + 1
    model = camera(f"gap{missed}", effects=Effects(shutter=shutter, frame_ns=PERIOD_NS))
    step_m = v_px / model.f_px * 4.0
    for number in (0, gap):
        actors = everybody(moved("edge", ((number - gap) * step_m, 0.0, 4.0)))
        picture = shot(
            renderers.of(EDGE), model, Modality.RGB, AHEAD, actors, t_ns=number * PERIOD_NS
        )
    expected = np.clip((np.arange(320) - 159.5) / (shutter * v_px) + 0.5, 0.0, 1.0)
    assert np.abs(linear(picture[120, :, 1]) - expected).max() < 1.2 / (shutter * v_px) + 0.01


def test_what_stands_still_stays_sharp_behind_an_open_shutter(renderers: Renderers) -> None:
    blurring, plain = camera("open", effects=Effects(shutter=1.0)), camera("shut")
    for t_ns in (0, PERIOD_NS):
        actors = everybody(moved("edge", (0.1, 0.0, 4.0)))
        one, other = (
            shot(renderers.of(EDGE), m, Modality.RGB, AHEAD, actors, t_ns=t_ns)
            for m in (blurring, plain)
        )
        assert np.array_equal(one, other)


# --- exposure, noise, glass --------------------------------------------------------------------


def _grey(albedo: float) -> Scene:
    return scene_of(
        thing("card", facing(2.0, 5.0, Material(base_colour=(albedo, albedo, albedo, 1.0))))
    )


GREY = _grey(0.18)


@pytest.mark.parametrize("profile", ["low", "medium"])
@pytest.mark.parametrize("wrong_ev", [-3.0, 3.0])
def test_automatic_exposure_settles_on_middle_gray(
    renderers: Renderers, profile: str, wrong_ev: float
) -> None:
    """From three stops off, within a second and a half of pictures at 20 Hz, and there it stays."""
    model = camera(
        f"auto{wrong_ev}", (160, 120), effects=Effects(auto_exposure=True, exposure_ev=wrong_ev)
    )
    renderer = renderers.of(GREY, profile)
    levels = [
        float(shot(renderer, model, Modality.GRAY, t_ns=i * 50_000_000).mean()) for i in range(40)
    ]
    assert levels[0] == pytest.approx(
        srgb(0.18 * 2.0**wrong_ev), abs=5.0 if profile == "low" else 1.5
    )
    assert all(abs(level - 118.0) <= 2.0 for level in levels[30:]), levels
    assert np.all(np.sign(wrong_ev) * np.diff(levels) <= 1.0), "it overshoots"


def test_the_first_pictures_of_automatic_exposure_come_closer_by_its_time_constant(
    renderers: Renderers,
) -> None:
    model = camera("auto", (160, 120), effects=Effects(auto_exposure=True, exposure_ev=-2.0))
    renderer = renderers.of(GREY, "medium")
    light = [
        linear(shot(renderer, model, Modality.GRAY, t_ns=i * 100_000_000).mean()) for i in range(8)
    ]
    missing_ev = np.log2(0.18 / np.array(light))
    assert missing_ev[0] == pytest.approx(2.0, abs=0.05)
    assert missing_ev[2:6] / missing_ev[1:5] == pytest.approx(
        np.full(4, math.exp(-1.0 / 3.0)), abs=0.06
    )


def test_noise_has_the_deviation_it_is_given(renderers: Renderers) -> None:
    renderer = renderers.of(GREY, "medium")
    clean = shot(renderer, camera("clean"), Modality.RGB)
    level = float(clean.mean())
    pictures: list[ImageArray] = []
    for t_ns in (1, 2, 2):
        model = camera(f"noisy{len(pictures)}", effects=Effects(noise=4.0))
        pictures.append(shot(renderer, model, Modality.RGB, t_ns=t_ns).astype(float) - clean)
    first, second, again = pictures
    assert abs(first.mean()) < 0.1
    # Shot noise: its variance grows with the level; and rounding adds a twelfth.
    expected = math.sqrt(16.0 * level / 118.0 + 1.0 / 12.0)
    assert first.std() == pytest.approx(expected, rel=0.03)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.02, "the noise stands still"
    assert np.array_equal(second, again), "the same instant has the same noise"
    assert abs(np.corrcoef(first[:, :-1].ravel(), first[:, 1:].ravel())[0, 1]) < 0.02, (
        "the noise is smeared"
    )


def test_vignetting_darkens_the_corners_by_its_share_of_light(renderers: Renderers) -> None:
    renderer = renderers.of(_grey(0.5), "medium")
    clean = linear(shot(renderer, camera("clear")))
    dark = linear(shot(renderer, camera("dark", effects=Effects(vignetting=0.6))))
    share = dark[..., 1] / clean[..., 1]
    r2 = ((pixels_of(camera()) - (159.5, 119.5)) ** 2).sum(axis=-1) / (159.5**2 + 119.5**2)
    assert share[0, 0] == pytest.approx(0.4, abs=0.02)
    assert np.abs(share - (1.0 - 0.6 * r2)).max() < 0.03
    assert share[120, 160] == pytest.approx(1.0, abs=0.01)


def test_dirt_changes_smudges_and_nothing_else(renderers: Renderers) -> None:
    renderer = renderers.of(GREY)
    clean, dirty, again = (
        shot(
            renderer,
            camera(f"glass{i}", effects=Effects(dirt=dirt)),
            Modality.RGB,
            AHEAD if i < 2 else at((0.3, 0, 0)),
        )
        for i, dirt in enumerate((0.0, 0.8, 0.8))
    )
    changed = np.any(clean != dirty, axis=-1)
    assert 0.02 < changed.mean() < 0.6
    assert np.array_equal(dirty, again), "dirt sticks to the lens"
    ids, plain = (
        shot(renderer, camera(f"ids{dirt}", effects=Effects(dirt=dirt)), Modality.INSTANCE)
        for dirt in (0.8, 0.0)
    )
    assert np.array_equal(ids, plain)


def test_effects_leave_measurements_alone(renderers: Renderers) -> None:
    everything = Effects(0.7, 1.5, True, 5.0, 0.5, 0.5)
    asked = [m for m in Modality if m not in (Modality.RGB, Modality.GRAY, Modality.RGBA)]
    renderer = renderers.of(BOARD)
    models = camera("bare"), camera("full", effects=everything)
    made: list[list[ImageArray]] = []
    for model in models:
        for t_ns, x in ((0, 0.0), (PERIOD_NS, 0.05)):
            actors = everybody(moved("board", (x, 0.0, 1.5)))
            pictures = shots(renderer, model, [*asked, Modality.RGB], AHEAD, actors, t_ns=t_ns)
        made.append([p.pixels for p in pictures[:-1]])
    assert all(np.array_equal(one, other) for one, other in zip(*made, strict=True))


def test_the_supports_rays_and_projection_are_each_others_inverse() -> None:
    model = camera(pinhole_px=(300.0, 310.0, 150.0, 110.0))
    assert np.allclose(projected(model, rays(model)), pixels_of(model))
