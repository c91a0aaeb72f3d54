"""The ideal pinhole camera as OpenGL matrices.

OpenCV pixels put integers on pixel centres, OpenGL windows put them on corners: window = pixel + 0.5.
The clip space keeps the optical axes (x right, y *down*), so the first row that OpenGL reads back is
the top row of the picture and nothing is ever flipped; triangles wind the other way round for it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, CameraModel, FloatArray

NEAR_M: Final = 0.05
FAR_M: Final = 1000.0


def clip_from_camera(camera: CameraModel) -> FloatArray:
    """Return the projection of optical coordinates, shape (4, 4); clip w is the z-depth in metres."""
    w, h, k = camera.width_px, camera.height_px, camera.K
    depth = FAR_M - NEAR_M
    return np.array(
        [
            [2.0 * k[0, 0] / w, 0.0, (2.0 * k[0, 2] + 1.0) / w - 1.0, 0.0],
            [0.0, 2.0 * k[1, 1] / h, (2.0 * k[1, 2] + 1.0) / h - 1.0, 0.0],
            [0.0, 0.0, (FAR_M + NEAR_M) / depth, -2.0 * FAR_M * NEAR_M / depth],
            [0.0, 0.0, 1.0, 0.0],
        ]
    )


def clip_from_world(camera: CameraModel, T_world_camera: Transform) -> FloatArray:
    """Return the matrix from world to clip space, shape (4, 4)."""
    T_camera_world = T_world_camera.inverse()
    return clip_from_camera(camera) @ T_camera_world.matrix()


def world_from_ndc_ray(camera: CameraModel, T_world_camera: Transform) -> FloatArray:
    """Return the matrix (3, 3) that maps (x_ndc, y_ndc, 1) to a viewing ray in the world."""
    fx, fy, cx, cy = camera.intrinsics_px
    w, h = camera.width_px, camera.height_px
    rays = np.array(
        [
            [0.5 * w / fx, 0.0, (0.5 * w - 0.5 - cx) / fx],
            [0.0, 0.5 * h / fy, (0.5 * h - 0.5 - cy) / fy],
            [0.0, 0.0, 1.0],
        ]
    )
    return np.asarray(T_world_camera.rotation() @ rays)


def in_view(clip_from_world: FloatArray, centre_m: FloatArray, radius_m: FloatArray) -> BoolArray:
    """Return which balls (k, 3), (k,) in the world reach into a view with this matrix (4, 4)."""
    rows = clip_from_world
    planes = np.array([rows[3] + rows[0], rows[3] - rows[0], rows[3] + rows[1], rows[3] - rows[1], rows[3]])
    reach = centre_m @ planes[:, :3].T + planes[:, 3]
    return np.asarray(np.all(reach > -radius_m[:, None] * np.linalg.norm(planes[:, :3], axis=1), axis=1))
