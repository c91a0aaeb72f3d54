"""The embedded renderer without OpenGL: projection, encoders, names of scenes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.embedded import CAMERA, looking
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import CameraModel
from vil_renderer.embedded.optics.camera import FAR_M, NEAR_M, clip_from_world, world_from_ndc_rays
from vil_renderer.embedded.optics.lens import project
from vil_renderer.embedded.postprocess.images import depth16, gray8
from vil_renderer.embedded.scenefile import load_scene


def test_pixel_of_a_point_is_the_textbook_one_in_both_projections() -> None:
    camera = CameraModel("odd", 333, 201, math.radians(63.0))
    f = 0.5 * 201 / math.tan(math.radians(31.5))
    pose = looking((1.0, -2.0, 1.5), 25.0, -8.0, 4.0)
    in_camera = np.array([0.7, -0.3, 4.0])
    in_world = pose.apply(in_camera)
    u, v = f * 0.7 / 4.0 + 166.0, f * -0.3 / 4.0 + 100.0
    assert project(camera, in_camera[None])[0] == pytest.approx((u, v))
    clip = clip_from_world(camera, pose) @ np.append(in_world, 1.0)
    x, y, z = clip[:3] / clip[3]
    assert ((x + 1) * 333 / 2 - 0.5, (y + 1) * 201 / 2 - 0.5) == pytest.approx((u, v))
    assert clip[3] == pytest.approx(4.0)
    ray = world_from_ndc_rays([camera], pose.rotation()[None])[0] @ (x, y, 1.0)
    assert 4.0 * ray == pytest.approx(in_world - pose.p_m)
    assert -1.0 < z < 1.0


@pytest.mark.parametrize(("depth_m", "z_ndc"), [(NEAR_M, -1.0), (FAR_M, 1.0)])
def test_near_and_far_bound_the_clip_space(depth_m: float, z_ndc: float) -> None:
    pose = looking((0.0, 0.0, 0.0))
    clip = clip_from_world(CAMERA, pose) @ np.append(pose.apply(np.array([0.0, 0.0, depth_m])), 1.0)
    assert clip[2] / clip[3] == pytest.approx(z_ndc)


def test_encoders_follow_their_formulas() -> None:
    metres = np.array([[0.0, 0.0007, 0.0008, 1.0, 99.9985, 99.9995, 100.0, 1e6]], np.float32)
    assert depth16(metres).tolist() == [[0, 0, 1, 655, 65534, 65535, 65535, 65535]]
    colours = np.array(
        [[[255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 20, 30]]], np.uint8
    )
    expected = [(77 * r + 150 * g + 29 * b) // 256 for r, g, b in colours[0].tolist()]
    assert gray8(colours).tolist() == [expected]
    assert expected[0] == 255


def test_an_unknown_scene_is_refused_by_name() -> None:
    with pytest.raises(
        RendererError, match=r"moon.*course, empty, forest, garage, hall, lab, street, yard"
    ):
        load_scene("moon")
