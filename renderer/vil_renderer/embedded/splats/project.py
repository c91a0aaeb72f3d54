"""Projection of splats into a picture, and their colour seen from there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray
from vil_renderer.embedded.splats import kernels
from vil_renderer.embedded.splats.compiled import compiled
from vil_renderer.embedded.splats.read import SplatCloud

__all__ = ["Projected", "project"]

_Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Projected:
    """The splats that a picture shows, the nearest first.

    Attributes:
        size_px: width and height of the picture.
        rows: float32 (n, 10), bounds: int32 (n, 4), as :mod:`~.kernels` describes them.
    """

    size_px: tuple[int, int]
    rows: _Float32
    bounds: npt.NDArray[np.int32]


def project(
    cloud: SplatCloud, camera: CameraModel, T_world_camera: Transform, T_world_splats: FloatArray, exposure: float = 1.0
) -> Projected:
    """Project splats as renderer pages of 3DGS do: Sigma2 = J W Sigma W^T J^T + 0.3 I.

    Args:
        cloud: the splats.
        camera: an ideal pinhole; its lens is not applied here.
        T_world_camera: optical axes (x right, y down, z forward).
        T_world_splats: (4, 4), rotation, place and uniform scale.
        exposure: factor on display colours.

    Raises:
        RendererError: numba is not installed.
    """
    R_camera_world = T_world_camera.rotation().T
    turn = R_camera_world @ T_world_splats[:3, :3]
    shift = R_camera_world @ (T_world_splats[:3, 3] - T_world_camera.p_m)
    eye = np.linalg.solve(turn, -shift)
    width, height, n = camera.width_px, camera.height_px, len(cloud.p)
    flat = np.empty((n, kernels.FLAT), np.float32)
    pinhole = np.array(camera.intrinsics_px, np.float32)
    place = (np.float32(turn), np.float32(shift), pinhole, width, height)
    compiled(kernels.project_splats)(cloud.p, cloud.axes, *place, flat)
    rows = np.empty((n, kernels.COLUMNS), np.float32)
    bounds, index = np.empty((n, 4), np.int32), np.empty(n, np.int32)
    count = compiled(kernels.select_splats)(flat, cloud.opacity, width, height, rows, bounds, index)
    compiled(kernels.shade_splats)(cloud.p, cloud.sh, np.float32(eye), np.float32(exposure), index[:count], rows)
    order = _nearest_first(rows[:count, 6])
    return Projected((width, height), rows[order], bounds[order])


def _nearest_first(z_m: _Float32) -> npt.NDArray[np.intp]:
    """Return the order of positive depths, by radix: their bits sort as they do; NumPy sorts 16 bits in linear time."""
    bits = np.ascontiguousarray(z_m).view(np.uint32)
    order = np.argsort(bits.astype(np.uint16), kind="stable")
    upper = (bits >> np.uint32(16)).astype(np.uint16)
    return order[np.argsort(upper[order], kind="stable")]
