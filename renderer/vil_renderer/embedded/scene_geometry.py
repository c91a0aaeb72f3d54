"""Geometry of a scene's objects as arrays.

Meshes in their own axes, and the cells of a grid that surfaces pass.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.geometry.occupancy import MOST_CELLS
from vil_renderer.embedded.geometry.voxels import Grid, all_triangles, near_cells
from vil_renderer.embedded.scene import Scene, SceneObject
from vil_renderer.embedded.scene_listing import scale_of

_HALF_DIAGONAL = 0.5 * 3.0**0.5


def mesh_of(thing: SceneObject) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32]]:
    """Return an object's drawn vertices, float32 (n, 3), scaled and in its own axes, and
    triangles, uint32 (m, 3).
    """
    scale = scale_of(thing.world_from_asset)
    points = [np.zeros((0, 3), np.float32)]
    corners = [np.zeros((0, 3), np.uint32)]
    count = 0
    for node, m in zip(thing.asset.nodes, thing.asset.asset_from_node(), strict=True):
        for part in node.primitives:
            points.append((scale * (part.p_m @ m[:3, :3].T + m[:3, 3])).astype(np.float32))
            corners.append(part.triangles.astype(np.uint32) + np.uint32(count))
            count += len(part.p_m)
    return np.concatenate(points), np.concatenate(corners)


def occupied_cells(
    scene: Scene, first_m: FloatArray, cell_m: float, shape: tuple[int, int, int]
) -> BoolArray:
    """Return which cubes of a grid a solid surface passes; the inside of a closed object is free.

    Args:
        scene: its solid objects, movable ones at rest.
        first_m: centre of the first cell, (3,).
        cell_m: side of a cell.
        shape: number of cells along x, y and z.

    Raises:
        RendererError: the grid is too large or too fine.
    """
    cells = int(np.prod(shape, dtype=np.float64))
    if min(shape) < 1 or cells > MOST_CELLS or not cell_m > 0.0:
        raise RendererError(
            f"a grid of {shape} cells of {cell_m:g} m. Ask for 1 to {MOST_CELLS:,} cells"
        )
    grid = Grid(first_m, cell_m, shape)
    near = near_cells(all_triangles(scene), grid, _HALF_DIAGONAL * cell_m)
    aside = np.abs(near.surface_m - grid.centres(near.cell)).max(axis=1)
    found = np.zeros(cells, np.bool_)
    found[near.cell[aside <= 0.5 * cell_m * (1.0 + 1e-6)]] = True
    return found.reshape(shape)
