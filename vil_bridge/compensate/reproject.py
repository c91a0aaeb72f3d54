"""Late warp with depth: every part of the picture moves as its own distance demands.

Each pixel of the result looks for the render pixel that shows the same point: starting from the
rotation alone, the depth found there gives the point, the point a better pixel. Three rounds on a
grid of every eighth pixel are enough, and smoother at edges than on every pixel; the coordinates
are then enlarged and the picture is sampled once. What the rendered picture could not see is
stretched from beside it; what moved since moves as if it stood still.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from vil_bridge.compensate.homography import upright_rows
from vil_bridge.core.types import DEPTH_NO_HIT, DEPTH_UNITS_PER_M, FloatArray, ImageArray

__all__ = ["RenderMap", "render_map", "reproject", "reproject_depth"]

GRID_PX: Final = 8
_ROUNDS: Final = 3
_NEAREST_M: Final = 0.05
_OUTSIDE_PX: Final = -1e6

_Float32 = npt.NDArray[np.float32]


class RenderMap(NamedTuple):
    """Where each pixel of the result is found in the rendered picture.

    Attributes:
        x_px, y_px: shape (h, w), float32.
        valid_fraction: part of the result that lies inside the rendered picture.
    """

    x_px: _Float32
    y_px: _Float32
    valid_fraction: float


def render_map(
    K: FloatArray,
    R_rn: FloatArray,
    dp_render_m: FloatArray,
    size_px: tuple[int, int],
    scene: ImageArray | float,
    grid_px: int = GRID_PX,
) -> RenderMap:
    """Solve for the render pixel of every pixel.

    Args:
        K: intrinsic matrix of both pictures.
        R_rn: from :func:`~vil_bridge.compensate.homography.rotation_translation`.
        dp_render_m: from the same.
        size_px: width and height of both pictures.
        scene: depth picture of the rendered frame, uint16 (h, w), or the depth of a plane in metres.
        grid_px: distance of the solved pixels.
    """
    width, height = size_px
    columns, rows = -(-width // grid_px), -(-height // grid_px)
    # cv2.resize centres cells; one more cell on each side spares it from extrapolating.
    u = (np.arange(-1, columns + 1, dtype=np.float64) + 0.5) * grid_px - 0.5
    v = (np.arange(-1, rows + 1, dtype=np.float64) + 0.5) * grid_px - 0.5
    x, y = _solve(K, R_rn, dp_render_m, size_px, scene, u, v)
    inner_x, inner_y = x[1:-1, 1:-1], y[1:-1, 1:-1]
    inside = (inner_x > -0.5) & (inner_x < width - 0.5) & (inner_y > -0.5) & (inner_y < height - 0.5)
    full = ((columns + 2) * grid_px, (rows + 2) * grid_px)
    crop = slice(grid_px, grid_px + height), slice(grid_px, grid_px + width)
    x_px: Any = cv2.resize(x, full, interpolation=cv2.INTER_LINEAR)
    y_px: Any = cv2.resize(y, full, interpolation=cv2.INTER_LINEAR)
    return RenderMap(x_px[crop], y_px[crop], float(np.count_nonzero(inside)) / inside.size)


def reproject(image: ImageArray, found: RenderMap, interpolation: int = cv2.INTER_LINEAR) -> ImageArray:
    """Sample a colour or grey picture, (h, w[, channels]) uint8, or ids; 0 outside. Releases the GIL."""
    return _remap(image, found, interpolation, 0)


def reproject_depth(
    depth_u16: ImageArray, found: RenderMap, K: FloatArray, R_rn: FloatArray, dp_render_m: FloatArray
) -> ImageArray:
    """Sample a depth picture and turn its z-depths into those of the now camera; no hit outside.

    Args:
        depth_u16: shape (h, w), uint16, metres x 655.35.
        found: from :func:`render_map`.
        K: as there.
        R_rn: as there.
        dp_render_m: as there.
    """
    z_units = _remap(depth_u16, found, cv2.INTER_NEAREST, DEPTH_NO_HIT)
    # z_now = e3 . R_rn^T (K^-1 (x, y, 1) z_render - dp), in whole-picture steps that saturate and release the GIL.
    row = (R_rn[:, 2] @ np.linalg.inv(K)).tolist()
    dz_units = -float(R_rn[:, 2] @ dp_render_m) * DEPTH_UNITS_PER_M
    turn = cv2.addWeighted(found.x_px, row[0], found.y_px, row[1], row[2])
    turned = cv2.multiply(z_units, turn, dtype=cv2.CV_32F)
    z_now: ImageArray = cv2.addWeighted(turned, 1.0, turned, 0.0, dz_units, dtype=cv2.CV_16U)
    np.copyto(z_now, DEPTH_NO_HIT, where=z_units == DEPTH_NO_HIT)
    return z_now


def _solve(
    K: FloatArray,
    R_rn: FloatArray,
    dp_render_m: FloatArray,
    size_px: tuple[int, int],
    scene: ImageArray | float,
    u: FloatArray,
    v: FloatArray,
) -> tuple[_Float32, _Float32]:
    """Render coordinates of the pixels in columns ``u`` and rows ``v``: two arrays (len(v), len(u))."""
    inverse = np.linalg.inv(K)
    A = K @ R_rn @ inverse
    ray_x, ray_y, ray_z = (
        (A[i, 0] * u[None, :] + (A[i, 1] * v + A[i, 2])[:, None]).astype(np.float32) for i in range(3)
    )
    bx, by, bz = (np.float32(b) for b in K @ dp_render_m)
    row = (R_rn[:, 2] @ inverse).astype(np.float32)
    t_z = np.float32(-(R_rn[:, 2] @ dp_render_m))
    behind = ray_z < 1e-3
    ray_z[behind] = 1.0
    x, y = ray_x / ray_z, ray_y / ray_z
    for _ in range(_ROUNDS if dp_render_m.any() else 0):
        z_render = _depth_at(scene, x, y, size_px)
        z_now = np.maximum(z_render * (row[0] * x + row[1] * y + row[2]) + t_z, np.float32(_NEAREST_M))
        z = np.maximum(ray_z * z_now + bz, np.float32(_NEAREST_M))
        x, y = (ray_x * z_now + bx) / z, (ray_y * z_now + by) / z
    x[behind] = _OUTSIDE_PX
    return x, y


def _depth_at(scene: ImageArray | float, x: _Float32, y: _Float32, size_px: tuple[int, int]) -> _Float32 | np.float32:
    """Depth in metres at the nearest pixel, the border's beyond the border."""
    if not isinstance(scene, np.ndarray):
        return np.float32(scene)
    column = np.clip(np.rint(x), 0, size_px[0] - 1).astype(np.int32)
    line = np.clip(np.rint(y), 0, size_px[1] - 1).astype(np.int32)
    depth_m: _Float32 = scene[line, column] * np.float32(1.0 / DEPTH_UNITS_PER_M)
    return depth_m


def _remap(image: ImageArray, found: RenderMap, interpolation: int, outside: int) -> ImageArray:
    rows, flipped = upright_rows(image)
    y_px = np.float32(image.shape[0] - 1) - found.y_px if flipped else found.y_px
    border = (outside,) * 4
    return cv2.remap(rows, found.x_px, y_px, interpolation, borderMode=cv2.BORDER_CONSTANT, borderValue=border)
