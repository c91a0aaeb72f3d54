"""Splats in a picture.

Projected, then laid over each other in tiles of 16 x 16 pixels, from the nearest on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, CameraModel, FloatArray
from vil_renderer.embedded.splats import kernels, tile_kernels
from vil_renderer.embedded.splats.cloud import SplatCloud, float32
from vil_renderer.embedded.splats.field import SplatField, seen
from vil_renderer.embedded.splats.threads import cores, dealt, on_all_cores

_Float32 = npt.NDArray[np.float32]
_Index = npt.NDArray[np.int32]

_BLOCK: Final = 4096
"""Splats that a thread projects at a time."""
_LIST_LENGTH: Final = 1 << 20
_TILE: Final = tile_kernels.TILE


@dataclass(frozen=True, slots=True, eq=False)
class Projected:
    """The splats that a picture shows, the nearest first.

    Attributes:
        size_px: width and height of the picture.
        rows: float32 (n, 10), bounds: int32 (n, 4), as :mod:`~.kernels` describes them.
        index: (n,), which splats of the field they are.
    """

    size_px: tuple[int, int]
    rows: _Float32
    bounds: _Index
    index: _Index


def project(
    field: SplatField,
    camera: CameraModel,
    T_world_camera: Transform,
    T_world_splats: FloatArray,
    exposure: float = 1.0,
    *,
    detail_px: float = 0.0,
) -> Projected:
    """Project splats as renderer pages of 3DGS do: Sigma2 = J W Sigma W^T J^T + 0.3 I.

    Args:
        field: the splats.
        camera: an ideal pinhole; its lens is not applied here.
        T_world_camera: optical axes (x right, y down, z forward).
        T_world_splats: (4, 4), rotation, place and uniform scale.
        exposure: factor on display colours.
        detail_px: coarser levels are used where their splats are smaller than this; 0 = never.

    Raises:
        RendererError: numba is not installed.
    """
    R_camera_world = T_world_camera.rotation().T
    turn = R_camera_world @ T_world_splats[:3, :3]
    shift = R_camera_world @ (T_world_splats[:3, 3] - T_world_camera.p_m)
    members = seen(field, camera, turn, shift, detail_px)
    eye = np.linalg.solve(turn, -shift)
    pinhole = np.array(camera.intrinsics_px, np.float32)
    place = (float32(turn), float32(shift), pinhole, camera.width_px, camera.height_px)
    rows = np.empty((len(members), kernels.COLUMNS), np.float32)
    bounds = np.empty((len(members), 4), np.int32)
    index = np.empty(len(members), np.int32)
    work = partial(_project_block, field.splats, place, float32(eye), np.float32(exposure))
    parts = [slice(start, start + _BLOCK) for start in range(0, len(members), _BLOCK)]
    counts = on_all_cores(
        work, [(members[part], rows[part], bounds[part], index[part]) for part in parts]
    )
    shown = [
        np.arange(part.start, part.start + n, dtype=np.int32)
        for part, n in zip(parts, counts, strict=True)
    ]
    order = np.concatenate(shown) if shown else np.empty(0, np.int32)
    kernels.compiled(tile_kernels.order_by_bits)(
        rows.view(np.uint32)[:, 6].copy(), order, np.empty_like(order)
    )
    arrays = rows, bounds, index
    near_rows = np.empty((len(order), kernels.COLUMNS), np.float32)
    near_bounds = np.empty((len(order), 4), np.int32)
    near_index = order.copy()
    parts = [slice(start, start + _BLOCK) for start in range(0, len(order), _BLOCK)]
    taken = [
        (order[part], *arrays, near_rows[part], near_bounds[part], near_index[part])
        for part in parts
    ]
    on_all_cores(kernels.compiled(tile_kernels.take_rows), taken)
    return Projected((camera.width_px, camera.height_px), near_rows, near_bounds, near_index)


def _project_block(
    splats: SplatCloud,
    place: tuple[Any, ...],
    eye: _Float32,
    exposure: np.float32,
    members: _Index,
    rows: _Float32,
    bounds: _Index,
    index: _Index,
) -> int:
    """Fill the first rows with those of some splats that the picture shows, and return their
    number.
    """
    flat = np.empty((len(members), kernels.FLAT), np.float32)
    kernels.compiled(kernels.project_splats)(
        splats.p, splats.axes, members, *place, splats.antialiased, flat
    )
    arrays = (flat, splats.opacity, members, *place[3:], rows, bounds, index)
    count: int = kernels.compiled(kernels.select_splats)(*arrays)
    kernels.compiled(kernels.shade_splats)(splats.p, splats.sh, eye, exposure, index[:count], rows)
    return count


def rasterise(projected: Projected, z_m: _Float32) -> _Float32:
    """Blend splats: alpha = o exp(-0.5 d^T Sigma2^-1 d), each behind the nearer ones.

    The omitted parts change no colour by more than 1/1024 and the faint skirts of splats, below
    1/2048 each. Memory is bounded however large the splats are: they are blended in as many
    portions as necessary.

    Args:
        projected: the splats.
        z_m: float32 (h, w), depth of the surfaces that hide splats whose mean is behind them.

    Returns:
        Float32 (h, w, 4): display colour times alpha, and alpha, of all splats together.

    Raises:
        RendererError: numba is not installed.
    """
    width, height = projected.size_px
    across = -(-width // _TILE)
    down = -(-height // _TILE)
    tiles = np.empty((across * down, _TILE * tile_kernels.LINE), np.float32)
    unfinished = np.ones(across * down, np.bool_)
    bands = _bands(down)
    on_all_cores(
        kernels.compiled(tile_kernels.open_tiles), [(z_m, across, *band, tiles) for band in bands]
    )
    members = np.empty(max(_LIST_LENGTH, across * down), np.int32)
    done = 0
    count = len(projected.rows)
    while done < count and unfinished.any():
        stop = kernels.compiled(tile_kernels.portion_end)(projected.bounds, done, len(members))
        starts = _listed(projected.bounds, (done, stop, across), bands, unfinished, members)
        arrays = projected.rows, projected.bounds, starts, members, across
        blend = kernels.compiled(tile_kernels.blend_tiles)
        on_all_cores(
            blend,
            [
                (*arrays, hand, kernels.FAINTEST, unfinished, tiles)
                for hand in dealt(np.diff(starts))
            ],
        )
        done = stop
    picture = np.empty((height, width, 4), np.float32)
    on_all_cores(
        kernels.compiled(tile_kernels.close_tiles),
        [(tiles, across, *band, picture) for band in bands],
    )
    return picture


def _bands(down: int) -> list[tuple[int, int]]:
    """Divide lines of tiles among the cores."""
    edges = np.linspace(0, down, min(cores(), down) + 1).astype(int).tolist()
    return list(pairwise(edges))


def _listed(
    bounds: _Index,
    portion: tuple[int, int, int],
    bands: list[tuple[int, int]],
    unfinished: BoolArray,
    members: _Index,
) -> _Index:
    """List the splats of each tile, and return where those of each begin, (t + 1,)."""
    starts = np.zeros(len(unfinished) + 1, np.int32)
    count, fill = (
        kernels.compiled(kernel)
        for kernel in (tile_kernels.count_members, tile_kernels.list_members)
    )
    on_all_cores(count, [(bounds, *portion, *band, unfinished, starts[1:]) for band in bands])
    np.cumsum(starts, out=starts)
    ends = starts[:-1].copy()
    on_all_cores(fill, [(bounds, *portion, *band, unfinished, ends, members) for band in bands])
    return starts
