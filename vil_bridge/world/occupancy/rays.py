"""Cells of a grid that rays cross, as OctoMap finds them.

In single precision, from border to border.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray
from vil_bridge.interfaces.voxel_box import keys_at
from vil_bridge.protocols.octomap import Codes, codes_of, distinct

_Float32 = npt.NDArray[np.float32]


def crossed_cells(sensor_m: _Float32, ends_m: _Float32, resolution_m: float) -> Codes:
    """Return the codes, each once, of the cells between a sensor and points, the points' own cells
    left out.

    Follows OctoMap's ``computeRayKeys`` operation by operation (Amanatides and Woo 1987).

    Args:
        sensor_m: (3,), inside the tree.
        ends_m: (n, 3), inside the tree.
        resolution_m: side of a cell.
    """
    first = keys_at(sensor_m[None], resolution_m)[0]
    last = keys_at(ends_m, resolution_m)
    way = ends_m - sensor_m
    length = np.sqrt((way * way).sum(axis=1, dtype=np.float32).astype(np.float64)).astype(
        np.float32
    )
    leaves = (last != first).any(axis=1) & (
        length > 0.0
    )  # one shorter than single precision can square has no direction
    way = way[leaves]
    last = last[leaves]
    length = length[leaves]
    if not len(last):
        return np.zeros(0, np.int64)
    found = [codes_of(first[None])]
    way = way / length[:, None]
    step = np.sign(way).astype(np.int64)
    border = (first - 32768 + 0.5) * resolution_m + (step * resolution_m * 0.5).astype(np.float32)
    slope = way.astype(np.float64)
    moves: BoolArray = step != 0
    reach = np.divide(
        border - sensor_m.astype(np.float64), slope, out=np.full(way.shape, np.inf), where=moves
    )
    stride = np.divide(resolution_m, np.abs(slope), out=np.full(way.shape, np.inf), where=moves)
    key = np.repeat(first[None], len(last), axis=0)
    rows = np.arange(len(last))
    while len(rows):
        axis = _nearest_border(reach)
        key[rows, axis] += step[rows, axis]
        reach[rows, axis] += stride[rows, axis]
        going = (key != last).any(axis=1) & ~(reach.min(axis=1) > length)
        key = key[going]
        last = last[going]
        step = step[going]
        reach = reach[going]
        stride = stride[going]
        length = length[going]
        rows = np.arange(len(last))
        found.append(distinct(codes_of(key)))
    return distinct(np.concatenate(found))


def _nearest_border(reach: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the axis (n,) whose border comes first.

    Of equal ones the later axis, as OctoMap compares.
    """
    x, y, z = reach.T
    return np.where(x < y, np.where(x < z, 0, 2), np.where(y < z, 1, 2))
