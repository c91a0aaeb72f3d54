"""Splats in a picture: projected, then laid over each other in tiles of 16 x 16 pixels, from the nearest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray
from vil_renderer.embedded.splats import kernels
from vil_renderer.embedded.splats.read import SplatCloud

_Float32 = npt.NDArray[np.float32]

_LIST_LENGTH: Final = 1 << 20
_TILE: Final = kernels.TILE


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
    kernels.compiled(kernels.project_splats)(cloud.p, cloud.axes, *place, flat)
    rows = np.empty((n, kernels.COLUMNS), np.float32)
    bounds, index = np.empty((n, 4), np.int32), np.empty(n, np.int32)
    count = kernels.compiled(kernels.select_splats)(flat, cloud.opacity, width, height, rows, bounds, index)
    kernels.compiled(kernels.shade_splats)(
        cloud.p, cloud.sh, np.float32(eye), np.float32(exposure), index[:count], rows
    )
    order = _nearest_first(rows[:count, 6])
    return Projected((width, height), rows[order], bounds[order])


def _nearest_first(z_m: _Float32) -> npt.NDArray[np.intp]:
    """Return the order of positive depths, by radix: their bits sort as they do; NumPy sorts 16 bits in linear time."""
    bits = np.ascontiguousarray(z_m).view(np.uint32)
    order = np.argsort(bits.astype(np.uint16), kind="stable")
    upper = (bits >> np.uint32(16)).astype(np.uint16)
    return order[np.argsort(upper[order], kind="stable")]


def rasterise(projected: Projected, z_m: _Float32) -> _Float32:
    """Blend splats: alpha = o exp(-0.5 d^T Sigma2^-1 d), each behind the nearer ones.

    The omitted parts change no colour by more than 1/1024 and the faint skirts of splats, below 1/2048 each. Memory
    is bounded however large the splats are: they are blended in as many portions as necessary.

    Args:
        projected: the splats.
        z_m: float32 (h, w), depth of the surfaces that hide splats whose mean is behind them.

    Returns:
        Float32 (h, w, 4): display colour times alpha, and alpha, of all splats together.

    Raises:
        RendererError: numba is not installed.
    """
    width, height = projected.size_px
    across, down = -(-width // _TILE), -(-height // _TILE)
    tiles = np.zeros((down, across, _TILE, 5, _TILE), np.float32)
    tiles[:, :, :, 4] = _tiled(z_m, across, down)
    tiles[:, :, :, 3] = tiles[:, :, :, 4] > 0.0
    lists = np.empty(across * down + 1, np.int32), np.empty(max(_LIST_LENGTH, across * down), np.int32)
    unfinished = np.ones(across * down, np.bool_)
    flat = tiles.reshape(across * down, -1)
    done, count = 0, len(projected.rows)
    while done < count and unfinished.any():
        done = kernels.compiled(kernels.bin_splats)(projected.bounds, done, across, unfinished, *lists)
        kernels.compiled(kernels.blend_tiles)(projected.rows, projected.bounds, *lists, across, unfinished, flat)
    picture = tiles[:, :, :, :4].transpose(0, 2, 1, 4, 3).reshape(down * _TILE, across * _TILE, 4)[:height, :width]
    np.subtract(1.0, picture[..., 3], out=picture[..., 3])
    return np.ascontiguousarray(picture)


def _tiled(z_m: _Float32, across: int, down: int) -> _Float32:
    """Return depth by tiles, (down, across, 16, 16); -1 beyond the picture."""
    height, width = z_m.shape
    padded = np.full((down * _TILE, across * _TILE), -1.0, np.float32)
    padded[:height, :width] = z_m
    return padded.reshape(down, _TILE, across, _TILE).transpose(0, 2, 1, 3)
