"""Parts that come into view behind something near: filled from the background next to them.

Where the rendered picture could not see, no render pixel belongs to the pixel shown. The background
goes on there: the point is taken as far away as the farther neighbour, and shows what the rendered
picture has of the background next to where that point is hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray

_AS_FAR: Final = 0.9
_STEPS: Final = 16

_Float32 = npt.NDArray[np.float32]
_Indices = npt.NDArray[np.intp]


class DisocclusionFill(NamedTuple):
    """Hole nodes that have a background, and the node of that background nearest to each.

    Shapes (k,).
    """

    row: _Indices
    column: _Indices
    edge_row: _Indices
    edge_column: _Indices


def background_of(holes: BoolArray, z_now_m: _Float32, *, level: bool = False) -> DisocclusionFill:
    """Return the farthest of what lies left, right, above and below each hole.

    The nearest one where some are alike.

    Args:
        holes: shape (m, n), nodes that have no render pixel.
        z_now_m: depth of the others.
        level: look above and below only where there is nothing to the left and right: what stands
            on a floor hides floor of the same row.
    """
    row, column = np.nonzero(holes)
    if not len(row):
        return DisocclusionFill(row, column, row, column)
    neighbour = _nearest_known(holes.shape, row, column)
    found: BoolArray = np.all(neighbour >= 0, axis=0)
    if level:
        found[2:] &= ~found[:2].any(axis=0)
    depth = np.where(found, z_now_m[neighbour[0], neighbour[1]], -np.inf)
    distance = np.abs(neighbour[0] - row) + np.abs(neighbour[1] - column)
    far = found & (depth >= _AS_FAR * depth.max(axis=0))
    best = np.where(far, distance, np.iinfo(np.intp).max).argmin(axis=0)
    each = np.arange(len(row))
    filled = found[best, each]
    edge_row, edge_column = neighbour[:, best, each][:, filled]
    return DisocclusionFill(row[filled], column[filled], edge_row, edge_column)


def last_visible(
    depth_m_at: Callable[[_Float32, _Float32], _Float32],
    hidden_px: _Float32,
    edge_px: _Float32,
    z_hidden_m: _Float32,
) -> _Float32:
    """Return the way from hidden points back to the background's edge, up to where the rendered
    picture shows it.

    Args:
        depth_m_at: depth at render pixels x and y of any shape.
        hidden_px: shape (2, k), where the points are in the rendered picture, behind something.
        edge_px: shape (2, k), where the edges are.
        z_hidden_m: shape (k,), depth of the points in the render camera.

    Returns:
        Render pixels, shape (2, k).
    """
    share = np.linspace(0.0, 1.0, _STEPS, dtype=np.float32)[:, None, None]
    way = np.asarray(hidden_px + share * (edge_px - hidden_px), np.float32)
    visible = depth_m_at(way[:, 0], way[:, 1]) >= np.float32(_AS_FAR) * z_hidden_m
    visible[-1] = True
    stop = visible.argmax(axis=0)
    return way[stop, :, np.arange(hidden_px.shape[1])].T


def _nearest_known(size: tuple[int, int], row: _Indices, column: _Indices) -> _Indices:
    """Row and column of the nearest known node left, right, above and below each hole, (2, 4, k).

    -1 = none.

    Args:
        size: of the grid.
        row: of all holes, in order.
        column: of the same.
    """
    left, right = _ends(row, column, size[1])
    downwards = column.argsort(kind="stable")
    above = np.empty_like(row)
    below = np.empty_like(row)
    above[downwards], below[downwards] = _ends(column[downwards], row[downwards], size[0])
    return np.array([[row, row, above, below], [left, right, column, column]])


def _ends(line: _Indices, place: _Indices, length: int) -> tuple[_Indices, _Indices]:
    """Return the places before and behind the run of holes that each one belongs to.

    -1 = outside of the line.

    Args:
        line: of each hole, in order.
        place: in its line, in order.
        length: of the lines.
    """
    breaks = np.flatnonzero((np.diff(line) != 0) | (np.diff(place) != 1)) + 1
    first = np.concatenate(([0], breaks))
    last = np.concatenate((breaks, [len(place)])) - 1
    runs = np.repeat(np.arange(len(first)), last - first + 1)
    before = place[first] - 1
    behind = place[last] + 1
    behind[behind == length] = -1
    return before[runs], behind[runs]
