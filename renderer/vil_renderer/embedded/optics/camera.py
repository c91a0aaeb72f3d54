"""The ideal pinhole camera as OpenGL matrices.

OpenCV pixels put integers on pixel centres, OpenGL windows put them on corners: window = pixel +
0.5. The clip space keeps the optical axes (x right, y *down*), so the first row that OpenGL reads
back is the top row of the picture and nothing is ever flipped; triangles wind the other way round
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, CameraModel, FloatArray

NEAR_M: Final = 0.05
FAR_M: Final = 1000.0


def clip_from_cameras(cameras: Sequence[CameraModel], far_m: float = FAR_M) -> FloatArray:
    """Return the projections of optical coordinates, shape (c, 4, 4).

    Clip w is the z-depth in metres.

    Nothing is drawn beyond ``far_m``.
    """
    (fx, fy, cx, cy), (w, h) = _intrinsics(cameras)
    depth = far_m - NEAR_M
    clip = np.zeros((len(cameras), 4, 4))
    clip[:, 0, 0] = 2.0 * fx / w
    clip[:, 0, 2] = (2.0 * cx + 1.0) / w - 1.0
    clip[:, 1, 1] = 2.0 * fy / h
    clip[:, 1, 2] = (2.0 * cy + 1.0) / h - 1.0
    clip[:, 2, 2] = (far_m + NEAR_M) / depth
    clip[:, 2, 3] = -2.0 * far_m * NEAR_M / depth
    clip[:, 3, 2] = 1.0
    return clip


def _intrinsics(cameras: Sequence[CameraModel]) -> tuple[FloatArray, FloatArray]:
    """Return fx, fy, cx, cy, (4, c), and width and height, (2, c), in pixels."""
    focal = np.array([camera.intrinsics_px for camera in cameras])
    return focal.T, np.array(
        [(camera.width_px, camera.height_px) for camera in cameras], np.float64
    ).T


def clip_from_world(camera: CameraModel, T_world_camera: Transform) -> FloatArray:
    """Return the matrix from world to clip space, shape (4, 4)."""
    return np.asarray(clip_from_cameras([camera])[0] @ T_world_camera.inverse().matrix())


def world_from_ndc_rays(cameras: Sequence[CameraModel], R_world_camera: FloatArray) -> FloatArray:
    """Return the matrices (c, 3, 3) that map (x_ndc, y_ndc, 1) to a viewing ray in the world.

    Args:
        cameras: ideal pinholes.
        R_world_camera: their rotations, (c, 3, 3).
    """
    (fx, fy, cx, cy), (w, h) = _intrinsics(cameras)
    rays = np.zeros((len(cameras), 3, 3))
    rays[:, 0, 0] = 0.5 * w / fx
    rays[:, 0, 2] = (0.5 * w - 0.5 - cx) / fx
    rays[:, 1, 1] = 0.5 * h / fy
    rays[:, 1, 2] = (0.5 * h - 0.5 - cy) / fy
    rays[:, 2, 2] = 1.0
    return np.asarray(R_world_camera @ rays)


def in_view(clip_from_world: FloatArray, centre_m: FloatArray, radius_m: FloatArray) -> BoolArray:
    """Return which balls (k, 3), (k,) in the world reach into views with these matrices (c, 4,
    4), shape (c, k).
    """
    w = clip_from_world[:, 3:]
    planes = np.concatenate((w + clip_from_world[:, :2], w - clip_from_world[:, :2], w), axis=1)
    normals = planes[:, :, :3]
    offsets = planes[:, :, 3:]
    reach = normals @ centre_m.T + offsets + np.linalg.norm(normals, axis=2)[:, :, None] * radius_m
    return np.asarray((reach > 0.0).all(axis=1))
