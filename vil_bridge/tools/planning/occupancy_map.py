"""Occupancy of space in three states, from measured points or from a scene, as OctoMap counts it."""

from __future__ import annotations

import math
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ConfigError, ProtocolError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray, ImageArray
from vil_bridge.protocols.octomap import (
    CLAMPED_LOG_ODDS,
    Codes,
    Octree,
    centres_of,
    codes_of,
    distinct,
    keys_at,
    keys_of,
    octree,
    read_octree,
    write_binary,
    write_full,
)
from vil_bridge.tools.planning.rays import crossed_cells
from vil_renderer.embedded.geometry.point_cloud import Cloud, write_ply

HIT: Final = np.float32(math.log(0.7 / 0.3))
MISS: Final = np.float32(math.log(0.4 / 0.6))
MOST_VOXELS: Final = 30_000_000
"""Voxels of a map; while it grows it takes about 2 GB."""
_FAR_M: Final = 99.9
"""Depths from here on say that nothing was hit."""


class Occupancy(IntEnum):
    """State of a voxel; unknown is not free."""

    UNKNOWN = 0
    FREE = 1
    OCCUPIED = 2


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
        inside = _inside(keys)
        code = codes_of(np.where(inside[:, None], keys, 0))
        known = inside & _found_in(code, self.codes)
        place = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        state = np.where(self.log_odds[place] >= 0.0, Occupancy.OCCUPIED, Occupancy.FREE)
        return np.where(known, state, Occupancy.UNKNOWN).astype(np.uint8)

    def occupied_m(self) -> FloatArray:
        """Return the centres (n, 3) of the occupied voxels."""
        return centres_of(keys_of(self.codes[self.log_odds >= 0.0]), self.resolution_m)

    def insert_points(self, p_world_m: FloatArray, sensor_m: FloatArray, range_m: float = math.inf) -> None:
        """Count one measurement: the voxels of points are hit, those on the way to them are free.

        A voxel that holds a point and is crossed as well counts as hit, each voxel once. A point beyond the range
        clears the way up to the range and hits nothing. Points that are not finite or outside the tree are left out.

        Args:
            p_world_m: (n, 3).
            sensor_m: (3,), from where they were seen.
            range_m: longest distance that is trusted.

        Raises:
            ValueError: the sensor is outside the tree.
        """
        sensor = np.asarray(sensor_m, np.float32)
        if not (np.isfinite(sensor).all() and _inside(keys_at(sensor[None], self.resolution_m))[0]):
            raise ValueError(f"the sensor at {sensor_m} is outside the map")
        points = np.asarray(p_world_m, np.float32)
        points = points[np.isfinite(points).all(axis=1)]
        way = points - sensor
        distance = np.sqrt((way * way).sum(axis=1))
        far = distance > np.float32(range_m)
        ends = points.copy()
        if far.any():
            ends[far] = sensor + way[far] / distance[far, None] * np.float32(range_m)
        inside = _inside(keys_at(ends, self.resolution_m))
        hit = distinct(codes_of(keys_at(points[inside & ~far], self.resolution_m)))
        crossed = crossed_cells(sensor, ends[inside], self.resolution_m)
        crossed = crossed[~_found_in(crossed, hit)]
        self._add(np.concatenate((hit, crossed)), np.repeat((HIT, MISS), (len(hit), len(crossed))))

    def insert_depth(
        self, depth_m: ImageArray, camera: CameraModel, T_world_camera: Transform, range_m: float = 20.0
    ) -> None:
        """Count one depth picture: depths (h, w) along the optical axis, 100 = no hit, as ``depth32`` is delivered.

        Raises:
            ValueError: the picture is not the camera's, or the camera has a distortion.
        """
        if depth_m.shape[:2] != (camera.height_px, camera.width_px) or camera.distortion is not None:
            raise ValueError(f"the depth {depth_m.shape} is not one of the ideal camera {camera.name}")
        fx, fy, cx, cy = camera.intrinsics_px
        u, v = np.meshgrid(np.arange(camera.width_px), np.arange(camera.height_px))
        z = depth_m.reshape(camera.height_px, camera.width_px).astype(np.float64)
        z = np.where(z >= _FAR_M, 1000.0, z)
        seen = z > 0.0
        rays = np.stack(((u - cx) / fx, (v - cy) / fy, np.ones(z.shape)), axis=-1)[seen]
        places_m = np.asarray(z[seen][:, None] * rays, np.float64)
        self.insert_points(T_world_camera.apply(places_m), T_world_camera.p_m, min(range_m, _FAR_M))

    def insert_hits(self, codes: Codes) -> None:
        """Count one hit for voxels, each given once; the way to them stays unknown."""
        self._add(codes, np.full(len(codes), HIT))

    def _add(self, codes: Codes, log_odds: npt.NDArray[np.float32]) -> None:
        """Add log-odds to voxels, each given once, within OctoMap's limits."""
        every = distinct(np.concatenate((self.codes, codes)))
        if len(every) > MOST_VOXELS:
            raise ConfigError(f"the map would have {len(every):,} voxels, at most {MOST_VOXELS:,}: go coarser")
        found = np.zeros(len(every), np.float32)
        found[np.searchsorted(every, self.codes)] = self.log_odds
        place = np.searchsorted(every, codes)
        found[place] = np.clip(found[place] + log_odds.astype(np.float32), *CLAMPED_LOG_ODDS)
        self.codes, self.log_odds = every, found


def read_map(path: Path) -> OccupancyMap:
    """Return the map of a ``.ot`` or ``.bt`` file.

    Raises:
        ConfigError: it cannot be read; the message names the file.
    """
    try:
        return OccupancyMap.of_tree(read_octree(path.read_bytes()))
    except OSError as exc:
        raise ConfigError(f"the map {path} cannot be read: {exc.strerror}") from exc
    except ProtocolError as exc:
        raise ConfigError(f"{path}: {exc}") from exc


def check_map_file(path: Path) -> None:
    """Check the suffix of a file before the work begins.

    Raises:
        ConfigError: a map is not written so.
    """
    if path.suffix not in (".ot", ".bt", ".ply"):
        raise ConfigError(f"{path}: a map is written as .ot, .bt or .ply, choose one of these suffixes")


def write_map(path: Path, found: OccupancyMap) -> None:
    """Write a map: ``.ot``, ``.bt``, or the centres of its occupied voxels as ``.ply``.

    Raises:
        ConfigError: another suffix.
        OSError: it cannot be written.
    """
    check_map_file(path)
    if path.suffix == ".ply":
        points = found.occupied_m().astype(np.float32)
        ids = np.zeros(len(points), np.uint16)
        write_ply(path, Cloud(points, np.zeros_like(points), ids, ids))
        return
    path.write_bytes((write_full if path.suffix == ".ot" else write_binary)(found.tree()))


def _found_in(codes: Codes, ordered: Codes) -> npt.NDArray[np.bool_]:
    """Return which codes (n,) are among ascending ones."""
    if not len(ordered):
        return np.zeros(len(codes), bool)
    place = np.minimum(np.searchsorted(ordered, codes), len(ordered) - 1)
    return np.asarray(ordered[place] == codes)


def _inside(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return np.asarray(((keys >= 0) & (keys < 65536)).all(axis=1))
