"""Occupancy of space in three states, from measured points or from a scene, as OctoMap counts
it.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray, ImageArray
from vil_bridge.interfaces.voxel_box import inside_tree, keys_at
from vil_bridge.interfaces.voxels import Occupancy
from vil_bridge.protocols.octomap import (
    CLAMPED_LOG_ODDS,
    Codes,
    Octree,
    centres_of,
    codes_of,
    distinct,
    keys_of,
    octree,
)
from vil_bridge.world.occupancy.measurement import LONGEST_M, depth_points, measurement, pixel_rays
from vil_bridge.world.occupancy.rays import crossed_cells

HIT: Final = np.float32(math.log(0.7 / 0.3))
MISS: Final = np.float32(math.log(0.4 / 0.6))
MOST_VOXELS: Final = 30_000_000
"""Voxels of a map; while it grows it takes about 2 GB."""


class OccupancyMap:
    """Voxels with log-odds of being occupied, world ENU.

    Attributes:
        resolution_m: side of a voxel.
        codes: of the known voxels, (n,), ascending. log_odds: float32 (n,), occupied from 0 on.

    Raises:
        ConfigError: a resolution that is not positive.
    """

    def __init__(self, resolution_m: float) -> None:
        if not (math.isfinite(resolution_m) and resolution_m > 0.0):
            raise ConfigError(f"the resolution must be positive, not {resolution_m} m")
        self.resolution_m: Final = resolution_m
        self.codes: Codes = np.zeros(0, np.int64)
        self.log_odds: npt.NDArray[np.float32] = np.zeros(0, np.float32)

    @classmethod
    def of_tree(cls, tree: Octree) -> OccupancyMap:
        """Return the map that a tree holds.

        Raises:
            ProtocolError: it covers too many voxels.
        """
        made = cls(tree.resolution_m)
        made.codes, made.log_odds = tree.voxels(MOST_VOXELS)
        return made

    def tree(self) -> Octree:
        """Return the smallest tree with the same voxels."""
        return octree(self.resolution_m, self.codes, self.log_odds)

    def state(self, p_world_m: FloatArray) -> npt.NDArray[np.uint8]:
        """Return the :class:`Occupancy` (n,) at points (n, 3)."""
        if not len(self.codes):
            return np.zeros(len(p_world_m), np.uint8)
        keys = keys_at(p_world_m, self.resolution_m)
        inside = inside_tree(keys)
        code = codes_of(np.where(inside[:, None], keys, 0))
        known = inside & _found_in(code, self.codes)
        place = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        state = np.where(self.log_odds[place] >= 0.0, Occupancy.OCCUPIED, Occupancy.FREE)
        return np.where(known, state, Occupancy.UNKNOWN).astype(np.uint8)

    def occupied_m(self) -> FloatArray:
        """Return the centres (n, 3) of the occupied voxels."""
        return centres_of(keys_of(self.codes[self.log_odds >= 0.0]), self.resolution_m)

    def insert_points(
        self, p_world_m: FloatArray, sensor_m: FloatArray, range_m: float = math.inf
    ) -> None:
        """Count one measurement: the voxels of points are hit, those on the way to them are free.

        A voxel that holds a point and is crossed as well counts as hit, each voxel once. A point
        beyond the range clears the way up to the range and hits nothing. Points that are not finite
        or outside the tree are left out.

        Args:
            p_world_m: (n, 3).
            sensor_m: (3,), from where they were seen.
            range_m: longest distance that is trusted.

        Raises:
            ValueError: the sensor is outside the tree.
        """
        seen = measurement(p_world_m, sensor_m, range_m, self.resolution_m)
        hit = distinct(codes_of(keys_at(seen.hits_m, self.resolution_m)))
        crossed = crossed_cells(seen.sensor_m, seen.ends_m, self.resolution_m)
        crossed = crossed[~_found_in(crossed, hit)]
        self._add(np.concatenate((hit, crossed)), np.repeat((HIT, MISS), (len(hit), len(crossed))))

    def insert_depth(
        self,
        depth_m: ImageArray,
        camera: CameraModel,
        T_world_camera: Transform,
        range_m: float = 20.0,
    ) -> None:
        """Count one depth picture.

        Depths (h, w) along the optical axis, 100 = no hit, as ``depth32`` is delivered.

        Raises:
            ValueError: the picture is not the camera's.
        """
        if depth_m.shape[:2] != (camera.height_px, camera.width_px):
            raise ValueError(f"the depth {depth_m.shape} is not one of the camera {camera.name}")
        points = depth_points(depth_m, pixel_rays(camera), T_world_camera)
        self.insert_points(points, T_world_camera.p_m, min(range_m, LONGEST_M))

    def insert_hits(self, codes: Codes) -> None:
        """Count one hit for voxels, each given once; the way to them stays unknown."""
        self._add(codes, np.full(len(codes), HIT))

    def put(self, codes: Codes, log_odds: npt.NDArray[np.float32]) -> None:
        """Set the log-odds of voxels, each given once.

        Raises:
            ConfigError: the map would have too many voxels.
        """
        found = self._grown(codes)
        found[np.searchsorted(self.codes, codes)] = log_odds
        self.log_odds = found

    def _add(self, codes: Codes, log_odds: npt.NDArray[np.float32]) -> None:
        """Add log-odds to voxels, each given once, within OctoMap's limits."""
        found = self._grown(codes)
        place = np.searchsorted(self.codes, codes)
        found[place] = np.clip(found[place] + log_odds.astype(np.float32), *CLAMPED_LOG_ODDS)
        self.log_odds = found

    def _grown(self, codes: Codes) -> npt.NDArray[np.float32]:
        """Take voxels in that are not known yet; return the log-odds of all, zero for new ones."""
        every = distinct(np.concatenate((self.codes, codes)))
        if len(every) > MOST_VOXELS:
            raise ConfigError(
                f"the map would have {len(every):,} voxels, at most {MOST_VOXELS:,}: go coarser"
            )
        found = np.zeros(len(every), np.float32)
        found[np.searchsorted(every, self.codes)] = self.log_odds
        self.codes = every
        return found


def _found_in(codes: Codes, ordered: Codes) -> npt.NDArray[np.bool_]:
    """Return which codes (n,) are among ascending ones."""
    if not len(ordered):
        return np.zeros(len(codes), bool)
    place = np.minimum(np.searchsorted(ordered, codes), len(ordered) - 1)
    return np.asarray(ordered[place] == codes)
