"""Words that no camera can see are left out before they are projected.

A warning would reach a bridge's log.
"""

from __future__ import annotations

import math

import numpy as np

from vil_bridge.core.camera_model import Distortion, LensModel
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel
from vil_bridge.interfaces.scene_queries import MarkerKind, SceneMarker
from vil_renderer.embedded.postprocess.markers import draw_markers

LENS = Distortion(LensModel.PLUMB_BOB, (1000.0, 1000.0, 0.0, 0.0, 1000.0))
CAMERA = CameraModel("front", 64, 48, math.radians(60.0), distortion=LENS)


def test_words_that_a_camera_does_not_see_draw_nothing_without_a_warning() -> None:
    unseen = [
        (1e6, 1e6, 1e-300),
        (1.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, -5.0),
        (1e6, -1e6, 1e-30),
    ]
    words = SceneMarker(
        MarkerKind.TEXT, np.array([*unseen, (0.0, 0.0, 5.0)]), (255, 0, 0), 11, (*"abcde", "seen")
    )
    rgb = np.zeros((48, 64, 3), np.uint8)
    z_m = np.full((48, 64), 100.0, np.float32)
    draw_markers(rgb, z_m, CAMERA, Transform.identity(), [words])
    assert rgb.any()
    rgb[:] = 0
    draw_markers(
        rgb,
        z_m,
        CAMERA,
        Transform.identity(),
        [SceneMarker(MarkerKind.TEXT, np.array(unseen), (9, 9, 9), 11, (*"abcde",))],
    )
    assert not rgb.any()
