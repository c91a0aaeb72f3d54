"""Occupancy maps in the status, the metrics and ``vil-bridge top``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from vil_bridge.core.measure import Measure, Sample

__all__ = ["MapView", "View", "metrics", "rows"]

_VOXELS: Final = Measure("map_voxels", "Known voxels of the occupancy map.")
_PICTURES: Final = Measure("map_pictures", "Depth pictures that the map took.", counts=True)


@dataclass(frozen=True, slots=True)
class MapView:
    """An occupancy map now.

    Attributes:
        min_m, max_m: corners of its box, world. number: rises with each picture that it takes and
            each reset.
        t_ns: bridge time of the newest picture in it; 0 = none yet.
        free, occupied: known voxels. pictures: that it took. superseded: pictures overtaken by
            newer ones.
        failed: pictures that could not be used. insert_ms: time that one takes, a running mean.
        problem: why it takes none any more; empty = it does.
    """

    cameras: tuple[str, ...]
    min_m: tuple[float, float, float]
    max_m: tuple[float, float, float]
    resolution_m: float
    number: int
    t_ns: int
    free: int
    occupied: int
    pictures: int
    superseded: int
    failed: int
    insert_ms: float
    problem: str = ""


View = dict[str, MapView]
"""By name."""


def metrics(maps: View) -> Iterator[tuple[Measure, tuple[str, ...], list[Sample]]]:
    """Yield each metric with the names of its labels and its samples."""
    voxels: list[Sample] = []
    for name, found in maps.items():
        voxels.append(((name, "free"), found.free))
        voxels.append(((name, "occupied"), found.occupied))
    yield _VOXELS, ("map", "state"), voxels
    yield _PICTURES, ("map",), [((name,), found.pictures) for name, found in maps.items()]


def rows(maps: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row of a terminal for each map of a status as JSON: kind, name, state, note."""
    for name, found in maps.items():
        note = found["problem"] or f"{found['occupied']:,} occupied, {found['free']:,} free voxels"
        yield "map", name, "", note
