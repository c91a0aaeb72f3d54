"""Grids over a scene: cells near a surface, their distance, and the triangle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.geometry.separation import closest_on_triangles
from vil_renderer.embedded.scene import Scene, Triangles, collider_parts, static_triangles

MOST_PIECES: Final = 1_000_000
MOST_CANDIDATES: Final = 60_000_000
_CHUNK: Final = 1_000_000
_PIECE_CELLS: Final = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """A part of the world along its axes: centre (3,) and full lengths (3,), metres."""

    centre_m: FloatArray
    size_m: FloatArray

    @staticmethod
    def around(triangles: Triangles, margin_m: float) -> Box:
        """Return the box around all triangles plus a margin.

        Without any, the margin about the origin.
        """
        p = triangles.p_m.astype(np.float64) if len(triangles.p_m) else np.zeros((1, 3))
        low = p.min(axis=0)
        high = p.max(axis=0)
        return Box(0.5 * (low + high), high - low + 2.0 * margin_m)

    def holds(self, p_m: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
        """Return which points (n, 3) lie inside."""
        return np.asarray(
            np.logical_and.reduce(np.abs(p_m - self.centre_m) <= 0.5 * self.size_m, axis=1)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Cells of a box.

    ``first_m`` (3,) is the centre of the first one, ``shape`` their number along x, y and z.
    """

    first_m: FloatArray
    cell_m: float
    shape: tuple[int, int, int]

    @staticmethod
    def over(box: Box, cell_m: float) -> Grid:
        """Return centres from half a cell inside the lower corner up to the upper one, as
        Flightmare steps.
        """
        if not cell_m > 0.0:
            raise RendererError(f"the resolution of a grid must be positive, not {cell_m} m")
        x, y, z = (max(1, int(size / cell_m - 0.5) + 1) for size in box.size_m)
        return Grid(box.centre_m - 0.5 * box.size_m + 0.5 * cell_m, cell_m, (x, y, z))

    def centres(self, cells: npt.NDArray[np.int64]) -> FloatArray:
        """Return centres (n, 3) of cells (n,), numbered with z running fastest."""
        return self.first_m + self.cell_m * np.stack(np.unravel_index(cells, self.shape), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class NearCells:
    """Cells near a surface.

    Attributes:
        cell: their numbers (n,), ascending.
        surface_m: the point of the surface that is nearest to the cell's centre, (n, 3).
        distance_m: how far that is, (n,).
        triangle: of that point, (n,).
    """

    cell: npt.NDArray[np.int64]
    surface_m: FloatArray
    distance_m: FloatArray
    triangle: npt.NDArray[np.intp]


def all_triangles(scene: Scene) -> Triangles:
    """Return solid triangles in the world, movable objects at rest.

    ``owner`` indexes ``scene.objects``.
    """
    still = static_triangles(scene)
    points = [still.p_m]
    corners = [still.triangles]
    owners = [still.owner]
    count = len(still.p_m)
    for index, thing in enumerate(scene.objects):
        for p_m, triangles in collider_parts(thing) if thing.movable and thing.solid else ():
            m = thing.world_from_asset
            points.append((p_m @ m[:3, :3].T + m[:3, 3]).astype(np.float32))
            corners.append(triangles + np.uint32(count))
            owners.append(np.full(len(triangles), index, np.intp))
            count += len(p_m)
    return Triangles(np.concatenate(points), np.concatenate(corners), np.concatenate(owners))


def near_cells(triangles: Triangles, grid: Grid, reach_m: float) -> NearCells:
    """Return the cells whose centre is within ``reach_m`` of a triangle.

    Raises:
        RendererError: that is too much to look at.
    """
    corners = triangles.p_m[triangles.triangles].astype(np.float64)
    pieces, source = _cut_up(corners, grid, reach_m)
    low, count = _blocks(pieces, grid, reach_m)
    totals = count.prod(axis=1)
    if totals.sum() > MOST_CANDIDATES:
        raise _too_fine(grid)
    found = [NearCells(np.zeros(0, np.int64), np.zeros((0, 3)), np.zeros(0), np.zeros(0, np.intp))]
    chunks = np.flatnonzero(np.diff(np.cumsum(totals) // _CHUNK)) + 1
    found += (
        _measured(pieces[part], source[part], low[part], count[part], grid, reach_m)
        for part in np.split(np.arange(len(pieces)), chunks)
    )
    return _nearest(found)


def _blocks(
    corners: FloatArray, grid: Grid, reach_m: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return first cell (n, 3) and number of cells (n, 3) within reach of the bounds of triangles.

    N, 3, 3.
    """
    shape = np.array(grid.shape)
    low = np.ceil((corners.min(axis=1) - reach_m - grid.first_m) / grid.cell_m)
    high = np.floor((corners.max(axis=1) + reach_m - grid.first_m) / grid.cell_m)
    first = np.clip(low, 0, shape).astype(np.int64)
    return first, np.maximum(np.clip(high, -1, shape - 1).astype(np.int64) - first + 1, 0)


def _cut_up(
    corners: FloatArray, grid: Grid, reach_m: float
) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Halve triangles near the grid across their longest edge until small.

    Return their origins too.
    """
    longest_m = max(_PIECE_CELLS * grid.cell_m, 2.0 * reach_m)
    done: list[tuple[FloatArray, npt.NDArray[np.intp]]] = []
    source = np.arange(len(corners))
    while len(corners):
        near = _blocks(corners, grid, reach_m)[1].all(axis=1)
        corners = corners[near]
        source = source[near]
        edges = np.roll(corners, -1, axis=1) - corners
        length = np.sqrt((edges * edges).sum(axis=2))
        long = length.max(axis=1, initial=0.0) > longest_m
        done.append((corners[~long], source[~long]))
        if 2 * int(long.sum()) + sum(len(piece) for piece, _ in done) > MOST_PIECES:
            raise _too_fine(grid)
        start = length[long].argmax(axis=1)[:, None]
        a, b, c = (
            np.take_along_axis(corners[long], ((start + k) % 3)[..., None], axis=1)[:, 0]
            for k in range(3)
        )
        middle = 0.5 * (a + b)
        corners = np.concatenate(
            (np.stack((a, middle, c), axis=1), np.stack((middle, b, c), axis=1))
        )
        source = np.tile(source[long], 2)
    empty = (np.zeros((0, 3, 3)), np.zeros(0, np.intp))
    pieces, sources = zip(empty, *done, strict=True)
    return np.concatenate(pieces), np.concatenate(sources)


def _measured(
    pieces: FloatArray,
    source: npt.NDArray[np.intp],
    low: npt.NDArray[np.int64],
    count: npt.NDArray[np.int64],
    grid: Grid,
    reach_m: float,
) -> NearCells:
    """Return distances of the cells in the block around each piece: those near its plane first."""
    totals = count.prod(axis=1)
    piece = np.repeat(np.arange(len(pieces)), totals)
    number = np.arange(len(piece)) - np.repeat(np.cumsum(totals) - totals, totals)
    rest, z = np.divmod(number, count[piece, 2])
    x, y = np.divmod(rest, count[piece, 1])
    index = low[piece] + np.stack((x, y, z), axis=1)
    p = grid.first_m + grid.cell_m * index
    normal = np.cross(pieces[:, 1] - pieces[:, 0], pieces[:, 2] - pieces[:, 0])
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    height = ((p - pieces[piece, 0]) * normal[piece]).sum(axis=1)
    near = np.flatnonzero(np.abs(height) <= reach_m)
    surface = closest_on_triangles(p[near], pieces[piece[near]])
    distance = np.sqrt(((p[near] - surface) ** 2).sum(axis=1))
    within = distance <= reach_m
    near = near[within]
    cell = np.asarray(np.ravel_multi_index(tuple(index[near].T), grid.shape), np.int64)
    return _nearest([NearCells(cell, surface[within], distance[within], source[piece[near]])])


def _nearest(found: list[NearCells]) -> NearCells:
    """Return each cell once, with its nearest triangle."""
    cell = np.concatenate([f.cell for f in found])
    surface = np.concatenate([f.surface_m for f in found])
    distance = np.concatenate([f.distance_m for f in found])
    triangle = np.concatenate([f.triangle for f in found])
    order = np.lexsort((distance, cell))
    first = order[np.flatnonzero(np.diff(cell[order], prepend=-1))]
    return NearCells(cell[first], surface[first], distance[first], triangle[first])


def _too_fine(grid: Grid) -> RendererError:
    size = " x ".join(f"{n * grid.cell_m:.4g}" for n in grid.shape)
    return RendererError(
        f"too many cells of {grid.cell_m:g} m lie near surfaces in the box of {size} m:"
        " choose a coarser resolution or a smaller box"
    )
