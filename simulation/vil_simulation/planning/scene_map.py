"""Occupancy maps of scenes of the embedded renderer.

Every voxel that a surface passes is occupied.
"""

from __future__ import annotations

import numpy as np

from vil_bridge.interfaces.voxel_box import MIDDLE, keys_at
from vil_bridge.protocols.octomap import codes_of, distinct
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap
from vil_renderer.embedded.geometry.voxels import Box, all_triangles
from vil_renderer.embedded.scene import Scene
from vil_simulation.planning.surface_cells import surface_cells


def map_of_scene(scene: Scene, resolution_m: float, box: Box | None = None) -> OccupancyMap:
    """Return the voxels that a scene's solid objects pass, movable ones at rest.

    Nothing in it is free.

    Args:
        scene: the scene.
        resolution_m: side of a voxel.
        box: only voxels in it; None = the whole scene.

    Raises:
        ConfigError: a resolution that is not positive, or too many voxels.
    """
    made = OccupancyMap(resolution_m)
    triangles = all_triangles(scene)
    whole = box or Box.around(triangles, 0.0)
    corners_m = np.stack((whole.centre_m - 0.5 * whole.size_m, whole.centre_m + 0.5 * whole.size_m))
    low, high = np.clip(keys_at(corners_m, resolution_m), 0, 2 * MIDDLE - 1) - MIDDLE
    corners = triangles.p_m[triangles.triangles].astype(np.float64) / resolution_m
    found = [distinct(codes_of(cells + MIDDLE)) for cells in surface_cells(corners, low, high)]
    made.insert_hits(distinct(np.concatenate([np.zeros(0, np.int64), *found])))
    return made
