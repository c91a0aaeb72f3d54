"""Splats laid over each other in tiles of 16 x 16 pixels, from the nearest to where nothing shines through."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.splats import kernels
from vil_renderer.embedded.splats.compiled import compiled
from vil_renderer.embedded.splats.project import Projected

__all__ = ["rasterise"]

_Float32 = npt.NDArray[np.float32]

_ROOM: Final = 1 << 20
_TILE: Final = kernels.TILE


def rasterise(projected: Projected, z_m: _Float32) -> _Float32:
    """Blend splats: alpha = o exp(-0.5 d^T Sigma2^-1 d), each behind what is nearer.

    What it leaves out changes no colour by more than 1/1024 and the faint skirts of splats, below 1/2048 each. Memory
    is bounded however large the splats are: they are taken in as many portions as they need.

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
    lists = np.empty(across * down + 1, np.int32), np.empty(max(_ROOM, across * down), np.int32)
    unfinished = np.ones(across * down, np.bool_)
    flat = tiles.reshape(across * down, -1)
    done, count = 0, len(projected.rows)
    while done < count and unfinished.any():
        done = compiled(kernels.bin_splats)(projected.bounds, done, across, unfinished, *lists)
        compiled(kernels.blend_tiles)(projected.rows, projected.bounds, *lists, across, unfinished, flat)
    picture = tiles[:, :, :, :4].transpose(0, 2, 1, 4, 3).reshape(down * _TILE, across * _TILE, 4)[:height, :width]
    np.subtract(1.0, picture[..., 3], out=picture[..., 3])
    return np.ascontiguousarray(picture)


def _tiled(z_m: _Float32, across: int, down: int) -> _Float32:
    """Return depth by tiles, (down, across, 16, 16); -1 beyond the picture."""
    height, width = z_m.shape
    padded = np.full((down * _TILE, across * _TILE), -1.0, np.float32)
    padded[:height, :width] = z_m
    return padded.reshape(down, _TILE, across, _TILE).transpose(0, 2, 1, 3)
