"""A grid of distances, to check for free space without the meshes, for planners and simulators."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.geometry.voxels import Box, Grid, all_triangles, near_cells
from vil_renderer.embedded.scene import Scene

MOST_CELLS: Final = 16_000_000
_HALF_DIAGONAL: Final = 0.5 * math.sqrt(3.0)


class OccupancyGrid:
    """Distances to the nearest surface at the cells of a grid, linear in between, up to a reach.

    Cells that a surface passes know its nearest point; the others take over the nearest of their
    neighbours' points, axis by axis. The error of that stays well below the size of a cell.

    Args:
        scene: its solid objects, movable ones at rest, no actors.
        resolution_m: side of a cell.
        reach_m: upper limit of the distances.
        box: volume of the grid; None = the scene and ``reach_m`` around it. Outside everything is
            free.

    Raises:
        RendererError: too many cells.
    """

    def __init__(
        self, scene: Scene, resolution_m: float, reach_m: float = 1.0, box: Box | None = None
    ) -> None:
        triangles = all_triangles(scene)
        self._grid = Grid.over(box or Box.around(triangles, reach_m + resolution_m), resolution_m)
        cells = int(np.prod(self._grid.shape, dtype=np.float64))
        if cells > MOST_CELLS:
            raise RendererError(
                f"a grid of {cells:,} cells is too large (at most {MOST_CELLS:,}): go "
                "coarser or smaller"
            )
        self.reach_m = reach_m
        near = near_cells(triangles, self._grid, _HALF_DIAGONAL * resolution_m)
        nearest = np.full(cells, -1, np.int32)
        nearest[near.cell] = np.arange(len(near.cell))
        self._distance = self._spread(nearest, near.surface_m.astype(np.float32))

    def _spread(self, nearest: npt.NDArray[np.int32], surface_m: Float32Array) -> Float32Array:
        """Return distances (cells,) from the index of the surface point that each cell has so
        far, -1 = none.
        """
        grid = self._grid
        # The last point answers index -1.
        points = np.concatenate((surface_m, np.full((1, 3), 1e6, np.float32)))
        centre = grid.centres(np.arange(len(nearest))).astype(np.float32).reshape(*grid.shape, 3)
        index = nearest.reshape(grid.shape)
        best = _square(centre - points[index])
        for axis in range(3):
            before = np.moveaxis(index.copy(), axis, 0)
            to = np.moveaxis(index, axis, 0)
            distance = np.moveaxis(best, axis, 0)
            at = np.moveaxis(centre, axis, 0)
            for step in range(
                1, min(int(self.reach_m / grid.cell_m) + 1, grid.shape[axis] - 1) + 1
            ):
                for here, there in (
                    (slice(step, None), slice(-step)),
                    (slice(-step), slice(step, None)),
                ):
                    offered = _square(at[here] - points[before[there]])
                    closer = offered < distance[here]
                    to[here][closer], distance[here][closer] = (
                        before[there][closer],
                        offered[closer],
                    )
        return np.minimum(np.sqrt(best), np.float32(self.reach_m)).ravel()

    def distance_m(self, p_world_m: FloatArray) -> FloatArray:
        """Return distances (n,) of points (n, 3) from the nearest surface, at most ``reach_m``."""
        grid = self._grid
        place = (p_world_m - grid.first_m) / grid.cell_m
        last = np.array(grid.shape) - 1
        covered = ((place >= -0.5) & (place <= last + 0.5)).all(axis=1)
        place = np.clip(place, 0.0, last)
        low = np.minimum(place.astype(np.intp), np.maximum(last - 1, 0))
        rest = place - low
        mixed = np.zeros(len(place))
        for corner in np.ndindex(2, 2, 2):
            weight = np.where(np.array(corner, bool), rest, 1.0 - rest).prod(axis=1)
            index = np.minimum(low + corner, last)
            mixed += weight * self._distance[np.ravel_multi_index(tuple(index.T), grid.shape)]
        return np.where(covered, mixed, self.reach_m)

    def occupied(self, p_world_m: FloatArray, radius_m: float) -> BoolArray:
        """Return whether spheres about points (n, 3) meet a surface, to within the resolution.

        Raises:
            RendererError: the radius is not below the grid's reach.
        """
        if radius_m >= self.reach_m:
            raise RendererError(
                f"a radius of {radius_m:g} m needs a grid that reaches farther than "
                f"{self.reach_m:g} m"
            )
        return np.asarray(self.distance_m(p_world_m) < radius_m)


def _square(v: Float32Array) -> Float32Array:
    return np.asarray(np.einsum("...i,...i->...", v, v))
