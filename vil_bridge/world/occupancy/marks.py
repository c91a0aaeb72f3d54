"""Cells of a box that rays cross: by the compiled kernel, or by its twin in NumPy."""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.kernel.library import long_function
from vil_bridge.protocols.octomap import keys_of
from vil_bridge.world.occupancy.rays import crossed_cells

_KERNEL: Final = long_function(
    "vil_mark_rays",
    *[ctypes.c_void_p] * 2,
    ctypes.c_int64,
    ctypes.c_double,
    *[ctypes.c_void_p] * 3,
)
_Keys = npt.NDArray[np.int64]
_Float32 = npt.NDArray[np.float32]


def crossed_marks(
    sensor_m: _Float32, ends_m: _Float32, resolution_m: float, low: _Keys, shape: _Keys
) -> npt.NDArray[np.uint8]:
    """Return a mark (nx, ny, nz) for each cell of a box.

    1 = a ray crosses it before its end's cell.

    Args:
        sensor_m: (3,), inside the tree.
        ends_m: (n, 3), inside the tree.
        resolution_m: side of a cell.
        low: lowest key (3,) of the box.
        shape: cells (3,) of the box.
    """
    marks = np.zeros(tuple(shape.tolist()), np.uint8)
    if _KERNEL is None:
        return _marked_by_twin(sensor_m, ends_m, resolution_m, low, marks)
    sensor = np.ascontiguousarray(sensor_m)
    ends = np.ascontiguousarray(ends_m)
    box = np.ascontiguousarray(low), np.ascontiguousarray(shape)
    addresses = (array.ctypes.data for array in (*box, marks))
    _KERNEL(sensor.ctypes.data, ends.ctypes.data, len(ends), resolution_m, *addresses)
    return marks


def _marked_by_twin(
    sensor_m: _Float32,
    ends_m: _Float32,
    resolution_m: float,
    low: _Keys,
    marks: npt.NDArray[np.uint8],
) -> npt.NDArray[np.uint8]:
    keys = keys_of(crossed_cells(sensor_m, ends_m, resolution_m)).astype(np.int64) - low
    x, y, z = keys[((keys >= 0) & (keys < marks.shape)).all(axis=1)].T
    marks[x, y, z] = 1
    return marks
