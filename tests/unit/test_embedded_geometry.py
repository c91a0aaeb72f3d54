"""The embedded renderer without OpenGL: projection, boxes, shapes, encoders and the plan of the hall."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.embedded_support import CAMERA, looking, rotation
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import CameraModel
from vil_renderer.embedded.boxes import Boxes
from vil_renderer.embedded.camera import FAR_M, NEAR_M, clip_from_world, project, world_from_ndc_ray
from vil_renderer.embedded.hall import design_hall
from vil_renderer.embedded.modalities import depth16, gray8
from vil_renderer.embedded.first_scene import load_scene
from vil_renderer.embedded.shapes import Shape, capsule_vertices, solid_vertices


def test_pixel_of_a_point_is_the_textbook_one_in_both_projections() -> None:
    camera = CameraModel("odd", 333, 201, math.radians(63.0))
    f = 0.5 * 201 / math.tan(math.radians(31.5))
    pose = looking((1.0, -2.0, 1.5), 25.0, -8.0, 4.0)
    in_camera = np.array([0.7, -0.3, 4.0])
    in_world = pose.apply(in_camera)
    u, v = f * 0.7 / 4.0 + 166.0, f * -0.3 / 4.0 + 100.0
    assert project(camera, pose, in_world[None])[0] == pytest.approx((u, v, 4.0))
    clip = clip_from_world(camera, pose) @ np.append(in_world, 1.0)
    x, y, z = clip[:3] / clip[3]
    assert ((x + 1) * 333 / 2 - 0.5, (y + 1) * 201 / 2 - 0.5) == pytest.approx((u, v))
    assert clip[3] == pytest.approx(4.0)
    ray = world_from_ndc_ray(camera, pose) @ (x, y, 1.0)
    assert 4.0 * ray == pytest.approx(in_world - pose.p_m)
    assert -1.0 < z < 1.0


@pytest.mark.parametrize(("depth_m", "z_ndc"), [(NEAR_M, -1.0), (FAR_M, 1.0)])
def test_near_and_far_bound_the_clip_space(depth_m: float, z_ndc: float) -> None:
    pose = looking((0.0, 0.0, 0.0))
    clip = clip_from_world(CAMERA, pose) @ np.append(pose.apply(np.array([0.0, 0.0, depth_m])), 1.0)
    assert clip[2] / clip[3] == pytest.approx(z_ndc)


def _box(centre: tuple[float, float, float], yaw_deg: float, half: tuple[float, float, float]) -> Boxes:
    return Boxes(np.array([centre]), rotation(yaw_deg)[None], np.array([half]))


def test_rays_meet_a_turned_box_where_geometry_says() -> None:
    box = _box((5.0, 0.0, 0.0), 45.0, (1.0, 1.0, 1.0))
    east = np.array([1.0, 0.0, 0.0])
    assert box.ray_distance_m(np.zeros(3), east) == pytest.approx(5.0 - math.sqrt(2.0))
    assert box.ray_distance_m(np.array([0.0, 1.0, 0.5]), east) == pytest.approx(6.0 - math.sqrt(2.0))
    assert box.ray_distance_m(np.array([0.0, 1.5, 0.0]), east) == math.inf
    assert box.ray_distance_m(np.zeros(3), -east) == math.inf
    assert box.ray_distance_m(np.array([5.0, 0.0, 0.0]), east) == math.inf


def test_segments_are_blocked_only_between_their_ends() -> None:
    box = _box((5.0, 0.0, 0.0), 0.0, (1.0, 1.0, 1.0))
    start = np.zeros((3, 3))
    end = np.array([[3.9, 0.0, 0.0], [4.1, 0.0, 0.0], [9.0, 3.0, 0.0]])
    assert box.between(start, end).tolist() == [False, True, False]


def test_a_sphere_touches_faces_and_corners_at_its_radius() -> None:
    box = _box((0.0, 0.0, 0.0), 30.0, (1.0, 2.0, 3.0))
    normal = rotation(30.0)[:, 0]
    assert box.touches_sphere(1.14 * normal, 0.15)
    assert not box.touches_sphere(1.16 * normal, 0.15)
    corner = rotation(30.0) @ (1.0, 2.0, 3.0)
    outward = np.ones(3) / math.sqrt(3.0)
    assert box.touches_sphere(corner + rotation(30.0) @ (0.14 * outward), 0.15)
    assert not box.touches_sphere(corner + rotation(30.0) @ (0.16 * outward), 0.15)
    assert not Boxes.none().touches_sphere(np.zeros(3), 1.0)


@pytest.mark.parametrize("shape", list(Shape))
def test_solids_are_closed_and_wind_outwards(shape: Shape) -> None:
    rows = solid_vertices(shape)
    a, b, c = rows[:, :3].astype(float).reshape(-1, 3, 3).transpose(1, 0, 2)
    facing = np.cross(b - a, c - a)
    middle, normal = (a + b + c) / 3.0, rows[:, 3:6].reshape(-1, 3, 3).mean(axis=1)
    area = np.linalg.norm(facing, axis=1)
    assert np.all(np.einsum("ni,ni->n", facing, normal)[area > 1e-6] > 0.0)
    volume = np.einsum("ni,ni->", middle, facing) / 6.0
    assert volume == pytest.approx({Shape.BOX: 8.0, Shape.CYLINDER: 2 * math.pi, Shape.SPHERE: 4.19}[shape], rel=0.08)


def test_capsule_directions_wind_outwards() -> None:
    rows = capsule_vertices().astype(float)
    p = rows[:, :3] + np.array([0.0, 0.0, 2.0]) * rows[:, 3:4]
    a, b, c = p.reshape(-1, 3, 3).transpose(1, 0, 2)
    facing = np.cross(b - a, c - a)
    outward = (a + b + c) / 3.0 - np.array([0.0, 0.0, 1.0])
    assert np.all(np.einsum("ni,ni->n", facing, outward)[np.linalg.norm(facing, axis=1) > 1e-6] > 0.0)


def test_encoders_follow_their_formulas() -> None:
    metres = np.array([[0.0, 0.0007, 0.0008, 1.0, 99.9985, 99.9995, 100.0, 1e6]], np.float32)
    assert depth16(metres).tolist() == [[0, 0, 1, 655, 65534, 65535, 65535, 65535]]
    colours = np.array([[[255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 20, 30]]], np.uint8)
    expected = [(77 * r + 150 * g + 29 * b) // 256 for r, g, b in colours[0].tolist()]
    assert gray8(colours).tolist() == [expected]
    assert expected[0] == 255


def test_the_hall_keeps_the_flight_and_walking_volumes_free() -> None:
    plan = design_hall()
    furniture = Boxes.join(plan.furniture.boxes)
    flight = np.stack(
        np.meshgrid(np.arange(-3.0, 1.01, 0.25), np.arange(-2.5, 2.51, 0.25), np.arange(0.8, 2.51, 0.2)), -1
    )
    walk = np.stack(np.meshgrid(np.arange(1.7, 6.31, 0.25), np.arange(-2.3, 2.31, 0.25), np.arange(0.2, 2.0, 0.2)), -1)
    in_reach = np.linalg.norm(walk[..., :2] - (4.0, 0.0), axis=-1) < 2.3
    for point in (*flight.reshape(-1, 3), *walk[in_reach]):
        assert not furniture.touches_sphere(point, 0.2), point


def test_beacons_are_named_after_their_gates_and_stand_free() -> None:
    scene = load_scene("hall")
    assert scene.beacon_names[:5] == ("Gate1_1", "Gate1_2", "Gate1_3", "Gate1_4", "Gate2_1")
    assert len(set(scene.beacon_names)) == len(scene.beacons_m)
    for place in scene.beacons_m:
        assert not scene.solid.touches_sphere(place, 0.001)
        assert scene.solid.touches_sphere(place, 0.02)


def test_culling_drops_no_triangle_that_the_camera_sees() -> None:
    scene = load_scene("hall")
    triangles, p_m = scene.mesh.triangles, scene.mesh.p_m.astype(float)
    a, b, c = p_m[triangles].transpose(1, 0, 2)
    for pose in (looking((0.0, 0.0, 1.5), 10.0, 5.0), looking((-2.0, 1.0, 2.2), 130.0, -30.0, 15.0)):
        kept = {tuple(t) for t in scene.culler.visible(clip_from_world(CAMERA, pose), pose.p_m).tolist()}
        assert len(kept) < 0.5 * len(triangles)
        u, v, z = project(CAMERA, pose, p_m).T
        inside = (z > 0) & (u > 0) & (u < 639) & (v > 0) & (v < 479)
        facing = np.einsum("ni,ni->n", np.cross(b - a, c - a), pose.p_m - a) > 1e-6
        seen = triangles[facing & inside[triangles].any(axis=1)]
        assert len(seen) > 1000
        assert all(tuple(t) in kept for t in seen.tolist())


def test_an_unknown_scene_is_refused_by_name() -> None:
    with pytest.raises(RendererError, match=r"no scene named 'moon'; known: empty, hall"):
        load_scene("moon")
