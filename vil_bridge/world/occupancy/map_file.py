"""Occupancy maps as files.

OctoMap's ``.ot`` and ``.bt``, and occupied voxels as points in ``.ply``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.errors import ConfigError, ProtocolError
from vil_bridge.protocols.octomap import read_octree, write_binary, write_full
from vil_bridge.protocols.ply import ply_bytes
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap

MAP_SUFFIXES: Final = (".ot", ".bt", ".ply")


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
    if path.suffix not in MAP_SUFFIXES:
        raise ConfigError(
            f"{path}: a map is written as .ot, .bt or .ply, choose one of these suffixes"
        )


def write_map(path: Path, found: OccupancyMap) -> None:
    """Write a map: ``.ot``, ``.bt``, or the centres of its occupied voxels as ``.ply``.

    Raises:
        ConfigError: another suffix.
        OSError: it cannot be written.
    """
    check_map_file(path)
    path.write_bytes(map_bytes(found, path.suffix))


def map_bytes(found: OccupancyMap, suffix: str) -> bytes:
    """Return a map as a file with one of :data:`MAP_SUFFIXES`."""
    if suffix == ".ply":
        points = found.occupied_m().astype(np.float32)
        return ply_bytes([(axis, "<f4") for axis in "xyz"], list(points.T))
    return (write_full if suffix == ".ot" else write_binary)(found.tree())
