"""Range finders, lidars and beacons against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.geometry_scenes import box, box_primitive, floor, human, posed, scene_of
from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.geometry import Transform, q_exp, q_from_euler_zyx
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.optics.lens import distort, in_picture, pixel_rays, project, undistort
from vil_renderer.embedded.scene import Beacon
from vil_renderer.embedded.sensors import (
    RangeFinder,
    RangeNoise,
    SpinningLidar,
    beam_cone,
    beam_grid,
    planar_fan,
    range_below_m,
    visible_beacons,
)

# Optical axes that look along the world's x: right = -y, down = -z.
LOOK_X = q_from_euler_zyx(-0.5 * math.pi, 0.0, -0.5 * math.pi)
CAMERA = CameraModel("cam", 640, 480, math.radians(70.0))
PLUMB_BOB = Distortion(LensModel.PLUMB_BOB, (-0.28, 0.07, 0.0002, -0.0003, 0.01))
EQUIDISTANT = Distortion(LensModel.EQUIDISTANT, (-0.01, 0.02, -0.01, 0.002))


def test_range_to_the_floor_grows_with_the_tilt() -> None:
    world = RayWorld(scene_of(floor()))
    down = RangeFinder(Transform.of((0.0, 0.0, -0.1), q_from_euler_zyx(0.0, 0.5 * math.pi, 0.0)))
    for roll in (0.0, 0.3, -0.6):
        body = Transform.of((0.5, 0.2, 2.0), q_from_euler_zyx(0.7, 0.0, roll))
        expected = (2.0 - 0.1 * math.cos(roll)) / math.cos(roll)
        np.testing.assert_allclose(down.measure(world, body), [expected], rtol=1e-5)


def test_range_ends_where_the_sensor_does() -> None:
    world = RayWorld(scene_of(floor()))
    down = Transform.of((0, 0, 0), q_from_euler_zyx(0.0, 0.5 * math.pi, 0.0))
    sensor = RangeFinder(down, min_m=0.3, max_m=4.0)
    heights = (0.2, 0.31, 3.9, 4.1)
    got = [float(sensor.measure(world, Transform.of((0, 0, z)))[0]) for z in heights]
    assert got == [-math.inf, pytest.approx(0.31, abs=1e-6), pytest.approx(3.9, abs=1e-5), math.inf]


def test_range_noise_is_seeded_and_has_the_given_spread() -> None:
    world = RayWorld(scene_of(floor()))
    down = Transform.of((0, 0, 0), q_from_euler_zyx(0.0, 0.5 * math.pi, 0.0))
    beams = np.tile((1.0, 0.0, 0.0), (20000, 1))
    noise = RangeNoise(sigma_m=0.03, sigma_share=0.02, drop_out=0.1)
    runs = [
        RangeFinder(down, beams, noise=noise, seed=seed).measure(world, Transform.of((0, 0, 2.0)))
        for seed in (5, 5, 6)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    back = runs[0][np.isfinite(runs[0])]
    assert len(back) / 20000 == pytest.approx(0.9, abs=0.01)
    assert back.mean() == pytest.approx(2.0, abs=0.002)
    assert back.std() == pytest.approx(0.05, rel=0.03)


def test_zones_and_cones() -> None:
    zones = beam_grid(math.radians(40.0), math.radians(20.0), 4, 2)
    first = (math.radians(15.0), math.radians(5.0))
    expected = [
        math.cos(first[1]) * math.cos(first[0]),
        math.cos(first[1]) * math.sin(first[0]),
        math.sin(first[1]),
    ]
    np.testing.assert_allclose(zones[0], expected, atol=1e-12)
    np.testing.assert_allclose(zones[-1], np.array(expected) * (1, -1, -1), atol=1e-12)
    cone = beam_cone(math.radians(12.0), 500)
    angle = np.degrees(np.arccos(cone[:, 0]))
    np.testing.assert_allclose(np.linalg.norm(cone, axis=1), 1.0)
    assert angle.max() < 12.0
    # Equal solid angles: half of the beams lie within the angle that takes half of the cap.
    assert (angle < 12.0 / math.sqrt(2.0)).mean() == pytest.approx(0.5, abs=0.01)
    np.testing.assert_allclose(cone[:, 1:].mean(axis=0), 0.0, atol=0.002)


def test_flightgoggles_range_finder_looks_down_the_camera() -> None:
    world = RayWorld(scene_of(floor()))
    assert range_below_m(world, Transform.of((0, 0, 1.7), LOOK_X)) == pytest.approx(1.7, abs=1e-5)
    assert range_below_m(world, Transform.of((0, 0, 20.5), LOOK_X)) is None
    rolled = Transform.of((0, 0, 2.0), q_exp(np.array([0.5, 0, 0]))) @ Transform.of(
        (0, 0, 0), LOOK_X
    )
    assert range_below_m(world, rolled) == pytest.approx(2.0 / math.cos(0.5), rel=1e-5)


def test_lidar_in_a_box_room() -> None:
    """Every return lies on the wall, floor or ceiling that its beam meets first."""
    half = np.array([4.0, 3.0, 2.0])
    world = RayWorld(scene_of(box("room", tuple(half), (0, 0, 0), instance=31)))
    elevations = np.radians([-30.0, 0.0, 30.0])
    p = np.array([0.7, -0.4, 0.3])
    points = SpinningLidar(elevations, 360).sweep(world, [Transform.of(p)])
    assert len(points) == 3 * 360
    on = p + points["p_m"]
    np.testing.assert_allclose(np.abs(on / half).max(axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(points["p_m"], axis=1), points["range_m"], rtol=1e-5)
    assert points["ring"][:4].tolist() == [0, 1, 2, 0]
    assert points["t_ns"][:6].tolist() == [0, 0, 0, 277778, 277778, 277778]
    assert (set(points["semantic"]), set(points["instance"])) == ({6}, {31})
    way = points["p_m"] / points["range_m"][:, None]
    wall = np.abs(on / half).argmax(axis=1)
    np.testing.assert_allclose(
        points["intensity"], np.abs(way[np.arange(len(way)), wall]), atol=1e-5
    )


def test_lidar_moves_during_the_turn() -> None:
    """A sensor that flies along x at 3 m/s while it turns.

    Each range is that from where it was at that time.
    """
    world = RayWorld(scene_of(box("room", (10, 4, 2), (0, 0, 0))))
    lidar = SpinningLidar(np.zeros(1), 400, turns_per_s=10.0)
    knots = [
        Transform.of((x, 0, 0), q_exp(np.array([0, 0, yaw])))
        for x, yaw in ((0, 0), (0.15, 0.1), (0.3, 0.2))
    ]
    points = lidar.sweep(world, knots)
    t = points["t_ns"] * 1e-9
    assert t[-1] == pytest.approx(0.1 * 399 / 400)
    angle = np.arange(400) / 400 * 2 * np.pi + 2.0 * t
    x, c, s = 3.0 * t, np.cos(angle), np.sin(angle)
    to_end = np.where(c > 0, (10 - x) / np.maximum(c, 1e-9), (10 + x) / np.maximum(-c, 1e-9))
    expected = np.minimum(to_end, 4 / np.maximum(np.abs(s), 1e-9))
    np.testing.assert_allclose(points["range_m"], expected, rtol=2e-5)


def test_lidar_loses_what_is_too_near_or_too_far() -> None:
    world = RayWorld(
        scene_of(box("room", (5, 5, 5), (0, 0, 0)), box("post", (0.1, 0.1, 1), (0.4, 0, 0)))
    )
    points = SpinningLidar(np.zeros(1), 720, min_m=0.5, max_m=6.0).sweep(
        world, [Transform.identity()]
    )
    assert points["range_m"].min() >= 0.5
    assert points["range_m"].max() <= 6.0
    # The post takes 2 atan(0.1 / 0.3), the corners four times 2 (45 deg - acos(5 / 6)).
    lost = 2 * math.atan(0.1 / 0.3) + 8 * (0.25 * math.pi - math.acos(5 / 6))
    assert 1 - len(points) / 720 == pytest.approx(lost / (2 * math.pi), abs=0.01)


def test_flightmare_fan() -> None:
    world = RayWorld(scene_of(box("wall", (0.5, 50.0, 5.0), (4.5, 0, 0))))
    ranges = planar_fan(world, Transform.of((1.0, 0, 0)), -0.5 * math.pi, 0.5 * math.pi, 9, 5.0)
    angles = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 9)
    expected = np.where(np.abs(angles) < 1.0, 3.0 / np.cos(angles), 6.0)
    np.testing.assert_allclose(ranges, expected, rtol=1e-5)
    turned = Transform.of((1.0, 0, 0), q_exp(np.array([0, 0, 0.5])))
    np.testing.assert_allclose(
        planar_fan(world, turned, 0.2, 9.0, 1, 5.0), [3.0 / math.cos(0.7)], rtol=1e-5
    )


def test_beacons_are_hidden_by_a_box_and_by_their_own_wall() -> None:
    wall = box("wall", (0.1, 5, 5), (6, 0, 0))
    crate = box("crate", (0.3, 0.3, 0.3), (3, 0, 1))
    beacons = [
        Beacon("front", np.array([5.9, 1.0, 1.5])),
        Beacon("behind the crate", np.array([5.9, 0.0, 1.0])),
        Beacon("back", np.array([6.1, 1.0, 1.5])),
        Beacon("out of view", np.array([3.0, 4.9, 1.0])),
        Beacon("behind", np.array([-3.0, 0.0, 1.0])),
    ]
    scene = scene_of(floor(), wall, crate, beacons=beacons)
    seen = visible_beacons(RayWorld(scene), (), CAMERA, Transform.of((0, 0, 1), LOOK_X))
    assert [s.name for s in seen] == ["front"]
    f = 240 / math.tan(math.radians(35))
    assert seen[0].u_px == pytest.approx(319.5 - f * 1.0 / 5.9)
    assert seen[0].v_px == pytest.approx(239.5 - f * 0.5 / 5.9)
    assert seen[0].depth_m == pytest.approx(5.9)


def test_beacons_ride_on_actors_and_objects() -> None:
    asset = Asset.of("v", [box_primitive((0.2, 0.2, 0.2))])
    beacons = [
        Beacon("on v", np.array([-0.2, 0, 0]), "v"),
        Beacon("on box", np.array([-1.0, 0, 0.5]), "box"),
        Beacon("of nobody", np.zeros(3), "who"),
    ]
    scene = scene_of(box("box", (1, 1, 1), (6, 2, 1), movable=True), beacons=beacons)
    world = RayWorld(scene)
    eye = Transform.of((0, 0, 1), LOOK_X)
    assert {s.name: round(s.depth_m, 6) for s in visible_beacons(world, (), CAMERA, eye)} == {
        "on box": 5.0
    }
    turned = posed("v", asset, Transform.of((3, 0, 1), q_exp(np.array([0, 0, 0.3]))))
    moved = posed("box", scene.objects[0].asset, Transform.of((8, -2, 1)))
    world.update([turned, moved])
    seen = visible_beacons(world, [turned, moved], CAMERA, eye)
    assert {s.name: round(s.depth_m, 6) for s in seen} == {
        "on v": round(3 - 0.2 * math.cos(0.3), 6),
        "on box": 7.0,
    }
    away = posed("v", asset, Transform.of((3, 0, 1), q_exp(np.array([0, 0, math.pi]))))
    world.update([away, moved])
    assert "on v" not in {s.name for s in visible_beacons(world, [away, moved], CAMERA, eye)}


def test_a_vehicle_does_not_hide_beacons_from_its_own_camera() -> None:
    asset = Asset.of("v", [box_primitive((0.2, 0.2, 0.2))])
    world = RayWorld(scene_of(floor(), beacons=[Beacon("b", np.array([4.0, 0, 1]))]))
    own = posed("v", asset, Transform.of((0, 0, 1)))
    someone = human("h", [2, 0, 0.5, 2, 0, 1.5, 0.2, 0.2])
    eye = Transform.of((0, 0, 1), LOOK_X)
    world.update([own])
    assert not visible_beacons(world, [own], CAMERA, eye)
    assert visible_beacons(world, [own], CAMERA, eye, frozenset({"v"}))
    world.update([own, someone])
    assert not visible_beacons(world, [own, someone], CAMERA, eye, frozenset({"v"}))


@pytest.mark.parametrize("lens", [PLUMB_BOB, EQUIDISTANT])
def test_lenses_agree_with_opencv_and_undo_themselves(lens: Distortion) -> None:
    cv2 = pytest.importorskip("cv2")
    camera = CameraModel("c", 640, 480, 1.2, (400.0, 410.0, 311.0, 243.0), lens)
    rng = np.random.default_rng(4)
    p = rng.uniform((-0.7, -0.5, 1.0), (0.7, 0.5, 1.0), (200, 3)) * rng.uniform(0.5, 4.0, (200, 1))
    k, none = np.array(lens.coefficients), np.zeros(3)
    if lens.model is LensModel.PLUMB_BOB:
        expected = cv2.projectPoints(p, none, none, camera.K, k)[0][:, 0]
    else:
        expected = cv2.fisheye.projectPoints(p[:, None], none, none, camera.K, k)[0][:, 0]
    np.testing.assert_allclose(project(camera, p), expected, atol=1e-6)
    ideal = p[:, :2] / p[:, 2:]
    np.testing.assert_allclose(undistort(lens, distort(lens, ideal)), ideal, atol=1e-9)
    rays = pixel_rays(camera).reshape(480, 640, 3)
    np.testing.assert_allclose(project(camera, rays[100:101, 200]), [[200.0, 100.0]], atol=1e-6)


def test_points_that_a_lens_folds_into_the_picture_are_not_in_it() -> None:
    lens = Distortion(LensModel.PLUMB_BOB, (-0.3, 0.0, 0.0, 0.0, 0.0))
    camera = CameraModel("c", 640, 480, 1.2, (300.0, 300.0, 319.5, 239.5), lens)
    # 1 - 0.3 r^2 is nought at r = 1.83: seen there it would be in the middle of the picture.
    p = np.array([[1.82, 0.0, 1.0], [0.3, 0.1, 1.0], [0.0, 0.0, -1.0], [0.0, 0.0, 0.01]])
    assert abs(project(camera, p[:1])[0, 0] - 319.5) < 20
    assert in_picture(camera, p).tolist() == [False, True, False, False]
