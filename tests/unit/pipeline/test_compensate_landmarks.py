"""Beacons of a warped picture stand where the warped camera sees them.

Projected by OpenCV, and row by row.
"""

from __future__ import annotations

import math
from dataclasses import replace

import cv2
import numpy as np
import pytest

from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.geometry import Transform, q_exp, q_mul
from vil_bridge.core.types import FloatArray
from vil_bridge.optics.lens import rendered_model
from vil_bridge.pipeline.warp.compensator import Compensator
from vil_bridge.pipeline.warp.rolling_shutter import KNOTS, ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry

CAMERA = CameraModel("front", 640, 480, math.radians(70.0))
RADTAN = (-0.28, 0.07, 0.0002, 0.00002, 0.0)
T_RENDER = Transform.of((1.0, 2.0, 1.5), q_exp(np.array([0.3, -0.2, 0.1])).tolist())
T_NOW = Transform(
    T_RENDER.p_m + np.array([0.05, -0.04, 0.03]),
    np.asarray(q_mul(T_RENDER.q_xyzw, q_exp(np.array([0.02, -0.06, 0.03])))),
)


def seen(
    camera: CameraModel, T_world_camera: Transform, p_world_m: FloatArray
) -> tuple[float, float, float]:
    """Pixel and z-depth by OpenCV."""
    X = T_world_camera.inverse().apply(p_world_m)
    bent = np.zeros(5) if camera.distortion is None else np.array(camera.distortion.coefficients)
    at, _ = cv2.projectPoints(X[None], np.zeros(3), np.zeros(3), camera.K, bent)
    return float(at[0, 0, 0]), float(at[0, 0, 1]), float(X[2])


def rendered_of(camera: CameraModel) -> CameraModel:
    return rendered_model(camera, math.radians(5.0), bends=True)


@pytest.mark.parametrize(
    "lens", [None, Distortion(LensModel.PLUMB_BOB, RADTAN)], ids=["pinhole", "radtan"]
)
def test_a_beacon_moves_with_the_picture(lens: Distortion | None) -> None:
    camera = replace(CAMERA, distortion=lens)
    rendered = rendered_of(camera)
    p_world_m = T_RENDER.apply(np.array([0.4, -0.3, 3.0]))
    geometry = ViewGeometry(camera, rendered)
    warp = Compensator(4.0).frame(geometry, T_RENDER, ShutterPoses((T_NOW,)), "homography")
    placed = warp.place(*seen(replace(rendered, distortion=None), T_RENDER, p_world_m))
    assert placed is not None
    assert placed == pytest.approx(seen(camera, T_NOW, p_world_m), abs=1e-6)


def test_a_beacon_belongs_to_the_row_that_shows_it() -> None:
    turn = np.array([0.0, 0.08, 0.0])
    poses = tuple(
        Transform(
            T_RENDER.p_m, np.asarray(q_mul(T_RENDER.q_xyzw, q_exp(turn * (k / (KNOTS - 1) - 0.5))))
        )
        for k in range(KNOTS)
    )
    p_world_m = T_RENDER.apply(np.array([0.4, -1.2, 3.0]))
    warp = Compensator(4.0).frame(ViewGeometry(CAMERA), T_RENDER, ShutterPoses(poses), "homography")
    placed = warp.place(*seen(CAMERA, T_RENDER, p_world_m))
    assert placed is not None
    share = (placed[1] + 0.5) / CAMERA.height_px - 0.5
    T_row = Transform(T_RENDER.p_m, np.asarray(q_mul(T_RENDER.q_xyzw, q_exp(turn * share))))
    assert placed[:2] == pytest.approx(seen(CAMERA, T_row, p_world_m)[:2], abs=1e-3)
    assert abs(placed[0] - seen(CAMERA, T_RENDER, p_world_m)[0]) > 1.0


def test_a_beacon_that_left_the_picture_has_no_place() -> None:
    T_turned = Transform(
        T_RENDER.p_m, np.asarray(q_mul(T_RENDER.q_xyzw, q_exp(np.array([0.0, 1.0, 0.0]))))
    )
    warp = Compensator(4.0).frame(
        ViewGeometry(CAMERA), T_RENDER, ShutterPoses((T_turned,)), "homography"
    )
    assert warp.place(20.0, 240.0, 3.0) is None
    T_behind = Transform(T_RENDER.apply(np.array([0.0, 0.0, 5.0])), T_RENDER.q_xyzw)
    warp = Compensator(4.0).frame(
        ViewGeometry(CAMERA), T_RENDER, ShutterPoses((T_behind,)), "homography"
    )
    assert warp.place(320.0, 240.0, 3.0) is None
