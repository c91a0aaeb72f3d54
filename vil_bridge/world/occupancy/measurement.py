"""Measurements of free and occupied space: rays from a sensor to the points that it saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray, ImageArray
from vil_bridge.interfaces.voxel_box import inside_tree, keys_at
from vil_bridge.optics.lens import undistort

LONGEST_M: Final = 99.9
"""Depths from here on say that nothing was hit; longer ranges are not trusted."""
_NO_HIT_M: Final = 1000.0


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Rays of one instant, in single precision as OctoMap has them, all within the tree.

    Attributes:
        sensor_m: (3,). hits_m: points (k, 3) within the range. ends_m: ends (n, 3) of the rays.
    """

    sensor_m: npt.NDArray[np.float32]
    hits_m: npt.NDArray[np.float32]
    ends_m: npt.NDArray[np.float32]


def measurement(
    p_world_m: FloatArray, sensor_m: FloatArray, range_m: float, resolution_m: float
) -> Measurement:
    """Return the rays to points.

    One beyond the range clears the way up to the range and hits nothing.

    Points that are not finite or outside the tree are left out.

    Args:
        p_world_m: (n, 3).
        sensor_m: (3,), from where they were seen.
        range_m: longest distance that is trusted.
        resolution_m: side of a voxel.

    Raises:
        ValueError: the sensor is outside the tree.
    """
    sensor = np.asarray(sensor_m, np.float32)
    if not (np.isfinite(sensor).all() and inside_tree(keys_at(sensor[None], resolution_m))[0]):
        raise ValueError(f"the sensor at {sensor_m} is outside the map")
    points = np.asarray(p_world_m, np.float32)
    points = points[np.isfinite(points).all(axis=1)]
    way = points - sensor
    distance = np.sqrt((way * way).sum(axis=1))
    far = distance > np.float32(range_m)
    ends = points.copy()
    if far.any():
        ends[far] = sensor + way[far] / distance[far, None] * np.float32(range_m)
    inside = inside_tree(keys_at(ends, resolution_m))
    return Measurement(sensor, points[inside & ~far], np.ascontiguousarray(ends[inside]))


def pixel_rays(camera: CameraModel) -> FloatArray:
    """Return the rays (h w, 3) of a camera's pixels at a depth of one metre.

    NaN where its lens shows nothing.
    """
    fx, fy, cx, cy = camera.intrinsics_px
    v, u = (axis.ravel() for axis in np.mgrid[0 : camera.height_px, 0 : camera.width_px])
    seen = undistort(camera.distortion, np.stack(((u - cx) / fx, (v - cy) / fy), axis=1))
    return np.column_stack((seen, np.ones(len(seen))))


def depth_points(depth_m: ImageArray, rays: FloatArray, T_world_camera: Transform) -> FloatArray:
    """Return the points (n, 3) of a depth picture in the world; far ones where nothing was hit.

    Args:
        depth_m: (h, w), metres along the optical axis; 100 and more, or infinite = nothing was hit.
        rays: of its pixels.
        T_world_camera: pose of the optical axes.
    """
    z_m = depth_m.ravel().astype(np.float64)
    z_m = np.where(z_m >= LONGEST_M, _NO_HIT_M, z_m)
    seen = (z_m > 0.0) & np.isfinite(rays[:, 0])
    return T_world_camera.apply(z_m[seen, None] * rays[seen])
