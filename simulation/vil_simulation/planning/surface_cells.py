"""Cells of a grid that triangles pass.

Each is projected along the axis that it faces most, cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray

_CHUNK: Final = 2_000_000
MOST_CANDIDATES: Final = 400_000_000
_EPSILON: Final = 1e-6
"""Of a cell: what touches a cell passes it."""

_Ints = npt.NDArray[np.int64]


def surface_cells(corners: FloatArray, low: _Ints, high: _Ints) -> Iterator[_Ints]:
    """Yield the cells (k, 3) that triangles pass, some more than once.

    None that a triangle passes is left out.

    Args:
        corners: (n, 3, 3), in cells: cell i reaches from i to i + 1.
        low: lowest cell (3,) that is wanted.
        high: highest cell (3,).

    Raises:
        ConfigError: the triangles are too large for the cells.
    """
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    meets = (corners.max(axis=1) >= low).all(axis=1) & (corners.min(axis=1) <= high + 1).all(axis=1)
    for axis in range(3):
        mine = meets & (np.abs(normal).argmax(axis=1) == axis) & (np.abs(normal[:, axis]) > 0.0)
        order = [(axis + 1) % 3, (axis + 2) % 3, axis]
        back = np.argsort(order)
        for cells in _projected(
            corners[mine][:, :, order], normal[mine][:, order], low[order], high[order]
        ):
            yield cells[:, back]


def _projected(corners: FloatArray, normal: FloatArray, low: _Ints, high: _Ints) -> Iterator[_Ints]:
    """Yield the cells of triangles that face the third axis most."""
    first = np.maximum(np.floor(corners.min(axis=1) - _EPSILON).astype(np.int64), low)
    last = np.minimum(np.floor(corners.max(axis=1) + _EPSILON).astype(np.int64), high)
    size = np.maximum(last - first + 1, 0)[:, :2]
    counts = size.prod(axis=1)
    if counts.sum(dtype=np.float64) > MOST_CANDIDATES:
        raise ConfigError(
            "the surfaces have too many cells: choose a coarser resolution or a smaller box"
        )
    cuts = np.flatnonzero(np.diff(np.cumsum(counts) // _CHUNK)) + 1
    for part in np.split(np.arange(len(corners)), cuts):
        which = np.repeat(part, counts[part])
        if not len(which):
            continue
        number = np.arange(len(which)) - np.repeat(
            np.cumsum(counts[part]) - counts[part], counts[part]
        )
        u, v = np.divmod(number, size[which, 1])
        u = u + first[which, 0]
        v = v + first[which, 1]
        inside = _overlaps(corners, normal, which, u, v)
        yield from _columns(
            corners, normal, which[inside], np.stack((u, v), axis=1)[inside], first, last
        )


def _overlaps(
    corners: FloatArray, normal: FloatArray, which: _Ints, u: _Ints, v: _Ints
) -> npt.NDArray[np.bool_]:
    """Return which squares overlap their triangles, seen along the third axis."""
    turn = np.sign(normal[:, 2])
    inside = np.ones(len(which), bool)
    for k in range(3):
        a = corners[:, k]
        b = corners[:, (k + 1) % 3]
        x = turn * (a[:, 1] - b[:, 1])
        y = turn * (b[:, 0] - a[:, 0])
        rest = (
            np.maximum(x, 0.0)
            + np.maximum(y, 0.0)
            - x * a[:, 0]
            - y * a[:, 1]
            + _EPSILON * (np.abs(x) + np.abs(y))
        )
        inside &= x[which] * u + y[which] * v + rest[which] >= 0.0
    return inside


def _columns(
    corners: FloatArray, normal: FloatArray, which: _Ints, square: _Ints, first: _Ints, last: _Ints
) -> Iterator[_Ints]:
    """Yield the cells (k, 3) of each square between the least and the largest height of its
    triangle there.
    """
    slope = -normal[:, :2] / normal[:, 2:]
    base = corners[:, 0, 2] - (slope * corners[:, 0, :2]).sum(axis=1)
    height = base[which] + (slope[which] * square).sum(axis=1)
    lowest = np.floor(height + np.minimum(slope, 0.0).sum(axis=1)[which] - _EPSILON).astype(
        np.int64
    )
    highest = np.floor(height + np.maximum(slope, 0.0).sum(axis=1)[which] + _EPSILON).astype(
        np.int64
    )
    lowest = np.maximum(lowest, first[which, 2])
    highest = np.minimum(highest, last[which, 2])
    for up in range(int((highest - lowest).max(initial=-1)) + 1):
        has = lowest + up <= highest
        yield np.column_stack((square[has], lowest[has] + up))
