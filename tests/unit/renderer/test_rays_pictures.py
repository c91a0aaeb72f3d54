"""Pictures without OpenGL against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.geometry_scenes import (
    box,
    box_primitive,
    floor,
    floor_asset,
    human,
    place,
    posed,
    scene_of,
    sphere_primitive,
    thing,
)
from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.geometry import Transform, q_exp, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.geometry.raycast_renderer import RaycastRenderer

CAMERA = CameraModel("cam", 160, 120, math.radians(60.0))
U, V = np.meshgrid(np.arange(160.0), np.arange(120.0))
X, Y = (U - 79.5) / CAMERA.f_px, (V - 59.5) / CAMERA.f_px
# In these tests the camera looks along the world's z with x right and y down: its axes are the
# world's.
EYE = Transform.identity()


def plane(z: float, rotation: FloatArray | None = None) -> RaycastRenderer:
    return RaycastRenderer(
        scene_of(thing("plane", floor_asset(80.0, 40), place((0, 0, z), rotation), semantic=4))
    )


def test_a_plane_ahead_has_one_depth_in_the_corners_too() -> None:
    got = plane(5.0).render_aux(CAMERA, EYE)
    np.testing.assert_allclose(got.depth32, 5.0, atol=0.5 * 100 / 65535)
    np.testing.assert_allclose(got.normals, np.broadcast_to((0, 0, -1), (120, 160, 3)), atol=1e-5)
    assert not got.valid.any()
    assert not got.flow.any()


def test_tilted_plane() -> None:
    rotation = q_to_matrix(q_exp(np.array([0.3, 0.4, 0.0])))
    n = rotation[:, 2]
    got = plane(6.0, rotation).render_aux(CAMERA, EYE)
    expected = 6.0 * n[2] / (n[0] * X + n[1] * Y + n[2])
    np.testing.assert_allclose(got.depth32, expected, rtol=1e-5)
    np.testing.assert_allclose(got.normals, np.broadcast_to(-n, (120, 160, 3)), atol=1e-5)


def test_sphere() -> None:
    ball = thing(
        "ball",
        Asset.of("ball", [sphere_primitive(1.0, 96)]),
        place((0.2, 0.1, 4.0)),
        semantic=7,
        instance=9,
    )
    got = RaycastRenderer(scene_of(ball)).render_aux(CAMERA, EYE)
    c = np.array([0.2, 0.1, 4.0])
    d = np.stack((X, Y, np.ones_like(X)), axis=-1)
    b, a = d @ c, (d * d).sum(axis=-1)
    h = b * b - a * (c @ c - 1.0)
    z = (b - np.sqrt(np.maximum(h, 0.0))) / a
    inner = h > 0.1
    np.testing.assert_allclose(got.depth32[inner], z[inner], atol=3e-3)
    normal = z[..., None] * d - c
    off = np.degrees(np.arccos(np.clip((got.normals * normal).sum(axis=-1), -1, 1)))
    assert off[inner].max() < 0.3
    assert (got.instance[inner] == 9).all()
    assert not got.semantic[h < 0].any()
    np.testing.assert_array_equal(got.depth32[h < 0], 100.0)


def test_flow_of_a_turning_camera_does_not_depend_on_depth() -> None:
    turn = Transform.of((0, 0, 0), q_exp(np.array([0.02, -0.03, 0.05])))
    got = plane(5.0, q_to_matrix(q_exp(np.array([0.2, 0.3, 0.0])))).render_aux(
        CAMERA, turn, (), (EYE, ())
    )
    before = np.stack((X, Y, np.ones_like(X)), axis=-1) @ turn.rotation().T
    u = CAMERA.f_px * before[..., 0] / before[..., 2] + 79.5
    v = CAMERA.f_px * before[..., 1] / before[..., 2] + 59.5
    assert got.valid.all()
    np.testing.assert_allclose(got.flow, np.stack((U - u, V - v), axis=-1), atol=2e-3)


@pytest.mark.parametrize("step", [(0.0, 0.0, 0.25), (0.2, 0.0, 0.0), (0.0, -0.1, 0.0)])
def test_flow_of_a_camera_that_moves_by_a_plane(step: tuple[float, float, float]) -> None:
    got = plane(5.0).render_aux(CAMERA, Transform.of(step), (), (EYE, ()))
    z = 5.0 - step[2]
    sideways = -CAMERA.f_px * np.array(step[:2]) / 5.0
    towards = np.stack((U - 79.5, V - 59.5), axis=-1) * step[2] / (z + step[2])
    np.testing.assert_allclose(got.flow, towards + sideways, atol=2e-3)


def test_flow_of_a_moving_and_turning_object_is_its_own() -> None:
    asset = Asset.of("v", [box_primitive((0.5, 0.5, 0.5))])
    renderer = plane(8.0)
    was, now = (posed("v", asset, Transform.of((x, 0, 4.0))) for x in (0.0, 0.1))
    got = renderer.render_aux(CAMERA, EYE, [now], (EYE, [was]))
    on = got.instance == 77
    assert 850 < on.sum() < 950
    np.testing.assert_allclose(
        got.flow[on], CAMERA.f_px / got.depth32[on][:, None] * (0.1, 0.0), atol=2e-3
    )
    assert got.valid.all()
    np.testing.assert_allclose(got.flow[~on], 0.0, atol=1e-4)
    rolled = posed("v", asset, Transform.of((0, 0, 4.0), q_exp(np.array([0, 0, 0.1]))))
    got = renderer.render_aux(CAMERA, EYE, [rolled], (EYE, [was]))
    on = got.instance == 77
    x, y = U[on] - 79.5, V[on] - 59.5
    c, s = math.cos(-0.1), math.sin(-0.1)
    np.testing.assert_allclose(
        got.flow[on], np.stack((x - c * x + s * y, y - s * x - c * y), axis=-1), atol=2e-3
    )


def test_who_was_not_there_before_has_no_flow() -> None:
    actor = posed("v", Asset.of("v", [box_primitive((0.5, 0.5, 0.5))]), Transform.of((0, 0, 4.0)))
    someone = human("h", [1, -1, 5, 1, 1, 5, 0.3, 0.3])
    got = plane(8.0).render_aux(CAMERA, EYE, [actor, someone], (EYE, [someone]))
    assert np.array_equal(got.valid, (got.instance != 77) & (got.instance != 78))
    assert (got.semantic == 42).sum() > 500
    hidden = plane(8.0).render_aux(CAMERA, EYE, [actor, someone], hide=frozenset({"v", "h"}))
    assert set(np.unique(hidden.semantic)) == {4}


def test_area_of_a_square() -> None:
    """A square of 1 m at 4 m: its pixels within those of its edge."""
    scene = scene_of(box("b", (0.5, 0.5, 0.01), (0, 0, 4.01)))
    side = CAMERA.f_px / 4.0
    got = (RaycastRenderer(scene).render_aux(CAMERA, EYE).semantic == 6).sum()
    assert abs(got - side * side) <= 2 * side + 1


@pytest.mark.parametrize(
    "lens",
    [
        Distortion(LensModel.PLUMB_BOB, (-0.2, 0.05, 0.001, -0.001, 0.0)),
        Distortion(LensModel.EQUIDISTANT, (0.01, -0.005, 0.0, 0.0)),
    ],
)
def test_a_lens_bends_pictures_as_opencv_says(lens: Distortion) -> None:
    """The corner of a quadrant is seen where OpenCV projects it."""
    cv2 = pytest.importorskip("cv2")
    camera = CameraModel("cam", 160, 120, 1.0, (100.0, 105.0, 80.0, 58.0), lens)
    corner = np.array([0.9, 0.6, 3.0])
    quadrant = thing(
        "q",
        Asset.of("q", [box_primitive((5, 5, 0.001))]),
        place(corner + np.array([5, 5, 0.001])),
        semantic=2,
    )
    seen = RaycastRenderer(scene_of(quadrant)).render_aux(camera, EYE).semantic == 2
    model = cv2 if lens.model is LensModel.PLUMB_BOB else cv2.fisheye
    none = np.zeros(3)
    pixels, _ = model.projectPoints(
        corner.reshape(1, 1, 3), none, none, camera.K, np.array(lens.coefficients)
    )
    u, v = pixels.ravel()
    assert seen[math.ceil(v) + 1, math.ceil(u) + 1]
    assert not seen[math.floor(v) - 1, math.floor(u) + 1]
    assert not seen[math.floor(v) + 1, math.floor(u) - 1]


def test_depth_ends_at_a_hundred_metres() -> None:
    far = plane(130.0).render_aux(CAMERA, EYE)
    assert (far.depth32 == 100.0).all()
    # The plane reaches 80 m to each side: at 130 m that is more than the picture is high.
    assert (far.semantic[:, 80] == 4).all()


def test_movable_object_flows_when_it_is_carried_off() -> None:
    gate = box("gate", (0.5, 0.5, 0.5), (0, 0, 4), movable=True, instance=33)
    carried = posed("gate", gate.asset, Transform.of((0.1, 0, 4)))
    got = RaycastRenderer(scene_of(floor(), gate)).render_aux(CAMERA, EYE, [carried], (EYE, ()))
    on = got.instance == 77
    np.testing.assert_allclose(
        got.flow[on], CAMERA.f_px / got.depth32[on][:, None] * (0.1, 0.0), atol=2e-3
    )
    assert got.valid[on].all()
