"""Occupancy map of a box that grows while pictures come, and what changed in it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.interfaces.voxel_box import check_box, keys_at, keys_within
from vil_bridge.interfaces.voxels import MapSnapshot, Occupancy, VoxelChanges
from vil_bridge.protocols.octomap import CLAMPED_LOG_ODDS, codes_of, write_binary
from vil_bridge.world.occupancy.marks import crossed_marks
from vil_bridge.world.occupancy.measurement import measurement
from vil_bridge.world.occupancy.occupancy_map import HIT, MISS, OccupancyMap

_MOST_CHANGES: Final = 2_000_000
"""Changed voxels that are remembered for readers that are behind."""
_MOST_MEASUREMENTS: Final = 10_000
"""Measurements that changed a voxel, likewise."""

_Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """Changes by one measurement: places (n,) in the box, ascending, and their new states."""

    number: int
    places: npt.NDArray[np.int64]
    states: npt.NDArray[np.uint8]


class LiveMap:
    """Voxels of a box with log-odds of being occupied, world ENU.

    Any thread (implements ``VoxelMap``).

    Memory and the time of a measurement are bounded by the box and the range; voxels outside it
    stay unknown. Inside, the same measurements give what :class:`OccupancyMap` has.

    Args:
        resolution_m: side of a voxel.
        low_m: lowest corner (3,) of the box.
        high_m: highest corner (3,).
        range_m: longest distance that is trusted.

    Raises:
        ConfigError: the box is empty, has too many voxels, or reaches beyond the tree.
    """

    def __init__(
        self, resolution_m: float, low_m: FloatArray, high_m: FloatArray, range_m: float
    ) -> None:
        self.resolution_m: Final = resolution_m
        self.range_m: Final = range_m
        check_box(resolution_m, low_m, high_m)
        self._low, last = keys_within(low_m, high_m, resolution_m)
        self._shape: Final = last - self._low + 1
        self._log_odds = self._unknown()
        self._lock = threading.Lock()
        self._changes: deque[_Change] = deque()
        self._remembered = 0
        self._number = self._t_ns = self._known = self._occupied = 0
        self._since = 0
        """Number from which on all changes are remembered."""

    @property
    def number(self) -> int:
        """Number of the newest measurement or reset, 0 = none."""
        return self._number

    @property
    def t_ns(self) -> int:
        """Bridge time of the newest measurement, 0 = none."""
        return self._t_ns

    @property
    def counts(self) -> tuple[int, int]:
        """Known voxels, and the occupied ones among them."""
        return self._known, self._occupied

    def insert_points(self, p_world_m: FloatArray, sensor_m: FloatArray, t_ns: int) -> None:
        """Count one measurement as :meth:`OccupancyMap.insert_points` does.

        Raises:
            ValueError: the sensor is outside the tree.
        """
        resolution_m = self.resolution_m
        seen = measurement(p_world_m, sensor_m, self.range_m, resolution_m)
        low, shape = self._around(seen.sensor_m)
        if not shape.all():
            return
        marks = crossed_marks(seen.sensor_m, seen.ends_m, resolution_m, low, shape)
        hits = keys_at(seen.hits_m, resolution_m) - low
        x, y, z = hits[((hits >= 0) & (hits < shape)).all(axis=1)].T
        marks[x, y, z] = 2
        marked = np.flatnonzero(marks)
        added = np.where(marks.ravel()[marked] == 2, HIT, MISS)
        x, y, z = np.unravel_index(marked, marks.shape)
        dx, dy, dz = low - self._low
        places = np.ravel_multi_index((x + dx, y + dy, z + dz), tuple(self._shape.tolist()))
        with self._lock:
            self._add(np.asarray(places, np.int64), added, t_ns)

    def reset(self) -> None:
        """Forget all voxels; readers get a snapshot."""
        empty = self._unknown()
        with self._lock:
            self._log_odds = empty
            self._changes.clear()
            self._remembered = self._known = self._occupied = 0
            self._number += 1
            self._since = self._number

    def occupancy_map(self) -> OccupancyMap:
        """Return the known voxels now."""
        return self._copied()[0]

    def snapshot(self) -> MapSnapshot:
        """Return the whole map as a binary tree."""
        found, number, t_ns = self._copied()
        return MapSnapshot(number, t_ns, write_binary(found.tree()))

    def changes(self, since: int) -> VoxelChanges | None:
        """Return what changed since a number; None = it is too long ago, or the map was reset."""
        with self._lock:
            if not self._since <= since <= self._number:
                return None
            parts = [change for change in self._changes if change.number > since]
            number = self._number
            t_ns = self._t_ns
        places = np.concatenate([np.zeros(0, np.int64), *(part.places for part in reversed(parts))])
        states = np.concatenate([np.zeros(0, np.uint8), *(part.states for part in reversed(parts))])
        places, newest = np.unique(places, return_index=True)
        return VoxelChanges(
            since, number, t_ns, self._keys(places).astype(np.uint16), states[newest]
        )

    def _add(
        self, places: npt.NDArray[np.int64], log_odds: npt.NDArray[np.float32], t_ns: int
    ) -> None:
        """Add log-odds to places, each given once, within OctoMap's limits."""
        before = self._log_odds[places]
        known = ~np.isnan(before)
        after = np.clip(np.where(known, before, np.float32(0.0)) + log_odds, *CLAMPED_LOG_ODDS)
        self._log_odds[places] = after
        was = known & (before >= 0.0)
        now = after >= 0.0
        self._known += len(known) - int(np.count_nonzero(known))
        self._occupied += int(np.count_nonzero(now)) - int(np.count_nonzero(was))
        self._number += 1
        self._t_ns = t_ns
        changed = ~known | (was != now)
        if changed.any():
            self._remember(places[changed], now[changed])

    def _remember(self, places: npt.NDArray[np.int64], occupied: BoolArray) -> None:
        """Take the changes of the newest measurement in, and forget the oldest ones."""
        states = np.where(occupied, Occupancy.OCCUPIED, Occupancy.FREE).astype(np.uint8)
        self._changes.append(_Change(self._number, places, states))
        self._remembered += len(states)
        while (self._remembered > _MOST_CHANGES and len(self._changes) > 1) or len(
            self._changes
        ) > _MOST_MEASUREMENTS:
            oldest = self._changes.popleft()
            self._remembered -= len(oldest.states)
            self._since = oldest.number

    def _around(self, sensor_m: npt.NDArray[np.float32]) -> tuple[_Keys, _Keys]:
        """Return the lowest key and the cells of the part of the box within the range, one more
        on all sides.
        """
        centre = keys_at(sensor_m[None], self.resolution_m)[0]
        cells = int(self.range_m / self.resolution_m) + 2
        low = np.maximum(self._low, centre - cells)
        return low, np.maximum(np.minimum(self._low + self._shape, centre + cells + 1) - low, 0)

    def _copied(self) -> tuple[OccupancyMap, int, int]:
        with self._lock:
            log_odds = self._log_odds.copy()
            number = self._number
            t_ns = self._t_ns
        places = np.flatnonzero(~np.isnan(log_odds))
        codes = codes_of(self._keys(places))
        order = np.argsort(codes)
        made = OccupancyMap(self.resolution_m)
        made.codes = codes[order]
        made.log_odds = log_odds[places[order]]
        return made, number, t_ns

    def _keys(self, places: npt.NDArray[np.int64]) -> _Keys:
        """Return the keys (n, 3) of places in the box."""
        return np.stack(np.unravel_index(places, tuple(self._shape.tolist())), axis=1) + self._low

    def _unknown(self) -> npt.NDArray[np.float32]:
        return np.full(int(self._shape.prod()), np.nan, np.float32)
