"""What the embedded renderer draws, against closed forms."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from tests.support.embedded import (
    CAMERA,
    NOBODY,
    R_BODY_OPTICAL,
    changed,
    drone,
    looking,
    person,
    prop,
    renderer,
    rotation,
    shoot,
    track,
    view,
)
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorState,
    CameraModel,
    FloatArray,
    ImageArray,
    Modality,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_renderer.embedded.engine.devices import is_software

pytestmark = pytest.mark.gl

LSB_PER_M = 655.35
ODD = CameraModel("odd", 333, 201, math.radians(58.0))
# Rounding of single floats on top of the half unit that encoding costs.
HALF_LSB = 0.5 + 0.02


def snapped_px(scene: str) -> float:
    """Largest error of a vertex on OpenGL: half of a sub-pixel.

    Llvmpipe rounds coverage to that, and nothing else.
    """
    info = renderer(scene)._ctx.info
    return 0.0 if is_software(info["GL_RENDERER"]) else 0.5 ** info["GL_SUBPIXEL_BITS"] / 2


def rays(camera: CameraModel) -> FloatArray:
    """K^-1 (u, v, 1) of every pixel centre, shape (h, w, 3)."""
    f = 0.5 * camera.height_px / math.tan(0.5 * camera.fov_y_rad)
    u, v = np.meshgrid(np.arange(camera.width_px), np.arange(camera.height_px))
    x, y = (u - 0.5 * (camera.width_px - 1)) / f, (v - 0.5 * (camera.height_px - 1)) / f
    return np.stack((x, y, np.ones_like(x)), axis=-1)


def polygon_centroid(corners: FloatArray) -> FloatArray:
    """Centroid of a polygon's area, corners (n, 2) in order."""
    x, y = corners.T
    nx, ny = np.roll(corners, -1, axis=0).T
    cross = x * ny - nx * y
    middle: FloatArray = np.array([((x + nx) * cross).sum(), ((y + ny) * cross).sum()]) / (
        3.0 * cross.sum()
    )
    return middle


@pytest.mark.parametrize("camera", [CAMERA, ODD], ids=lambda c: c.name)
@pytest.mark.parametrize(
    ("p_m", "ypr_deg"),
    [
        ((0.0, 0.0, 5.0), (0.0, 0.0, 0.0)),
        ((3.0, -2.0, 4.0), (37.0, 0.0, 0.0)),
        ((-1.0, 1.0, 6.0), (-110.0, 18.0, 0.0)),
        ((2.0, 4.0, 7.0), (65.0, -22.0, 30.0)),
    ],
)
def test_a_world_point_lands_on_its_hand_computed_pixel(
    camera: CameraModel, p_m: tuple[float, float, float], ypr_deg: tuple[float, float, float]
) -> None:
    pose = looking(p_m, *ypr_deg)
    R_world_camera = rotation(*ypr_deg) @ R_BODY_OPTICAL
    f = 0.5 * camera.height_px / math.tan(0.5 * camera.fov_y_rad)
    centre = np.array([0.5 * (camera.width_px - 1), 0.5 * (camera.height_px - 1)])
    half_m = 12.0 * 3.0 / f  # about 24 px wide
    spin = rotation(0.0, 0.0, 17.0)  # so that its edges cross the pixel grid
    square = (
        np.array([(0.0, 1, 1), (0.0, -1, 1), (0.0, -1, -1), (0.0, 1, -1)])
        * half_m
        @ spin.T
        @ R_BODY_OPTICAL
    )
    for middle in (
        (0.0, 0.0, 3.0),
        (1.4, 0.9, 3.0),
        (-1.2, 0.8, 3.2),
        (0.3, -1.0, 3.0),
        (1.5, -0.2, 3.1),
    ):
        corners = square + middle
        expected = polygon_centroid(f * corners[:, :2] / corners[:, 2:] + centre)
        # A plate, its thin axis along the optical axis, its front face the square.
        behind = np.add(middle, (0.0, 0.0, 0.0005))
        place, attitude = R_world_camera @ behind + np.array(p_m), rotation(*ypr_deg) @ spin
        mask = changed(
            "empty",
            view(pose, camera=camera),
            prop("plate", place, (0.001, 2 * half_m, 2 * half_m), attitude),
        )
        v, u = np.nonzero(mask)
        assert len(u) > 100
        assert (u.mean(), v.mean()) == pytest.approx(tuple(expected), abs=0.2)


@pytest.mark.parametrize("camera", [CAMERA, ODD], ids=lambda c: c.name)
@pytest.mark.parametrize("distance_m", [0.6, 2.0, 7.3456, 31.7])
def test_a_wall_across_the_view_has_one_depth_everywhere(
    camera: CameraModel, distance_m: float
) -> None:
    wall = prop("wall", (distance_m + 0.1, 0.0, 50.0), (0.2, 90.0, 90.0))
    depth = shoot("empty", view(looking((0.0, 0.0, 50.0)), Modality.DEPTH, camera), wall)
    assert depth.dtype == np.uint16
    assert np.abs(depth - distance_m * LSB_PER_M).max() <= HALF_LSB


@pytest.mark.parametrize("tilt_deg", [(25.0, 0.0, 0.0), (-20.0, 15.0, 0.0), (10.0, -30.0, 5.0)])
def test_a_tilted_wall_follows_the_plane_formula(tilt_deg: tuple[float, float, float]) -> None:
    turned = rotation(*tilt_deg)
    wall = prop("wall", turned @ (5.1, 0.0, 0.0) + (0.0, 0.0, 40.0), (0.2, 60.0, 60.0), turned)
    depth = shoot("empty", view(looking((0.0, 0.0, 40.0)), Modality.DEPTH), wall)
    normal_camera = R_BODY_OPTICAL.T @ turned[:, 0]
    expected = LSB_PER_M * 5.0 / (rays(CAMERA) @ normal_camera)
    per_px = np.abs(np.gradient(expected)).sum(axis=0)
    assert np.all(np.abs(depth - expected) <= HALF_LSB + snapped_px("empty") * per_px)


def test_rows_start_at_the_top_and_the_sky_has_no_depth() -> None:
    depth = shoot("empty", view(looking((0.0, 0.0, 2.0)), Modality.DEPTH))
    down = rays(CAMERA)[..., 1]
    assert np.all(depth[down < 0.0] == 65535)
    near = (down > 0.0) & (2.0 / np.maximum(down, 1e-9) < 60.0)
    expected = LSB_PER_M * 2.0 / down[near]
    per_px = expected / down[near] / CAMERA.f_px
    assert np.all(np.abs(depth[near] - expected) <= HALF_LSB + snapped_px("empty") * per_px)
    picture = shoot("empty", view(looking((0.0, 0.0, 2.0)))).astype(float)
    assert picture[:100, :, 2].mean() > picture[:100, :, 0].mean() + 20.0


def test_a_camera_below_the_ground_sees_sky_only() -> None:
    depth = shoot("empty", view(looking((0.0, 0.0, -5.0), 0.0, 20.0), Modality.DEPTH))
    assert np.all(depth == 65535)


def test_grey_is_the_weighted_sum_of_the_picture() -> None:
    pose = looking((-2.0, 0.5, 1.5), 10.0)
    asked = (view(pose, Modality.GRAY), view(pose), view(pose, Modality.DEPTH))
    grey, colour, depth = (image.pixels for image in renderer("hall").render(asked, NOBODY))
    wide = colour.astype(int)
    assert np.array_equal(grey, (77 * wide[..., 0] + 150 * wide[..., 1] + 29 * wide[..., 2]) // 256)
    assert [str(image.dtype) for image in (grey, colour, depth)] == ["uint8", "uint8", "uint16"]
    assert np.array_equal(depth, shoot("hall", view(pose, Modality.DEPTH)))
    assert all(image.flags.c_contiguous for image in (grey, colour, depth))


def test_only_due_views_are_drawn_each_in_its_own_size() -> None:
    pose = looking((0.0, 0.0, 1.5))
    views = (
        view(pose, camera=ODD),
        View(CAMERA, Modality.RGB, pose, 0, due=False),
        view(pose, Modality.DEPTH),
    )
    images = renderer("hall").render(views, NOBODY)
    assert [image.view for image in images] == [views[0], views[2]]
    assert [image.pixels.shape for image in images] == [(201, 333, 3), (480, 640)]


def test_the_same_request_gives_the_same_picture() -> None:
    asked = view(looking((-2.0, 0.0, 1.5), 5.0))
    actors = (drone("a", (0.5, 0.3, 1.5)), person("b", (3.0, 0.0, 0.0)))
    first = shoot("hall", asked, *actors, t_ns=12_345_678)
    shoot("hall", view(looking((1.0, 0.0, 1.0), 120.0)), t_ns=99)
    assert np.array_equal(first, shoot("hall", asked, *actors, t_ns=12_345_678))
    assert not np.array_equal(first, shoot("hall", asked, *actors, t_ns=20_000_000)), (
        "the propellers stand still"
    )


def test_a_vehicle_is_hidden_from_its_own_camera_only() -> None:
    pose = looking((0.0, 0.0, 1.5))
    inside, ahead = drone("own", (0.1, 0.0, 1.5)), drone("other", (2.0, 0.0, 1.5))
    nobody = shoot("hall", view(pose))
    assert not np.array_equal(shoot("hall", view(pose), inside), nobody)
    assert np.array_equal(shoot("hall", view(pose, hide=("own",)), inside), nobody)
    both = renderer("hall").render(
        (view(pose, hide=("own",)), view(pose)), WorldSnapshot(0, (inside, ahead))
    )
    assert np.array_equal(both[0].pixels, shoot("hall", view(pose), ahead))
    assert not np.array_equal(both[0].pixels, both[1].pixels)


def centroid(mask: ImageArray) -> tuple[float, float]:
    v, u = np.nonzero(mask)
    return float(u.mean()), float(v.mean())


def test_a_human_is_seen_where_the_skeleton_is() -> None:
    asked = view(looking((0.0, 0.0, 1.2)))
    mask = changed("empty", asked, person("p", (4.0, 0.0, 0.0)))
    f = CAMERA.f_px
    u, v = np.nonzero(mask)[1], np.nonzero(mask)[0]
    assert u.mean() == pytest.approx(319.5, abs=2.0)
    # Arms reach 0.7 m to both sides and a hand beyond; the head grows from the chest, so the helmet
    # ends at 1.75 m.
    assert np.ptp(u) == pytest.approx(2 * 0.84 / 4.0 * f, abs=8.0)
    assert v.min() == pytest.approx(239.5 - (1.75 - 1.2) / 4.0 * f, abs=6.0)
    moved = changed("empty", asked, person("p", (4.0, 0.6, 0.0)))
    assert centroid(moved)[0] - centroid(mask)[0] == pytest.approx(-0.6 / 4.0 * f, abs=2.0)


def test_moving_one_hand_changes_the_picture_around_that_hand_only() -> None:
    asked = view(looking((0.0, 0.0, 1.2)))
    still = shoot("empty", asked, person("p", (4.0, 0.0, 0.0)))
    waved = shoot("empty", asked, person("p", (4.0, 0.0, 0.0), left_hand_m=(0.0, -0.2, 0.45)))
    v, u = np.nonzero(np.any(still != waved, axis=2))
    f = CAMERA.f_px
    assert len(u) > 200
    assert u.max() < 319.5 - 0.12 / 4.0 * f
    assert v.max() < 239.5 + 0.1 / 4.0 * f


@pytest.mark.parametrize("field", ["state", "position", "attitude"])
def test_what_has_no_pose_is_not_drawn(field: str) -> None:
    pose, bad = Transform.of((2.0, 0.0, 1.5)), np.full(3, np.nan)
    broken = {
        "position": Transform(bad, pose.q_xyzw),
        "attitude": Transform(pose.p_m, np.full(4, np.inf)),
    }
    state = TrackingState.LOST if field == "state" else TrackingState.TRACKED
    ghost = ActorState("ghost", drone("x", (0, 0, 0)).kind, state, 0, broken.get(field, pose))
    assert not changed("hall", view(looking((0.0, 0.0, 1.5))), ghost).any()


def test_one_looks_through_a_gate_but_not_through_its_bars() -> None:
    gate = prop("g", (3.0, 0.0, 2.0), (0.2, 2.0, 2.0), prefab="Square_Gate")
    depth = shoot("empty", view(looking((0.0, 0.0, 2.0)), Modality.DEPTH), gate)
    f = CAMERA.f_px
    assert depth[235:245, 315:325].min() > 60 * LSB_PER_M
    bar_u = round(319.5 - 0.9 / 2.9 * f)
    assert depth[240, bar_u] == pytest.approx(2.9 * LSB_PER_M, abs=1.0)


def test_corners_move_as_depth_predicts() -> None:
    """Shi-Tomasi and pyramidal KLT, forward and backward, against the flow that depth gives."""
    tracked, errors = [], []
    for yaw in (0.0, 20.0, -25.0, 180.0):
        before = looking((-1.5, 0.4, 1.5), yaw, 2.0)
        after = looking((-1.47, 0.42, 1.51), yaw + 0.7, 2.3, 0.3)
        grey, depth = (
            i.pixels
            for i in renderer("hall").render(
                (view(before, Modality.GRAY), view(before, Modality.DEPTH)), NOBODY
            )
        )
        grey_after = shoot("hall", view(after, Modality.GRAY))
        corners = cv2.goodFeaturesToTrack(grey, 300, 0.01, 10)
        found, ok, _ = track(grey, grey_after, corners)
        back, ok_back, _ = track(grey_after, grey, found)
        good = (ok & ok_back).astype(bool)[:, 0] & (
            np.linalg.norm(back - corners, axis=2)[:, 0] < 0.5
        )
        assert len(corners) == 300
        pixel = corners[:, 0].astype(np.float64)
        z = depth[np.rint(pixel[:, 1]).astype(int), np.rint(pixel[:, 0]).astype(int)] / LSB_PER_M
        p_camera = z[:, None] * np.column_stack(
            ((pixel - (319.5, 239.5)) / CAMERA.f_px, np.ones(len(z)))
        )
        p_after = after.inverse().apply(before.apply(p_camera))
        expected = CAMERA.f_px * p_after[:, :2] / p_after[:, 2:] + (319.5, 239.5)
        tracked.append(good.mean())
        errors.append(np.linalg.norm(found[:, 0] - expected, axis=1)[good])
    assert np.mean(tracked) >= 0.95
    assert np.median(np.concatenate(errors)) < 0.08


def test_beacons_are_reported_where_the_picture_shows_them() -> None:
    at_gate = looking((3.5, 3.0, 1.75), 6.0)
    asked = view(at_gate)
    marks = {mark.name: mark for mark in renderer("hall").landmarks(asked)}
    assert {"Gate1_1", "Gate1_2", "Gate1_3", "Gate1_4"} <= marks.keys()
    picture = shoot("hall", asked).astype(int)
    depth = shoot("hall", view(at_gate, Modality.DEPTH))
    for name in ("Gate1_1", "Gate1_2", "Gate1_3", "Gate1_4"):
        mark = marks[name]
        r, g, b = picture[round(mark.v_px), round(mark.u_px)]
        assert r > 180 and r > 2 * g and r > 2 * b
        assert depth[round(mark.v_px), round(mark.u_px)] / LSB_PER_M == pytest.approx(
            mark.depth_m, abs=0.03
        )


def test_beacons_behind_something_or_seen_from_behind_are_not_reported() -> None:
    asked = view(looking((3.5, 3.0, 1.75), 6.0))
    screen = prop("screen", (4.2, 3.1, 1.75), (0.1, 2.5, 2.5))
    names = {m.name for m in renderer("hall").landmarks(asked, WorldSnapshot(0, (screen,)))}
    assert not any(name.startswith("Gate1_") for name in names)
    behind = view(looking((7.6, 3.0, 1.75), 170.0))
    assert not any(m.name.startswith("Gate1_") for m in renderer("hall").landmarks(behind))


def test_collision_is_a_sphere_of_15_cm_around_the_camera() -> None:
    hall = renderer("hall")
    assert not hall.collision(view(looking((0.0, 0.0, 0.16))))
    assert hall.collision(view(looking((0.0, 0.0, 0.14))))
    near = WorldSnapshot(0, (drone("other", (0.3, 0.0, 1.5)), person("p", (4.0, 0.0, 0.0))))
    assert hall.collision(view(looking((0.0, 0.0, 1.5))), near)
    assert not hall.collision(view(looking((0.0, 0.0, 1.5)), hide=("other",)), near)
    assert hall.collision(view(looking((3.85, 0.0, 1.2))), near)


def test_the_range_finder_looks_along_the_cameras_down_axis() -> None:
    hall, field = renderer("hall"), renderer("empty")
    assert hall.range_m(view(looking((0.0, 0.0, 1.5), 40.0))) == pytest.approx(1.5)
    assert hall.range_m(view(looking((0.0, 0.0, 1.5), 0.0, 0.0, 60.0))) == pytest.approx(3.0)
    crate = WorldSnapshot(0, (prop("crate", (0.0, 0.0, 0.25), (0.5, 0.5, 0.5)),))
    assert hall.range_m(view(looking((0.0, 0.0, 1.5))), crate) == pytest.approx(1.0)
    assert field.range_m(view(looking((0.0, 0.0, 19.9)))) == pytest.approx(19.9)
    assert field.range_m(view(looking((0.0, 0.0, 20.1)))) is None
    assert field.range_m(view(looking((0.0, 0.0, 5.0), 0.0, 0.0, 180.0))) is None


def test_info_names_what_draws() -> None:
    info = renderer("hall").info
    assert info["gl_renderer"] and info["gl_version"]
    assert info["scene"] == "hall"
    assert info["max_texture_px"] >= 1024
