"""Keys of voxels as OctoMap counts them, and boxes of voxels that are bounded in their memory."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import BoolArray, FloatArray

DEPTH: Final = 16
"""Levels of a tree below its root."""
MIDDLE: Final = 1 << (DEPTH - 1)
"""Key of the voxel whose lower corner is the origin."""
MOST_VOXELS: Final = 30_000_000
"""Voxels of a box, four bytes each."""

_Keys = npt.NDArray[np.int64]


def keys_at(p_m: npt.NDArray[np.floating], resolution_m: float) -> npt.NDArray[np.int64]:
    """Return the keys (n, 3) of the voxels that hold points (n, 3).

    Outside 0..65535 = outside the tree.
    """
    return np.asarray(np.floor(p_m.astype(np.float64) * (1.0 / resolution_m)), np.int64) + MIDDLE


def inside_tree(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which keys (n, 3) a tree has."""
    return np.asarray(((keys >= 0) & (keys < 2 * MIDDLE)).all(axis=1))


def check_box(resolution_m: float, low_m: FloatArray, high_m: FloatArray) -> None:
    """Check that a map can have a box.

    Raises:
        ConfigError: the box is empty, has too many voxels, or reaches beyond the tree.
    """
    if not (np.asarray(low_m) < np.asarray(high_m)).all():
        raise ConfigError(
            f"the box from {low_m} to {high_m} is empty: give its lowest corner first"
        )
    low, last = keys_within(low_m, high_m, resolution_m)
    inside: BoolArray = inside_tree(np.stack((low, last)))
    if not inside.all():
        raise ConfigError(
            f"the box reaches beyond the {resolution_m * MIDDLE:g} m of a tree: go "
            "coarser or nearer"
        )
    if (voxels := float(np.prod(last - low + 1, dtype=np.float64))) > MOST_VOXELS:
        raise ConfigError(
            f"the box has {voxels:.3g} voxels, at most {MOST_VOXELS:.3g}: go coarser, or "
            "make it smaller"
        )


def keys_within(low_m: FloatArray, high_m: FloatArray, resolution_m: float) -> tuple[_Keys, _Keys]:
    """Return the keys of the lowest and the highest voxel of a box.

    One that only touches its end is left out.
    """
    corners = np.stack((np.asarray(low_m, np.float64), np.asarray(high_m, np.float64)))
    low = keys_at(corners[:1] + 1e-6 * resolution_m, resolution_m)[0]
    return low, np.maximum(keys_at(corners[1:] - 1e-6 * resolution_m, resolution_m)[0], low)
