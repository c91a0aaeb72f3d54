"""Free space for a vehicle.

An occupancy map whose obstacles are inflated by the vehicle's radius.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.matrices import length
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.interfaces.voxel_box import MIDDLE, keys_at
from vil_bridge.protocols.octomap import keys_of
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap

MOST_CELLS: Final = 4_000_000_000
"""Cells of a free space, one bit each."""


class FreeSpace:
    """Cells of a box in which the centre of a vehicle may be.

    A cell is blocked when the centre of a blocked voxel is within the radius plus a voxel's
    diagonal: then no surface comes nearer than the radius to any point of a free cell.

    Attributes:
        reach_m: distance from the centre of a blocked voxel within which a cell is blocked.

    Args:
        found: the map.
        radius_m: of the vehicle, margins included.
        low_m: lowest corner (3,) of the box for the vehicle's centre; obstacles outside count as
            well.
        high_m: highest corner (3,).
        through_unknown: fly through voxels that the map does not know; else they are obstacles.

    Raises:
        ConfigError: too many cells, or an empty box.
    """

    def __init__(
        self,
        found: OccupancyMap,
        radius_m: float,
        low_m: FloatArray,
        high_m: FloatArray,
        *,
        through_unknown: bool,
    ) -> None:
        self.resolution_m: Final = found.resolution_m
        self.radius_m: Final = radius_m
        self.low_m: Final = np.asarray(low_m, np.float64)
        self.high_m: Final = np.asarray(high_m, np.float64)
        if not (self.low_m < self.high_m).all():
            raise ConfigError(
                f"the box from {low_m} to {high_m} is empty: give its lowest corner first"
            )
        self._reach: Final = radius_m / self.resolution_m + math.sqrt(3.0)
        self.reach_m: Final = self._reach * self.resolution_m
        border = int(self._reach)
        first, last = keys_at(np.stack((self.low_m, self.high_m)), self.resolution_m)
        self._first: Final = first - border
        self._shape: Final = last - first + 1 + 2 * border
        if (cells := float(np.prod(self._shape, dtype=np.float64))) > MOST_CELLS:
            raise ConfigError(
                f"{cells:.3g} cells are too many (at most {MOST_CELLS:.3g}): go coarser or nearer"
            )
        self._bounds: Final = (self.low_m.tolist(), self.high_m.tolist(), self._first.tolist())
        self._per_m: Final = 1.0 / self.resolution_m
        self._blocked: Final = self._inflated(found, through_unknown)

    def free(self, p_world_m: FloatArray) -> BoolArray:
        """Return whether the vehicle has room (n,) with its centre at points (n, 3).

        Outside the box it has none.
        """
        inside: BoolArray = np.asarray(
            ((p_world_m >= self.low_m) & (p_world_m <= self.high_m)).all(axis=1)
        )
        if not inside.all():
            p_world_m = np.where(inside[:, None], p_world_m, self.low_m)
        x, y, z = (keys_at(p_world_m, self.resolution_m) - self._first).T
        return np.asarray(
            inside & ((self._blocked[x, y, z >> 3] >> (z & 7).astype(np.uint8)) & 1 == 0)
        )

    def free_at(self, x_m: float, y_m: float, z_m: float) -> bool:
        """Return :meth:`free` of one point, without arrays: a search asks for thousands."""
        place = []
        for value, low, high, first in zip((x_m, y_m, z_m), *self._bounds, strict=True):
            if not low <= value <= high:
                return False
            place.append(math.floor(value * self._per_m) + MIDDLE - first)
        x, y, z = place
        return not int(self._blocked[x, y, z >> 3]) >> (z & 7) & 1

    def line_free(self, start_m: FloatArray, end_m: FloatArray) -> bool:
        """Return whether the vehicle passes from one point (3,) to another, looked at every half
        voxel.
        """
        way = end_m - start_m
        count = int(2.0 * length(way) / self.resolution_m) + 2
        return bool(self.free(start_m + _shares(count) * way).all())

    def _inflated(self, found: OccupancyMap, through_unknown: bool) -> npt.NDArray[np.uint8]:
        """Return blocked cells (x, y, z / 8), one bit each, lowest z in the lowest bit."""
        marked = np.flatnonzero((found.log_odds >= 0.0) == through_unknown)
        keys = keys_of(found.codes[marked]).astype(np.int64) - self._first
        keys = keys[((keys >= 0) & (keys < self._shape)).all(axis=1)].astype(np.int32)
        keys = keys[np.argsort(keys[:, 0], kind="stable")]
        width, depth, height = (int(n) for n in self._shape)
        starts = np.searchsorted(keys[:, 0], np.arange(width + 1))
        blocked = np.zeros((width, depth, (height + 7) // 8), np.uint8)
        offsets = _ball(self._reach)
        for x in range(width):
            slab = np.full((depth, height), not through_unknown)
            part = keys[starts[x] : starts[x + 1]]
            slab[part[:, 1], part[:, 2]] = through_unknown
            if slab.any():
                _add_slab(blocked, x, _raised(slab, int(self._reach)), offsets)
        return blocked


@lru_cache(maxsize=256)
def _shares(count: int) -> FloatArray:
    """Return numbers evenly from 0 to 1, (count, 1)."""
    return np.linspace(0.0, 1.0, count)[:, None]


def _ball(reach: float) -> list[tuple[int, int, int]]:
    """Return offsets x and y of columns within reach, and how far each goes up and down, in
    cells.
    """
    most = int(reach)
    sides = range(-most, most + 1)
    return [
        (x, y, int(math.sqrt(reach * reach - x * x - y * y)))
        for x in sides
        for y in sides
        if x * x + y * y <= reach**2
    ]


def _raised(slab: BoolArray, most: int) -> list[npt.NDArray[np.uint8]]:
    """Return a slab (y, z) thickened by 0 to ``most`` cells up and down, packed along z."""
    grown = slab.copy()
    packed = [np.packbits(grown, axis=1, bitorder="little")]
    for step in range(1, most + 1):
        grown[:, step:] |= slab[:, :-step]
        grown[:, :-step] |= slab[:, step:]
        packed.append(np.packbits(grown, axis=1, bitorder="little"))
    return packed


def _add_slab(
    blocked: npt.NDArray[np.uint8],
    x: int,
    raised: list[npt.NDArray[np.uint8]],
    offsets: list[tuple[int, int, int]],
) -> None:
    """Mark the cells around one slab of obstacles."""
    depth = blocked.shape[1]
    for dx, dy, up in offsets:
        if 0 <= x + dx < len(blocked):
            low = max(dy, 0)
            high = depth + min(dy, 0)
            blocked[x + dx, low:high] |= raised[up][low - dy : high - dy]
