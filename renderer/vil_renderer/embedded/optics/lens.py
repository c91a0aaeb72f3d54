"""Between normalised image coordinates and pixels, through the lens; rays of every pixel."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.optics.lens import distort, undistort
from vil_renderer.embedded.optics.camera import NEAR_M

__all__ = ["distort", "in_picture", "pixel_rays", "project", "undistort"]

_FOLDED: Final = 1e-3


def project(camera: CameraModel, p_camera_m: FloatArray) -> FloatArray:
    """Return pixels (n, 2) of points (n, 3) in optical axes.

    Meaningless for points behind the camera.
    """
    ahead = np.where(p_camera_m[:, 2] > 1e-9, p_camera_m[:, 2], 1e-9)
    return _to_pixels(camera, distort(camera.distortion, p_camera_m[:, :2] / ahead[:, None]))


def in_picture(camera: CameraModel, p_camera_m: FloatArray) -> BoolArray:
    """Return which points (n, 3) in optical axes lie ahead of the near plane and within the
    picture.

    Far outside its field a lens model folds back into the picture: such points are not in it.
    """
    ahead = p_camera_m[:, 2] > NEAR_M
    ideal = p_camera_m[:, :2] * (1.0 / np.where(ahead, p_camera_m[:, 2], 1.0))[:, None]
    bent = distort(camera.distortion, ideal)
    pixels = _to_pixels(camera, bent)
    u = pixels[:, 0]
    v = pixels[:, 1]
    w = camera.width_px
    h = camera.height_px
    inside: BoolArray = ahead & (np.abs(2.0 * u + 1.0 - w) < w) & (np.abs(2.0 * v + 1.0 - h) < h)
    near = np.flatnonzero(inside)
    inside[near] = (
        np.abs(undistort(camera.distortion, bent[near]) - ideal[near]).max(axis=1, initial=0.0)
        < _FOLDED
    )
    return inside


def pixel_rays(camera: CameraModel) -> FloatArray:
    """Return directions (h * w, 3) of all pixels in optical axes, row by row.

    Z = 1, so they scale to z-depths.

    x and y of a pixel through which the lens shows nothing are not numbers.
    """
    v, u = np.indices((camera.height_px, camera.width_px)).reshape(2, -1)
    rays = np.ones((len(u), 3))
    rays[:, :2] = undistort(camera.distortion, _from_pixels(camera, np.stack((u, v), axis=1)))
    return rays


def _to_pixels(camera: CameraModel, xy: FloatArray) -> FloatArray:
    fx, fy, cx, cy = camera.intrinsics_px
    return xy * (fx, fy) + (cx, cy)


def _from_pixels(camera: CameraModel, pixels: npt.NDArray[np.integer]) -> FloatArray:
    fx, fy, cx, cy = camera.intrinsics_px
    return np.asarray((pixels - np.array([cx, cy])) / (fx, fy))
