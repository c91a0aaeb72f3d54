"""An occupancy map of a running bridge, followed by its feed."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Trajectory
from vil_bridge.interfaces.voxels import MapSnapshot, Occupancy, VoxelChanges
from vil_bridge.protocols.octomap import (
    CLAMPED_LOG_ODDS,
    centres_of,
    codes_of,
    keys_of,
    read_octree,
)
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap
from vil_simulation.planning.free_space import FreeSpace

_STEP_M: Final = 0.05
_CHUNK: Final = 512


class LiveWorld:
    """States of the voxels as the messages of a feed say.

    Attributes:
        found: the map now.
    """

    def __init__(self, resolution_m: float) -> None:
        self.found = OccupancyMap(resolution_m)

    def apply(self, message: MapSnapshot | VoxelChanges) -> FloatArray:
        """Take a message over; return the centres (n, 3) of voxels that are occupied since then.

        Raises:
            ProtocolError: the tree of a snapshot is malformed.
        """
        if isinstance(message, MapSnapshot):
            before = self.found
            self.found = OccupancyMap.of_tree(read_octree(message.tree))
            occupied = self.found.occupied_m()
            return np.asarray(occupied[before.state(occupied) != Occupancy.OCCUPIED])
        occupied = message.states == Occupancy.OCCUPIED
        self.found.put(
            codes_of(message.keys), np.where(occupied, CLAMPED_LOG_ODDS[1], CLAMPED_LOG_ODDS[0])
        )
        return centres_of(keys_of(codes_of(message.keys[occupied])), self.found.resolution_m)


def blocked_s(
    curve: Trajectory, from_s: float, obstacles_m: FloatArray, space: FreeSpace
) -> float | None:
    """Return when a flight comes too near to obstacles, from an instant on; None = it stays away.

    Args:
        curve: the flight.
        from_s: instant in it.
        obstacles_m: centres (n, 3) of voxels.
        space: says how near is too near.
    """
    if from_s >= curve.duration_s or not len(obstacles_m):
        return None
    coarse = curve.at(np.linspace(from_s, curve.duration_s, 200)).p_world_m
    length_m = float(np.linalg.norm(np.diff(coarse, axis=0), axis=1).sum())
    times = np.linspace(from_s, curve.duration_s, max(2, int(1.5 * length_m / _STEP_M)))
    places = curve.at(times).p_world_m
    reach_m = space.reach_m
    low = places.min(axis=0) - reach_m
    high = places.max(axis=0) + reach_m
    near = obstacles_m[((obstacles_m >= low) & (obstacles_m <= high)).all(axis=1)]
    hit = np.zeros(len(times), bool)
    for first in range(0, len(near), _CHUNK):
        away = places[:, None] - near[None, first : first + _CHUNK]
        hit |= ((away * away).sum(axis=2) < reach_m**2).any(axis=1)
    return float(times[hit.argmax()]) if hit.any() else None
