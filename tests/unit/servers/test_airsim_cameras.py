"""Cameras as programs change them.

Names and numbers, field of view, lens, mount, and the view of a picture.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.camera_model import LensModel
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import Modality
from vil_simulation.airsim.cameras import ServedCameras
from vil_simulation.airsim.methods import NoSuchVehicle
from vil_simulation.airsim.settings import CameraSettings, CaptureSettings
from vil_simulation.airsim.values import Pose, Quaternionr, Vector3r
from vil_simulation.airsim.vehicles import ServedVehicle

CAPTURES = {0: CaptureSettings(200, 100, 90.0), 5: CaptureSettings(64, 64, 60.0)}
HERE = Transform.identity()


def vehicle(*names: str) -> ServedVehicle:
    """Return a vehicle that starts 1 m east, with cameras 1 m, 2 m... ahead of its middle."""
    cameras = {
        name: CameraSettings(Transform.of((i, 0.0, 0.0)), CAPTURES)
        for i, name in enumerate(names, 1)
    }
    return ServedVehicle("D", "d", None, "multirotor", HERE, np.array([1.0, 0.0, 0.0]), cameras, {})


def test_a_number_is_the_camera_of_its_place() -> None:
    cameras = ServedCameras({})
    own = vehicle("front_center", "back_center", "4")
    named = {
        name: cameras.key(own, name)[1] for name in ("", "0", "1", "2", "3", "4", "back_center")
    }
    assert named == {
        "": "front_center",
        "0": "front_center",
        "1": "back_center",
        "2": "4",
        "3": "4",
        "4": "4",
        "back_center": "back_center",
    }
    assert cameras.key(vehicle("a", "b"), "4") == ("d", "b")
    with pytest.raises(NoSuchVehicle, match="'5' does not exist on 'D'; known: a, b"):
        cameras.key(vehicle("a", "b"), "5")
    with pytest.raises(NoSuchVehicle, match="known: none, add ExternalCameras"):
        cameras.key(vehicle(), "0")


def test_a_view_has_the_size_field_and_lens_of_its_kind_of_picture() -> None:
    cameras, own = ServedCameras({}), vehicle("c")
    view = cameras.view(own, "c", 0, Modality.RGB, HERE, 7)
    assert (view.camera.width_px, view.camera.height_px, view.t_pose_ns, view.hide) == (
        200,
        100,
        7,
        ("d",),
    )
    assert (
        view.camera.fov_y_rad == pytest.approx(2.0 * math.atan(0.5))
        and view.camera.distortion is None
    )
    # Ahead.
    assert view.T_world_camera.rotation() @ (0.0, 0.0, 1.0) == pytest.approx((1.0, 0.0, 0.0))
    # Right.
    assert view.T_world_camera.rotation() @ (1.0, 0.0, 0.0) == pytest.approx((0.0, -1.0, 0.0))
    assert cameras.view(own, "c", 5, Modality.INSTANCE, HERE, 0).camera.width_px == 64
    for key, value in {"K1": 0.1, "K2": 0.2, "K3": 0.3, "P1": 0.4, "P2": 0.5}.items():
        cameras.set_distortion(own, "c", key, value)
    assert cameras.distortion(own, "c") == [0.1, 0.2, 0.3, 0.4, 0.5]
    lens = cameras.view(own, "c", 0, Modality.RGB, HERE, 0).camera.distortion
    assert lens is not None and lens.model is LensModel.PLUMB_BOB
    assert tuple(lens.coefficients) == (0.1, 0.2, 0.4, 0.5, 0.3)  # OpenCV's order


def test_a_field_of_view_is_that_of_all_pictures_of_one_camera() -> None:
    cameras, own = ServedCameras({}), vehicle("a", "b")
    cameras.set_fov(own, "0", 120.0)
    info = cameras.info(own, "a", HERE)
    x = 1.0 / math.tan(math.radians(60.0))
    assert info.fov == 120.0 and info.proj_mat.matrix[0][0] == pytest.approx(x)
    assert info.proj_mat.matrix[1][1] == pytest.approx(2.0 * x)
    # 1 m east of the start's zero.
    assert (info.pose.position.x_val, info.pose.position.y_val) == (0.0, 0.0)
    wide = cameras.view(own, "a", 5, Modality.INSTANCE, HERE, 0).camera.fov_y_rad
    assert wide == pytest.approx(math.radians(120.0)) and cameras.info(own, "b", HERE).fov == 90.0


def test_a_lens_has_no_other_parameters() -> None:
    with pytest.raises(ValueError, match="distortion has K1, K2, K3, P1, P2, not K4"):
        ServedCameras({}).set_distortion(vehicle("c"), "c", "K4", 0.0)


def test_a_camera_is_mounted_in_the_axes_of_its_body() -> None:
    cameras, own = ServedCameras({}), vehicle("c")
    down = Quaternionr(math.sqrt(0.5), 0.0, -math.sqrt(0.5), 0.0)
    cameras.set_pose(own, "c", Pose(Vector3r(1.0, 2.0, 3.0), down), 0)
    T = cameras.transform(own, "0", HERE)
    assert T.p_m.tolist() == [1.0, -2.0, -3.0]
    assert T.rotation() @ (1.0, 0.0, 0.0) == pytest.approx((0.0, 0.0, -1.0))
