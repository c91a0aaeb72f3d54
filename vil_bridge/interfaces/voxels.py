"""Voxels of occupancy maps as outputs and readers get them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt


class Occupancy(IntEnum):
    """State of a voxel; unknown is not free."""

    UNKNOWN = 0
    FREE = 1
    OCCUPIED = 2


@dataclass(frozen=True, slots=True, eq=False)
class VoxelChanges:
    """Voxels whose state changed between two numbers of a map, each once with its newest state.

    Attributes:
        since: number of the map before. number: of the map after.
        t_ns: bridge time of the newest picture in it; 0 = none yet.
        keys: (n, 3), of OctoMap. states: uint8 (n,), :class:`Occupancy`.
    """

    since: int
    number: int
    t_ns: int
    keys: npt.NDArray[np.uint16]
    states: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class MapSnapshot:
    """A whole map.

    Attributes:
        number: rises with each picture. t_ns: bridge time of the newest picture in it; 0 = none
            yet.
        tree: OctoMap's binary file (``.bt``).
    """

    number: int
    t_ns: int
    tree: bytes


class VoxelMap(Protocol):
    """A map that grows while the bridge runs; any thread."""

    @property
    def number(self) -> int:
        """Number of the newest change, 0 = none."""
        ...

    def snapshot(self) -> MapSnapshot:
        """Return the whole map; takes up to seconds."""
        ...

    def changes(self, since: int) -> VoxelChanges | None:
        """Return what changed since a number; None = too long ago, take a snapshot."""
        ...
